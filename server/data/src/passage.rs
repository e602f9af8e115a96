//! Passage of a corpus, the digest of a corpus, and `passages.jsonl`, the form in which an index keeps its passages.

use std::io::{self, Write};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use dpr_files::digest;

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
}

/// Returns a digest of ids, titles and texts in order (64 hex characters): the same corpus read from another format
/// has the same one.
pub fn corpus_sha256(passages: &[Passage]) -> String {
    let mut hash = Sha256::new();
    for passage in passages {
        for field in [&passage.id, &passage.title, &passage.text] {
            // The length keeps ("ab", "c") and ("a", "bc") apart.
            hash.update((field.len() as u64).to_le_bytes());
            hash.update(field.as_bytes());
        }
    }
    digest::hex(hash)
}

/// Writes passages as `passages.jsonl`, one object a line, and returns the offset in bytes at which each line begins
/// and, at last, that at which the last line ends.
pub fn write_passages(passages: &[Passage], out: &mut dyn Write) -> io::Result<Vec<u64>> {
    let (mut starts, mut line) = (vec![0], Vec::new());
    for passage in passages {
        line.clear();
        serde_json::to_writer(&mut line, passage)?;
        line.push(b'\n');
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
