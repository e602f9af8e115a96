//! Files and directories that appear whole or not at all.
//!
//! A crash, a full disk or Ctrl-C in the middle of writing must leave what was there before. Both forms
//! here write beside the target, on the same file system, sync what they wrote, and publish by one rename.
//!
//! The directory of the target is opened before anything is renamed in it: a process that runs out of file descriptors
//! meanwhile can still sync the rename, and one that has none left fails before it.

mod output;
mod replace;
mod staged;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;
use tempfile::NamedTempFile;

pub use output::{check_output, is_same_output, write_output};
pub use replace::ASIDE_PREFIX;
pub use staged::StagedDir;

/// The prefix of the names of unfinished files and directories; readers skip them, writers may remove them.
pub const STAGING_PREFIX: &str = ".unfinished-";

/// Age at which an unfinished file that nobody has locked is taken as left behind.
const ABANDONED_AFTER: Duration = Duration::from_secs(10);

/// Age of the newest file in an unfinished directory at which the directory is taken as left behind.
const DIRECTORY_ABANDONED_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Writes a file whole: `write` fills a temporary one, which is synced and renamed to `path`. What killed writers left
/// beside it is removed. Whatever else is at `path` is replaced, a link too: paths that users give are for
/// [`write_output`].
///
/// # Errors
/// What `write` returns, or an I/O error that names the path; `path` is then as it was, unless the rename was done and
/// could not be synced.
pub fn write_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    write_file_with(path, None, write)
}

/// As [`write_file`], with these permissions from the beginning; without them, with those of a new file.
fn write_file_with(
    path: &Path,
    permissions: Option<std::fs::Permissions>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    // Said before hours of work, not by the last rename.
    if path.is_dir() {
        return Err(named(io::ErrorKind::IsADirectory.into(), "failed to write", path));
    }
    let parent = parent_of(path);
    let dir = OpenDir::open(&parent)?;
    remove_abandoned(&parent);
    let mut temp = tempfile::Builder::new()
        .prefix(STAGING_PREFIX)
        .permissions_like_a_new_file()
        .tempfile_in(&parent)
        .map_err(|e| named(e, "failed to make a file in", &parent))?;
    if let Some(permissions) = permissions {
        match temp.as_file().set_permissions(permissions) {
            // Some file systems have no permissions to set.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            set => set.map_err(|e| named(e, "failed to set the permissions of a file in", &parent))?,
        }
    }
    // Tells other writers that this one lives; where files cannot be locked, theirs stay as ours does.
    let _ = temp.as_file().try_lock();
    fill(&mut temp, write).map_err(|e| named(e, "failed to write", path))?;
    temp.persist(path).map_err(|e| named(e.error, "failed to rename to", path))?;
    dir.sync()
}

/// Writes a file whole that only its owner can read, where nothing is at `path`: else it changes nothing and returns
/// `false`, also where another writer was quicker.
///
/// # Errors
/// An I/O error that names the path.
pub fn write_new_secret(path: &Path, content: &[u8]) -> io::Result<bool> {
    let parent = parent_of(path);
    let dir = OpenDir::open(&parent)?;
    remove_abandoned(&parent);
    let mut temp = tempfile::Builder::new()
        .prefix(STAGING_PREFIX)
        .tempfile_in(&parent)
        .map_err(|e| named(e, "failed to make a file in", &parent))?;
    // As in `write_file`.
    let _ = temp.as_file().try_lock();
    fill(&mut temp, |out| out.write_all(content)).map_err(|e| named(e, "failed to write", path))?;
    match temp.persist_noclobber(path) {
        Ok(_) => dir.sync().map(|()| true),
        Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(named(e.error, "failed to rename to", path)),
    }
}

fn fill(temp: &mut NamedTempFile, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(1 << 20, temp.as_file_mut());
    write(&mut out)?;
    out.flush()?;
    drop(out);
    temp.as_file().sync_all()
}

