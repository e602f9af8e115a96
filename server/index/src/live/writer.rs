//! The writing end of a live index.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::state::State;
use super::wal::header::Header;
use super::wal::reader::write_new;
use super::wal::record::{self, Change};
use super::wal::writer::WalWriter;
use super::{LiveIndex, NewPassage};
use crate::directory::pointer::Pointer;
use crate::vectors::squared_norm;
use crate::{FileError, IndexDir, LoadedIndex, OpenError, UpdateError};
use dpr_files::DirLock;
use dpr_files::atomic;

/// The writer of an index directory, of which it holds the lock; many threads may share it. Requests that arrive
/// together are written together (group commit).
#[derive(Debug)]
pub struct IndexWriter {
    pub(super) dir: PathBuf,
    pub(super) live: Arc<LiveIndex>,
    pub(super) lock: Arc<DirLock>,
    /// Requests that wait for the next group commit.
    queue: Mutex<Vec<Waiting>>,
    inner: Mutex<Inner>,
    /// Held while a new version is built.
    pub(super) compacting: Mutex<()>,
}

/// The state and the log, which one thread at a time changes.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) state: State,
    pub(super) log: WalWriter,
}

/// The result of putting passages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// Passages whose ids were new.
    pub added: usize,
    /// Passages that took the place of others.
    pub replaced: usize,
}

/// The changes of one request.
#[derive(Debug)]
struct Waiting {
    changes: Vec<Change>,
    outcome: Arc<Mutex<Option<Result<Put, UpdateError>>>>,
}

impl IndexWriter {
    /// Opens the index in `dir` for changes and locks it; `holder` is what others are told who want to write there.
    ///
    /// # Errors
    /// [`FileError::Busy`] when another process writes there, or as [`IndexReader::open`](super::IndexReader::open).
    pub fn open(dir: &Path, holder: &str) -> Result<Self, OpenError> {
        let index = IndexDir::new(dir);
        index.pointer()?;
        let lock = index.lock(holder)?;
        atomic::remove_unfinished(dir).map_err(FileError::write)?;
        let pointer = index.pointer()?;
        let base = LoadedIndex::open_version(dir, pointer.version, &pointer.manifest_sha256)?;
        let header = Header { base: pointer.manifest_sha256.clone(), dim: base.manifest.dim };
        let mut state = State::new(Arc::new(base));
        let path = index.log_path(pointer.version);
        if !pointer.has_log {
            // The pointer does not know of it before it is there.
            write_new(&path, &header, &mut std::io::empty(), 0, 0)?;
            index.point(&Pointer { has_log: true, ..pointer })?;
        }
        let log = WalWriter::open(&path, header, &mut |changes| state.apply(changes))?;
        Ok(Self {
            dir: dir.to_path_buf(),
            live: Arc::new(LiveIndex::new(state.snapshot())),
            lock,
            queue: Mutex::default(),
            inner: Mutex::new(Inner { state, log }),
            compacting: Mutex::default(),
        })
    }

    /// Returns the index as searches see it.
    pub fn live(&self) -> &Arc<LiveIndex> {
        &self.live
    }

    /// Adds passages, each in the place of the one that has its id, if one does: all of them or, on an error, none.
    /// When this returns, they are on the disk and in every search that begins.
    ///
    /// ```
    /// use dpr_core::Embedding;
    /// use dpr_data::Passage;
    /// use dpr_index::{IndexWriter, NewPassage, Put};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let dir = dir.path();
    /// # let passages = vec![Passage { id: "a".to_owned(), title: String::new(), text: "old".to_owned() }];
    /// # let vectors = dpr_index::vectors::VectorSet::new("model", 2, passages, vec![1.0, 0.0]);
    /// # dpr_index::build_index(&vectors, dir, &Default::default(), &dpr_files::progress::Silent)?;
    /// let new = |id: &str, text: &str, values: [f32; 2]| -> Result<NewPassage, dpr_core::EmbeddingError> {
    ///     let passage = Passage { id: id.to_owned(), title: String::new(), text: text.to_owned() };
    ///     Ok(NewPassage { passage, vector: Embedding::new(values.into(), 2)? })
    /// };
    /// // The index in `dir` holds the passage `a`: it is replaced, and `b` is added.
    /// let writer = IndexWriter::open(dir, "my service")?;
    /// let put = writer.put(vec![new("a", "A better text.", [0.5, 0.5])?, new("b", "Another.", [0.0, 1.0])?])?;
    /// assert_eq!(put, Put { added: 1, replaced: 1 });
    ///
    /// // A blank text is refused, and with it the whole request.
    /// assert!(writer.put(vec![new("c", "Fine.", [1.0, 1.0])?, new("d", " ", [1.0, 0.0])?]).is_err());
    /// assert_eq!(writer.live().snapshot().changes(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`UpdateError`]: no passages, an id or a text that is blank, an id that is given twice, a vector of another
    /// length or too long, or a log that cannot be written.
    pub fn put(&self, passages: Vec<NewPassage>) -> Result<Put, UpdateError> {
        let dim = self.live.snapshot().base().manifest.dim;
        for (position, NewPassage { passage, vector }) in passages.iter().enumerate() {
            for (what, text) in [("id", &passage.id), ("text", &passage.text)] {
                if text.trim().is_empty() {
                    return Err(UpdateError::Blank { position, what });
                }
            }
            if vector.dim() != dim {
                let source = dpr_core::EmbeddingError::Dimension { got: vector.dim(), expected: dim };
                return Err(UpdateError::Vector { id: passage.id.clone(), source });
            }
            let norm = squared_norm(vector.as_slice());
            // As in a matrix.
            if norm > f64::from(f32::MAX) / 8.0 {
                return Err(UpdateError::Overflow { norm: norm.sqrt() });
            }
        }
        self.submit(passages.into_iter().map(Change::Put).collect())
    }

