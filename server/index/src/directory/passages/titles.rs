//! The rows of titles: found by the hashes of the table, and told apart by reading where hashes collide.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use dpr_files::lock;

use super::StoredPassages;
use crate::CancelToken;
use crate::search::SearchError;

/// Rows of one hash from which on what was read of their titles is kept. Fewer are read again by each search.
const KEPT_FROM: usize = 32;

/// Titles that are read between two looks at whether to stop.
const LOOK_TITLES: usize = 256;

/// Hashes that are compared between two looks.
const LOOK_HASHES: usize = 64 << 10;

/// Rows with one hash, by their titles.
#[derive(Clone, Debug)]
enum Group {
    /// All rows have this title.
    One(String),
    /// Different titles have this hash.
    Several(HashMap<String, Vec<u32>>),
}

/// The titles of rows with one hash, once they were read.
type Titles = Arc<Mutex<Option<Arc<Group>>>>;

/// Titles that many rows have, as far as they were read. The rows of a hash are read once, by one thread; the others
/// that need them wait, and read them where the first was told to stop.
#[derive(Debug, Default)]
pub(super) struct TitleGroups(Mutex<HashMap<u32, Titles>>);

impl TitleGroups {
    fn of(&self, hash: u32) -> Titles {
        Arc::clone(lock(&self.0).entry(hash).or_default())
    }

