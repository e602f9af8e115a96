//! Programs that cargo builds from the registry, for tasks that few need: installed when such a task runs.

use std::path::{Path, PathBuf};

use crate::failure::Outcome;
use crate::paths::{self, TOOLS};
use crate::process::{self, cargo, command};

/// A program of crates.io. Its own lock file decides its dependencies, with their checksums.
pub(crate) struct CargoTool {
    package: &'static str,
    version: &'static str,
}

/// Checks licences, bans, sources and advisories of Cargo.lock.
pub(crate) const CARGO_DENY: CargoTool = CargoTool { package: "cargo-deny", version: "0.20.2" };

impl CargoTool {
    /// Returns the program, which is built first where it is missing or of another version.
    pub(crate) fn ensure(&self) -> Outcome<PathBuf> {
        let program = paths::absolute(Path::new(TOOLS).join("bin").join(self.package));
        let version = process::output(&mut command(&program, &["--version"]));
        if version.is_ok_and(|version| version.trim().ends_with(&format!(" {}", self.version))) {
            return Ok(program);
        }
        println!("building {} {}, which takes some minutes", self.package, self.version);
        let version = format!("={}", self.version);
        let arguments = ["install", "--locked", "--root", TOOLS, "--version", &version, self.package];
        process::run(&mut cargo(&arguments))
            .map_err(|failure| failure.fix("check that cargo reaches crates.io, then run this again"))?;
        Ok(program)
    }
}
