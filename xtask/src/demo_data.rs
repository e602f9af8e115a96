//! The demo's data: the starter model imported, the corpus encoded and indexed, under `data/`.

use std::fs;
use std::path::Path;

use crate::failure::Outcome;
use crate::jobs::{Done, Job, run_task};
use crate::paths::{DEMO_INDEX, DEMO_MODEL, DEMO_VECTORS, MINILM, SQUAD, dpr};
use crate::process::{self, Packages, command};
use crate::setup;
use crate::stamp::Stamp;

/// The sources that decide the vectors, besides the model: the encoder and the steps of `dpr encode`.
pub(crate) const ENCODING: [&str; 4] =
    ["core/src", "server/data/src", "server/encode/src", "server/index/src/vectors"];

pub(crate) const MODEL: &str = "demo model";
const VECTORS: &str = "demo vectors";
pub(crate) const INDEX: &str = "demo index";

/// Packages of the `dpr` that trains, answers and is measured: not the tests' selection, which optimises less.
const MEASURED: Packages = Packages::Benches;

/// Builds the binary, optimised as it is released, and brings model, vectors and index up to date.
pub(crate) fn build() -> Outcome {
    run_task("data", all())
}

/// All of it, with the set-up that it needs.
fn all() -> Vec<Job> {
    const BINARY: &str = "dpr";
    let mut all = setup::only(&[setup::PYTHON, setup::STARTER_MODEL]);
    all.push(Job::new(BINARY, &[], || MEASURED.build(&["--bin", "dpr"])));
    all.extend(jobs(BINARY));
    all
}

/// Brings model, vectors and index up to date; `binary` is the job that builds `dpr`.
pub(crate) fn jobs(binary: &'static str) -> [Job; 3] {
    [
        Job::new(MODEL, &[binary, setup::STARTER_MODEL], model),
        Job::new(VECTORS, &[MODEL], vectors),
        Job::new(INDEX, &[VECTORS], index),
    ]
}

fn model() -> Outcome<Done> {
    let arguments = [
        "import",
        "--question",
        MINILM,
        "--out",
        DEMO_MODEL,
        "--project",
        "768",
        "--pooling",
        "mean",
        "--normalize",
    ];
    let weights = format!("{MINILM}/checked.sha256");
    let tokenizer = format!("{MINILM}/tokenizer.json");
    let inputs = [&weights, &tokenizer, "core/src", "server/encode/src/model"];
    // In 4 bits too: half of the download, for the page's comparison.
    let export = ["export-web", "--model", DEMO_MODEL, "--dtype", "f16,q8,q4"];
    let way = format!("{} {}", arguments.join(" "), export.join(" "));
    step("model", &inputs, &way, &format!("{DEMO_MODEL}/web/web.json"), || {
        let _ = fs::remove_dir_all(DEMO_MODEL);
        process::run(&mut command(dpr(), &arguments))?;
        process::run(&mut command(dpr(), &export))
    })
}

fn vectors() -> Outcome<Done> {
    let arguments = ["encode", "--model", DEMO_MODEL, "--passages", SQUAD, "--out", DEMO_VECTORS];
    let model = format!("{DEMO_MODEL}/model.json");
    let mut inputs = vec![model.as_str(), SQUAD];
    inputs.extend(ENCODING);
    step("vectors", &inputs, &arguments.join(" "), DEMO_VECTORS, || {
        // `dpr encode` continues what it finds; here the encoder itself may have changed.
        let _ = fs::remove_dir_all(DEMO_VECTORS);
        process::run(&mut command(dpr(), &arguments))
    })
}

fn index() -> Outcome<Done> {
    let arguments = ["index", "--vectors", DEMO_VECTORS, "--out", DEMO_INDEX];
    let inputs = [DEMO_VECTORS, "server/index/src", "server/files/src"];
    step("index", &inputs, &arguments.join(" "), DEMO_INDEX, || process::run(&mut command(dpr(), &arguments)))
}

fn step(
    name: &str,
    inputs: &[&str],
    command_line: &str,
    output: &str,
    work: impl FnOnce() -> Outcome,
) -> Outcome<Done> {
    let stamp = Stamp::of(&format!("demo-{name}"), inputs, &[command_line])?;
    if stamp.is_fresh(&[output]) {
        return Ok(Done::note("up to date"));
    }
    stamp.clear();
    if let Some(parent) = Path::new(output).parent() {
        // The subcommands say so themselves when this fails.
        let _ = fs::create_dir_all(parent);
    }
    work()?;
    stamp.write().map(Done::from)
}

#[cfg(test)]
mod tests {
    use super::{MEASURED, all};
    use crate::process::Packages;
    use crate::setup;

    #[test]
    fn the_data_bring_the_set_up_that_they_need() {
        assert_eq!(setup::missing(&all()), [""; 0]);
    }

    #[test]
    fn the_program_that_trains_and_is_measured_is_optimised_as_it_is_released() {
        let changes_the_profile = |packages: Packages| {
            let build = packages.command("build", &["--bin", "dpr"]);
            build.get_args().any(|argument| argument == "--config")
        };
        assert!(!changes_the_profile(MEASURED));
        assert!(changes_the_profile(Packages::All), "the tests' selection is built with a configuration");
    }
}
