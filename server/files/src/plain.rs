//! Plain files, opened and read within a limit. A path in a directory that somebody else made may lead to a pipe, whose
//! reader waits for ever, or to a device or a file of holes, which has no end that fits memory.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use fs_err as fs;

/// The most bytes of a file that describes others: a manifest, a configuration.
pub const DESCRIPTION: u64 = 16 << 20;

/// A path that is not a plain file, where one must be.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} is not a plain file but a link, a device, a pipe or a directory: put the file that was written in its place, or \
     remove it",
    .0.display()
)]
pub struct NotPlain(pub PathBuf);

/// A file that is longer than what is read of it.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} has more than {limit} bytes, the most that is read of it: it is not the file that was written, put that in its \
     place",
    path.display()
)]
pub struct TooLong {
    /// The file.
    pub path: PathBuf,
    /// The most bytes that are read.
    pub limit: u64,
}

impl From<NotPlain> for io::Error {
    fn from(error: NotPlain) -> Self {
        Self::new(io::ErrorKind::InvalidInput, error)
    }
}

impl From<TooLong> for io::Error {
    fn from(error: TooLong) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

/// Opens a plain file, or a link to one, for reading.
///
/// # Errors
/// [`NotPlain`], or an I/O error that names the path.
pub fn open(path: &Path) -> io::Result<fs::File> {
    open_with(fs::OpenOptions::new().read(true), path)
}

/// Opens a plain file, or a link to one, with these options.
///
/// # Errors
/// As [`open`].
pub fn open_with(options: &mut fs::OpenOptions, path: &Path) -> io::Result<fs::File> {
    // Before it is opened, which does something to some devices; what takes its place meanwhile is seen below.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(NotPlain(path.to_path_buf()).into());
    }
    #[cfg(unix)]
    {
        use fs_err::os::unix::fs::OpenOptionsExt as _;
        // Otherwise opening a pipe waits for its writer. To a plain file the flag says nothing.
        options.custom_flags(libc::O_NONBLOCK);
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(NotPlain(path.to_path_buf()).into()) }
}

/// Reads a plain file, or a link to one, of at most `limit` bytes.
///
/// # Errors
/// [`NotPlain`], [`TooLong`], or an I/O error that names the path.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let too_long = || TooLong { path: path.to_path_buf(), limit };
    let length = file.metadata()?.len();
    if length > limit {
        return Err(too_long().into());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    // One byte more, so that a file that grows meanwhile is seen to be too long.
    (&mut file).take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_long().into()) } else { Ok(bytes) }
}

/// Reads a plain file, or a link to one, as text of at most `limit` bytes.
///
/// # Errors
/// As [`read`], and text that is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let wrong = |_| {
        let reason = format!("{} is not UTF-8 text", path.display());
        io::Error::new(io::ErrorKind::InvalidData, reason)
    };
    String::from_utf8(read(path, limit)?).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_limit_and_not_beyond() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "12345678").unwrap();
        assert_eq!(read(&path, 8).unwrap(), b"12345678");
        assert_eq!(read_text(&path, u64::MAX).unwrap(), "12345678");
        let error = read(&path, 7).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()) && error.contains("7 bytes"), "{error}");
        let error = read(&dir.path().join("none"), 7).unwrap_err();
        assert!(error.kind() == io::ErrorKind::NotFound && error.to_string().contains("none"), "{error}");
        fs::write(&path, [0xff]).unwrap();
        let error = read_text(&path, 8).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()) && error.contains("UTF-8"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn links_to_files_are_followed_and_devices_pipes_directories_and_files_of_holes_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link, zero, pipe, holes] =
            ["file", "link", "zero", "pipe", "holes"].map(|name| dir.path().join(name));
        fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read(&link, 4).unwrap(), b"text");

        std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [zero.as_path(), &pipe, dir.path()] {
            for error in [read(path, u64::MAX).unwrap_err(), open(path).unwrap_err()] {
                let error = error.to_string();
                assert!(error.contains(path.to_str().unwrap()), "{error}");
                assert!(error.contains("not a plain file") && error.contains("in its place"), "{error}");
            }
        }
        fs::File::create(&holes).unwrap().set_len(1 << 30).unwrap();
        let error = read(&holes, DESCRIPTION).unwrap_err().to_string();
        assert!(error.contains("holes") && error.contains("16777216 bytes"), "{error}");
    }
}
