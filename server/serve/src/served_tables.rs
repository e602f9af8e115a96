//! The private tables that a server has, and the questions that wait for them: those that wait together are answered in
//! one reading of a table. Tables of a newer version of the index take the place of those in use.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use axum::http::HeaderValue;
use dpr_core::model::sha256_hex;
use dpr_core::private::encrypted::wire::Kind;
use dpr_files::{lock, plain, read_lock, write_lock};
use dpr_index::search::Description;
use dpr_private::{AnswerError, MANIFEST, MOST_FETCHES, OpenError, Tables, dir_of_version};
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
    /// The version of the tables, which is their `etag`, has characters that an HTTP header cannot have.
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
    /// again once others take their place, and returns their version if it did. Tables that are not there yet are no
    /// error: questions are refused meanwhile.
    ///
    /// # Errors
    /// Tables that cannot be read, are damaged or of another index. Those in use stay.
    pub fn follow(&self, index: &Path, newest: &Description) -> io::Result<Option<String>> {
        if let Some(tables) = self.of(newest)
            && tables.are_those_in(&dir_of_version(index, newest.number))?
        {
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
    /// The number of the next message.
    next_message: AtomicU64,
}

/// Messages that wait for a thread.
type Waiting = Mutex<Vec<Message>>;

/// A message that waits.
#[derive(Debug)]
struct Message {
    number: u64,
    body: HeldBody,
    /// Changes of the index since the tables were made of it.
    changes: u64,
    /// The way back of its answer.
    back: oneshot::Sender<Result<Vec<u8>, ApiError>>,
}

/// The caller's end of a message that waits. When this is dropped before the message was taken, the message goes, and
/// with its body the room that it holds: its client has gone, its time has run out, or no thread reads the table for
/// it.
#[derive(Debug)]
pub(super) struct Asked {
    tables: Arc<TablesOfVersion>,
    kind: Kind,
    /// The number of the message.
    pub(super) number: u64,
    /// The answer, once it is there.
    pub(super) answer: oneshot::Receiver<Result<Vec<u8>, ApiError>>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.answer.close();
        self.tables.drop_abandoned(self.kind);
    }
}

impl TablesOfVersion {
    fn new(tables: Tables, gate: SearchGate) -> io::Result<Self> {
        let contents = tables.public_contents();
        let files = contents.map(|(content, name, file)| ServedFile::of_mapped(name, content, &file.sha256));
        let files = files.collect();
        let tag = HeaderValue::from_str(&format!("\"{}\"", tables.version()));
        Ok(Self {
            files,
            tag: tag.map_err(io::Error::other)?,
            tables,
            gate,
            ranks: Waiting::default(),
            fetches: Waiting::default(),
            next_message: AtomicU64::new(0),
        })
    }

    /// Returns whether the tables in the directory `dir` are these, which `dpr index private` may have replaced by
    /// others of the same version of the index. Tables that have gone are not replaced.
    fn are_those_in(&self, dir: &Path) -> io::Result<bool> {
        match plain::read(&dir.join(MANIFEST), plain::DESCRIPTION) {
            Ok(json) => Ok(sha256_hex(&json) == self.tables.version()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Returns `true` if these are the tables of the version of the index that is described.
    pub(super) fn is_of(&self, index: &Description) -> bool {
        self.tables.checked().manifest.index_version == index.version
    }

    fn waiting(&self, kind: Kind) -> &Waiting {
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

    /// Lets a message wait for a thread.
    pub(super) fn ask(self: &Arc<Self>, kind: Kind, body: HeldBody, changes: u64) -> Asked {
        let number = self.next_message.fetch_add(1, Ordering::Relaxed);
        let (back, answer) = oneshot::channel();
        // Before the message is there for others, so that nothing in between can leave it behind.
        let asked = Asked { tables: Arc::clone(self), kind, number, answer };
        lock(self.waiting(kind)).push(Message { number, body, changes, back });
        asked
    }

    /// Returns the number of messages that wait for a thread.
    #[cfg(test)]
    pub(super) fn count_waiting(&self, kind: Kind) -> usize {
        lock(self.waiting(kind)).len()
    }

    /// Drops the messages whose clients have gone.
    fn drop_abandoned(&self, kind: Kind) {
        lock(self.waiting(kind)).retain(|message| !message.back.is_closed());
    }

    /// Answers messages that wait, as many as one reading takes: the one with the number `own`, unless another has
    /// taken it, and those that wait the longest. Whoever gets a thread does this, for the others too; a message whose
    /// client has gone is passed over.
    pub(super) fn answer_waiting(&self, kind: Kind, own: u64) {
        let taken = {
            let mut waiting = lock(self.waiting(kind));
            waiting.retain(|message| !message.back.is_closed());
            // The threads of the messages that are taken are cancelled once those are answered, so that nobody would be
            // left for its own.
            if let Some(at) = waiting.iter().position(|message| message.number == own) {
                waiting[..=at].rotate_right(1);
            }
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
    for Message { body, changes, back, .. } in taken {
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
