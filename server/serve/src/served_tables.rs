//! The private tables that a server has, and the questions that wait for them: those that wait together are answered in
//! one reading of a table. Tables of a newer version of the index take the place of those in use.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use axum::http::HeaderValue;
use dpr_core::private::encrypted::wire::Kind;
use dpr_files::{lock, read_lock, write_lock};
use dpr_index::search::Description;
use dpr_private::{AnswerError, MOST_FETCHES, OpenError, Tables};
use tokio::sync::oneshot;

use super::error::ApiError;
use super::file::ServedFile;
use super::gate::SearchGate;
use super::room::HeldBody;

/// Questions that one reading of a table answers.
const BATCH: usize = 8;

/// The private tables in use. Whoever has begun to read older ones ends with those.
#[derive(Debug)]
pub struct ServedTables {
    gate: SearchGate,
    in_use: RwLock<Arc<TablesOfVersion>>,
    /// Tables of a version of the index that is about to be put in use.
    next: RwLock<Option<Arc<TablesOfVersion>>>,
}

impl ServedTables {
    /// Prepares tables for serving: so many readings of them run at once, so many requests wait, and each has so much
    /// time.
    ///
    /// # Errors
    /// When a file cannot be described.
    pub fn new(tables: Tables, concurrency: usize, queue: usize, timeout: Duration) -> io::Result<Self> {
        let gate = SearchGate::new(concurrency, queue).with_timeout(timeout);
        let tables = TablesOfVersion::new(tables, gate.clone())?;
        Ok(Self { gate, in_use: RwLock::new(Arc::new(tables)), next: RwLock::default() })
    }

    /// Opens the tables of version `number` of the index in the directory `index`, whose fingerprint is `version`,
    /// before that version is put in use: they are there for its first question. Returns whether there are some.
    ///
    /// # Errors
    /// Tables that cannot be read, are damaged or of another index.
    pub fn expect(&self, index: &Path, number: u64, version: &str) -> io::Result<bool> {
        let next = self.open(index, number, version)?;
        let is_there = next.is_some();
        *write_lock(&self.next) = next;
        Ok(is_there)
    }

    /// Takes the tables of the newest version of the index in the directory `index` into use, once they are there, and
    /// returns their version if it did. Tables that are not there yet are no error: questions are refused meanwhile.
    ///
    /// # Errors
    /// Tables that cannot be read, are damaged or of another index. Those in use stay.
    pub fn follow(&self, index: &Path, newest: &Description) -> io::Result<Option<String>> {
        if self.of(newest).is_some() {
            return Ok(None);
        }
        let Some(tables) = self.open(index, newest.number, &newest.version)? else { return Ok(None) };
        let version = tables.tables.version();
        *write_lock(&self.in_use) = tables;
        Ok(Some(version))
    }

    fn open(&self, index: &Path, number: u64, version: &str) -> io::Result<Option<Arc<TablesOfVersion>>> {
        match Tables::open(index, number, version) {
            Ok(tables) => Ok(Some(Arc::new(TablesOfVersion::new(tables, self.gate.clone())?))),
            Err(OpenError::Missing { .. }) => Ok(None),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Returns the tables of the version of the index that `index` describes, if they are open. Tables that
    /// [`expect`](Self::expect) opened take the place of those in use.
    pub(super) fn of(&self, index: &Description) -> Option<Arc<TablesOfVersion>> {
        let in_use = || Some(Arc::clone(&read_lock(&self.in_use))).filter(|tables| tables.is_of(index));
        if let Some(tables) = in_use() {
            return Some(tables);
        }
        let mut expected = write_lock(&self.next);
        if let Some(next) = expected.take_if(|next| next.is_of(index)) {
            tracing::info!("private tables {} are in use", next.tables.version());
            *write_lock(&self.in_use) = next;
        }
        // Read again: another thread may have moved the expected tables to `in_use` since the first look.
        in_use()
    }
}

/// The private tables of one version of the index, and the messages that wait for them.
#[derive(Debug)]
pub(super) struct TablesOfVersion {
    pub(super) tables: Tables,
    pub(super) files: Vec<ServedFile>,
    pub(super) tag: HeaderValue,
    pub(super) gate: SearchGate,
    ranks: Waiting,
    fetches: Waiting,
}

/// Messages that wait for a thread.
pub(super) type Waiting = Mutex<Vec<Message>>;

/// A message that waits.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) body: HeldBody,
    /// Changes of the index since the tables were made of it.
    pub(super) changes: u64,
    /// The way back of its answer.
    pub(super) back: oneshot::Sender<Result<Vec<u8>, ApiError>>,
}

impl TablesOfVersion {
    fn new(tables: Tables, gate: SearchGate) -> io::Result<Self> {
        let file = |(path, name, file): (std::path::PathBuf, &str, &dpr_core::model::FileEntry)| {
            ServedFile::new(path, name, file.bytes, &file.sha256)
        };
        let files = tables.public_files().map(file).collect::<Result<_, _>>()?;
        let tag = HeaderValue::from_str(&format!("\"{}\"", tables.version()));
        Ok(Self {
            files,
            tag: tag.map_err(io::Error::other)?,
            tables,
            gate,
            ranks: Waiting::default(),
            fetches: Waiting::default(),
        })
    }

