//! Directories under construction.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;
use tempfile::TempDir;

use super::{
    LikeNew as _, OpenDir, STAGING_PREFIX, create_dir_all, make_read_only, named, parent_of,
    remove_abandoned, replace,
};

/// A directory under construction beside its target; dropping it unpublished removes it.
///
/// ```no_run
/// # use dpr_files::atomic::StagedDir;
/// let staged = StagedDir::beside("data/model".as_ref())?;
/// fs_err::write(staged.path().join("model.json"), "{}")?;
/// staged.publish()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct StagedDir {
    temp: TempDir,
    target: PathBuf,
    /// The directory, locked: other writers do not take it for what a killed one left.
    _lock: Option<fs::File>,
}

impl StagedDir {
    /// Starts a directory that will become `target`; missing parents of `target` are made. Where `target` is missing
    /// because a [`replace`](Self::replace) of it was interrupted, it is put back first; what killed writers left
    /// beside it is removed.
    ///
    /// # Errors
    /// An I/O error that names the path, as when the parent cannot be written to, or `target` is a file or a link, or
    /// has no name of its own, as `.` and `..`.
    pub fn beside(target: &Path) -> io::Result<Self> {
        // Without a slash at its end, which would make a link its target.
        let target = target.components().as_path();
        if target.file_name().is_none() {
            let reason = "it has no name of its own: give the directory by its name";
            return Err(named(
                io::Error::new(io::ErrorKind::InvalidInput, reason),
                "failed to write",
                target,
            ));
        }
        refuse_file(target)?;
        let parent = parent_of(target);
        create_dir_all(&parent)?;
        replace::recover_target(target, &parent)?;
        remove_abandoned(&parent);
        let temp = tempfile::Builder::new()
            .prefix(STAGING_PREFIX)
            .permissions_like_a_new_dir()
            .tempdir_in(&parent)
            .map_err(|e| named(e, "failed to make a directory in", &parent))?;
        // A directory that could not be locked may be removed once nothing in it was written for a day.
        let lock = fs::File::open(temp.path()).ok().filter(|dir| dir.file().try_lock().is_ok());
        Ok(Self { temp, target: target.to_path_buf(), _lock: lock })
    }

    /// Returns the directory to write in.
    pub fn path(&self) -> &Path {
        self.temp.path()
    }

    /// Makes every file in it read-only, as [`make_read_only`] does.
    ///
    /// # Errors
    /// An I/O error that names the path.
    pub fn make_files_read_only(&self) -> io::Result<()> {
        for_each_file(self.temp.path(), &|file| make_read_only(file))
    }

    /// Syncs everything and renames to the target, which must not exist or be an empty directory.
    ///
    /// # Errors
    /// An I/O error that names the path; the target is then as it was, and the staged files are removed, unless the
    /// rename was done and could not be synced.
    pub fn publish(self) -> io::Result<()> {
        let parent = OpenDir::open(&parent_of(&self.target))?;
        sync_tree(self.temp.path())?;
        fs::rename(self.temp.path(), &self.target)?;
        let _ = self.temp.keep(); // it has been renamed: nothing is left to remove
        parent.sync()
    }

    /// As [`StagedDir::publish`], but takes the place of a target that exists, in one step where the system can
    /// exchange two names.
    ///
    /// Where it cannot (some network file systems), there are two renames. Between them the target is missing for an
    /// instant; the old directory is put back when the second one fails, and by [`StagedDir::beside`] and
    /// [`remove_unfinished`](super::remove_unfinished) after a kill. A reader that cannot live with that instant
    /// needs a pointer file, as the index has.
    ///
    /// # Errors
    /// As [`StagedDir::publish`].
    pub fn replace(self) -> io::Result<()> {
        refuse_file(&self.target)?;
        let dir = parent_of(&self.target);
        let parent = OpenDir::open(&dir)?;
        sync_tree(self.temp.path())?;
        if !fs::exists(&self.target)? {
            match fs::rename(self.temp.path(), &self.target) {
                Ok(()) => {
                    let _ = self.temp.keep(); // as in `publish`
                    return parent.sync();
                }
                // Target made by another writer since the check: it is replaced below.
                Err(error) if is_taken(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if replace::exchange(self.temp.path(), &self.target) {
            // What was at the target goes with the temporary directory, once its successor is there for good.
            return parent.sync().inspect_err(|_| drop(self.temp.keep()));
        }
        let aside = replace::by_two_renames(self.temp.path(), &self.target, &dir)?;
        let _ = self.temp.keep();
        parent.sync()?;
        // What stays of it is removed by `remove_unfinished`.
        let _ = fs::remove_dir_all(aside);
        Ok(())
    }
}

/// Returns `true` for the error of a rename to a directory that is not empty.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists)
}

/// Refuses a target that is a file or a link: its name would be exchanged like a directory's, and what it was be lost.
fn refuse_file(target: &Path) -> io::Result<()> {
    match fs::symlink_metadata(target) {
        Ok(kind) if !kind.is_dir() => {
            let what = if kind.is_symlink() { "link" } else { "file" };
            let what = format!("it is a {what}, and only a directory is replaced");
            Err(named(io::Error::new(io::ErrorKind::NotADirectory, what), "failed to write", target))
        }
        _ => Ok(()),
    }
}

fn sync_tree(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        } else {
            fs::File::open(entry.path())?.sync_all()?;
        }
    }
    super::sync_dir(dir)
}

