//! Hessians of a question encoder's linear layers, by which their weights are rounded to 4 bits.

use std::collections::HashMap;
use std::sync::Arc;

use dpr_core::kernel::KernelEncoder;
use dpr_core::names::{LayerNames, LinearInput};
use dpr_core::weights::{FourBits, GROUP, HessianFactor, fits_groups, quantize_groups_for};
use dpr_core::{EncoderConfig, TensorMap, TextTokenizer};
use dpr_files::progress::Progress;
use nalgebra::{DMatrix, DMatrixView, Dyn};
use rayon::prelude::*;

use super::{ModelDir, ModelError, QUESTION_DIR};

/// Questions that are encoded, at most.
const QUESTIONS: usize = 4096;

/// Tokens whose inputs are in memory at once.
const TOKENS: usize = 1024;

/// Rows of a matrix that one thread rounds at a time.
const ROWS: usize = 16;

/// Ridge on the diagonal as a share of its mean, GPTQ's `percdamp`: inputs may depend on each other, or be fewer than
/// their width.
const RIDGE: f64 = 0.01;

/// For each linear layer of a question encoder, by the name of its weight, its Hessian.
pub(super) struct Calibration {
    hessians: HashMap<String, Arc<HessianFactor>>,
    questions: usize,
}

/// Sums of the products of a layer's inputs, `[width, width]`.
struct Moments {
    sums: DMatrix<f32>,
    tokens: usize,
}

impl Calibration {
    /// Returns the Hessians of the question encoder with these weights over the questions: over all of them, or over
    /// [`QUESTIONS`] at even distances. Questions without a token are left out. Works on all cores.
    ///
    /// # Errors
    /// [`ModelError`] when a file does not fit the others or a question cannot be cut into tokens, and
    /// [`ModelError::Calibration`] for fewer tokens than the widest layer has inputs, layers of which none is stored in
    /// 4 bits, and inputs that are too large.
    pub(super) fn of(
        model: &ModelDir,
        config: &EncoderConfig,
        weights: &[u8],
        questions: &[String],
        progress: &dyn Progress,
    ) -> Result<Self, ModelError> {
        let dir = model.path().join(QUESTION_DIR);
        let failed = |reason: String| ModelError::Calibration { dir: dir.clone(), reason };
        let tensors = TensorMap::from_safetensors([("model.safetensors", weights)]);
        let tensors = tensors.map_err(ModelError::in_dir(&dir))?;
        let encoder = KernelEncoder::new(config, tensors).map_err(ModelError::in_dir(&dir))?;
        let max_tokens = model.manifest().max_question_tokens.clamp(4, config.position_limit());
        let config = EncoderConfig { max_tokens, ..config.clone() };
        let tokenizer = TextTokenizer::from_json(&fs_err::read(dir.join("tokenizer.json"))?, &config)
            .map_err(ModelError::in_dir(&dir))?;
        let rows =
            drawn(questions).map(|question| tokenizer.question(question)).collect::<Result<Vec<_>, _>>();
        let mut rows = rows.map_err(ModelError::in_dir(&dir))?;
        rows.retain(|row| !row.is_empty());
        let (tokens, least) = (rows.iter().map(Vec::len).sum::<usize>(), config.intermediate_size);
        if tokens < least {
            return Err(failed(format!(
                "the questions have {tokens} tokens, and its widest layer {least} inputs: give more questions"
            )));
        }
        if ![config.hidden_size, config.intermediate_size].into_iter().any(fits_groups) {
            return Err(failed(format!(
                "neither its {} states nor its {} inner units are whole groups of {GROUP}, so that its layers are \
                 in 8 bits: leave the calibration out",
                config.hidden_size, config.intermediate_size
            )));
        }

        progress.start("calibrating with", "questions", rows.len() as u64);
        let moments = moments(&encoder, &rows, progress);
        drop(encoder);
        progress.start("factoring", "Hessians", moments.len() as u64);
        let hessians = moments.into_par_iter().map(|((layer, input), moments)| {
            let names = LayerNames::new(config.family, layer);
            let hessian = moments.hessian().ok_or_else(|| {
                let name = names.reading(input).first().map_or("a layer", String::as_str);
                failed(format!(
                    "squares of what {name} reads are too large for single precision: leave the calibration out"
                ))
            })?;
            progress.advance(1);
            let hessian = Arc::new(hessian);
            let weights = names.reading(input).iter().map(|name| format!("{name}.weight"));
            Ok(weights.map(|name| (name, hessian.clone())).collect::<Vec<_>>())
        });
        let hessians: Result<Vec<_>, ModelError> = hessians.collect();
        progress.finish();
        Ok(Self { hessians: hessians?.into_iter().flatten().collect(), questions: rows.len() })
    }

