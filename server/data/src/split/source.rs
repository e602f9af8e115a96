//! Documents of a file or of a directory, one after another.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fs_err as fs;
use walkdir::{DirEntry, WalkDir};

use super::kind::{Kind, split_name};
use super::text::Text;
use super::{SplitError, html, markdown, text};
use crate::input::{Format, Input, MAX_DOCUMENT_BYTES};
use crate::{DataError, Passage, Passages, read_passages};

/// Reads documents, whole as passages will be, in the order of the file, or of the names in the directory.
pub(super) struct Documents {
    input: PathBuf,
    /// Bytes in all files, and how many have been read.
    pub(super) bytes: u64,
    pub(super) read: Arc<AtomicU64>,
    /// Files of a directory that are not documents, by their endings.
    pub(super) skipped: BTreeMap<String, u64>,
    /// The ids of files whose names hold white space, which the ids do not.
    renamed: HashSet<String>,
    source: Source,
}

enum Source {
    /// A document a line.
    Lines(Passages),
    /// One file, until it has been read.
    File(Option<Kind>),
    Directory(Box<dyn Iterator<Item = walkdir::Result<DirEntry>>>),
}

impl Documents {
    pub(super) fn open(input: &Path) -> Result<Self, SplitError> {
        let io_error = |source| DataError::Io { path: input.to_path_buf(), source };
        let metadata = fs::metadata(input).map_err(io_error)?;
        let mut documents = Self {
            input: input.to_path_buf(),
            bytes: metadata.len(),
            read: Arc::default(),
            skipped: BTreeMap::new(),
            renamed: HashSet::new(),
            source: Source::File(None),
        };
        if metadata.is_dir() {
            documents.survey()?;
            documents.source = Source::Directory(walk(input));
            return Ok(documents);
        }
        let kind = Kind::by_name(input);
        if kind.is_some_and(Kind::is_document) {
            documents.source = Source::File(kind);
            return Ok(documents);
        }
        let file = Input::open_counted(input, &documents.read)?;
        if !matches!(file.format, Format::Tsv | Format::JsonLines) {
            return Err(SplitError::UnknownInput { path: input.to_path_buf() });
        }
        documents.source = Source::Lines(read_passages::stream(file)?);
        Ok(documents)
    }

    /// Returns the next document, or `None` at the end. A file without any text gives a document without title or text.
    pub(super) fn next(&mut self) -> Result<Option<Passage>, SplitError> {
        match &mut self.source {
            Source::Lines(documents) => match documents.next().transpose() {
                Err(DataError::Empty { path, .. }) => {
                    Err(DataError::Empty { path, what: "documents" }.into())
                }
                next => Ok(next?),
            },
            Source::File(kind) => match kind.take() {
                Some(kind) => {
                    let name = Path::new(self.input.file_name().unwrap_or_default());
                    let mut document = read_file(&self.input, name, kind, &self.read)?;
                    document.id = without_white_space(&document.id);
                    Ok(Some(document))
                }
                None => Ok(None),
            },
            Source::Directory(entries) => {
                for entry in entries {
                    let entry = entry.map_err(|e| walk_error(e, &self.input))?;
                    if let Some(kind) = document_kind(&entry) {
                        let name = entry.path().strip_prefix(&self.input).unwrap_or(entry.path());
                        let mut document = read_file(entry.path(), name, kind, &self.read)?;
                        document.id = unique_id(document.id, &self.input, &mut self.renamed);
                        return Ok(Some(document));
                    }
                }
                Ok(None)
            }
        }
    }

    /// Returns the error that says why there is nothing to write after `files` files without text.
    pub(super) fn without_words(&self, files: u64) -> SplitError {
        let path = self.input.clone();
        match self.source {
            Source::Lines(..) => DataError::Empty { path, what: "documents" }.into(),
            _ => SplitError::NoWords { path, files },
        }
    }

