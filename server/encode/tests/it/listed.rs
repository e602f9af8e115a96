//! Manifests that leave out a file of the model: nothing is loaded that was not checked.

use std::collections::BTreeMap;
use std::path::Path;

use crate::files::{assert_says, fixtures};

use dpr_core::model::FileEntry;
use dpr_encode::model::{
    CrossEncoderDir, CrossEncoderOptions, ImportOptions, ModelDir, ReaderDir, ReaderOptions, import,
    import_cross_encoder, import_reader,
};

/// Opens the directory with manifests that leave out one of its files each, whose fingerprints are those of what they
/// list, and asserts that the error names the file.
fn assert_all_are_needed(
    dir: &Path,
    files: &BTreeMap<String, FileEntry>,
    without: impl Fn(&str) -> Vec<u8>,
    open: impl Fn() -> String,
) {
    for name in files.keys() {
        fs_err::write(dir.join("model.json"), without(name)).unwrap();
        assert_says(&open(), &["model.json", &format!("does not list {name}"), "import the model again"]);
    }
}

#[test]
fn a_manifest_that_leaves_out_a_file_of_an_encoder_is_refused() {
    for passage in [None, Some("dpr-tiny/ctx")] {
        let out = tempfile::tempdir().unwrap();
        let dir = out.path().join("model");
        let passage = passage.map(|passage| fixtures().join(passage));
        let question = fixtures().join("dpr-tiny/question");
        import(&question, passage.as_deref(), &dir, &ImportOptions::default()).unwrap();
        let manifest = ModelDir::open(&dir).unwrap().manifest().clone();
        assert_eq!(manifest.files.len(), if passage.is_some() { 6 } else { 3 });
        let without = |name: &str| {
            let mut manifest = manifest.clone();
            manifest.files.remove(name);
            manifest.fingerprint = manifest.compute_fingerprint();
            serde_json::to_vec(&manifest).unwrap()
        };
        let open = || ModelDir::open(&dir).map(drop).unwrap_err().to_string();
        assert_all_are_needed(&dir, &manifest.files, without, open);
    }
}

#[test]
fn a_manifest_that_leaves_out_a_file_of_a_model_of_pairs_is_refused() {
    for is_reader in [false, true] {
        let out = tempfile::tempdir().unwrap();
        let dir = out.path().join("model");
        let manifest = if is_reader {
            import_reader(&fixtures().join("readers/bert"), &dir, &ReaderOptions::default()).unwrap()
        } else {
            let from = fixtures().join("cross-encoders/bert");
            import_cross_encoder(&from, &dir, &CrossEncoderOptions::default()).unwrap()
        };
        let without = |name: &str| {
            let mut manifest = manifest.clone();
            manifest.files.remove(name);
            manifest.fingerprint = manifest.compute_fingerprint();
            serde_json::to_vec(&manifest).unwrap()
        };
        let open = || match is_reader {
            true => ReaderDir::open(&dir).map(drop).unwrap_err().to_string(),
            false => CrossEncoderDir::open(&dir).map(drop).unwrap_err().to_string(),
        };
        assert_all_are_needed(&dir, &manifest.files, without, open);
    }
}
