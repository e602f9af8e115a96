//! Jobs that wait for each other, run side by side, with a clock and a log each.
//!
//! A job's commands write to its log, so that the terminal tells only what is done, what runs and what is still
//! coming. The first job that fails ends the others, or all run that do not need it.

mod board;
mod clock;
mod context;
mod report;
mod run;

pub(crate) use clock::Clock;
pub(crate) use context::{Stop, current, lock, say};
pub(crate) use run::run;

use crate::failure::Outcome;

/// The result of a job for the reader: one line, and the closing lines of a test runner.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) note: String,
    pub(crate) closing: Vec<String>,
}

impl Done {
    /// A result of one line.
    pub(crate) fn note(note: impl Into<String>) -> Self {
        Self { note: note.into(), closing: Vec::new() }
    }
}

impl From<()> for Done {
    fn from((): ()) -> Self {
        Self::default()
    }
}

/// The fate of the other jobs when one fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// They are ended.
    EndAll,
    /// All run that do not need it.
    GoOn,
}

/// The resource that a job keeps busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    /// A network or nothing much: as many as there are run at once.
    Network,
    /// A processor: no more than the limit run at once.
    Processor,
}

/// A piece of work with the names of those that must be done before it.
///
/// Names that are not in the list are taken for done: a task that leaves out a part leaves the others as they are.
pub(crate) struct Job {
    pub(crate) name: &'static str,
    needs: Vec<&'static str>,
    busy: Busy,
    work: Box<dyn FnOnce() -> Outcome<Done> + Send>,
}

impl Job {
    /// A job that keeps a processor busy.
    pub(crate) fn new<D: Into<Done>>(
        name: &'static str,
        needs: &[&'static str],
        work: impl FnOnce() -> Outcome<D> + Send + 'static,
    ) -> Self {
        let work = Box::new(move || work().map(Into::into));
        Self { name, needs: needs.to_vec(), busy: Busy::Processor, work }
    }

    /// The names of the jobs that must be done before it.
    #[cfg(test)]
    pub(crate) fn needs(&self) -> &[&'static str] {
        &self.needs
    }

    /// The same job, waiting for a network more than for a processor.
    pub(crate) fn waiting(mut self) -> Self {
        self.busy = Busy::Network;
        self
    }
}

/// Runs the jobs of a task that consists of nothing else, with logs under `target/logs`.
pub(crate) fn run_task(task: &str, jobs: Vec<Job>) -> Outcome {
    let clock = Clock::now();
    let (_, outcome) =
        run(jobs, processors(), &format!("target/logs/{task}"), clock, &Stop::new(), OnFailure::EndAll);
    if outcome.is_ok() {
        clock.line(&format!("{task}: all there"));
    }
    outcome
}

/// Jobs that keep a processor busy at once: builds have quiet stretches, so never fewer than two.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(2, |n| n.get().max(2))
}
