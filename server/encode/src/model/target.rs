//! The place of a new model directory.

use std::path::Path;

use dpr_files::Error as FileError;

use super::pair::{CROSS_ENCODER_DIR, READER_DIR};
use super::web::WEB_DIR;
use super::{MANIFEST, ModelError, PASSAGE_DIR, QUESTION_DIR};

/// Refuses an output that exists. With `force` it may be a model directory, or an empty one, which is replaced; not one
/// that holds anything else, one of the directories that are `read` for it, or the working directory.
///
/// # Errors
/// [`ModelError::Exists`] and [`ModelError::NotReplaced`].
pub(super) fn check(out: &Path, force: bool, read: &[&Path]) -> Result<(), ModelError> {
    let Ok(kind) = fs_err::symlink_metadata(out) else { return Ok(()) };
    if !force {
        return Err(ModelError::Exists(out.into()));
    }
    let not = |why: String| Err(ModelError::NotReplaced { out: out.into(), why });
    if !kind.is_dir() {
        return not("it is no directory".to_owned());
    }
    let is_of_a_model = |name: &str| {
        [MANIFEST, QUESTION_DIR, PASSAGE_DIR, CROSS_ENCODER_DIR, READER_DIR, WEB_DIR].contains(&name)
    };
    match dpr_files::refuse_foreign(out, is_of_a_model) {
        Err(FileError::Foreign { name, .. }) => {
            return not(format!("it holds `{name}`, which is not of a model directory"));
        }
        checked => checked.map_err(std::io::Error::other)?,
    }
    let place = fs_err::canonicalize(out)?;
    let working = std::env::current_dir()?;
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
        for name in ["model/question_encoder", "index", "empty", "holds/model"] {
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
        assert!(refused("file", &[]).contains("it is no directory"));
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
        assert!(matches!(check(&link, true, &[]), Err(ModelError::NotReplaced { .. })));
    }
}
