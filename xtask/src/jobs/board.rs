//! The terminal's display while jobs run: a clock, the jobs that are done, that run and that are still coming.

use std::path::Path;
use std::time::{Duration, Instant};

use super::clock::{Clock, minutes};
use super::report::{Entry, tail};

/// Never tells more often than this, and again after that.
const SELDOM: Duration = Duration::from_secs(5);
const HEARTBEAT: Duration = Duration::from_secs(30);

/// The lines that tell how far the jobs are.
pub(super) struct Board {
    clock: Clock,
    running: Vec<&'static str>,
    coming: String,
    when: Instant,
}

impl Board {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, running: Vec::new(), coming: String::new(), when: Instant::now() }
    }

    /// Tells what runs, with the last line of its log, and what is still coming, when that changed or was told a while
    /// ago.
    pub(super) fn tell(&mut self, running: &[(&'static str, Instant, &Path)], waiting: &[&str]) {
        let names: Vec<_> = running.iter().map(|(name, ..)| *name).collect();
        let since = self.when.elapsed();
        if names.is_empty() || since < SELDOM || (names == self.running && since < HEARTBEAT) {
            return;
        }
        let running: Vec<_> = running
            .iter()
            .map(|(name, since, log)| {
                let last = tail(log, 1).pop().unwrap_or_default();
                let last: String = last.trim().trim_start_matches("$ ").chars().take(32).collect();
                let last = if last.is_empty() { last } else { format!(" ({last})") };
                format!("{name} {}{last}", minutes(since.elapsed()))
            })
            .collect();
        self.clock.line(&format!("  running: {}", running.join(", ")));
        let coming = waiting.join(", ");
        if coming != self.coming {
            println!("          to come: {}", if coming.is_empty() { "nothing more" } else { &coming });
            self.coming = coming;
        }
        self.running = names;
        self.when = Instant::now();
    }

    pub(super) fn done(&self, entry: &Entry, note: &str) {
        let took =
            if entry.wall.as_secs() == 0 { String::new() } else { format!(" in {}", minutes(entry.wall)) };
        let note = if note.is_empty() { String::new() } else { format!(": {note}") };
        self.clock.line(&format!("{} done{took}{note}", entry.name));
    }

    /// Tells that a job failed, with the failures that its log names and the end of that log.
    pub(super) fn failed(&self, entry: &Entry, failures: &[String], log: &[String]) {
        self.clock.line(&format!("{} FAILED after {}", entry.name, minutes(entry.wall)));
        for (title, lines) in [("failures named in its log:", failures), ("the end of its log:", log)] {
            if !lines.is_empty() {
                println!("  {title}");
            }
            lines.iter().for_each(|line| println!("    {line}"));
        }
    }
}
