//! Head of the CPU encoder: the states of the tokens into one vector a row, row by row in a fixed order of sums.

use super::super::isa::Isa;
use super::linear::{ConvertedInput, Epilogue, Linear};
use crate::config::{EncoderConfig, Pooling};
use crate::head::{Activation, HeadStep};
use crate::row::Row;

/// Pooling and all that follows it.
#[derive(Debug)]
pub(super) struct Head {
    pooling: Pooling,
    hidden: usize,
    pooler: Option<Linear>,
    steps: Vec<Step>,
    /// Numbers of the head's output, and those of them that are kept.
    width: usize,
    kept: usize,
    /// `encode_proj`.
    projection: Option<Linear>,
    normalize: bool,
}

/// A dense layer and its activation.
#[derive(Debug)]
pub(super) struct Dense {
    pub(super) linear: Linear,
    pub(super) activation: Activation,
}

#[derive(Debug)]
enum Step {
    Dense(Dense),
    Normalize,
}

impl Head {
    /// Puts the head of `config` together from its layers.
    pub(super) fn new(
        config: &EncoderConfig,
        pooler: Option<Linear>,
        dense: Vec<Dense>,
        projection: Option<Linear>,
    ) -> Self {
        let mut dense = dense.into_iter();
        let steps = config.head.iter().filter_map(|step| match step {
            HeadStep::Dense(_) => dense.next().map(Step::Dense),
            HeadStep::Normalize => Some(Step::Normalize),
        });
        Self {
            pooling: config.pooling,
            hidden: config.hidden_size,
            pooler,
            steps: steps.collect(),
            width: config.head_width(),
            kept: config.kept_width(),
            projection,
            normalize: config.normalize,
        }
    }

