//! Second moments of what a question encoder's layers read, by which their weights are rounded to 4 bits.

use std::collections::HashMap;
use std::sync::Arc;

use dpr_core::kernel::KernelEncoder;
use dpr_core::names::{LayerNames, LinearInput};
use dpr_core::weights::InputMetric;
use dpr_core::{EncoderConfig, TensorMap, TextTokenizer};
use dpr_files::progress::Progress;
use nalgebra::{DMatrix, DMatrixView, Dyn};
use rayon::prelude::*;

use super::{ModelDir, ModelError, QUESTION_DIR};

/// Questions whose inputs are read, at most: several times the inputs of a layer, in tokens.
const QUESTIONS: usize = 4096;

/// Tokens whose inputs are in memory at once.
const TOKENS: usize = 1024;

/// Ridge that is added to the diagonal, as a share of its mean, for inputs that depend on each other or are few.
const RIDGE: f64 = 0.01;

/// For each linear layer of a question encoder, by the name of its weight, what errors of its weights do to its outputs.
pub(super) struct Calibration(HashMap<String, Arc<InputMetric>>);

/// Sums of the products of a layer's inputs, `[width, width]`.
struct Moments {
    sums: DMatrix<f32>,
    tokens: usize,
}

impl Calibration {
    /// Returns what the layers of the question encoder with these weights read for the questions: for all of them, or
    /// for [`QUESTIONS`] at even distances. Works on all cores.
    ///
    /// # Errors
    /// [`ModelError`] when a file does not fit the others, a question cannot be cut into tokens, or the inputs are not
    /// finite.
    pub(super) fn of(
        model: &ModelDir,
        config: &EncoderConfig,
        weights: &[u8],
        questions: &[String],
        progress: &dyn Progress,
    ) -> Result<Self, ModelError> {
        let dir = model.path().join(QUESTION_DIR);
        let tensors = TensorMap::from_safetensors([("model.safetensors", weights)]);
        let tensors = tensors.map_err(ModelError::in_dir(&dir))?;
        let encoder = KernelEncoder::new(config, tensors).map_err(ModelError::in_dir(&dir))?;
        let config = EncoderConfig { max_tokens: model.manifest().max_question_tokens, ..config.clone() };
        let tokenizer = TextTokenizer::from_json(&fs_err::read(dir.join("tokenizer.json"))?, &config)
            .map_err(ModelError::in_dir(&dir))?;
        let count = questions.len().min(QUESTIONS);
        let drawn = (0..count).map(|at| &questions[at * questions.len() / count]);
        let rows = drawn.map(|question| tokenizer.question(question)).collect::<Result<Vec<_>, _>>();
        let rows = rows.map_err(ModelError::in_dir(&dir))?;

        progress.start("reading the layers' inputs of", "questions", count as u64);
        let moments = moments(&encoder, &rows, progress);
        progress.finish();
        progress.start("factoring", "second moments", moments.len() as u64);
        let metrics = moments.into_par_iter().map(|((layer, input), moments)| {
            let names = LayerNames::new(config.family, layer);
            let reading = names.reading(input);
            let metric = moments.metric().ok_or_else(|| ModelError::Calibration {
                dir: dir.clone(),
                layer: reading.first().cloned().unwrap_or_default(),
            })?;
            progress.advance(1);
            let metric = Arc::new(metric);
            Ok(reading.iter().map(|name| (format!("{name}.weight"), metric.clone())).collect::<Vec<_>>())
        });
        let metrics: Result<Vec<_>, ModelError> = metrics.collect();
        progress.finish();
        Ok(Self(metrics?.into_iter().flatten().collect()))
    }

    /// Returns what errors of the matrix `name` do to its outputs; `None` where it is not a linear layer of the
    /// transformer.
    pub(super) fn of_matrix(&self, name: &str) -> Option<&InputMetric> {
        self.0.get(name).map(Arc::as_ref)
    }
}

/// Returns the moments of every layer's inputs over the rows.
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
            if !moments.contains_key(place) {
                let width = encoder.input_width(place.1);
                moments.insert(*place, Moments { sums: DMatrix::zeros(width, width), tokens: 0 });
            }
        }
        moments.par_iter_mut().for_each(|(place, moments)| moments.add(&together[place]));
        progress.advance(group.len() as u64);
    }
    moments
}

/// Returns the inputs of every layer for one row of tokens, `[tokens, width]` each.
fn inputs(encoder: &KernelEncoder, row: &[u32]) -> Vec<((usize, LinearInput), Vec<f32>)> {
    let mut inputs = Vec::new();
    encoder.layer_inputs(&[row.to_vec()], |layer, place, read| {
        inputs.push(((layer, place), read.to_vec()));
    });
    inputs
}

