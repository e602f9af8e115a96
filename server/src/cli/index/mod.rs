//! `dpr index`: makes vectors searchable, and keeps an index.

mod blur;
mod export_static;
mod fill;
mod idle;
mod private;
mod update;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use self::blur::BlurArgs;
use self::export_static::ExportStaticArgs;
use self::idle::{CHANNELS, IN_FLIGHT, PATIENCE};
use self::private::PrivateArgs;
use self::update::{AddArgs, CompactArgs, DeleteArgs};
use super::{CliError, output, stop_on_interrupt};
use crate::cli::args::IndexDirArgs;
use crate::cli::progress;
use crate::location::Location;
use dpr_data::stream_passages;
use dpr_index::sparse::{Analyzer, SparseOptions};
use dpr_index::vectors::VectorSet;
use dpr_index::{
    FileError, GraphBuilder, HnswParams, IndexDir, IndexKind, IndexManifest, IndexOptions, IndexReader,
    LoadedIndex, LoadedSparse, OpenError, RECALL_DEPTH, Storage, Upgraded, VectorIndex as _, Verified,
    build_index, build_sparse_index_of, copy_index, recall_against_exact, tune, upgrade, verify,
};

/// Vectors of the index that are searched for when recall is measured.
const RECALL_SAMPLE: usize = 200;

/// Vectors of the index that are searched for when `ef_search` is tuned.
const TUNE_SAMPLE: usize = 1000;

/// Recall under which the user is told what to do.
const RECALL_WANTED: f64 = 0.99;

/// `dpr index`: builds, or does what a subcommand says.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  dpr index --vectors vectors/ --out index/
  dpr index --vectors shard-0/ shard-1/ --out index/ --kind hnsw --ef-search 200
  dpr index --vectors vectors/ --out index/ --sparse english      (BM25 and TF-IDF beside the vectors)
  dpr index --passages psgs_w100.tsv --out bm25/ --sparse english (without vectors)
  dpr index --passages articles.tsv --out mots/ --sparse french   (each language has its own stems and stop words)
  dpr index tune --index index/ --recall 0.99 --at 20
  dpr index blur --index index/ --model model/ --questions questions.tsv --out blur/
  dpr index private --index index/
  dpr index export-static --index index/ --model model/ --out site/dpr/
  dpr index verify --index index/
  dpr index snapshot --index index/ --out backup/
  dpr index add --index index/ --vectors new-vectors/
  dpr index delete --index index/ 17-3 17-4
  dpr index compact --index index/
  dpr index --vectors shard-0/ --out milvus://db.example.org:19530/wikipedia   (one shard from each machine)
  dpr index --vectors vectors/ --out 'postgres://web@db.example.org/shop?table=articles'

A running server takes what is built, added, replaced or deleted within a second or two. The version
before is kept in the same directory until the next build."
)]
pub struct Args {
    #[command(subcommand)]
    task: Option<Task>,
    // Without flattened arguments of its own: clap takes such a group to be absent.
    #[command(flatten)]
    build: Option<BuildArgs>,
}

