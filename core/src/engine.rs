//! The two engines of an encoder behind one forward pass.

use crate::config::EncoderConfig;
use crate::device::Device;
use crate::error::EncodeError;
#[cfg(not(target_family = "wasm"))]
use crate::error::LoadError;
use crate::kernel::KernelEncoder;
use crate::precision::Precision;
#[cfg(all(feature = "burn", not(target_family = "wasm")))]
use crate::precision::PrecisionError;
use crate::row::{LastStates, PAIR_TYPES, Row};
use crate::weights::{TensorMap, WeightsError};

/// An encoder on one of its engines.
pub(crate) enum Engine {
    Kernel(Box<KernelEncoder>),
    #[cfg(feature = "burn")]
    Burn {
        net: Box<crate::encoder::Encoder>,
        device: burn::tensor::Device,
        multiple_of: usize,
    },
}

impl Engine {
    /// Builds the encoder of `config` on `device`, for rows whose tokens are of `types` types.
    ///
    /// # Errors
    /// [`WeightsError`] when the tensors do not fit the config.
    pub(crate) fn load(
        config: &EncoderConfig,
        tensors: TensorMap,
        device: &Device,
        types: usize,
    ) -> Result<Self, WeightsError> {
        Ok(match device {
            Device::Kernel => {
                Self::Kernel(Box::new(KernelEncoder::with_types(config, tensors, types, Precision::F32)?))
            }
            #[cfg(feature = "burn")]
            Device::Burn { device, gpu, .. } => Self::Burn {
                net: Box::new(crate::encoder::Encoder::load(config, tensors, device)?),
                device: device.clone(),
                // GPU kernels are tuned and tiled by length: few distinct lengths mean few of them.
                multiple_of: if *gpu { 16 } else { 1 },
            },
        })
    }

    /// Builds the encoder of `config` on `device`, for rows whose tokens are all of type 0, with layers that multiply
    /// in `precision`.
    ///
    /// # Errors
    /// [`LoadError::Precision`] for a device that computes in single precision only, and [`LoadError::Weights`] when
    /// the tensors do not fit the config.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn load_at(
        config: &EncoderConfig,
        tensors: TensorMap,
        device: &Device,
        precision: Precision,
    ) -> Result<Self, LoadError> {
        match device {
            Device::Kernel => {
                Ok(Self::Kernel(Box::new(KernelEncoder::with_types(config, tensors, 1, precision)?)))
            }
            #[cfg(feature = "burn")]
            device if !precision.is_f32() => {
                Err(PrecisionError::Device { precision, device: device.name().to_owned() }.into())
            }
            #[cfg(feature = "burn")]
            device => Ok(Self::load(config, tensors, device, 1)?),
        }
    }

    /// Checks `rows` and returns what the network makes of them, `[rows, dim]`.
    ///
    /// # Errors
    /// [`EncodeError`] for a row of no tokens or too many, an id or a token type that the encoder does not have, or a
    /// failed device.
    pub(crate) async fn forward(
        &self,
        rows: &[Row<'_>],
        config: &EncoderConfig,
    ) -> Result<Vec<f32>, EncodeError> {
        check(rows, config)?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        match self {
            Self::Kernel(kernel) => Ok(kernel.forward_rows(rows)),
            #[cfg(feature = "burn")]
            Self::Burn { net, device, multiple_of } => {
                let batch = batch(rows, config, *multiple_of);
                numbers(net.forward(&batch, config, device)).await
            }
        }
    }

    /// Checks `rows` and returns the last hidden states that are `read`, those of one row after those of another:
    /// `[tokens, hidden]`, or `[rows, hidden]`.
    ///
    /// # Errors
    /// [`EncodeError`] as from [`Engine::forward`].
    pub(crate) async fn states(
        &self,
        rows: &[Row<'_>],
        read: LastStates,
        config: &EncoderConfig,
    ) -> Result<Vec<f32>, EncodeError> {
        check(rows, config)?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        match self {
            Self::Kernel(kernel) => Ok(kernel.states_of_rows(rows, read)),
            #[cfg(feature = "burn")]
            Self::Burn { net, device, multiple_of } => {
                let batch = batch(rows, config, *multiple_of);
                let mut dropout = crate::encoder::Dropout::none();
                let states = numbers(net.last_states(&batch, config, device, read, &mut dropout)).await?;
                let of_rows = rows.iter().zip(states.chunks_exact(states.len() / rows.len()));
                // Without those of padding.
                let kept = |row: &Row<'_>| read.count(row) * config.hidden_size;
                Ok(of_rows.flat_map(|(row, states)| &states[..kept(row)]).copied().collect())
            }
        }
    }
}

#[cfg(feature = "burn")]
fn batch(rows: &[Row<'_>], config: &EncoderConfig, multiple_of: usize) -> crate::encoder::TokenBatch {
    crate::encoder::TokenBatch::of_rows(rows, config.pad_token_id, multiple_of, config.position_limit())
}

/// Returns the numbers of a tensor, row-major, when the device has computed them.
#[cfg(feature = "burn")]
async fn numbers<const D: usize>(tensor: burn::tensor::Tensor<D>) -> Result<Vec<f32>, EncodeError> {
    let failed = |e: &dyn std::fmt::Debug| EncodeError::Device(format!("{e:?}"));
    let data = tensor.into_data_async().await.map_err(|e| failed(&e))?;
    data.convert::<f32>().try_into_vec::<f32>().map_err(|e| failed(&e))
}

fn check(rows: &[Row<'_>], config: &EncoderConfig) -> Result<(), EncodeError> {
    let (limit, vocab_size) = (config.position_limit(), config.vocab_size);
    let types = if config.one_type { 1 } else { config.type_vocab_size.clamp(1, PAIR_TYPES) };
    for (row, Row { ids, types: kinds }) in rows.iter().enumerate() {
        if ids.is_empty() || ids.len() > limit {
            return Err(EncodeError::Length { row, got: ids.len(), limit });
        }
        if let Some(id) = ids.iter().find(|id| **id as usize >= vocab_size) {
            return Err(EncodeError::TokenId { row, id: *id, vocab_size });
        }
        if let Some(kind) = kinds.iter().find(|kind| usize::from(**kind) >= types) {
            return Err(EncodeError::TokenType { row, kind: *kind, types });
        }
    }
    Ok(())
}
