//! TREC runs: `query Q0 passage rank score tag`, separated by white space.

use std::collections::HashMap;
use std::path::Path;

use super::input::Input;
use super::lines::Lines;
use super::output::write_whole;
use super::{DataError, qrels};

/// The ranked passages of one query.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedQuery {
    /// The query's id.
    pub id: String,
    /// By rank, the best first, or as [`read_scored_run`] leaves them.
    pub hits: Vec<RunHit>,
}

/// A passage of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunHit {
    /// The passage's id.
    pub passage: String,
    /// As the file says, usually from 1.
    pub rank: usize,
    /// In the retriever's units.
    pub score: f32,
}

/// Reads a TREC run, plain or gzip-compressed: queries in the order in which they first appear, each with its hits
/// by rank. The rank decides, not the score (`trec_eval` goes by the score).
///
/// # Errors
/// [`DataError`] with the file and the line: a line that has not 6 columns, a rank or score that is not a number, the
/// same passage or the same rank twice for one query, no lines at all.
pub fn read_run(path: &Path) -> Result<Vec<RankedQuery>, DataError> {
    read(path)?.into_iter().map(|(id, hits)| by_rank(path, id, hits)).collect()
}

/// Reads a TREC run as [`read_run`] does, for those who go by the scores as `trec_eval` does: the ranks of a query may
/// be the same, and its hits have the order of the file.
///
/// # Errors
/// As [`read_run`], but for the same rank twice.
pub fn read_scored_run(path: &Path) -> Result<Vec<RankedQuery>, DataError> {
    read(path)?.into_iter().map(|(id, hits)| by_line(path, id, hits)).collect()
}

/// Passages of a query, each with its line.
type Hits = Vec<(RunHit, usize)>;

fn read(path: &Path) -> Result<Vec<(String, Hits)>, DataError> {
    let mut lines = Lines::new(Input::open(path)?);
    let mut queries: Vec<(String, Hits)> = Vec::new();
    let mut places = HashMap::new();
    while let Some((line, text)) = lines.next_record()? {
        let columns: Vec<_> = text.split_ascii_whitespace().collect();
        let [query, _, passage, rank, score, _] = columns[..] else {
            let names = ["query", "Q0", "passage", "rank", "score", "tag"];
            return Err(DataError::Columns {
                path: path.to_path_buf(),
                line,
                expected: 6,
                separator: "white space",
                got: columns.len(),
                missing: names.get(columns.len()).map(|name| (*name).to_owned()),
            });
        };
        let value = |expected, found: &str| DataError::Value {
            path: path.to_path_buf(),
            line,
            expected,
            found: found.to_owned(),
        };
        let hit = RunHit {
            passage: passage.to_owned(),
            rank: rank.parse().map_err(|_| value("a rank (a whole number)", rank))?,
            score: score
                .parse()
                .ok()
                .filter(|score: &f32| score.is_finite())
                .ok_or_else(|| value("a score (a finite number)", score))?,
        };
        let at = match places.get(query) {
            Some(at) => *at,
            None => {
                places.insert(query.to_owned(), queries.len());
                queries.push((query.to_owned(), Vec::new()));
                queries.len() - 1
            }
        };
        queries[at].1.push((hit, line));
    }
    if queries.is_empty() {
        return Err(DataError::Empty { path: path.to_path_buf(), what: "ranked passages" });
    }
    Ok(queries)
}

/// Sorts the hits of a query by their ranks and refuses a passage or rank that occurs twice.
fn by_rank(path: &Path, id: String, mut hits: Hits) -> Result<RankedQuery, DataError> {
    refuse_same_passage(path, &id, &mut hits)?;
    hits.sort_unstable_by_key(|(hit, line)| (hit.rank, *line));
    match hits.windows(2).find(|pair| pair[0].0.rank == pair[1].0.rank) {
        Some(pair) => Err(repeated(path, &id, format!("rank {}", pair[0].0.rank), pair)),
        None => Ok(query(id, hits)),
    }
}

/// Sorts the hits of a query by their lines and refuses a passage that occurs twice.
fn by_line(path: &Path, id: String, mut hits: Hits) -> Result<RankedQuery, DataError> {
    refuse_same_passage(path, &id, &mut hits)?;
    hits.sort_unstable_by_key(|(_, line)| *line);
    Ok(query(id, hits))
}

/// Refuses a passage that occurs twice; the hits are sorted by their passages.
fn refuse_same_passage(path: &Path, id: &str, hits: &mut Hits) -> Result<(), DataError> {
    hits.sort_unstable_by(|(a, a_line), (b, b_line)| (&a.passage, a_line).cmp(&(&b.passage, b_line)));
    match hits.windows(2).find(|pair| pair[0].0.passage == pair[1].0.passage) {
        Some(pair) => Err(repeated(path, id, format!("passage `{}`", pair[0].0.passage), pair)),
        None => Ok(()),
    }
}

fn repeated(path: &Path, id: &str, what: String, pair: &[(RunHit, usize)]) -> DataError {
    let (path, query) = (path.to_path_buf(), id.to_owned());
    DataError::Repeated { path, query, what, first: pair[0].1, second: pair[1].1 }
}

fn query(id: String, hits: Hits) -> RankedQuery {
    RankedQuery { id, hits: hits.into_iter().map(|(hit, _)| hit).collect() }
}

/// Writes a TREC run under the name `tag`, whole or not at all; gzip-compressed when the name ends in `.gz`.
///
/// # Errors
/// [`DataError::Unwritable`] for an id or tag that is empty or holds white space, and [`DataError::Write`].
pub fn write_run<'a>(
    path: &Path,
    tag: &str,
    queries: impl IntoIterator<Item = &'a RankedQuery>,
) -> Result<(), DataError> {
    qrels::check_word(path, "tag", tag)?;
    write_whole(path, |out| {
        for query in queries {
            qrels::check_word(path, "query", &query.id)?;
            for RunHit { passage, rank, score } in &query.hits {
                qrels::check_word(path, "passage", passage)?;
                out.bytes(format!("{} Q0 {passage} {rank} {score} {tag}\n", query.id).as_bytes())?;
            }
        }
        Ok(())
    })
}
