//! Checks that an open index puts off: files that are read when they are first needed, and the damage found in them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::FileError;
use dpr_files::Mapped;

/// The first damage that was found in the files of an open index: from then on every search of it fails.
#[derive(Debug, Default)]
pub(crate) struct Damage(OnceLock<FileError>);

impl Damage {
    /// Records what is wrong with a file, and logs it; the first damage stays.
    pub(crate) fn record(&self, error: FileError) {
        if self.0.set(error.clone()).is_ok() {
            tracing::error!("{error}: searches of this index fail from now on, restore it from a copy");
        }
    }

    /// Returns the damage that was recorded, if any.
    pub(crate) fn found(&self) -> Option<&FileError> {
        self.0.get()
    }

    /// Refuses what was read if any file is known to be damaged.
    pub(crate) fn check(&self) -> Result<(), FileError> {
        self.found().map_or(Ok(()), |error| Err(error.clone()))
    }
}

/// A value that is made of checked files when it is first needed, once: whoever needs it meanwhile waits.
///
/// Whoever waits may be a thread of a pool, so what makes the value must not wait for a pool.
pub(crate) struct Deferred<T> {
    value: OnceLock<Result<T, FileError>>,
    make: Box<dyn Fn() -> Result<T, FileError> + Send + Sync>,
    damage: Arc<Damage>,
}

impl<T> Deferred<T> {
    /// Puts off `make`. Its failure is recorded in `damage`.
    pub(crate) fn new(
        damage: &Arc<Damage>,
        make: impl Fn() -> Result<T, FileError> + Send + Sync + 'static,
    ) -> Self {
        Self { value: OnceLock::new(), make: Box::new(make), damage: Arc::clone(damage) }
    }

    /// Returns the value, which is made now if it was not yet.
    pub(crate) fn get(&self) -> Result<&T, FileError> {
        let make = || (self.make)().inspect_err(|error| self.damage.record(error.clone()));
        self.value.get_or_init(make).as_ref().map_err(Clone::clone)
    }
}

/// A mapped file that is checked when it is first read, or was when it was opened.
#[derive(Debug)]
pub(crate) struct CheckedFile {
    file: Arc<Mapped>,
    check: Option<Arc<Deferred<()>>>,
}

impl CheckedFile {
    /// Takes a file that was checked.
    pub(crate) fn checked(file: Mapped) -> Self {
        Self { file: Arc::new(file), check: None }
    }

    /// Takes a file that `check` looks at before its bytes are read.
    pub(crate) fn unchecked(
        file: Mapped,
        damage: &Arc<Damage>,
        check: impl Fn(&Mapped) -> Result<(), FileError> + Send + Sync + 'static,
    ) -> Self {
        let file = Arc::new(file);
        let looked_at = Arc::clone(&file);
        let check = Deferred::new(damage, move || check(&looked_at));
        Self { file, check: Some(Arc::new(check)) }
    }

    /// Returns the bytes, after the check.
    pub(crate) fn bytes(&self) -> Result<&[u8], FileError> {
        self.check.as_ref().map_or(Ok(&()), |check| check.get())?;
        Ok(self.file.bytes())
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.file.bytes().len()
    }

    /// Returns the check that was put off, if it was.
    pub(crate) fn check(&self) -> Option<Arc<Deferred<()>>> {
        self.check.clone()
    }
}

impl<T> fmt::Debug for Deferred<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferred").field("is_made", &self.value.get().is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_value_is_made_once_and_its_failure_stays() {
        let (damage, made) = (Arc::<Damage>::default(), Arc::<AtomicUsize>::default());
        let count = Arc::clone(&made);
        let value = Deferred::new(&damage, move || Ok(count.fetch_add(1, Ordering::Relaxed) + 1));
        assert_eq!(made.load(Ordering::Relaxed), 0, "not before it is needed");
        std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(|| *value.get().unwrap()));
            assert_eq!(threads.map(|thread| thread.join().unwrap()), [1; 4]);
        });
        assert!(damage.check().is_ok() && made.load(Ordering::Relaxed) == 1);
        let bad = Deferred::<()>::new(&damage, || Err(FileError::corrupt(Path::new("codes.i8"), "a test")));
        for _ in 0..2 {
            assert!(bad.get().unwrap_err().to_string().contains("codes.i8"));
        }
        damage.record(FileError::corrupt(Path::new("other"), "later"));
        assert!(damage.check().unwrap_err().to_string().contains("codes.i8"), "the first damage");
    }
}
