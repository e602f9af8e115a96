//! Parameters of an encoder in a fixed order, as flat tensors: what training reads and writes.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::Tensor;

use super::Encoder;
use crate::config::EncoderConfig;
use crate::names;

/// One parameter: its name in the files, and the way the module holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterInfo {
    /// Canonical name, as `encoder.layer.0.output.dense.weight`.
    pub name: String,
    /// Shape in the files; a linear layer's weight is `[output, input]`.
    pub shape: Vec<usize>,
    /// `true` if the module holds it the other way round, `[input, output]`.
    pub transposed: bool,
}

impl ParameterInfo {
    /// Returns the number of numbers in the parameter.
    pub fn length(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns whether the parameter is a bias or a LayerNorm's scale, which weight decay leaves alone.
    pub fn is_vector(&self) -> bool {
        self.shape.len() == 1
    }

    /// Returns whether the parameter belongs to the embeddings (words, positions, token types and their LayerNorm).
    pub fn is_embedding(&self) -> bool {
        self.name.starts_with("embeddings.") || self.name.starts_with("emb_ln.")
    }

    /// Returns `values` in the order of the files from the order of the module, or the other way with `to_file`
    /// false.
    pub fn reorder(&self, values: &[f32], to_file: bool) -> Vec<f32> {
        if !self.transposed {
            return values.to_vec();
        }
        let (output, input) = (self.shape[0], self.shape[1]);
        let (rows, columns) = if to_file { (input, output) } else { (output, input) };
        let mut reordered = vec![0f32; values.len()];
        for (row, values) in values.chunks_exact(columns).enumerate() {
            for (column, value) in values.iter().enumerate() {
                reordered[column * rows + row] = *value;
            }
        }
        reordered
    }
}

/// Returns the parameters of an encoder with this config, in the order of [`Encoder::parameters`].
pub fn parameter_list(config: &EncoderConfig) -> Vec<ParameterInfo> {
    let is_linear =
        |name: &str| !name.starts_with("embeddings.") && name != "encoder.relative_attention_bias.weight";
    let info = |(name, shape): (String, Vec<usize>)| {
        let transposed = shape.len() == 2 && is_linear(&name);
        ParameterInfo { name, shape, transposed }
    };
    names::tensors(config).into_iter().map(info).collect()
}

impl Encoder {
    /// Returns every parameter, flat and off any tape, in the order of [`parameter_list`] and as the module holds it.
    pub fn parameters(&self) -> Vec<Tensor<1>> {
        let mut values = Values(Vec::new());
        self.visit(&mut values);
        values.0
    }

    /// Returns the same encoder with other parameters, in the order and with the lengths of [`Encoder::parameters`].
    ///
    /// # Panics
    /// When there are fewer parameters, or one has another length: a mistake of the caller, not of any input.
    #[must_use]
    pub fn with_parameters(&self, values: Vec<Tensor<1>>) -> Self {
        self.clone().map(&mut Replace(values.into_iter()))
    }

    /// Returns the same encoder on a tape of its own: parameter `i` is a fresh leaf that gathers a gradient where
    /// `trained[i]`. Encoders on tapes of their own can be differentiated at the same time.
    #[cfg(feature = "autodiff")]
    #[must_use]
    pub fn leaves(&self, trained: &[bool]) -> Self {
        self.clone().map(&mut Leaves(trained.iter()))
    }

    /// Takes and returns the gradients of [`Encoder::leaves`], flat, in order; `None` for a parameter that is not
    /// trained or not used.
    #[cfg(feature = "autodiff")]
    pub fn take_gradients(&self, gradients: &mut burn::tensor::Gradients) -> Vec<Option<Tensor<1>>> {
        let mut taken = Taken { gradients, found: Vec::new() };
        self.visit(&mut taken);
        taken.found
    }
}

fn flat<const D: usize>(tensor: Tensor<D>) -> Tensor<1> {
    let length = tensor.dims().iter().product::<usize>();
    tensor.reshape([length])
}

struct Values(Vec<Tensor<1>>);

impl ModuleVisitor for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push(flat(param.val().inner()));
    }
}

struct Replace(std::vec::IntoIter<Tensor<1>>);

impl ModuleMapper for Replace {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let next = self.0.next();
        param.map(|old| match next {
            Some(value) => value.reshape(old.dims()),
            None => panic!("fewer parameters than the encoder has"),
        })
    }
}

#[cfg(feature = "autodiff")]
struct Leaves<'a>(std::slice::Iter<'a, bool>);

#[cfg(feature = "autodiff")]
impl ModuleMapper for Leaves<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let trained = self.0.next().copied().unwrap_or(false);
        param.map(|value| value.inner().autodiff().set_require_grad(trained))
    }
}

#[cfg(feature = "autodiff")]
struct Taken<'a> {
    gradients: &'a mut burn::tensor::Gradients,
    found: Vec<Option<Tensor<1>>>,
}

#[cfg(feature = "autodiff")]
impl ModuleVisitor for Taken<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.found.push(param.val().grad_remove(self.gradients).map(flat));
    }
}
