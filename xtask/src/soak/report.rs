//! The results of a soak.

use std::collections::BTreeMap;
use std::time::Duration;

use super::server::{Leaked, PATIENCE};
use crate::failure::{Failure, Outcome};

/// Seconds after which memory must not grow any more; of a short run, a quarter.
const WARM_UP: f64 = 60.0;
/// The bytes by which memory may differ all the same, besides 5 %: versions are built meanwhile.
const SLACK: f64 = 16e6;
/// Wrong answers that are shown.
const SHOWN: usize = 10;

/// The observations of the clients, and of the server.
#[derive(Default)]
pub(super) struct Report {
    /// Milliseconds by kind of request and status.
    times: BTreeMap<(&'static str, u16), Vec<f32>>,
    /// Rankings held against the ledger.
    pub(super) checked: usize,
    /// Answers that cannot be right, and requests without one.
    pub(super) wrong: Vec<String>,
    /// Seconds since the start, and bytes.
    pub(super) memory: Vec<(f64, f64)>,
    /// The version in use at the end.
    pub(super) version: u64,
    pub(super) leaked: Leaked,
}

impl Report {
    pub(super) fn count(&mut self, kind: &'static str, status: u16, took: Duration) {
        self.times.entry((kind, status)).or_default().push(took.as_secs_f32() * 1e3);
    }

    /// Notes an answer that cannot be right. A client whose server is gone would note thousands a second.
    pub(super) fn wrong(&mut self, what: String) {
        self.wrong.push(what);
        std::thread::sleep(Duration::from_millis(10));
    }

    pub(super) fn add(&mut self, other: Self) {
        for (key, times) in other.times {
            self.times.entry(key).or_default().extend(times);
        }
        self.checked += other.checked;
        self.wrong.extend(other.wrong);
    }

    pub(super) fn print(&mut self, seconds: f64) {
        println!(
            "\n{:<18} {:>6} {:>10} {:>10} {:>9} {:>9} {:>9}",
            "request", "status", "count", "a second", "p50, ms", "p99, ms", "most, ms"
        );
        for ((kind, status), times) in &mut self.times {
            times.sort_unstable_by(f32::total_cmp);
            let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
            let (count, rate) = (times.len(), times.len() as f64 / seconds);
            println!(
                "{kind:<18} {status:>6} {count:>10} {rate:>10.1} {:>9.1} {:>9.1} {:>9.1}",
                at(0.5),
                at(0.99),
                at(1.0)
            );
        }
        println!("\n{} rankings held against the ledger, {} answers wrong", self.checked, self.wrong.len());
        for what in self.wrong.iter().take(SHOWN) {
            println!("  {what}");
        }
        println!("version {} of the index is in use", self.version);
        println!(
            "{} lines of log at trace level, {} of them with a text, a vector or a key",
            self.leaked.lines,
            self.leaked.secret.len()
        );
        for line in self.leaked.secret.iter().take(SHOWN) {
            println!("  {line}");
        }
        if let Some((before, after)) = self.growth() {
            println!(
                "memory: at most {:.1} MB after the warm-up, {:.1} MB at the end",
                before / 1e6,
                after / 1e6
            );
        }
    }

    /// The most memory in the first third after the warm-up, and in the last third.
    fn growth(&self) -> Option<(f64, f64)> {
        let end = self.memory.last()?.0;
        let from = WARM_UP.min(end / 4.0);
        let third = (end - from) / 3.0;
        let most = |from: f64, to: f64| {
            let within = self.memory.iter().filter(|(at, _)| (from..=to).contains(at));
            within.map(|(_, bytes)| *bytes).fold(f64::NAN, f64::max)
        };
        Some((most(from, from + third), most(end - third, end)))
    }

