//! The records of the write-ahead log: the changes of an update, in the frames they are written in.
//!
//! A frame holds all changes of one request, so that a request is in the log whole or not at all:
//! ```text
//! u32 bytes of the payload  u32 changes  u32 CRC-32 of these 8 bytes
//! payload: for each change u8 kind (1 put, 2 delete, 3 put with metadata) and id; to put, title and text; with
//!   metadata, that as a JSON object (each of these u32 bytes and UTF-8); to put, dim f32
//! u32 CRC-32 of the payload
//! ```
//! A passage without metadata is a change of kind 1, as in logs of programs that know no metadata.

use std::io::{self, Read};

use dpr_core::Embedding;

use dpr_data::{Metadata, Passage};

/// A passage to add, or to put in the place of the one that has its id.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPassage {
    /// The passage.
    pub passage: Passage,
    /// Its vector, `[dim]`, by the index's model.
    pub vector: Embedding,
}

impl NewPassage {
    /// Returns the bytes of its vector, its texts and its metadata.
    pub(crate) fn bytes(&self) -> u64 {
        (size_of_val(self.vector.as_slice()) + self.passage.bytes()) as u64
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    Put(NewPassage),
    Delete(String),
}

impl Change {
    /// The passage it is about.
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Put(new) => &new.passage.id,
            Self::Delete(id) => id,
        }
    }
}

const PUT: u8 = 1;
const DELETE: u8 = 2;
const PUT_WITH_METADATA: u8 = 3;

/// Bytes before the payload, and after.
const HEAD: usize = 12;
const TAIL: usize = 4;

/// Most bytes of a payload.
const MAX_PAYLOAD: usize = 1 << 30;