    /// Returns the number of hashes whose rows were read and kept.
    #[cfg(test)]
    fn kept(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// A set of hashes: a sorted list, and a bitmap that most lookups of other hashes end at.
struct Hashes {
    /// The hashes, ascending.
    sums: Vec<u32>,
    /// A bitmap of the lower 16 bits of the hashes.
    low_bits: Vec<u64>,
}

impl Hashes {
    fn of(titles: &HashSet<String>) -> Self {
        let mut sums: Vec<u32> = titles.iter().map(|title| crc32fast::hash(title.as_bytes())).collect();
        sums.sort_unstable();
        sums.dedup();
        let mut low_bits = vec![0; 1 << 10];
        for sum in &sums {
            let low = *sum as usize & 0xffff;
            low_bits[low / 64] |= 1 << (low % 64);
        }
        Self { sums, low_bits }
    }

    fn position(&self, sum: u32) -> Option<usize> {
        let low = sum as usize & 0xffff;
        let may_be = self.low_bits[low / 64] >> (low % 64) & 1 == 1;
        if may_be { self.sums.binary_search(&sum).ok() } else { None }
    }
}

impl StoredPassages {
    /// Returns the rows of all passages with one of these titles, ascending. The table says which rows may have them;
    /// of these the titles are read, and where many rows have one hash, only the first time.
    ///
    /// # Errors
    /// [`SearchError::File`], as [`StoredPassages::get`].
    pub fn rows_with_titles(&self, titles: &HashSet<String>) -> Result<Vec<u32>, SearchError> {
        self.rows_with_titles_until(titles, &CancelToken::never())
    }

    /// Returns the rows as [`rows_with_titles`](Self::rows_with_titles) does, until `cancel` says to stop.
    ///
    /// # Errors
    /// [`SearchError::File`], as [`StoredPassages::get`], and [`SearchError::Stopped`].
    pub fn rows_with_titles_until(
        &self,
        titles: &HashSet<String>,
        cancel: &CancelToken,
    ) -> Result<Vec<u32>, SearchError> {
        let hashes = Hashes::of(titles);
        let mut groups = vec![Vec::new(); hashes.sums.len()];
        // Building and opening refuse more rows than u32 counts.
        for (row, stored) in (0u32..).zip(&self.keys()?[self.count..]) {
            if (row as usize).is_multiple_of(LOOK_HASHES) {
                cancel.check()?;
            }
            if let Some(group) = hashes.position(u32::from_le_bytes(*stored)) {
                groups[group].push(row);
            }
        }
        let mut found = Vec::new();
        for (hash, rows) in hashes.sums.iter().zip(groups) {
            self.add_with_titles(*hash, rows, titles, &mut found, cancel)?;
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Adds to `found` those of `rows`, all with this hash, that have one of these titles.
    fn add_with_titles(
        &self,
        hash: u32,
        rows: Vec<u32>,
        titles: &HashSet<String>,
        found: &mut Vec<u32>,
        cancel: &CancelToken,
    ) -> Result<(), SearchError> {
        cancel.check()?;
        if rows.len() < KEPT_FROM {
            for row in rows {
                if titles.contains(self.title(row as usize)?.as_ref()) {
                    found.push(row);
                }
            }
            return Ok(());
        }
        let group = self.titles.of(hash);
        let mut kept = lock(&group);
        let group = match kept.as_ref() {
            Some(group) => Arc::clone(group),
            None => Arc::clone(kept.insert(Arc::new(self.read_group(&rows, cancel)?))),
        };
        drop(kept);
        match group.as_ref() {
            Group::One(title) if titles.contains(title) => found.extend(rows),
            Group::One(_) => {}
            Group::Several(groups) => {
                found.extend(
                    groups.iter().filter(|(title, _)| titles.contains(*title)).flat_map(|(_, rows)| rows),
                );
            }
        }
        Ok(())
    }

    fn read_group(&self, rows: &[u32], cancel: &CancelToken) -> Result<Group, SearchError> {
        let mut groups: HashMap<String, Vec<u32>> = HashMap::new();
        for (at, row) in rows.iter().enumerate() {
            if at.is_multiple_of(LOOK_TITLES) {
                cancel.check()?;
            }
            let title = self.title(*row as usize)?;
            match groups.get_mut(title.as_ref()) {
                Some(rows) => rows.push(*row),
                None => {
                    groups.insert(title.into_owned(), vec![*row]);
                }
            }
        }
        if groups.len() == 1 {
            return Ok(Group::One(groups.into_keys().next().unwrap_or_default()));
        }
        Ok(Group::Several(groups))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::stored;
    use super::*;
    use dpr_data::Passage;

    /// Two titles with the same CRC-32.
    const TWINS: [&str; 2] = ["plumless", "buckeroo"];

    fn titles(titles: &[&str]) -> HashSet<String> {
        titles.iter().map(|title| (*title).to_owned()).collect()
    }

    #[test]
    fn titles_with_one_hash_are_told_apart_and_read_once() {
        assert_eq!(crc32fast::hash(TWINS[0].as_bytes()), crc32fast::hash(TWINS[1].as_bytes()));
        for (count, kept) in [(10, [0, 0, 0]), (300, [0, 1, 2])] {
            let title = |row: usize| if row < count / 2 { "alone" } else { TWINS[row % 2] };
            let passages: Vec<Passage> =
                (0..count).map(|row| Passage::new(row.to_string(), title(row), "Text.")).collect();
            for with_table in [true, false] {
                let stored = stored(&passages, with_table);
                assert_eq!(stored.titles.kept(), kept[0]);
                for (at, asked) in
                    [&["alone"][..], &["plumless"], &["buckeroo", "alone", "none"]].into_iter().enumerate()
                {
                    let asked = titles(asked);
                    let expected: Vec<u32> =
                        (0..count as u32).filter(|row| asked.contains(title(*row as usize))).collect();
                    for _ in 0..2 {
                        assert_eq!(stored.rows_with_titles(&asked).unwrap(), expected);
                    }
                    assert!(stored.titles.kept() <= kept[at.min(1) + 1], "{count} {at}");
                }
                assert!(stored.rows_with_titles(&titles(&["no such title"])).unwrap().is_empty());
                assert_eq!(stored.titles.kept(), kept[2]);
            }
        }
    }

    #[test]
    fn titles_that_were_not_read_to_the_end_are_read_by_the_next() {
        let passages: Vec<Passage> =
            (0..3000).map(|row| Passage::new(row.to_string(), TWINS[row % 2], "Text.")).collect();
        let asked = titles(&TWINS[..1]);
        let whole = CancelToken::new();
        let expected = stored(&passages, true).rows_with_titles_until(&asked, &whole).unwrap();
        assert_eq!(expected.len(), 1500);
        assert!(whole.looks() >= 3000 / LOOK_TITLES, "{} looks", whole.looks());
        for look in 1..=whole.looks() {
            let (stored, cancel) = (stored(&passages, true), CancelToken::at_look(look));
            let stopped = stored.rows_with_titles_until(&asked, &cancel);
            assert!(matches!(stopped, Err(SearchError::Stopped(_))), "{look}: {stopped:?}");
            assert_eq!(cancel.looks(), look);
            assert_eq!(stored.rows_with_titles(&asked).unwrap(), expected);
        }
    }

    #[test]
    fn a_thousand_titles_are_all_found() {
        let passages: Vec<Passage> = (0..3000)
            .map(|row| Passage::new(row.to_string(), format!("Title {}", row / 2), "Text."))
            .collect();
        let stored = stored(&passages, true);
        let asked: HashSet<String> = (0..1000).map(|title| format!("Title {title}")).collect();
        assert_eq!(stored.rows_with_titles(&asked).unwrap(), Vec::from_iter(0..2000));
    }
}