    /// Fails when anything was not as it must be.
    pub(super) fn judge(&self) -> Outcome {
        let mut wrong = Vec::new();
        if !self.wrong.is_empty() {
            wrong.push(format!("{} wrong answers", self.wrong.len()));
        }
        if self.checked == 0 {
            wrong.push("no search was answered".to_owned());
        }
        for (kind, what) in [("put", "no passage was written"), ("delete", "no passage was deleted")] {
            if !self.times.contains_key(&(kind, 200_u16)) {
                wrong.push(what.to_owned());
            }
        }
        // Requests whose client left have the status 0.
        if !self.times.keys().any(|(kind, status)| *kind == "misuse" && *status != 0) {
            wrong.push("no misuse was answered".to_owned());
        }
        if self.leaked.lines == 0 {
            wrong.push("the server logged nothing in which a text, a vector or a key could stand".to_owned());
        }
        if !self.leaked.secret.is_empty() {
            wrong.push(format!(
                "{} lines of the log with a text, a vector or a key",
                self.leaked.secret.len()
            ));
        }
        if !self.leaked.is_ended {
            wrong.push(format!("the server did not end within {} s of SIGTERM", PATIENCE.as_secs()));
        }
        match self.growth() {
            Some((before, after)) if after <= before * 1.05 + SLACK => {}
            Some((before, after)) => {
                wrong.push(format!("memory grew from {:.1} to {:.1} MB", before / 1e6, after / 1e6))
            }
            None => wrong.push("memory was not measured".to_owned()),
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(Failure::new(format!("soak: {}", wrong.join("; ")))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(memory: &[f64]) -> Report {
        let memory =
            memory.iter().enumerate().map(|(second, megabytes)| (second as f64, megabytes * 1e6)).collect();
        let leaked = Leaked { is_ended: true, lines: 1, ..Leaked::default() };
        let mut report = Report { memory, checked: 1, leaked, ..Report::default() };
        for (kind, status) in [("put", 200), ("delete", 200), ("misuse", 400)] {
            report.count(kind, status, Duration::from_millis(1));
        }
        report
    }

    #[test]
    fn memory_may_vary_but_not_grow() {
        let steady: Vec<f64> = (0..600).map(|second| 100.0 + f64::from(second % 10)).collect();
        assert_eq!(report(&steady).judge(), Ok(()));
        let growing: Vec<f64> = (0..600).map(|second| 100.0 + f64::from(second) / 10.0).collect();
        assert!(report(&growing).judge().unwrap_err().to_string().contains("memory grew"));
        assert!(report(&[]).judge().is_err());
    }

    #[test]
    fn wrong_answers_leaks_and_a_server_that_does_not_end_fail() {
        let mut wrong = report(&[100.0; 40]);
        wrong.wrong.push("search: 500".to_owned());
        assert!(wrong.judge().unwrap_err().to_string().contains("1 wrong answers"));
        let mut leaking = report(&[100.0; 40]);
        leaking.leaked.secret.push("GET /?q=SOAKSECRET".to_owned());
        assert!(leaking.judge().unwrap_err().to_string().contains("1 lines of the log"));
        let mut staying = report(&[100.0; 40]);
        staying.leaked.is_ended = false;
        assert!(staying.judge().unwrap_err().to_string().contains("did not end within 60 s of SIGTERM"));
        let mut idle = report(&[100.0; 40]);
        idle.checked = 0;
        assert!(idle.judge().is_err());
    }

    #[test]
    fn a_soak_without_a_log_without_changes_or_without_misuse_fails() {
        let steady = [100.0; 40];
        let silent = Report { leaked: Leaked::default(), ..report(&steady) };
        assert!(silent.judge().unwrap_err().to_string().contains("logged nothing"));
        for (key, words) in [
            (("put", 200_u16), "no passage was written"),
            (("delete", 200), "no passage was deleted"),
            (("misuse", 400), "no misuse was answered"),
        ] {
            let mut idle = report(&steady);
            idle.times.remove(&key);
            idle.count(key.0, if key.0 == "misuse" { 0 } else { 429 }, Duration::ZERO);
            let said = idle.judge().unwrap_err().to_string();
            assert!(said.contains(words), "{said}");
        }
    }
}
