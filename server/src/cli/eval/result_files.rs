//! Result files of a measured ranking: DPR's retriever result and a TREC run.

use std::path::Path;

use super::super::CliError;
use dpr_data::{
    Passage, Question, RankedQuery, RetrievedContext, RetrieverResult, RunHit, write_results, write_run,
};
use dpr_index::ranking::ScoredRow;

/// Questions, their rankings and what is right.
pub(super) struct Ranked<'a> {
    pub(super) questions: &'a [Question],
    pub(super) rows: &'a [Vec<ScoredRow>],
    pub(super) passages: &'a [Passage],
    /// `true` if the passages are right, at least for those written.
    pub(super) marks: &'a [Vec<bool>],
}

impl Ranked<'_> {
    /// Writes `NAME.json.gz`, DPR's retriever result, in which `has_answer` is the passage's mark, and
    /// `NAME.run.gz`, a TREC run; each with the first `depth` passages.
    pub(super) fn write(&self, dir: &Path, name: &str, depth: usize) -> Result<(), CliError> {
        write_results(&dir.join(format!("{name}.json.gz")), |out| {
            self.results(depth).try_for_each(|result| out.write(&result))
        })?;
        let run: Vec<RankedQuery> = self
            .questions
            .iter()
            .zip(self.rows)
            .map(|(question, rows)| self.ranked(question, rows, depth))
            .collect();
        Ok(write_run(&dir.join(format!("{name}.run.gz")), &format!("dpr-{name}"), &run)?)
    }

    /// Returns DPR's retriever result of each question, with its first `depth` passages.
    pub(super) fn results(&self, depth: usize) -> impl Iterator<Item = RetrieverResult> {
        self.questions.iter().zip(self.rows).zip(self.marks).map(move |((question, rows), marks)| {
            let context = |(hit, has_answer): (&ScoredRow, &bool)| {
                let Passage { id, title, text, .. } = self.passages[hit.row].clone();
                RetrievedContext { id, title, text, score: hit.score, has_answer: *has_answer }
            };
            RetrieverResult {
                question: question.text.clone(),
                answers: question.answers.as_slice().to_vec(),
                ctxs: rows.iter().zip(marks).take(depth).map(context).collect(),
            }
        })
    }

    fn ranked(&self, question: &Question, rows: &[ScoredRow], depth: usize) -> RankedQuery {
        let hit = |(at, hit): (usize, &ScoredRow)| RunHit {
            passage: self.passages[hit.row].id.clone(),
            rank: at + 1,
            score: hit.score,
        };
        RankedQuery { id: question.id.clone(), hits: rows.iter().take(depth).enumerate().map(hit).collect() }
    }
}

/// Writes `bytes` whole or not at all.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    Ok(dpr_files::atomic::write_file(path, |out| out.write_all(bytes))?)
}

/// Returns the name and the path of an argument `NAME=FILE`, or `FILE`, whose name is the file's.
pub(super) fn named(argument: &str) -> (String, &Path) {
    // A path that exists is a path, whatever signs it holds.
    match argument.split_once('=').filter(|_| !Path::new(argument).exists()) {
        Some((name, path)) => (name.to_owned(), Path::new(path)),
        None => {
            let path = Path::new(argument);
            (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), path)
        }
    }
}

/// Refuses a plot whose name says another format.
pub(super) fn check_plot(path: Option<&Path>) -> Result<(), CliError> {
    match path.filter(|path| path.extension().is_none_or(|ending| ending != "svg")) {
        Some(path) => Err(format!("{}: plots are SVG: give a name that ends in .svg", path.display()).into()),
        None => Ok(()),
    }
}
