//! Passages a second of an encoder, and how far its vectors are from those of Burn's CPU backend.

use std::time::Instant;

use burn::tensor::{FloatDType, Tensor};
use dpr_core::DeviceChoice;
use dpr_core::encoder::TokenBatch;
use dpr_core::random::SplitMix;
use dpr_train::{DualEncoder, Precision, Sharing, TrainDevice};
use serde_json::{Value, json};

use crate::made::{Size, texts};
use crate::{Arguments, Outcome};

/// Passages whose vectors are compared.
const COMPARED: usize = 4;

pub(crate) fn run(arguments: &mut Arguments, device: &TrainDevice) -> Outcome<Value> {
    let (size, precision): (Size, Precision) = (arguments.next("SIZE")?, arguments.next("PRECISION")?);
    let (rows, tokens): (usize, usize) = (arguments.next("ROWS")?, arguments.next("TOKENS")?);
    let seconds: f64 = arguments.next("SECONDS")?;
    device.check(precision)?;
    let dir = tempfile::tempdir()?;
    let model = size.write(&dir.path().join("model"))?;
    let load =
        |device: &TrainDevice| DualEncoder::load(&model, Sharing::Keep, Some(tokens), Some(tokens), device);
    let (here, there) = (load(device)?, load(&TrainDevice::open(DeviceChoice::Flex)?)?);
    let encoder = here.passage();
    let net = match precision {
        Precision::F32 => encoder.net().clone(),
        Precision::F16 => encoder.net().with_products_in(FloatDType::F16),
        Precision::Bf16 => encoder.net().with_products_in(FloatDType::BF16),
    };
    let mut random = SplitMix::new(1);
    let mut batch = || texts(&mut random, rows, tokens);
    let forward = |texts: &[Vec<u32>]| {
        net.forward(&TokenBatch::new(texts, 0, 1, tokens), &encoder.config, &device.plain)
    };

    let first = batch();
    let started = Instant::now();
    let vectors = numbers(forward(&first))?;
    let first_seconds = started.elapsed().as_secs_f64();
    let dim = encoder.dim();
    let least = |got: &[f32], expected: &[f32]| {
        let product =
            |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
        let cosine = |(a, b): (&[f32], &[f32])| product(a, b) / (product(a, a) * product(b, b)).sqrt();
        got.chunks_exact(dim).zip(expected.chunks_exact(dim)).map(cosine).fold(f64::INFINITY, f64::min)
    };
    let expected =
        there.passage().encode(&first[..COMPARED.min(rows)], &TrainDevice::open(DeviceChoice::Flex)?)?;
    let cosine = least(&vectors, &expected);

    // Tuned by now; a batch is queued while the one before it is waited for, as where files are encoded.
    drop(numbers(forward(&batch()))?);
    let (started, mut encoded, mut queued) = (Instant::now(), 0, forward(&batch()));
    while started.elapsed().as_secs_f64() < seconds {
        let next = forward(&batch());
        drop(numbers(std::mem::replace(&mut queued, next))?);
        encoded += rows;
    }
    let passages_per_second = encoded as f64 / started.elapsed().as_secs_f64();
    drop(numbers(queued)?);
    Ok(json!({
        "precision": precision.name(), "rows": rows, "tokens": tokens, "first_seconds": first_seconds,
        "passages_per_second": passages_per_second, "cosine_with_cpu": cosine,
        "teraflops": passages_per_second * tokens as f64 * size.operations(tokens) / 1e12,
    }))
}

fn numbers(tensor: Tensor<2>) -> Outcome<Vec<f32>> {
    let data = tensor.try_into_data().map_err(|error| format!("{error:?}"))?;
    data.convert::<f32>().try_into_vec::<f32>().map_err(|error| format!("{error:?}").into())
}
