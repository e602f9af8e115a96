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
