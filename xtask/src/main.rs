//! `cargo xtask`: sets the machine up, builds the browser modules, runs the demo, the tests and the benches.
//!
//! Every task calls the set-up it needs, so that each command alone is enough on a fresh clone. Work whose
//! inputs have not changed is skipped (see [`stamp`]).

mod bench;
mod demo;
mod demo_data;
mod docs;
mod failure;
mod jobs;
mod npm;
mod paths;
mod process;
mod quality;
mod setup;
mod stamp;
mod test;
mod wikipedia;

use std::process::ExitCode;

use failure::{Failure, Outcome};

const USAGE: &str = "\
usage: cargo xtask TASK

  setup    find or install everything the other tasks need (--milvus: then run a Milvus server, to try things out)
  demo     build, serve the search page, build its WebGPU module meanwhile (--listen
           ADDRESS:PORT, default 127.0.0.1:7878)
  test     format check, linters, Rust, npm, browser and Python tests (--only STEP, --skip STEP, repeatable;
           steps: fmt, lint, rust, npm, node, browser, python)
  bench    speed beside the engines people use, the modules' sizes, hybrid ranking (--quick: one turn, not three;
           --only PART, --skip PART, repeatable; parts: native, train, browser, sizes, sparse, hybrid, index,
           million, load, milvus)
  docs     build the book, rustdoc and the npm package's reference into target/docs, and refuse dead links
           (--check: look at the sources alone)
  quality  what training makes of the encoders, in tables; hours of work, kept under target/quality and gone on with
           (--only PART, repeatable; parts: training, distant, ict, distill)
  npm      build the browser modules, the npm package and the search page
  data     build the demo's model, vectors and index
  lint     format check, clippy, rustdoc and the TypeScript linter";

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
        "setup" => no_arguments(rest).and_then(|()| setup::run(setup::Scope::All)),
        "demo" => demo::run(rest),
        "test" => test::run(rest),
        "bench" => bench::run(rest),
        "docs" => docs::run(rest),
        "quality" => quality::run(rest),
        "npm" => no_arguments(rest).and_then(|()| npm::build()),
        "data" => no_arguments(rest).and_then(|()| demo_data::build()),
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