    /// Deletes the passages with these ids and returns their number: all of them or, on an error, none. When this
    /// returns, the tombstones are on the disk, and no search that begins finds the passages.
    ///
    /// # Errors
    /// [`UpdateError`]: no ids, ids that no passage has, an id that is given twice, or a log that cannot be written.
    pub fn delete(&self, ids: Vec<String>) -> Result<usize, UpdateError> {
        let count = ids.len();
        self.submit(ids.into_iter().map(Change::Delete).collect()).map(|_| count)
    }

    pub(super) fn inner(&self) -> Result<MutexGuard<'_, Inner>, UpdateError> {
        self.inner.lock().map_err(|_| UpdateError::LogBroken {
            path: self.dir.clone(),
            reason: "an update failed in the middle".to_owned(),
        })
    }

    /// Commits changes together with those of other threads that wait at the same time (group commit): the disk is
    /// synced once.
    fn submit(&self, changes: Vec<Change>) -> Result<Put, UpdateError> {
        if changes.is_empty() {
            return Err(UpdateError::NoChanges);
        }
        let mut rows = HashMap::with_capacity(changes.len());
        for (second, change) in changes.iter().enumerate() {
            if let Some(first) = rows.insert(change.id(), second) {
                return Err(UpdateError::DuplicateId { id: change.id().to_owned(), first, second });
            }
        }
        drop(rows);
        let outcome = Arc::default();
        let waiting = Waiting { changes, outcome: Arc::clone(&outcome) };
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(waiting);
        let mut inner = self.inner()?;
        let mine = || outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(done) = mine() {
            return done;
        }
        let group = std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner));
        inner.commit(group, &self.live);
        drop(inner);
        mine().unwrap_or(Err(UpdateError::NoChanges))
    }
}

impl Inner {
    /// Writes the changes of a group, syncs once, and answers each request.
    fn commit(&mut self, group: Vec<Waiting>, live: &LiveIndex) {
        let (mut frames, mut accepted, mut count) = (Vec::new(), Vec::new(), 0);
        // Ids that requests of the group before this one put or deleted.
        let mut before: HashMap<String, bool> = HashMap::new();
        for Waiting { changes, outcome } in group {
            match self.prepare(&changes, &before, &mut frames) {
                Err(error) => answer(&outcome, Err(error)),
                Ok(put) => {
                    let is_there = |change: &Change| matches!(change, Change::Put(_));
                    before.extend(changes.iter().map(|change| (change.id().to_owned(), is_there(change))));
                    count += changes.len() as u64;
                    accepted.push((changes, outcome, put));
                }
            }
        }
        if accepted.is_empty() {
            return;
        }
        if let Err(error) = self.log.append(&frames, count) {
            for (_, outcome, _) in &accepted {
                answer(outcome, Err(error.clone()));
            }
            return;
        }
        let mut failed = None;
        let mut answers = Vec::with_capacity(accepted.len());
        for (changes, outcome, put) in accepted {
            // It was checked, so that this does not fail; if it did, memory and disk would differ.
            if let Err(reason) = self.state.apply(changes) {
                failed = Some(self.log.give_up(&reason));
            }
            answers.push((outcome, put));
        }
        live.set(self.state.snapshot());
        for (outcome, put) in answers {
            answer(&outcome, failed.as_ref().map_or(Ok(put), |error| Err(error.clone())));
        }
    }

    /// Checks the changes of a request against what is there, and appends their frame.
    fn prepare(
        &self,
        changes: &[Change],
        before: &HashMap<String, bool>,
        frames: &mut Vec<u8>,
    ) -> Result<Put, UpdateError> {
        let is_there = |id: &str| before.get(id).map_or_else(|| self.state.contains(id), |known| Ok(*known));
        let (mut unknown, mut added, mut replaced) = (Vec::new(), 0, 0);
        for change in changes {
            match (change, is_there(change.id())?) {
                (Change::Delete(id), false) => unknown.push(id.clone()),
                (Change::Delete(_), true) => {}
                (Change::Put(_), false) => added += 1,
                (Change::Put(_), true) => replaced += 1,
            }
        }
        if !unknown.is_empty() {
            return Err(UpdateError::UnknownIds { ids: unknown });
        }
        let max = u32::MAX as usize - before.len();
        if changes.len() >= max.saturating_sub(self.state.rows()) {
            return Err(UpdateError::TooMany { rows: self.state.rows() + changes.len(), max });
        }
        if !record::encode(changes, frames) {
            return Err(UpdateError::TooLarge);
        }
        Ok(Put { added, replaced })
    }
}

fn answer(outcome: &Mutex<Option<Result<Put, UpdateError>>>, with: Result<Put, UpdateError>) {
    *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(with);
}
