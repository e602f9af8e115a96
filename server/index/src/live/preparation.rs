//! Work on a new version before it is put in use.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::{BuildError, LoadedIndex};

/// The error of a preparation.
pub type PreparationError = Box<dyn Error + Send + Sync>;

type Prepare = dyn Fn(&LoadedIndex, &Arc<AtomicBool>) -> Result<(), PreparationError> + Send + Sync;

/// The work on a version before it is put in use, where there is some.
#[derive(Default)]
pub(super) struct Preparation(Option<Box<Prepare>>);

impl Preparation {
    pub(super) fn new(
        prepare: impl Fn(&LoadedIndex, &Arc<AtomicBool>) -> Result<(), PreparationError> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Box::new(prepare)))
    }

    /// Prepares a version; an error is logged.
    ///
    /// # Errors
    /// [`BuildError::Interrupted`] once `stop` is set: the version may not be prepared to the end.
    pub(super) fn run(&self, version: &LoadedIndex, stop: &Arc<AtomicBool>) -> Result<(), BuildError> {
        let prepared = self.0.as_ref().map_or(Ok(()), |prepare| prepare(version, stop));
        if stop.load(Ordering::Relaxed) {
            return Err(BuildError::Interrupted);
        }
        if let Err(error) = prepared {
            tracing::error!("version {} of the index is put in use as it is: {error}", version.number());
        }
        Ok(())
    }
}

/// A function of a version of the index that is about to be put in use.
type Arrive = dyn Fn(&LoadedIndex) + Send + Sync;

/// The callback for each version that is about to be put in use; none by default.
#[derive(Default)]
pub(super) struct Arrivals(OnceLock<Box<Arrive>>);

impl Arrivals {
    /// Sets the callback and returns `true`, or returns `false` where there is one already.
    pub(super) fn set(&self, arrive: impl Fn(&LoadedIndex) + Send + Sync + 'static) -> bool {
        self.0.set(Box::new(arrive)).is_ok()
    }

    /// Calls the callback with a version.
    pub(super) fn tell(&self, version: &LoadedIndex) {
        if let Some(arrive) = self.0.get() {
            arrive(version);
        }
    }
}

impl fmt::Debug for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Arrivals").field(&self.0.get().is_some()).finish()
    }
}

impl fmt::Debug for Preparation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Preparation").field(&self.0.is_some()).finish()
    }
}