    /// Returns the pooled states `[rows, hidden]` of the tokens' last states `[tokens, hidden]`.
    pub(super) fn pool(&self, rows: &[Row<'_>], states: &[f32]) -> Vec<f32> {
        let mut pooled = Vec::with_capacity(rows.len() * self.hidden);
        let mut rest = states;
        for row in rows {
            let (tokens, after) = rest.split_at(row.len() * self.hidden);
            pool(self.pooling, tokens, self.hidden, &mut pooled);
            rest = after;
        }
        pooled
    }

    /// Appends the vectors `[count, dim]` of `pooled` states `[count, hidden]` to `vectors`.
    pub(super) fn apply(
        &self,
        isa: Isa,
        count: usize,
        pooled: Vec<f32>,
        scratch: &mut ConvertedInput,
        vectors: &mut Vec<f32>,
    ) {
        let mut now = pooled;
        let mut linear = |layer: &Linear, activation: Activation, now: &mut Vec<f32>| {
            let mut out = vec![0.0; count * layer.n()];
            let gelu = activation == Activation::Gelu;
            let epilogue = if gelu { Epilogue::Gelu } else { Epilogue::Store };
            layer.apply(isa, now, count, epilogue, scratch, &mut out);
            activate(activation, &mut out);
            *now = out;
        };
        if let Some(pooler) = &self.pooler {
            linear(pooler, Activation::Tanh, &mut now);
        }
        for step in &self.steps {
            match step {
                Step::Dense(dense) => linear(&dense.linear, dense.activation, &mut now),
                Step::Normalize => {
                    let width = now.len() / count.max(1);
                    now.chunks_exact_mut(width.max(1)).for_each(unit_length);
                }
            }
        }
        if self.kept < self.width {
            now = now.chunks_exact(self.width).flat_map(|row| &row[..self.kept]).copied().collect();
        }
        if let Some(projection) = &self.projection {
            linear(projection, Activation::Identity, &mut now);
        }
        if self.normalize {
            let width = now.len() / count.max(1);
            now.chunks_exact_mut(width.max(1)).for_each(unit_length);
        }
        vectors.extend_from_slice(&now);
    }
}

/// Appends the pooled states of one row's `tokens` `[tokens, hidden]` to `pooled`.
fn pool(pooling: Pooling, tokens: &[f32], hidden: usize, pooled: &mut Vec<f32>) {
    let start = pooled.len();
    let count = tokens.len() / hidden;
    if pooling == Pooling::LastToken {
        pooled.extend_from_slice(&tokens[(count - 1) * hidden..]);
        return;
    }
    pooled.extend_from_slice(&tokens[..hidden]);
    let out = &mut pooled[start..];
    let others = || tokens.chunks_exact(hidden).enumerate().skip(1);
    match pooling {
        Pooling::Cls | Pooling::Pooler | Pooling::LastToken => {}
        Pooling::Mean | Pooling::MeanSqrtLen => {
            for (_, token) in others() {
                out.iter_mut().zip(token).for_each(|(sum, x)| *sum += x);
            }
            let count = count as f32;
            let by = if pooling == Pooling::Mean { count } else { count.sqrt() };
            out.iter_mut().for_each(|sum| *sum /= by);
        }
        Pooling::WeightedMean => {
            for (position, token) in others() {
                let weight = (position + 1) as f32;
                out.iter_mut().zip(token).for_each(|(sum, x)| *sum += x * weight);
            }
            let weights = (count * (count + 1) / 2) as f32;
            out.iter_mut().for_each(|sum| *sum /= weights);
        }
        Pooling::Max => {
            for (_, token) in others() {
                out.iter_mut().zip(token).for_each(|(most, x)| {
                    // A NaN stays, and is refused with the vector.
                    if x.is_nan() || *x > *most {
                        *most = *x;
                    }
                });
            }
        }
    }
}

/// Applies an activation to each number; GELU is applied by the layer before it.
fn activate(activation: Activation, values: &mut [f32]) {
    match activation {
        Activation::Identity | Activation::Gelu => {}
        Activation::Tanh => values.iter_mut().for_each(|x| *x = x.tanh()),
        Activation::Relu => values.iter_mut().for_each(|x| *x = if *x < 0.0 { 0.0 } else { *x }),
        Activation::Sigmoid => values.iter_mut().for_each(|x| *x = 1.0 / (1.0 + (-*x).exp())),
    }
}

/// Scales a vector to length 1; one of zeros stays so.
fn unit_length(vector: &mut [f32]) {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-12);
    vector.iter_mut().for_each(|x| *x /= length);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_number_is_in_the_vector_after_every_pooling_that_reads_it() {
        for pooling in [
            Pooling::Cls,
            Pooling::Pooler,
            Pooling::Mean,
            Pooling::MeanSqrtLen,
            Pooling::WeightedMean,
            Pooling::Max,
            Pooling::LastToken,
        ] {
            for token in 0..3 {
                let mut tokens = [1.0, -1.0, 0.5, 2.0, 3.0, -4.0];
                tokens[2 * token] = f32::NAN;
                let mut pooled = Vec::new();
                pool(pooling, &tokens, 2, &mut pooled);
                let is_read = match pooling {
                    Pooling::Cls | Pooling::Pooler => token == 0,
                    Pooling::LastToken => token == 2,
                    _ => true,
                };
                assert_eq!(pooled[0].is_nan(), is_read, "{pooling:?} of token {token}");
                assert!(pooled[1].is_finite(), "{pooling:?} of token {token}");
            }
        }
    }

    #[test]
    fn what_is_not_a_number_stays_so_after_every_activation() {
        for (activation, of_negative) in [
            (Activation::Identity, -2.0),
            (Activation::Gelu, -2.0),
            (Activation::Tanh, f32::tanh(-2.0)),
            (Activation::Relu, 0.0),
            (Activation::Sigmoid, 1.0 / (1.0 + f32::exp(2.0))),
        ] {
            let mut values = [f32::NAN, -2.0];
            activate(activation, &mut values);
            assert!(values[0].is_nan(), "{activation:?}");
            assert_eq!(values[1], of_negative, "{activation:?}");
        }
    }
}
