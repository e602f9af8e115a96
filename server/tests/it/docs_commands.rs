//! Every command of the documentation: `dpr` lines are parsed as the program parses them, and those of the README,
//! of the guides and of the page of private modes are run, in the order of the book, on small files with the names that
//! the guides use.

use crate::support::common::{Bench, succeed};
use crate::support::docs;

use std::collections::BTreeSet;
use std::path::Path;

use docs::{Shown, Walk, examples, pages, root};

/// The guides in the order of `docs/SUMMARY.md`.
const GUIDES: [&str; 20] = [
    "passages",
    "models",
    "evaluation",
    "reader",
    "training",
    "live",
    "postgres",
    "machines",
    "page",
    "frameworks",
    "bundlers",
    "headers",
    "offline",
    "first-visit",
    "migrating",
    "errors",
    "operations",
    "access",
    "encrypted",
    "static",
];

/// Lines that something else runs, and what.
const ELSEWHERE: [(&str, &str); 16] = [
    ("cargo xtask ", "`cargo xtask docs --check` holds tasks and flags against the usage"),
    ("cargo install --path server --locked", "the same build as `cargo xtask demo`"),
    ("cargo build --release -p dpr --features otel", "`cargo xtask features` checks the same set"),
    ("cargo test --release -p dpr --features otel", "`cargo xtask features` checks the same set"),
    ("cargo test --release -p dpr-index", "a part of `cargo xtask test`"),
    ("npm install dpr-web", "the search page installs the package's tarball"),
    ("npm ci", "`cargo xtask setup`"),
    ("esbuild worker.js --bundle", "`wasm/npm/test/bundlers.test.mjs`"),
    ("cp node_modules/dpr-web/wasm/", "`wasm/npm/test/bundlers.test.mjs`"),
    ("node tests/bundlers/run.mjs", "`cargo xtask test --only bundlers`"),
    ("npm run use-package", "`cargo xtask npm`"),
    ("npm run build", "`cargo xtask npm`"),
    ("npm test", "`cargo xtask test`"),
    ("DPR_URL=http://127.0.0.1:7878 npm test", "a variant of `npm test`"),
    ("python tests/bench/", "`cargo xtask quality --only korean`"),
    ("curl ", "the walk sends what the guides send"),
];

fn shown() -> Vec<Shown> {
    pages()
        .iter()
        .flat_map(|page| examples(page, &fs_err::read_to_string(root().join(page)).unwrap()))
        .collect()
}

#[test]
fn every_dpr_line_parses_and_no_line_is_of_a_program_that_nobody_checks() {
    let (mut parsed, mut problems) = (0, Vec::new());
    for line in shown() {
        if line.words.first().is_some_and(|word| word == "dpr") {
            parsed += 1;
            if let Err(error) = dpr::cli::command().try_get_matches_from(&line.words) {
                problems.push(format!("{}: {}\n{error}", line.place, line.text));
            }
        } else if !ELSEWHERE.iter().any(|(start, _)| line.text.starts_with(start)) {
            problems.push(format!("{}: {}: add it to ELSEWHERE, with what runs it", line.place, line.text));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(parsed > 60, "only {parsed} lines were found");
}

#[test]
fn the_examples_of_every_help_text_and_configuration_parse() {
    fn collect(command: &mut clap::Command, texts: &mut Vec<(String, String)>) {
        if let Some(text) = command.get_after_help() {
            texts.push((format!("dpr {} --help", command.get_name()), text.to_string()));
        }
        command.get_subcommands_mut().for_each(|command| collect(command, texts));
    }
    let mut texts = Vec::new();
    collect(&mut dpr::cli::command(), &mut texts);
    for entry in fs_err::read_dir(root().join("configs")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs_err::read_to_string(&path).unwrap().replace("\n#", "\n");
        texts.push((path.display().to_string(), text));
    }
    let mut parsed = 0;
    for (place, text) in texts {
        // `LAMBDA` stands for a number; what follows a line in brackets is an explanation.
        let text = text.replace("LAMBDA", "13");
        let lines: String = text.lines().map(|line| line.split("   (").next().unwrap_or(line)).fold(
            "```sh\n".to_owned(),
            |text, line| match line.trim() {
                line if line.starts_with('-') || line.contains("dpr ") => {
                    text + line.split(" (").next().unwrap() + "\n"
                }
                _ => text,
            },
        );
        for line in examples(&place, &(lines + "```\n")) {
            if line.words.first().is_some_and(|word| word == "dpr") {
                parsed += 1;
                let matches = dpr::cli::command().try_get_matches_from(&line.words);
                assert!(matches.is_ok(), "{place}: {}\n{}", line.text, matches.unwrap_err());
            }
        }
    }
    assert!(parsed > 40, "only {parsed} examples were found");
}

#[test]
fn the_reference_page_is_the_help_that_the_program_prints() {
    let bench = Bench::new();
    // Values of the reader's environment are no part of it.
    let printed = succeed(bench.dpr(&["--print-reference"]).env("DPR_DEVICE", "wgpu"));
    let page = fs_err::read_to_string(root().join("docs/reference/cli.md")).unwrap();
    assert!(
        printed == page,
        "docs/reference/cli.md is another help: print it anew with `dpr --print-reference > docs/reference/cli.md`"
    );
    for section in ["## `dpr`", "## `dpr serve`", "## `dpr data mine`", "## `dpr eval retrieval`"] {
        assert_eq!(page.lines().filter(|line| *line == section).count(), 1, "{section}");
    }
    assert!(
        page.contains("[env: DPR_DEVICE]") && !page.contains("DPR_DEVICE="),
        "environment variables are named"
    );
    assert!(page.lines().all(|line| line.chars().count() <= 120), "a line of more than 120 columns");
}

#[test]
fn the_guides_are_those_that_are_walked() {
    let files: BTreeSet<String> = fs_err::read_dir(root().join("docs/guide"))
        .unwrap()
        .map(|entry| {
            Path::new(&entry.unwrap().file_name()).file_stem().unwrap().to_string_lossy().into_owned()
        })
        .collect();
    assert_eq!(files, GUIDES.map(str::to_owned).into());
    let summary = fs_err::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let places = GUIDES.map(|guide| summary.find(&format!("(guide/{guide}.md)")).unwrap());
    assert!(places.is_sorted(), "the summary lists the guides in another order");
}

#[test]
fn the_commands_of_the_guides_run_in_their_order() {
    let mut walk = Walk::new();
    let mut run = 0;
    // The page of private modes after them: its commands name what the guides have made.
    let guides = GUIDES.map(|guide| (guide, format!("docs/guide/{guide}.md")));
    for (name, page) in guides.into_iter().chain([("privacy", "docs/privacy.md".to_owned())]) {
        walk.prepare(name);
        let text = fs_err::read_to_string(root().join(&page)).unwrap();
        for line in examples(&page, &text).into_iter().filter(|line| line.is_run) {
            run += usize::from(walk.run(&line));
        }
        walk.stop_server();
    }
    assert!(run > 40, "only {run} commands were run");
}

#[test]
fn the_commands_of_the_readme_run_in_their_order() {
    let mut walk = Walk::new();
    walk.prepare("README");
    let text = fs_err::read_to_string(root().join("README.md")).unwrap();
    let lines = examples("README.md", &text);
    let run = lines.iter().filter(|line| line.is_run && walk.run(line)).count();
    assert!(run > 5, "only {run} commands were run");
}
