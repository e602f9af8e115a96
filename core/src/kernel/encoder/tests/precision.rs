//! Layers and encoders in bf16 and in 8 bits, against PyTorch's and numpy's definitions (`precision_reference.py`) and
//! against single precision.

use super::super::gemm_q8::InputBits;
use super::*;
use crate::kernel::dot::to_bf16;
use crate::precision::Precision::{Bf16, F32, Int8};
use half::bf16;

const GOLDEN: &[u8] =
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/precision/golden.json.gz"));

#[derive(serde::Deserialize)]
struct Golden {
    rounding: Vec<(u32, u16)>,
    layers: Vec<Layer>,
}

#[derive(serde::Deserialize)]
struct Layer {
    m: usize,
    k: usize,
    inputs: Vec<f32>,
    weights: Vec<f32>,
    bias: Vec<f32>,
    bf16: Vec<f64>,
    int8: Vec<f64>,
}

fn golden() -> Golden {
    serde_json::from_reader(flate2::read::GzDecoder::new(GOLDEN)).unwrap()
}

/// The outputs of a layer of these weights `[n, k]` and biases, `[m, n]`.
fn layer(isa: Isa, precision: Precision, weight: &[f32], bias: &[f32], x: &[f32], m: usize) -> Vec<f32> {
    let layer = Linear::at(isa, precision, vec![part(Matrix::F32(weight.to_vec()), bias, 1.0)], x.len() / m);
    let mut out = vec![0f32; m * bias.len()];
    layer.apply(isa, x, m, Epilogue::Store, &mut ConvertedInput::default(), &mut out);
    out
}

/// The outputs of a layer of these weights in 8 bits in single precision, `[m, n]`, by inputs of so many bits.
fn quantized_layer(isa: Isa, bits: InputBits, weight: &[f32], bias: &[f32], x: &[f32], m: usize) -> Vec<f32> {
    let k = x.len() / m;
    let (values, scales) = quantize_rows(weight, k);
    let layer = Linear::at(isa, F32, vec![part(Matrix::Q8 { values, scales }, bias, 1.0)], k);
    let mut out = vec![0f32; m * bias.len()];
    layer.apply(isa, x, m, Epilogue::Store, &mut ConvertedInput::of(bits), &mut out);
    out
}

#[test]
fn bf16_is_rounded_as_pytorch_does() {
    for (bits, expected) in golden().rounding {
        let x = f32::from_bits(bits);
        let (got, expected) = (to_bf16(x), bf16::from_bits(expected));
        if x.is_nan() {
            assert!(bf16::from_bits(got as u16).is_nan() && expected.is_nan());
        } else {
            assert_eq!(got, u32::from(expected.to_bits()), "{bits:#x}");
            assert_eq!(bf16::from_f32(x), expected, "{bits:#x}: the weights' rounding");
        }
    }
}

#[test]
fn layers_match_their_definition() {
    for Layer { m, k, inputs, weights, bias, bf16, int8 } in golden().layers {
        for isa in Isa::available() {
            for (precision, expected) in [(Bf16, &bf16), (Int8, &int8)] {
                let got = layer(isa, precision, &weights, &bias, &inputs, m);
                for (got, expected) in got.iter().zip(expected) {
                    let close = (f64::from(*got) - expected).abs() <= 1e-5 * expected.abs().max(k as f64);
                    assert!(close, "{isa:?} {precision} {m}x{k}: {got} is not {expected}");
                }
            }
        }
    }
}

#[test]
fn eight_bits_are_the_same_on_every_instruction_set_and_bf16_nearly() {
    let mut numbers = Numbers(11);
    for (n, k) in [(1, 1), (7, 5), (49, 63), (97, 130), (50, 1536)] {
        let (weight, bias, x) = (numbers.take(n * k), numbers.take(n), numbers.take(20 * k));
        for precision in [Bf16, Int8] {
            let all: Vec<Vec<f32>> = Isa::available()
                .into_iter()
                .flat_map(|isa| (1..=20).map(move |m| (isa, m)))
                .map(|(isa, m)| {
                    let mut out = layer(isa, precision, &weight, &bias, &x[..m * k], m);
                    out.truncate(n);
                    out
                })
                .collect();
            for other in &all {
                for (a, b) in all[0].iter().zip(other) {
                    let limit = if precision == Int8 { 0.0 } else { 1e-6 * k as f32 };
                    assert!((a - b).abs() <= limit, "{precision} {n}x{k}: {a} and {b}");
                }
            }
        }
    }
}