/// What is done with an index that is there.
#[derive(Debug, clap::Subcommand)]
enum Task {
    /// Add passages, or put them in the place of those that have their ids
    Add(AddArgs),
    /// Delete passages
    Delete(DeleteArgs),
    /// Build a new version out of the index and its updates, and put it in use
    Compact(CompactArgs),
    /// Make a blur directory for private search: the principal directions of the vectors, and how many candidates each
    /// level of blurred search needs
    Blur(BlurArgs),
    /// Build private tables of an index, beside it: for encrypted search (`dpr serve --encrypted`; experimental)
    Private(PrivateArgs),
    /// Write an index and the question encoder as plain files for any file host: pages download them and search by
    /// themselves
    ExportStatic(ExportStaticArgs),
    /// Check every file of an index: sizes, checksums, and that all of it can be read
    #[command(after_help = "Example:\n  dpr index verify --index index/")]
    Verify {
        #[command(flatten)]
        index: IndexDirArgs,
        /// Print the manifest and the problems as JSON
        #[arg(long)]
        json: bool,
    },
    /// Find the smallest --ef-search that finds enough, and put it in use
    #[command(after_help = "Example:\n  dpr index tune --index index/ --recall 0.99 --at 20")]
    Tune {
        #[command(flatten)]
        index: IndexDirArgs,
        /// The share of exact search's passages to find, 0 to 1
        #[arg(long, value_name = "SHARE", default_value_t = RECALL_WANTED, value_parser = share)]
        recall: f64,
        /// Among how many passages
        #[arg(long, value_name = "K", default_value_t = RECALL_DEPTH as u32, value_parser = clap::value_parser!(u32).range(1..))]
        at: u32,
        /// Vectors of the index to ask with
        #[arg(long, value_name = "N", default_value_t = TUNE_SAMPLE as u32, value_parser = clap::value_parser!(u32).range(1..))]
        questions: u32,
        /// Print what was tried as JSON
        #[arg(long)]
        json: bool,
    },
    /// Bring an index of an older format to the newest, and add the signs of a graph's vectors; what was in use stays
    /// until that is whole
    #[command(after_help = "Example:\n  dpr index upgrade --index index/")]
    Upgrade {
        #[command(flatten)]
        index: IndexDirArgs,
    },
    /// Copy the version in use into a directory of its own, which is an index directory too
    #[command(after_help = "Example:\n  dpr index snapshot --index index/ --out backup/")]
    Snapshot {
        #[command(flatten)]
        index: IndexDirArgs,
        /// The snapshot to write
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Put a snapshot in use in an index directory; what was in use stays until it is whole
    #[command(after_help = "Example:\n  dpr index restore --snapshot backup/ --out index/")]
    Restore {
        /// What `dpr index snapshot` wrote
        #[arg(long, value_name = "DIR")]
        snapshot: PathBuf,
        /// The index directory
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err(format!("{text} is not a share above 0, up to 1")),
    }
}

/// Options of building.
#[derive(Debug, clap::Args)]
struct BuildArgs {
    /// Directories that `dpr encode` wrote; all shards, in any order
    #[arg(long, required_unless_present = "passages", num_args = 1.., value_name = "DIR")]
    vectors: Vec<PathBuf>,
    /// Passages to find by their words alone: TSV, BEIR jsonl or SQuAD json; needs --sparse
    #[arg(long, conflicts_with = "vectors", requires = "sparse", value_name = "FILE")]
    passages: Option<PathBuf>,
    /// Also index words, for BM25, TF-IDF and hybrid ranking, in the language of the passages; `bigram` is for
    /// Chinese, Japanese and Korean
    #[arg(long, value_name = "LANGUAGE")]
    sparse: Option<Analyzer>,
    /// Index the stop words too that --sparse drops (the, and, of …), so that questions of nothing else find something
    #[arg(long, requires = "sparse")]
    keep_stop_words: bool,
    /// Threads that index words; 0 means one for each processor
    #[arg(long, default_value_t = 0, value_name = "N")]
    threads: usize,
    /// The index directory; an index that is there stays in use until the new one is whole. Or a collection of a
    /// Milvus cluster, milvus://HOST:PORT/COLLECTION, or a table of PostgreSQL,
    /// postgres://USER@HOST/DATABASE?table=NAME, which is made or added to
    #[arg(long, visible_alias = "index", value_name = "DIR")]
    out: Location,
    /// Milvus: channels of a new collection; about one for every machine that writes at once
    #[arg(long, default_value_t = CHANNELS, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    channels: u16,
    /// Milvus, PostgreSQL: batches of up to 4 MiB on their way at once
    #[arg(long, default_value_t = IN_FLIGHT, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    in_flight: u16,
    /// Milvus, PostgreSQL: seconds that a server may be away, or ask to wait, before the load is given up; it must be
    /// there when the load begins
    #[arg(long, default_value_t = PATIENCE, value_name = "SECONDS")]
    patience: u32,
    /// `exact` compares every passage; `hnsw` walks a graph, faster from some 10,000 passages on [default: exact;
    /// always hnsw in Milvus and PostgreSQL]
    #[arg(long)]
    kind: Option<IndexKind>,
    /// Exact search: `f32` reads the vectors; `f16` half of that, `int8` a quarter, `binary` a thirty-second, and the
    /// vectors of the best rows alone
    #[arg(long, default_value = "f32", value_name = "STORAGE")]
    storage: Storage,
    /// HNSW: `parallel` links passages on all threads, `hnsw-rs` by the library of that name on one
    #[arg(long, default_value = "parallel", value_name = "BUILDER")]
    builder: GraphBuilder,
    /// HNSW: links of a passage on the upper layers, 2 to 255; twice as many on the lowest
    #[arg(long, default_value_t = HnswParams::default().m, value_name = "N")]
    m: usize,
    /// HNSW: candidates kept while linking; more is slower to build and finds more
    #[arg(long, default_value_t = HnswParams::default().ef_construction, value_name = "N")]
    ef_construction: usize,
    /// HNSW: candidates kept while searching; more is slower and finds more
    #[arg(long, default_value_t = HnswParams::default().ef_search, value_name = "N")]
    ef_search: usize,
    /// Print the manifest, the time and the recall as JSON
    #[arg(long)]
    json: bool,
}

impl BuildArgs {
    /// Returns the analyzer that the flags name.
    fn analyzer(&self) -> Option<Analyzer> {
        self.sparse.map(|analyzer| if self.keep_stop_words { analyzer.with_stop_words() } else { analyzer })
    }
}

/// The output of `--json`.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    manifest: &'a IndexManifest,
    bytes: u64,
    seconds: f64,
    #[serde(rename = "recall_at_20", skip_serializing_if = "Option::is_none")]
    recall: Option<f64>,
}

