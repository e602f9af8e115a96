//! Errors of splitting documents.

use std::path::PathBuf;

use crate::DataError;

/// The reason why documents were not split. The output is then unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// Blocks of no words.
    #[error("blocks of 0 words hold nothing: give at least 1 (the DPR paper has 100)")]
    BlockSize,
    /// Blocks that would never move on.
    #[error("an overlap of {overlap} words leaves nothing new in blocks of {words}: give less than {words}")]
    Overlap {
        /// Words that were to be repeated.
        overlap: usize,
        /// Words of a block.
        words: usize,
    },
    /// A last block that would have to be longer than a whole one.
    #[error(
        "a last block of at least {min_words} words does not fit blocks of {words}: give at most {words}"
    )]
    MinWords {
        /// The least words of a last block.
        min_words: usize,
        /// Words of a block.
        words: usize,
    },
    /// A document, or its file, that cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A file of a kind that cannot be split.
    #[error(
        "{}: unknown kind of file: name it .tsv (first line `id<TAB>text<TAB>title`), .jsonl (BEIR), .txt, .md \
         or .html, each also with .gz, or give a directory of such documents",
        path.display()
    )]
    UnknownInput {
        /// The file.
        path: PathBuf,
    },
    /// An output whose name does not say its format.
    #[error("{}: name the output .tsv (`psgs_w100.tsv` layout) or .jsonl (BEIR), each also with .gz", path.display())]
    UnknownOutput {
        /// The output.
        path: PathBuf,
    },
    /// The output is the input.
    #[error("{}: the documents would be overwritten by their blocks: give another output", path.display())]
    OverInput {
        /// The file.
        path: PathBuf,
    },
    /// A directory without documents.
    #[error("{}: no .txt, .md or .html file in this directory{}", path.display(), hint(*others))]
    NoFiles {
        /// The directory.
        path: PathBuf,
        /// Files of other kinds in it.
        others: u64,
    },
    /// Documents without a word in them.
    #[error("{}: no words in {}", path.display(), if *files == 1 { "it".into() } else { format!("its {files} files") })]
    NoWords {
        /// The file or directory.
        path: PathBuf,
        /// Files that were read.
        files: u64,
    },
    /// A page whose elements are nested as no page that is meant to be read.
    #[error("{}: more than {limit} elements are open at once: close them, or remove the file", path.display())]
    TooDeep {
        /// The file.
        path: PathBuf,
        /// Elements inside one another that are taken.
        limit: usize,
    },
    /// A file name that cannot be an id.
    #[error("{}: this name cannot be an id, which must be UTF-8 without control characters: rename it", path.display())]
    FileName {
        /// The file.
        path: PathBuf,
    },
}

fn hint(others: u64) -> String {
    match others {
        0 => String::new(),
        _ => format!(" (it has {others} of other kinds; give a .tsv or .jsonl file by its own name)"),
    }
}
