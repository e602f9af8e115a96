//! A million vectors in one graph: what building, opening and searching it takes, and its speed beside SymphonyQG, VSAG
//! and faiss.

use std::{fs, io};

use super::index::{Vectors, peer, print_graphs, print_ratios, vectors};
use super::{json, number};
use crate::failure::{Failure, Outcome};
use crate::paths::built;
use crate::process::{self, command, output};

const COUNT: usize = 1_000_000;
/// In a quick run.
const QUICK_COUNT: usize = 50_000;
/// Least ratio of our graph to the fastest peer's.
const GRAPH: f64 = 1.0;
/// The fastest peers among 60,000 vectors, each with two M, as ours.
const PEERS: [(&str, [&str; 2]); 3] =
    [("symphonyqg", ["16", "32"]), ("vsag", ["24", "32"]), ("faiss", ["24", "32"])];

pub(super) fn run(is_quick: bool) -> Outcome {
    let Some(Vectors { folder, vectors, questions, blocks }) = vectors(is_quick)? else { return Ok(()) };
    let count = if is_quick { QUICK_COUNT } else { COUNT };
    process::build_benches(&["index_bench", "million_bench"])?;
    let program = |name: &str| built(name);
    if !is_newer(&format!("{folder}/rows.f32"), &format!("{vectors}/manifest.json")) {
        let model = crate::paths::DEMO_MODEL;
        output(&mut command(program("index_bench"), &[&vectors, model, &questions, &folder]))?;
    }
    let large = format!("{folder}/{count}");
    let _removed = Removed::now_and_at_the_end(&large)?;
    let said = output(&mut command(program("million_bench"), &[&folder, &count.to_string(), &large]))?;
    let said = json(&said, "million_bench")?;
    let of = |name: &str| number(&said, name);
    println!(
        "\n{count} vectors of 768 numbers: {blocks} of Wikipedia's blocks, the others mixtures of two of these with noise"
    );
    println!(
        "build and write  {:>9.1} s, {:.1} GB at most",
        of("build_seconds")?,
        of("build_peak_bytes")? / 1e9
    );
    println!(
        "open             {:>9.2} s from the disk, files checked when they are read",
        of("open_seconds")?
    );
    println!(
        "first answer     {:>9.2} s after the start, the second {:.0} ms after it",
        of("answer_seconds")?,
        of("second_answer_seconds")? * 1e3
    );
    let (first, again) = (of("checked_seconds")?, of("reopen_seconds")?);
    println!("open and check   {first:>9.2} s from the disk, again {again:.2} s");
    println!("on disk          {:>9.0} bytes/vector", of("bytes")? / count as f64);
    println!("in memory        {:>9.0} bytes/vector", of("searching_bytes")? / count as f64);
    println!("verify           {:>9.1} s, all as written: {}", of("verify_seconds")?, said["verified"]);
    println!("\n{:>6} {:>10} {:>10} {:>10}", "ef", "recall@20", "p50, ms", "p99, ms");
    for tried in said["tried"].as_array().into_iter().flatten() {
        let of = |name: &str| number(tried, name);
        println!("{:>6} {:>10.4} {:>10.3} {:>10.3}", tried["ef"], of("recall")?, of("p50")?, of("p99")?);
    }
    let top_100 = of("top_100")?;
    println!(
        "\ntop-100 on all threads, ef 160: {top_100:.0} questions/s (the paper: 995, with 21 million passages)"
    );
    print_graphs(std::iter::once(&said), count)?;
    println!("of dpr, bytes are with the passages' texts and build is with the writing of all files");
    let rows = format!("{large}/vectors.f32");
    let mut peers = Vec::new();
    for (engine, [m, other]) in PEERS {
        peers.push(peer(engine, &folder, &["--rows", &rows, "--m", m, other])?);
    }
    print_graphs(peers.iter(), count)?;
    print_ratios(&said, &peers, GRAPH);
    Ok(())
}

/// A directory that is removed, with what is left of an earlier run and when this value is dropped.
struct Removed<'a>(&'a str);

impl<'a> Removed<'a> {
    fn now_and_at_the_end(dir: &'a str) -> Outcome<Self> {
        match fs::remove_dir_all(dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Failure::new(format!("cannot remove {dir}: {error}")))
            }
            _ => Ok(Self(dir)),
        }
    }
}

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0);
    }
}

/// Returns whether `made` is there and was written after `source`.
fn is_newer(made: &str, source: &str) -> bool {
    let written = |path: &str| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    written(made).zip(written(source)).is_some_and(|(made, source)| made > source)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_directory_is_removed_before_and_where_what_follows_fails() {
        let dir = std::env::temp_dir().join(format!("dpr-removed-{}", std::process::id()));
        let make = || fs::create_dir_all(dir.join("old")).unwrap();
        make();
        let path = dir.to_string_lossy();
        let failed = || -> Outcome {
            let _removed = Removed::now_and_at_the_end(&path)?;
            assert!(!dir.exists());
            make();
            Err(Failure::new("a peer failed".to_owned()))
        };
        assert!(failed().is_err());
        assert!(!dir.exists());
    }

    #[test]
    fn rows_that_are_older_than_their_vectors_are_written_anew() {
        let folder = std::env::temp_dir().join(format!("dpr-rows-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let at = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let (rows, vectors) = (at("rows.f32"), at("manifest.json"));
        let written = |path: &str, seconds: u64| {
            let file = fs::File::create(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        };
        written(&vectors, 2000);
        assert!(!is_newer(&rows, &vectors));
        written(&rows, 1000);
        assert!(!is_newer(&rows, &vectors));
        written(&rows, 3000);
        assert!(is_newer(&rows, &vectors));
        fs::remove_dir_all(&folder).unwrap();
    }
}
