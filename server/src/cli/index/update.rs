//! `dpr index add`, `delete` and `compact`: an index that changes.

use std::path::{Path, PathBuf};
use std::time::Instant;

use dpr_core::{DeviceChoice, Embedding};

use crate::cli::{CliError, output, stop_on_interrupt};
use crate::data::{Passage, read_passages};
use crate::encode::{PipelineOptions, encode_passages};
use crate::http::short;
use crate::index::{Compaction, IndexError, NewPassage, Put, Updater, VectorIndex as _};
use crate::model::ModelDir;
use crate::progress;
use crate::vectors::VectorSet;

/// Passages that are encoded and written together.
const BATCH: usize = 1000;

/// Options of `dpr index add`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Passages are written in batches of 1,000, each whole or not at all.")]
pub(super) struct AddArgs {
    /// The index directory
    #[arg(long, env = "DPR_INDEX", value_name = "DIR")]
    index: PathBuf,
    /// Directories that `dpr encode` wrote
    #[arg(long, required_unless_present = "passages", num_args = 1.., value_name = "DIR")]
    vectors: Vec<PathBuf>,
    /// Passages to encode and add: TSV, BEIR jsonl or SQuAD json
    #[arg(long, conflicts_with = "vectors", requires = "model", value_name = "FILE")]
    passages: Option<PathBuf>,
    /// Model directory of the index, to encode --passages with
    #[arg(long, env = "DPR_MODEL", value_name = "DIR")]
    model: Option<PathBuf>,
    /// Where to encode: auto (a real GPU, else the CPU), wgpu, cpu, or flex (Burn's CPU backend)
    #[arg(long, env = "DPR_DEVICE", value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

/// Options of `dpr index delete`.
#[derive(Debug, clap::Args)]
pub(super) struct DeleteArgs {
    /// The index directory
    #[arg(long, env = "DPR_INDEX", value_name = "DIR")]
    index: PathBuf,
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
pub(super) struct CompactArgs {
    /// The index directory
    #[arg(long, env = "DPR_INDEX", value_name = "DIR")]
    index: PathBuf,
    /// Threads that index words; 0 means one for each processor
    #[arg(long, default_value_t = 0, value_name = "N")]
    threads: usize,
}

/// Adds passages.
pub(super) fn add(args: AddArgs) -> Result<(), CliError> {
    let mut done = Put::default();
    let mut put = |updater: &Updater, batch: Vec<NewPassage>| -> Result<(), CliError> {
        let Put { added, replaced } = updater.put(batch)?;
        done.added += added;
        done.replaced += replaced;
        Ok(())
    };
    let updater;
    if let (Some(file), Some(path)) = (&args.passages, &args.model) {
        let passages = read_passages(file)?;
        let model = ModelDir::open(path)?;
        updater = open(&args.index, "`dpr index add`")?;
        check_model(&updater, model.manifest().space(), &format!("the model {}", path.display()))?;
        let encoder = model.passage_encoder(args.device)?;
        let options = PipelineOptions::for_device(encoder.device_name(), None, None);
        let progress = progress::on_stderr();
        progress.start("encoding", "passages", passages.len() as u64);
        for batch in passages.chunks(BATCH) {
            let vectors = encode_passages(&encoder, batch, options, progress.as_ref())?;
            put(&updater, batch.iter().cloned().zip(vectors).map(new).collect())?;
        }
        progress.finish();
    } else {
        let set = VectorSet::read(&args.vectors)?;
        updater = open(&args.index, "`dpr index add`")?;
        check_model(&updater, &set.model_fingerprint, "the vectors")?;
        let rows: Vec<&[f32]> = set.rows.chunks(set.dim.max(1)).collect();
        for (passages, rows) in set.passages.chunks(BATCH).zip(rows.chunks(BATCH)) {
            let checked = passages.iter().zip(rows).map(|(passage, row)| {
                let vector = Embedding::new(row.to_vec(), set.dim)
                    .map_err(|source| IndexError::Vector { id: passage.id.clone(), source })?;
                Ok(new((passage.clone(), vector)))
            });
            put(&updater, checked.collect::<Result<_, IndexError>>()?)?;
        }
    }
    let Put { added, replaced } = done;
    let what = format!("{added} passages added, {replaced} replaced");
    report(&updater, &args.index, args.json, &what, &[("added", added), ("replaced", replaced)])
}

fn new((passage, vector): (Passage, Embedding)) -> NewPassage {
    NewPassage { passage, vector }
}

/// Deletes passages.
pub(super) fn delete(args: DeleteArgs) -> Result<(), CliError> {
    let ids = match &args.file {
        None => args.ids,
        Some(file) => {
            let text = fs_err::read_to_string(file)?;
            text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
        }
    };
    let updater = open(&args.index, "`dpr index delete`")?;
    let deleted = updater.delete(ids)?;
    report(&updater, &args.index, args.json, &format!("{deleted} passages deleted"), &[("deleted", deleted)])
}

/// Builds a new version.
pub(super) fn compact(args: &CompactArgs) -> Result<(), CliError> {
    let updater = open(&args.index, "`dpr index compact`")?;
    let started = Instant::now();
    let built = updater.compact(args.threads, &stop_on_interrupt(), progress::on_stderr().as_ref())?;
    let (index, seconds) = (args.index.display(), started.elapsed().as_secs_f64());
    match built {
        None => output::line(format_args!("{index}: nothing changed since it was built")),
        Some(manifest) => {
            let (count, number) = (manifest.count, updater.live().snapshot().base().number());
            output::line(format_args!("{index}: v-{number} of {count} passages, {seconds:.1} s"))
        }
    }
}

/// Opens the index for changes; `holder` is what others are told.
fn open(index: &Path, holder: &str) -> Result<Updater, CliError> {
    Ok(Updater::open(index, holder)?)
}

fn check_model(updater: &Updater, given: &str, what: &str) -> Result<(), CliError> {
    let snapshot = updater.live().snapshot();
    let model = &snapshot.base().manifest.model_fingerprint;
    if given == model {
        return Ok(());
    }
    Err(format!(
        "{what} is of model {}, the index of model {}: encode the passages with the model of the index",
        short(given),
        short(model)
    )
    .into())
}

fn report(
    updater: &Updater,
    index: &Path,
    json: bool,
    what: &str,
    numbers: &[(&str, usize)],
) -> Result<(), CliError> {
    let snapshot = updater.live().snapshot();
    let (count, changes) = (snapshot.len(), snapshot.changes());
    if json {
        let mut report = serde_json::Map::new();
        let numbers = numbers.iter().map(|(name, number)| ((*name).to_owned(), (*number).into()));
        report.extend(numbers);
        report.insert("count".into(), count.into());
        report.insert("changes".into(), changes.into());
        return output::json(&report);
    }
    let index = index.display();
    output::line(format_args!("{index}: {what}; {count} passages, {changes} changes since it was built"))?;
    if Compaction::default().is_due(&snapshot) {
        output::line(format_args!(
            "put them in with `dpr index compact --index {index}`, searches are slower until then"
        ))?;
    }
    Ok(())
}
