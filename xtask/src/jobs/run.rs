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
use super::report::{Entry, Report, tail};
use super::{Busy, Done, Job};
use crate::failure::{Failure, Outcome};

/// How long a job has run before the board tells of it.
const SETTLED: Duration = Duration::from_secs(2);
/// Lines of a failed job's log that are shown.
const SHOWN: usize = 60;

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
/// Each has a log in `folder`. The report holds what was done, also when a job failed and ended the others.
pub(crate) fn run(
    jobs: Vec<Job>,
    limit: usize,
    folder: &str,
    clock: Clock,
    stop: &Arc<Stop>,
) -> (Report, Outcome) {
    let mut report = Report::default();
    let outcome = fs::create_dir_all(folder)
        .map_err(|e| Failure::new(format!("cannot create {folder}: {e}")))
        .and_then(|()| schedule(jobs, limit.max(1), folder, clock, stop, &mut report));
    (report, outcome)
}

fn schedule(
    mut waiting: Vec<Job>,
    limit: usize,
    folder: &str,
    clock: Clock,
    stop: &Arc<Stop>,
    report: &mut Report,
) -> Outcome {
    let (sender, ended) = mpsc::channel::<Ended>();
    let mut running: Vec<Started> = Vec::new();
    let mut undone: BTreeSet<&str> = waiting.iter().map(|job| job.name).collect();
    let mut failure: Option<Failure> = None;
    let mut board = Board::new(clock);
    loop {
        while failure.is_none() && !stop.is_pulled() {
            let Some(next) = next(&waiting, &running, &undone, limit) else { break };
            let job = waiting.remove(next);
            running.push(start(job, folder, stop, &sender)?);
        }
        if running.is_empty() {
            break;
        }
        let told: Vec<_> = running
            .iter()
            .filter(|job| job.since.elapsed() >= SETTLED)
            .map(|job| (job.name, job.since, job.context.path()))
            .collect();
        board.tell(&told, &waiting.iter().map(|job| job.name).collect::<Vec<_>>());
        let (name, outcome) = match ended.recv_timeout(Duration::from_millis(500)) {
            Ok(ended) => ended,
            Err(_) => continue,
        };
        let Some(position) = running.iter().position(|job| job.name == name) else { continue };
        let job = running.remove(position);
        undone.remove(name);
        let entry = Entry {
            name,
            start: job.since.duration_since(clock.start()),
            wall: job.since.elapsed(),
            processor: job.context.processor(),
        };
        match outcome {
            Ok(done) => {
                board.done(&entry, &done.note);
                report.add(entry, done.closing);
            }
            Err(error) if failure.is_none() && !stop.is_pulled() => {
                board.failed(&entry, &tail(job.context.path(), SHOWN));
                failure = Some(error.during(name).fix(format!("read {}", job.context.path().display())));
                stop.pull();
            }
            // Ended because another one failed.
            Err(_) => {}
        }
    }
    match failure {
        Some(failure) => Err(failure),
        None if stop.is_pulled() => Err(Failure::new("ended by a signal")),
        None if waiting.is_empty() => Ok(()),
        None => {
            let names = waiting.iter().map(|job| job.name).collect::<Vec<_>>().join(", ");
            Err(Failure::new(format!("these jobs wait for each other: {names}")))
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
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::process;

    fn run_all(jobs: Vec<Job>, limit: usize) -> (Report, Outcome) {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let run_number = RUNS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("dpr-jobs-{}-{run_number}", std::process::id()));
        let result = run(jobs, limit, &folder.to_string_lossy(), Clock::now(), &Stop::new());
        fs::remove_dir_all(folder).unwrap();
        result
    }

    #[test]
    fn a_job_starts_after_what_it_needs() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let job = |name: &'static str, needs: &[&'static str], wait| {
            let order = order.clone();
            Job::new(name, needs, move || {
                std::thread::sleep(Duration::from_millis(wait));
                order.lock().unwrap().push(name);
                Ok(())
            })
        };
        let jobs = vec![
            job("page", &["module", "packages"], 0),
            job("module", &[], 60),
            job("packages", &["node", "not in the list"], 0),
            job("node", &[], 20),
        ];
        let (report, outcome) = run_all(jobs, 4);
        assert_eq!(outcome, Ok(()));
        assert_eq!(*order.lock().unwrap(), ["node", "packages", "module", "page"]);
        assert_eq!(report.names().count(), 4);
    }

    #[test]
    fn a_failing_job_is_named_and_ends_the_others() {
        let start = Instant::now();
        let jobs = vec![
            Job::new("slow", &[], || process::run(&mut process::command("sleep", &["60"]))),
            Job::new("broken", &[], || {
                process::run(&mut process::command("sh", &["-c", "echo disk full; exit 3"]))
            }),
            Job::new("later", &["slow"], || Err::<(), _>(Failure::new("was started"))),
        ];
        let (report, outcome) = run_all(jobs, 2);
        let failure = outcome.unwrap_err().to_string();
        assert!(failure.starts_with("broken: ") && failure.contains("exit status: 3"), "{failure}");
        assert!(failure.contains("broken.log"), "{failure}");
        assert!(start.elapsed() < Duration::from_secs(20));
        assert_eq!(report.names().count(), 0);
    }

    #[test]
    fn no_more_jobs_than_the_limit_keep_processors_busy() {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let work = || {
            let (now, most) = (now.clone(), most.clone());
            move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(30));
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        };
        let jobs = ["a", "b", "c", "d", "e"].map(|name| Job::new(name, &[], work())).into();
        assert_eq!(run_all(jobs, 2).1, Ok(()));
        assert_eq!(most.swap(0, Ordering::SeqCst), 2);
        let jobs = ["a", "b", "c", "d", "e"].map(|name| Job::new(name, &[], work()).waiting()).into();
        assert_eq!(run_all(jobs, 1).1, Ok(()));
        assert!(most.load(Ordering::SeqCst) > 2, "downloads wait for no processor");
    }

    #[test]
    fn jobs_that_wait_for_each_other_are_named() {
        let jobs = vec![Job::new("hen", &["egg"], || Ok(())), Job::new("egg", &["hen"], || Ok(()))];
        assert!(run_all(jobs, 2).1.unwrap_err().to_string().contains("hen, egg"));
    }

    #[test]
    fn what_a_command_used_is_counted() {
        let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let jobs =
            vec![Job::new("count", &[], move || process::run(&mut process::command("sh", &["-c", busy])))];
        let (report, outcome) = run_all(jobs, 1);
        assert_eq!(outcome, Ok(()));
        assert!(report.processor() > Duration::from_millis(5), "{:?}", report.processor());
    }
}
