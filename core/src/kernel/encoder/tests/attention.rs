//! Attention beside its definition in double precision.

use super::super::attention::{Attention, AttentionScratch, RelativeBias};
use super::*;
use crate::relative::bucket;

/// Sizes of one attention.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    tokens: usize,
    queries: usize,
    heads: usize,
    width: usize,
    window: Option<usize>,
}

/// Returns queries, keys and values `[tokens, 3 * hidden]`.
fn inputs(sizes: Sizes) -> Vec<f32> {
    Numbers(sizes.tokens as u64).take(sizes.tokens * 3 * sizes.heads * sizes.width)
}

/// Returns the attention `[queries, hidden]` by its definition; `bias` is of a head and of the key's position less the
/// query's.
fn reference(qkv: &[f32], sizes: Sizes, bias: impl Fn(usize, i64) -> f64) -> Vec<f64> {
    let Sizes { tokens, queries, heads, width, window } = sizes;
    let at = |token: usize, part: usize, head: usize, i: usize| {
        f64::from(qkv[(token * 3 + part) * heads * width + head * width + i])
    };
    let mut out = Vec::new();
    for query in 0..queries {
        for head in 0..heads {
            let seen = (0..tokens).filter(|key| key.abs_diff(query) <= window.unwrap_or(tokens));
            let weights: Vec<(usize, f64)> = seen
                .map(|key| {
                    let dot: f64 = (0..width).map(|i| at(query, 0, head, i) * at(key, 1, head, i)).sum();
                    (key, (dot + bias(head, key as i64 - query as i64)).exp())
                })
                .collect();
            let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
            out.extend((0..width).map(|i| {
                weights.iter().map(|(key, weight)| weight / sum * at(*key, 2, head, i)).sum::<f64>()
            }));
        }
    }
    out
}

/// Returns whether the set has products in bf16; says so where it has not.
fn has_bf16(isa: Isa) -> bool {
    #[cfg(target_arch = "x86_64")]
    if isa.has_bf16() {
        return true;
    }
    println!("{isa:?}: no products in bf16, so that attention is in single precision in every precision");
    false
}

#[test]
fn an_encoder_takes_narrow_products_in_attention_where_its_layers_do() {
    let (config, bytes) = model("bert", "", false);
    for (precision, narrow) in [(Precision::F32, false), (Precision::Bf16, true), (Precision::Int8, true)] {
        let tensors = TensorMap::from_safetensors([("model", bytes.as_slice())]).unwrap();
        let encoder = load::encoder(&config, tensors, Isa::detect(), 1, precision).unwrap();
        assert_eq!(encoder.narrow, narrow, "{precision:?}");
    }
}

fn attend(
    isa: Isa,
    narrow: bool,
    qkv: &[f32],
    sizes: Sizes,
    relative: Option<&RelativeBias>,
    scratch: &mut AttentionScratch,
) -> Vec<f32> {
    let Sizes { tokens, queries, heads, width, window } = sizes;
    let mut out = vec![f32::NAN; queries * heads * width];
    let attention =
        Attention { qkv, tokens, queries, heads, width, relative, window, scratch, out: &mut out };
    attention.apply(isa, narrow);
    out
}

#[test]
fn attention_is_that_of_the_definition_in_every_precision() {
    let sizes = |tokens, queries, heads, width, window| Sizes { tokens, queries, heads, width, window };
    let all = [
        sizes(1, 1, 2, 32, None),
        sizes(150, 150, 2, 32, None),
        sizes(33, 33, 3, 64, None),
        sizes(17, 1, 2, 12, None),
        sizes(40, 40, 1, 80, None),
        sizes(200, 200, 2, 16, Some(64)),
        sizes(70, 70, 2, 32, Some(3)),
        sizes(96, 96, 1, 48, Some(31)),
        sizes(5, 5, 2, 7, Some(0)),
        sizes(16, 16, 2, 32, None),
        sizes(17, 17, 2, 7, Some(0)),
        sizes(150, 33, 2, 24, Some(40)),
        sizes(129, 129, 1, 32, Some(31)),
    ];
    let buckets = 32;
    for isa in Isa::available() {
        // Each uses the buffers of those before it, in which numbers of other texts are.
        let mut scratch = AttentionScratch::default();
        for sizes in all {
            let qkv = inputs(sizes);
            let weights = Numbers(9).take(buckets * sizes.heads);
            let relative = sizes.window.is_none().then(|| RelativeBias::new(&weights, sizes.heads, 512));
            let bias = |head: usize, distance: i64| match relative {
                Some(_) => f64::from(weights[bucket(distance, buckets) * sizes.heads + head]),
                None => 0.0,
            };
            let expected = reference(&qkv, sizes, bias);
            let [wide, narrow] =
                [false, true].map(|narrow| attend(isa, narrow, &qkv, sizes, relative.as_ref(), &mut scratch));
            // A short text's products are in single precision everywhere.
            let in_bf16 = has_bf16(isa) && sizes.tokens > 16;
            assert_eq!(wide != narrow, in_bf16, "{isa:?} {sizes:?}: products in bf16");
            for (narrow, got, most) in [(false, wide, 1e-5), (true, narrow, 1.5e-2)] {
                for (at, (got, expected)) in got.iter().zip(&expected).enumerate() {
                    let difference = (f64::from(*got) - expected).abs();
                    assert!(difference < most, "{isa:?} {sizes:?} {narrow}: {got} for {expected} at {at}");
                }
            }
        }
    }
}

#[test]
fn a_key_that_a_token_does_not_see_changes_nothing_even_if_it_is_not_finite() {
    let sizes = Sizes { tokens: 100, queries: 100, heads: 2, width: 32, window: Some(10) };
    let hidden = 64;
    for (isa, narrow) in Isa::available().into_iter().flat_map(|isa| [false, true].map(|n| (isa, n))) {
        let mut qkv = inputs(sizes);
        let before = attend(isa, narrow, &qkv, sizes, None, &mut AttentionScratch::default());
        // The key of token 50, in the first head.
        qkv[(50 * 3 + 1) * hidden] = f32::INFINITY;
        let after = attend(isa, narrow, &qkv, sizes, None, &mut AttentionScratch::default());
        for token in (0..40).chain(61..100) {
            let of = |all: &[f32]| all[token * hidden..][..hidden].to_vec();
            assert_eq!(of(&before), of(&after), "{isa:?} {narrow}: token {token}");
        }
        let of_head = |all: &[f32], head: usize| all[50 * hidden + 32 * head..][..32].to_vec();
        assert_ne!(of_head(&before, 0), of_head(&after, 0), "{isa:?} {narrow}");
        assert_eq!(of_head(&before, 1), of_head(&after, 1), "{isa:?} {narrow}: the other head");
    }
}
