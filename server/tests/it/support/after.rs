//! Something that happens once in the middle of a long operation, such as a crash.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use dpr_files::progress::Progress;

/// Counts the items that a writer reports and calls `then` once `at` of them are done.
#[derive(Debug)]
pub(crate) struct After<F> {
    count: AtomicU64,
    at: u64,
    then: F,
}

impl<F: Fn() + Send + Sync> After<F> {
    pub(crate) fn new(at: u64, then: F) -> Self {
        Self { count: AtomicU64::new(0), at, then }
    }
}

impl<F: Fn() + Send + Sync> Progress for After<F> {
    fn start(&self, _: &'static str, _: &'static str, _: u64) {}

    fn advance(&self, done: u64) {
        let before = self.count.fetch_add(done, Ordering::SeqCst);
        if before < self.at && before + done >= self.at {
            (self.then)();
        }
    }

    fn finish(&self) {}
}

/// Runs `load` on a thread of its own, calls `crash` once it has reported `at` items, and returns what `load` returned.
pub(crate) fn crash_after<R: Send>(
    at: u64,
    load: impl FnOnce(&dyn Progress) -> R + Send,
    crash: impl FnOnce(),
) -> R {
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let loading = scope.spawn(move || load(&After::new(at, move || tell.send(()).unwrap())));
        told.recv().unwrap();
        crash();
        loading.join().unwrap()
    })
}
