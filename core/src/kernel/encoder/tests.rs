//! The matrix products against their definition in f64, and the engine against itself: a row alone, a row in
//! a batch, and every instruction set of this machine.

use super::super::gemm::Panels;
use super::super::isa::Isa;
use super::gemm_q8::OUTPUTS;
use super::linear::{ConvertedInput, Epilogue, Linear, Part};
use super::{KernelEncoder, load};
use crate::config::EncoderConfig;
use crate::names;
use crate::precision::Precision;
use crate::row::{LastStates, Row};
use crate::weights::{Matrix, TensorMap, WeightsError, quantize_rows};
use safetensors::tensor::{Dtype, TensorView};

mod attention;
mod inputs;
mod precision;

/// Numbers between -1 and 1, the same on every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    fn take(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.next()).collect()
    }
}

/// `x W^T + b` in f64, `[m, n]`.
fn reference(x: &[f32], weight: &[f32], bias: &[f32], k: usize) -> Vec<f64> {
    let dot = |x: &[f32], w: &[f32]| x.iter().zip(w).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum::<f64>();
    x.chunks_exact(k)
        .flat_map(|x| weight.chunks_exact(k).zip(bias).map(move |(w, b)| dot(x, w) + f64::from(*b)))
        .collect()
}

fn gelu(x: f64) -> f64 {
    // The integral of the normal density by the midpoint rule, from 0.
    let steps = 4000;
    let width = x / f64::from(steps);
    let area: f64 = (0..steps).map(|i| (-((f64::from(i) + 0.5) * width).powi(2) / 2.0).exp() * width).sum();
    x * (0.5 + area / (2.0 * std::f64::consts::PI).sqrt())
}

fn part(weight: Matrix, bias: &[f32], factor: f32) -> Part {
    Part { weight, bias: bias.to_vec(), factor }
}

