//! Questions made of passages alone, by rules: for tuning and distillation where nobody has asked yet.

mod spans;
mod templates;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use dpr_core::random::SplitMix;
use serde::{Deserialize, Serialize};

use super::MineError;
use super::cloze::spread;
use super::sentences::sentences;
use dpr_data::{
    Answers, DataError, Passage, Qrels, QrelsLayout, Question, QuestionLayout, TrainingContext, TrainingItem,
    TrainingWriter, stream_passages, write_qrels, write_questions, write_training,
};
use spans::{Span, capitals, core, spans};

/// The way in which a question is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// The title of an article asks for its first passage.
    Title,
    /// A sentence from which a date, a number or a name was taken asks for its passage, which keeps the whole sentence.
    Cloze,
    /// A question word in the place of that date, number or name (cloze translation by rules; Lewis et al. 2019,
    /// "Unsupervised question answering by cloze translation"). The rules know English.
    Template,
    /// A sentence that names another article asks, without that name, for the article's first passage (as the links of
    /// Chang et al. 2020, "Pre-training tasks for embedding-based large-scale retrieval").
    Anchor,
}

impl QuestionKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Title, Self::Cloze, Self::Template, Self::Anchor];
}

/// Which questions to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerateOptions {
    /// The kinds; a passage has one question of each at most.
    pub kinds: Vec<QuestionKind>,
    /// Passages whose sentences are used, at most, drawn at random from the whole corpus. An anchor may ask for any
    /// passage.
    pub limit: Option<usize>,
    /// Decides the passages, the sentences and what is asked for.
    pub seed: u64,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self { kinds: QuestionKind::ALL.to_vec(), limit: None, seed: 12345 }
    }
}

/// Files to write.
#[derive(Clone, Copy, Debug)]
pub struct GeneratedFiles<'a> {
    /// DPR training json, without negatives.
    pub training: &'a Path,
    /// The questions as BEIR queries, and the passage of each as BEIR qrels.
    pub judged: Option<(&'a Path, &'a Path)>,
}

/// Counts of the questions made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GenerateReport {
    /// Passages looked at.
    pub passages: usize,
    /// Questions, by kind.
    pub questions: BTreeMap<QuestionKind, usize>,
}

/// Titles of articles, each with the number of the article's first passage.
#[derive(Default)]
struct Titles {
    /// First passages by title.
    whole: HashMap<String, usize>,
    /// First passages by the title without its disambiguation, "Mercury" for "Mercury (planet)"; `None` where two
    /// articles share it.
    called: HashMap<String, Option<usize>>,
}

/// A sentence that names another article.
struct Anchor {
    question: String,
    answer: String,
}