/// Runs `dpr index` or one of its subcommands.
///
/// # Errors
/// Vectors that cannot be read, whatever [`build_index`], [`copy_index`] or [`verify`] fails with, or an index that
/// does not hold what it should.
pub fn run(args: Args) -> Result<(), CliError> {
    match (args.task, args.build) {
        (Some(Task::Add(args)), _) => update::add(args),
        (Some(Task::Delete(args)), _) => update::delete(args),
        (Some(Task::Compact(args)), _) => update::compact(&args),
        (Some(Task::Blur(args)), _) => blur::run(&args),
        (Some(Task::Private(args)), _) => private::run(&args),
        (Some(Task::ExportStatic(args)), _) => export_static::run(&args),
        (Some(Task::Verify { index, json }), _) => check(index.dir("`dpr index verify`")?, json),
        (Some(Task::Tune { index, recall, at, questions, json }), _) => {
            let index = index.dir("`dpr index tune`")?;
            let had_private_tables = has_private_tables(index);
            let tuned = tune(index, recall, at as usize, questions as usize)?;
            warn_without_tables(index, had_private_tables);
            if json {
                return output::json(&tuned);
            }
            tuned.tried.iter().try_for_each(|(ef, recall)| {
                output::line(format_args!("ef {ef:>6}  recall@{at} {recall:.4}"))
            })?;
            let (index, ef) = (index.display(), tuned.ef_search);
            output::line(format_args!("{index}: ef_search is {ef} now, recall@{at} {:.4}", tuned.recall))
        }
        (Some(Task::Upgrade { index }), _) => {
            let path = index.dir("`dpr index upgrade`")?;
            let had_private_tables = has_private_tables(path);
            let (Upgraded { before, now, got_blocks, got_signs }, index) = (upgrade(path)?, path.display());
            warn_without_tables(path, had_private_tables);
            let got =
                [(got_blocks, "checksums of its vectors' blocks"), (got_signs, "the signs of its vectors")];
            let got: Vec<_> = got.into_iter().filter(|(is_new, _)| *is_new).map(|(_, name)| name).collect();
            match (before == now, got.is_empty()) {
                (true, true) => {
                    output::line(format_args!("{index} is in format {now}, the newest for what it holds"))
                }
                (true, false) => {
                    let got = got.join(" and ");
                    output::line(format_args!("{index}: format {now} as before, with {got} now"))
                }
                (false, _) => output::line(format_args!("{index}: format {before}, now {now}")),
            }
        }
        (Some(Task::Snapshot { index, out }), _) => {
            match IndexDir::new(&out).current_version() {
                Err(OpenError::NotAnIndex { .. }) => copy(index.dir("`dpr index snapshot`")?, &out),
                Err(error @ OpenError::File(FileError::Read(_))) => Err(error.into()),
                // A damaged index too: `restore` is what mends it.
                _ => {
                    let out = out.display();
                    Err(format!("{out} holds an index: give another --out, or use `dpr index restore`")
                        .into())
                }
            }
        }
        (Some(Task::Restore { snapshot, out }), _) => copy(&snapshot, &out),
        (None, Some(build)) => self::build(build),
        (None, None) => Err("give --vectors or --passages".into()),
    }
}

