//! Attention and its gradients beside the definition, and in bf16 beside single precision.

use super::*;
use crate::random::SplitMix;

const SIZES: [usize; 4] = [2, 5, 12, 3];

fn wave(length: usize, step: f32) -> Vec<f64> {
    (0..length).map(|i| f64::from((i as f32 * step).sin())).collect()
}

fn single(values: &[f64]) -> Vec<f32> {
    values.iter().map(|value| *value as f32).collect()
}

/// Returns every instruction set, with products in single precision and in bf16.
fn ways() -> impl Iterator<Item = (Isa, bool)> {
    Isa::available().into_iter().flat_map(|isa| [false, true].map(|narrow| (isa, narrow)))
}

/// Returns the attention by its definition, in double precision.
fn reference(inputs: [&[f64]; 3], bias: (&[f64], [usize; 4]), mask: &[f64]) -> Vec<f64> {
    let [batch, tokens, hidden, heads] = SIZES;
    let width = hidden / heads;
    let [query, key, value] = inputs;
    let mut out = vec![0f64; query.len()];
    for (row, head, token) in (0..batch)
        .flat_map(|row| (0..heads).flat_map(move |head| (0..tokens).map(move |token| (row, head, token))))
    {
        let place = |token: usize| (row * tokens + token) * hidden + head * width;
        let score = |other: usize| {
            let dot: f64 = (0..width).map(|at| query[place(token) + at] * key[place(other) + at]).sum();
            let index = [row, head, token, other].into_iter().zip(bias.1);
            let index = index.fold(0, |sum, (at, length)| sum * length + if length == 1 { 0 } else { at });
            (dot / (width as f64).sqrt() + bias.0[index]).exp()
        };
        let sum: f64 = (0..tokens).map(score).sum();
        for other in 0..tokens {
            let kept = mask[((row * heads + head) * tokens + token) * tokens + other];
            for at in 0..width {
                out[place(token) + at] += score(other) / sum * kept * value[place(other) + at];
            }
        }
    }
    out
}

fn near(what: &str, most: f64, got: &[f32], expected: &[f64]) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((f64::from(*got) - expected).abs() < most, "{what} at {at}: {got} is not {expected}");
    }
}

/// Returns the gradient of the sum of `output` times `weights`, by central differences.
fn numeric(input: &[f64], weights: &[f64], output: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let loss = |input: &[f64]| output(input).iter().zip(weights).map(|(a, b)| a * b).sum::<f64>();
    let moved = |at: usize, by: f64| {
        let mut input = input.to_vec();
        input[at] += by;
        loss(&input)
    };
    (0..input.len()).map(|at| (moved(at, 1e-5) - moved(at, -1e-5)) / 2e-5).collect()
}

#[test]
fn attention_and_its_gradients_are_those_of_the_definition() {
    let [batch, tokens, hidden, heads] = SIZES;
    let size = batch * tokens * hidden;
    let [query, key, value, gradient] = [0.7, 0.3, 1.1, 0.9].map(|step| wave(size, step));
    let mask: Vec<f64> =
        (0..batch * heads * tokens * tokens).map(|at| if at % 7 == 0 { 0.0 } else { 1.25 }).collect();
    for dims in [[1, 1, 1, 1], [batch, 1, 1, tokens], [1, heads, tokens, tokens], [batch, 1, tokens, 1]] {
        let bias = wave(dims.iter().product(), 1.7);
        let singles = [&query, &key, &value, &gradient, &bias, &mask].map(|values| single(values));
        let attention = Attention {
            query: &singles[0],
            key: &singles[1],
            value: &singles[2],
            bias: Broadcast { values: &singles[4], dims },
            mask: Broadcast { values: &singles[5], dims: [batch, heads, tokens, tokens] },
            batch,
            tokens,
            hidden,
            heads,
            narrow: false,
        };
        let of = |inputs: [&[f64]; 3], bias: &[f64]| reference(inputs, (bias, dims), &mask);
        let output = of([&query, &key, &value], &bias);
        let expected = [
            numeric(&query, &gradient, |x| of([x, &key, &value], &bias)),
            numeric(&key, &gradient, |x| of([&query, x, &value], &bias)),
            numeric(&value, &gradient, |x| of([&query, &key, x], &bias)),
            numeric(&bias, &gradient, |x| of([&query, &key, &value], x)),
        ];
        for (isa, narrow) in ways() {
            let attention = Attention { narrow, ..attention };
            let most = if narrow { 2e-2 } else { 2e-5 };
            near("output", most, &attention.forward_by(isa), &output);
            let got = attention.backward_by(isa, &singles[3], true);
            let got = [got.query, got.key, got.value, got.bias];
            for ((name, got), expected) in ["query", "key", "value", "bias"].iter().zip(&got).zip(&expected) {
                near(&format!("{name} on {isa:?}, narrow: {narrow}"), most, got, expected);
            }
        }
        assert!(attention.backward(&singles[3], false).bias.is_empty());
    }
}