/// Makes questions of the passages of `corpus` by rules and writes them with their passages. The same options make the
/// same questions. The corpus is read up to four times; memory grows with its titles, with the sentences of anchors
/// (one an article) and, where judgements are written, with the questions.
///
/// # Errors
/// [`MineError::NoQuestions`] when no rule fits any passage, [`MineError::Data`] for a file that cannot be read or
/// written. Training data takes its place last: after an error, what was there before is unchanged.
pub fn generate(
    corpus: &Path,
    files: GeneratedFiles<'_>,
    options: &GenerateOptions,
) -> Result<GenerateReport, MineError> {
    let titles = Titles::read(corpus)?;
    let chosen = match options.limit {
        Some(limit) => Some(spread(stream_passages(corpus)?.count(), limit, options.seed)),
        None => None,
    };
    let is_chosen =
        |number: usize| chosen.as_ref().is_none_or(|chosen| chosen.binary_search(&number).is_ok());
    let makes = |kind: QuestionKind| options.kinds.contains(&kind);
    let mut report = GenerateReport::default();
    let mut judged = files.judged.map(|_| Judged::default());
    write_training(files.training, |writer| {
        // Sentences that name other articles, by the number of the passage that they ask for.
        let mut anchors: HashMap<usize, Anchor> = HashMap::new();
        if makes(QuestionKind::Anchor) {
            for (number, passage) in stream_passages(corpus)?.enumerate() {
                let passage = passage?;
                if !is_chosen(number) {
                    continue;
                }
                if let Some((other, anchor)) = titles.anchor(&passage, number, options.seed) {
                    anchors.entry(other).or_insert(anchor);
                }
            }
        }
        let mut out = Out { writer, judged: judged.as_mut(), counts: &mut report.questions };
        for (number, passage) in stream_passages(corpus)?.enumerate() {
            let passage = passage?;
            if let Some(Anchor { question, answer }) = anchors.remove(&number) {
                out.write(QuestionKind::Anchor, question, Some(answer), &passage)?;
            }
            if !is_chosen(number) {
                continue;
            }
            report.passages += 1;
            if makes(QuestionKind::Title) && titles.is_first(&passage, number) {
                out.write(QuestionKind::Title, passage.title.trim().to_owned(), None, &passage)?;
            }
            for kind in [QuestionKind::Cloze, QuestionKind::Template].into_iter().filter(|kind| makes(*kind))
            {
                if let Some((question, answer)) = question_of(&passage, number, kind, options.seed) {
                    out.write(kind, question, Some(answer), &passage)?;
                }
            }
        }
        if out.writer.count() == 0 {
            return Err(MineError::NoQuestions { path: corpus.into(), passages: report.passages });
        }
        if let Some(((queries, qrels), judged)) = files.judged.zip(judged.as_ref()) {
            write_qrels(qrels, QrelsLayout::Beir, &judged.qrels)?;
            write_questions(queries, QuestionLayout::Beir, &judged.questions)?;
        }
        Ok(())
    })?;
    Ok(report)
}

/// Questions with the passage of each.
#[derive(Default)]
struct Judged {
    questions: Vec<Question>,
    qrels: Qrels,
}

/// Writer of questions: training items, judgements where they are asked for, and counts.
struct Out<'a, 'b> {
    writer: &'a mut TrainingWriter<'b>,
    judged: Option<&'a mut Judged>,
    counts: &'a mut BTreeMap<QuestionKind, usize>,
}

impl Out<'_, '_> {
    fn write(
        &mut self,
        kind: QuestionKind,
        question: String,
        answer: Option<String>,
        passage: &Passage,
    ) -> Result<(), DataError> {
        let answers: Vec<String> = answer.into_iter().collect();
        if let Some(judged) = &mut self.judged {
            let id = format!("{kind:?}-{}", self.writer.count()).to_lowercase();
            judged.qrels.insert(&id, &passage.id, 1);
            let (text, answers) = (question.clone(), Answers::Texts(answers.clone()));
            judged.questions.push(Question { id, text, answers, gold: None });
        }
        let positive = TrainingContext {
            title: passage.title.clone(),
            text: passage.text.clone(),
            score: None,
            passage_id: Some(passage.id.clone()),
        };
        *self.counts.entry(kind).or_default() += 1;
        self.writer.write(&TrainingItem {
            question,
            answers,
            positive_ctxs: vec![positive],
            ..TrainingItem::default()
        })
    }
}

impl Titles {
    fn read(corpus: &Path) -> Result<Self, MineError> {
        let mut titles = Self::default();
        for (number, passage) in stream_passages(corpus)?.enumerate() {
            let title = passage?.title.trim().to_owned();
            if core(&title).is_empty() || titles.whole.contains_key(&title) {
                continue;
            }
            let name = called(&title).to_owned();
            titles.called.entry(name).and_modify(|place| *place = None).or_insert(Some(number));
            titles.whole.insert(title, number);
        }
        Ok(titles)
    }

    fn is_first(&self, passage: &Passage, number: usize) -> bool {
        self.whole.get(passage.title.trim()) == Some(&number)
    }

