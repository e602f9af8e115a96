//! `dpr encode` as a person runs it.

use crate::support::common;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Bench, corpus, error_of, fail, fixtures, json, succeed};
use fs_err as fs;
use serde_json::Value;

/// Names, sizes and hashes of a directory's files: what must be equal, in few enough words to print.
fn contents(dir: &Path) -> Vec<(String, usize, u64)> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| {
            let bytes = fs::read(&path).unwrap();
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            (path.file_name().unwrap().to_str().unwrap().to_owned(), bytes.len(), hasher.finish())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn vectors_do_not_depend_on_threads_or_batches() {
    let bench = Bench::new();
    bench.corpus(700);
    let summary = json(&mut bench.encode("one", &["--threads", "1"]));
    assert_eq!(
        (&summary["passages"], &summary["encoded"], &summary["kept"]),
        (&700.into(), &700.into(), &0.into())
    );
    assert_eq!(summary["device"], "cpu");
    assert!(summary["passages_per_second"].as_f64().unwrap() > 0.0);
    assert!(summary["load_seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(fs::metadata(bench.path("one/vectors.f32")).unwrap().len(), 700 * 32 * 4);
    for (out, options) in [("three", ["--threads", "3"]), ("small", ["--batch-tokens", "40"])] {
        succeed(&mut bench.encode(out, &options));
        assert_eq!(contents(&bench.path("one")), contents(&bench.path(out)), "{options:?}");
    }
    // Done already: nothing is encoded and nothing changes.
    let again = json(&mut bench.encode("one", &[]));
    assert_eq!((&again["encoded"], &again["kept"]), (&0.into(), &700.into()));
    assert_eq!(contents(&bench.path("one")), contents(&bench.path("three")));
}

#[test]
fn shards_joined_are_the_whole() {
    let bench = Bench::new();
    bench.corpus(100);
    succeed(&mut bench.encode("whole", &[]));
    let mut joined = Vec::new();
    for shard in ["0/3", "1/3", "2/3"] {
        let out = shard.replace('/', "-");
        let summary = json(&mut bench.encode(&out, &["--shard", shard]));
        assert!([33, 34].contains(&summary["passages"].as_u64().unwrap()));
        joined.extend(fs::read(bench.path(&out).join("vectors.f32")).unwrap());
    }
    assert!(joined == fs::read(bench.path("whole/vectors.f32")).unwrap());

    let usage = bench.encode("none", &["--shard", "3/3"]).output().unwrap();
    assert_eq!(usage.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&usage.stderr).contains("the last is 2/3"));
    let usage = bench.encode("none", &["--shard", "0/0"]).output().unwrap();
    assert_eq!(usage.status.code(), Some(2));
    let told = String::from_utf8_lossy(&usage.stderr).into_owned();
    assert!(told.contains("'0/0' for '--shard <I/N>'") && told.contains("an n of 1 or more"), "{told}");
    bench.corpus(2);
    let error = fail(&mut bench.encode("none", &["--shard", "2/3"]));
    assert!(error.contains("make at most 2 shards"), "{error}");
}

#[test]
fn interrupted_and_continued_is_as_undisturbed() {
    let bench = Bench::new();
    bench.corpus(10_000);
    let mut running =
        bench.encode("stopped", &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let parts = bench.path("stopped/parts");
    let deadline = Instant::now() + Duration::from_secs(60);
    while fs::read_dir(&parts).map_or(0, Iterator::count) < 4 {
        assert!(Instant::now() < deadline && running.try_wait().unwrap().is_none(), "no part was written");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap().success());
    let error = error_of(&running.wait_with_output().unwrap());
    assert!(error.contains("of 10000 passages encoded and kept: the same command continues"), "{error}");
    assert!(!bench.path("stopped/manifest.json").exists());

    let summary = json(&mut bench.encode("stopped", &["--threads", "1"]));
    let (kept, encoded) = (summary["kept"].as_u64().unwrap(), summary["encoded"].as_u64().unwrap());
    assert!(kept >= 512 && encoded >= 512 && kept + encoded == 10_000, "{kept} + {encoded}");
    assert!(error.contains(&format!("{kept} of 10000")), "{error}");
    succeed(&mut bench.encode("undisturbed", &[]));
    assert_eq!(contents(&bench.path("stopped")), contents(&bench.path("undisturbed")));
}

#[test]
fn a_corpus_is_not_overwritten_by_the_vectors_directory_that_is_made_of_it() {
    let bench = Bench::new();
    bench.corpus(20);
    succeed(&mut bench.encode("vectors", &[]));
    let path = bench.path("vectors/passages.jsonl");
    let passages = fs::read(&path).unwrap();
    let again = |more: &[&str]| {
        let encode =
            ["encode", "--model", "model", "--device", "cpu", "--passages", "vectors/passages.jsonl"];
        let mut command = bench.dpr(&encode);
        command.args(["--out", "./vectors"]).args(more);
        fail(&mut command)
    };
    for more in [&[][..], &["--force"], &["--force", "--shard", "0/2"]] {
        let error = again(more);
        assert!(error.contains("passages.jsonl"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), passages, "{more:?}");
    }
}

#[test]
fn rows_of_unknown_origin_are_not_written_into() {
    let bench = Bench::new();
    bench.corpus(20);
    bench.index();
    // `--force` that was killed after it had removed the manifest; an index has the same rows.
    let [rows, served] = ["vectors/vectors.f32", "linked"].map(|name| bench.path(name));
    fs::hard_link(&rows, &served).unwrap();
    let before = fs::read(&served).unwrap();
    fs::remove_file(bench.path("vectors/manifest.json")).unwrap();
    bench.corpus(30);
    succeed(&mut bench.encode("vectors", &[]));
    assert_eq!(fs::read(&served).unwrap(), before);
    assert!(fs::read(&rows).unwrap().len() > before.len());
}

#[test]
fn a_passage_of_a_hundred_thousand_words_is_cut_and_counted() {
    let bench = Bench::new();
    bench.write("corpus.tsv", format!("{}long\t{}\tLong\n", corpus(3), "word ".repeat(100_000)));
    let summary = json(&mut bench.encode("vectors", &[]));
    assert_eq!(summary["passages"], 4);
    assert!(summary["truncated"].as_u64().unwrap() >= 1);
    assert!(summary["tokens"].as_u64().unwrap() <= 4 * 128);
}

#[test]
fn a_passage_that_may_just_fit_is_not_said_to_be_longer_than_the_limit() {
    let bench = Bench::new();
    bench.write("corpus.tsv", format!("id\ttext\ttitle\nlong\t{}\tLong\nshort\ta\tb\n", "a ".repeat(200)));
    let encode =
        ["encode", "--model", "model", "--passages", "corpus.tsv", "--device", "cpu", "--out", "vectors"];
    let said = succeed(&mut bench.dpr(&encode));
    let line = "as long as the model's 128 tokens, or longer: 1 passage; text beyond 128 tokens is not in the vectors";
    assert!(said.contains(line), "{said}");
}

#[test]
fn bad_corpora_are_refused_with_their_place() {
    let bench = Bench::new();
    let header = "id\ttext\ttitle\n";
    let long = format!("{header}1\ta\tt\n2\t{}\tt\n", "x".repeat((1 << 20) + 1));
    let cases: [(&str, Vec<u8>, &[&str]); 7] = [
        ("a text that no index takes", long.into(), &["`2`", "a text of 1048577 bytes", "1048576"]),
        (
            "an id that no update takes",
            format!("{header}1\ta\tt\n2\u{1b}[1m\tb\tt\n").into(),
            &["line 3", "the control character U+001B: leave it out"],
        ),
        ("nothing", Vec::new(), &["corpus.tsv"]),
        ("header only", header.into(), &["corpus.tsv", "no passages"]),
        ("missing column", format!("{header}1\ttext\ttitle\n2\tno title\n").into(), &["line 3", "2 columns"]),
        ("invalid UTF-8", [header.as_bytes(), b"1\tcaf\xe9\ttitle\n"].concat(), &["line 2", "UTF-8"]),
        ("duplicate id", format!("{header}7\ta\tt\n8\tb\tt\n7\tc\tt\n").into(), &["`7`", "line 2", "line 4"]),
    ];
    for (name, content, expected) in cases {
        bench.write("corpus.tsv", content);
        let error = fail(&mut bench.encode("vectors", &[]));
        assert!(expected.iter().all(|part| error.contains(part)), "{name}: {error}");
        assert!(!bench.path("vectors").exists(), "{name} left a directory");
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let bench = Bench::new();
    bench.corpus(3);
    bench.write("file", "in the way");
    let error = fail(&mut bench.encode("file/vectors", &[]));
    assert!(error.contains("file/vectors"), "{error}");
    assert_eq!(fs::read_to_string(bench.path("file")).unwrap(), "in the way");
}

#[test]
fn vectors_of_something_else_are_kept_unless_forced() {
    let bench = Bench::new();
    bench.corpus(20);
    succeed(&mut bench.encode("vectors", &[]));
    let before = contents(&bench.path("vectors"));
    bench.corpus(21);
    let error = fail(&mut bench.encode("vectors", &[]));
    assert!(error.contains("--force"), "{error}");
    assert_eq!(contents(&bench.path("vectors")), before);
    let summary = json(&mut bench.encode("vectors", &["--force"]));
    assert_eq!(summary["encoded"], 21);
}

#[test]
fn a_model_of_broken_weights_names_the_passage_without_a_vector() {
    let bench = Bench::new();
    bench.corpus(5);
    let source = fixtures().join("dpr-tiny/ctx");
    fs::create_dir(bench.path("broken")).unwrap();
    for file in ["config.json", "tokenizer.json"] {
        fs::copy(source.join(file), bench.path("broken").join(file)).unwrap();
    }
    let mut weights = fs::read(source.join("model.safetensors")).unwrap();
    let start = 8 + u64::from_le_bytes(weights[..8].try_into().unwrap()) as usize;
    for value in weights[start..].as_chunks_mut::<4>().0 {
        *value = f32::NAN.to_le_bytes();
    }
    bench.write("broken/model.safetensors", weights);
    let mut import = bench.dpr(&["import", "--question", "broken", "--out", "model", "--force"]);
    let imported = import.output().unwrap();
    if imported.status.success() {
        let error = fail(&mut bench.encode("vectors", &[]));
        assert!(error.contains("passage \"p") && error.contains("not finite"), "{error}");
        assert!(!bench.path("vectors/manifest.json").exists());
    } else {
        assert!(error_of(&imported).contains("finite"), "{imported:?}");
    }
}

#[test]
fn with_a_log_in_json_progress_and_the_error_at_the_end_are_objects_too() {
    let bench = Bench::new();
    bench.corpus(30);
    let lines = |command: &mut Command, code: i32| -> Vec<Value> {
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let told = lines(&mut bench.encode("vectors", &["--log-format", "json"]), 0);
    let end = told.iter().find(|line| line["stage"] == "encoding").unwrap();
    assert_eq!([&end["done"], &end["total"]], [30, 30], "{end}");
    assert!(end["message"].as_str().unwrap().starts_with("encoding: 30 of 30 passages, "), "{end}");

    let missing = ["--log-format", "json", "--passages", "missing.tsv"];
    let told = lines(bench.dpr(&["encode", "--model", "model", "--out", "other"]).args(missing), 1);
    let end = told.last().unwrap();
    assert_eq!(end["level"], "ERROR", "{end}");
    assert!(end["message"].as_str().unwrap().contains("missing.tsv"), "{end}");
    // Not even a filter that lets nothing through hides what ended the program.
    let mut silent = bench.dpr(&["encode", "--model", "model", "--out", "other"]);
    let output = silent.args(missing).env("DPR_LOG", "off").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: "));
}
