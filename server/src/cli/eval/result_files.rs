//! Result files of a measured ranking: DPR's retriever result and a TREC run.

use std::io;
use std::path::{Path, PathBuf};

use super::super::CliError;
use dpr_data::{
    DataError, Passage, Question, RankedQuery, RetrievedContext, RetrieverResult, RunHit, read_results,
    write_results, write_run,
};
use dpr_files::atomic::{STAGING_PREFIX, StagedDir, sync_dir};
use dpr_files::{Error as FileError, refuse_foreign};
use dpr_index::ranking::ScoredRow;
use dpr_index::search::Method;

/// Names by which the directories of other commands are told: an index, vectors (or a version of an index), vectors
/// that are not finished, a model, a run of training, one of rounds, a blur directory, a static site.
const OF_OTHERS: [&str; 8] = [
    "current",
    "manifest.json",
    "spec.json",
    "model.json",
    "checkpoints",
    "rounds.json",
    "blur.json",
    "dpr-static.json",
];

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

/// Result files under construction. They appear in their directory together; dropped unpublished, they are removed.
pub(super) struct StagedResults {
    staged: StagedDir,
    dir: PathBuf,
}

impl StagedResults {
    /// Starts result files of `dir`, which is made where it is missing.
    ///
    /// # Errors
    /// [`FileError::Foreign`] for a directory that another command wrote, which is as it was, and an I/O error that
    /// names the path, as when the directory cannot be written to.
    pub(super) fn of(dir: &Path) -> Result<Self, FileError> {
        refuse_foreign(dir, |name| !OF_OTHERS.contains(&name))?;
        // Within it, so that files move by a rename. What else lies there stays, so the directory is not replaced.
        // The target says only where the staged directory lies: nothing is renamed to it, so it has a name of ours.
        let staged = StagedDir::beside(&dir.join(format!("{STAGING_PREFIX}results")));
        let staged = staged.map_err(FileError::write)?;
        Ok(Self { staged, dir: dir.to_path_buf() })
    }

    /// Returns the directory to write in.
    pub(super) fn path(&self) -> &Path {
        self.staged.path()
    }

    /// Moves all files into their directory, in place of those of the same names that lie there. Where rankings are
    /// among them, those of other methods that an earlier run left there are removed: nothing else tells of them.
    ///
    /// # Errors
    /// Where a directory has the name of one of the files, all is as it was. When a later rename fails, none of the
    /// files stays.
    pub(super) fn publish(self) -> Result<(), CliError> {
        let entries = fs_err::read_dir(self.path())?;
        let names = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        if let Some(taken) = names.iter().map(|name| self.dir.join(name)).find(|target| target.is_dir()) {
            let taken = taken.display();
            return Err(format!(
                "{taken} is a directory, and a result file has this name: rename it, or pass another --out"
            )
            .into());
        }
        for (moved, name) in names.iter().enumerate() {
            if let Err(error) = fs_err::rename(self.path().join(name), self.dir.join(name)) {
                // A part of the results would be taken for all.
                for name in &names[..moved] {
                    let _ = fs_err::remove_file(self.dir.join(name));
                }
                return Err(error.into());
            }
        }
        let is_new = |ranking: &String| names.iter().any(|name| name == ranking.as_str());
        let (new, old): (Vec<_>, Vec<_>) = ranking_files().into_iter().partition(is_new);
        if !new.is_empty() {
            for path in old.iter().map(|name| self.dir.join(name)) {
                // Links are left: this program writes regular files.
                if fs_err::symlink_metadata(&path).is_ok_and(|file| file.is_file()) {
                    fs_err::remove_file(&path)?;
                }
            }
        }
        Ok(sync_dir(&self.dir)?)
    }
}

/// Returns the names of all files of rankings that `dpr eval retrieval` writes.
fn ranking_files() -> Vec<String> {
    let mut names = Vec::new();
    for method in [Method::Bm25, Method::Tfidf, Method::Dense, Method::Hybrid] {
        for reranked in ["", "-rerank"] {
            for ending in ["json.gz", "run.gz"] {
                names.push(format!("{}{reranked}.{ending}", method.name()));
            }
        }
    }
    names
}

/// Refuses ids of `what` in `holder` that a TREC run has no place for, which is otherwise seen when it is written,
/// after the search.
pub(super) fn check_ids<'a>(
    holder: &str,
    what: &str,
    ids: impl IntoIterator<Item = &'a str>,
) -> Result<(), CliError> {
    let cannot_stand = |id: &&str| id.is_empty() || id.contains(|c: char| c.is_ascii_whitespace());
    match ids.into_iter().find(cannot_stand) {
        Some(id) => Err(format!(
            "{holder}: {what} {id:?}: --out writes a TREC run, whose columns are separated by white space, so an id \
             must not be empty or hold any: rename it, or leave out --out"
        )
        .into()),
        None => Ok(()),
    }
}

