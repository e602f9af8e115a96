//! `cargo xtask`: sets the machine up, builds the browser modules, runs the demo, the tests and the benches.
//!
//! Every task calls the set-up it needs, so that each command alone is enough on a fresh clone. Work whose
//! inputs have not changed is skipped (see [`stamp`]).

mod audit;
mod bench;
mod chaos;
#[cfg(test)]
mod circles;
mod demo;
mod demo_data;
mod dist;
mod docs;
mod failure;
mod feature_sets;
mod fuzz;
mod image;
mod jobs;
mod json;
mod npm;
mod parts;
mod paths;
mod process;
mod quality;
mod server;
mod setup;
mod soak;
mod stamp;
mod structure;
mod test;
mod third_party;
mod wikipedia;

use std::process::ExitCode;

use failure::{Failure, Outcome};

const USAGE: &str = "\
usage: cargo xtask TASK

  setup    find or install everything the other tasks need (--milvus, --postgres: then run that server, to try things
           out)
  demo     build, serve the search page, build its WebGPU module meanwhile (--listen
           ADDRESS:PORT, default 127.0.0.1:7878; --with-reader READER: the page marks answers too;
           --with-small MODEL: it offers a smaller question encoder)
  test     format check, linters, Rust, npm, browser and Python tests (--only STEP, --skip STEP, repeatable;
           steps: fmt, lint, rust, npm, node, bundlers, browser, python; --only bundlers runs all bundlers;
           --keep-going: after a failure, go on with what does not need it)
  bench    speed beside the engines people use, the modules' sizes, hybrid ranking (--quick: one turn, not three;
           --only PART, --skip PART, repeatable; parts: native, precision, train, browser, litert, first-visit,
           sizes, sparse, hybrid, index, million, load, milvus, homes, private, gpu, which runs by --only alone;
           --against DPR: beside another build instead)
  chaos    hostile clients, hostile files and a failing disk against a running server, with figures
           (--only PART, repeatable; parts: bomb, filters, pages, hidden, silent, slow, snapshot, damage, disk, updates)
  docs     build the book, rustdoc and the npm package's reference into target/docs, and refuse dead links
           (--check: look at the sources alone)
  quality  what training makes of the encoders, and what servers can make of questions, in tables; hours of work, kept
           under target/quality and gone on with
           (--only PART, repeatable; parts: training, rounds, taught, distant, ict, distill, small, korean, privacy,
           privacy-large, reader, questions, table3, table5, table6, figure1, figure1-ict, crossdata, multi, precision;
           --questions N, repeatable: only these rows of figure1 and figure1-ict; N is 250, 1000, 4000, 10000 or all)
  npm      build the browser modules, the npm package and the search page
  data     build the demo's model, vectors and index
  lint     format check, clippy, rustdoc and the TypeScript linter
  structure  the crates from the bottom up, with their lines and what they import, drawn from the sources
  features every crate alone, and dpr without the features that somebody may want to do without
  dist     build dpr as it is handed out, optimised across all crates and for size, into target/dist, and print its size
  audit    known holes, licences and sources of all packages, Rust's and npm's (builds cargo-deny first)
  licenses write the notices of other people's licences anew: after every change of Cargo.lock
  fuzz     inputs that break a parser, searched for by coverage (--only TARGET, repeatable; --seconds N a target, 600;
           --keep: put the best ones among the seeds that the tests replay)
  soak     clients that search, change and misuse a server for ten minutes, every answer checked (--clients N, 256;
           --seconds N, 600)
  image    build the serving-only image and start a server in it, in a folder where there is no podman or docker
  sbom     bills of materials of the binary and of the npm package, CycloneDX, into target/sbom";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\nerror: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Outcome {
    let (task, rest) = match arguments.split_first() {
        Some((task, rest)) => (task.as_str(), rest),
        None => ("help", arguments),
    };
    std::env::set_current_dir(paths::root())
        .map_err(|e| Failure::new(format!("cannot enter the repository: {e}")))?;
    match task {
        "setup" if rest == ["--milvus"] => {
            setup::run(setup::Scope::Test).and_then(|()| setup::python::serve_milvus())
        }
        "setup" if rest == ["--postgres"] => {
            setup::run(setup::Scope::Test).and_then(|()| setup::python::serve_postgres())
        }
        "setup" => no_arguments(rest).and_then(|()| setup::run(setup::Scope::All)),
        "demo" => demo::run(rest),
        "test" => test::run(rest),
        "bench" => bench::run(rest),
        "chaos" => chaos::run(rest),
        "docs" => docs::run(rest),
        "quality" => quality::run(rest),
        "npm" => no_arguments(rest).and_then(|()| npm::build()),
        "data" => no_arguments(rest).and_then(|()| demo_data::build()),
        "dist" => no_arguments(rest).and_then(|()| dist::run()),
        "audit" => no_arguments(rest).and_then(|()| audit::run()),
        "licenses" => no_arguments(rest).and_then(|()| third_party::write_notices()),
        "sbom" => no_arguments(rest).and_then(|()| third_party::write_sboms()),
        "image" => no_arguments(rest).and_then(|()| image::run()),
        "fuzz" => fuzz::run(rest),
        "soak" => soak::run(rest),
        "features" => no_arguments(rest).and_then(|()| feature_sets::run()),
        "structure" => no_arguments(rest).and_then(|()| structure::run()),
        "lint" => no_arguments(rest).and_then(|()| test::lint::run()),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        other => Err(Failure::new(format!("there is no task `{other}`")).fix(USAGE)),
    }
}

fn no_arguments(rest: &[String]) -> Outcome {
    match rest.first() {
        None => Ok(()),
        Some(extra) => Err(Failure::new(format!("unexpected argument `{extra}`")).fix(USAGE)),
    }
}
