//! Files and directories that appear whole or not at all.
//!
//! A crash, a full disk or Ctrl-C in the middle of writing must leave what was there before. Both forms
//! here write beside the target, on the same file system, sync what they wrote, and publish by one rename.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use tempfile::{NamedTempFile, TempDir};

/// The prefix of the names of unfinished files and directories; readers skip them, writers may remove them.
pub const STAGING_PREFIX: &str = ".unfinished-";

/// Age at which an unfinished file that nobody has locked is taken as left behind.
const ABANDONED_AFTER: Duration = Duration::from_secs(10);

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
}

impl StagedDir {
    /// Starts a directory that will become `target`; missing parents of `target` are made.
    ///
    /// # Errors
    /// An I/O error that names the path, as when the parent cannot be written to.
    pub fn beside(target: &Path) -> io::Result<Self> {
        let parent = parent_of(target);
        fs::create_dir_all(&parent)?;
        let temp = tempfile::Builder::new()
            .prefix(STAGING_PREFIX)
            .permissions_like_a_new_dir()
            .tempdir_in(&parent)
            .map_err(|e| named(e, "failed to make a directory in", &parent))?;
        Ok(Self { temp, target: target.to_path_buf() })
    }

    /// Returns the directory to write in.
    pub fn path(&self) -> &Path {
        self.temp.path()
    }

    /// Syncs everything and renames to the target, which must not exist or be an empty directory.
    ///
    /// # Errors
    /// An I/O error that names the path; the target is then as it was, and the staged files are removed.
    pub fn publish(self) -> io::Result<()> {
        sync_tree(self.temp.path())?;
        fs::rename(self.temp.path(), &self.target)?;
        let _ = self.temp.keep(); // it has been renamed: nothing is left to remove
        sync_dir(&parent_of(&self.target))
    }

    /// As [`StagedDir::publish`], but takes the place of a target that exists.
    ///
    /// Two renames: between them the target is missing for an instant, and the old directory is put back when
    /// the second one fails. A reader that cannot live with that instant needs a pointer file, as the index has.
    ///
    /// # Errors
    /// As [`StagedDir::publish`].
    pub fn replace(self) -> io::Result<()> {
        if !fs::exists(&self.target)? {
            return self.publish();
        }
        sync_tree(self.temp.path())?;
        let parent = parent_of(&self.target);
        let old = tempfile::Builder::new()
            .prefix(STAGING_PREFIX)
            .tempdir_in(&parent)
            .map_err(|e| named(e, "failed to make a directory in", &parent))?;
        let aside = old.path().join("old");
        fs::rename(&self.target, &aside)?;
        if let Err(error) = fs::rename(self.temp.path(), &self.target) {
            fs::rename(&aside, &self.target)?;
            return Err(error);
        }
        let _ = self.temp.keep();
        sync_dir(&parent)
    }
}

/// Writes a file whole: `write` fills a temporary one, which is synced and renamed to `path`. What killed writers left
/// beside it is removed.
///
/// # Errors
/// What `write` returns, or an I/O error that names the path; `path` is then as it was.
pub fn write_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    // Said before hours of work, not by the last rename.
    if path.is_dir() {
        return Err(named(io::ErrorKind::IsADirectory.into(), "failed to write", path));
    }
    let parent = parent_of(path);
    remove_abandoned(&parent);
    let mut temp = tempfile::Builder::new()
        .prefix(STAGING_PREFIX)
        .permissions_like_a_new_file()
        .tempfile_in(&parent)
        .map_err(|e| named(e, "failed to make a file in", &parent))?;
    // Tells other writers that this one lives; where files cannot be locked, theirs stay as ours does.
    let _ = temp.as_file().try_lock();
    fill(&mut temp, write).map_err(|e| named(e, "failed to write", path))?;
    temp.persist(path).map_err(|e| named(e.error, "failed to rename to", path))?;
    sync_dir(&parent)
}

