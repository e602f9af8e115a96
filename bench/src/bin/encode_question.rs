//! Encodes a question on the CPU and says how long it takes.
//!
//! ```text
//! cargo run --release -p dpr-bench --bin encode_question -- data/model ["a question"]
//! ```
//!
//! Prints `{"question", "tokens", "dim", "device", "median_ms"}`: the median over 200 runs from text to vector, one
//! thread, after 20 that are not counted. `cargo xtask bench` holds it against onnxruntime.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use dpr_core::device::DeviceChoice;
use dpr_encode::model::ModelDir;

/// 16 tokens with the two that frame it.
const QUESTION: &str = "which nfl team represented the afc at super bowl 50 in the year 2016";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().ok_or("usage: encode_question MODEL_DIR [QUESTION]")?;
    let question = arguments.next().unwrap_or_else(|| QUESTION.to_owned());
    let encoder = ModelDir::open(Path::new(&model))?.question_encoder(DeviceChoice::Cpu)?;
    let mut times = Vec::new();
    for run in 0..220 {
        let start = Instant::now();
        encoder.encode_question(&question)?;
        if run >= 20 {
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    times.sort_by(f64::total_cmp);
    let report = serde_json::json!({
        "question": question,
        "tokens": encoder.question_tokens(&question)?.len(),
        "dim": encoder.dim(),
        "device": encoder.device_name(),
        "median_ms": times[times.len() / 2],
    });
    println!("{report}");
    Ok(())
}
