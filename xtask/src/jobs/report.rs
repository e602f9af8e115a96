//! Where the time of a task went.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use super::clock::minutes;

/// When a job ran, for how long, and the processor time of its commands.
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
