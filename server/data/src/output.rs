//! Output files, written whole or not at all and gzip-compressed when their names end in `.gz`.

use std::io::{self, BufWriter, IntoInnerError, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use super::DataError;
use dpr_files::atomic;

/// Level of compression: the default one, 6, takes more than twice as long for a few per cent of the size.
const LEVEL: Compression = Compression::new(3);

/// Bytes that are compressed at once; JSON comes in pieces of a few, each of which would be a call of its own.
const BUFFER: usize = 1 << 16;

/// A file being written; its errors name the file.
pub(super) struct Output<'a> {
    out: &'a mut dyn Write,
    path: &'a Path,
}

impl Output<'_> {
    pub(super) fn path(&self) -> &Path {
        self.path
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.out.write_all(bytes).map_err(|e| write_error(self.path, e))
    }

    pub(super) fn json(&mut self, value: &impl Serialize) -> Result<(), DataError> {
        serde_json::to_writer(&mut *self.out, value).map_err(|e| write_error(self.path, e.into()))
    }

    pub(super) fn json_line(&mut self, value: &impl Serialize) -> Result<(), DataError> {
        self.json(value)?;
        self.bytes(b"\n")
    }
}

/// Refuses to write over what is being read.
///
/// # Errors
/// [`DataError::OverInput`]
pub fn check_not_input(out: &Path, input: &Path) -> Result<(), DataError> {
    // Either fails when there is no such file, and then they are not the same.
    match (fs_err::canonicalize(out), fs_err::canonicalize(input)) {
        (Ok(out), Ok(input)) if out == input => Err(DataError::OverInput { path: input }),
        _ => Ok(()),
    }
}

/// Runs `fill` on a new file beside `path`, or beside the file that a link there leads to, which takes its place when
/// all went well. After an error `path` is as it was.
pub(super) fn write_whole<T, E: From<DataError>>(
    path: &Path,
    fill: impl for<'a> FnOnce(&'a mut Output<'a>) -> Result<T, E>,
) -> Result<T, E> {
    let mut outcome = None;
    let written = atomic::write_output(path, |file| {
        let filled = if is_gzip_name(path) {
            let mut gzip = BufWriter::with_capacity(BUFFER, GzEncoder::new(file, LEVEL));
            let filled = fill(&mut Output { out: &mut gzip, path });
            gzip.into_inner().map_err(IntoInnerError::into_error)?.finish()?;
            filled
        } else {
            fill(&mut Output { out: file, path })
        };
        // The file is given up by an error of its own, but what is reported is `fill`'s.
        let is_filled = filled.is_ok();
        outcome = Some(filled);
        if is_filled { Ok(()) } else { Err(io::Error::other("not filled")) }
    });
    match (outcome, written) {
        (Some(Err(error)), _) => Err(error),
        (Some(Ok(value)), Ok(())) => Ok(value),
        (_, Err(source)) => Err(write_error(path, source).into()),
        (None, Ok(())) => Err(write_error(path, io::Error::other("nothing was written")).into()),
    }
}

fn is_gzip_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"))
}

fn write_error(path: &Path, source: io::Error) -> DataError {
    DataError::Write { path: path.to_path_buf(), source }
}
