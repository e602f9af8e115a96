//! The writing end of a live index.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};

use super::commit::{self, Inner, Put, Waiting};
use super::follow::Read;
use super::preparation::{Preparation, PreparationError};
use super::state::{Resolved, State};
use super::{DeltaLimit, LiveIndex, NewPassage};
use crate::directory::pointer::Pointer;
use crate::vectors::{overflow, squared_norm};
use crate::wal::header::Header;
use crate::wal::reader::write_new;
use crate::wal::record::Change;
use crate::wal::writer::WalWriter;
use crate::{ChangeError, FileError, IndexDir, LoadedIndex, OpenError, UpdateError, limits};
use dpr_files::atomic;
use dpr_files::{DirLock, lock};

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
    pub(super) preparation: Preparation,
}

impl IndexWriter {
    /// Opens the index in `dir` for changes and locks it; `holder` is what others are told who want to write there.
    ///
    /// # Errors
    /// [`FileError::Busy`] when another process writes there, [`OpenError::WordsAlone`] for an index without vectors,
    /// [`SparseError::NotBuiltIn`](crate::sparse::SparseError::NotBuiltIn) for one with an inverted index where this
    /// build has no feature `sparse`, or as [`IndexReader::open`](super::IndexReader::open).
    pub fn open(dir: &Path, holder: &str) -> Result<Self, OpenError> {
        Self::open_by(dir, holder, LoadedIndex::read)
    }

    /// Opens as [`open`](Self::open) does, and checks files when they are read, as
    /// [`IndexReader::open_unchecked`](super::IndexReader::open_unchecked) does.
    ///
    /// # Errors
    /// As [`open`](Self::open), but for damage that is found later.
    pub fn open_unchecked(dir: &Path, holder: &str) -> Result<Self, OpenError> {
        Self::open_by(dir, holder, LoadedIndex::read_unchecked)
    }

    fn open_by(dir: &Path, holder: &str, read: Read) -> Result<Self, OpenError> {
        let index = IndexDir::new(dir);
        index.pointer()?;
        let lock = index.lock(holder)?;
        atomic::remove_unfinished(dir).map_err(FileError::write)?;
        let pointer = index.pointer()?;
        let base = LoadedIndex::open_version_by(dir, pointer.version, &pointer.manifest_sha256, read);
        let base = base.map_err(|error| match error {
            OpenError::NoVectors { .. } => OpenError::WordsAlone { path: dir.to_path_buf() },
            other => other,
        })?;
        // A compaction could not build the words of the next version.
        base.manifest.check_words()?;
        let header = Header { base: pointer.manifest_sha256.clone(), dim: base.manifest.dim };
        let mut state = State::new(Arc::new(base));
        let path = index.log_path(pointer.version);
        if !pointer.has_log {
            // The pointer does not know of it before it is there.
            write_new(&path, &header, &mut std::io::empty(), 0, 0)?;
            lock.check()?;
            index.point(&Pointer { has_log: true, ..pointer })?;
        } else {
            // A process that was killed may have renamed the pointer and not synced that: what is acknowledged in this
            // version must not be lost with the rename.
            atomic::sync_dir(dir).map_err(FileError::write)?;
        }
        let log = WalWriter::open(&path, header, &mut |changes| state.apply(changes))?;
        let live = Arc::new(LiveIndex::new(state.snapshot()));
        live.health.set_log_bytes(log.position().0);
        Ok(Self {
            dir: dir.to_path_buf(),
            live,
            lock,
            queue: Mutex::default(),
            inner: Mutex::new(Inner { state, log, limit: DeltaLimit::NONE }),
            compacting: Mutex::default(),
            preparation: Preparation::default(),
        })
    }

