//! `dpr index add`, `delete` and `compact`: an index that changes.

use std::path::PathBuf;
use std::time::Instant;

use dpr_core::{DeviceChoice, Embedding};

use crate::cli::place::{IndexPlace, milvus_token};
use crate::cli::{CliError, output, stop_on_interrupt};
use crate::data::{Passage, read_passages};
use crate::encode::{PipelineOptions, encode_passages};
use crate::http::short;
use crate::index::milvus::MilvusIndex;
use crate::index::{Compaction, IndexError, NewPassage, Put, Updater, VectorIndex as _};
use crate::model::ModelDir;
use crate::progress;
use crate::update::PassageStore;
use crate::vectors::VectorSet;

/// Passages that are encoded and written together.
const BATCH: usize = 1000;

/// Options of `dpr index add`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Passages are written in batches of 1,000, each whole or not at all.")]
pub(super) struct AddArgs {
    /// The index directory, or milvus://HOST:PORT/COLLECTION
    #[arg(long, env = "DPR_INDEX", value_name = "DIR")]
    index: IndexPlace,
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
    /// The index directory, or milvus://HOST:PORT/COLLECTION
    #[arg(long, env = "DPR_INDEX", value_name = "DIR")]
    index: IndexPlace,
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
    index: IndexPlace,
    /// Threads that index words; 0 means one for each processor
    #[arg(long, default_value_t = 0, value_name = "N")]
    threads: usize,
}

/// Adds passages.
pub(super) fn add(args: AddArgs) -> Result<(), CliError> {
    let mut done = Put::default();
    let mut put = |index: &Opened, batch: Vec<NewPassage>| -> Result<(), CliError> {
        let Put { added, replaced } = index.store().put(batch)?;
        done.added += added;
        done.replaced += replaced;
        Ok(())
    };
    let opened;
    if let (Some(file), Some(path)) = (&args.passages, &args.model) {
        let passages = read_passages(file)?;
        let model = ModelDir::open(path)?;
        opened = Opened::open(&args.index, "`dpr index add`")?;
        check_model(&opened, model.manifest().space(), &format!("the model {}", path.display()))?;
        let encoder = model.passage_encoder(args.device)?;
        let options = PipelineOptions::for_device(encoder.device_name(), None, None);
        let progress = progress::on_stderr();
        progress.start("encoding", "passages", passages.len() as u64);
        for batch in passages.chunks(BATCH) {
            let vectors = encode_passages(&encoder, batch, options, progress.as_ref())?;
            put(&opened, batch.iter().cloned().zip(vectors).map(new).collect())?;
        }
        progress.finish();
    } else {
        let set = VectorSet::read(&args.vectors)?;
        opened = Opened::open(&args.index, "`dpr index add`")?;
        check_model(&opened, &set.model_fingerprint, "the vectors")?;
        let rows: Vec<&[f32]> = set.rows.chunks(set.dim.max(1)).collect();
        for (passages, rows) in set.passages.chunks(BATCH).zip(rows.chunks(BATCH)) {
            let checked = passages.iter().zip(rows).map(|(passage, row)| {
                let vector = Embedding::new(row.to_vec(), set.dim)
                    .map_err(|source| IndexError::Vector { id: passage.id.clone(), source })?;
                Ok(new((passage.clone(), vector)))
            });
            put(&opened, checked.collect::<Result<_, IndexError>>()?)?;
        }
    }
    let Put { added, replaced } = done;
    let what = format!("{added} passages added, {replaced} replaced");
    report(&opened, &args.index, args.json, &what, &[("added", added), ("replaced", replaced)])
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
    let opened = Opened::open(&args.index, "`dpr index delete`")?;
    let deleted = opened.store().delete(ids)?;
    report(&opened, &args.index, args.json, &format!("{deleted} passages deleted"), &[("deleted", deleted)])
}

/// Builds a new version.
pub(super) fn compact(args: &CompactArgs) -> Result<(), CliError> {
    let what = "`dpr index compact`";
    let updater = Updater::open(args.index.dir(what)?, what)?;
    let started = Instant::now();
    let built = updater.compact(args.threads, &stop_on_interrupt(), progress::on_stderr().as_ref())?;
    let (index, seconds) = (&args.index, started.elapsed().as_secs_f64());
    match built {
        None => output::line(format_args!("{index}: nothing changed since it was built")),
        Some(manifest) => {
            let (count, number) = (manifest.count, updater.live().snapshot().base().number());
            output::line(format_args!("{index}: v-{number} of {count} passages, {seconds:.1} s"))
        }
    }
}

/// An index open for changes.
enum Opened {
    Dir(Box<Updater>),
    Cluster(MilvusIndex),
}

impl Opened {
    /// Opens it; `holder` is what others are told of who has the directory.
    fn open(place: &IndexPlace, holder: &str) -> Result<Self, CliError> {
        Ok(match place {
            IndexPlace::Dir(dir) => Self::Dir(Box::new(Updater::open(dir, holder)?)),
            IndexPlace::Milvus(address) => {
                Self::Cluster(MilvusIndex::open(address, milvus_token()?.as_deref())?)
            }
        })
    }

    fn store(&self) -> &dyn PassageStore {
        match self {
            Self::Dir(updater) => updater.as_ref(),
            Self::Cluster(index) => index,
        }
    }

    /// Fingerprint of its model.
    fn model(&self) -> String {
        match self {
            Self::Dir(updater) => updater.live().snapshot().base().manifest.model_fingerprint.clone(),
            Self::Cluster(index) => index.described().model_fingerprint.clone(),
        }
    }
}

fn check_model(opened: &Opened, given: &str, what: &str) -> Result<(), CliError> {
    let model = &opened.model();
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
    opened: &Opened,
    index: &IndexPlace,
    json: bool,
    what: &str,
    numbers: &[(&str, usize)],
) -> Result<(), CliError> {
    let snapshot = match opened {
        Opened::Dir(updater) => Some(updater.live().snapshot()),
        Opened::Cluster(_) => None,
    };
    let count = match opened {
        Opened::Dir(updater) => updater.live().snapshot().len(),
        Opened::Cluster(index) => index.refresh()?,
    };
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
    if snapshot.is_some_and(|snapshot| Compaction::default().is_due(&snapshot)) {
        output::line(format_args!(
            "put them in with `dpr index compact --index {index}`, searches are slower until then"
        ))?;
    }
    Ok(())
}
