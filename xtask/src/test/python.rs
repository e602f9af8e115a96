//! Files that `dpr` writes, loaded by Python's transformers.

use crate::failure::{Failure, Outcome};
use crate::jobs::Done;
use crate::paths::{DEMO_MODEL, dpr, venv_python};
use crate::process::{command, output};

const FIXTURES: &str = "tests/fixtures";
const ROUNDTRIP: &str = "target/roundtrip";

/// Imports the small fixtures and has Python's transformers load them and the demo's model.
pub(super) fn python() -> Outcome<Done> {
    let import = |name: &str, sources: &[&str]| -> Outcome<String> {
        let out = format!("{ROUNDTRIP}/{name}");
        let _ = std::fs::remove_dir_all(&out);
        std::fs::create_dir_all(ROUNDTRIP)
            .map_err(|e| Failure::new(format!("cannot create {ROUNDTRIP}: {e}")))?;
        let mut arguments = vec!["import", "--out", &out];
        arguments.extend(sources);
        output(&mut command(dpr(), &arguments)).map(|_| out.clone())
    };
    let dpr_flags = |name: &str, question: &str| {
        let folder = format!("{FIXTURES}/{name}");
        [format!("{folder}/{question}"), format!("{folder}/ctx")]
    };
    let mut arguments = vec!["tests/python/roundtrip.py".to_owned()];
    for (fixture, question, out) in [
        ("dpr-tiny", "question", "dpr-tiny"),
        ("dpr-tiny", "question-sharded", "dpr-tiny-sharded"),
        ("dpr-tiny-projected", "question", "dpr-tiny-projected"),
    ] {
        let [question, passage] = dpr_flags(fixture, question);
        arguments.push(import(out, &["--question", &question, "--passage", &passage, "--pooling", "cls"])?);
        arguments.push(format!("{FIXTURES}/{fixture}/golden.json"));
    }
    let mpnet = format!("{FIXTURES}/mpnet-tiny");
    arguments.push(import("mpnet-tiny", &["--question", &mpnet, "--pooling", "mean", "--normalize"])?);
    arguments.push(format!("{mpnet}/golden.json"));
    arguments.push(DEMO_MODEL.to_owned());
    arguments.push(format!("{FIXTURES}/minilm/golden.json"));
    let mut python = command(venv_python(), &arguments);
    python.env("PYTHONDONTWRITEBYTECODE", "1").env("HF_HUB_OFFLINE", "1");
    let report: serde_json::Value = serde_json::from_str(&output(&mut python)?)
        .map_err(|e| Failure::new(format!("roundtrip.py printed no report: {e}")))?;
    let models = report.as_array().map(Vec::as_slice).unwrap_or_default();
    let closing = models
        .iter()
        .map(|model| {
            let name = model["model"].as_str().unwrap_or_default();
            let class = model["encoders"]["question"]["class"].as_str().unwrap_or_default();
            let cosine = model["min_cosine"]
                .as_f64()
                .map_or_else(|| "projected".to_owned(), |c| format!("cosine {c:.7}"));
            let products = model["max_product_difference"].as_f64().unwrap_or(f64::NAN);
            format!("{name}: {class}, {cosine}, inner products within {products:.1e}")
        })
        .collect();
    Ok(Done { note: format!("{} models", models.len()), closing })
}
