//! A process that is killed in the middle of a compaction, as for the memory that one takes, is not killed again and
//! again: the next one waits before it tries.

use crate::support::common::{Bench, json, succeed};
use crate::support::server::{Server, ask};

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// The time in which a server that compacts has begun to: it looks once a second.
const SOON: Duration = Duration::from_secs(4);

/// A server that compacts after five changes and writes its log to the file `log`.
fn serve(bench: &Bench, log: &str) -> Server {
    let arguments = ["serve", "--model", "model", "--index", "index", "--device", "cpu", "--allow-updates"];
    let mut command = bench.dpr(&arguments);
    command.args(["--compact-rows", "4", "--listen", "127.0.0.1:0"]).env_remove("DPR_UPDATE_TOKEN");
    command.stderr(fs_err::File::create(bench.path(log)).unwrap().into_parts().0);
    Server::start(&mut command)
}

fn index(server: &Server) -> Value {
    let (status, body) = ask(&server.address, "GET", "/v1/index", "").unwrap();
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

fn delete(server: &Server, id: &str) {
    let (status, body) =
        ask(&server.address, "DELETE", "/v1/passages", &format!(r#"{{"ids":["{id}"]}}"#)).unwrap();
    assert_eq!(status, 200, "{body}");
}

/// Returns the number of compactions in a row that were killed, as the marker says.
fn killed(marker: &Path) -> Option<u64> {
    let text = fs_err::read_to_string(marker).ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Waits until the marker says that compaction number `times` has begun.
fn wait_for(marker: &Path, times: u64) {
    let started = Instant::now();
    while killed(marker) != Some(times) {
        assert!(started.elapsed() < Duration::from_secs(30), "compaction {times} does not begin");
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn version(bench: &Bench) -> u64 {
    dpr_index::IndexDir::new(&bench.path("index")).current_version().unwrap()
}

/// Returns the seconds that a server says it waits.
fn waits(bench: &Bench, log: &str) -> u64 {
    let text = fs_err::read_to_string(bench.path(log)).unwrap();
    let (_, after) = text.split_once("compaction waits for ").unwrap_or_else(|| panic!("{text}"));
    after.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn after_a_kill_in_the_middle_of_a_compaction_the_next_process_waits_twice_as_long_each_time() {
    let bench = Bench::new();
    bench.corpus(1500);
    succeed(&mut bench.encode("vectors", &[]));
    // A graph that takes seconds, so that it is killed in the middle.
    let graph = ["--kind", "hnsw", "--m", "32", "--ef-construction", "1000"];
    succeed(bench.dpr(&["index", "--vectors", "vectors", "--out", "index"]).args(graph));
    let marker = bench.path("index/compacting");

    let server = serve(&bench, "first.log");
    (0..6).for_each(|number| delete(&server, &format!("p{number}")));
    wait_for(&marker, 1);
    // Killed, as by the system when memory runs out.
    drop(server);
    assert_eq!((killed(&marker), version(&bench)), (Some(1), 1));

    // What restarts it finds a server that answers and takes updates, and is not killed again.
    let server = serve(&bench, "second.log");
    let started = Instant::now();
    delete(&server, "p7");
    while started.elapsed() < SOON {
        assert_eq!((killed(&marker), version(&bench)), (Some(1), 1), "it compacts again");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(index(&server)["count"], 1493);
    let first = waits(&bench, "second.log");
    assert!((30..=60).contains(&first), "{first} s");
    drop(server);

    // A command does not wait. It is killed too.
    let mut command = bench.dpr(&["index", "compact", "--index", "index"]);
    let mut compact = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&marker, 2);
    compact.kill().unwrap();
    compact.wait().unwrap();
    let server = serve(&bench, "third.log");
    std::thread::sleep(SOON);
    let second = waits(&bench, "third.log");
    assert!((90..=120).contains(&second), "{second} s");
    assert_eq!((killed(&marker), version(&bench)), (Some(2), 1));
    drop(server);

    // Two minutes later.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    fs_err::write(&marker, format!("2 {}\n", now - 121)).unwrap();
    let server = serve(&bench, "fourth.log");
    let started = Instant::now();
    while version(&bench) == 1 {
        assert!(started.elapsed() < Duration::from_secs(60), "it waits for ever");
        std::thread::sleep(Duration::from_millis(20));
    }
    while marker.exists() {
        assert!(started.elapsed() < Duration::from_secs(60), "the marker stays");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(index(&server)["count"], 1493);
    drop(server);
    let mut verify: Command = bench.dpr(&["index", "verify", "--index", "index", "--json"]);
    assert_eq!((json(&mut verify)["changes"].clone(), version(&bench)), (Value::from(0), 2));
}
