//! `dpr data split`

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::super::{CliError, flat, output};
use crate::cli::progress;
use dpr_data::split::{SplitOptions, split};

/// Arguments of `dpr data split`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr data split --input wikipedia.tsv.gz --out passages.tsv
  dpr data split --input docs/ --out passages.jsonl.gz --words 150 --overlap 30

The block of a document DOC with number N, from 0, has the id DOC#N. DOC is the document's id,
or the path of its file, with _ for white space. White space separates words; of Chinese and
Japanese every character is one.")]
pub(super) struct Args {
    /// Documents: .tsv (id, text, title) or .jsonl (BEIR), .txt, .md or .html, or a directory of the last three
    #[arg(long, value_name = "PATH")]
    input: PathBuf,
    /// Passages to write: .tsv (psgs_w100 layout) or .jsonl (BEIR), each also with .gz
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Words of a block
    #[arg(long, value_name = "N", default_value_t = 100)]
    words: usize,
    /// Words that a block repeats of the one before it
    #[arg(long, value_name = "N", default_value_t = 0)]
    overlap: usize,
    /// Words below which a document's last block joins the one before it
    #[arg(long, value_name = "N", default_value_t = 1)]
    min_words: usize,
    /// Print the counts as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let options = SplitOptions::new(args.words, args.overlap, args.min_words)?;
    let progress = progress::on_stderr();
    let report = split(&args.input, &args.out, &options, progress.as_ref())?;
    if args.json {
        return output::json(&report);
    }
    output::line(format_args!(
        "{} blocks of {} documents, {} words: {}",
        report.blocks,
        report.documents,
        report.words,
        args.out.display()
    ))?;
    if report.empty_files > 0 {
        output::line(format_args!("without text: {} files", report.empty_files))?;
    }
    if !report.skipped_files.is_empty() {
        output::line(format_args!("not read: {}", kinds(&report.skipped_files)))?;
    }
    Ok(())
}

/// Returns how many files of each ending were not read. An ending is part of a name, which may hold any character.
fn kinds(skipped: &BTreeMap<String, u64>) -> String {
    let kinds: Vec<_> = skipped.iter().map(|(kind, count)| format!("{count} {}", flat(kind))).collect();
    kinds.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_a_file_cannot_drive_the_terminal() {
        let skipped = BTreeMap::from([(".\u{1b}[31m\n".to_owned(), 2), (".pdf".to_owned(), 1)]);
        assert_eq!(kinds(&skipped), "2 .\u{fffd}[31m, 1 .pdf");
    }
}