/// The error of reading a frame.
#[derive(Debug)]
pub(crate) enum NoFrame {
    Read(io::Error),
    /// The fault of the bytes at that place.
    Damaged(&'static str),
}

/// Appends the frame of some changes to `out`; false, and nothing, when they are too many for one.
pub(crate) fn encode<'a>(changes: impl IntoIterator<Item = &'a Change>, out: &mut Vec<u8>) -> bool {
    let (start, mut count) = (out.len(), 0_usize);
    out.extend_from_slice(&[0; HEAD]);
    for change in changes {
        count += 1;
        let metadata = match change {
            Change::Put(NewPassage { passage, .. }) if !passage.metadata.is_empty() => {
                json(&passage.metadata)
            }
            _ => String::new(),
        };
        let (kind, texts): (u8, &[&str]) = match change {
            Change::Delete(id) => (DELETE, &[id]),
            Change::Put(NewPassage { passage: Passage { id, title, text, .. }, .. }) => {
                match metadata.as_str() {
                    "" => (PUT, &[id, title, text]),
                    metadata => (PUT_WITH_METADATA, &[id, title, text, metadata]),
                }
            }
        };
        out.push(kind);
        for text in texts {
            out.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        if let Change::Put(NewPassage { vector, .. }) = change {
            out.extend(vector.as_slice().iter().flat_map(|value| value.to_le_bytes()));
        }
    }
    let length = out.len() - start - HEAD;
    let (Ok(bytes), Ok(count), true) = (u32::try_from(length), u32::try_from(count), length <= MAX_PAYLOAD)
    else {
        out.truncate(start);
        return false;
    };
    let mut head = [bytes.to_le_bytes(), count.to_le_bytes()].concat();
    head.extend_from_slice(&crc32fast::hash(&head).to_le_bytes());
    out[start..start + HEAD].copy_from_slice(&head);
    let sum = crc32fast::hash(&out[start + HEAD..]);
    out.extend_from_slice(&sum.to_le_bytes());
    true
}

/// Reads the frame that begins here, of at most `left` bytes; its changes, and its bytes.
pub(crate) fn decode(input: &mut dyn Read, left: u64, dim: usize) -> Result<(Vec<Change>, u64), NoFrame> {
    let whole = HEAD + TAIL;
    if left < whole as u64 {
        return Err(NoFrame::Damaged("a frame ends too early"));
    }
    let mut head = [[0; 4]; 3];
    input.read_exact(head.as_flattened_mut()).map_err(NoFrame::Read)?;
    if crc32fast::hash(head[..2].as_flattened()).to_le_bytes() != head[2] {
        return Err(NoFrame::Damaged("the checksum of a frame's head differs"));
    }
    let [bytes, count] = [0, 1].map(|at| u32::from_le_bytes(head[at]) as usize);
    if bytes as u64 > left - whole as u64 || bytes > MAX_PAYLOAD {
        return Err(NoFrame::Damaged("a frame ends too early"));
    }
    let mut payload = vec![0; bytes + TAIL];
    input.read_exact(&mut payload).map_err(NoFrame::Read)?;
    let (payload, sum) = payload.split_at(bytes);
    if crc32fast::hash(payload).to_le_bytes() != sum {
        return Err(NoFrame::Damaged("the checksum of a frame differs"));
    }
    let mut rest = payload;
    let changes: Option<Vec<_>> = (0..count).map(|_| change(&mut rest, dim)).collect();
    match changes {
        Some(changes) if rest.is_empty() => Ok((changes, (whole + bytes) as u64)),
        _ => Err(NoFrame::Damaged("a frame makes no sense")),
    }
}

fn change(input: &mut &[u8], dim: usize) -> Option<Change> {
    let kind = input.split_off_first()?;
    let id = text(input)?;
    match *kind {
        DELETE => Some(Change::Delete(id)),
        PUT | PUT_WITH_METADATA => {
            let mut passage = Passage::new(id, text(input)?, text(input)?);
            if *kind == PUT_WITH_METADATA {
                passage.metadata = serde_json::from_str(&text(input)?).ok()?;
            }
            let values = input.split_off(..dim.checked_mul(4)?)?;
            let values = values.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            let vector = Embedding::new(values, dim).ok()?;
            Some(Change::Put(NewPassage { passage, vector }))
        }
        _ => None,
    }
}

/// Returns metadata as JSON. Strings, numbers and booleans can always be written.
fn json(metadata: &Metadata) -> String {
    serde_json::to_string(metadata).unwrap_or_default()
}

fn text(input: &mut &[u8]) -> Option<String> {
    let length = u32::from_le_bytes(*input.split_off(..4)?.first_chunk()?) as usize;
    String::from_utf8(input.split_off(..length)?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes() -> Vec<Change> {
        let passage = Passage::new("ü1", "", "Text.");
        let vector = Embedding::new(vec![0.5, -1.0, 3.0e-8], 3).unwrap();
        let metadata = Metadata::new([("lang", "日本"), ("source", "")]).unwrap();
        let described = passage.clone().with_metadata(metadata);
        vec![
            Change::Put(NewPassage { passage, vector: vector.clone() }),
            Change::Delete("p2".into()),
            Change::Put(NewPassage { passage: described, vector }),
        ]
    }

    fn read(mut bytes: &[u8], dim: usize) -> Result<(Vec<Change>, u64), NoFrame> {
        let left = bytes.len() as u64;
        decode(&mut bytes, left, dim)
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = b"before".to_vec();
        assert!(encode(&changes(), &mut bytes));
        let frame = &bytes[6..];
        assert_eq!(read(frame, 3).unwrap(), (changes(), frame.len() as u64));
        assert!(read(frame, 4).is_err(), "vectors of another length");
    }

    #[test]
    fn a_passage_without_metadata_is_a_record_without_it() {
        let mut frame = Vec::new();
        assert!(encode(&changes()[..1], &mut frame));
        let mut expected = vec![PUT, 3, 0, 0, 0];
        expected.extend("ü1".bytes());
        expected.extend([0, 0, 0, 0, 5, 0, 0, 0]);
        expected.extend(b"Text.");
        expected.extend([0.5_f32, -1.0, 3.0e-8].map(f32::to_le_bytes).as_flattened());
        assert_eq!(frame[HEAD..frame.len() - TAIL], expected);
    }

    #[test]
    fn any_cut_and_any_flipped_bit_is_an_error() {
        let mut frame = Vec::new();
        encode(&changes(), &mut frame);
        for end in 0..frame.len() {
            assert!(read(&frame[..end], 3).is_err(), "cut at {end}");
        }
        for bit in 0..frame.len() * 8 {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&damaged, 3).is_err(), "bit {bit}");
        }
    }
}