fn check(index: &Path, json: bool) -> Result<(), CliError> {
    let Verified { manifest, changes, problems } = verify(index)?;
    let unread = problems.iter().filter(|problem| is_unread(problem)).count();
    let problems: Vec<String> = problems.iter().map(|problem| crate::cli::one_line(problem)).collect();
    let (files, bytes) = (manifest.files.len(), manifest.files.values().map(|file| file.bytes).sum::<u64>());
    if json {
        let report = serde_json::json!({
            "files": files, "bytes": bytes, "changes": changes, "problems": problems
        });
        output::json(&report)?;
    } else {
        problems.iter().try_for_each(|problem| output::line(format_args!("{problem}")))?;
    }
    if !problems.is_empty() {
        return Err(format!("{}: {}", index.display(), faults(unread, problems.len() - unread, files)).into());
    }
    if !json {
        let IndexManifest { count, kind, .. } = &manifest;
        let log = match changes {
            0 => String::new(),
            changes => format!(", {changes} changes since"),
        };
        output::line(format_args!(
            "{count} passages, {kind}, {files} files, {bytes} bytes{log}: all as they were written"
        ))?;
    }
    Ok(())
}

/// Returns `true` if a file could not be read, so that it may be undamaged. A path that is not a plain file, or a file
/// of another length, is damage.
fn is_unread(problem: &OpenError) -> bool {
    match problem {
        OpenError::File(FileError::Read(source)) => {
            !matches!(source.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData)
        }
        _ => false,
    }
}

