//! Pruning: a model's question encoder with fewer layers, feed-forward units, tokens and positions, from which
//! distillation starts.

mod units;

use std::path::Path;

use dpr_core::weights::StoredTensor;
use dpr_core::{EncoderConfig, Family, ModelManifest, TensorMap, names};
use serde_json::{Value, json};

use super::json::with_section;
use super::vocabulary::Pruned;
use super::{ImportOptions, ModelDir, ModelError, QUESTION_DIR, Vocabulary, import, target, weights};
use dpr_files::atomic::StagedDir;

/// Fields of a `config.json` that say how many layers there are, one for each way to write them.
const LAYERS: [&str; 3] = ["num_hidden_layers", "n_layers", "n_layer"];

/// Fields of a `config.json` that say how wide the feed-forward layers are inside.
const UNITS: [&str; 3] = ["intermediate_size", "hidden_dim", "n_inner"];

/// The parts that [`shrink`] keeps; the default keeps all.
#[derive(Default)]
pub struct ShrinkOptions<'a> {
    /// Layers of the transformer, spread evenly over all, the first one included and with two or more the last one.
    pub layers: Option<usize>,
    /// Units of each feed-forward layer (`intermediate_size`): those with the greatest product of two norms, of the
    /// weights that lead into a unit and of those that lead out of it.
    pub units: Option<usize>,
    /// The vocabulary that is kept.
    pub vocabulary: Option<&'a Vocabulary>,
    /// Tokens that a text is cut to. Position embeddings behind these are left out.
    pub max_tokens: Option<usize>,
    /// A name for people; by default the model's.
    pub name: Option<String>,
    /// Replace an output directory that exists.
    pub force: bool,
}

/// Writes the question encoder of `model`, less what `options` leave out, as the model directory `out`, as one encoder
/// for questions and passages. Its vectors are not those of `model`, nor near them, until it is distilled.
///
/// # Errors
/// [`ModelError`] names the directory and what does not fit: more layers, units or positions than there are, or an
/// encoder whose layers are of several kinds. `out` is then unchanged.
pub fn shrink(
    model: &ModelDir,
    out: &Path,
    options: &ShrinkOptions<'_>,
) -> Result<ModelManifest, ModelError> {
    target::check(out, options.force, &[model.path()])?;
    let dir = model.path().join(QUESTION_DIR);
    let config = model.config(QUESTION_DIR)?;
    let whole = EncoderConfig::from_json(&config).map_err(ModelError::in_dir(&dir))?;
    let layers = kept_layers(&whole, options.layers, &dir)?;
    let units = units::kept(&whole, options.units, &dir)?;
    let Pruned { config, tokenizer, rows } = match options.vocabulary {
        Some(vocabulary) => vocabulary.prune(&config)?,
        None => Pruned {
            config: config.into_owned(),
            tokenizer: fs_err::read(dir.join("tokenizer.json"))?,
            rows: (0..whole.vocab_size as u32).collect(),
        },
    };
    let manifest = model.manifest();
    let max_tokens = options.max_tokens.unwrap_or(manifest.max_question_tokens);
    let config = smaller_config(&config, &whole, (layers.len(), units), options.max_tokens, &dir)?;
    let smaller = EncoderConfig::from_json(&config).map_err(ModelError::in_dir(&dir))?;
    let tensors = tensors(&dir, &whole, &smaller, &layers, &rows)?;

    // A staging directory that is not put in place is removed when it is dropped.
    let files = StagedDir::beside(out)?;
    fs_err::write(files.path().join("config.json"), config)?;
    fs_err::write(files.path().join("tokenizer.json"), tokenizer)?;
    let weights = weights::safetensors(&tensors, &str::to_owned)?;
    fs_err::write(files.path().join("model.safetensors"), weights)?;
    let imported = ImportOptions {
        name: Some(options.name.clone().unwrap_or_else(|| manifest.name.clone())),
        similarity: Some(manifest.similarity),
        matryoshka: manifest.matryoshka,
        max_question_tokens: Some(max_tokens),
        max_passage_tokens: Some(max_tokens),
        force: options.force,
        ..ImportOptions::default()
    };
    import(files.path(), None, out, &imported)
}

/// Returns the layers that are kept, ascending.
fn kept_layers(config: &EncoderConfig, keep: Option<usize>, dir: &Path) -> Result<Vec<usize>, ModelError> {
    let has = config.num_hidden_layers;
    let keep = keep.unwrap_or(has);
    if !(1..=has).contains(&keep) {
        return Err(ModelError::Layers { dir: dir.into(), asked: keep, has });
    }
    // ModernBERT's first layer has no norm, and its layers take turns between two kinds of attention.
    if keep < has && config.family == Family::Modernbert {
        return Err(ModelError::UnlikeLayers(dir.into()));
    }
    let steps = (keep - 1).max(1);
    Ok((0..keep).map(|place| (place * (has - 1) + steps / 2) / steps).collect())
}

