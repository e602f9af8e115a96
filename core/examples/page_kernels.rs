//! The WGSL kernels of the browser on the GPU that is here: milliseconds of a question and of 20 passages, and how near
//! the vectors are to those of the CPU. Random weights of MiniLM's size.
//!
//! ```text
//! cargo run --release -p dpr-core --example page_kernels --features page-kernels
//! ```
//!
//! Prints one JSON object on a line.

use std::error::Error;
use std::time::Instant;

use dpr_core::device::Device;
use dpr_core::encoder::{Encoder, TokenBatch};
use dpr_core::kernel::KernelEncoder;
use dpr_core::random::SplitMix;
use dpr_core::weights::random_weights;
use dpr_core::{DeviceChoice, EncoderConfig, TensorMap};
use serde_json::json;

/// Rows and tokens of what is timed: a question, and what a reranker reads.
const SHAPES: [(&str, usize, usize); 2] = [("question", 1, 16), ("passages", 20, 160)];

/// Repetitions on the GPU, of which the middle one counts; on one thread of the CPU the second one counts.
const ROUNDS: usize = 30;

fn main() -> Result<(), Box<dyn Error>> {
    let opened = Device::open(DeviceChoice::Wgpu)?;
    let Device::Burn { device, name, .. } = &opened else { return Err("wgpu is no GPU".into()) };
    let config = json!({
        "model_type": "bert", "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12,
        "intermediate_size": 1536, "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2,
        "pad_token_id": 0
    });
    let config = EncoderConfig::from_json(config.to_string().as_bytes())?;
    let weights = random_weights(&config, 7)?;
    let tensors = || TensorMap::from_safetensors([("random", weights.as_slice())]);
    let gpu = Encoder::load(&config, tensors()?, device)?;
    let cpu = KernelEncoder::new(&config, tensors()?)?;
    let mut random = SplitMix::new(1);
    let mut answer = json!({ "part": "page kernels", "device": name });
    for (shape, rows, tokens) in SHAPES {
        let mut text = |_| (0..tokens).map(|_| (1000 + random.below(29_000)) as u32).collect();
        let texts: Vec<Vec<u32>> = (0..rows).map(&mut text).collect();
        let batch = TokenBatch::new(&texts, 0, 16, tokens);
        let forward = || -> Result<Vec<f32>, String> {
            let data = gpu.forward(&batch, &config, device).try_into_data().map_err(|e| format!("{e:?}"))?;
            data.try_into_vec::<f32>().map_err(|e| format!("{e:?}"))
        };
        let started = Instant::now();
        let vectors = forward()?;
        let first = started.elapsed().as_secs_f64() * 1e3;
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let started = Instant::now();
            forward()?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let expected = cpu.forward(&texts);
        let started = Instant::now();
        cpu.forward(&texts);
        let on_cpu = started.elapsed().as_secs_f64() * 1e3;
        let cosines = vectors.chunks_exact(config.dim()).zip(expected.chunks_exact(config.dim())).map(cosine);
        answer[shape] = json!({
            "rows": rows, "tokens": tokens, "first_ms": first, "ms": times[ROUNDS / 2], "cpu_ms": on_cpu,
            "cosine_with_cpu": cosines.fold(f64::INFINITY, f64::min),
        });
    }
    println!("{answer}");
    Ok(())
}

fn cosine((a, b): (&[f32], &[f32])) -> f64 {
    let product =
        |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    product(a, b) / (product(a, a) * product(b, b)).sqrt()
}
