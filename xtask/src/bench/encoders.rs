//! Engines with an environment of their own, and the starter model in their formats: the peers of `precision` and
//! `litert`.

use super::{FOLDER, first_visit};
use crate::failure::Outcome;
use crate::paths::{ENCODERS_VENV, MINILM, python_of};
use crate::process::{self, command, output};
use crate::stamp::Stamp;

/// Tokens of the models that have one length: of a question, and of a passage.
const LENGTHS: [&str; 2] = ["16", "160"];

/// The converters, by version.
const PACKAGES: &str = "tests/python/requirements/encoders.txt";

/// Writes the starter model for LiteRT and CTranslate2.
pub(super) fn export() -> Outcome {
    let script = "tests/bench/export_encoders.py";
    let stamp = Stamp::of("encoders", &[script, PACKAGES, &format!("{MINILM}/checked.sha256")], &LENGTHS)?;
    let last = format!("{FOLDER}/litert/int8-{}.tflite", LENGTHS[1]);
    if stamp.is_fresh(&[&last, &format!("{FOLDER}/ctranslate2-int8/model.bin")]) {
        return Ok(());
    }
    stamp.clear();
    println!("bench: converting the starter model for LiteRT and CTranslate2");
    let mut python = command(python_of(ENCODERS_VENV), &[script, MINILM, FOLDER]);
    output(python.args(LENGTHS).env("HF_HUB_OFFLINE", "1"))?;
    stamp.write()
}

/// Questions and passages in Chromium, beside LiteRT.js.
pub(super) fn in_the_page() -> Outcome {
    first_visit::install_peers()?;
    process::run(&mut command("node", &["tests/browser/bench/run.mjs", "--litert"]))
}