#[test]
fn narrow_products_of_every_size_are_near_those_in_single_precision() {
    for [batch, tokens, hidden, heads] in [[1, 1, 8, 1], [2, 70, 96, 3], [1, 156, 128, 2], [1, 33, 96, 2]] {
        let size = batch * tokens * hidden;
        let mut random = SplitMix::new(tokens as u64);
        let mut normal = |count: usize| -> Vec<f32> { (0..count).map(|_| random.normal() as f32).collect() };
        let [query, key, value, gradient, bias] =
            [size, size, size, size, heads * tokens * tokens].map(&mut normal);
        let mask: Vec<f32> = (0..tokens).map(|at| if at % 7 == 1 { 0.0 } else { 1.25 }).collect();
        let attention = Attention {
            query: &query,
            key: &key,
            value: &value,
            bias: Broadcast { values: &bias, dims: [1, heads, tokens, tokens] },
            mask: Broadcast { values: &mask, dims: [1, 1, 1, tokens] },
            batch,
            tokens,
            hidden,
            heads,
            narrow: false,
        };
        let of = |attention: Attention<'_>, isa| {
            let gradients = attention.backward_by(isa, &gradient, true);
            let Gradients { query, key, value, bias } = gradients;
            [attention.forward_by(isa), query, key, value, bias]
        };
        for isa in Isa::available() {
            let expected = of(attention, isa);
            let got = of(Attention { narrow: true, ..attention }, isa);
            #[cfg(target_arch = "x86_64")]
            assert_eq!(got[0] != expected[0], isa.has_tiles(), "{isa:?}, {tokens} tokens: products in bf16");
            for (at, (got, expected)) in got.iter().zip(&expected).enumerate() {
                let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|x| x * x).sum::<f32>().sqrt();
                let difference = norm(&mut got.iter().zip(expected).map(|(got, expected)| got - expected));
                let share = difference / norm(&mut expected.iter().copied()).max(1e-3);
                assert!(share < 0.01, "{isa:?}, {tokens} tokens: {share} of what has number {at}");
            }
        }
    }
}

#[test]
fn padding_has_no_gradient() {
    let [batch, tokens, hidden, heads] = SIZES;
    let [query, key, value, gradient] =
        [0.7, 0.3, 1.1, 0.9].map(|step| single(&wave(batch * tokens * hidden, step)));
    let is_padding = |token: usize| token + 2 >= tokens;
    let bias: Vec<f32> =
        (0..batch * tokens).map(|at| if is_padding(at % tokens) { -1e4 } else { 0.0 }).collect();
    let attention = Attention {
        query: &query,
        key: &key,
        value: &value,
        bias: Broadcast { values: &bias, dims: [batch, 1, 1, tokens] },
        mask: Broadcast { values: &[1.0], dims: [1; 4] },
        batch,
        tokens,
        hidden,
        heads,
        narrow: false,
    };
    for (isa, narrow) in ways() {
        let got = Attention { narrow, ..attention }.backward_by(isa, &gradient, false);
        for of_keys in [&got.key, &got.value] {
            for (at, row) in of_keys.chunks_exact(hidden).enumerate() {
                // Not even a subnormal number.
                let is_none = row.iter().all(|number| *number == 0.0);
                assert_eq!(is_none, is_padding(at % tokens), "token {at} on {isa:?}: {row:?}");
            }
        }
    }
}

#[test]
fn rows_without_tokens_have_no_attention() {
    let none = Broadcast { values: &[0.0], dims: [1; 4] };
    let attention = Attention {
        query: &[],
        key: &[],
        value: &[],
        bias: none,
        mask: none,
        batch: 2,
        tokens: 0,
        hidden: 12,
        heads: 3,
        narrow: true,
    };
    assert!(attention.forward().is_empty());
    assert!(attention.backward(&[], true).query.is_empty());
}