#[test]
fn narrow_layers_side_by_side_keep_their_factors() {
    let mut numbers = Numbers(12);
    for k in [5, 130, 300] {
        let [(a, bias_a), (b, bias_b)] = [5, 60].map(|n| (numbers.take(n * k), numbers.take(n)));
        let x = numbers.take(7 * k);
        for isa in Isa::available() {
            for precision in [Bf16, Int8] {
                let parts = [(&a, &bias_a, 0.5), (&b, &bias_b, 1.0)];
                let parts =
                    parts.map(|(weight, bias, factor)| part(Matrix::F32(weight.clone()), bias, factor));
                let both = Linear::at(isa, precision, parts.into(), k);
                let mut out = vec![0f32; 7 * 65];
                both.apply(isa, &x, 7, Epilogue::Store, &mut ConvertedInput::default(), &mut out);
                let alone =
                    [(&a, &bias_a), (&b, &bias_b)].map(|(w, bias)| layer(isa, precision, w, bias, &x, 7));
                for (row, out) in out.chunks_exact(65).enumerate() {
                    // A factor of 0.5 is exact.
                    let first = alone[0][row * 5..][..5].iter().map(|x| x * 0.5);
                    let second = alone[1][row * 60..][..60].iter().copied();
                    let expected: Vec<f32> = first.chain(second).collect();
                    assert_eq!(out, expected, "{isa:?} {precision}, {k} inputs, row {row}");
                }
            }
        }
    }
}

#[test]
fn the_largest_sums_of_eight_bits_do_not_overflow() {
    for k in [4usize, 128, 384, 4096] {
        let weight = Matrix::Q8 { values: vec![-128; k], scales: vec![1.0] };
        // A zero in each group makes the others the 255th step from it.
        let x: Vec<f32> = (0..k).map(|i| if i % 128 == 0 { 0.0 } else { 255.0 }).collect();
        for isa in Isa::available() {
            let layer = Linear::at(isa, Int8, vec![part(weight.clone(), &[0.0], 1.0)], k);
            let mut out = [0f32];
            layer.apply(isa, &x, 1, Epilogue::Store, &mut ConvertedInput::default(), &mut out);
            let exact = -128.0 * 255.0 * (k - k.div_ceil(128)) as f32;
            assert!((out[0] / exact - 1.0).abs() < 1e-6, "{isa:?} {k}: {} is not {exact}", out[0]);
        }
    }
}

