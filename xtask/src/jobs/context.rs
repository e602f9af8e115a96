//! The context of a job for its commands: its log, its processor time, and how to end them all.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Ends the commands of jobs, those that run and those that would start.
#[derive(Default)]
pub(crate) struct Stop(Mutex<Running>);

#[derive(Default)]
struct Running {
    is_stopped: bool,
    /// Leaders of process groups.
    groups: Vec<u32>,
}

/// The stops that a signal has to end.
static STOPS: Mutex<Vec<Weak<Stop>>> = Mutex::new(Vec::new());

/// The stops of servers that tasks talk to: a signal ends them, and this process does not wait until they have ended.
static SERVERS: Mutex<Vec<Weak<Stop>>> = Mutex::new(Vec::new());

impl Stop {
    /// One that Ctrl-C, SIGTERM and SIGHUP pull too.
    pub(crate) fn new() -> Arc<Self> {
        Self::listed(&STOPS)
    }

    /// One of a server that a task talks to, which must not outlive it.
    pub(crate) fn of_server() -> Arc<Self> {
        Self::listed(&SERVERS)
    }

    fn listed(list: &Mutex<Vec<Weak<Self>>>) -> Arc<Self> {
        let stop = Arc::new(Self::default());
        let mut all = lock(list);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&stop));
        // It fails where a handler is already set, which is ours.
        let _ = ctrlc::set_handler(end);
        stop
    }

    /// Asks every command with all its children to end; none is started after this.
    pub(crate) fn pull(&self) {
        let mut running = lock(&self.0);
        // Asked twice: what still runs would not listen.
        let signal = if running.is_stopped { Signal::SIGKILL } else { Signal::SIGTERM };
        running.is_stopped = true;
        for group in &running.groups {
            let _ = killpg(Pid::from_raw(*group as i32), signal);
        }
    }

    /// Returns whether it was pulled.
    pub(crate) fn is_pulled(&self) -> bool {
        lock(&self.0).is_stopped
    }

    /// Starts a process that leads a group, so that it can be ended with its children.
    pub(crate) fn spawn(&self, command: &mut std::process::Command) -> io::Result<std::process::Child> {
        use std::os::unix::process::CommandExt;
        let mut running = lock(&self.0);
        if running.is_stopped {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "the task was ended"));
        }
        let child = command.process_group(0).spawn()?;
        running.groups.push(child.id());
        Ok(child)
    }

    /// Forgets a process that has ended.
    pub(crate) fn ended(&self, id: u32) {
        lock(&self.0).groups.retain(|group| *group != id);
    }
}

/// Does what a signal asks: ends the servers, and the jobs, or this process where there are none.
fn end() {
    let there =
        |list: &Mutex<Vec<Weak<Stop>>>| -> Vec<_> { lock(list).iter().filter_map(Weak::upgrade).collect() };
    there(&SERVERS).iter().for_each(|server| server.pull());
    let running = there(&STOPS);
    if running.is_empty() {
        #[allow(clippy::exit)] // as if the signal had not been caught
        std::process::exit(130);
    }
    running.iter().for_each(|stop| stop.pull());
}

/// The job that this thread works on.
pub(crate) struct Context {
    pub(crate) stop: Arc<Stop>,
    log: Mutex<File>,
    path: PathBuf,
    processor: Mutex<Duration>,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Context>>> = const { RefCell::new(None) };
}

/// The job of this thread, if it works on one.
pub(crate) fn current() -> Option<Arc<Context>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Tells what is being done: in the job's log, or on the terminal where there is no job.
pub(crate) fn say(text: &str) {
    match current() {
        Some(job) => job.write(text),
        None => println!("{text}"),
    }
}

impl Context {
    pub(super) fn new(stop: Arc<Stop>, path: PathBuf) -> io::Result<Self> {
        let log = Mutex::new(File::create(&path)?);
        Ok(Self { stop, log, path, processor: Mutex::default() })
    }

    /// Makes this the job of the thread.
    pub(super) fn enter(self: Arc<Self>) {
        CURRENT.set(Some(self));
    }

    /// Adds a line to the log.
    pub(crate) fn write(&self, text: &str) {
        // A full disk ends the job by other means; its log is the least of it.
        let _ = writeln!(lock(&self.log), "{text}");
    }

    /// The log, for a command to write to.
    pub(crate) fn log(&self) -> io::Result<File> {
        lock(&self.log).try_clone()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds what an ended process and its children used.
    pub(crate) fn used(&self, processor: Duration) {
        *lock(&self.processor) += processor;
    }

    pub(super) fn processor(&self) -> Duration {
        *lock(&self.processor)
    }
}

/// Locks a mutex, even if a thread panicked while it held it: every change in this crate is one assignment, so the data
/// are whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