fn fill(temp: &mut NamedTempFile, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(1 << 20, temp.as_file_mut());
    write(&mut out)?;
    out.flush()?;
    drop(out);
    temp.as_file().sync_all()
}

/// Removes files that killed writers left in `dir`: those that no process holds a lock on, and that are not so new
/// that their writer may not have locked them yet. Best effort: it is not what the caller came for.
fn remove_abandoned(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(STAGING_PREFIX)) {
        let is_old_file = entry.metadata().is_ok_and(|file| {
            file.is_file()
                && file.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED_AFTER))
        });
        if is_old_file
            && let Ok(file) = fs::File::open(entry.path())
            && file.file().try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Removes what an interrupted [`StagedDir`] or [`write_file`] left in `dir`. Only for a writer that has
/// locked `dir`: another writer's unfinished files look the same.
///
/// # Errors
/// An I/O error that names the path.
pub fn remove_unfinished(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(STAGING_PREFIX) {
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
    }
    Ok(())
}

/// Makes the names in `dir` durable.
///
/// # Errors
/// An I/O error that names the path.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    // Windows cannot open a directory as a file; its renames are journalled.
    if cfg!(unix) { fs::File::open(dir)?.sync_all() } else { Ok(()) }
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
    sync_dir(dir)
}

/// The directory that holds `path`: "" means the current one.
fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Adds the path to an I/O error and keeps its kind, as `fs_err` does.
fn named(error: io::Error, what: &str, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{what} `{}`: {error}", path.display()))
}

/// `tempfile` makes its files readable by the owner only; what is published must be readable as any other file.
trait LikeNew {
    fn permissions_like_a_new_dir(&mut self) -> &mut Self;
    fn permissions_like_a_new_file(&mut self) -> &mut Self;
}

impl LikeNew for tempfile::Builder<'_, '_> {
    #[cfg(unix)]
    fn permissions_like_a_new_dir(&mut self) -> &mut Self {
        use std::os::unix::fs::PermissionsExt as _;
        self.permissions(std::fs::Permissions::from_mode(0o777)) // the umask applies
    }

    #[cfg(unix)]
    fn permissions_like_a_new_file(&mut self) -> &mut Self {
        use std::os::unix::fs::PermissionsExt as _;
        self.permissions(std::fs::Permissions::from_mode(0o666))
    }

    #[cfg(not(unix))]
    fn permissions_like_a_new_dir(&mut self) -> &mut Self {
        self
    }

    #[cfg(not(unix))]
    fn permissions_like_a_new_file(&mut self) -> &mut Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
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

    #[test]
    fn a_failed_write_keeps_the_old_file() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("f");
        write_file(&path, |out| out.write_all(b"old")).unwrap();
        let failed = write_file(&path, |out| {
            out.write_all(b"new")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        let error = failed.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains(path.to_str().unwrap()));
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names(root.path()), ["f"]);
    }

    #[test]
    fn what_a_killed_writer_left_is_removed_by_the_next_and_a_living_one_is_not() {
        let root = tempfile::tempdir().unwrap();
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
        let make = |name: &str| {
            let file = fs::File::create(root.path().join(name)).unwrap();
            file.file().set_modified(long_ago).unwrap();
            file
        };
        let living = make(".unfinished-living");
        living.file().try_lock().unwrap();
        drop(make(".unfinished-dead"));
        fs::File::create(root.path().join(".unfinished-new")).unwrap();
        write_file(&root.path().join("f"), |out| out.write_all(b"x")).unwrap();
        assert_eq!(names(root.path()), [".unfinished-living", ".unfinished-new", "f"]);
    }

    #[test]
    fn unfinished_leftovers_are_removed_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join(".unfinished-x")).unwrap();
        fs::write(root.path().join(".unfinished-y"), "").unwrap();
        fs::write(root.path().join("keep"), "").unwrap();
        remove_unfinished(root.path()).unwrap();
        assert_eq!(names(root.path()), ["keep"]);
    }
}
