//! `dpr index add`, `delete` and `compact`: an index that changes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use dpr_core::Embedding;

use crate::cli::args::{DeviceArgs, IndexArgs, IndexDirArgs, PrecisionArgs};
use crate::cli::model_of_index::model_of_index;
use crate::cli::progress;
use crate::cli::{CliError, output, stop_on_interrupt};
use crate::location::{Location, Opened, open_writer};
use dpr_core::model::short;
use dpr_data::{Passage, read_passages};
use dpr_encode::model::ModelDir;
use dpr_encode::{PipelineOptions, encode_passages};
use dpr_index::search::Description;
use dpr_index::vectors::VectorSet;
use dpr_index::{ChangeError, CompactionPolicy, IndexWriter, NewPassage, Put, limits};

/// Passages that are encoded and written together.
const BATCH: usize = 1000;

/// Options of `dpr index add`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr index add --index index/ --vectors new-vectors/
  dpr index add --index index/ --model model/ --passages new.tsv

Passages are written in batches of 1,000, each whole or not at all.")]
pub(super) struct AddArgs {
    #[command(flatten)]
    at: IndexArgs,
    /// Directories that `dpr encode` wrote
    #[arg(long, required_unless_present = "passages", num_args = 1.., value_name = "DIR")]
    vectors: Vec<PathBuf>,
    /// Passages to encode and add: TSV, BEIR jsonl or SQuAD json
    #[arg(long, conflicts_with = "vectors", requires = "model", value_name = "FILE")]
    passages: Option<PathBuf>,
    /// Model directory of the index, to encode --passages with
    #[arg(long, env = "DPR_MODEL", value_name = "DIR")]
    model: Option<PathBuf>,
    #[command(flatten)]
    compute: DeviceArgs,
    #[command(flatten)]
    numbers: PrecisionArgs,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

/// Options of `dpr index delete`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr index delete --index index/ 17-3 17-4
  dpr index delete --index index/ --ids gone.txt")]
pub(super) struct DeleteArgs {
    #[command(flatten)]
    at: IndexArgs,
    /// Ids of the passages
    #[arg(required_unless_present = "file", value_name = "ID")]
    ids: Vec<String>,
    /// A file of ids, one a line
    #[arg(long = "ids", conflicts_with = "ids", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

/// Options of `dpr index compact`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  dpr index compact --index index/")]
pub(super) struct CompactArgs {
    #[command(flatten)]
    at: IndexDirArgs,
    /// Threads that index words; 0 means one for each processor
    #[arg(long, default_value_t = 0, value_name = "N")]
    threads: usize,
}

/// Adds passages.
pub(super) fn add(args: AddArgs) -> Result<(), CliError> {
    let mut done = Put::default();
    let mut put = |index: &Opened, batch: Vec<NewPassage>| -> Result<(), CliError> {
        let Put { added, replaced } = index.writer()?.put(batch)?;
        done.added += added;
        done.replaced += replaced;
        Ok(())
    };
    let opened;
    if let (Some(file), Some(path)) = (&args.passages, &args.model) {
        let passages = read_passages(file)?;
        check_texts(file, &passages)?;
        check_limits(&passages)?;
        check_private(&args.at.index, &passages)?;
        let model = ModelDir::open(path)?;
        opened = args.at.index.open_to_write("`dpr index add`")?;
        let Description { model: built_by, dim, .. } = opened.backend.describe();
        let model = model_of_index(&args.at.index, (&built_by, dim), path, model)?;
        let encoder = model.in_precision(args.numbers.precision).passage_encoder(args.compute.device)?;
        let options = PipelineOptions::for_device(encoder.device_name(), None, None);
        let progress = progress::on_stderr();
        progress.start("encoding", "passages", passages.len() as u64);
        for (number, batch) in passages.chunks(BATCH).enumerate() {
            let vectors = encode_passages(&encoder, batch, options, progress.as_ref())
                .inspect_err(|_| warn_of_added(number * BATCH))?;
            let batch = batch.iter().cloned().zip(vectors).map(new).collect();
            put(&opened, batch).inspect_err(|_| warn_of_added(number * BATCH))?;
        }
        progress.finish();
    } else {
        let set = VectorSet::read(&args.vectors)?;
        check_limits(&set.passages)?;
        check_private(&args.at.index, &set.passages)?;
        opened = args.at.index.open_to_write("`dpr index add`")?;
        check_vectors(&opened, &set)?;
        let rows: Vec<&[f32]> = set.rows.chunks(set.dim.max(1)).collect();
        for (number, (passages, rows)) in set.passages.chunks(BATCH).zip(rows.chunks(BATCH)).enumerate() {
            let checked = passages.iter().zip(rows).map(|(passage, row)| {
                let vector = Embedding::new(row.to_vec(), set.dim)
                    .map_err(|source| ChangeError::Vector { id: passage.id.clone(), source })?;
                Ok(new((passage.clone(), vector)))
            });
            let batch = checked.collect::<Result<Vec<_>, ChangeError>>().map_err(CliError::from);
            batch.and_then(|batch| put(&opened, batch)).inspect_err(|_| warn_of_added(number * BATCH))?;
        }
    }
    let Put { added, replaced } = done;
    let what = format!("{} added, {replaced} replaced", output::counted(added, "passage", "passages"));
    report(&opened, &args.at.index, args.json, &what, &[("added", added), ("replaced", replaced)])
}

/// Refuses a passage of `file` without text, before any is encoded and added.
fn check_texts(file: &Path, passages: &[Passage]) -> Result<(), CliError> {
    match passages.iter().enumerate().find(|(_, passage)| passage.text.trim().is_empty()) {
        None => Ok(()),
        Some((at, passage)) => Err(format!(
            "{}: passage `{}`, number {} of the file, has a blank text, and no search would find it: give it one, or \
             leave it out; nothing was added",
            file.display(),
            passage.id,
            at + 1
        )
        .into()),
    }
}

/// Refuses a passage that is longer than an index takes, before any is encoded and added.
fn check_limits(passages: &[Passage]) -> Result<(), CliError> {
    let checked = passages.iter().try_for_each(limits::check);
    checked.map_err(|too_long| format!("{too_long}; nothing was added").into())
}

/// Refuses a passage that the private tables of the index cannot hold, before any is encoded and added.
fn check_private(index: &Location, passages: &[Passage]) -> Result<(), CliError> {
    let Location::Dir(dir) = index else { return Ok(()) };
    if !dpr_private::has_tables(dir) {
        return Ok(());
    }
    let checked = passages.iter().try_for_each(dpr_private::check_passage);
    checked.map_err(|too_long| format!("{too_long}; nothing was added").into())
}

/// Warns how many passages the batches before one that failed have added or replaced.
fn warn_of_added(count: usize) {
    if count > 0 {
        tracing::warn!(
            "the first {count} passages are in the index: those after them are not, add them once they can be"
        );
    }
}

fn new((passage, vector): (Passage, Embedding)) -> NewPassage {
    NewPassage { passage, vector }
}

/// Deletes passages.
pub(super) fn delete(args: DeleteArgs) -> Result<(), CliError> {
    let ids: BTreeSet<String> = match &args.file {
        None => args.ids.into_iter().collect(),
        Some(file) => {
            let text = fs_err::read_to_string(file)?;
            let lines = text.trim_start_matches('\u{feff}').lines();
            lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
        }
    };
    let opened = args.at.index.open_to_write("`dpr index delete`")?;
    let deleted = opened.writer()?.delete(ids.into_iter().collect())?;
    let what = format!("{} deleted", output::counted(deleted, "passage", "passages"));
    report(&opened, &args.at.index, args.json, &what, &[("deleted", deleted)])
}

/// Builds a new version.
pub(super) fn compact(args: &CompactArgs) -> Result<(), CliError> {
    let what = "`dpr index compact`";
    let updater = open_writer(args.at.dir(what)?, what, IndexWriter::open)?;
    let started = Instant::now();
    let built = updater.compact(args.threads, &stop_on_interrupt(), progress::on_stderr().as_ref())?;
    let (index, seconds) = (&args.at.index, started.elapsed().as_secs_f64());
    match built {
        None => output::line(format_args!("{index}: nothing changed since it was built")),
        Some(manifest) => {
            let (count, number) = (manifest.count, updater.live().snapshot().base().number());
            output::line(format_args!("{index}: v-{number} of {count} passages, {seconds:.1} s"))
        }
    }
}

fn check_vectors(opened: &Opened, set: &VectorSet) -> Result<(), CliError> {
    let Description { model, dim, .. } = opened.backend.describe();
    if set.model_fingerprint == model {
        return Ok(());
    }
    Err(format!(
        "the vectors are of model {} ({} dims), the index of model {} ({dim} dims): encode the passages with the model \
         of the index",
        short(&set.model_fingerprint),
        set.dim,
        short(&model)
    )
    .into())
}

fn report(
    opened: &Opened,
    index: &Location,
    json: bool,
    what: &str,
    numbers: &[(&str, usize)],
) -> Result<(), CliError> {
    opened.backend.refresh()?;
    let (snapshot, count) = (opened.backend.snapshot(), opened.backend.describe().count);
    let changes = snapshot.as_ref().map(|snapshot| snapshot.changes());
    if json {
        let mut report = serde_json::Map::new();
        let numbers = numbers.iter().map(|(name, number)| ((*name).to_owned(), (*number).into()));
        report.extend(numbers);
        report.insert("count".into(), count.into());
        if let Some(changes) = changes {
            report.insert("changes".into(), changes.into());
        }
        return output::json(&report);
    }
    let since = changes.map_or_else(String::new, |changes| format!(", {changes} changes since it was built"));
    output::line(format_args!("{index}: {what}; {count} passages{since}"))?;
    if snapshot.is_some_and(|snapshot| CompactionPolicy::default().is_due(&snapshot)) {
        output::line(format_args!(
            "put them in with `dpr index compact --index {index}`, searches are slower until then"
        ))?;
    }
    Ok(())
}
