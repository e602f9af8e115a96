//! `dpr index` as a process: what it prints, a full disk, Ctrl-C.

use crate::support::corpus;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use corpus::{random_rows, set, write_vectors};
use dpr_index::{IndexDir, LoadedIndex};

const DPR: &str = env!("CARGO_BIN_EXE_dpr");

fn vectors(dir: PathBuf, count: usize, dim: usize) -> PathBuf {
    write_vectors(&dir, &set(random_rows(count, dim), dim));
    dir
}

fn index(vectors: &Path, out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(DPR);
    command.arg("index").arg("--vectors").arg(vectors).arg("--out").arg(out).args(more);
    command
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_failure() {
    let root = tempfile::tempdir().unwrap();
    let vectors = vectors(root.path().join("vectors"), 20, 8);
    for more in [&[][..], &["--json"]] {
        let mut command = index(&vectors, &root.path().join("index"), more);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let (_, stderr) = text(&output);
        assert!(output.status.success() && !stderr.contains("panicked"), "{stderr}");
    }
}

#[test]
fn an_error_that_nobody_reads_ends_with_its_status() {
    let root = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    for more in [&[][..], &["--log-format", "json"]] {
        let mut command = Command::new(DPR);
        command.args(["index", "verify", "--index"]).arg(root.path()).args(more);
        let status = command.stderr(writer.try_clone().unwrap()).status().unwrap();
        assert_eq!(status.code(), Some(1), "{more:?}");
    }
}

#[test]
fn a_filter_of_the_log_that_cannot_be_read_is_an_error_and_a_word_that_is_no_level_is_told() {
    let root = tempfile::tempdir().unwrap();
    let vectors = vectors(root.path().join("vectors"), 20, 8);
    let run = |filter: &str, more: &[&str]| {
        let mut command = index(&vectors, &root.path().join("index"), more);
        let output = command.env("DPR_LOG", filter).output().unwrap();
        (output.status.code(), text(&output).1)
    };
    let (code, said) = run("dpr=loud", &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("error: DPR_LOG is `dpr=loud`") && said.contains("dpr_serve=debug"), "{said}");
    assert!(!root.path().join("index").exists(), "nothing was built");
    let (code, said) = run("verbose", &[]);
    assert!(code == Some(0) && said.contains("`verbose` is no level"), "{said}");
    let (_, said) = run("verbose", &["--log-format", "json"]);
    let line: serde_json::Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert_eq!(line["level"], "WARN", "{said}");
    assert!(!run("warn,dpr=debug", &[]).1.contains("is no level"));
}

#[test]
fn it_says_what_it_built() {
    let root = tempfile::tempdir().unwrap();
    let vectors = vectors(root.path().join("vectors"), 600, 8);
    let out = root.path().join("index");
    let output = index(&vectors, &out, &["--kind", "hnsw"]).output().unwrap();
    let (stdout, stderr) = text(&output);
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.starts_with("600 passages, 8 dimensions, hnsw, greatest squared norm "), "{stdout}");
    assert!(stdout.contains("recall@20"), "{stdout}");

    let output = index(&vectors, &out, &["--json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["kind"], &report["count"]), (&"exact".into(), &600.into()));
    assert!(report["bytes"].as_u64().unwrap() > 600 * 8 * 4);

    for (arguments, status) in [(&["--kind", "ivf"], 2), (&["--m", "256"], 1)] {
        assert_eq!(index(&vectors, &out, arguments).output().unwrap().status.code(), Some(status));
    }
    let output = index(&vectors, &out, &["--kind", "hnsw", "--m", "256"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output).1, "error: m is 256, must be 2 to 255\n");
}

#[test]
fn a_new_version_without_the_private_tables_of_the_one_before_is_told() {
    let root = tempfile::tempdir().unwrap();
    let vectors = vectors(root.path().join("vectors"), 20, 8);
    let out = root.path().join("index");
    let build = || {
        let output = index(&vectors, &out, &[]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        text(&output).1
    };
    assert!(!build().contains("private"), "there was no index");
    fs_err::create_dir(out.join("private-1")).unwrap();
    let said = build();
    let fix = format!("`dpr index private --index {}`", out.display());
    assert!(said.contains("the new version has no private tables") && said.contains(&fix), "{said}");
    assert!(!build().contains("private"), "the version before had none");
}

#[test]
fn a_restored_or_tuned_version_without_the_private_tables_of_the_one_before_is_told() {
    let root = tempfile::tempdir().unwrap();
    let vectors = vectors(root.path().join("vectors"), 600, 8);
    let out = root.path().join("index");
    assert!(index(&vectors, &out, &["--kind", "hnsw"]).output().unwrap().status.success());
    let run = |arguments: &[&str]| {
        let mut command = Command::new(DPR);
        command.arg("index").args(arguments).current_dir(root.path()).env_remove("DPR_INDEX");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        text(&output).1
    };
    let snapshot = ["snapshot", "--index", "index", "--out", "backup"];
    let restore = ["restore", "--snapshot", "backup", "--out", "index"];
    let tune = ["tune", "--index", "index", "--recall", "0.5"];
    assert!(!run(&snapshot).contains("private"), "there was nothing");
    for publish in [&restore[..], &tune] {
        assert!(!run(publish).contains("private"), "the version before had none");
        let number = IndexDir::new(&out).current_version().unwrap();
        fs_err::create_dir(out.join(format!("private-{number}"))).unwrap();
        let said = run(publish);
        let fix = "`dpr index private --index index`";
        assert!(said.contains("the new version has no private tables") && said.contains(fix), "{said}");
    }
}

#[test]
fn a_full_disk_leaves_the_old_index() {
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("index");
    let small = vectors(root.path().join("small"), 20, 8);
    assert!(index(&small, &out, &[]).output().unwrap().status.success());
    let before = LoadedIndex::open(&out).unwrap().version().to_owned();

    // Files may grow to 64 KiB only, and the signal that would tell so is ignored: writing fails as on a full disk.
    let large = vectors(root.path().join("large"), 5000, 16);
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" index --vectors \"$1\" --out \"$2\"";
    let output = Command::new("bash").args(["-c", script, DPR]).arg(&large).arg(&out).output().unwrap();
    let (_, stderr) = text(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("cannot write the index under") && stderr.contains("unchanged"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");

    assert_eq!(LoadedIndex::open(&out).unwrap().version(), before);
    assert_eq!(fs_err::read_dir(&out).unwrap().count(), 3, "the lock, the pointer and the old version");
}

#[test]
fn an_interrupt_leaves_the_old_index() {
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("index");
    let small = vectors(root.path().join("small"), 20, 8);
    assert!(index(&small, &out, &[]).output().unwrap().status.success());
    let before = LoadedIndex::open(&out).unwrap().version().to_owned();

    // Enough to link for minutes.
    let large = vectors(root.path().join("large"), 60_000, 32);
    let mut child = index(&large, &out, &["--kind", "hnsw", "--ef-construction", "1000"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first line of progress says that it is at it.
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("linking"), "{line}");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(1));

    assert_eq!(LoadedIndex::open(&out).unwrap().version(), before);
    assert_eq!(fs_err::read_dir(&out).unwrap().count(), 3, "the lock, the pointer and the old version");
}

/// Runs a command that must be refused because `option` has no effect, in one line that gives `advice`.
fn is_refused(mut command: Command, option: &str, advice: &str) {
    let output = command.output().unwrap();
    let (_, stderr) = text(&output);
    assert_eq!(output.status.code(), Some(1), "{command:?}: {stderr}");
    assert!(stderr.starts_with(&format!("error: {option} has no effect ")), "{command:?}: {stderr}");
    assert!(stderr.contains(advice), "{command:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{command:?}: {stderr}");
}

#[test]
fn options_of_another_kind_of_search_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let vectors = vectors(root.path().join("vectors"), 20, 8);
    let out = root.path().join("index");
    for (flag, more, other) in [
        ("--m", &["--m", "8"][..], "with --kind exact: leave it out, or give --kind hnsw"),
        ("--ef-search", &["--kind", "exact", "--ef-search", "50"], "give --kind hnsw"),
        ("--ef-construction", &["--ef-construction", "50"], "give --kind hnsw"),
        ("--builder", &["--builder", "hnsw-rs"], "give --kind hnsw"),
        (
            "--storage",
            &["--kind", "hnsw", "--storage", "binary"],
            "with --kind hnsw: leave it out, or give --kind exact",
        ),
        ("--threads", &["--threads", "2"], "without --sparse"),
        ("--channels", &["--channels", "8"], "it is for Milvus: leave it out"),
        (
            "--in-flight",
            &["--kind", "hnsw", "--in-flight", "8"],
            "it is for Milvus and PostgreSQL: leave it out",
        ),
        ("--patience", &["--patience", "5"], "it is for Milvus and PostgreSQL: leave it out"),
    ] {
        is_refused(index(&vectors, &out, more), flag, other);
        assert!(!out.exists(), "{more:?}");
    }
    // What has an effect is taken.
    for more in [
        &[
            "--kind",
            "hnsw",
            "--builder",
            "hnsw-rs",
            "--m",
            "8",
            "--ef-construction",
            "50",
            "--ef-search",
            "50",
        ][..],
        &["--kind", "exact", "--storage", "int8", "--sparse", "english", "--threads", "2"],
    ] {
        let (_, stderr) = text(&index(&vectors, &out, more).output().unwrap());
        assert!(LoadedIndex::open(&out).is_ok(), "{more:?}: {stderr}");
        fs_err::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn options_of_vectors_are_refused_where_words_alone_are_indexed() {
    let root = tempfile::tempdir().unwrap();
    let (passages, out) = (root.path().join("passages.tsv"), root.path().join("words"));
    fs_err::write(&passages, "id\ttext\ttitle\n1\tThe capital of France is Paris.\tFrance\n").unwrap();
    let build = |more: &[&str]| {
        let mut command = Command::new(DPR);
        command.arg("index").arg("--passages").arg(&passages).arg("--out").arg(&out);
        command.args(["--sparse", "english"]).args(more);
        command
    };
    for (flag, more) in [
        ("--kind", &["--kind", "hnsw"][..]),
        ("--kind", &["--kind", "exact"]),
        ("--storage", &["--storage", "int8"]),
        ("--builder", &["--builder", "hnsw-rs"]),
        ("--m", &["--m", "8"]),
        ("--ef-construction", &["--ef-construction", "50"]),
        ("--ef-search", &["--ef-search", "50"]),
    ] {
        is_refused(build(more), flag, "with --passages, which indexes words and no vectors: leave it out\n");
        assert!(!out.exists(), "{more:?}");
    }
    let output = build(&["--threads", "2"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output).1);
}

#[test]
fn a_service_takes_the_options_of_its_graph_and_refuses_those_that_it_has_no_use_for() {
    let root = tempfile::tempdir().unwrap();
    let vectors = vectors(root.path().join("vectors"), 20, 8);
    // Nobody is there: whoever asked would say so.
    let milvus = Path::new("milvus://127.0.0.1:1/wiki");
    let postgres = Path::new("postgres://web@127.0.0.1:1/shop?table=articles");
    for service in [milvus, postgres] {
        let out = service.display();
        for (option, more, why) in [
            ("--kind exact", &["--kind", "exact"][..], "where a graph is built: leave it out"),
            ("--storage", &["--storage", "int8"], "which stores vectors its own way: leave it out"),
            (
                "--builder",
                &["--kind", "hnsw", "--builder", "hnsw-rs"],
                "which builds its graph itself: leave it out",
            ),
            ("--threads", &["--threads", "2"], "since these threads index words: leave it out"),
        ] {
            is_refused(index(&vectors, service, more), option, &format!("on {out}, {why}"));
        }
        for more in [
            &["--m", "32"][..],
            &["--ef-construction", "300"],
            &["--ef-search", "200"],
            &["--kind", "hnsw", "--m", "32", "--in-flight", "2"],
        ] {
            let output = index(&vectors, service, more).args(["--patience", "0"]).output().unwrap();
            let (_, stderr) = text(&output);
            assert_eq!(output.status.code(), Some(1), "{more:?}: {stderr}");
            assert!(!stderr.contains("no effect") && stderr.contains("127.0.0.1:1"), "{more:?}: {stderr}");
        }
    }
    let channels = ["--channels", "8", "--patience", "0"];
    is_refused(index(&vectors, postgres, &channels), "--channels", "since it is for Milvus: leave it out");
    let (_, stderr) = text(&index(&vectors, milvus, &channels).output().unwrap());
    assert!(!stderr.contains("no effect") && stderr.contains("127.0.0.1:1"), "{stderr}");
}
