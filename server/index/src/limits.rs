//! Limits of a passage in an index: an answer holds hundreds of passages, and all of it is in memory.

use dpr_data::Passage;

/// The most bytes of a passage's id.
pub const MAX_ID: usize = 4 << 10;

/// The most bytes of a passage's title.
pub const MAX_TITLE: usize = 64 << 10;

/// The most bytes of a passage's text: hundreds of times what an encoder reads.
pub const MAX_TEXT: usize = 1 << 20;

/// A part of a passage that is longer than an index takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the passage `{id}` has {what} of {bytes} bytes, an index takes {max} at most: split it into passages"
)]
pub struct TooLong {
    /// The passage's id, cut where it is long itself.
    pub id: String,
    /// `an id`, `a title` or `a text`.
    pub what: &'static str,
    /// The bytes that it has.
    pub bytes: usize,
    /// The bytes that it may have.
    pub max: usize,
}

/// Refuses a passage that is longer than an index takes.
pub(crate) fn check(passage: &Passage) -> Result<(), TooLong> {
    let parts = [
        ("an id", &passage.id, MAX_ID),
        ("a title", &passage.title, MAX_TITLE),
        ("a text", &passage.text, MAX_TEXT),
    ];
    match parts.into_iter().find(|(_, text, max)| text.len() > *max) {
        None => Ok(()),
        Some((what, text, max)) => {
            let id = passage.id.chars().take(100).collect();
            Err(TooLong { id, what, bytes: text.len(), max })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::VectorSet;
    use crate::{BuildError, IndexOptions, IndexWriter, NewPassage, UpdateError, build_index};
    use dpr_core::Embedding;
    use dpr_files::progress::Silent;

    fn passage(id: usize, title: usize, text: usize) -> Passage {
        Passage::new("i".repeat(id), "t".repeat(title), "x".repeat(text))
    }

    #[test]
    fn a_passage_that_is_too_long_is_refused_by_builds_and_updates_with_its_id_and_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let build = |passage: Passage| {
            let set = VectorSet::new("ab".repeat(32), 2, vec![passage], vec![1.0, 0.5]);
            build_index(&set, dir.path(), &IndexOptions::default(), &Silent).map(drop)
        };
        build(passage(MAX_ID, MAX_TITLE, MAX_TEXT)).unwrap();
        let writer = IndexWriter::open(dir.path(), "a test").unwrap();
        let put = |passage: Passage| {
            writer.put(vec![NewPassage { passage, vector: Embedding::new(vec![1.0, 2.0], 2).unwrap() }])
        };
        let cases = [
            ((MAX_ID + 1, 0, 1), "an id of 4097 bytes"),
            ((3, MAX_TITLE + 1, 1), "a title of 65537 bytes"),
            ((3, 0, MAX_TEXT + 1), "a text of 1048577 bytes"),
        ];
        for ((id, title, text), says) in cases {
            let refused = put(passage(id, title, text)).unwrap_err();
            assert!(matches!(refused, UpdateError::TooLong(_)), "{refused}");
            let message = refused.to_string();
            assert!(message.contains(says) && message.contains("`iii"), "{message}");
            assert!(message.len() < 400, "a long id is cut: {message}");
        }
        assert_eq!(writer.live().snapshot().changes(), 0);
        put(passage(1, 0, MAX_TEXT)).unwrap();
        drop(writer);
        let refused = build(passage(3, 0, MAX_TEXT + 1)).unwrap_err();
        assert!(matches!(refused, BuildError::TooLong(_)), "{refused}");
    }
}
