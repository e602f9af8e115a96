//! Encoding, training and exact search on a GPU, of random weights and made-up token ids: nothing is fetched or read.
//!
//! ```text
//! gpu_bench all [PART ...]
//! gpu_bench adapter DEVICE
//! gpu_bench encode DEVICE SIZE f32|f16|bf16 ROWS TOKENS SECONDS
//! gpu_bench train DEVICE SIZE f32|f16|bf16 QUESTIONS TOKENS STEPS CHUNK_TOKENS TAPE_TOKENS
//! gpu_bench search DEVICE ROWS DIM QUESTIONS
//! ```
//!
//! DEVICE is `wgpu` or `flex`; SIZE is `tiny`, `minilm` (6 layers of 384) or `base` (12 of 768). Each prints one JSON
//! object on a line; `all` runs them on `wgpu` beside PyTorch, and prints a table. A build with the feature `real-gpu`
//! takes SPIR-V to a Vulkan driver in place of WGSL.

mod all;
mod encode;
mod made;
mod search;
mod train;

use std::error::Error;
use std::str::FromStr;
use std::time::Instant;

use dpr_core::DeviceChoice;
use dpr_train::{TrainDevice, keep_freed_memory};
use serde_json::json;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The arguments that are left.
struct Arguments(std::vec::IntoIter<String>);

impl Arguments {
    fn next<T: FromStr>(&mut self, name: &str) -> Outcome<T> {
        let text = self.0.next().ok_or_else(|| format!("{name} is missing"))?;
        text.parse().map_err(|_| format!("{name} is {text}, which does not fit").into())
    }
}

fn main() -> Outcome<()> {
    keep_freed_memory();
    let mut arguments = Arguments(std::env::args().skip(1).collect::<Vec<_>>().into_iter());
    let part: String = arguments.next("PART")?;
    if part == "all" {
        return all::run(&arguments.0.collect::<Vec<_>>());
    }
    let choice: DeviceChoice = arguments.next("DEVICE")?;
    let started = Instant::now();
    let device = TrainDevice::open(choice)?;
    eprintln!("{} opened in {:.1} s", device.name, started.elapsed().as_secs_f64());
    let mut answer = match part.as_str() {
        "adapter" => json!({ "formats": formats(&device) }),
        "encode" => encode::run(&mut arguments, &device)?,
        "train" => train::run(&mut arguments, &device)?,
        "search" => search::run(&mut arguments, &device)?,
        other => return Err(format!("PART is {other}: all, adapter, encode, train or search").into()),
    };
    answer["part"] = part.into();
    answer["device"] = device.name.clone().into();
    answer["spirv"] = cfg!(feature = "real-gpu").into();
    println!("{answer}");
    Ok(())
}

/// Returns the number formats that training can multiply in.
fn formats(device: &TrainDevice) -> Vec<&'static str> {
    use dpr_train::Precision::{Bf16, F16, F32};
    [F32, F16, Bf16]
        .into_iter()
        .filter(|format| device.check(*format).is_ok())
        .map(|format| format.name())
        .collect()
}

/// Returns the middle of some numbers.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}
