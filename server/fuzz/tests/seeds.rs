//! Every kept input, replayed: those that are right, those that reached code that others did not, and those that
//! broke something once.

use std::path::{Path, PathBuf};

use dpr_fuzz::TARGETS;
use fs_err as fs;

/// The kept inputs of a target, by their paths.
fn kept(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn no_kept_input_breaks_its_parser() {
    for target in TARGETS {
        let files = kept(target.name);
        for file in &files {
            println!("{}", file.display());
            (target.run)(&fs::read(file).unwrap());
        }
        assert!(
            !files.is_empty(),
            "{} has no seeds: run `cargo run -p dpr-fuzz --bin fuzz-seeds`",
            target.name
        );
    }
}

/// As a fuzzer without guidance would: each input cut everywhere, and each of its bytes changed, if it is small.
#[test]
fn no_cut_and_no_changed_byte_of_a_right_input_breaks_its_parser() {
    for target in TARGETS {
        for (_, bytes) in (target.valid)() {
            let step = (bytes.len() / 40).max(1);
            for at in (0..bytes.len()).step_by(step) {
                (target.run)(&bytes[..at]);
                let mut changed = bytes.clone();
                changed[at] = changed[at].wrapping_add(1 << (at % 8));
                (target.run)(&changed);
            }
        }
    }
}

#[test]
fn every_folder_of_seeds_belongs_to_a_target() {
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(TARGETS.iter().any(|target| target.name == name), "{name}");
    }
}
