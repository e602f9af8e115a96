//! Random weights, for measurements that need an encoder of a size and not one that finds anything.

use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype, TensorView};

use crate::config::EncoderConfig;
use crate::names;
use crate::random::SplitMix;

/// Standard deviation, as of BERT's matrices before its pre-training (Devlin et al. 2019, as published in their code).
const DEVIATION: f64 = 0.02;

/// Returns a safetensors file of an encoder of `config` in f32, the same for the same seed: matrices and biases are
/// normal with deviation 0.02, the weights of LayerNorms are 1.
///
/// # Errors
/// [`SafeTensorError`] when the file cannot be put together, which no config that was read gives.
pub fn random_weights(config: &EncoderConfig, seed: u64) -> Result<Vec<u8>, SafeTensorError> {
    let mut random = SplitMix::new(seed);
    let mut tensors = Vec::new();
    for (name, shape) in names::tensors(config) {
        let is_scale = shape.len() == 1 && name.ends_with(".weight");
        let number =
            |random: &mut SplitMix| if is_scale { 1.0 } else { (random.normal() * DEVIATION) as f32 };
        let count: usize = shape.iter().product();
        let bytes: Vec<u8> = (0..count).flat_map(|_| number(&mut random).to_le_bytes()).collect();
        tensors.push((name, shape, bytes));
    }
    let mut views = Vec::new();
    for (name, shape, bytes) in &tensors {
        views.push((name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes)?));
    }
    safetensors::serialize(views, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::KernelEncoder;
    use crate::weights::TensorMap;

    #[test]
    fn an_encoder_of_random_weights_loads_and_depends_on_the_seed() {
        let config = EncoderConfig::from_json(
            br#"{"model_type":"bert","hidden_size":32,"num_hidden_layers":2,"num_attention_heads":2,
                "intermediate_size":64,"vocab_size":50,"max_position_embeddings":64}"#,
        )
        .unwrap();
        let vector = |seed: u64| {
            let file = random_weights(&config, seed).unwrap();
            let tensors = TensorMap::from_safetensors([("random", file.as_slice())]).unwrap();
            KernelEncoder::new(&config, tensors).unwrap().forward(&[vec![1, 2, 3]])
        };
        assert_eq!(vector(1), vector(1));
        assert_ne!(vector(1), vector(2));
        assert!(vector(1).iter().all(|x| x.is_finite()));
    }
}