    /// Returns `true` if these are the tables of the version of the index that is described.
    pub(super) fn is_of(&self, index: &Description) -> bool {
        self.tables.checked().manifest.index_version == index.version
    }

    pub(super) fn waiting(&self, kind: Kind) -> &Waiting {
        match kind {
            Kind::Rank => &self.ranks,
            Kind::Fetch => &self.fetches,
        }
    }

    /// Returns the bytes of the longest message of this kind.
    pub(super) fn longest(&self, kind: Kind) -> usize {
        match kind {
            Kind::Rank => self.tables.rank_question_bytes(),
            Kind::Fetch => self.tables.fetch_question_bytes(MOST_FETCHES),
        }
    }

    /// Drops the messages whose clients have gone.
    pub(super) fn drop_abandoned(&self, kind: Kind) {
        lock(self.waiting(kind)).retain(|message| !message.back.is_closed());
    }

    /// Answers messages that wait, as many as one reading takes. Whoever gets a thread does this, for the others too;
    /// a message whose client has gone is passed over.
    pub(super) fn answer_waiting(&self, kind: Kind) {
        let taken = {
            let mut waiting = lock(self.waiting(kind));
            waiting.retain(|message| !message.back.is_closed());
            // Together they are read in one time and computed one by one: no more than end in time.
            let count = waiting.len().min(BATCH).min(self.gate.fitting(self.cost(kind)));
            waiting.drain(..count).collect::<Vec<_>>()
        };
        match kind {
            Kind::Rank => {
                let read = |body: &[u8], changes| self.tables.read_rank(body, changes);
                answer_all(taken, read, |all, is_wanted| self.tables.rank_while(all, is_wanted));
            }
            Kind::Fetch => {
                let read = |body: &[u8], _| self.tables.read_fetch(body);
                answer_all(taken, read, |all, is_wanted| self.tables.fetch_while(all, is_wanted));
            }
        }
    }

    /// Returns the work of one question.
    pub(super) fn cost(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Rank => self.tables.rank_cost(),
            Kind::Fetch => self.tables.fetch_cost(MOST_FETCHES),
        }
    }
}

/// Reads messages, answers those that are questions together, and the others with what is wrong. The reading of the
/// table ends early when all who asked have gone, or their time is over.
fn answer_all<Q>(
    taken: Vec<Message>,
    read: impl Fn(&[u8], u64) -> Result<Q, AnswerError>,
    answer: impl Fn(&[Q], &dyn Fn() -> bool) -> Option<Vec<Vec<u8>>>,
) {
    let (mut questions, mut backs) = (Vec::new(), Vec::new());
    for Message { body, changes, back } in taken {
        match read(&body, changes) {
            Ok(question) => {
                questions.push(question);
                backs.push(back);
            }
            // Nobody may be there any more.
            Err(error) => drop(back.send(Err(error.into()))),
        }
    }
    if questions.is_empty() {
        return;
    }
    let answers = answer(&questions, &|| backs.iter().any(|back| !back.is_closed()));
    for (answer, back) in answers.unwrap_or_default().into_iter().zip(backs) {
        let _ = back.send(Ok(answer));
    }
}

impl From<AnswerError> for ApiError {
    fn from(error: AnswerError) -> Self {
        match error {
            AnswerError::Version { got, expected } => Self::WrongVersion { got, expected },
            AnswerError::Message(_) => Self::InvalidCiphertext(error.to_string()),
        }
    }
}
