//! The module `Dense` of sentence-transformers: its configuration and its weights.

use std::path::PathBuf;

use dpr_core::head::{Activation, DenseLayer, dense_name};
use dpr_core::{TensorMap, WeightsError};
use serde_json::Value;

use super::ModelError;
use super::json::require_json;
use super::weights;

/// One Dense module as listed.
#[derive(Debug)]
pub(super) struct DenseModule {
    folder: PathBuf,
    input: usize,
    /// The configuration of the layer.
    pub(super) layer: DenseLayer,
}

impl DenseModule {
    /// Reads `config.json` of the module's folder.
    ///
    /// # Errors
    /// [`ModelError::Dense`] names a setting that is not computed here.
    pub(super) fn read(folder: PathBuf) -> Result<Self, ModelError> {
        let config = require_json(&folder, "config.json", "fetch the model again, with its folders")?;
        let path = folder.join("config.json");
        let refused = |what: String| Err(ModelError::Dense { path: path.clone(), what });
        if config["use_residual"] == true {
            return refused("use_residual is true, and a residual connection is not supported".into());
        }
        for name in ["module_input_name", "module_output_name"] {
            match &config[name] {
                Value::Null => {}
                Value::String(value) if value == "sentence_embedding" => {}
                other => {
                    return refused(format!(
                        "{name} is {other}, and only \"sentence_embedding\" is supported"
                    ));
                }
            }
        }
        let activation = match &config["activation_function"] {
            Value::Null => Some(Activation::Tanh),
            value => value.as_str().and_then(Activation::from_torch),
        };
        let Some(activation) = activation else {
            return refused(format!(
                "activation_function is {}, and supported are Identity, Tanh, GELU, ReLU and Sigmoid of torch.nn",
                config["activation_function"]
            ));
        };
        let size = |name: &str| match config[name].as_u64() {
            Some(size) => Ok(size as usize),
            None => {
                let reason = format!("{name} is missing or not a whole number");
                Err(ModelError::Json { path: path.clone(), reason })
            }
        };
        let layer = DenseLayer { output: size("out_features")?, bias: config["bias"] != false, activation };
        let input = size("in_features")?;
        Ok(Self { folder, input, layer })
    }

    /// Moves the weights of the dense layer `index` into `tensors`.
    ///
    /// # Errors
    /// [`ModelError`] names the module's folder and the tensor that does not fit.
    pub(super) fn load(&self, index: usize, tensors: &mut TensorMap) -> Result<(), ModelError> {
        let own = weights::read(&self.folder)?;
        let in_folder = |e: WeightsError| ModelError::in_dir(&self.folder)(e);
        let expected = vec![self.layer.output, self.input];
        match own.shape("linear.weight") {
            Some(got) if got == expected => {}
            Some(got) => {
                let (name, got) = ("linear.weight".into(), got.to_vec());
                return Err(in_folder(WeightsError::Shape { name, expected, got }));
            }
            None => return Err(in_folder(WeightsError::Missing { name: "linear.weight".into(), expected })),
        }
        let rename = |name: &str| {
            let part = name.strip_prefix("linear.")?;
            let known = part == "weight" || (part == "bias" && self.layer.bias);
            known.then(|| format!("{}.{part}", dense_name(index)))
        };
        tensors.adopt(own, rename).map_err(in_folder)
    }
}
