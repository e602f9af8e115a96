//! Files for whoever runs a server, held against the program: `server/deploy`, and the notices of licences.

use crate::support::{common, server};

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use common::{Bench, succeed};
use serde_json::Value;
use server::{Server, ask};

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy")
}

/// The words of `text` that begin with `start` and consist of what names consist of.
fn words<'a>(text: &'a str, start: &str) -> BTreeSet<&'a str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with(start) && word.len() > start.len()).collect()
}

#[test]
fn the_dashboard_shows_all_metrics_that_the_server_has() {
    let bench = Bench::new();
    bench.corpus(30);
    bench.index();
    let arguments =
        ["serve", "--model", "model", "--index", "index", "--device", "cpu", "--listen", "127.0.0.1:0"];
    let server = Server::start(&mut bench.dpr(&arguments));
    // Counted once it is answered, so that the next answer has it.
    ask(&server.address, "GET", "/healthz", "").unwrap();
    let (status, metrics) = ask(&server.address, "GET", "/metrics", "").unwrap();
    assert_eq!(status, 200);
    let known: BTreeSet<String> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split_once(' '))
        .flat_map(|(name, kind)| match kind {
            "counter" => vec![format!("{name}_total")],
            "histogram" => ["bucket", "sum", "count"].map(|part| format!("{name}_{part}")).to_vec(),
            _ => vec![name.to_owned()],
        })
        .collect();
    assert!(known.len() > 10, "{known:?}");

    let dashboard = fs_err::read_to_string(deploy().join("grafana.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut used = BTreeSet::new();
    for panel in panels {
        let targets = panel["targets"].as_array().unwrap();
        let expressions: Vec<_> = targets.iter().map(|target| target["expr"].as_str().unwrap()).collect();
        assert!(!expressions.is_empty(), "{}", panel["title"]);
        for expression in expressions {
            let names = words(expression, "dpr_");
            assert!(!names.is_empty(), "{expression}");
            used.extend(names.into_iter().map(str::to_owned));
        }
    }
    let unknown: Vec<_> = used.difference(&known).collect();
    assert!(unknown.is_empty(), "the server has no {unknown:?}, only {known:?}");
    // Quantiles are of buckets.
    let is_shown =
        |name: &&String| used.contains(*name) || name.ends_with("_sum") || name.ends_with("_count");
    let hidden: Vec<_> = known.iter().filter(|name| !is_shown(name)).collect();
    assert!(hidden.is_empty(), "no panel shows {hidden:?}");
}

#[test]
fn deployments_set_only_variables_that_the_server_reads() {
    /// Read without being an option, or the deployment's own.
    const OTHERS: [&str; 3] = ["DPR_LOG", "DPR_KEYS", "DPR_POSTGRES_PASSWORD"];
    let command = dpr::cli::command();
    let serve = command.find_subcommand("serve").unwrap();
    let known: BTreeSet<_> =
        serve.get_arguments().filter_map(|argument| argument.get_env()?.to_str()).chain(OTHERS).collect();
    let mut files = 0;
    for entry in fs_err::read_dir(deploy()).unwrap() {
        let path = entry.unwrap().path();
        let text = fs_err::read_to_string(&path).unwrap();
        let unknown: Vec<_> = words(&text, "DPR_").into_iter().filter(|name| !known.contains(name)).collect();
        assert!(unknown.is_empty(), "{}: {unknown:?}", path.display());
        files += 1;
    }
    assert!(files >= 5, "{files}");
}

#[test]
fn a_server_whose_file_was_cut_off_is_not_started_again_by_itself() {
    let unit = fs_err::read_to_string(deploy().join("dpr.service")).unwrap();
    // The exit status of `sigbus.rs`.
    assert!(unit.lines().any(|line| line == "RestartPreventExitStatus=74"), "{unit}");
}

#[test]
fn containers_get_the_data_of_the_repository_and_time_for_requests_in_flight() {
    for name in ["compose.milvus.yaml", "compose.postgres.yaml"] {
        let text = fs_err::read_to_string(deploy().join(name)).unwrap();
        // Paths are relative to the file's own folder.
        for line in [r#"volumes: ["../../data:/data:ro"]"#, "stop_grace_period: 20s"] {
            assert!(text.lines().any(|found| found.trim() == line), "{name}: {line}");
        }
    }
}

#[test]
fn deployments_that_are_open_to_their_machine_name_all_that_other_clients_need() {
    for name in ["Containerfile", "compose.milvus.yaml", "compose.postgres.yaml"] {
        let text = fs_err::read_to_string(deploy().join(name)).unwrap();
        let named = words(&text, "DPR_");
        for variable in ["DPR_PUBLIC", "DPR_KEYS_FILE", "DPR_ALLOW_HOST"] {
            assert!(named.contains(variable), "{name}: {variable}");
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn the_unit_is_one_that_systemd_takes() {
    let bench = Bench::new();
    let unit = fs_err::read_to_string(deploy().join("dpr.service")).unwrap();
    // The lines of the comment that `systemctl edit` is to take, as if it had.
    let edits: Vec<_> = unit.lines().filter_map(|line| line.strip_prefix("#     ")).collect();
    assert_eq!(edits.first(), Some(&"[Service]"), "{edits:?}");
    fs_err::create_dir(bench.path("dpr.service.d")).unwrap();
    bench.write("dpr.service.d/override.conf", edits.join("\n"));
    // The program is where the test's own is.
    let unit = unit.replace("/usr/local/bin/dpr", env!("CARGO_BIN_EXE_dpr"));
    let path = bench.write("dpr.service", unit);
    let verify = std::process::Command::new("systemd-analyze").arg("verify").arg(&path).output();
    let Ok(verify) = verify else {
        println!("skipped: systemd-analyze is not on this machine");
        return;
    };
    let said = String::from_utf8_lossy(&verify.stderr);
    let about_it: Vec<_> = said.lines().filter(|line| line.contains("dpr.service")).collect();
    assert!(verify.status.success() && about_it.is_empty(), "{said}");
}

#[test]
fn the_program_prints_the_licences_of_what_it_is_made_of() {
    let bench = Bench::new();
    let said = succeed(&mut bench.dpr(&["--licenses"]));
    for package in ["serde", "tokio", "axum", "clap"] {
        assert!(said.lines().any(|line| line.starts_with(&format!("  {package} "))), "{package}");
    }
    assert!(said.contains("Permission is hereby granted, free of charge"));
    // Without anything, it says how it is used.
    let output = bench.dpr(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: dpr"));
}
