//! Node.js and the npm packages of the folders that have a lock file.

use std::fs;
use std::path::Path;

use super::apt;
use crate::failure::{Failure, Outcome};
use crate::jobs::say;
use crate::process::{self, command};

const OLDEST_NODE: u32 = 20;

/// Folders of the package and the page. The search page's package of this repository is not in its lock file: `npm`
/// puts it there once it is packed.
pub(super) const PAGE: [&str; 2] = ["wasm/npm", "web-demo"];
/// Folders that only tests need.
pub(super) const TESTS: [&str; 1] = ["tests/browser"];

pub(super) fn find_node() -> Option<String> {
    let version = process::output(&mut command("node", &["--version"])).ok()?;
    let major: u32 = version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()?;
    process::find_on_path("npm")?;
    (major >= OLDEST_NODE).then(|| version.trim().to_owned())
}

pub(super) fn install_node() -> Outcome {
    let fix = format!("install Node.js {OLDEST_NODE} or newer with npm");
    if process::find_on_path("node").is_some() && process::find_on_path("npm").is_some() {
        return Err(Failure::new(format!("the Node.js on PATH is older than {OLDEST_NODE}")).fix(fix));
    }
    apt::install(&["nodejs", "npm"]).map_err(|failure| failure.fix(fix))
}

/// Returns whether `npm ci` has run in the folder since its lock file last changed.
fn packages_are_current(folder: &str) -> bool {
    let wanted = Path::new(folder).join("package-lock.json");
    let Ok(wanted) = fs::metadata(wanted).and_then(|m| m.modified()) else {
        return true; // a folder without a lock file has no packages
    };
    let installed = Path::new(folder).join("node_modules/.package-lock.json");
    fs::metadata(installed).and_then(|m| m.modified()).is_ok_and(|installed| installed >= wanted)
}

/// `npm ci` in one folder.
fn install_folder(folder: &str) -> Outcome {
    say(&format!("npm ci in {folder}"));
    process::output(command("npm", &["ci", "--no-audit", "--no-fund"]).current_dir(folder))
        .map(drop)
        .map_err(|failure| {
            failure.fix("check that npm reaches its registry (`npm ping`), then run this again")
        })?;
    // npm keeps the time of an unchanged file; the check above compares times.
    let installed = Path::new(folder).join("node_modules/.package-lock.json");
    match fs::OpenOptions::new().append(true).open(installed) {
        Ok(file) => drop(file.set_modified(std::time::SystemTime::now())),
        Err(_) => drop(fs::create_dir_all(Path::new(folder).join("node_modules"))),
    }
    Ok(())
}

pub(super) fn find_packages(folders: &[&str]) -> Option<String> {
    folders.iter().all(|folder| packages_are_current(folder)).then(|| folders.join(", "))
}

pub(super) fn install_packages(folders: &[&str]) -> Outcome {
    folders
        .iter()
        .filter(|folder| !packages_are_current(folder))
        .try_for_each(|folder| install_folder(folder))
}