#[test]
fn a_number_that_is_not_finite_reaches_its_row_alone() {
    let (k, mut numbers) = (293, Numbers(12));
    let (weight, bias, x) = (numbers.take(3 * k), numbers.take(3), numbers.take(3 * k));
    let check = |name: &str, apply: &dyn Fn(&[f32]) -> Vec<f32>| {
        let good = apply(&x);
        assert!(good.iter().all(|v| v.is_finite()), "{name}: {good:?}");
        // In a vector of the first group, of the one within, and beyond the last vector.
        let places = [5, 200, 292].into_iter();
        for (place, bad) in
            places.flat_map(|place| [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(|bad| (place, bad)))
        {
            let mut x = x.clone();
            x[k + place] = bad;
            let got = apply(&x);
            assert!(got[3..6].iter().all(|v| !v.is_finite()), "{name} {bad}: {got:?}");
            assert!(got[..3] == good[..3] && got[6..] == good[6..], "{name} {bad}");
        }
    };
    for isa in Isa::available() {
        for precision in [Bf16, Int8] {
            check(&format!("{isa:?} {precision}"), &|x: &[f32]| layer(isa, precision, &weight, &bias, x, 3));
        }
        for bits in [InputBits::Sixteen, InputBits::Fourteen, InputBits::Seven] {
            let name = format!("{isa:?}, weights in 8 bits, inputs in {bits:?}");
            check(&name, &|x: &[f32]| quantized_layer(isa, bits, &weight, &bias, x, 3));
        }
    }
}

#[test]
fn weights_that_come_in_eight_bits_keep_their_scales() {
    let (n, k, mut numbers) = (50, 300, Numbers(14));
    let codes: Vec<i8> = numbers.take(n * k).iter().map(|x| (x * 127.0).clamp(-127.0, 127.0) as i8).collect();
    let scales: Vec<f32> = (1..=n).map(|row| row as f32 * 1e-3).collect();
    // Steps of 1 from 0 to 255 in each group: inputs that 8 bits hold.
    let x: Vec<f32> = (0..k).map(|i| [0.0, 255.0, (i % 200) as f32][(i % 128).min(2)]).collect();
    let weight = Matrix::Q8 { values: codes.clone(), scales: scales.clone() };
    for isa in Isa::available() {
        let layer = Linear::at(isa, Int8, vec![part(weight.clone(), &vec![0.0; n], 1.0)], k);
        let mut out = vec![0f32; n];
        layer.apply(isa, &x, 1, Epilogue::Store, &mut ConvertedInput::default(), &mut out);
        for ((got, row), scale) in out.iter().zip(codes.chunks_exact(k)).zip(&scales) {
            let sum: f64 = row.iter().zip(&x).map(|(code, x)| f64::from(*code) * f64::from(*x)).sum();
            let exact = sum * f64::from(*scale);
            assert!(
                (f64::from(*got) - exact).abs() < 1e-5 * exact.abs().max(100.0),
                "{isa:?}: {got} is not {exact}"
            );
        }
    }
}

#[test]
fn zeros_and_numbers_below_the_normal_ones_give_the_bias() {
    let (k, mut numbers) = (19, Numbers(13));
    let (weight, bias) = (numbers.take(5 * k), numbers.take(5));
    for isa in Isa::available() {
        for precision in [Bf16, Int8] {
            for x in [0.0, -0.0, 1e-40] {
                assert_eq!(
                    layer(isa, precision, &weight, &bias, &vec![x; k], 1),
                    bias,
                    "{isa:?} {precision}"
                );
            }
            assert_eq!(layer(isa, precision, &vec![0.0; 5 * k], &bias, &vec![3.0; k], 1), bias);
        }
    }
}

fn encoder_in(config: &EncoderConfig, bytes: &[u8], isa: Isa, precision: Precision) -> KernelEncoder {
    let tensors = TensorMap::from_safetensors([("m", bytes)]).unwrap();
    load::encoder(config, tensors, isa, 1, precision).unwrap()
}

/// The least cosine of two matrices' rows.
fn least_cosine(a: &[f32], b: &[f32], dim: usize) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let rows = a.chunks_exact(dim).zip(b.chunks_exact(dim));
    rows.map(|(a, b)| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()).fold(1.0, f64::min)
}

#[test]
fn every_family_points_where_single_precision_does() {
    for (config, bytes) in models() {
        for isa in Isa::available() {
            let [single, half, eight] = [F32, Bf16, Int8]
                .map(|precision| encoder_in(&config, &bytes, isa, precision).forward(&rows()));
            let [half, eight] = [half, eight].map(|other| least_cosine(&single, &other, config.dim()));
            // Random weights of 36 numbers: errors average out less than in a trained model, for which see `tests/it`.
            assert!(half >= 0.999 && eight >= 0.99, "{isa:?} {:?}: {half}, {eight}", config.family);
        }
    }
}

#[test]
fn a_row_in_a_batch_equals_the_row_alone_in_every_precision() {
    for (config, bytes) in models() {
        for isa in Isa::available() {
            for precision in [Bf16, Int8] {
                let encoder = encoder_in(&config, &bytes, isa, precision);
                let alone: Vec<f32> = rows().into_iter().flat_map(|row| encoder.forward(&[row])).collect();
                assert!(encoder.forward(&rows()) == alone, "{isa:?} {precision} {:?}", config.family);
            }
        }
    }
}
