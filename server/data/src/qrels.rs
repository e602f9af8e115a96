//! Relevance judgements (qrels) of passages: TREC qrels (`query 0 passage grade`, no header) and BEIR's (header
//! `query-id corpus-id score`, tabs).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

use super::DataError;
use super::input::Input;
use super::lines::Lines;
use super::output::write_whole;

const BEIR_HEADER: [&str; 3] = ["query-id", "corpus-id", "score"];

/// Relevance grades of passages by query, in the order of the ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qrels(BTreeMap<String, BTreeMap<String, i32>>);

impl Qrels {
    /// Adds a judgement and returns the grade that it replaces, if there was one.
    pub fn insert(&mut self, query: &str, passage: &str, grade: i32) -> Option<i32> {
        self.0.entry(query.to_owned()).or_default().insert(passage.to_owned(), grade)
    }

    /// Returns the judged passages of a query with their grades, 0 and less for passages that are not relevant.
    pub fn query(&self, query: &str) -> Option<&BTreeMap<String, i32>> {
        self.0.get(query)
    }

    /// Returns all queries with their judged passages.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &BTreeMap<String, i32>)> {
        self.0.iter().map(|(query, passages)| (query.as_str(), passages))
    }

    /// Removes the queries for which `keep` returns `false`.
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.0.retain(|query, _| keep(query));
    }

    /// Returns the number of judgements.
    pub fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// Returns whether there are no judgements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Layout of a file of judgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QrelsLayout {
    /// `query 0 passage grade`, no header.
    Trec,
    /// `query-id<TAB>corpus-id<TAB>score` under that header.
    Beir,
}

/// Reads judgements, plain or gzip-compressed; the first line says which layout it is.
///
/// # Errors
/// [`DataError`] with the file and the line: BEIR's columns without their header (its first judgement would be lost),
/// a wrong number of columns, a grade that is not a whole number, a passage judged twice for one query, no judgements
/// at all.
pub fn read_qrels(path: &Path) -> Result<Qrels, DataError> {
    let mut lines = Lines::new(Input::open(path)?);
    let mut next = lines.next_record()?;
    let layout = match next.as_ref().map(|(_, first)| layout(first)) {
        Some(Some(layout)) => layout,
        Some(None) => {
            let found = next.map(|(_, first)| first.chars().take(60).collect()).unwrap_or_default();
            return Err(DataError::QrelsHeader { path: path.to_path_buf(), found });
        }
        None => QrelsLayout::Trec, // and empty
    };
    if layout == QrelsLayout::Beir {
        next = lines.next_record()?;
    }
    let mut places: BTreeMap<String, BTreeMap<String, (i32, usize)>> = BTreeMap::new();
    while let Some((line, text)) = next {
        let (query, passage, grade) = judgement(path, line, &text, layout)?;
        match places.entry(query.to_owned()).or_default().entry(passage.to_owned()) {
            Entry::Vacant(entry) => entry.insert((grade, line)),
            Entry::Occupied(entry) => {
                return Err(DataError::Repeated {
                    path: path.to_path_buf(),
                    query: query.to_owned(),
                    what: format!("passage `{passage}`"),
                    first: entry.get().1,
                    second: line,
                });
            }
        };
        next = lines.next_record()?;
    }
    if places.is_empty() {
        return Err(DataError::Empty { path: path.to_path_buf(), what: "judgements" });
    }
    let grades = |passages: BTreeMap<String, (i32, usize)>| {
        passages.into_iter().map(|(passage, (grade, _))| (passage, grade)).collect()
    };
    Ok(Qrels(places.into_iter().map(|(query, passages)| (query, grades(passages))).collect()))
}

pub(super) fn layout(first: &str) -> Option<QrelsLayout> {
    if first.split('\t').map(str::trim).eq(BEIR_HEADER) {
        return Some(QrelsLayout::Beir);
    }
    (first.split_ascii_whitespace().count() == 4).then_some(QrelsLayout::Trec)
}

fn judgement<'a>(
    path: &Path,
    line: usize,
    text: &'a str,
    layout: QrelsLayout,
) -> Result<(&'a str, &'a str, i32), DataError> {
    let (columns, names, separator): (Vec<_>, &[&str], _) = match layout {
        QrelsLayout::Trec => {
            (text.split_ascii_whitespace().collect(), &["query", "0", "passage", "grade"], "white space")
        }
        QrelsLayout::Beir => (text.split('\t').map(str::trim).collect(), &BEIR_HEADER, "tabs"),
    };
    if columns.len() != names.len() {
        return Err(DataError::Columns {
            path: path.to_path_buf(),
            line,
            expected: names.len(),
            separator,
            got: columns.len(),
            missing: names.get(columns.len()).map(|name| (*name).to_owned()),
        });
    }
    let (query, passage, grade) = (columns[0], columns[columns.len() - 2], columns[columns.len() - 1]);
    for (id, field) in [(query, "query-id"), (passage, "corpus-id")] {
        if id.is_empty() {
            let place = super::lines::line(line);
            return Err(DataError::EmptyField { path: path.to_path_buf(), place, field });
        }
    }
    let grade = grade.parse().map_err(|_| DataError::Value {
        path: path.to_path_buf(),
        line,
        expected: "a grade (a whole number)",
        found: grade.to_owned(),
    })?;
    Ok((query, passage, grade))
}

/// Writes judgements, whole or not at all; gzip-compressed when the name ends in `.gz`.
///
/// # Errors
/// [`DataError::Unwritable`] for an id that the layout cannot hold (white space in TREC's, a tab or line end in
/// BEIR's), and [`DataError::Write`].
pub fn write_qrels(path: &Path, layout: QrelsLayout, qrels: &Qrels) -> Result<(), DataError> {
    write_whole(path, |out| {
        if layout == QrelsLayout::Beir {
            out.bytes(format!("{}\n", BEIR_HEADER.join("\t")).as_bytes())?;
        }
        for (query, passages) in qrels.iter() {
            for (passage, grade) in passages {
                let line = match layout {
                    QrelsLayout::Trec => {
                        check_word(path, "query", query)?;
                        check_word(path, "passage", passage)?;
                        format!("{query} 0 {passage} {grade}\n")
                    }
                    QrelsLayout::Beir => {
                        check_column(path, "query", query)?;
                        check_column(path, "passage", passage)?;
                        format!("{query}\t{passage}\t{grade}\n")
                    }
                };
                out.bytes(line.as_bytes())?;
            }
        }
        Ok(())
    })
}

/// Checks that an id can stand between spaces.
pub(super) fn check_word(path: &Path, what: &str, id: &str) -> Result<(), DataError> {
    if !id.is_empty() && !id.contains(|c: char| c.is_ascii_whitespace()) {
        return Ok(());
    }
    Err(DataError::Unwritable {
        path: path.to_path_buf(),
        item: format!("{what} {id:?}"),
        why: "TREC's columns are separated by white space, so an id must not be empty or hold any: rename it",
    })
}

fn check_column(path: &Path, what: &str, id: &str) -> Result<(), DataError> {
    if !id.trim().is_empty() && id.trim() == id && !id.contains(['\t', '\n', '\r']) {
        return Ok(());
    }
    Err(DataError::Unwritable {
        path: path.to_path_buf(),
        item: format!("{what} {id:?}"),
        why: "BEIR's columns are separated by tabs, so an id must not be empty, hold one, or have space around it: \
              rename it",
    })
}