/// Returns the `config.json` with so many layers, so many units in each, and positions for `max_tokens` tokens.
fn smaller_config(
    config: &[u8],
    whole: &EncoderConfig,
    (layers, units): (usize, usize),
    max_tokens: Option<usize>,
    dir: &Path,
) -> Result<Vec<u8>, ModelError> {
    let mut json: Value = serde_json::from_slice(config).map_err(std::io::Error::other)?;
    for (fields, number) in [(LAYERS, layers), (UNITS, units)] {
        for field in fields {
            if json.get(field).is_some() {
                json[field] = json!(number);
            }
        }
    }
    if let Some(max_tokens) = max_tokens {
        let limit = whole.position_limit();
        if !(4..=limit).contains(&max_tokens) {
            let what = "the limit of a question";
            return Err(ModelError::Tokens { what, got: max_tokens, dir: dir.into(), limit });
        }
        if names::OuterNames::new(whole.family).positions.is_some() {
            json["max_position_embeddings"] = json!(whole.position_offset() + max_tokens);
        }
        json = with_section(json, &EncoderConfig { max_tokens, ..whole.clone() });
    }
    Ok(serde_json::to_vec_pretty(&json).map_err(std::io::Error::other)?)
}

/// Returns the tensors of the encoder `smaller`, a part of those in `dir`: the layers `layers`, and the rows `rows` of
/// the word embedding.
fn tensors(
    dir: &Path,
    whole: &EncoderConfig,
    smaller: &EncoderConfig,
    layers: &[usize],
    rows: &[u32],
) -> Result<Vec<StoredTensor>, ModelError> {
    let bytes = fs_err::read(dir.join("model.safetensors"))?;
    let mut stored = TensorMap::from_safetensors([("model.safetensors", bytes.as_slice())])
        .map_err(ModelError::in_dir(dir))?;
    drop(bytes);
    let outer = names::OuterNames::new(whole.family);
    let [words, positions] = [Some(outer.words), outer.positions].map(|name| name.map(weight_of));
    let all_units = EncoderConfig { num_hidden_layers: layers.len(), ..whole.clone() };
    let mut tensors = Vec::new();
    for (name, mut shape) in names::tensors(&all_units) {
        let source = of_layer(&name, layers);
        let mut values = stored.take_f32(&source, &shape).map_err(ModelError::in_dir(dir))?;
        if Some(&name) == words.as_ref() {
            let width = shape[1];
            values = rows.iter().flat_map(|row| &values[*row as usize * width..][..width]).copied().collect();
            shape[0] = rows.len();
        } else if Some(&name) == positions.as_ref() {
            shape[0] = smaller.max_position_embeddings;
            values.truncate(shape.iter().product());
        }
        tensors.push((name, shape, values));
    }
    if smaller.intermediate_size < whole.intermediate_size {
        units::prune(&mut tensors, &all_units, smaller.intermediate_size);
    }
    Ok(tensors)
}

fn weight_of(layer: &str) -> String {
    format!("{layer}.weight")
}

/// Returns the name that a tensor of the smaller encoder has in the whole one.
fn of_layer(name: &str, layers: &[usize]) -> String {
    let mut parts: Vec<String> = name.split('.').map(str::to_owned).collect();
    let place = parts.iter().position(|part| part == "layer" || part == "layers");
    if let Some(number) = place.and_then(|place| parts.get_mut(place + 1))
        && let Some(layer) = number.parse::<usize>().ok().and_then(|index| layers.get(index))
    {
        *number = layer.to_string();
    }
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_spread_from_the_first_to_the_last() {
        let json = r#"{"model_type":"bert","hidden_size":32,"num_hidden_layers":6,"num_attention_heads":4,
            "intermediate_size":64,"vocab_size":100,"max_position_embeddings":32}"#;
        let config = EncoderConfig::from_json(json.as_bytes()).unwrap();
        let kept = |keep| kept_layers(&config, keep, Path::new("model"));
        assert_eq!(kept(None).unwrap(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(kept(Some(3)).unwrap(), [0, 3, 5]);
        assert_eq!(kept(Some(4)).unwrap(), [0, 2, 3, 5]);
        assert_eq!(kept(Some(2)).unwrap(), [0, 5]);
        assert_eq!(kept(Some(1)).unwrap(), [0]);
        for wrong in [0, 7] {
            let error = kept(Some(wrong)).unwrap_err().to_string();
            assert!(error.contains("model") && error.contains("from 1 to 6"), "{error}");
        }
        assert_eq!(
            of_layer("encoder.layer.1.output.dense.weight", &[0, 3, 5]),
            "encoder.layer.3.output.dense.weight"
        );
        assert_eq!(
            of_layer("embeddings.word_embeddings.weight", &[0, 3, 5]),
            "embeddings.word_embeddings.weight"
        );
    }
}