#[test]
fn products_match_their_definition_for_odd_sizes() {
    let mut numbers = Numbers(1);
    for isa in Isa::available() {
        for (n, k) in [(1, 1), (7, 5), (8, 16), (47, 33), (49, 64), (97, 130)] {
            let (weight, bias) = (numbers.take(n * k), numbers.take(n));
            let layer = Linear::new(isa, vec![part(Matrix::F32(weight.clone()), &bias, 1.0)], k);
            for m in (1..=9).chain([20]) {
                let (x, before) = (numbers.take(m * k), numbers.take(m * n));
                let exact = reference(&x, &weight, &bias, k);
                for epilogue in [Epilogue::Store, Epilogue::Gelu, Epilogue::Add] {
                    let mut out = before.clone();
                    layer.apply(isa, &x, m, epilogue, &mut ConvertedInput::default(), &mut out);
                    for ((got, exact), before) in out.iter().zip(&exact).zip(&before) {
                        let exact = match epilogue {
                            Epilogue::Store => *exact,
                            Epilogue::Gelu => gelu(*exact),
                            Epilogue::Add => exact + f64::from(*before),
                        };
                        let close = (f64::from(*got) - exact).abs() < 1e-5;
                        assert!(close, "{isa:?} {m}x{n}x{k} {epilogue:?}: {got} is not {exact}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_small_matrix_has_no_panel_of_padding() {
    // Kept alive, so that the allocator puts them at every place in a cache line.
    let small: Vec<_> = (1..=64).map(|n| Panels::<f32>::new(n % 8 + 1, n % 3 + 1, 8)).collect();
    for panels in &small {
        assert_eq!(panels.iter::<8>().count(), 1);
    }
}

#[test]
fn layers_side_by_side_keep_their_factors() {
    let (k, mut numbers) = (6, Numbers(2));
    let (a, b) = (numbers.take(5 * k), numbers.take(9 * k));
    let (bias_a, bias_b, x) = (numbers.take(5), numbers.take(9), numbers.take(3 * k));
    let eight = |values: &[f32]| {
        let (values, scales) = quantize_rows(values, k);
        Matrix::Q8 { values, scales }
    };
    let (exact_a, exact_b) = (reference(&x, &a, &bias_a, k), reference(&x, &b, &bias_b, k));
    for isa in Isa::available() {
        for (parts, tolerance) in [
            ([part(Matrix::F32(a.clone()), &bias_a, 0.5), part(Matrix::F32(b.clone()), &bias_b, 1.0)], 1e-5),
            ([part(eight(&a), &bias_a, 0.5), part(Matrix::F32(b.clone()), &bias_b, 1.0)], 0.03),
            ([part(eight(&a), &bias_a, 0.5), part(eight(&b), &bias_b, 1.0)], 0.03),
        ] {
            let layer = Linear::new(isa, parts.into(), k);
            let mut out = vec![0f32; 3 * 14];
            layer.apply(isa, &x, 3, Epilogue::Store, &mut ConvertedInput::default(), &mut out);
            for (row, out) in out.chunks_exact(14).enumerate() {
                let exact =
                    exact_a[row * 5..][..5].iter().map(|x| x * 0.5).chain(exact_b[row * 9..][..9].to_vec());
                for (got, exact) in out.iter().zip(exact) {
                    assert!((f64::from(*got) - exact).abs() < tolerance, "{isa:?}: {got} is not {exact}");
                }
            }
        }
    }
}

#[test]
fn eight_bit_products_lose_only_what_the_weights_lost() {
    let mut numbers = Numbers(3);
    for isa in Isa::available() {
        for (n, k) in [(1, 1), (7, 5), (8, 16), (OUTPUTS * 6 + 1, 33), (97, 130)] {
            let (values, scales) = quantize_rows(&numbers.take(n * k), k);
            let (weight, bias) = (Matrix::Q8 { values, scales }, numbers.take(n));
            let layer = Linear::new(isa, vec![part(weight.clone(), &bias, 1.0)], k);
            let weight = weight.into_f32();
            for m in 1..=9 {
                let x = numbers.take(m * k);
                let mut out = vec![0f32; m * n];
                layer.apply(isa, &x, m, Epilogue::Store, &mut ConvertedInput::default(), &mut out);
                for (got, exact) in out.iter().zip(reference(&x, &weight, &bias, k)) {
                    // Inputs to a half of 1/32767, `k` of them.
                    let limit = 2e-5 * (k as f64).sqrt().max(2.0);
                    assert!(
                        (f64::from(*got) - exact).abs() < limit,
                        "{isa:?} {m}x{n}x{k}: {got} is not {exact}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_largest_eight_bit_sums_do_not_overflow() {
    for k in [2usize, 384, 1536, 4096] {
        let weight = Matrix::Q8 { values: vec![-128; 2 * k], scales: vec![1.0; 2] };
        for isa in Isa::available() {
            let layer = Linear::new(isa, vec![part(weight.clone(), &[0.0; 2], 1.0)], k);
            let mut out = [0f32; 2];
            layer.apply(isa, &vec![-3.0; k], 1, Epilogue::Store, &mut ConvertedInput::default(), &mut out);
            let exact = 3.0 * 128.0 * k as f32;
            assert!(
                out.iter().all(|got| (got / exact - 1.0).abs() < 1e-5),
                "{isa:?} {k}: {out:?}, not {exact}"
            );
        }
    }
}

/// Returns a config and random weights small enough to check and of sizes that are no multiple of anything; with
/// `eight_bits`, linear layers and the word embedding are stored so.
fn model(family: &str, extra: &str, eight_bits: bool) -> (EncoderConfig, Vec<u8>) {
    let json = format!(
        r#"{{"model_type":"{family}","hidden_size":36,"num_hidden_layers":2,"num_attention_heads":3,
            "intermediate_size":52,"vocab_size":50,"max_position_embeddings":102,"layer_norm_eps":1e-5,
            "dim":36,"n_layers":2,"n_heads":3,"hidden_dim":52,
            "local_attention":14,"global_attn_every_n_layers":2{extra}}}"#
    );
    let config = EncoderConfig::from_json(json.as_bytes()).unwrap();
    let tensors = names::tensors(&config);
    (config, file(&tensors, eight_bits))
}

/// Random safetensors of these names and shapes.
fn file(tensors: &[(String, Vec<usize>)], eight_bits: bool) -> Vec<u8> {
    let mut numbers = Numbers(7);
    let mut stored: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = Vec::new();
    let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    for (name, shape) in tensors {
        let mut values = numbers.take(shape.iter().product());
        let small = ["position", "token_type", "relative"].iter().any(|part| name.contains(part));
        match shape.len() {
            1 if name.ends_with(".weight") => values.iter_mut().for_each(|v| *v = 1.0 + *v * 0.2),
            2 if !small && !name.contains("word") => values.iter_mut().for_each(|v| *v *= 0.5),
            _ => {}
        }
        if eight_bits && shape.len() == 2 && !small {
            let (values, scales) = quantize_rows(&values, shape[1]);
            stored.push((format!("{name}.scale"), Dtype::F32, shape[..1].to_vec(), bytes(&scales)));
            let values = values.iter().map(|v| v.to_le_bytes()[0]).collect();
            stored.push((name.clone(), Dtype::I8, shape.clone(), values));
        } else {
            stored.push((name.clone(), Dtype::F32, shape.clone(), bytes(&values)));
        }
    }
    let views = stored.iter().map(|(name, dtype, shape, bytes)| {
        (name.as_str(), TensorView::new(*dtype, shape.clone(), bytes).unwrap())
    });
    safetensors::serialize(views, None).unwrap()
}

fn encoder(config: &EncoderConfig, bytes: &[u8], isa: Isa) -> KernelEncoder {
    let tensors = TensorMap::from_safetensors([("m", bytes)]).unwrap();
    load::encoder(config, tensors, isa, 1, Precision::F32).unwrap()
}

fn rows() -> Vec<Vec<u32>> {
    [1usize, 5, 17, 64, 65, 99, 100, 2, 8]
        .iter()
        .map(|length| (0..*length).map(|i| ((i * 31 + length * 7) % 50) as u32).collect())
        .collect()
}

fn models() -> Vec<(EncoderConfig, Vec<u8>)> {
    let cls = r#","projection_dim":10"#;
    let mean = r#","dpr":{"pooling":"mean","normalize":true,"max_tokens":100}"#;
    vec![
        model("bert", cls, false),
        model("bert", mean, true),
        model("mpnet", mean, false),
        model("mpnet", cls, true),
        model("distilbert", mean, false),
        model("roberta", cls, true),
        model("modernbert", mean, false),
        model("modernbert", cls, true),
        model("nomic_bert", cls, false),
        model("nomic_bert", mean, true),
    ]
}

#[test]
fn a_row_in_a_batch_equals_the_row_alone_to_the_bit() {
    for (config, bytes) in models() {
        for isa in Isa::available() {
            let encoder = encoder(&config, &bytes, isa);
            let together = encoder.forward(&rows());
            let alone: Vec<f32> = rows().into_iter().flat_map(|row| encoder.forward(&[row])).collect();
            assert_eq!(together.len(), rows().len() * config.dim());
            assert!(together == alone, "{isa:?} {:?}", config.family);
            assert!(together.iter().all(|x| x.is_finite()));
        }
    }
    let (config, bytes) = model("bert", "", false);
    assert!(encoder(&config, &bytes, Isa::detect()).forward(&[]).is_empty());
}

#[test]
fn the_first_states_alone_equal_those_among_all_to_the_bit() {
    let precisions = [Precision::F32, Precision::Bf16, Precision::Int8];
    for (config, bytes) in models() {
        for (isa, precision) in Isa::available().into_iter().flat_map(|isa| precisions.map(|of| (isa, of))) {
            let tensors = TensorMap::from_safetensors([("m", bytes.as_slice())]).unwrap();
            let encoder = load::encoder(&config, tensors, isa, 1, precision).unwrap();
            let rows = rows();
            let rows = Row::of_ids(&rows);
            let all = encoder.states_of_rows(&rows, LastStates::All);
            let mut start = 0;
            let mut expected = Vec::new();
            for row in &rows {
                expected.extend_from_slice(&all[start..][..config.hidden_size]);
                start += row.len() * config.hidden_size;
            }
            assert_eq!(all.len(), start);
            let first = encoder.states_of_rows(&rows, LastStates::First);
            assert!(first == expected, "{isa:?} {precision:?} {:?}", config.family);
        }
    }
}

#[test]
fn every_instruction_set_gives_the_portable_vectors() {
    for (index, (config, bytes)) in models().into_iter().enumerate() {
        // In 8 bits a last-bit difference can round an input to the neighbouring step.
        let tolerance = if index % 2 == 0 { 1e-5 } else { 5e-4 };
        let all: Vec<Vec<f32>> =
            Isa::available().into_iter().map(|isa| encoder(&config, &bytes, isa).forward(&rows())).collect();
        let size = all[0].iter().fold(0f32, |max, x| max.max(x.abs()));
        for other in &all[1..] {
            let worst = all[0].iter().zip(other).fold(0f32, |max, (a, b)| max.max((a - b).abs()));
            assert!(worst <= tolerance * size, "{:?}: {worst} apart of {size}", config.family);
        }
    }
}

#[test]
fn eight_bits_point_where_single_precision_does() {
    for family in ["bert", "mpnet", "distilbert", "roberta", "modernbert", "nomic_bert"] {
        let mean = r#","dpr":{"pooling":"mean","normalize":true,"max_tokens":100}"#;
        let [single, eight] = [false, true].map(|eight_bits| {
            let (config, bytes) = model(family, mean, eight_bits);
            encoder(&config, &bytes, Isa::detect()).forward(&rows())
        });
        for (a, b) in single.chunks_exact(36).zip(eight.chunks_exact(36)) {
            let cosine: f32 = a.iter().zip(b).map(|(a, b)| a * b).sum();
            assert!(cosine > 0.999, "{family}: cosine {cosine}");
        }
    }
}

#[test]
fn a_layer_of_three_in_one_equals_three_layers() {
    let (k, mut numbers) = (10, Numbers(5));
    let (weight, bias, x) = (numbers.take(12 * k), numbers.take(12), numbers.take(2 * k));
    let (plain, (values, scales)) = (weight.clone(), quantize_rows(&weight, k));
    for (weight, tolerance) in [(Matrix::F32(weight), 1e-5), (Matrix::Q8 { values, scales }, 0.03)] {
        let parts = part(weight, &bias, 1.0).split(&[0.5, 1.0, 2.0]);
        let layer = Linear::new(Isa::detect(), parts, k);
        let mut out = [0f32; 24];
        layer.apply(Isa::detect(), &x, 2, Epilogue::Store, &mut ConvertedInput::default(), &mut out);
        let expected = reference(&x, &plain, &bias, k);
        for (column, (got, exact)) in out.iter().zip(expected).enumerate() {
            let factor = [0.5, 1.0, 2.0][column % 12 / 4];
            assert!((f64::from(*got) - exact * factor).abs() < tolerance, "{got} is not {exact} * {factor}");
        }
    }
}

#[test]
fn the_engine_names_the_tensor_that_does_not_fit() {
    let (_, bytes) = model("bert", "", false);
    let (config, _) = model("mpnet", "", false);
    let tensors = TensorMap::from_safetensors([("m", bytes.as_slice())]).unwrap();
    let error = KernelEncoder::new(&config, tensors).unwrap_err();
    assert!(
        matches!(&error, WeightsError::Missing { name, .. } if name.contains("attention.attn.q")),
        "{error}"
    );
}
