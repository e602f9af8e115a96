//! The report on the time that a task took.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use super::clock::minutes;

/// The start of a job, its time, and the processor time of its commands.
pub(crate) struct Entry {
    pub(super) name: &'static str,
    pub(super) start: Duration,
    pub(super) wall: Duration,
    pub(super) processor: Duration,
}

/// All jobs that were done, in the order they ended.
#[derive(Default)]
pub(crate) struct Report {
    entries: Vec<(Entry, Vec<String>)>,
}

impl Report {
    pub(super) fn add(&mut self, entry: Entry, closing: Vec<String>) {
        self.entries.push((entry, closing));
    }

    /// The jobs that were done.
    #[cfg(test)]
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().map(|(entry, _)| entry.name)
    }

    /// Processor time of all commands.
    pub(crate) fn processor(&self) -> Duration {
        self.entries.iter().map(|(entry, _)| entry.processor).sum()
    }

    /// Prints the test runners' closing lines.
    pub(crate) fn print_closing(&self) {
        for (entry, closing) in self.entries.iter().filter(|(_, closing)| !closing.is_empty()) {
            println!("{}:", entry.name);
            closing.iter().for_each(|line| println!("    {line}"));
        }
    }

    /// Prints a line for each job that took a second, in the order they began.
    pub(crate) fn print_times(&self) {
        let mut entries: Vec<_> =
            self.entries.iter().map(|(entry, _)| entry).filter(|entry| entry.wall.as_secs() > 0).collect();
        entries.sort_by_key(|entry| entry.start);
        println!("{:<28} {:>7} {:>7} {:>10}", "job", "began", "took", "processor");
        for entry in entries {
            let [start, wall, processor] = [entry.start, entry.wall, entry.processor].map(minutes);
            println!("{:<28} {start:>7} {wall:>7} {processor:>10}", entry.name);
        }
        println!("{:<28} {:>7} {:>7} {:>10}", "all", "", "", minutes(self.processor()));
    }
}

/// The beginnings, and the ends, of lines by which test runners and the compiler name a failure.
const BEGINS: [&str; 4] = ["not ok ", "error", "thread '", "✘ "];
const ENDS: [&str; 1] = ["... FAILED"];
/// Lines shown of each failure, and of all together.
const OF_ONE: usize = 16;
const OF_ALL: usize = 120;

/// The lines of a log that name a failure, each with those that follow it; none when the log cannot be read.
pub(super) fn failures(log: &Path) -> Vec<String> {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut shown = Vec::new();
    let mut left = 0;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let bare = line.trim();
        if BEGINS.iter().any(|begin| bare.starts_with(begin)) || ENDS.iter().any(|end| bare.ends_with(end)) {
            left = OF_ONE;
        }
        if left > 0 && shown.len() < OF_ALL {
            shown.push(line.to_owned());
        }
        left = left.saturating_sub(1);
    }
    shown
}

/// The last lines of a file that say something; none when it cannot be read.
pub(super) fn tail(file: &Path, lines: usize) -> Vec<String> {
    const MOST: u64 = 16_384;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(file)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MOST)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let last: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    last[last.len().saturating_sub(lines)..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_shown_wherever_they_stand_in_a_log() {
        let file = std::env::temp_dir().join(format!("dpr-failures-{}.log", std::process::id()));
        let passed = "ok 2 - later\n".repeat(1000);
        let node =
            format!("ok 1 - first\n    not ok 2 - sum of two\n  error: 3 is not 4\n{passed}# fail 1\n");
        std::fs::write(&file, node).unwrap();
        let found = failures(&file);
        assert_eq!(found[..2], ["    not ok 2 - sum of two", "  error: 3 is not 4"]);
        assert!(found.len() < 2 * OF_ONE, "{}", found.len());
        std::fs::write(&file, "test a ... ok\ntest index::b ... FAILED\n").unwrap();
        assert_eq!(failures(&file), ["test index::b ... FAILED"]);
        std::fs::write(&file, passed).unwrap();
        assert!(failures(&file).is_empty());
        std::fs::remove_file(file).unwrap();
    }
}
