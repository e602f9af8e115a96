//! Order, failure and the limit of jobs that run side by side.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::process;

fn run_all(jobs: Vec<Job>, limit: usize) -> (Report, Outcome) {
    run_on_failure(jobs, limit, OnFailure::EndAll)
}

fn run_on_failure(jobs: Vec<Job>, limit: usize, on_failure: OnFailure) -> (Report, Outcome) {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let run_number = RUNS.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("dpr-jobs-{}-{run_number}", std::process::id()));
    let result = run(jobs, limit, &folder.to_string_lossy(), Clock::now(), &Stop::new(), on_failure);
    fs::remove_dir_all(folder).unwrap();
    result
}

#[test]
fn a_job_starts_after_what_it_needs() {
    let order = Arc::new(Mutex::new(Vec::new()));
    // A job ends once the job `after` has ended, which it does not need.
    let job = |name: &'static str, needs: &[&'static str], after: Option<&'static str>| {
        let order = order.clone();
        Job::new(name, needs, move || {
            let start = Instant::now();
            while after.is_some_and(|after| !order.lock().unwrap().contains(&after)) {
                assert!(start.elapsed() < Duration::from_secs(20), "{name} waits for {after:?}");
                std::thread::sleep(Duration::from_millis(1));
            }
            order.lock().unwrap().push(name);
            Ok(())
        })
    };
    let jobs = vec![
        job("page", &["module", "packages"], None),
        job("module", &[], Some("packages")),
        job("packages", &["node", "not in the list"], None),
        job("node", &[], None),
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
fn the_jobs_that_need_no_failed_one_go_on_where_told_to() {
    let broken = |name: &'static str| Job::new(name, &[], || Err::<(), _>(Failure::new("disk full")));
    let jobs = vec![
        broken("module"),
        broken("packages"),
        Job::new("bound", &["module"], || Ok(())),
        Job::new("page", &["bound"], || Ok(())),
        Job::new("index", &[], || Ok(())),
        Job::new("search", &["index"], || Ok(())),
    ];
    let (report, outcome) = run_on_failure(jobs, 1, OnFailure::GoOn);
    let failure = outcome.unwrap_err().to_string();
    for words in ["2 jobs failed", "module: disk full", "packages: disk full", "not started (bound, page)"] {
        assert!(failure.contains(words), "{failure}");
    }
    assert_eq!(report.names().collect::<Vec<_>>(), ["index", "search"]);
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
    let jobs = vec![Job::new("count", &[], move || process::run(&mut process::command("sh", &["-c", busy])))];
    let (report, outcome) = run_all(jobs, 1);
    assert_eq!(outcome, Ok(()));
    assert!(report.processor() > Duration::from_millis(5), "{:?}", report.processor());
}
