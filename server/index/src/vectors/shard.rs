//! Shards of a corpus: the share that one machine encodes.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The `index`-th of `count` contiguous shares, counted from 0 as DPR's `shard_id` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "(u32, u32)", try_from = "(u32, u32)")]
pub struct Shard {
    index: u32,
    count: u32,
}

/// The error of naming a shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardError {
    /// The text is not two numbers.
    #[error("`{0}` is not a shard: write i/n, as 0/4 for the first of four")]
    Format(String),
    /// The shard is beyond the number of shards.
    #[error("{index}/{count} is not a shard: {}", shards_of(*count))]
    Range {
        /// The shard that was named.
        index: u32,
        /// The number of shards.
        count: u32,
    },
    /// There are more shards than passages.
    #[error("shard {shard} of {passages} passages is empty: make at most {passages} shards")]
    Empty {
        /// The shard that was named.
        shard: Shard,
        /// Passages in the corpus.
        passages: usize,
    },
}

/// Returns the fix for a shard that is not one of `count`.
fn shards_of(count: u32) -> String {
    match count.checked_sub(1) {
        None => "write i/n with an n of 1 or more, as 0/4 for the first of four".to_owned(),
        Some(last) => format!("shards are counted from 0, so the last is {last}/{count}"),
    }
}

impl Shard {
    /// The whole corpus.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Returns share `index` of `count`.
    ///
    /// # Errors
    /// [`ShardError::Range`] unless `index < count`.
    pub fn new(index: u32, count: u32) -> Result<Self, ShardError> {
        if index < count { Ok(Self { index, count }) } else { Err(ShardError::Range { index, count }) }
    }

    /// Returns the number of this share, from 0.
    pub fn index(self) -> u32 {
        self.index
    }

    /// Returns the number of shards.
    pub fn count(self) -> u32 {
        self.count
    }

    /// Returns the rows of this share in a corpus of `passages` rows. The shards of one corpus follow each other
    /// without gaps, and their sizes differ by one at most.
    ///
    /// # Errors
    /// [`ShardError::Empty`] when nothing is left for this one.
    pub fn range(self, passages: usize) -> Result<Range<usize>, ShardError> {
        let (index, count) = (self.index as usize, self.count as usize);
        let start = |index: usize| index * (passages / count) + index.min(passages % count);
        let range = start(index)..start(index + 1);
        if range.is_empty() { Err(ShardError::Empty { shard: self, passages }) } else { Ok(range) }
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let format = || ShardError::Format(text.to_owned());
        let (index, count) = text.split_once('/').ok_or_else(format)?;
        let number = |part: &str| part.trim().parse::<u32>().map_err(|_| format());
        Self::new(number(index)?, number(count)?)
    }
}

impl From<Shard> for (u32, u32) {
    fn from(shard: Shard) -> Self {
        (shard.index, shard.count)
    }
}

impl TryFrom<(u32, u32)> for Shard {
    type Error = ShardError;

    fn try_from((index, count): (u32, u32)) -> Result<Self, ShardError> {
        Self::new(index, count)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_follow_each_other_and_cover_the_corpus() {
        for (passages, count) in [(2067, 4), (7, 7), (1000, 3), (10, 1)] {
            let mut next = 0;
            for index in 0..count {
                let range = Shard::new(index, count).unwrap().range(passages).unwrap();
                assert_eq!(range.start, next);
                assert!(range.len().abs_diff(passages / count as usize) <= 1);
                next = range.end;
            }
            assert_eq!(next, passages);
        }
    }

    #[test]
    fn shards_that_do_not_exist_are_refused() {
        assert_eq!("1/2".parse(), Shard::new(1, 2));
        assert_eq!("2/2".parse::<Shard>(), Err(ShardError::Range { index: 2, count: 2 }));
        let none = "0/0".parse::<Shard>().unwrap_err();
        assert_eq!(none, ShardError::Range { index: 0, count: 0 });
        let none = none.to_string();
        assert!(none.contains("0/0 is not a shard: write i/n with an n of 1 or more, as 0/4"), "{none}");
        for bad in ["", "1", "a/b", "-1/2", "1/2/3"] {
            assert_eq!(bad.parse::<Shard>(), Err(ShardError::Format(bad.into())));
        }
        let last = Shard::new(3, 4).unwrap().range(3).unwrap_err();
        assert!(last.to_string().ends_with("make at most 3 shards"), "{last}");
    }
}