    /// Returns a sentence of this passage that names another article, with the number of that article's first passage.
    fn anchor(&self, passage: &Passage, number: usize, seed: u64) -> Option<(usize, Anchor)> {
        let own = called(&passage.title);
        let mut found = Vec::new();
        for_each_span(passage, |words, span| {
            let name = words[span.words.clone()].join(" ");
            let name = core(&name);
            let other = self.called.get(name).copied().flatten().filter(|_| name != own);
            if let (Some(other), Some(question)) = (other, templates::cloze(words, span)) {
                found.push((other, Anchor { question, answer: name.to_owned() }));
            }
        });
        choose(found, number, QuestionKind::Anchor, seed)
    }
}

/// Returns a title without its disambiguation: "Mercury" for "Mercury (planet)".
fn called(title: &str) -> &str {
    title.split(" (").next().unwrap_or_default().trim()
}

/// Returns a question about a passage, and its answer.
fn question_of(passage: &Passage, number: usize, kind: QuestionKind, seed: u64) -> Option<(String, String)> {
    let mut found = Vec::new();
    for_each_span(passage, |words, span| {
        let question = match kind {
            QuestionKind::Template => templates::question(words, span),
            _ => templates::cloze(words, span),
        };
        let answer = words[span.words.clone()].join(" ");
        found.extend(question.map(|question| (question, core(&answer).to_owned())));
    });
    choose(found, number, kind, seed)
}

/// Calls `see` with the words of each sentence of a passage and each answer candidate in it.
fn for_each_span(passage: &Passage, mut see: impl FnMut(&[&str], &Span)) {
    let (sentences, title) = (sentences(&passage.text), called(&passage.title));
    let capitals = capitals(&sentences, title);
    for sentence in &sentences {
        let Some(words) = templates::alone(sentence, title) else { continue };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        spans(&words, &capitals).iter().for_each(|span| see(&words, span));
    }
}

