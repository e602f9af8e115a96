//! Programs: wasm-opt, Biome, Chromium and a Vulkan driver.

use std::fs;
use std::path::{Path, PathBuf};

use super::apt;
use crate::failure::{Failure, Outcome};
use crate::jobs::say;
use crate::paths::{self, TOOLS};
use crate::process::{self, command};

/// A program that an npm package holds, installed for the tasks alone. A lock file does not name such a package: it would
/// have to list its builds for every platform, which not every registry has.
pub(crate) struct NpmTool {
    package: &'static str,
    version: &'static str,
    /// The folder of `target/tools` that it is installed in.
    folder: &'static str,
    /// The program within `node_modules`.
    program: &'static str,
}

/// The package that holds wasm-opt.
pub(crate) const WASM_OPT: NpmTool =
    NpmTool { package: "binaryen", version: "132.0.0", folder: "npm", program: "binaryen/bin/wasm-opt" };

/// The linter of TypeScript.
pub(crate) const BIOME: NpmTool = NpmTool {
    package: "@biomejs/biome",
    version: "2.6.8",
    folder: "biome",
    program: "@biomejs/biome/bin/biome",
};

impl NpmTool {
    /// Returns the program to call, or a script for node.
    pub(crate) fn path(&self) -> PathBuf {
        paths::absolute(Path::new(TOOLS).join(self.folder).join("node_modules").join(self.program))
    }

    pub(super) fn find(&self) -> Option<String> {
        let Self { package, version, folder, .. } = self;
        let manifest = Path::new(TOOLS).join(folder).join("node_modules").join(package).join("package.json");
        let manifest: serde_json::Value = serde_json::from_str(&fs::read_to_string(manifest).ok()?).ok()?;
        (manifest["version"] == *version && self.path().is_file()).then(|| format!("{package} {version}"))
    }

    pub(super) fn install(&self) -> Outcome {
        let package = format!("{}@{}", self.package, self.version);
        say(&format!("npm install {package}"));
        let prefix = Path::new(TOOLS).join(self.folder);
        fs::create_dir_all(&prefix)
            .map_err(|e| Failure::new(format!("cannot create {}: {e}", prefix.display())))?;
        let prefix = prefix.to_string_lossy();
        let arguments = ["install", "--prefix", &prefix, "--no-save", "--no-audit", "--no-fund", &package];
        process::output(&mut command("npm", &arguments)).map(drop).map_err(|failure| {
            failure.fix("check that npm reaches its registry (`npm ping`), then run this again")
        })
    }
}

/// The browser of the tests: `CHROMIUM` names one, else the first of the usual names on PATH.
pub(crate) fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return Some(PathBuf::from(named)).filter(|program| program.is_file());
    }
    ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"]
        .into_iter()
        .find_map(process::find_on_path)
}

pub(super) fn find_chromium() -> Option<String> {
    chromium().map(|program| shown(&program))
}

pub(super) fn install_chromium() -> Outcome {
    apt::install(&["chromium"]).map_err(|failure| {
        failure.fix("install Chromium or Chrome and name its program in the variable CHROMIUM")
    })
}

/// The load generator of the benches.
pub(crate) fn wrk() -> Outcome<PathBuf> {
    if process::find_on_path("wrk").is_none() {
        apt::install(&["wrk"])?;
    }
    process::find_on_path("wrk").ok_or_else(|| Failure::new("wrk is not on PATH, though it was installed"))
}

/// The loader and at least one driver's description.
pub(super) fn find_vulkan() -> Option<String> {
    let folders = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d"];
    let mut drivers: Vec<String> = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".json"))
        .collect();
    drivers.sort();
    let named = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].into_iter().find_map(|name| std::env::var(name).ok());
    let driver = named.or_else(|| {
        let software = drivers.iter().find(|name| name.starts_with("lvp_"));
        software.or_else(|| drivers.first()).cloned()
    })?;
    has_vulkan_loader().then_some(driver)
}

fn has_vulkan_loader() -> bool {
    let folders = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib",
    ];
    folders.iter().any(|folder| Path::new(folder).join("libvulkan.so.1").exists())
}

pub(super) fn install_vulkan() -> Outcome {
    apt::install(&["mesa-vulkan-drivers", "libvulkan1"])
}

fn shown(path: &Path) -> String {
    path.strip_prefix(paths::absolute(".")).unwrap_or(path).display().to_string()
}
