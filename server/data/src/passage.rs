//! Passage of a corpus, the digest of a corpus, and `passages.jsonl`, the form in which an index keeps its passages.

use std::io::{self, Write};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use dpr_files::digest;

use super::Metadata;

/// A piece of text that is retrieved as one: in the DPR paper a block of 100 words and its article's title.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Passage {
    /// Unique in its corpus.
    pub id: String,
    /// The article's title; empty when there is none.
    pub title: String,
    /// The text, of any length: the tokenizer cuts it at the model's limit.
    pub text: String,
    /// The metadata that searches are filtered by; not written where there is none.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

impl Passage {
    /// Makes a passage without metadata.
    pub fn new(id: impl Into<String>, title: impl Into<String>, text: impl Into<String>) -> Self {
        Self { id: id.into(), title: title.into(), text: text.into(), metadata: Metadata::default() }
    }

    /// Returns the passage with this metadata in the place of its own.
    #[must_use]
    pub fn with_metadata(self, metadata: Metadata) -> Self {
        Self { metadata, ..self }
    }

    /// Replaces `line` by the passage's line in `passages.jsonl`: an object, and a line feed.
    ///
    /// # Errors
    /// None that a passage can have; those of writing JSON.
    pub fn to_line(&self, line: &mut Vec<u8>) -> io::Result<()> {
        line.clear();
        serde_json::to_writer(&mut *line, self)?;
        line.push(b'\n');
        Ok(())
    }

    /// Returns the bytes of id, title, text and metadata, as [`Metadata::bytes`] counts them.
    pub fn bytes(&self) -> usize {
        self.id.len() + self.title.len() + self.text.len() + self.metadata.bytes()
    }
}

/// Returns the first control character of a passage's id: no id may have one, which no line of a list or a log can
/// hold.
pub fn control_character(id: &str) -> Option<char> {
    id.chars().find(|character| character.is_control())
}

/// Returns a digest of ids, titles, texts and metadata in order (64 hex characters): the same corpus read from another
/// format has the same one. Passages without metadata have the digest of ids, titles and texts alone.
pub fn corpus_sha256(passages: &[Passage]) -> String {
    let mut digest = CorpusDigest::default();
    passages.iter().for_each(|passage| digest.add(passage));
    digest.finish()
}

/// The digest of a corpus that is read passage by passage: that of [`corpus_sha256`].
#[derive(Clone, Debug, Default)]
pub struct CorpusDigest(Sha256);

impl CorpusDigest {
    /// Adds the next passage.
    pub fn add(&mut self, passage: &Passage) {
        for field in [&passage.id, &passage.title, &passage.text] {
            // The length keeps ("ab", "c") and ("a", "bc") apart.
            self.0.update((field.len() as u64).to_le_bytes());
            self.0.update(field.as_bytes());
        }
        passage.metadata.digest(&mut self.0);
    }

    /// Returns the digest of the passages that were added, 64 hex characters.
    pub fn finish(self) -> String {
        digest::hex(self.0)
    }
}

/// Writes passages as `passages.jsonl`, one object a line, and returns the offset in bytes at which each line begins
/// and, at last, that at which the last line ends.
pub fn write_passages(passages: &[Passage], out: &mut dyn Write) -> io::Result<Vec<u64>> {
    let (mut starts, mut line) = (vec![0], Vec::new());
    for passage in passages {
        passage.to_line(&mut line)?;
        out.write_all(&line)?;
        starts.extend(starts.last().map(|start| start + line.len() as u64));
    }
    Ok(starts)
}

/// Parses the bytes that [`write_passages`] wrote into `count` passages; the error names the line.
pub fn parse_passages(bytes: &[u8], count: usize) -> Result<Vec<Passage>, String> {
    let mut start = 0;
    let mut line_to = |end: usize| &bytes[std::mem::replace(&mut start, end)..end];
    let mut lines: Vec<&[u8]> = memchr::memchr_iter(b'\n', bytes).map(|at| line_to(at + 1)).collect();
    lines.extend(Some(line_to(bytes.len())).filter(|line| !line.is_empty()));
    let parse = |(number, line): (usize, &&[u8])| {
        serde_json::from_slice(line).map_err(|e| format!("line {}: {e}", number + 1))
    };
    let passages: Vec<Passage> =
        lines.par_iter().enumerate().with_min_len(256).map(parse).collect::<Result<_, _>>()?;
    if passages.len() != count {
        return Err(format!("{} passages, but {count} vectors", passages.len()));
    }
    Ok(passages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_without_metadata_are_written_and_digested_as_ever() {
        let plain = Passage::new("1", "T", "Text.");
        let mut line = Vec::new();
        write_passages(std::slice::from_ref(&plain), &mut line).unwrap();
        assert_eq!(line, b"{\"id\":\"1\",\"title\":\"T\",\"text\":\"Text.\"}\n");
        let fields = ["1", "T", "Text."].map(|field| {
            let length = (field.len() as u64).to_le_bytes();
            [&length, field.as_bytes()].concat()
        });
        let mut hash = Sha256::new();
        hash.update(fields.concat());
        assert_eq!(corpus_sha256(&[plain]), digest::hex(hash));
    }

    #[test]
    fn metadata_is_written_read_and_part_of_the_digest() {
        let plain = Passage::new("1", "T", "Text.");
        let of = |fields| plain.clone().with_metadata(Metadata::new([("a", fields)]).unwrap());
        let passages = [plain.clone(), of(crate::Value::from(1)), of(true.into()), of("1".into())];
        let mut lines = Vec::new();
        write_passages(&passages, &mut lines).unwrap();
        assert_eq!(parse_passages(&lines, 4).unwrap(), passages);
        let mut digests = passages.map(|passage| corpus_sha256(&[passage])).to_vec();
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), 4);
    }
}