/// Returns what is wrong with an index, of whose `files` so many could not be read and so many are damaged.
fn faults(unread: usize, damaged: usize, files: usize) -> String {
    let of_unread = format!(
        "{unread} of {files} files cannot be read, so that nothing is known of them: let this user read them, or see \
         to the disk, and verify again"
    );
    let of_damaged = format!(
        "{damaged} of {files} files are not as they were written: restore a snapshot, or build the index again"
    );
    match (unread, damaged) {
        (0, _) => of_damaged,
        (_, 0) => of_unread,
        _ => format!("{of_damaged}; {of_unread}"),
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), CliError> {
    let had_private_tables = has_private_tables(to);
    let manifest = copy_index(from, to)?;
    if manifest.dim > 0 {
        warn_without_tables(to, had_private_tables);
    }
    let bytes: u64 = manifest.files.values().map(|file| file.bytes).sum();
    // The number of living passages: those built in and the updates in the copied write-ahead log.
    let count = match manifest.kind {
        IndexKind::Sparse => manifest.count,
        IndexKind::Exact | IndexKind::Hnsw => IndexReader::open_unchecked(to)?.live().snapshot().len(),
    };
    let kind = manifest.kind;
    output::line(format_args!("{}: {count} passages, {kind}, {bytes} bytes", to.display()))
}

/// Returns `true` if the version in use of an index directory has private tables.
fn has_private_tables(dir: &Path) -> bool {
    let dir = IndexDir::new(dir);
    dir.current_version().is_ok_and(|version| dir.private_path(version).is_dir())
}

/// Warns where the version in use has no private tables and the one before `had` some.
fn warn_without_tables(index: &Path, had: bool) {
    if had && !has_private_tables(index) {
        let index = index.display();
        tracing::warn!(
            "the new version has no private tables, without which encrypted searches fail: `dpr index private --index \
             {index}` makes them"
        );
    }
}

/// Builds the index and says what it is.
fn build(args: BuildArgs) -> Result<(), CliError> {
    let Some(out) = args.out.directory() else { return fill::run(&args) };
    args.check_directory()?;
    let sparse = args.analyzer().map(|analyzer| SparseOptions { analyzer, threads: args.threads });
    let options = IndexOptions {
        kind: args.kind(),
        builder: args.builder,
        storage: args.storage,
        hnsw: HnswParams { m: args.m, ef_construction: args.ef_construction, ef_search: args.ef_search },
        sparse,
        stop: stop_on_interrupt(),
    };
    let started = Instant::now();
    let progress = progress::on_stderr();
    let had_private_tables = has_private_tables(out);
    let manifest = match (&args.passages, sparse) {
        (Some(file), Some(sparse)) => {
            let passages = stream_passages(file)?.map(|passage| passage.map_err(CliError::from));
            build_sparse_index_of(passages, out, sparse, &options.stop, progress.as_ref())?
        }
        _ => build_index(&VectorSet::read(&args.vectors)?, out, &options, progress.as_ref())?,
    };
    let seconds = started.elapsed().as_secs_f64();

    // Opening reads every byte back: an index that is reported can be served.
    let recall = match manifest.kind {
        IndexKind::Exact => LoadedIndex::open(out).map(|_| None)?,
        IndexKind::Sparse => LoadedSparse::open(out).map(|_| None)?,
        IndexKind::Hnsw => Some(recall_against_exact(&LoadedIndex::open(out)?, RECALL_DEPTH, RECALL_SAMPLE)?),
    };
    if let Some(recall) = recall.filter(|recall| *recall < RECALL_WANTED) {
        tracing::warn!(
            "recall@{RECALL_DEPTH} is {recall:.3}: raise --ef-search or --ef-construction, or use --kind exact; vectors \
             of very different lengths make a poor graph, so see whether the model's should be normalised"
        );
    }
    if manifest.dim > 0 {
        warn_without_tables(out, had_private_tables);
    }
    let bytes: u64 = manifest.files.values().map(|file| file.bytes).sum();
    if args.json {
        return output::json(&Report { manifest: &manifest, bytes, seconds, recall });
    }
    let IndexManifest { count, dim, kind, max_squared_norm, sparse, .. } = &manifest;
    let words = sparse.map_or_else(String::new, |sparse| format!(", {} words", sparse.analyzer));
    let vectors = if *dim == 0 {
        String::new()
    } else {
        format!(", {dim} dimensions, {kind}, greatest squared norm {max_squared_norm:.4}")
    };
    output::line(format_args!("{count} passages{vectors}{words}, {bytes} bytes, {seconds:.1} s"))?;
    if let Some(recall) = recall {
        output::line(format_args!(
            "recall@{RECALL_DEPTH} against exact search, on its own vectors: {recall:.4}"
        ))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn parse(sparse: &[&str]) -> Result<Option<Analyzer>, clap::Error> {
        let words = ["dpr", "--passages", "p.tsv", "--out", "index"].iter().chain(sparse);
        Ok(Command::try_parse_from(words)?.args.build.and_then(|build| build.analyzer()))
    }

    #[test]
    fn a_language_is_named_with_or_without_its_stop_words() {
        assert_eq!(parse(&["--sparse", "french"]).unwrap(), Some(Analyzer::French));
        let kept = parse(&["--sparse", "french", "--keep-stop-words"]).unwrap();
        assert_eq!(kept, Some(Analyzer::FrenchWithStopWords));
        assert_eq!(parse(&["--keep-stop-words", "--sparse", "bigram"]).unwrap(), Some(Analyzer::Bigram));
        assert!(parse(&["--keep-stop-words"]).is_err());
    }

    #[test]
    fn a_language_that_is_not_known_is_refused_with_those_that_are() {
        let error = parse(&["--sparse", "klingon"]).unwrap_err().to_string();
        for name in ["klingon", "bigram", "english", "french", "turkish"] {
            assert!(error.contains(name), "{name} is not in {error}");
        }
        assert!(!error.contains("with_stop_words"), "{error}");
    }
}
