//! The reference client: an encrypted search over any transport.
//!
//! What is sent depends on the tables and on `k` alone: one ranking, then always `k` columns in one request, whatever
//! the question and the answers are. Between the two everybody asks for what changed since the tables were made, where the
//! server says that something did, and all of it is read before the texts are asked for. A wrong answer to the ranking,
//! of the right length, is told after both were sent. A wrong delta, and an answer that the transport refuses, end the
//! search before the fetch; neither depends on the question. Nothing is sent again.

use std::error::Error;
use std::io::Read as _;

use dpr_core::model::hex;
use dpr_core::private::encrypted::delta::{MOST_DELTA, MOST_TEXT};
use dpr_core::private::encrypted::manifest::Tables;
use dpr_core::private::encrypted::search::{Found, Masks, PUBLIC_FILES, Public, SearchError};
use dpr_core::private::encrypted::{Delta, ManifestError, RandomError, WireError};
use dpr_data::Passage;
use dpr_index::search::Hit;
use flate2::read::DeflateDecoder;

use crate::answer::MOST_FETCHES;

/// The most bytes of the passages of a column that are decompressed.
const MOST_READ: usize = 2 * MOST_TEXT;

/// The error of a transport.
pub type TransportError = Box<dyn Error + Send + Sync>;

/// The way to a server.
pub trait Transport {
    /// Returns the content at a path, such as `/v1/encrypted`; at most `most` bytes of it.
    ///
    /// # Errors
    /// [`TransportError`] when no answer comes, or one whose status is not 200.
    fn get(&mut self, path: &str, most: u64) -> Result<Vec<u8>, TransportError>;

    /// Sends a message to a path and returns the answer, at most `most` bytes of it.
    ///
    /// # Errors
    /// [`TransportError`] when no answer comes, or one whose status is not 200.
    fn post(&mut self, path: &str, message: &[u8], most: u64) -> Result<Vec<u8>, TransportError>;
}

/// A search that failed. Nothing of it is sent again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server did not answer, or refused.
    #[error("{0}")]
    Transport(#[source] TransportError),
    /// The server's description of its tables, or a file of them, is refused.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The tables are of another version than the one that is expected.
    #[error("the server has version {got} of its private tables, expected {expected}")]
    Version {
        /// As served.
        got: String,
        /// As expected.
        expected: String,
    },
    /// The vectors of the passages are of another model than the question's.
    #[error("the passages were encoded by model {got}, the question by model {expected}")]
    Model {
        /// The server's.
        got: String,
        /// The question's.
        expected: String,
    },
    /// An answer is not what it should be.
    #[error("the server's answer is refused: {0}")]
    Answer(#[from] WireError),
    /// The passages of a column cannot be read, although it is the column of the tables, or those of a delta.
    #[error("passages that the server sent cannot be read: {0}")]
    Passages(String),
    /// `k` outside its range.
    #[error("`k` is {0}, outside 1 to {MOST_FETCHES}")]
    K(usize),
    /// The platform gives no random numbers.
    #[error(transparent)]
    Random(#[from] RandomError),
}

impl From<SearchError> for ClientError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Manifest(error) => Self::Manifest(error),
            SearchError::Answer(error) => Self::Answer(error),
            SearchError::Random(error) => Self::Random(error),
            SearchError::Count(k) => Self::K(k),
            error => Self::Passages(error.to_string()),
        }
    }
}

/// A connection to private tables: hints downloaded and checked.
pub struct Client<T> {
    transport: T,
    public: Public,
    downloaded: usize,
    /// The only version of the tables that is taken.
    expected: Option<String>,
    prepared: Option<Masks>,
}

