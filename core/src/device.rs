//! Devices that an encoder runs on, chosen once, at the edge.

use std::fmt;
use std::str::FromStr;

/// A choice of device, as a person gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// A real GPU when there is one, else the CPU kernels.
    #[default]
    Auto,
    /// The GPU through wgpu, a software one too.
    Wgpu,
    /// The CPU kernels of [`crate::kernel`].
    Cpu,
    /// Burn's own CPU backend: slower than `cpu`, and what the others are checked against.
    Flex,
}

/// The reason why a device cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The name is none of the known ones.
    #[error("unknown device {0:?}: it is one of auto, wgpu, cpu, flex")]
    Unknown(String),
    /// No adapter, or it refused.
    #[error("no WebGPU adapter: {0}; use the device cpu, or install a GPU driver")]
    NoAdapter(String),
    /// The device is not part of this build.
    #[error(
        "this build has no device {0}: build dpr with the feature burn, or dpr-core with the feature {0}"
    )]
    NotBuilt(&'static str),
}

impl FromStr for DeviceChoice {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        match text {
            "auto" => Ok(Self::Auto),
            "wgpu" => Ok(Self::Wgpu),
            "cpu" => Ok(Self::Cpu),
            "flex" => Ok(Self::Flex),
            other => Err(DeviceError::Unknown(other.into())),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Wgpu => "wgpu",
            Self::Cpu => "cpu",
            Self::Flex => "flex",
        })
    }
}

/// A device that is open.
#[derive(Clone, Debug)]
pub enum Device {
    /// The CPU kernels.
    Kernel,
    /// A Burn device and what to call it.
    #[cfg(feature = "burn")]
    Burn {
        /// The device tensors live on.
        device: burn::tensor::Device,
        /// For people: the adapter, or `flex`.
        name: String,
        /// `true` if it is a GPU, real or software.
        gpu: bool,
    },
}

impl Device {
    /// Returns the name of the device, for people and reports.
    pub fn name(&self) -> &str {
        match self {
            Self::Kernel => "cpu",
            #[cfg(feature = "burn")]
            Self::Burn { name, .. } => name,
        }
    }

    /// Opens the chosen device. `Auto` never fails: without a real GPU it is the CPU.
    ///
    /// # Errors
    /// [`DeviceError`] when the device asked for is not there or not in this build.
    #[cfg(not(target_family = "wasm"))]
    pub fn open(choice: DeviceChoice) -> Result<Self, DeviceError> {
        match choice {
            DeviceChoice::Cpu => Ok(Self::Kernel),
            DeviceChoice::Flex => Self::flex(),
            DeviceChoice::Wgpu => native::open(),
            DeviceChoice::Auto if native::real_gpu() => native::open().or(Ok(Self::Kernel)),
            DeviceChoice::Auto => Ok(Self::Kernel),
        }
    }

    /// Burn's CPU backend.
    ///
    /// # Errors
    /// [`DeviceError::NotBuilt`] without the feature `flex`.
    pub fn flex() -> Result<Self, DeviceError> {
        #[cfg(feature = "flex")]
        return Ok(Self::Burn { device: burn::tensor::Device::flex(), name: "flex".into(), gpu: false });
        #[cfg(not(feature = "flex"))]
        Err(DeviceError::NotBuilt("flex"))
    }

    /// Returns the browser's WebGPU adapter; to be awaited before any tensor is made.
    ///
    /// # Errors
    /// [`DeviceError::NoAdapter`] when the browser has none or it refuses.
    #[cfg(feature = "wgpu")]
    pub async fn webgpu() -> Result<Self, DeviceError> {
        let (device, setup) = burn::tensor::Device::wgpu_options()
            .init_with_setup_async()
            .await
            .map_err(|e| DeviceError::NoAdapter(e.to_string()))?;
        Ok(Self::Burn { device, name: describe(&setup.adapter.get_info().name), gpu: true })
    }
}

#[cfg(feature = "wgpu")]
fn describe(adapter: &str) -> String {
    if adapter.is_empty() { "webgpu".into() } else { format!("webgpu ({adapter})") }
}

#[cfg(all(feature = "wgpu", not(target_family = "wasm")))]
mod native {
    use std::sync::OnceLock;

    use burn::tensor::wgpu::{WgpuBackend, wgpu};

    use super::{Device, DeviceError, describe};

    /// Returns a graphics API that is safe to try: where Vulkan is the platform's own, OpenGL is never tried instead,
    /// since its adapters can hang on a machine without a display.
    fn api() -> WgpuBackend {
        if cfg!(any(target_os = "linux", target_os = "android")) {
            WgpuBackend::Vulkan
        } else {
            WgpuBackend::Auto
        }
    }

    /// Returns whether a GPU that is not a software renderer answers, without opening a device.
    pub(super) fn real_gpu() -> bool {
        // Loading the drivers takes a second, and some write to stderr on a machine without a display.
        let nodes = ["/dev/dri", "/dev/nvidiactl", "/dev/dxg", "/dev/kgsl-3d0"];
        if cfg!(target_os = "linux") && !nodes.iter().any(|node| std::path::Path::new(node).exists()) {
            return false;
        }
        let backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends,
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        });
        pollster::block_on(instance.enumerate_adapters(backends))
            .iter()
            .any(|adapter| adapter.get_info().device_type != wgpu::DeviceType::Cpu)
    }

    /// Opens the adapter once a process; later calls share it.
    pub(super) fn open() -> Result<Device, DeviceError> {
        static OPENED: OnceLock<Result<Device, String>> = OnceLock::new();
        OPENED
            .get_or_init(|| {
                let (device, setup) = burn::tensor::Device::wgpu_options()
                    .graphics_api(api())
                    .init_with_setup()
                    .map_err(|e| e.to_string())?;
                let info = setup.adapter.get_info();
                let name = match info.device_type {
                    // An adapter of this kind computes on the CPU.
                    wgpu::DeviceType::Cpu => format!("{}, a software adapter", info.name),
                    _ => info.name,
                };
                Ok(Device::Burn { device, name: describe(&name), gpu: true })
            })
            .clone()
            .map_err(DeviceError::NoAdapter)
    }
}

#[cfg(all(not(feature = "wgpu"), not(target_family = "wasm")))]
mod native {
    use super::{Device, DeviceError};

    pub(super) fn real_gpu() -> bool {
        false
    }

    pub(super) fn open() -> Result<Device, DeviceError> {
        Err(DeviceError::NotBuilt("wgpu"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_built_names_features_that_the_crates_have() {
        for device in ["flex", "wgpu"] {
            let message = DeviceError::NotBuilt(device).to_string();
            for (name, package, feature) in [("dpr", "../server", "burn"), ("dpr-core", ".", device)] {
                assert!(message.contains(&format!("{name} with the feature {feature}")), "{message}");
                let file = format!("{}/{package}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
                let file = std::fs::read_to_string(file).unwrap();
                let has = |line: String| file.lines().any(|found| found.starts_with(&line));
                assert!(
                    has(format!("name = \"{name}\"")) && has(format!("{feature} = [")),
                    "{name}: {feature}"
                );
            }
        }
    }
}
