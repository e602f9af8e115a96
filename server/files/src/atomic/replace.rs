//! Replacing a directory by another: in one step, or in two that an interruption between them does not make a loss.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::named;

/// The prefix of a directory that holds a target which is being replaced, under its own name. It begins as
/// [`STAGING_PREFIX`](super::STAGING_PREFIX) does, so that readers skip it.
pub const ASIDE_PREFIX: &str = ".unfinished-replaced-";

/// Exchanges two names of one file system, and returns whether the system can.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(super) fn exchange(a: &Path, b: &Path) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    // Whatever the error: what else is wrong, the two renames in its place tell.
    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).is_ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(super) fn exchange(_: &Path, _: &Path) -> bool {
    false
}

/// Renames `staged` to `target` after moving that out of the way, to the directory that is returned. When it fails,
/// `target` is as it was.
pub(super) fn by_two_renames(staged: &Path, target: &Path, parent: &Path) -> io::Result<PathBuf> {
    let aside = set_aside(target, parent)?;
    match fs::rename(staged, target) {
        Ok(()) => Ok(aside),
        Err(error) => {
            recover(&aside, parent)?;
            Err(error)
        }
    }
}

/// Moves `target` out of the way, into a new directory in `parent`, which is returned.
fn set_aside(target: &Path, parent: &Path) -> io::Result<PathBuf> {
    let Some(name) = target.file_name() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let aside = tempfile::Builder::new()
        .prefix(ASIDE_PREFIX)
        .tempdir_in(parent)
        .map_err(|e| named(e, "failed to make a directory in", parent))?;
    fs::rename(target, aside.path().join(name))?;
    Ok(aside.keep())
}

/// Puts what was set aside in `aside` back into `parent` where its name is free, and removes it where it is taken: the
/// replacement is in place then.
pub(super) fn recover(aside: &Path, parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(aside)? {
        let entry = entry?;
        let target = parent.join(entry.file_name());
        if fs::symlink_metadata(&target).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            fs::rename(entry.path(), target)?;
            super::sync_dir(parent)?;
        }
    }
    fs::remove_dir_all(aside)
}

/// Puts `target` back where it is missing and was set aside.
pub(super) fn recover_target(target: &Path, parent: &Path) -> io::Result<()> {
    let Some(name) = target.file_name() else { return Ok(()) };
    if fs::symlink_metadata(target).is_ok() {
        return Ok(());
    }
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let is_aside = entry.file_name().to_string_lossy().starts_with(ASIDE_PREFIX);
        if is_aside && fs::exists(entry.path().join(name))? {
            return recover(&entry.path(), parent);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::names;
    use super::super::{StagedDir, remove_unfinished};
    use super::*;

    /// A directory with the target `t` of one file `old`, and a staged one with the file `new`.
    fn start(root: &Path) -> (PathBuf, StagedDir) {
        let target = root.join("t");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("old"), "").unwrap();
        let staged = StagedDir::beside(&target).unwrap();
        fs::write(staged.path().join("new"), "").unwrap();
        (target, staged)
    }

    /// The ways in which the next writer begins.
    const BEGINNINGS: [fn(&Path); 2] =
        [|root| remove_unfinished(root).unwrap(), |root| drop(StagedDir::beside(&root.join("t")).unwrap())];

    #[test]
    fn killed_between_the_two_renames_the_old_directory_comes_back() {
        for begin in BEGINNINGS {
            let root = tempfile::tempdir().unwrap();
            let (target, staged) = start(root.path());
            set_aside(&target, root.path()).unwrap();
            // Killed: nothing is cleaned up.
            std::mem::forget(staged);
            assert!(!target.exists());
            begin(root.path());
            assert_eq!(names(&target), ["old"]);
            assert!(!names(root.path()).iter().any(|name| name.starts_with(ASIDE_PREFIX)));
        }
    }

    #[test]
    fn killed_after_the_second_rename_the_new_directory_stays() {
        let root = tempfile::tempdir().unwrap();
        let (target, staged) = start(root.path());
        set_aside(&target, root.path()).unwrap();
        fs::rename(staged.path(), &target).unwrap();
        std::mem::forget(staged);
        for begin in BEGINNINGS.into_iter().rev() {
            begin(root.path());
            assert_eq!(names(&target), ["new"]);
        }
        assert_eq!(names(root.path()), ["t"]);
    }

    #[test]
    fn killed_before_the_first_rename_or_after_an_exchange_one_of_the_two_is_in_place() {
        let root = tempfile::tempdir().unwrap();
        let (target, staged) = start(root.path());
        std::mem::forget(staged);
        remove_unfinished(root.path()).unwrap();
        assert_eq!((names(root.path()), names(&target)), (vec!["t".to_owned()], vec!["old".to_owned()]));

        let staged = StagedDir::beside(&target).unwrap();
        fs::write(staged.path().join("new"), "").unwrap();
        if exchange(staged.path(), &target) {
            assert_eq!(
                (names(&target), names(staged.path())),
                (vec!["new".to_owned()], vec!["old".to_owned()])
            );
            std::mem::forget(staged);
            remove_unfinished(root.path()).unwrap();
            assert_eq!((names(root.path()), names(&target)), (vec!["t".to_owned()], vec!["new".to_owned()]));
        }
    }

    #[test]
    fn a_second_rename_that_fails_puts_the_old_directory_back() {
        let root = tempfile::tempdir().unwrap();
        let (target, staged) = start(root.path());
        by_two_renames(&root.path().join("missing"), &target, root.path()).unwrap_err();
        assert_eq!(names(&target), ["old"]);
        let aside = by_two_renames(staged.path(), &target, root.path()).unwrap();
        assert_eq!((names(&target), names(&aside)), (vec!["new".to_owned()], vec!["t".to_owned()]));
    }
}
