//! Inputs of linear layers, in f64 from the states and the weights, in every family.

use std::collections::HashMap;

use super::*;
use crate::config::FeedForward;
use crate::names::{LayerNames, LinearInput};

/// Weights of a file, each as often as it is asked for.
struct Weights<'a> {
    bytes: &'a [u8],
    eps: f64,
}

impl Weights<'_> {
    fn take(&self, name: &str, shape: &[usize]) -> Option<Vec<f32>> {
        let mut tensors = TensorMap::from_safetensors([("m", self.bytes)]).unwrap();
        tensors.take_f32(name, shape).ok()
    }

    /// Returns the outputs of a linear layer of `n` outputs, `[tokens, n]`.
    fn linear(&self, name: &str, inputs: &[f64], n: usize, k: usize) -> Vec<f64> {
        let weight = self.take(&format!("{name}.weight"), &[n, k]).unwrap();
        let bias = self.take(&format!("{name}.bias"), &[n]).unwrap_or(vec![0.0; n]);
        let inputs: Vec<f32> = inputs.iter().map(|input| *input as f32).collect();
        reference(&inputs, &weight, &bias, k)
    }

    /// Returns normalised states, `[tokens, hidden]`.
    fn norm(&self, name: &str, states: &[f64], hidden: usize) -> Vec<f64> {
        let weight = self.take(&format!("{name}.weight"), &[hidden]).unwrap();
        let bias = self.take(&format!("{name}.bias"), &[hidden]).unwrap_or(vec![0.0; hidden]);
        let mut normed = Vec::new();
        for token in states.chunks_exact(hidden) {
            let mean = token.iter().sum::<f64>() / hidden as f64;
            let variance = token.iter().map(|state| (state - mean).powi(2)).sum::<f64>() / hidden as f64;
            let scaled = token.iter().map(|state| (state - mean) / (variance + self.eps).sqrt());
            let numbers = scaled.zip(weight.iter().zip(&bias));
            normed.extend(numbers.map(|(state, (w, b))| state * f64::from(*w) + f64::from(*b)));
        }
        normed
    }
}

/// Returns the inner states that the feed-forward's narrowing layer reads.
fn inner(weights: &Weights<'_>, names: &LayerNames, inputs: &[f64], config: &EncoderConfig) -> Vec<f64> {
    let (hidden, width) = (config.hidden_size, config.intermediate_size);
    let count = names.intermediate.len();
    let outputs = names::widened(config) / count;
    let parts: Vec<Vec<f64>> =
        names.intermediate.iter().map(|name| weights.linear(name, inputs, outputs, hidden)).collect();
    let kind = config.family.feed_forward();
    let active = |value: f64| match kind {
        FeedForward::SwiGlu => value / (1.0 + (-value).exp()),
        FeedForward::Gelu | FeedForward::GeGlu => gelu(value),
    };
    match (kind, parts.as_slice()) {
        (FeedForward::Gelu, [all]) => all.iter().map(|value| active(*value)).collect(),
        (_, [first, second]) => first.iter().zip(second).map(|(a, b)| active(*a) * b).collect(),
        (_, [both]) => {
            let gated = both
                .chunks_exact(2 * width)
                .flat_map(|token| token[..width].iter().zip(&token[width..]).map(|(a, b)| active(*a) * b));
            gated.collect()
        }
        _ => panic!("{count} widening layers"),
    }
}

#[test]
fn linear_layers_read_what_the_states_and_weights_before_them_make() {
    let mean = r#","dpr":{"pooling":"mean","normalize":true,"max_tokens":100}"#;
    let first = r#","projection_dim":10"#;
    for (family, head) in [
        ("bert", mean),
        ("bert", first),
        ("mpnet", mean),
        ("distilbert", mean),
        ("roberta", mean),
        ("modernbert", mean),
        ("modernbert", first),
        ("nomic_bert", mean),
    ] {
        let (config, bytes) = model(family, head, false);
        let (hidden, before) = (config.hidden_size, config.family.is_pre_norm());
        let row = rows().swap_remove(2);
        let encoder = encoder(&config, &bytes, Isa::detect());
        let mut read = HashMap::new();
        encoder.layer_inputs(std::slice::from_ref(&row), |layer, place, inputs| {
            assert!(read.insert((layer, place), inputs.to_vec()).is_none(), "{layer} {place:?} twice");
        });
        assert_eq!(read.len(), 4 * config.num_hidden_layers, "{family}");
        let weights = Weights { bytes: &bytes, eps: config.layer_norm_eps };
        let check = |layer: usize, place: LinearInput, exact: &[f64]| {
            let got = &read[&(layer, place)];
            assert_eq!(got.len(), exact.len(), "{family} {layer} {place:?}");
            let off = exact.iter().zip(got).fold(0f64, |most, (a, b)| most.max((a - f64::from(*b)).abs()));
            assert!(off < 1e-4, "{family} {layer} {place:?}: {off}");
        };
        let wide =
            |numbers: &[f32]| -> Vec<f64> { numbers.iter().map(|number| f64::from(*number)).collect() };
        let add = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a + b).collect() };
        // No family normalises what its first layer reads once more.
        let mut states = wide(&read[&(0, LinearInput::Attention)]);
        for layer in 0..config.num_hidden_layers {
            let names = LayerNames::new(config.family, layer);
            let norm = |name: &str, states: &[f64]| weights.norm(name, states, hidden);
            let inputs = match &names.attention_norm {
                Some(name) if before => norm(name, &states),
                _ => states.clone(),
            };
            check(layer, LinearInput::Attention, &inputs);
            let context = wide(&read[&(layer, LinearInput::AttentionOutput)]);
            // The last layer goes on with the first token's states where these are pooled.
            states.truncate(context.len());
            let is_one = head == first && layer + 1 == config.num_hidden_layers;
            assert_eq!(context.len() / hidden, if is_one { 1 } else { row.len() }, "{family} {layer}");
            let outputs = weights.linear(&names.attention_output, &context, hidden, hidden);
            states = add(&states, &outputs);
            if let (Some(name), false) = (&names.attention_norm, before) {
                states = norm(name, &states);
            }
            let inputs = if before { norm(&names.output_norm, &states) } else { states.clone() };
            check(layer, LinearInput::FeedForward, &inputs);
            let inner = inner(&weights, &names, &inputs, &config);
            check(layer, LinearInput::FeedForwardOutput, &inner);
            states = add(&states, &weights.linear(&names.output, &inner, hidden, config.intermediate_size));
            if !before {
                states = norm(&names.output_norm, &states);
            }
        }
    }
}
