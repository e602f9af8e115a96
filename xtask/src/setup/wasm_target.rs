//! The standard library for wasm32: rustup's target where it can be had, else Debian's sources built with the module.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::apt;
use crate::failure::{Failure, Outcome};
use crate::jobs::say;
use crate::process;

const TARGET: &str = "wasm32-unknown-unknown";
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_LINKER: &str = "wasm-ld-19";

/// The source of the wasm32 standard library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WasmTarget {
    /// A target installed beside the toolchain in use.
    Rustup,
    /// Debian's `rustc-web` with `rust-web-src`: the library is compiled with the module (`-Z build-std`).
    Debian,
}

impl WasmTarget {
    /// The one to use here, rustup's first.
    pub(crate) fn detect() -> Option<Self> {
        if has_target() {
            return Some(Self::Rustup);
        }
        has_debian_sources().then_some(Self::Debian)
    }

    /// Arguments after `cargo build` that this way needs.
    pub(crate) fn cargo_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Rustup => &["--target", TARGET],
            Self::Debian => &["--target", TARGET, "-Z", "build-std=std,panic_abort"],
        }
    }

    /// Environment of that cargo.
    pub(crate) fn prepare(self, command: &mut Command) {
        if self == Self::Debian {
            // RUSTC_BOOTSTRAP lets a stable compiler take `-Z build-std`, and nothing else here uses it.
            command
                .env("RUSTC", DEBIAN_RUSTC)
                .env("RUSTC_BOOTSTRAP", "1")
                .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", DEBIAN_LINKER);
        }
    }
}

/// Says which way is there.
pub(super) fn find() -> Option<String> {
    WasmTarget::detect().map(|way| match way {
        WasmTarget::Rustup => "the toolchain's wasm32 target".to_owned(),
        WasmTarget::Debian => "Debian's rustc-web with the library's sources".to_owned(),
    })
}

/// Tries rustup for 90 seconds, then Debian's packages.
pub(super) fn install() -> Outcome {
    if process::find_on_path("rustup").is_some() {
        say("rustup target add wasm32-unknown-unknown");
        let mut add = process::command("rustup", &["target", "add", TARGET]);
        if process::succeeds_within(&mut add, Duration::from_secs(90)) && has_target() {
            return Ok(());
        }
        say("rustup cannot fetch the target here; taking Debian's packages instead");
    }
    apt::install(&["rustc-web", "rust-web-src", "lld-19"]).map_err(|failure| {
        Failure::new(format!("no wasm32 standard library: rustup could not add the target, and {failure}"))
            .fix(format!("make `rustup target add {TARGET}` succeed, or install Debian 12's rustc-web, rust-web-src and lld-19"))
    })
}

fn has_target() -> bool {
    sysroot("rustc")
        .is_some_and(|root| Path::new(&root).join("lib/rustlib").join(TARGET).join("lib").is_dir())
}

fn has_debian_sources() -> bool {
    process::find_on_path(DEBIAN_LINKER).is_some()
        && Path::new(DEBIAN_RUSTC).is_file()
        && sysroot(DEBIAN_RUSTC).is_some_and(|root| {
            Path::new(&root).join("lib/rustlib/src/rust/library/std/Cargo.toml").is_file()
        })
}

fn sysroot(rustc: &str) -> Option<String> {
    process::output(&mut process::command(rustc, &["--print", "sysroot"]))
        .ok()
        .map(|root| root.trim().to_owned())
}
