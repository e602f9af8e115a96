//! `cargo xtask features`: every crate alone, and `dpr` with the features that somebody may want to do without.
//!
//! A workspace build gives a crate the features that any other asks for, which hides a feature that it forgot to ask
//! for itself.

use std::process::Command;

use crate::failure::{Failure, Outcome};
use crate::jobs::{Clock, run_task};
use crate::process::{cargo, output};
use crate::setup;
use crate::test::lint;

/// Sets of features of `dpr`, by what they are for: the arguments of `cargo check`.
const SETS: [(&str, &[&str]); 6] = [
    ("dpr, serving only", &["-p", "dpr", "--no-default-features"]),
    ("dpr, no Milvus", &["-p", "dpr", "--no-default-features", "--features", "eval,postgres,train"]),
    (
        "dpr, no training",
        &["-p", "dpr", "--no-default-features", "--features", "burn,eval,milvus,postgres,sparse"],
    ),
    ("dpr, all", &["-p", "dpr"]),
    (
        "dpr, with OpenTelemetry",
        &["-p", "dpr", "--no-default-features", "--features", "otel", "--bins", "--tests"],
    ),
    ("dpr-index, no words", &["-p", "dpr-index", "--no-default-features"]),
];

/// Tests that a workspace build does not have: the arguments of `cargo test`.
const TESTED: (&str, &[&str]) =
    ("dpr-index, no words", &["-p", "dpr-index", "--no-default-features", "--lib", "sparse::absent"]);

/// Crates, and what none of the crates that they need may be.
const WITHOUT: [(&str, &[&str]); 3] = [
    ("dpr-index", &["axum", "burn", "clap", "tonic"]),
    ("dpr-private", &["axum", "burn", "clap", "tonic"]),
    ("dpr-serve", &["burn", "clap", "tonic"]),
];

/// The set-up that the checks need: they lint what they compile.
const SET_UP: [&str; 1] = [setup::COMPONENTS];

/// The folder in which they are checked: beside the tests' builds, whose features are others.
const TARGET: &str = "target/features";

/// Checks them all, with the linters, and prints a line each.
pub(crate) fn run() -> Outcome {
    run_task("features", setup::only(&SET_UP))?;
    let clock = Clock::now();
    for (package, unwanted) in WITHOUT {
        let tree = output(&mut cargo(&["tree", "-p", package, "-e", "normal", "--prefix", "none"]))?;
        if let Some(found) = unwanted.iter().find(|name| needs(&tree, name)) {
            return Err(Failure::new(format!("{package} needs {found}"))
                .fix(format!("cargo tree -p {package} -e normal -i {found}")));
        }
        clock.line(&format!("{package}: without {}", unwanted.join(", ")));
    }
    lint::build_compiler()?;
    let packages = packages()?;
    let alone = packages.iter().map(|name| (name.as_str(), vec!["-p", name.as_str()]));
    let sets = SETS.iter().map(|(title, arguments)| (*title, arguments.to_vec()));
    for (title, arguments) in alone.chain(sets) {
        output(lint::while_compiling(&mut check(&arguments)))
            .map_err(|failure| failure.during(title).fix(format!("cargo check {}", arguments.join(" "))))?;
        clock.line(&format!("{title}: checked"));
    }
    let (title, arguments) = TESTED;
    output(cargo(&["test", "--quiet", "--target-dir", TARGET]).args(arguments))
        .map_err(|failure| failure.during(title).fix(format!("cargo test {}", arguments.join(" "))))?;
    clock.line(&format!("{title}: tested"));
    Ok(())
}

fn check(arguments: &[&str]) -> Command {
    let mut check = cargo(&["check", "--release", "--quiet", "--target-dir", TARGET]);
    check.args(arguments);
    check
}

/// Returns whether a tree of `cargo tree --prefix none`, a package with its version a line, has this one.
fn needs(tree: &str, package: &str) -> bool {
    tree.lines().any(|line| line.split(' ').next() == Some(package))
}

/// The names of the workspace's crates but the browser's module, which the tests build on its own.
fn packages() -> Outcome<Vec<String>> {
    let tree = output(&mut cargo(&[
        "tree",
        "--workspace",
        "--exclude",
        "dpr-wasm",
        "--depth",
        "0",
        "--prefix",
        "none",
        "-e",
        "normal",
    ]))?;
    Ok(tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_found_by_its_whole_name() {
        let tree = "dpr-index v0.1.0 (/a)\nhnsw_rs v0.3.2\nclap_lex v1.0.0 (*)\n";
        assert!(needs(tree, "hnsw_rs") && needs(tree, "clap_lex"));
        assert!(!needs(tree, "clap") && !needs(tree, "hnsw"));
    }
}