/// Removes files and directories that killed writers left in `dir`: those that no process holds a lock on, and that are
/// not so new that their writer may not have locked them yet, or may have locked them on another machine: network file
/// systems lock directories on one alone. What [`StagedDir::replace`] set aside is not touched: it may be all that is
/// left of its target. Errors are ignored: what stays is tried again by the next writer.
fn remove_abandoned(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|entry| is_staging(&entry.file_name().to_string_lossy())) {
        let path = entry.path();
        let Ok(kind) = fs::symlink_metadata(&path) else { continue };
        let is_old = if kind.is_file() {
            is_older(&kind, ABANDONED_AFTER)
        } else {
            kind.is_dir() && is_older_tree(&path, DIRECTORY_ABANDONED_AFTER)
        };
        // The lock is held until everything is removed. Windows cannot open directories: they stay there.
        if is_old
            && let Ok(file) = fs::File::open(&path)
            && file.file().try_lock().is_ok()
        {
            let _ = if kind.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
    }
}

/// Returns whether a name is one that [`write_file`] or [`StagedDir`] draws: the prefix and six letters or digits.
fn is_staging(name: &str) -> bool {
    name.strip_prefix(STAGING_PREFIX)
        .is_some_and(|drawn| drawn.len() == 6 && drawn.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

fn is_older(file: &std::fs::Metadata, limit: Duration) -> bool {
    file.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > limit))
}

/// Returns whether a directory and all in it is older; `false` where that cannot be said.
fn is_older_tree(path: &Path, limit: Duration) -> bool {
    let Ok(kind) = fs::symlink_metadata(path) else { return false };
    let entries = || fs::read_dir(path).ok()?.collect::<io::Result<Vec<_>>>().ok();
    is_older(&kind, limit)
        && (!kind.is_dir()
            || entries().is_some_and(|all| all.iter().all(|entry| is_older_tree(&entry.path(), limit))))
}

/// Removes what an interrupted [`StagedDir`] or [`write_file`] left in `dir`, and puts a directory back that an
/// interrupted [`StagedDir::replace`] had set aside. Only for a writer that has locked `dir`: another writer's
/// unfinished files look the same.
///
/// # Errors
/// An I/O error that names the path.
pub fn remove_unfinished(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(replace::ASIDE_PREFIX) {
            replace::recover(&entry.path(), dir)?;
        } else if name.starts_with(STAGING_PREFIX) {
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
    }
    Ok(())
}

/// Makes `dir` and its parents where they are missing, and makes their names durable.
///
/// # Errors
/// An I/O error that names the path.
pub fn create_dir_all(dir: &Path) -> io::Result<()> {
    let missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let made: Vec<&Path> = dir.ancestors().take_while(missing).collect();
    fs::create_dir_all(dir)?;
    for dir in made.into_iter().rev() {
        match sync_dir(&parent_of(dir)) {
            // A directory may be written to by someone who may not list it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced?,
        }
    }
    Ok(())
}

/// Checks that files can be made in `dir` by making one and removing it at once, before long work that writes there.
///
/// # Errors
/// An I/O error that names the directory.
pub fn check_writable(dir: &Path) -> io::Result<()> {
    let made = tempfile::Builder::new().prefix(STAGING_PREFIX).tempfile_in(dir);
    made.map(drop).map_err(|e| named(e, "failed to make a file in", dir))
}

/// Makes the names in `dir` durable.
///
/// # Errors
/// An I/O error that names the path.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    OpenDir::open(dir)?.sync()
}

/// Takes the right to write to a file from everybody, its owner too: for files that are mapped and never written to
/// again. Does nothing where the file belongs to somebody else, or where a file that may not be written to cannot be
/// removed either.
///
/// # Errors
/// An I/O error that names the path.
pub fn make_read_only(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(path)?.permissions().mode();
        match fs::set_permissions(path, std::fs::Permissions::from_mode(mode & !0o222)) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            done => done?,
        }
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Lets all read the files in a directory who may read the directory itself: for the files of a library that writes
/// them as `tempfile` does, readable by the owner only. Does nothing where permissions are not those of Unix.
///
/// # Errors
/// An I/O error that names the path.
pub fn make_files_readable(dir: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let readers = fs::metadata(dir)?.permissions().mode() & 0o444;
        for entry in fs::read_dir(dir)? {
            let (path, mode) =
                entry.and_then(|entry| Ok((entry.path(), entry.metadata()?.permissions().mode())))?;
            if mode & readers != readers {
                fs::set_permissions(path, std::fs::Permissions::from_mode(mode | readers))?;
            }
        }
    }
    #[cfg(not(unix))]
    let _ = dir;
    Ok(())
}