    /// Returns the writer with a preparation: `prepare` runs on each new version before it is put in use, and builds
    /// what belongs to it, such as private tables. When it fails, the error is logged and the version is put in use
    /// without them. The flag tells it to stop.
    #[must_use]
    pub fn with_preparation(
        self,
        prepare: impl Fn(&LoadedIndex, &Arc<AtomicBool>) -> Result<(), PreparationError> + Send + Sync + 'static,
    ) -> Self {
        Self { preparation: Preparation::new(prepare), ..self }
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
    /// # let passages = vec![Passage::new("a", "", "old")];
    /// # let vectors = dpr_index::vectors::VectorSet::new("model", 2, passages, vec![1.0, 0.0]);
    /// # dpr_index::build_index(&vectors, dir, &Default::default(), &dpr_files::progress::Silent)?;
    /// let new = |id: &str, text: &str, values: [f32; 2]| -> Result<NewPassage, dpr_core::EmbeddingError> {
    ///     let passage = Passage::new(id, "", text);
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
    /// [`UpdateError`]: no passages, an id or a text that is blank, a part that is longer than [`limits`] allow, an
    /// id that is given twice, a vector of another length or too long, a delta that is full, a log that cannot be
    /// written, or an update before this one that panicked.
    pub fn put(&self, passages: Vec<NewPassage>) -> Result<Put, UpdateError> {
        let dim = self.live.snapshot().base().manifest.dim;
        for (position, NewPassage { passage, vector }) in passages.iter().enumerate() {
            ChangeError::check_fields(position, passage)?;
            limits::check(passage)?;
            ChangeError::check_vector(&passage.id, vector.as_slice(), dim)?;
            if let Some((norm, max)) = overflow(squared_norm(vector.as_slice())) {
                return Err(UpdateError::Overflow { id: passage.id.clone(), norm, max });
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
        self.inner.lock().map_err(|_| {
            let torn = UpdateError::Torn { path: self.dir.clone() };
            self.live.health.set_log_broken(Some(torn.to_string()));
            torn
        })
    }

    /// Commits changes together with those of other threads that wait at the same time (group commit): the disk is
    /// synced once.
    fn submit(&self, changes: Vec<Change>) -> Result<Put, UpdateError> {
        ChangeError::check_ids(changes.iter().map(Change::id))?;
        // Before anything is locked: looking ids up reads passages.
        let snapshot = self.live.snapshot();
        let base = Arc::clone(snapshot.base_arc());
        let changes = changes.into_iter().map(|change| Resolved::of(change, &base));
        let changes = changes.collect::<Result<_, _>>()?;
        drop(snapshot);
        let outcome = Arc::default();
        let waiting = Waiting { changes, base, outcome: Arc::clone(&outcome) };
        lock(&self.queue).push(waiting);
        let mut inner = self.inner().inspect_err(|_| {
            // Nobody takes it out any more.
            lock(&self.queue).retain(|waiting| !Arc::ptr_eq(&waiting.outcome, &outcome));
        })?;
        let mine = || lock(&outcome).take();
        if let Some(done) = mine() {
            return done;
        }
        let group = std::mem::take(&mut *lock(&self.queue));
        // Without the lock a second writer may be at work, which appends to the same log.
        match self.lock.check() {
            Ok(()) => inner.commit(group, &self.live),
            Err(error) => commit::refuse(group, &error),
        }
        drop(inner);
        mine().unwrap_or(Err(ChangeError::Empty.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::testing::{build, new};
    use super::*;
    use crate::{CompactError, VectorIndex as _};
    use dpr_files::progress::Silent;

    #[test]
    fn ids_are_looked_up_before_the_state_is_locked() {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), 20);
        let writer = IndexWriter::open(root.path(), "a test").unwrap();
        std::thread::scope(|scope| {
            let locked = writer.inner().unwrap();
            let deleting = scope.spawn(|| writer.delete(vec!["p3".to_owned(), "p4".to_owned()]));
            // What waits for the lock holds rows, not ids alone.
            while writer.queue.lock().unwrap().is_empty() {
                std::thread::yield_now();
            }
            let waiting: Vec<_> =
                writer.queue.lock().unwrap()[0].changes.iter().map(|change| change.row()).collect();
            assert_eq!(waiting, [Some(3), Some(4)]);
            drop(locked);
            assert_eq!(deleting.join().unwrap().unwrap(), 2);
        });
        assert_eq!(writer.live().snapshot().len(), 18);
    }

    #[test]
    fn ids_that_were_looked_up_in_the_version_before_are_looked_up_again() {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), 20);
        let writer = IndexWriter::open(root.path(), "a test").unwrap();
        let before = Arc::clone(writer.live().snapshot().base_arc());
        // In the new version every passage after `p0` is one row further up.
        writer.delete(vec!["p0".to_owned()]).unwrap();
        writer.compact(1, &Arc::default(), &Silent).unwrap().unwrap();
        let change = Resolved::of(Change::Delete("p7".to_owned()), &before).unwrap();
        assert_eq!(change.row(), Some(7));
        let outcome = Arc::default();
        let waiting = Waiting { changes: vec![change], base: before, outcome: Arc::clone(&outcome) };
        writer.inner().unwrap().commit(vec![waiting], &writer.live);
        assert!(matches!(*outcome.lock().unwrap(), Some(Ok(_))));
        let snapshot = writer.live().snapshot();
        let left: Vec<String> = snapshot.passages().map(|live| live.unwrap().0.id).collect();
        assert_eq!(left.len(), 18);
        assert!(!left.contains(&"p7".to_owned()), "{left:?}");
    }

    #[test]
    fn updates_and_compactions_are_refused_after_a_panic_until_the_index_is_opened_again() {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), 20);
        let writer = IndexWriter::open(root.path(), "a test").unwrap();
        std::thread::scope(|scope| {
            let panics = scope.spawn(|| {
                let _inner = writer.inner().unwrap();
                panic!("a panic on purpose");
            });
            assert!(panics.join().is_err());
        });
        for number in 0..3 {
            let refused = writer.put(vec![new("a", number)]).unwrap_err();
            assert!(matches!(refused, UpdateError::Torn { .. }), "{refused}");
            assert!(writer.queue.lock().unwrap().is_empty());
        }
        let path = root.path().display();
        let said =
            format!("an update of the index {path} panicked: start again; what was acknowledged is kept");
        // A compaction would build from a state that may hold half of an update.
        let refused = writer.compact(1, &Arc::default(), &Silent).unwrap_err();
        assert!(matches!(refused, CompactError::Log(UpdateError::Torn { .. })), "{refused}");
        assert_eq!(refused.to_string(), said);
        assert_eq!(writer.live().health().log_broken, Some(said));
        drop(writer);
        IndexWriter::open(root.path(), "a test").unwrap().put(vec![new("a", 1)]).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn without_its_lock_a_writer_writes_nothing_more() {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), 20);
        let first = IndexWriter::open(root.path(), "the first").unwrap();
        first.put(vec![new("a", 1)]).unwrap();
        let second = IndexWriter::open(root.path(), "the second").unwrap_err();
        assert!(
            matches!(&second, OpenError::File(FileError::Busy { holder, .. }) if holder.contains("the first"))
        );
        // As a cleaning script does; a second writer then gets in.
        fs_err::remove_file(root.path().join(DirLock::NAME)).unwrap();
        let second = IndexWriter::open(root.path(), "the second").unwrap();
        let log = fs_err::read(root.path().join("updates-1.log")).unwrap();
        let refused = first.put(vec![new("b", 2)]).unwrap_err();
        assert!(matches!(refused, UpdateError::File(FileError::LockLost { .. })), "{refused}");
        let refused = first.compact(1, &Arc::default(), &Silent).unwrap_err().to_string();
        assert!(refused.contains(".lock"), "{refused}");
        assert_eq!(fs_err::read(root.path().join("updates-1.log")).unwrap(), log);
        second.put(vec![new("c", 3)]).unwrap();
        assert_eq!(second.live().snapshot().len(), 22);
    }
}
