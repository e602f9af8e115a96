//! The evaluation rules against independent code: what `tests/python/eval_reference.py` wrote.

use crate::support::files;
use crate::support::shared;

use std::collections::HashMap;
use std::path::Path;

use dpr_data::{Answers, Qrels, read_questions};
use dpr_eval::{
    AnswerMatcher, ReadingReport, ReadingRules, TokenizedPassage, measure_qrels, measure_reading,
    read_predictions, score_ranking, trec_order,
};
use files::gunzip;
use serde::Deserialize;
use shared::shared;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn fixture(name: &str) -> String {
    gunzip(Path::new(&format!("{ROOT}/tests/fixtures/eval/{name}")))
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Row {
    Passage {
        passage: String,
    },
    Text {
        p: usize,
        text: String,
        found: bool,
    },
    Pattern {
        p: usize,
        regex: String,
        found: bool,
        #[serde(default)]
        invalid: bool,
    },
}

#[test]
fn has_answer_agrees_with_python_on_20000_pairs() {
    let text = fixture("has_answer.jsonl.gz");
    let rows: Vec<Row> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let passages: Vec<TokenizedPassage<'_>> = rows
        .iter()
        .filter_map(|row| match row {
            Row::Passage { passage } => Some(TokenizedPassage::new(passage)),
            _ => None,
        })
        .collect();
    let (mut pairs, mut differ) = (0, Vec::new());
    for row in &rows {
        let (p, answer, answers, found, invalid) = match row {
            Row::Passage { .. } => continue,
            Row::Text { p, text, found } => (*p, text, Answers::Texts(vec![text.clone()]), *found, false),
            Row::Pattern { p, regex, found, invalid } => {
                (*p, regex, Answers::Patterns(vec![regex.clone()]), *found, *invalid)
            }
        };
        pairs += 1;
        let matcher = AnswerMatcher::new("q", &answers).unwrap();
        let same = matcher.matches_passage(&passages[p]) == found
            && matcher.matches(passages[p].text()) == found
            && matcher.invalid_patterns().is_empty() != invalid;
        if !same {
            differ.push(format!("{answer:?} expected {found} (invalid: {invalid}) in passage {p}"));
        }
    }
    assert_eq!(pairs, 20_000);
    assert!(differ.is_empty(), "{} pairs differ:\n{}", differ.len(), differ.join("\n"));
}

#[test]
fn em_and_f1_agree_with_the_official_scripts_rules() {
    #[derive(Deserialize)]
    struct Pair {
        prediction: String,
        answers: Vec<String>,
        squad: (f64, f64),
        korquad: (f64, f64),
    }
    let pairs: Vec<Pair> = serde_json::from_str(&fixture("reading.json.gz")).unwrap();
    assert_eq!(pairs.len(), 3000);
    for Pair { prediction, answers, squad, korquad } in &pairs {
        for (rules, (exact, f1)) in [(ReadingRules::Squad, squad), (ReadingRules::KorQuad, korquad)] {
            let score = rules.score(prediction, answers);
            let same = f64::from(u8::from(score.exact)) == *exact && (score.f1 - f1).abs() < 1e-12;
            assert!(
                same,
                "{rules:?}: {prediction:?} against {answers:?} is {score:?}, expected {exact} {f1}"
            );
        }
    }
}

#[test]
fn rankings_are_measured_as_trec_eval_does() {
    #[derive(Deserialize)]
    struct Expected {
        rr: f64,
        ndcg: f64,
        recall: Vec<f64>,
    }
    #[derive(Deserialize)]
    struct Fixture {
        ks: Vec<usize>,
        qrels: HashMap<String, HashMap<String, i32>>,
        run: HashMap<String, HashMap<String, f32>>,
        expected: HashMap<String, Expected>,
    }
    let Fixture { ks, qrels: judged, run, expected } =
        serde_json::from_str(&fixture("ranking.json.gz")).unwrap();
    let mut qrels = Qrels::default();
    for (question, passages) in &judged {
        for (passage, grade) in passages {
            qrels.insert(question, passage, *grade);
        }
    }
    let rankings: HashMap<String, Vec<String>> = run
        .into_iter()
        .map(|(question, scored)| {
            let scored: Vec<(String, f32)> = scored.into_iter().collect();
            let ranking = trec_order(&question, &scored).unwrap();
            (question, ranking)
        })
        .collect();
    assert!(expected.len() > 120);
    for (question, expected) in &expected {
        let scores =
            score_ranking(question, &rankings[question], qrels.query(question).unwrap(), &ks).unwrap();
        assert!((scores.reciprocal_rank_at_10 - expected.rr).abs() < 1e-12, "{question}: {scores:?}");
        assert!((scores.ndcg_at_10 - expected.ndcg).abs() < 1e-12, "{question}: {scores:?}");
        let same = scores.recall.iter().zip(&expected.recall).all(|(got, want)| (got - want).abs() < 1e-12);
        assert!(same, "{question}: {scores:?} {:?}", expected.recall);
    }
    let report = measure_qrels(&rankings, &qrels, &ks).unwrap();
    let mean = |of: fn(&Expected) -> f64| expected.values().map(of).sum::<f64>() / judged.len() as f64;
    assert!((report.ndcg_at_10 - mean(|e| e.ndcg)).abs() < 1e-9);
    assert!((report.mrr_at_10 - mean(|e| e.rr)).abs() < 1e-9);
    assert!((report.recall[2].recall - mean(|e| e.recall[2])).abs() < 1e-9);
    assert_eq!((report.questions, report.without_ranking, report.without_qrels), (150, 15, 1));
}

#[test]
fn published_predictions_have_their_published_figures() {
    let Some(folder) = shared("squad/predictions") else { return };
    let questions =
        read_questions(format!("{ROOT}/web-demo/corpus/squad-dev-v1.1.json.gz").as_ref()).unwrap();
    let measure = |name: &str| -> ReadingReport {
        let predictions = read_predictions(&folder.join(name)).unwrap();
        measure_reading(&questions, &predictions, ReadingRules::Squad).unwrap()
    };
    let percent = |share: f64| format!("{:.2}", share * 100.0);
    let bert = measure("bert-ensemble.json");
    assert_eq!(
        (percent(bert.exact_match), percent(bert.f1), bert.missing),
        ("86.21".into(), "92.20".into(), 0)
    );
    let regression = measure("logistic-regression.json");
    let figures = (percent(regression.exact_match), percent(regression.f1), regression.missing);
    assert_eq!(figures, ("40.14".into(), "50.98".into(), 13));
}

#[test]
fn a_predictions_file_that_is_none_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let read = |bytes: &[u8]| {
        let path = folder.path().join("p.json");
        fs_err::write(&path, bytes).unwrap();
        read_predictions(&path).map_err(|error| error.to_string())
    };
    assert_eq!(read(b"{\"1\": \"Rome\"}").unwrap()["1"], "Rome");
    for bad in [&b"[\"Rome\"]"[..], b"{\"1\": 5}", b"", b"{\"1\": \"Ro"] {
        let message = read(bad).unwrap_err();
        assert!(message.contains("p.json") && message.contains("line 1"), "{message}");
    }
    // A gzip file cut short.
    assert!(read(b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xab").unwrap_err().contains("cannot read"));
    assert!(read_predictions(&folder.path().join("none")).unwrap_err().to_string().contains("none"));
}