/// An open directory. Syncing it takes no further descriptor.
#[derive(Debug)]
struct OpenDir {
    #[cfg(unix)]
    file: fs::File,
}

impl OpenDir {
    #[cfg(unix)]
    fn open(dir: &Path) -> io::Result<Self> {
        Ok(Self { file: fs::File::open(dir)? })
    }

    /// Makes the names in it durable.
    #[cfg(unix)]
    fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    // Windows cannot open a directory as a file; its renames are journalled.
    #[cfg(not(unix))]
    fn open(_: &Path) -> io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the directory that holds `path`: "" means the current one.
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

    pub(super) fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
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
    fn a_secret_is_its_owner_s_alone_and_takes_no_file_s_place() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("key");
        assert!(write_new_secret(&path, b"first").unwrap());
        assert!(!write_new_secret(&path, b"second").unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(names(root.path()), ["key"]);
    }

    /// Makes a file or a directory that was last written to this long ago.
    #[cfg(unix)]
    fn age(path: &Path, hours: u64) {
        let at = std::time::SystemTime::now() - Duration::from_secs(hours * 3600);
        fs::File::open(path).unwrap().file().set_modified(at).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn what_a_killed_writer_left_is_removed_by_the_next_and_a_living_one_is_not() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: &str| fs::File::create(root.path().join(name)).unwrap();
        let living = make(".unfinished-living");
        living.file().try_lock().unwrap();
        // The last one's name is not drawn by a writer.
        for name in [".unfinished-living", ".unfinished-killed", ".unfinished-novel.txt"] {
            drop(fs::OpenOptions::new().append(true).create(true).open(root.path().join(name)).unwrap());
            age(&root.path().join(name), 1);
        }
        make(".unfinished-newone");
        write_file(&root.path().join("f"), |out| out.write_all(b"x")).unwrap();
        assert_eq!(
            names(root.path()),
            [".unfinished-living", ".unfinished-newone", ".unfinished-novel.txt", "f"]
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_a_killed_writer_left_is_removed_by_the_next_and_a_living_one_is_not() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let living = StagedDir::beside(&at("living")).unwrap();
        fs::write(living.path().join("a"), "1").unwrap();
        for name in [".unfinished-killed", ".unfinished-remote", ".unfinished-replaced-x"] {
            fs::create_dir_all(at(name).join("web")).unwrap();
            fs::write(at(name).join("web/model"), "").unwrap();
            for path in ["web/model", "web", ""] {
                age(&at(name).join(path), 25);
            }
        }
        // Written to by a process of another machine, which has no lock here.
        age(&at(".unfinished-remote/web/model"), 23);
        age(&living.path().join("a"), 25);
        age(living.path(), 25);
        write_file(&at("f"), |out| out.write_all(b"x")).unwrap();
        let kept = living.path().file_name().unwrap().to_str().unwrap();
        let mut expected = [".unfinished-remote", ".unfinished-replaced-x", kept, "f"];
        expected.sort_unstable();
        assert_eq!(names(root.path()), expected);
        living.publish().unwrap();
        assert_eq!(fs::read_to_string(at("living/a")).unwrap(), "1");
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

    #[test]
    fn missing_parents_are_made_and_a_file_in_their_place_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b/c");
        create_dir_all(&deep).unwrap();
        create_dir_all(&deep).unwrap();
        assert!(deep.is_dir());
        fs::write(root.path().join("f"), "").unwrap();
        assert!(create_dir_all(&root.path().join("f/g")).unwrap_err().to_string().contains("f/g"));
    }

    #[cfg(unix)]
    #[test]
    fn nobody_may_write_to_a_file_that_was_made_read_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("f");
        write_file(&path, |out| out.write_all(b"x")).unwrap();
        make_read_only(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!((mode & 0o222, mode & 0o400), (0, 0o400));
        // It is replaced as any other file is.
        write_file(&path, |out| out.write_all(b"y")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "y");
    }
}
