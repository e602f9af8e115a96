//! Output files: those whose paths users give, which may lead to anything.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::{named, parent_of, write_file_with};

/// Writes a file whose path a user gave, as [`write_file`](super::write_file) does. A link stays, and the file that it
/// leads to is written; [`write_file`](super::write_file), which is for a program's own directories, takes the place of
/// a link. A file that takes the place of another may be read, written to and run by those who might do so with that
/// one, where permissions are those of Unix.
///
/// # Errors
/// As [`write_file`](super::write_file) and [`check_output`].
pub fn write_output(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let target = target(path)?;
    let permissions = permissions(&target);
    write_file_with(&target, permissions, write)
}

/// Returns the permissions of a file; `None` for one that is not there.
#[cfg(unix)]
fn permissions(file: &Path) -> Option<std::fs::Permissions> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(file).ok()?.permissions().mode();
    Some(std::fs::Permissions::from_mode(mode & 0o777))
}

#[cfg(not(unix))]
fn permissions(_: &Path) -> Option<std::fs::Permissions> {
    None
}

/// Checks that [`write_output`] can take a path, before long work whose result goes there.
///
/// # Errors
/// An I/O error that names the path: a directory, or a device, a pipe or a socket, which a file would replace.
pub fn check_output(path: &Path) -> io::Result<()> {
    target(path).map(drop)
}

/// Returns whether [`write_output`] writes one file for both paths, which may name it through links and `..`.
///
/// # Errors
/// As [`check_output`].
pub fn is_same_output(one: &Path, other: &Path) -> io::Result<bool> {
    Ok(resolved(one)? == resolved(other)?)
}

/// Returns the absolute path of the file that is written for this path, with no link in it.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    let target = target(path)?;
    let parent = parent_of(&target);
    // A directory that is not there is the error of whoever writes into it.
    let parent = fs::canonicalize(&parent).or_else(|_| std::path::absolute(&parent))?;
    Ok(match target.file_name() {
        Some(name) => parent.join(name),
        None => parent,
    })
}

/// Returns the file that is written for this path: where a link leads, or the path itself.
fn target(path: &Path) -> io::Result<PathBuf> {
    let is_link = || fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    match fs::metadata(path) {
        Ok(found) if found.is_file() && is_link() => fs::canonicalize(path),
        Ok(found) if found.is_file() => Ok(path.to_path_buf()),
        Ok(found) if found.is_dir() => {
            Err(named(io::ErrorKind::IsADirectory.into(), "failed to write", path))
        }
        Ok(_) => {
            let reason =
                "it is a device, a pipe or a socket, whose place a file would take: give the path of a file";
            Err(named(io::Error::new(io::ErrorKind::InvalidInput, reason), "failed to write", path))
        }
        // What the link leads to is not there yet. Links in a circle are an error of another kind.
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_link() => {
            target(&parent_of(path).join(fs::read_link(path)?))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path.to_path_buf()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::names;
    #[cfg(unix)]
    use super::super::write_file;
    use super::*;

    #[test]
    fn an_output_is_written_as_any_file_and_a_directory_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("f");
        for text in ["old", "new"] {
            write_output(&path, |out| out.write_all(text.as_bytes())).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        for error in
            [write_output(root.path(), |_| Ok(())).unwrap_err(), check_output(root.path()).unwrap_err()]
        {
            assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
            assert!(error.to_string().contains(root.path().to_str().unwrap()), "{error}");
        }
        assert_eq!(names(root.path()), ["f"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_replaced_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        fs::write(at("f"), "old").unwrap();
        std::os::unix::fs::symlink("f", at("link")).unwrap();
        for (name, kept) in [("f", 0o600), ("link", 0o640), ("f", 0o444), ("f", 0o775)] {
            fs::set_permissions(at("f"), std::fs::Permissions::from_mode(kept)).unwrap();
            write_output(&at(name), |out| out.write_all(b"new")).unwrap();
            assert_eq!(mode(&at("f")), kept, "{name} {kept:o}");
        }
        fs::write(at("any"), "").unwrap();
        write_output(&at("new"), |out| out.write_all(b"new")).unwrap();
        assert_eq!(mode(&at("new")), mode(&at("any")));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_what_it_leads_to_is_written() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, at(name)).unwrap();
        fs::create_dir(at("disk")).unwrap();
        fs::write(at("disk/there"), "old").unwrap();
        link("disk/there", "to-there");
        link("disk/new", "to-new");
        link("to-newer", "to-link");
        link("disk/newer", "to-newer");
        for (name, file) in [("to-there", "disk/there"), ("to-new", "disk/new"), ("to-link", "disk/newer")] {
            check_output(&at(name)).unwrap();
            write_output(&at(name), |out| out.write_all(name.as_bytes())).unwrap();
            assert_eq!(fs::read_to_string(at(file)).unwrap(), name);
            assert!(!fs::symlink_metadata(at(file)).unwrap().is_symlink());
            assert!(fs::symlink_metadata(at(name)).unwrap().is_symlink());
        }
        link("circle", "circle");
        let error = write_output(&at("circle"), |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("circle"), "{error}");
        assert_eq!(names(root.path()), ["circle", "disk", "to-link", "to-new", "to-newer", "to-there"]);
        // In a directory of the program's own, what somebody else put there is not written through.
        write_file(&at("to-there"), |out| out.write_all(b"own")).unwrap();
        assert!(!fs::symlink_metadata(at("to-there")).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(at("disk/there")).unwrap(), "to-there");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_known_by_each_path_that_leads_to_it() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        std::os::unix::fs::symlink("same", at("link")).unwrap();
        std::os::unix::fs::symlink("sub", at("dir")).unwrap();
        for there in [false, true] {
            if there {
                fs::write(at("same"), "").unwrap();
                fs::write(at("sub/f"), "").unwrap();
            }
            for (one, other) in [("same", "sub/../same"), ("same", "link"), ("sub/f", "dir/f")] {
                assert!(is_same_output(&at(one), &at(other)).unwrap(), "{one} {other}");
            }
            for (one, other) in [("same", "sub/same"), ("link", "sub/f"), ("none/f", "f")] {
                assert!(!is_same_output(&at(one), &at(other)).unwrap(), "{one} {other}");
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn pipes_sockets_and_devices_are_refused_and_stay() {
        use std::os::unix::fs::FileTypeExt as _;
        let root = tempfile::tempdir().unwrap();
        let [pipe, socket, link] = ["pipe", "socket", "link"].map(|name| root.path().join(name));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        for path in [&pipe, &socket, &link] {
            for error in [write_output(path, |_| Ok(())).unwrap_err(), check_output(path).unwrap_err()] {
                let error = error.to_string();
                assert!(error.contains(path.to_str().unwrap()), "{error}");
                assert!(
                    error.contains("a pipe or a socket") && error.contains("the path of a file"),
                    "{error}"
                );
            }
        }
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        assert!(fs::symlink_metadata(&socket).unwrap().file_type().is_socket());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(names(root.path()), ["link", "pipe", "socket"]);
    }
}
