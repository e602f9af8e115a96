//! Progress of long work on standard error: a bar on a terminal, plain lines everywhere else.

use std::io::{self, IsTerminal as _, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use dpr_files::lock;
use dpr_files::progress::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use super::logging;

/// Time between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Progress on standard error: a bar when it is a terminal, else [`Lines`], of text or, where the log is, of JSON.
pub(crate) fn on_stderr() -> Box<dyn Progress> {
    if logging::is_json() {
        Box::new(Lines::new(Log, LINE_EVERY))
    } else if io::stderr().is_terminal() {
        Box::new(Bar::default())
    } else {
        Box::new(Lines::new(io::stderr(), LINE_EVERY))
    }
}

/// Receiver of the lines of progress.
trait Tell: Send {
    fn tell(&mut self, stage: &Stage, line: &str);
}

/// Lines of text. A writer that fails is ignored: work does not end because nobody reads of it.
impl<W: Write + Send> Tell for W {
    fn tell(&mut self, _: &Stage, line: &str) {
        let _ = writeln!(self, "{line}");
    }
}

/// Events of the log, with the numbers of the line as fields.
struct Log;

impl Tell for Log {
    fn tell(&mut self, stage: &Stage, line: &str) {
        let Stage { name, unit, total, done, .. } = stage;
        tracing::info!(stage = name, done, total = (*total > 0).then_some(total), unit, "{line}");
    }
}

/// A bar that redraws itself on standard error.
#[derive(Debug, Default)]
struct Bar(Mutex<Option<ProgressBar>>);

impl Progress for Bar {
    fn start(&self, stage: &'static str, unit: &'static str, total: u64) {
        let template = format!(
            "{{prefix}} {{wide_bar}} {{human_pos}}/{{human_len}} {unit}, {{rate}}, {{eta}} left{{msg}}"
        );
        let template = match total {
            0 => format!("{{prefix}} {{spinner}} {{human_pos}} {unit}, {{rate}}{{msg}}"),
            _ => template,
        };
        let style = ProgressStyle::with_template(&template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .with_key("rate", move |state: &indicatif::ProgressState, out: &mut dyn std::fmt::Write| {
                let _ = write!(out, "{:.1} {unit}/s", state.per_sec());
            });
        let bar = ProgressBar::new(total).with_style(style).with_prefix(stage);
        bar.enable_steady_tick(Duration::from_millis(250));
        *lock(&self.0) = Some(bar);
    }

    fn advance(&self, steps: u64) {
        if let Some(bar) = &*lock(&self.0) {
            bar.inc(steps);
        }
    }

    fn detail(&self, text: &str) {
        if let Some(bar) = &*lock(&self.0) {
            bar.set_message(format!(", {text}"));
        }
    }

    fn finish(&self) {
        if let Some(bar) = lock(&self.0).take() {
            bar.abandon(); // leaves the bar as far as it came
        }
    }
}

/// Progress as lines of text: one every few seconds and one when a stage ends.
///
/// A line reads `encoding: 512 of 2067 passages, 88.2 passages/s, 18 s left`.
struct Lines<W> {
    every: Duration,
    inner: Mutex<(W, Option<Stage>)>,
}

struct Stage {
    name: &'static str,
    unit: &'static str,
    total: u64,
    done: u64,
    detail: String,
    started: Instant,
    last_line: Instant,
}

impl<W: Tell> Lines<W> {
    /// Returns progress that gives its lines to `out`, at most one in `every` while a stage runs.
    fn new(out: W, every: Duration) -> Self {
        Self { every, inner: Mutex::new((out, None)) }
    }
}

impl<W: Tell> Progress for Lines<W> {
    fn start(&self, stage: &'static str, unit: &'static str, total: u64) {
        let now = Instant::now();
        let stage =
            Stage { name: stage, unit, total, done: 0, detail: String::new(), started: now, last_line: now };
        lock(&self.inner).1 = Some(stage);
    }

    fn advance(&self, steps: u64) {
        let (out, stage) = &mut *lock(&self.inner);
        let Some(stage) = stage else { return };
        stage.done += steps;
        let now = Instant::now();
        if now.duration_since(stage.last_line) >= self.every && (stage.done < stage.total || stage.total == 0)
        {
            stage.last_line = now;
            out.tell(stage, &stage.line(now));
        }
    }

    fn detail(&self, text: &str) {
        if let Some(stage) = &mut lock(&self.inner).1 {
            stage.detail = text.to_owned();
        }
    }

    fn finish(&self) {
        let (out, stage) = &mut *lock(&self.inner);
        if let Some(stage) = stage.take() {
            out.tell(&stage, &stage.line(Instant::now()));
        }
    }
}

impl Stage {
    fn line(&self, now: Instant) -> String {
        let Self { name, unit, total, done, .. } = self;
        let seconds = now.duration_since(self.started).as_secs_f64();
        let mut line = match total {
            0 => format!("{name}: {done} {unit}"),
            _ => format!("{name}: {done} of {total} {unit}"),
        };
        if *done > 0 && seconds > 0.0 {
            let rate = *done as f64 / seconds;
            line.push_str(&format!(", {rate:.1} {unit}/s"));
            if done < total {
                line.push_str(&format!(", {} left", duration((total - done) as f64 / rate)));
            } else {
                line.push_str(&format!(", {} in all", duration(seconds)));
            }
        }
        if !self.detail.is_empty() {
            line.push_str(", ");
            line.push_str(&self.detail);
        }
        line
    }
}

/// Seconds as people read them: `18 s`, `3 min 05 s`, `2 h 07 min`.
fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: Lines<Vec<u8>>) -> Vec<String> {
        let bytes = lines.inner.into_inner().unwrap().0;
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_stage_tells_its_rate_and_the_time_left() {
        let lines = Lines::new(Vec::new(), Duration::ZERO);
        lines.start("encoding", "passages", 4);
        std::thread::sleep(Duration::from_millis(5));
        lines.advance(1);
        lines.advance(3);
        lines.finish();
        let told = told(lines);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told[0].starts_with("encoding: 1 of 4 passages, ") && told[0].ends_with(" s left"),
            "{told:?}"
        );
        assert!(told[0].contains(" passages/s, "), "{told:?}");
        assert!(
            told[1].starts_with("encoding: 4 of 4 passages, ") && told[1].ends_with(" s in all"),
            "{told:?}"
        );
    }

    #[test]
    fn a_stage_of_which_no_end_is_known_tells_what_is_done() {
        let lines = Lines::new(Vec::new(), Duration::ZERO);
        lines.start("indexing terms", "passages", 0);
        lines.advance(1024);
        lines.finish();
        let told = told(lines);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told.iter().all(|line| line.starts_with("indexing terms: 1024 passages")), "{told:?}");
    }

    #[test]
    fn lines_are_rare_while_work_goes_on() {
        let lines = Lines::new(Vec::new(), Duration::from_secs(3600));
        lines.start("encoding", "passages", 1000);
        for _ in 0..1000 {
            lines.advance(1);
        }
        lines.finish();
        assert_eq!(told(lines).len(), 1);
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(duration(18.2), "18 s");
        assert_eq!(duration(185.0), "3 min 05 s");
        assert_eq!(duration(7620.0), "2 h 07 min");
    }
}