    /// Returns the number of questions that were encoded.
    pub(super) fn questions(&self) -> usize {
        self.questions
    }

    /// Returns the number of matrices that [`Calibration::rounded`] rounds.
    pub(super) fn matrices(&self) -> usize {
        self.hessians.len()
    }

    /// Returns whether the matrix `name` is one of them.
    pub(super) fn has(&self, name: &str) -> bool {
        self.hessians.contains_key(name)
    }

    /// Returns the matrix `name`, `[rows, columns]`, rounded for its layer's inputs, on all cores; `None` where it is
    /// not a linear layer of the transformer in 4 bits.
    pub(super) fn rounded(&self, name: &str, values: &[f32]) -> Option<FourBits> {
        let hessian = self.hessians.get(name)?;
        let parts: Option<Vec<FourBits>> = values
            .par_chunks(ROWS * hessian.inputs())
            .map(|rows| quantize_groups_for(rows, hessian))
            .collect();
        let mut whole = FourBits { codes: Vec::new(), steps: Vec::new(), scales: Vec::new() };
        for part in parts? {
            whole.codes.extend(part.codes);
            whole.steps.extend(part.steps);
            whole.scales.extend(part.scales);
        }
        Some(whole)
    }
}

/// Returns [`QUESTIONS`] of the questions at even distances, or all of them where they are fewer.
fn drawn(questions: &[String]) -> impl Iterator<Item = &String> {
    let count = questions.len().min(QUESTIONS);
    (0..count).map(move |at| &questions[at * questions.len() / count])
}

/// Returns the moments of the inputs of every layer that 4 bits hold, over the rows.
fn moments(
    encoder: &KernelEncoder,
    mut rows: &[Vec<u32>],
    progress: &dyn Progress,
) -> HashMap<(usize, LinearInput), Moments> {
    let mut moments: HashMap<_, Moments> = HashMap::new();
    while !rows.is_empty() {
        let mut tokens = 0;
        let fit = rows.iter().take_while(|row| {
            tokens += row.len();
            tokens <= TOKENS
        });
        let (group, rest) = rows.split_at(fit.count().max(1));
        rows = rest;
        let read: Vec<Vec<_>> = group.par_iter().map(|row| inputs(encoder, row)).collect();
        // Rows one after the other, so that sums do not depend on the threads.
        let mut together: HashMap<(usize, LinearInput), Vec<f32>> = HashMap::new();
        for (place, inputs) in read.into_iter().flatten() {
            together.entry(place).or_default().extend(inputs);
        }
        for place in together.keys() {
            moments.entry(*place).or_insert_with(|| Moments::new(encoder.input_width(place.1)));
        }
        moments.par_iter_mut().for_each(|(place, moments)| moments.add(&together[place]));
        progress.advance(group.len() as u64);
    }
    moments
}

/// Returns the inputs of every layer that 4 bits hold, for one row of tokens, `[tokens, width]` each.
fn inputs(encoder: &KernelEncoder, row: &[u32]) -> Vec<((usize, LinearInput), Vec<f32>)> {
    let mut inputs = Vec::new();
    encoder.layer_inputs(&[row.to_vec()], |layer, place, read| {
        if fits_groups(encoder.input_width(place)) {
            inputs.push(((layer, place), read.to_vec()));
        }
    });
    inputs
}

impl Moments {
    /// Returns no inputs yet, of this width.
    fn new(width: usize) -> Self {
        Self { sums: DMatrix::zeros(width, width), tokens: 0 }
    }

    /// Adds the products of inputs `[tokens, width]`.
    fn add(&mut self, inputs: &[f32]) {
        let width = self.sums.nrows();
        // nalgebra's columns are contiguous: a column is a token.
        let columns = DMatrixView::from_slice_generic(inputs, Dyn(width), Dyn(inputs.len() / width));
        self.sums.gemm(1.0, &columns, &columns.transpose(), 1.0);
        self.tokens += columns.ncols();
    }

