//! Locks that are taken even after a panic.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks a mutex, even if a thread panicked while it held it.
///
/// The state behind such a mutex is whole after a panic, because each change of it is one assignment or one call of a
/// collection; or a panic ends the work that it belongs to, so that nobody uses what is half done. One panic then
/// does not make every later caller panic too. State that a panic can tear is locked with [`Mutex::lock`], whose error
/// says so.
///
/// ```
/// let counts = std::sync::Mutex::new(vec![1, 2]);
/// dpr_files::lock(&counts).push(3);
/// assert_eq!(*dpr_files::lock(&counts), [1, 2, 3]);
/// ```
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for reading, even if a thread panicked while it wrote; for state that is whole all the same, as
/// [`lock`] says.
pub fn read_lock<T: ?Sized>(state: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    state.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for writing, even if a thread panicked while it wrote; for state that is whole all the same, as
/// [`lock`] says.
pub fn write_lock<T: ?Sized>(state: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    state.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn what_a_panic_left_behind_is_locked_all_the_same() {
        let (mutex, state) = (Mutex::new(1), RwLock::new(1));
        let panics = || {
            let (mut number, mut other) = (lock(&mutex), write_lock(&state));
            (*number, *other) = (2, 2);
            panic!("while both are held");
        };
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert!(mutex.is_poisoned() && state.is_poisoned());
        assert_eq!((*lock(&mutex), *read_lock(&state)), (2, 2));
        assert_eq!(*write_lock(&state), 2);
    }
}