/// Reads a retriever result question by question. An error at its beginning also says which file is wanted, as another
/// one was given most likely.
pub(super) fn read(path: &Path) -> Result<impl Iterator<Item = Result<RetrieverResult, CliError>>, CliError> {
    let results = read_results(path)?.enumerate();
    Ok(results.map(|(at, result)| match result {
        Err(error @ DataError::Json { .. }) if at == 0 => Err(format!(
            "{error}: give a retriever result, as the NAME.json.gz that `dpr eval retrieval --out` writes, or DPR's \
             own json (`dpr eval run` measures a NAME.run.gz)"
        )
        .into()),
        result => Ok(result?),
    }))
}

/// Writes `bytes` whole or not at all.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    Ok(dpr_files::atomic::write_output(path, |out| out.write_all(bytes))?)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn files(dir: &Path) -> Vec<(String, String)> {
        let entries = fs_err::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = entries
            .filter(|path| path.is_file())
            .map(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                (name, fs_err::read_to_string(&path).unwrap())
            })
            .collect();
        files.sort();
        files
    }

    fn staged(dir: &Path, text: &str) -> StagedResults {
        let staged = StagedResults::of(dir).unwrap();
        for name in ["a", "b"] {
            write_whole(&staged.path().join(name), text.as_bytes()).unwrap();
        }
        staged
    }

    #[test]
    fn result_files_appear_together_or_not_at_all() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("deep/results");
        let all = |text: &str| ["a", "b"].map(|name| (name.to_owned(), text.to_owned()));
        drop(staged(&dir, "1"));
        assert_eq!(fs_err::read_dir(&dir).unwrap().count(), 0, "nothing is left of what was not published");
        staged(&dir, "1").publish().unwrap();
        assert_eq!(files(&dir), all("1"));
        staged(&dir, "2").publish().unwrap();
        assert_eq!(files(&dir), all("2"));
        fs_err::remove_file(dir.join("b")).unwrap();
        fs_err::create_dir_all(dir.join("b/mine")).unwrap();
        let error = staged(&dir, "3").publish().unwrap_err().to_string();
        assert!(error.contains("b is a directory") && error.contains("pass another --out"), "{error}");
        assert_eq!(files(&dir), all("2")[..1], "as it was");
        assert!(dir.join("b/mine").is_dir());
        assert_eq!(fs_err::read_dir(&dir).unwrap().count(), 2);
    }

    #[test]
    fn rankings_of_a_run_before_that_are_not_of_this_one_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let publish = |names: &[&str]| {
            let staged = StagedResults::of(root.path()).unwrap();
            names.iter().for_each(|name| write_whole(&staged.path().join(name), b"new").unwrap());
            staged.publish().unwrap();
        };
        let names = || files(root.path()).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        for mine in ["notes.md", "mine.run.gz"] {
            write_whole(&root.path().join(mine), b"mine").unwrap();
        }
        publish(&["bm25.json.gz", "bm25.run.gz", "dense-rerank.run.gz", "metrics.json"]);
        publish(&["privacy.json"]);
        assert_eq!(names().len(), 7, "another evaluation leaves them");
        publish(&["dense.json.gz", "dense.run.gz", "metrics.json"]);
        let expected =
            ["dense.json.gz", "dense.run.gz", "metrics.json", "mine.run.gz", "notes.md", "privacy.json"];
        assert_eq!(names(), expected);
    }

    #[test]
    fn a_directory_that_another_command_wrote_takes_no_result_files() {
        let root = tempfile::tempdir().unwrap();
        for name in OF_OTHERS {
            let dir = root.path().join(format!("with-{name}"));
            fs_err::create_dir(&dir).unwrap();
            write_whole(&dir.join(name), b"mine").unwrap();
            let error = StagedResults::of(&dir).map(drop).unwrap_err().to_string();
            assert!(error.contains(&format!("with-{name} holds `{name}`")), "{error}");
            assert_eq!(files(&dir), [(name.to_owned(), "mine".to_owned())], "as it was");
        }
        // Notes and older results are no obstacle, whatever their names.
        let dir = root.path().join("results");
        fs_err::create_dir(&dir).unwrap();
        write_whole(&dir.join("notes.md"), b"mine").unwrap();
        write_whole(&dir.join("results"), b"mine").unwrap();
        staged(&dir, "1").publish().unwrap();
        staged(&dir, "2").publish().unwrap();
        assert_eq!(files(&dir).len(), 4);
    }

    #[test]
    fn ids_that_a_run_has_no_place_for_are_named() {
        check_ids("q.json", "question", ["1", "ünï"]).unwrap();
        for (ids, named) in [(["1", "a b"], "question \"a b\""), (["", "1"], "question \"\"")] {
            let error = check_ids("q.json", "question", ids).unwrap_err().to_string();
            assert!(error.starts_with("q.json: ") && error.contains(named), "{error}");
        }
    }
}
