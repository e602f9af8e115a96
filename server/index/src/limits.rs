//! Limits of a passage in an index: an answer holds hundreds of passages, and all of it is in memory.
//!
//! They are the same for an index directory, its updates, PostgreSQL and Milvus. Some homes hold less, and say so: an
//! id has 2,000 bytes in PostgreSQL and 512 in Milvus, where a title and a text have 65,535 and the metadata 65,536 as
//! JSON.
//!
//! Metadata is within its limits wherever it comes from: [`Metadata`] neither reads nor takes in more.

use dpr_data::{Metadata, Passage};

/// The most bytes of a passage's id.
pub const MAX_ID: usize = 4 << 10;

/// The most candidates that a private search returns.
pub const MAX_CANDIDATES: usize = 1000;

/// The most bytes of a passage's title.
pub const MAX_TITLE: usize = 64 << 10;

/// The most bytes of a passage's text: hundreds of times what an encoder reads.
pub const MAX_TEXT: usize = 1 << 20;

/// The most fields of a passage's metadata.
pub const MAX_METADATA_FIELDS: usize = Metadata::MAX_FIELDS;

/// The most bytes of the name of a field.
pub const MAX_METADATA_NAME: usize = Metadata::MAX_NAME;

/// The most bytes of all names and values of a passage's metadata; a number and a boolean count as 8.
pub const MAX_METADATA: usize = Metadata::MAX_BYTES;

/// A part of a passage that is longer than an index takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the passage `{id}` has {what} of {bytes} bytes, an index takes {max} at most: {}",
    if *what == "a text" { "split it into passages" } else { "shorten it" }
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
///
/// # Errors
/// [`TooLong`], for the first part that is.
pub fn check(passage: &Passage) -> Result<(), TooLong> {
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

    /// Metadata of as many fields, names as long and as many bytes as there may be, and more by `more` bytes.
    fn most(more: usize) -> Result<Metadata, dpr_data::MetadataError> {
        let fields = MAX_METADATA_FIELDS;
        let name = |at: usize| format!("{at:a<width$}", width = MAX_METADATA_NAME);
        let of_each = MAX_METADATA / fields - MAX_METADATA_NAME;
        let value = |at: usize| "x".repeat(if at == 0 { of_each + more } else { of_each });
        Metadata::new((0..fields).map(|at| (name(at), value(at))))
    }

    #[test]
    fn metadata_up_to_its_limits_is_built_in_updated_logged_and_compacted_and_more_is_no_metadata() {
        let dir = tempfile::tempdir().unwrap();
        let metadata = most(0).unwrap();
        assert_eq!((metadata.len(), metadata.bytes()), (MAX_METADATA_FIELDS, MAX_METADATA));
        assert!(most(1).is_err());
        let mut longer = serde_json::json!(passage(1, 0, 1).with_metadata(metadata.clone()));
        let read = |json: &serde_json::Value| serde_json::from_value::<Passage>(json.clone());
        assert!(read(&longer).is_ok());
        longer["metadata"]["x"] = 1.into();
        assert!(read(&longer).unwrap_err().to_string().contains("more than 64 fields"));

        let built = passage(1, 0, 1).with_metadata(metadata.clone());
        let added = passage(2, 0, 1).with_metadata(metadata);
        let set = VectorSet::new("ab".repeat(32), 2, vec![built.clone()], vec![1.0, 0.5]);
        build_index(&set, dir.path(), &IndexOptions::default(), &Silent).unwrap();
        let writer = IndexWriter::open(dir.path(), "a test").unwrap();
        let vector = Embedding::new(vec![1.0, 2.0], 2).unwrap();
        writer.put(vec![NewPassage { passage: added.clone(), vector }]).unwrap();
        drop(writer);
        let passages = |writer: &IndexWriter| -> Vec<Passage> {
            writer.live().snapshot().passages().map(|live| live.unwrap().0).collect()
        };
        let writer = IndexWriter::open(dir.path(), "a test").unwrap();
        assert_eq!(passages(&writer), [built.clone(), added.clone()], "read from the log");
        writer.compact(1, &std::sync::Arc::default(), &Silent).unwrap().unwrap();
        assert_eq!(passages(&writer), [built, added]);
    }

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
