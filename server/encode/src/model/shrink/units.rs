//! Feed-forward units: which of a layer's are kept, and the weights into and out of them.

use std::path::Path;

use dpr_core::EncoderConfig;
use dpr_core::names::LayerNames;
use dpr_core::weights::StoredTensor;

use crate::model::ModelError;

/// Returns the number of units that each layer keeps, of all when `asked` names none.
pub(super) fn kept(config: &EncoderConfig, asked: Option<usize>, dir: &Path) -> Result<usize, ModelError> {
    let has = config.intermediate_size;
    match asked.unwrap_or(has) {
        keep if (1..=has).contains(&keep) => Ok(keep),
        asked => Err(ModelError::Units { dir: dir.into(), asked, has }),
    }
}

/// Cuts the feed-forward layers in the `tensors` of `config` to `keep` units each, those that weigh most.
pub(super) fn prune(tensors: &mut [StoredTensor], config: &EncoderConfig, keep: usize) {
    let units = config.intermediate_size;
    for layer in 0..config.num_hidden_layers {
        let names = LayerNames::new(config.family, layer);
        let kept = greatest(&importance(tensors, &names, units), keep);
        for (name, shape, values) in tensors.iter_mut() {
            let Some((module, _)) = name.rsplit_once('.') else { continue };
            if names.intermediate.iter().any(|name| name == module) {
                let width = shape.get(1).copied().unwrap_or(1);
                let rows = values.len() / width;
                // One module of a gated layer has the units of both parts, one part behind the other.
                let parts =
                    (0..rows / units).flat_map(|part| kept.iter().map(move |unit| part * units + unit));
                *values = parts.flat_map(|row| &values[row * width..][..width]).copied().collect();
                shape[0] = values.len() / width;
            } else if module == names.output && shape.len() == 2 {
                *values =
                    values.chunks_exact(units).flat_map(|row| kept.iter().map(|unit| row[*unit])).collect();
                shape[1] = keep;
            }
        }
    }
}

/// Returns the importance of each unit of a layer: the norm of the weights into it times the norm of those out of it.
fn importance(tensors: &[StoredTensor], names: &LayerNames, units: usize) -> Vec<f64> {
    let mut into = vec![0.0; units];
    let mut out_of = vec![0.0; units];
    for (name, shape, values) in tensors {
        let Some(module) = name.strip_suffix(".weight") else { continue };
        if names.intermediate.iter().any(|name| name == module) {
            for (row, weights) in values.chunks_exact(shape[1]).enumerate() {
                into[row % units] += weights.iter().map(|weight| f64::from(*weight).powi(2)).sum::<f64>();
            }
        } else if module == names.output {
            for row in values.chunks_exact(units) {
                out_of.iter_mut().zip(row).for_each(|(sum, weight)| *sum += f64::from(*weight).powi(2));
            }
        }
    }
    into.iter().zip(&out_of).map(|(into, out_of)| (into * out_of).sqrt()).collect()
}

/// Returns the places of the `keep` greatest numbers, ascending; the first of equal ones.
fn greatest(importance: &[f64], keep: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..importance.len()).collect();
    places.sort_by(|a, b| importance[*b].total_cmp(&importance[*a]));
    places.truncate(keep);
    places.sort_unstable();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_counts_by_the_product_of_the_norms_of_its_weights() {
        let json = r#"{"model_type":"bert","hidden_size":2,"num_hidden_layers":1,"num_attention_heads":1,
            "intermediate_size":3,"vocab_size":100,"max_position_embeddings":32}"#;
        let config = EncoderConfig::from_json(json.as_bytes()).unwrap();
        let names = LayerNames::new(config.family, 0);
        let (into, out_of) = (&names.intermediate[0], &names.output);
        // The unit with the greatest weights into it has nearly none out of it.
        let mut tensors = vec![
            (format!("{into}.weight"), vec![3, 2], vec![10.0, 0.0, 0.0, 2.0, 1.0, 0.0]),
            (format!("{into}.bias"), vec![3], vec![0.1, 0.2, 0.3]),
            (format!("{out_of}.weight"), vec![2, 3], vec![0.0, 2.0, 0.0, 0.1, 0.0, 3.0]),
            (format!("{out_of}.bias"), vec![2], vec![7.0, 8.0]),
        ];
        for (got, expected) in importance(&tensors, &names, 3).iter().zip([1.0, 4.0, 3.0]) {
            assert!((got - expected).abs() < 1e-6, "{got} is not {expected}");
        }
        prune(&mut tensors, &config, 2);
        let expected = [
            (vec![2, 2], vec![0.0, 2.0, 1.0, 0.0]),
            (vec![2], vec![0.2, 0.3]),
            (vec![2, 2], vec![2.0, 0.0, 0.0, 3.0]),
            (vec![2], vec![7.0, 8.0]),
        ];
        let got = tensors.into_iter().map(|(_, shape, values)| (shape, values));
        assert_eq!(got.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn of_equal_units_the_first_are_kept() {
        assert_eq!(greatest(&[1.0, 3.0, 1.0, 2.0, 1.0], 4), [0, 1, 2, 3]);
        assert_eq!(greatest(&[1.0; 3], 2), [0, 1]);
    }
}
