//! Programs: wasm-opt, Biome and a Vulkan driver.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::apt;
use crate::failure::{Failure, Outcome};
use crate::jobs::say;
use crate::paths::{self, TOOLS};
use crate::process::{self, command};

/// A program that an npm package holds, installed for the tasks alone. A lock file does not name such a package: it
/// would have to list its builds for every platform, which not every registry has. The packages' hashes stand here
/// instead.
pub(crate) struct NpmTool {
    package: &'static str,
    version: &'static str,
    /// The folder of `target/tools` that it is installed in.
    folder: &'static str,
    /// The program within `node_modules`.
    program: &'static str,
    /// The SHA-512 of every package that npm may install for it, as npm's lock files write it.
    packages: &'static [(&'static str, &'static str)],
}

/// The package that holds wasm-opt.
pub(crate) const WASM_OPT: NpmTool = NpmTool {
    package: "binaryen",
    version: "132.0.0",
    folder: "npm",
    program: "binaryen/bin/wasm-opt",
    packages: &[(
        "binaryen",
        "sha512-4Usg7yEvwO3FMso3Oov6qkOOHSod1IEv+boKkh77kTljM+eNBouqCTbqWswGzbG+vDNO/b/v2C4gfEh1WgB9Lg==",
    )],
};

/// The linter of TypeScript.
pub(crate) const BIOME: NpmTool = NpmTool {
    package: "@biomejs/biome",
    version: "2.6.8",
    folder: "biome",
    program: "@biomejs/biome/bin/biome",
    packages: &[
        (
            "@biomejs/biome",
            "sha512-kqZUFvX6/aYQOmzfRN5ANcfNS9wLH4aHLWWP/dQKyhRZVoA6rdWszA7DGugFcxPbMiznUyVYyukVl+ExZN4PQA==",
        ),
        (
            "@biomejs/cli-linux-x64",
            "sha512-XIk3pLQT56I6Tti+u0DF8FtSNXjCMTPbxVTzfJ9cS2t1ImVKvrqV5b52GuEaJg6/wuiXvz0sjfb5saB4TPRjzA==",
        ),
        (
            "@biomejs/cli-linux-arm64",
            "sha512-0Bjim8lKwnrvXUHoI4k3Tb51BjoiLEwDnovCI8nSzkk6wj3dShiuAjrx6+X0Hjf4ejR1sRZgTQiSDHlpy9vB7w==",
        ),
    ],
};

impl NpmTool {
    /// Returns the program to call, or a script for node.
    pub(crate) fn path(&self) -> PathBuf {
        self.modules().join(self.program)
    }

    fn modules(&self) -> PathBuf {
        paths::absolute(Path::new(TOOLS).join(self.folder).join("node_modules"))
    }

    pub(super) fn find(&self) -> Option<String> {
        let Self { package, version, .. } = self;
        let manifest = self.modules().join(package).join("package.json");
        let manifest: serde_json::Value = serde_json::from_str(&fs::read_to_string(manifest).ok()?).ok()?;
        (manifest["version"] == *version && self.path().is_file() && self.check().is_ok())
            .then(|| format!("{package} {version}"))
    }

    pub(super) fn install(&self) -> Outcome {
        let package = format!("{}@{}", self.package, self.version);
        say(&format!("npm install {package}"));
        let prefix = Path::new(TOOLS).join(self.folder);
        let failed = |e: io::Error| Failure::new(format!("cannot write {}: {e}", prefix.display()));
        let _ = fs::remove_dir_all(self.modules());
        fs::create_dir_all(&prefix).map_err(failed)?;
        let to = prefix.to_string_lossy();
        // Nothing of a package runs before its hash is known to be right.
        let arguments = [
            "install",
            "--prefix",
            &to,
            "--no-save",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            &package,
        ];
        process::output(&mut command("npm", &arguments)).map(drop).map_err(|failure| {
            failure.fix("check that npm reaches its registry (`npm ping`), then run this again")
        })?;
        self.check().inspect_err(|_| drop(fs::remove_dir_all(self.modules())))
    }

    /// Compares the hashes that npm installed by, which it has checked, with those that are known.
    fn check(&self) -> Outcome {
        let file = self.modules().join(".package-lock.json");
        let failed = |e: io::Error| Failure::new(format!("cannot read {}: {e}", file.display()));
        let lock = fs::read_to_string(&file).map_err(failed)?;
        wrong_packages(&lock, self.packages).map_or(Ok(()), |wrong| {
            let what = format!("npm installed for {} what it should not have: {wrong}", self.package);
            Err(Failure::new(what).fix(
                "if this is the build for a platform that xtask/src/setup/tools.rs does not list, add its hash \
                 (`npm view PACKAGE@VERSION dist.integrity`); if not, see whether the registry is a mirror gone wrong",
            ))
        })
    }
}

/// Returns the first package of a lock file whose hash is missing or another one than `known` says; also when there
/// is none.
fn wrong_packages(lock: &str, known: &[(&str, &str)]) -> Option<String> {
    let lock: serde_json::Value = serde_json::from_str(lock).unwrap_or_default();
    let Some(packages) = lock["packages"].as_object().filter(|packages| !packages.is_empty()) else {
        return Some("a lock file without packages".to_owned());
    };
    packages.iter().find_map(|(path, entry)| {
        let name = path.rsplit_once("node_modules/").map_or(path.as_str(), |(_, name)| name);
        let hash = entry["integrity"].as_str();
        let is_known = known.iter().any(|(known, right)| *known == name && hash == Some(right));
        (!is_known).then(|| format!("{name} with {}", hash.unwrap_or("no hash")))
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

/// Returns a path as messages name it: relative where it lies in the repository.
pub(super) fn shown(path: &Path) -> String {
    path.strip_prefix(paths::absolute(".")).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_with_another_hash_or_without_one_is_found() {
        let known = [("binaryen", "sha512-aa=="), ("@biomejs/biome", "sha512-bb==")];
        let lock = |entries: &str| format!("{{\"lockfileVersion\": 3, \"packages\": {{{entries}}}}}");
        let right = r#""node_modules/binaryen": {"integrity": "sha512-aa=="}"#;
        let scoped = r#""../a/node_modules/@biomejs/biome": {"integrity": "sha512-bb=="}"#;
        assert_eq!(wrong_packages(&lock(&format!("{right}, {scoped}")), &known), None);
        for wrong in [
            r#""node_modules/binaryen": {"integrity": "sha512-bb=="}"#,
            r#""node_modules/binaryen": {}"#,
            r#""node_modules/other": {"integrity": "sha512-aa=="}"#,
        ] {
            assert!(wrong_packages(&lock(&format!("{scoped}, {wrong}")), &known).is_some(), "{wrong}");
        }
        assert!(wrong_packages("", &known).is_some());
        assert!(wrong_packages(&lock(""), &known).is_some());
    }
}
