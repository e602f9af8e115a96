//! An encoder that is built while its weights arrive.

use sha2::{Digest, Sha256};

use super::TextEncoder;
use crate::config::EncoderConfig;
use crate::device::Device;
use crate::engine::Engine;
use crate::error::LoadError;
use crate::kernel::KernelBuilder;
use crate::model::hex;
use crate::tokenizer::TextTokenizer;
use crate::weights::{ArrivingTensors, TensorMap};

/// An encoder whose weights arrive piece by piece. On the CPU kernels a layer is packed as soon as its tensors are
/// there, so that little is left to do after the last byte, and no tensor is in memory twice. Vectors are those of an
/// encoder [loaded](TextEncoder::load) from the whole file, to the bit.
pub struct TextEncoderBuilder {
    config: EncoderConfig,
    tokenizer: TextTokenizer,
    device: Device,
    arriving: ArrivingTensors,
    hash: Sha256,
    made: Made,
}

/// What is made of the tensors that are there.
enum Made {
    Kernel(Box<KernelBuilder>),
    /// Burn's encoders are made of all tensors at once.
    #[cfg(feature = "burn")]
    Burn(TensorMap),
}

impl TextEncoderBuilder {
    /// Begins an encoder on `device` with the bytes of `config.json` and of `tokenizer.json`, or its binary form. The
    /// weights are one safetensors file of `bytes` bytes.
    ///
    /// # Errors
    /// [`LoadError`] says which file is wrong and what in it.
    pub fn new(config: &[u8], tokenizer: &[u8], bytes: usize, device: &Device) -> Result<Self, LoadError> {
        let config = EncoderConfig::from_json(config)?;
        let tokenizer = TextTokenizer::from_bytes(tokenizer, &config)?;
        let made = match device {
            Device::Kernel => Made::Kernel(Box::new(KernelBuilder::new(&config, TensorMap::default(), 1))),
            #[cfg(feature = "burn")]
            Device::Burn { .. } => Made::Burn(TensorMap::default()),
        };
        let (device, arriving) = (device.clone(), ArrivingTensors::new("weights", bytes));
        Ok(Self { config, tokenizer, device, arriving, hash: Sha256::new(), made })
    }

    /// Takes the next bytes of the weights.
    ///
    /// # Errors
    /// [`LoadError::Weights`] for a damaged file, or tensors that do not fit the config.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        self.hash.update(bytes);
        match &mut self.made {
            Made::Kernel(kernel) => {
                if self.arriving.push(bytes, kernel.tensors_mut())? > 0 {
                    kernel.pack(|beginning| !self.arriving.awaits(beginning))?;
                }
            }
            #[cfg(feature = "burn")]
            Made::Burn(tensors) => {
                self.arriving.push(bytes, tensors)?;
            }
        }
        Ok(())
    }

    /// Returns the SHA-256 of the weights that have arrived, 64 lower-case hexadecimal digits.
    pub fn sha256(&self) -> String {
        hex(&self.hash.clone().finalize())
    }

    /// Returns the encoder.
    ///
    /// # Errors
    /// [`LoadError::Weights`] for a file that is not whole, or tensors that do not fit the config.
    pub fn finish(self) -> Result<TextEncoder, LoadError> {
        let Self { config, tokenizer, device, arriving, made, .. } = self;
        arriving.finish()?;
        let engine = match made {
            Made::Kernel(kernel) => Engine::Kernel(Box::new(kernel.finish()?)),
            #[cfg(feature = "burn")]
            Made::Burn(tensors) => Engine::load(&config, tensors, &device, 1)?,
        };
        Ok(TextEncoder::of(config, tokenizer, engine, &device))
    }
}