impl Moments {
    /// Adds the products of inputs `[tokens, width]`.
    fn add(&mut self, inputs: &[f32]) {
        let width = self.sums.nrows();
        // Columns are contiguous: a column is a token.
        let columns = DMatrixView::from_slice_generic(inputs, Dyn(width), Dyn(inputs.len() / width));
        self.sums.gemm(1.0, &columns, &columns.transpose(), 1.0);
        self.tokens += columns.ncols();
    }

    /// Returns the metric of these inputs: weights of inputs with large second moments are rounded first, as the later
    /// ones make up for their errors. `None` where the moments are not finite.
    fn metric(&self) -> Option<InputMetric> {
        let width = self.sums.nrows();
        let tokens = self.tokens as f64;
        let mean = self.sums.diagonal().iter().map(|sum| f64::from(*sum)).sum::<f64>() / width as f64;
        // Inputs that are all 0 are rounded as if they were alike.
        let ridge = if mean > 0.0 { RIDGE * mean } else { tokens };
        let squares: Vec<f32> =
            self.sums.diagonal().iter().map(|sum| ((f64::from(*sum) + ridge) / tokens) as f32).collect();
        let mut order: Vec<usize> = (0..width).collect();
        order.sort_by(|a, b| squares[*b].total_cmp(&squares[*a]));
        let input = |place: usize| order[width - 1 - place];
        let reversed = DMatrix::from_fn(width, width, |row, column| {
            let sum = f64::from(self.sums[(input(row), input(column))]);
            if row == column { sum + ridge } else { sum }
        });
        let factor = reversed.cholesky()?.unpack();
        InputMetric::new(order, squares, |row, column| factor[(row, column)])
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use dpr_core::names;
    use dpr_core::weights::{GROUP, quantize_groups_for};
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
            let mut moments = Moments { sums: DMatrix::zeros(width, width), tokens: 0 };
            // In parts, as they come.
            inputs.chunks(width * 32).for_each(|part| moments.add(part));
            let quantized = quantize_groups_for(&weights, &moments.metric().unwrap()).unwrap();
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
            let mut moments = Moments { sums: DMatrix::zeros(GROUP, GROUP), tokens: 0 };
            moments.add(&[input; 2 * GROUP]);
            moments.metric()
        };
        let weights = [0.5f32; GROUP];
        let zeros = quantize_groups_for(&weights, &of(0.0).unwrap()).unwrap().into_f32();
        assert!(zeros.iter().all(|value| (value - 0.5).abs() < 1e-6), "{zeros:?}");
        assert_eq!([of(f32::INFINITY), of(f32::NAN), of(f32::MAX)], [None, None, None]);
    }

    #[test]
    fn every_matrix_of_the_layers_of_every_family_is_calibrated() {
        let tiny = fixtures().join("dpr-tiny");
        let mut dirs =
            vec![(tiny.join("question"), Some(tiny.join("ctx"))), (fixtures().join("mpnet-tiny"), None)];
        let families = fs_err::read_dir(fixtures().join("families")).unwrap();
        dirs.extend(families.map(|entry| (entry.unwrap().path(), None)));
        for (dir, passages) in dirs {
            let out = tempfile::tempdir().unwrap();
            let path = out.path().join("model");
            import(&dir, passages.as_deref(), &path, &ImportOptions::default()).unwrap();
            let model = ModelDir::open(&path).unwrap();
            let config = EncoderConfig::from_json(&model.config(QUESTION_DIR).unwrap()).unwrap();
            let weights = fs_err::read(path.join(QUESTION_DIR).join("model.safetensors")).unwrap();
            let questions = ["who wrote it", "where do cats sleep when it rains"].map(String::from);
            let calibration = Calibration::of(&model, &config, &weights, &questions, &Silent).unwrap();
            let mut matrices = 0;
            for (name, shape) in names::tensors(&config) {
                let layers = (0..config.num_hidden_layers).map(|layer| LayerNames::new(config.family, layer));
                let in_layers = layers.into_iter().any(|layer| name.starts_with(&layer.beginning));
                let inputs = calibration.of_matrix(&name);
                assert_eq!(inputs.is_some(), in_layers && shape.len() == 2, "{}: {name}", dir.display());
                if let Some(inputs) = inputs {
                    matrices += 1;
                    assert_eq!(inputs.inputs(), shape[1], "{}: {name}", dir.display());
                }
            }
            assert!(matrices >= 4 * config.num_hidden_layers, "{}: {matrices}", dir.display());
        }
    }
}