impl<T: Transport> Client<T> {
    /// Downloads and checks what everybody downloads. `model` is the fingerprint of the model that encodes questions;
    /// `version`, if given, the only version of the tables that is taken, without changes of the index since.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect(mut transport: T, model: &str, version: Option<&str>) -> Result<Self, ClientError> {
        let json = transport.get("/v1/encrypted", 64 << 10).map_err(ClientError::Transport)?;
        let tables = Tables::read(&json)?;
        let got = hex(&tables.version);
        if let Some(expected) = version.filter(|expected| !expected.eq_ignore_ascii_case(&got)) {
            return Err(ClientError::Version { got, expected: expected.to_owned() });
        }
        if tables.manifest.model_fingerprint != model {
            let (got, expected) = (tables.manifest.model_fingerprint, model.to_owned());
            return Err(ClientError::Model { got, expected });
        }
        let mut downloaded = json.len();
        let mut file = |name: &'static str| -> Result<Vec<u8>, ClientError> {
            let entry =
                tables.manifest.files.get(name).ok_or_else(|| ManifestError::File(name.to_owned()))?;
            let path = format!("/v1/encrypted/files/{}/{name}", entry.sha256);
            let content = transport.get(&path, entry.bytes).map_err(ClientError::Transport)?;
            downloaded += content.len();
            Ok(content)
        };
        let [projection, columns, rank, text] = PUBLIC_FILES;
        let (projection, columns) = (file(projection)?, file(columns)?);
        let (rank, text) = (file(rank)?, file(text)?);
        let public = Public::read(tables, [&projection, &columns, &rank, &text])?;
        let expected = version.map(str::to_owned);
        Ok(Self { transport, public, downloaded, expected, prepared: None })
    }

    /// Returns what the server says of its tables.
    pub fn tables(&self) -> &Tables {
        self.public.tables()
    }

    /// Returns the bytes that were downloaded before the first question.
    pub fn downloaded(&self) -> usize {
        self.downloaded
    }

    /// Returns the way to the server.
    pub fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Makes the masks of the next search, for `k` passages, before its question is known.
    ///
    /// # Errors
    /// [`ClientError::K`] and [`ClientError::Random`].
    pub fn prepare(&mut self, k: usize) -> Result<(), ClientError> {
        if self.prepared.as_ref().is_none_or(|masks| masks.count() != k) {
            self.prepared = Some(self.public.masks(k)?);
        }
        Ok(())
    }

    /// Returns the `k` best passages for the question's vector `[dim]`, best first. Scores are about the inner
    /// products of the vectors, rounded to the power of ten above their noise.
    ///
    /// # Errors
    /// [`ClientError`]. The masks are spent then too.
    pub fn search(&mut self, question: &[f32], k: usize) -> Result<Vec<Hit>, ClientError> {
        self.prepare(k)?;
        let Some(masks) = self.prepared.take() else { return Err(ClientError::K(k)) };
        let (message, pending) = self.public.ask(masks, question)?;
        let expected = self.public.rank_answer_bytes() as u64;
        let answer = self.transport.post("/v1/encrypted/rank", &message, expected);
        let ranking = self.public.ranked(pending, &answer.map_err(ClientError::Transport)?);
        if let Some(expected) = self.expected.as_ref().filter(|_| ranking.changes() > 0) {
            let got = format!("{expected} and {} changes since", ranking.changes());
            return Err(ClientError::Version { got, expected: expected.clone() });
        }
        if self.public.is_behind(&ranking) {
            let path = format!("/v1/encrypted/delta/{}", hex(&self.tables().version));
            let delta = self.transport.get(&path, MOST_DELTA as u64).map_err(ClientError::Transport)?;
            check_texts(self.public.tables(), &delta)?;
            self.public.update(&delta)?;
        }
        let (message, chosen) = self.public.choose(ranking)?;
        let expected = self.public.fetch_answer_bytes(k) as u64;
        let answer = self.transport.post("/v1/encrypted/fetch", &message, expected);
        let Found { columns, places } = self.public.open(chosen, &answer.map_err(ClientError::Transport)?)?;
        let texts = columns.iter().map(|column| inflate(column)).collect::<Result<Vec<_>, _>>()?;
        places
            .iter()
            .map(|place| Ok(Hit::new(passage(&texts[place.column], place.line)?, place.score)))
            .collect()
    }
}

/// Refuses a delta that does not hold as many passages as it adds. All of them are read before the texts are asked for:
/// if only those were that a question finds, an error would tell the server that the question is near them.
fn check_texts(tables: &Tables, delta: &[u8]) -> Result<(), ClientError> {
    let Delta { codes, texts, .. } = Delta::read(tables, delta)?;
    let (texts, added) = (inflate(&texts)?, codes.len() / tables.rank.dims());
    let mut read = 0;
    for line in texts.split_inclusive(|byte| *byte == b'\n') {
        passage(line, 0)?;
        read += 1;
    }
    if read != added {
        return Err(ClientError::Passages(format!("{read} of {added} that were added are there")));
    }
    Ok(())
}

/// Decompresses the passages of a column or of a delta.
fn inflate(packed: &[u8]) -> Result<Vec<u8>, ClientError> {
    let mut text = Vec::new();
    // One byte more, so that texts that are too long are seen as such.
    let inflated = DeflateDecoder::new(packed).take(MOST_READ as u64 + 1).read_to_end(&mut text);
    inflated.map_err(|error| ClientError::Passages(error.to_string()))?;
    if text.len() > MOST_READ {
        return Err(ClientError::Passages(format!("they have more than {MOST_READ} bytes, decompressed")));
    }
    Ok(text)
}

/// Returns a passage of a column's JSON lines.
fn passage(lines: &[u8], place: usize) -> Result<Passage, ClientError> {
    let line = lines.split(|byte| *byte == b'\n').nth(place).unwrap_or_default();
    serde_json::from_slice(line).map_err(|error| ClientError::Passages(error.to_string()))
}