    /// Returns the Hessian of these inputs. Weights of inputs with large second moments are rounded first, as in GPTQ's
    /// `act-order`. `None` where the sums are not finite.
    fn hessian(&self) -> Option<HessianFactor> {
        let width = self.sums.nrows();
        let tokens = self.tokens as f64;
        let mean = self.sums.diagonal().iter().map(|sum| f64::from(*sum)).sum::<f64>() / width as f64;
        // Inputs that are all 0 are rounded as if they were alike.
        let ridge = if mean > 0.0 { RIDGE * mean } else { tokens };
        let sums = self.sums.diagonal();
        let diagonal: Vec<f32> = sums.iter().map(|sum| ((f64::from(*sum) + ridge) / tokens) as f32).collect();
        let mut order: Vec<usize> = (0..width).collect();
        order.sort_by(|a, b| diagonal[*b].total_cmp(&diagonal[*a]));
        let input = |place: usize| order[width - 1 - place];
        let reversed = DMatrix::from_fn(width, width, |row, column| {
            let sum = f64::from(self.sums[(input(row), input(column))]);
            if row == column { sum + ridge } else { sum }
        });
        let lower = reversed.cholesky()?.unpack();
        HessianFactor::new(order, diagonal, |row, column| lower[(row, column)])
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use dpr_core::names;
    use dpr_core::random::SplitMix;
    use dpr_files::progress::Silent;
    use flate2::read::GzDecoder;
    use serde_json::Value;

    use super::*;
    use crate::model::{ImportOptions, import};

    fn fixtures() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
    }

    fn numbers(rows: &Value) -> Vec<f32> {
        let rows = rows.as_array().unwrap().iter();
        rows.flat_map(|row| row.as_array().unwrap()).map(|number| number.as_f64().unwrap() as f32).collect()
    }

    #[test]
    fn steps_and_codes_are_those_of_the_published_algorithm() {
        let file = fs_err::File::open(fixtures().join("four-bits/golden.json.gz")).unwrap();
        let golden: Value = serde_json::from_reader(GzDecoder::new(file)).unwrap();
        for case in golden["cases"].as_array().unwrap() {
            let (inputs, weights) = (numbers(&case["inputs"]), numbers(&case["weights"]));
            let width = case["inputs"][0].as_array().unwrap().len();
            let mut moments = Moments::new(width);
            // In parts, as they come.
            inputs.chunks(width * 32).for_each(|part| moments.add(part));
            let quantized = quantize_groups_for(&weights, &moments.hessian().unwrap()).unwrap();
            let steps: Vec<f32> = quantized.steps.iter().map(|step| f32::from(*step)).collect();
            assert_eq!(steps, numbers(&case["steps"]));
            let codes = quantized.codes.iter().flat_map(|pair| [pair & 15, pair >> 4]);
            let codes: Vec<f32> = codes.map(|code| f32::from(code) - 8.0).collect();
            assert_eq!(codes, numbers(&case["codes"]), "{width} columns");
        }
    }

    #[test]
    fn inputs_of_zeros_are_rounded_and_infinite_ones_refused() {
        let of = |input: f32| {
            let mut moments = Moments::new(GROUP);
            moments.add(&[input; 2 * GROUP]);
            moments.hessian()
        };
        let weights = [0.5f32; GROUP];
        let zeros = quantize_groups_for(&weights, &of(0.0).unwrap()).unwrap().into_f32();
        assert!(zeros.iter().all(|value| (value - 0.5).abs() < 1e-6), "{zeros:?}");
        assert_eq!([of(f32::INFINITY), of(f32::NAN), of(f32::MAX)], [None, None, None]);
    }

    /// Imports a fixture; the model, and the config and the weights of its question encoder.
    fn imported(
        dir: &Path,
        passages: Option<&Path>,
    ) -> (tempfile::TempDir, ModelDir, EncoderConfig, Vec<u8>) {
        let out = tempfile::tempdir().unwrap();
        let path = out.path().join("model");
        import(dir, passages, &path, &ImportOptions::default()).unwrap();
        let model = ModelDir::open(&path).unwrap();
        let config = EncoderConfig::from_json(&model.config(QUESTION_DIR).unwrap()).unwrap();
        let weights = fs_err::read(path.join(QUESTION_DIR).join("model.safetensors")).unwrap();
        (out, model, config, weights)
    }

    fn questions(count: usize) -> Vec<String> {
        (0..count).map(|at| format!("who wrote the book number {at} and where do cats sleep")).collect()
    }

