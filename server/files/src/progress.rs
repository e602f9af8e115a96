//! The progress that long work reports.

/// A receiver of progress. Many threads may call it at once.
pub trait Progress: Send + Sync {
    /// A stage of `total` steps begins, 0 where their number is not known; it takes the place of the stage before. `stage`
    /// says what is being done ("encoding"), `unit` what a step is ("passages").
    fn start(&self, stage: &'static str, unit: &'static str, total: u64);

    /// `steps` more are done.
    fn advance(&self, steps: u64);

    /// Shows a note beside the count, as the loss of the last step; it stays until the next note.
    fn detail(&self, _text: &str) {}

    /// The stage is over, be it whole or not.
    fn finish(&self);
}

/// Tells nobody: for tests and for callers that do not wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn start(&self, _: &'static str, _: &'static str, _: u64) {}
    fn advance(&self, _: u64) {}
    fn finish(&self) {}
}
