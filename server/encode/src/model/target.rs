//! The place of a new model directory.

use std::path::Path;

use dpr_files::DirLock;
use dpr_files::atomic::{ASIDE_PREFIX, STAGING_PREFIX};

use super::{CROSS_ENCODER_DIR, MANIFEST, ModelError, PASSAGE_DIR, QUESTION_DIR, READER_DIR, WEB_DIR};

/// The files and folders of a model directory.
const OF_A_MODEL: [&str; 6] = [MANIFEST, QUESTION_DIR, PASSAGE_DIR, CROSS_ENCODER_DIR, READER_DIR, WEB_DIR];

/// Refuses an output that exists. With `force` it may be a model directory, or an empty one, which is replaced; not one
/// that holds anything else, one of the directories that are `read` for it, or the working directory.
///
/// # Errors
/// [`ModelError::Exists`] and [`ModelError::NotReplaced`].
pub(super) fn check(out: &Path, force: bool, read: &[&Path]) -> Result<(), ModelError> {
    // Without a slash at its end, which would make a link its target.
    let out = out.components().as_path();
    let Ok(kind) = fs_err::symlink_metadata(out) else { return Ok(()) };
    if !force {
        return Err(ModelError::Exists(out.into()));
    }
    let not = |why: String| Err(ModelError::NotReplaced { out: out.into(), why });
    if !kind.is_dir() {
        let what = if kind.is_symlink() { "link" } else { "file" };
        return not(format!("it is a {what}, and only a model directory is replaced"));
    }
    let is_model = out.join(MANIFEST).is_file();
    for entry in fs_err::read_dir(out)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // What an interrupted export left goes with its model.
        let left = name.starts_with(STAGING_PREFIX) && !name.starts_with(ASIDE_PREFIX);
        if name != DirLock::NAME && !(is_model && (left || OF_A_MODEL.contains(&name.as_str()))) {
            return not(format!("it holds `{name}`, which is not of a model directory"));
        }
    }
    let place = fs_err::canonicalize(out)?;
    // A working directory that was removed, or cannot be read, is not compared: the empty path does not exist.
    let working = std::env::current_dir().unwrap_or_default();
    for (path, what) in read.iter().map(|path| (*path, "which is read")).chain([(&*working, "where you are")])
    {
        if fs_err::canonicalize(path).is_ok_and(|path| path.starts_with(&place)) {
            return not(format!("it is or holds {}, {what}", path.display()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_model_directory_that_is_not_read_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for name in
            ["model/question_encoder", "index", "empty", "holds/model", "site/web", "staging/.unfinished-x"]
        {
            fs_err::create_dir_all(at(name)).unwrap();
        }
        for name in ["file", "model/model.json", "model/.unfinished-web", "index/current", "holds/model.json"]
        {
            fs_err::write(at(name), "").unwrap();
        }
        let refused = |out: &str, read: &[&Path]| check(&at(out), true, read).unwrap_err().to_string();
        for out in ["missing", "model", "empty"] {
            check(&at(out), true, &[&at("holds/model")]).unwrap();
        }
        assert!(refused("file", &[]).contains("it is a file"));
        // Names of a model directory, without a model.
        assert!(refused("site", &[]).contains("it holds `web`"));
        assert!(refused("staging", &[]).contains("it holds `.unfinished-x`"));
        assert!(refused("index", &[]).contains("it holds `current`"));
        assert!(refused("model", &[&at("model")]).contains("which is read"));
        assert!(refused("model", &[&at("model/question_encoder")]).contains("which is read"));
        assert!(refused("holds", &[]).contains("it holds `model`"));
        assert!(matches!(check(&at("model"), false, &[]), Err(ModelError::Exists(_))));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_replaced() {
        let root = tempfile::tempdir().unwrap();
        let (to, link) = (root.path().join("model"), root.path().join("link"));
        fs_err::create_dir(&to).unwrap();
        std::os::unix::fs::symlink(&to, &link).unwrap();
        for path in [link.clone(), link.join("")] {
            let error = check(&path, true, &[]).unwrap_err();
            assert!(error.to_string().contains("it is a link"), "{error}");
        }
    }
}
