//! rustfmt and clippy, which rustup's smallest profile leaves out.

use crate::failure::Outcome;
use crate::jobs::say;
use crate::process::{self, cargo, command};

pub(super) fn find() -> Option<String> {
    let versions = ["fmt", "clippy"].map(|name| process::output(&mut cargo(&[name, "--version"])).ok());
    let [Some(fmt), Some(clippy)] = versions else { return None };
    Some(format!("{}, {}", fmt.trim(), clippy.trim()))
}

pub(super) fn install() -> Outcome {
    say("rustup component add rustfmt clippy");
    process::output(&mut command("rustup", &["component", "add", "rustfmt", "clippy"]))
        .map(drop)
        .map_err(|failure| failure.fix("install rustfmt and clippy of the toolchain in rust-toolchain.toml"))
}