    #[test]
    fn moments_are_sums_over_all_tokens_of_all_groups() {
        let tiny = fixtures().join("dpr-tiny");
        let (_out, _, config, weights) = imported(&tiny.join("question"), Some(&tiny.join("ctx")));
        let tensors = TensorMap::from_safetensors([("m", weights.as_slice())]).unwrap();
        let encoder = KernelEncoder::new(&config, tensors).unwrap();
        let mut random = SplitMix::keyed(&[9]);
        let rows: Vec<Vec<u32>> =
            (0..90).map(|at| (0..at % 40 + 5).map(|_| (random.bits() % 50) as u32).collect()).collect();
        assert!(rows.iter().map(Vec::len).sum::<usize>() > 2 * TOKENS, "several groups");
        let of_all = moments(&encoder, &rows, &Silent);
        assert_eq!(of_all.len(), 4 * config.num_hidden_layers);
        for ((layer, place), moments) in of_all {
            let width = encoder.input_width(place);
            let mut sums = vec![0f64; width];
            let mut tokens = 0;
            encoder.layer_inputs(&rows, |at, of, inputs| {
                if (at, of) == (layer, place) {
                    tokens += inputs.len() / width;
                    for token in inputs.chunks_exact(width) {
                        let first = f64::from(token[0]);
                        sums.iter_mut().zip(token).for_each(|(sum, input)| *sum += first * f64::from(*input));
                    }
                }
            });
            assert_eq!(moments.tokens, tokens, "{layer} {place:?}");
            for (sum, got) in sums.iter().zip(moments.sums.row(0).iter()) {
                let off = (sum - f64::from(*got)).abs();
                assert!(off < 1e-3 * sums[0].max(1.0), "{layer} {place:?}: {got} is not {sum}");
            }
        }
    }

    #[test]
    fn questions_are_drawn_at_even_distances_and_too_few_refused() {
        assert_eq!(drawn(&[]).count(), 0);
        assert_eq!(drawn(&questions(5)).count(), 5);
        let many = questions(2 * QUESTIONS);
        let of_many: Vec<&String> = drawn(&many).collect();
        assert_eq!(
            (of_many.len(), of_many[1], of_many[QUESTIONS - 1]),
            (QUESTIONS, &many[2], &many[2 * QUESTIONS - 2])
        );

        let (_out, model, config, weights) = imported(&fixtures().join("mpnet-tiny"), None);
        for few in [vec![String::new()], questions(1)] {
            let error = Calibration::of(&model, &config, &weights, &few, &Silent).err().unwrap().to_string();
            assert!(
                error.contains(" tokens, and its widest layer") && error.contains("more questions"),
                "{error}"
            );
        }
    }

    #[test]
    fn every_matrix_of_the_layers_of_every_family_is_calibrated_where_it_is_in_4_bits() {
        let tiny = fixtures().join("dpr-tiny");
        let mut dirs =
            vec![(tiny.join("question"), Some(tiny.join("ctx"))), (fixtures().join("mpnet-tiny"), None)];
        let families = fs_err::read_dir(fixtures().join("families")).unwrap();
        dirs.extend(families.map(|entry| (entry.unwrap().path(), None)));
        let mut in_8_bits = 0;
        for (dir, passages) in dirs {
            let (_out, model, config, weights) = imported(&dir, passages.as_deref());
            let calibration = Calibration::of(&model, &config, &weights, &questions(40), &Silent).unwrap();
            let layers: Vec<LayerNames> =
                (0..config.num_hidden_layers).map(|layer| LayerNames::new(config.family, layer)).collect();
            let mut matrices = 0;
            for (name, shape) in names::tensors(&config) {
                let is_linear =
                    shape.len() == 2 && layers.iter().any(|layer| name.starts_with(&layer.beginning));
                let fits = shape.len() == 2 && fits_groups(shape[1]);
                let values = vec![0.5; shape.iter().product()];
                let rounded = calibration.rounded(&name, &values);
                assert_eq!(rounded.is_some(), is_linear && fits, "{}: {name}", dir.display());
                if let Some(rounded) = rounded {
                    assert_eq!((rounded.scales.len(), rounded.codes.len() * 2), (shape[0], values.len()));
                    matrices += 1;
                }
                in_8_bits += usize::from(is_linear && !fits);
            }
            assert_eq!(matrices, calibration.matrices(), "{}", dir.display());
            assert!(matrices >= 3 * config.num_hidden_layers, "{}: {matrices}", dir.display());
        }
        assert!(in_8_bits > 0, "some fixtures have layers whose rows are not whole groups");
    }
}
