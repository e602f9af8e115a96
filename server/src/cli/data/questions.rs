//! `dpr data questions`

use std::path::PathBuf;

use clap::ValueEnum;

use super::super::{CliError, output};
use dpr_data::check_not_input;
use dpr_files::atomic::is_same_output;
use dpr_train::mine::{GenerateOptions, GeneratedFiles, QuestionKind, generate};

/// Arguments of `dpr data questions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example, to weigh words against vectors where nobody has asked yet:
  dpr data questions --passages passages.tsv --limit 2000 --out made.json.gz --queries made.jsonl --qrels made.tsv
  dpr eval tune-hybrid --model model/ --index index/ --questions made.jsonl --qrels made.tsv
Example, for a small encoder that knows the corpus:
  dpr data questions --passages passages.tsv --out made.json.gz
  dpr distill --config configs/distill.toml --teacher large/ --model model/ --questions made.json.gz --out small/

The rules know English sentences. A passage has one question of each kind at most.")]
pub(super) struct Args {
    /// Passages: psgs_w100.tsv order, BEIR corpus.jsonl, or SQuAD json; each also .gz
    #[arg(long, value_name = "FILE")]
    passages: PathBuf,
    /// DPR training json to write, without negatives; gzip-compressed when its name ends in .gz
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Also write the questions as BEIR queries
    #[arg(long, value_name = "FILE", requires = "qrels")]
    queries: Option<PathBuf>,
    /// Also write which passage each question is about, as BEIR qrels
    #[arg(long, value_name = "FILE", requires = "queries")]
    qrels: Option<PathBuf>,
    /// Kinds of questions [default: all]
    #[arg(long, value_name = "KIND,...", value_delimiter = ',')]
    kinds: Vec<Kind>,
    /// Passages to look at, at most, drawn from the whole corpus
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Decides the passages, the sentences and what is asked for
    #[arg(long, value_name = "N", default_value_t = 12345)]
    seed: u64,
    /// Print the counts as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// An article's title
    Title,
    /// A sentence from which a date, a number or a name was taken
    Cloze,
    /// A question word in the place of a date, a number or a name: who, what, when, where, how many
    Template,
    /// A sentence that names another article, and asks for it without the name
    Anchor,
}

impl From<Kind> for QuestionKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Title => Self::Title,
            Kind::Cloze => Self::Cloze,
            Kind::Template => Self::Template,
            Kind::Anchor => Self::Anchor,
        }
    }
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let outs: Vec<&PathBuf> =
        [Some(&args.out), args.queries.as_ref(), args.qrels.as_ref()].into_iter().flatten().collect();
    for (place, out) in outs.iter().enumerate() {
        check_not_input(out, &args.passages)?;
        for other in outs.iter().skip(place + 1) {
            if is_same_output(out, other)? {
                let (out, other) = (out.display(), other.display());
                return Err(format!("{out} and {other} are one file: give each a name of its own").into());
            }
        }
    }
    let kinds: Vec<QuestionKind> = args.kinds.into_iter().map(Into::into).collect();
    let kinds = if kinds.is_empty() { QuestionKind::ALL.to_vec() } else { kinds };
    let options = GenerateOptions { kinds, limit: args.limit.map(|limit| limit as usize), seed: args.seed };
    let judged = args.queries.as_deref().zip(args.qrels.as_deref());
    let report = generate(&args.passages, GeneratedFiles { training: &args.out, judged }, &options)?;
    if args.json {
        return output::json(&report);
    }
    let counts: Vec<String> = report
        .questions
        .iter()
        .map(|(kind, count)| format!("{count} by {}", format!("{kind:?}").to_lowercase()))
        .collect();
    let (count, out) = (report.questions.values().sum::<usize>(), args.out.display());
    output::line(format_args!(
        "{count} questions, {} passages looked at, {}: {out}",
        report.passages,
        counts.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn two_results_in_one_file_are_refused_by_whatever_paths_they_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs_err::create_dir(at("sub")).unwrap();
        let passages = "id\ttext\ttitle\n1\tThe Seine flows through Paris.\tSeine\n";
        fs_err::write(at("passages.tsv"), passages).unwrap();
        std::os::unix::fs::symlink("same.json", at("link.json")).unwrap();
        for out in ["same.json", "sub/../same.json", "link.json"] {
            let args = Args {
                passages: at("passages.tsv"),
                out: at(out),
                queries: Some(at("same.json")),
                qrels: Some(at("made.tsv")),
                kinds: Vec::new(),
                limit: None,
                seed: 1,
                json: false,
            };
            let error = run(args).unwrap_err().to_string();
            assert!(error.contains("are one file: give each a name of its own"), "{out}: {error}");
            assert!(!at("same.json").exists() && !at("made.tsv").exists(), "{out}");
        }
    }
}
