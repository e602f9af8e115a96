//! The scheduler: starts each job as soon as what it needs is done and a processor is free.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use super::board::Board;
use super::clock::Clock;
use super::context::{Context, Stop};
use super::report::{Entry, Report, failures, tail};
use super::{Busy, Done, Job, OnFailure};
use crate::failure::{Failure, Outcome};

/// The time that a job has run before the board tells of it.
const SETTLED: Duration = Duration::from_secs(2);
/// Lines at the end of a failed job's log that are shown.
const SHOWN: usize = 40;

/// A job that runs.
struct Started {
    name: &'static str,
    busy: Busy,
    since: Instant,
    context: Arc<Context>,
}

type Ended = (&'static str, Outcome<Done>);

/// Runs all jobs, at most `limit` of those that keep a processor busy at once; earlier ones first.
///
/// Each has a log in `folder`. The report holds what was done, also when a job failed.
pub(crate) fn run(
    jobs: Vec<Job>,
    limit: usize,
    folder: &str,
    clock: Clock,
    stop: &Arc<Stop>,
    on_failure: OnFailure,
) -> (Report, Outcome) {
    let mut report = Report::default();
    let outcome = fs::create_dir_all(folder)
        .map_err(|e| Failure::new(format!("cannot create {folder}: {e}")))
        .and_then(|()| schedule(jobs, limit.max(1), folder, clock, stop, on_failure, &mut report));
    (report, outcome)
}

fn schedule(
    mut waiting: Vec<Job>,
    limit: usize,
    folder: &str,
    clock: Clock,
    stop: &Arc<Stop>,
    on_failure: OnFailure,
    report: &mut Report,
) -> Outcome {
    let (sender, ended) = mpsc::channel::<Ended>();
    let mut running: Vec<Started> = Vec::new();
    let mut undone: BTreeSet<&str> = waiting.iter().map(|job| job.name).collect();
    let mut board = Board::new(clock);
    let mut failed: Vec<Failure> = Vec::new();
    let mut given_up: Vec<&str> = Vec::new();
    loop {
        while !stop.is_pulled() {
            let Some(next) = next(&waiting, &running, &undone, limit) else { break };
            match start(waiting.remove(next), folder, stop, &sender) {
                Ok(started) => running.push(started),
                Err(error) => {
                    failed.push(error);
                    stop.pull();
                }
            }
        }
        if running.is_empty() {
            break;
        }
        tell(&mut board, &running, &waiting);
        let Ok((name, outcome)) = ended.recv_timeout(Duration::from_millis(500)) else { continue };
        let Some(position) = running.iter().position(|job| job.name == name) else { continue };
        let job = running.remove(position);
        undone.remove(name);
        match outcome {
            Ok(done) => {
                board.done(&job.entry(clock), &done.note);
                report.add(job.entry(clock), done.closing);
            }
            // Ended because another one failed.
            Err(_) if stop.is_pulled() => {}
            Err(error) => {
                let log = job.context.path();
                board.failed(&job.entry(clock), &failures(log), &tail(log, SHOWN));
                failed.push(error.during(name).fix(format!("read {}", log.display())));
                match on_failure {
                    OnFailure::EndAll => stop.pull(),
                    OnFailure::GoOn => given_up.extend(give_up(&mut waiting, name)),
                }
            }
        }
    }
    if let Some(failure) = Failure::all(failed) {
        return Err(match given_up.as_slice() {
            [] => failure,
            jobs => failure.during(&format!("not started ({})", jobs.join(", "))),
        });
    }
    if stop.is_pulled() {
        return Err(Failure::new("ended by a signal"));
    }
    if waiting.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("these jobs wait for each other: {}", names(&waiting).join(", "))))
}

/// Takes out of the list the jobs that wait for one that failed, and those that wait for them; returns their names.
fn give_up(waiting: &mut Vec<Job>, failed: &'static str) -> Vec<&'static str> {
    let mut lost = vec![failed];
    while let Some(position) = waiting.iter().position(|job| job.needs.iter().any(|need| lost.contains(need)))
    {
        lost.push(waiting.remove(position).name);
    }
    lost.split_off(1)
}

fn names(waiting: &[Job]) -> Vec<&'static str> {
    waiting.iter().map(|job| job.name).collect()
}

fn tell(board: &mut Board, running: &[Started], waiting: &[Job]) {
    let settled = running.iter().filter(|job| job.since.elapsed() >= SETTLED);
    let told: Vec<_> = settled.map(|job| (job.name, job.since, job.context.path())).collect();
    board.tell(&told, &names(waiting));
}

impl Started {
    /// Returns the entry of the job for the time until now.
    fn entry(&self, clock: Clock) -> Entry {
        Entry {
            name: self.name,
            start: self.since.duration_since(clock.start()),
            wall: self.since.elapsed(),
            processor: self.context.processor(),
        }
    }
}

/// The first job that may start.
fn next(waiting: &[Job], running: &[Started], undone: &BTreeSet<&str>, limit: usize) -> Option<usize> {
    let busy = running.iter().filter(|job| job.busy == Busy::Processor).count();
    waiting.iter().position(|job| {
        (job.busy == Busy::Network || busy < limit) && !job.needs.iter().any(|need| undone.contains(need))
    })
}

fn start(job: Job, folder: &str, stop: &Arc<Stop>, sender: &mpsc::Sender<Ended>) -> Outcome<Started> {
    let path = Path::new(folder).join(format!("{}.log", job.name.replace([' ', '/', ':'], "-")));
    let path = crate::paths::absolute(path);
    let context = Context::new(stop.clone(), path.clone())
        .map_err(|e| Failure::new(format!("cannot write {}: {e}", path.display())))?;
    let context = Arc::new(context);
    let started = Started { name: job.name, busy: job.busy, since: Instant::now(), context: context.clone() };
    let (sender, name, work) = (sender.clone(), job.name, job.work);
    std::thread::spawn(move || {
        context.enter();
        let outcome = catch_unwind(AssertUnwindSafe(work))
            .unwrap_or_else(|_| Err(Failure::new("the job panicked; its message is above")));
        let _ = sender.send((name, outcome));
    });
    Ok(started)
}

#[cfg(test)]
mod tests;