    /// Counts what is in the directory before any of it is read.
    fn survey(&mut self) -> Result<(), SplitError> {
        let mut files = 0;
        self.bytes = 0;
        for entry in walk(&self.input) {
            let entry = entry.map_err(|e| walk_error(e, &self.input))?;
            if document_kind(&entry).is_some() {
                files += 1;
                self.bytes += entry.metadata().map_err(|e| walk_error(e, &self.input))?.len();
            } else if !entry.file_type().is_dir() {
                *self.skipped.entry(kind_of_skipped(&entry)).or_default() += 1;
            }
        }
        match files {
            0 => Err(SplitError::NoFiles { path: self.input.clone(), others: self.skipped.values().sum() }),
            _ => Ok(()),
        }
    }
}

/// Returns everything below `root` but hidden files and directories, in the order of the names.
fn walk(root: &Path) -> Box<dyn Iterator<Item = walkdir::Result<DirEntry>>> {
    let is_shown =
        |entry: &DirEntry| entry.depth() == 0 || !entry.file_name().as_encoded_bytes().starts_with(b".");
    Box::new(WalkDir::new(root).sort_by_file_name().into_iter().filter_entry(is_shown))
}

/// Returns the kind of an entry if it is a document. A corpus of many documents is not part of a directory: a BEIR
/// directory holds questions in the same format.
fn document_kind(entry: &DirEntry) -> Option<Kind> {
    let kind = entry.file_type().is_file().then(|| Kind::by_name(entry.path())).flatten();
    kind.filter(|kind| kind.is_document())
}

fn kind_of_skipped(entry: &DirEntry) -> String {
    if entry.file_type().is_symlink() {
        return "symbolic link".into();
    }
    let name = entry.file_name().to_string_lossy();
    match split_name(&name).1 {
        "" => "no ending".into(),
        ending => format!(".{}", ending.to_ascii_lowercase()),
    }
}

fn walk_error(error: walkdir::Error, root: &Path) -> DataError {
    let path = error.path().unwrap_or(root).to_path_buf();
    // Without its own path in the text, which the message has already.
    let kind = error.io_error().map_or(io::ErrorKind::Other, io::Error::kind);
    DataError::Io { path, source: error.into_io_error().unwrap_or_else(|| kind.into()) }
}

/// Reads one file as one document, whose id is the `name` with `/` between directories.
fn read_file(path: &Path, name: &Path, kind: Kind, read: &Arc<AtomicU64>) -> Result<Passage, SplitError> {
    let id = id_of(name).ok_or_else(|| SplitError::FileName { path: path.to_path_buf() })?;
    let content = Input::open_counted(path, read)?.read_text(MAX_DOCUMENT_BYTES)?;
    let too_deep =
        |_: html::TooDeep| SplitError::TooDeep { path: path.to_path_buf(), limit: html::MAX_DEPTH };
    let Text { title, text } = match kind {
        Kind::Markdown => markdown::read(&content).map_err(too_deep)?,
        Kind::Html | Kind::Xhtml => html::read_page(&content, kind == Kind::Xhtml).map_err(too_deep)?,
        Kind::Plain | Kind::Tsv | Kind::JsonLines => text::read(content),
    };
    let title = title.filter(|title| !title.trim().is_empty());
    let title = title.unwrap_or_else(|| match text.trim() {
        "" => String::new(),
        _ => split_name(id.rsplit('/').next().unwrap_or_default()).0.to_owned(),
    });
    Ok(Passage::new(id, title, text))
}

/// Returns `name` with `_` for white space: columns of a TREC run are separated by it.
fn without_white_space(name: &str) -> String {
    name.replace(char::is_whitespace, "_")
}

/// Returns the id of the file `name` of the directory `root`: its name without white space, followed by as many `_` as
/// make it no name of another file and none of `renamed`, to which it is added.
fn unique_id(name: String, root: &Path, renamed: &mut HashSet<String>) -> String {
    let mut id = without_white_space(&name);
    if id == name {
        return name;
    }
    while root.join(&id).exists() || renamed.contains(&id) {
        id.push('_');
    }
    renamed.insert(id.clone());
    id
}

fn id_of(name: &Path) -> Option<String> {
    let parts: Option<Vec<_>> = name
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .map(|part| part.as_os_str().to_str().filter(|part| !part.chars().any(char::is_control)))
        .collect();
    parts.map(|parts| parts.join("/")).filter(|id| !id.is_empty())
}