/// Returns one of `found`, drawn by the seed, the passage and the kind.
fn choose<T>(mut found: Vec<T>, number: usize, kind: QuestionKind, seed: u64) -> Option<T> {
    if found.is_empty() {
        return None;
    }
    let place = SplitMix::keyed(&[seed, number as u64, kind as u64]).below(found.len());
    Some(found.swap_remove(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(corpus: &str, options: &GenerateOptions) -> (GenerateReport, Vec<TrainingItem>, String, String) {
        let dir = tempfile::tempdir().unwrap();
        let [passages, out, queries, qrels] =
            ["c.tsv", "train.json", "q.jsonl", "qrels.tsv"].map(|name| dir.path().join(name));
        fs_err::write(&passages, format!("id\ttext\ttitle\n{corpus}")).unwrap();
        let files = GeneratedFiles { training: &out, judged: Some((&queries, &qrels)) };
        let report = generate(&passages, files, options).unwrap();
        let items = dpr_data::read_training(&out).unwrap().collect::<Result<_, _>>().unwrap();
        let read = |path| fs_err::read_to_string(path).unwrap();
        (report, items, read(queries), read(qrels))
    }

    const CORPUS: &str = "\
        a1\tThe Denver Broncos won Super Bowl 50 in 2016. The game was played at night.\tDenver Broncos\n\
        a2\tThe team was led by Peyton Manning in that season.\tDenver Broncos\n\
        b1\tPeyton Manning was born on March 24, 1976. He played for Indianapolis for many years.\tPeyton Manning\n\
        c1\tnothing to ask for here\t\n";

    #[test]
    fn each_kind_asks_for_its_passage() {
        let (report, items, queries, qrels) = made(CORPUS, &GenerateOptions::default());
        let of = |question: &str| {
            let item = items.iter().find(|item| item.question == question);
            let item = item.unwrap_or_else(|| {
                panic!(
                    "no {question:?} among {:?}",
                    items.iter().map(|item| &item.question).collect::<Vec<_>>()
                )
            });
            (item.positive_ctxs[0].passage_id.clone().unwrap(), item.answers.clone())
        };
        assert_eq!(of("Peyton Manning"), ("b1".to_owned(), Vec::new()));
        assert_eq!(
            of("who was the team led by in that season?"),
            ("a2".to_owned(), vec!["Peyton Manning".to_owned()])
        );
        assert_eq!(
            of("the team was led by in that season"),
            ("a2".to_owned(), vec!["Peyton Manning".to_owned()])
        );
        // The same words ask for the article that the sentence names.
        let anchor = items.iter().find(|item| {
            item.question == "the team was led by in that season"
                && item.positive_ctxs[0].passage_id.as_deref() == Some("b1")
        });
        assert!(anchor.is_some());
        assert_eq!(report.passages, 4);
        assert_eq!(report.questions[&QuestionKind::Title], 2);
        assert_eq!(report.questions.values().sum::<usize>(), items.len());
        assert_eq!(queries.lines().count(), items.len());
        assert_eq!(qrels.lines().count(), items.len() + 1, "{qrels}");
    }

    #[test]
    fn a_seed_makes_the_same_questions_and_a_limit_draws_passages() {
        let options = GenerateOptions::default();
        let of_seed = |seed| made(CORPUS, &GenerateOptions { seed, ..options.clone() }).1;
        assert_eq!(of_seed(1), of_seed(1));
        assert!((2..20).any(|seed| of_seed(seed) != of_seed(1)));
        let few = GenerateOptions { limit: Some(1), kinds: vec![QuestionKind::Template], ..options };
        assert!(
            made(
                &CORPUS
                    .replace("c1\tnothing to ask for here", "c1\tAnna Lee was born in the year 1901 here."),
                &few
            )
            .0
            .passages
                == 1
        );
    }

    #[test]
    fn articles_of_one_name_have_titles_and_no_anchors() {
        let corpus = "p\tThe planet is small.\tMercury (planet)\n\
            e\tThe element is a liquid.\tMercury (element)\n\
            f\tFreddie was the singer.\tFreddie\n\
            t\tthe probe went by Mercury in the following year, and so did Freddie.\tProbe\n";
        let (report, items, ..) = made(corpus, &GenerateOptions::default());
        let of =
            |title: &str| items.iter().find(|item| item.question == title).map(|item| &item.positive_ctxs[0]);
        assert_eq!(of("Mercury (element)").unwrap().passage_id.as_deref(), Some("e"));
        assert_eq!(report.questions[&QuestionKind::Title], 4);
        let question_of = "the probe went by Mercury in the following year, and so did";
        assert_eq!(report.questions[&QuestionKind::Anchor], 1);
        assert!(
            items.iter().any(|item| item.question == question_of && item.positive_ctxs[0].title == "Freddie")
        );
    }

    #[test]
    fn what_is_left_of_a_sentence_is_never_only_punctuation() {
        let dir = tempfile::tempdir().unwrap();
        let [passages, out] = ["c.tsv", "train.json"].map(|name| dir.path().join(name));
        let odd = "1\t— — — 1927 — — —\t\n2\t. , 1 2 ; !\t—\n\
            3\t연세대학교 는 1885 년 에 서울 에서 설립 되었다 .\t연세\n";
        fs_err::write(&passages, format!("id\ttext\ttitle\n{odd}")).unwrap();
        let files = GeneratedFiles { training: &out, judged: None };
        generate(&passages, files, &GenerateOptions::default()).unwrap();
        let items = dpr_data::read_training(&out).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
        assert!(items.iter().all(|item| item.question.chars().any(char::is_alphanumeric)), "{items:?}");
    }

    #[test]
    fn a_corpus_that_no_rule_fits_is_an_error_and_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let [passages, out] = ["c.tsv", "train.json"].map(|name| dir.path().join(name));
        fs_err::write(&passages, "id\ttext\ttitle\n1\tall small letters\t\n").unwrap();
        let files = GeneratedFiles { training: &out, judged: None };
        let error = generate(&passages, files, &GenerateOptions::default()).unwrap_err();
        assert!(matches!(error, MineError::NoQuestions { passages: 1, .. }), "{error}");
        assert!(!out.exists());
    }
}