fn for_each_file(dir: &Path, act: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => for_each_file(&entry.path(), act)?,
            false => act(&entry.path())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::names;
    use super::*;

    #[test]
    fn a_file_is_not_replaced_by_a_directory() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("passages.tsv");
        fs::write(&target, "mine").unwrap();
        let error = StagedDir::beside(&target).unwrap_err();
        assert!(error.to_string().contains("passages.tsv`: it is a file"), "{error}");
        // One that was made meanwhile.
        let other = root.path().join("other");
        let staged = StagedDir::beside(&other).unwrap();
        fs::write(&other, "mine").unwrap();
        staged.replace().unwrap_err();
        fs::remove_file(&other).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
        assert_eq!(names(root.path()), ["passages.tsv"]);
    }

    #[test]
    fn a_target_without_a_name_of_its_own_is_refused_at_once() {
        for target in [".", "..", "/", "./..", ""] {
            let error = StagedDir::beside(Path::new(target)).unwrap_err().to_string();
            assert!(error.contains("it has no name of its own: give the directory by its name"), "{error}");
        }
    }

    #[test]
    fn a_dropped_directory_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let staged = StagedDir::beside(&root.path().join("deep/target")).unwrap();
        fs::write(staged.path().join("a"), "1").unwrap();
        drop(staged);
        assert!(names(&root.path().join("deep")).is_empty());
    }

    #[test]
    fn publish_moves_all_and_refuses_a_full_target() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("t");
        let staged = StagedDir::beside(&target).unwrap();
        fs::create_dir(staged.path().join("sub")).unwrap();
        fs::write(staged.path().join("sub/a"), "1").unwrap();
        staged.publish().unwrap();
        assert_eq!(fs::read_to_string(target.join("sub/a")).unwrap(), "1");

        let second = StagedDir::beside(&target).unwrap();
        fs::write(second.path().join("b"), "2").unwrap();
        assert!(second.publish().is_err());
        assert_eq!(names(root.path()), ["t"]);
        assert_eq!(names(&target), ["sub"]);
    }

    #[test]
    fn of_writers_that_replace_one_new_target_at_once_all_succeed() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir(at("a")).unwrap();
        fs::create_dir(at("b")).unwrap();
        if !replace::exchange(&at("a"), &at("b")) {
            return; // Without an exchange there are two renames, of which one writer may meet another's.
        }
        for round in 0..20 {
            let (target, barrier) = (at(&format!("t{round}")), std::sync::Barrier::new(4));
            std::thread::scope(|scope| {
                for writer in 0..4 {
                    let (target, barrier) = (&target, &barrier);
                    scope.spawn(move || {
                        let staged = StagedDir::beside(target).unwrap();
                        fs::write(staged.path().join("f"), format!("{writer}")).unwrap();
                        barrier.wait();
                        staged.replace().unwrap();
                    });
                }
            });
            assert_eq!(names(&target), ["f"]);
        }
        assert_eq!(names(root.path()).len(), 22, "nothing is left of the others");
    }

    #[test]
    fn replace_swaps_the_whole_directory() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("t");
        for name in ["a", "b"] {
            let staged = StagedDir::beside(&target).unwrap();
            fs::write(staged.path().join(name), name).unwrap();
            staged.replace().unwrap();
        }
        assert_eq!(names(&target), ["b"]);
        assert_eq!(names(root.path()), ["t"]);
    }
}
