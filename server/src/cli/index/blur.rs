//! `dpr index blur`: makes the blur directory of an index, for blurred search.

use std::path::{Path, PathBuf};

use dpr_core::Embedding;
use dpr_core::private::blur::Level;
use dpr_core::random::SplitMix;
use dpr_data::read_questions;
use dpr_encode::model::ModelDir;
use dpr_encode::{PipelineOptions, encode_questions};
use dpr_index::private::{BlurDir, BlurManifest, CANDIDATES, Calibration, calibrate, principal_directions};
use dpr_index::search::Description;
use dpr_index::vectors::VectorSet;
use serde::Serialize;

use crate::cli::args::{DeviceArgs, IndexArgs};
use crate::cli::model_of_index::model_of_index;
use crate::cli::{CliError, output, progress};

/// Options of `dpr index blur`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr index blur --index index/ --model model/ --questions questions.tsv --out blur/
  dpr serve --model model/ --index index/ --blur blur/")]
pub(super) struct BlurArgs {
    #[command(flatten)]
    at: IndexArgs,
    /// The blur directory to write; one that is there is replaced
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Questions to calibrate with, any file that `dpr eval` takes or one a line; without them vectors of passages
    /// stand in, which are found more easily
    #[arg(long, requires = "model", value_name = "FILE")]
    questions: Option<PathBuf>,
    /// Model directory, to encode the questions
    #[arg(long, env = "DPR_MODEL", value_name = "DIR")]
    model: Option<PathBuf>,
    /// Milvus, PostgreSQL: directories that `dpr encode` wrote, of whose vectors the directions are made
    #[arg(long, num_args = 1.., value_name = "DIR")]
    vectors: Vec<PathBuf>,
    /// Questions that are searched for, of those in the file
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    sample: u32,
    /// Seed of the sample and of the noise
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    compute: DeviceArgs,
    /// Print the manifest and what was measured as JSON
    #[arg(long)]
    json: bool,
}

/// The output of `--json`.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    manifest: &'a BlurManifest,
    /// Share of the variance that the first 32, 48, 64, 96 and all directions keep.
    variance: Vec<(usize, f64)>,
    /// Recall@20 of each level by the number of candidates.
    measured: Vec<(&'a str, Vec<(usize, f64)>)>,
}

pub(super) fn run(args: &BlurArgs) -> Result<(), CliError> {
    let backend = args.at.index.open()?;
    let Description { dim, model, count, .. } = backend.describe();
    // Said before questions are encoded and searched for.
    BlurDir::check_target(&args.out)?;
    let snapshot = backend.snapshot();
    let set = match (&snapshot, args.vectors.as_slice()) {
        (Some(_), []) => None,
        (None, []) => {
            let index = &args.at.index;
            return Err(format!(
                "{index} does not hand out its vectors: give those it was loaded from as --vectors"
            )
            .into());
        }
        (_, dirs) => Some(vectors_of(dirs, &model, dim)?),
    };
    let rows: Vec<&[f32]> = match (&set, &snapshot) {
        (Some(set), _) => set.rows.chunks_exact(set.dim).collect(),
        (None, Some(snapshot)) => snapshot.vectors().collect::<Result<_, _>>()?,
        (None, None) => Vec::new(),
    };
    let (projection, kept) = principal_directions(&rows, dim)?;
    let (questions, calibrated_on) = match &args.questions {
        Some(file) => (encoded(args, file, (&model, dim))?, "questions"),
        None => {
            tracing::warn!(
                "vectors of passages stand in for questions, which need more candidates than is measured: give --questions"
            );
            (sampled(&rows, dim, args), "passages")
        }
    };
    let calibrations = calibrate(backend.as_ref(), &projection, &questions, args.seed)?;
    let from = (questions.len(), calibrated_on);
    let manifest = BlurManifest::new(&model, &projection, count, from, &calibrations);
    let blur = BlurDir::write(&args.out, manifest, projection)?;
    say(args, &blur, &kept, &calibrations)
}

/// Reads the vectors that a service was loaded from.
fn vectors_of(dirs: &[PathBuf], model: &str, dim: usize) -> Result<VectorSet, CliError> {
    let set = VectorSet::read_shards(dirs)?;
    match set.dim == dim && set.model_fingerprint == model {
        true => Ok(set),
        false => Err("--vectors are of another model than the index: give those it was loaded from".into()),
    }
}

/// Returns the vectors of a sample of the questions of `file`.
fn encoded(args: &BlurArgs, file: &Path, built_by: (&str, usize)) -> Result<Vec<Embedding>, CliError> {
    let mut questions = read_questions(file)?;
    SplitMix::new(args.seed).shuffle(&mut questions);
    questions.truncate(args.sample as usize);
    let path = args.model.as_deref().ok_or("--questions need --model, to encode them with")?;
    let model = model_of_index(&args.at.index, built_by, path, ModelDir::open(path)?)?;
    let encoder = model.question_encoder(args.compute.device)?;
    let texts: Vec<&str> = questions.iter().map(|question| question.text.as_str()).collect();
    let options = PipelineOptions::for_device(encoder.device_name(), None, None);
    Ok(encode_questions(&encoder, &texts, options, progress::on_stderr().as_ref())?)
}

/// Returns some of the passages' vectors.
fn sampled(rows: &[&[f32]], dim: usize, args: &BlurArgs) -> Vec<Embedding> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    SplitMix::new(args.seed).shuffle(&mut order);
    let rows = order.iter().filter_map(|at| Embedding::new(rows[*at].to_vec(), dim).ok());
    rows.take(args.sample as usize).collect()
}

fn say(args: &BlurArgs, blur: &BlurDir, kept: &[f64], calibrations: &[Calibration]) -> Result<(), CliError> {
    let manifest = blur.manifest();
    let measured = |calibration: &Calibration| -> Vec<(usize, f64)> {
        CANDIDATES.into_iter().zip(calibration.recall).collect()
    };
    if args.json {
        let dims = [32, 48, 64, 96, manifest.rank].into_iter();
        let variance = dims.filter_map(|dims| Some((dims, *kept.get(dims.checked_sub(1)?)?))).collect();
        let of = |calibration: &Calibration| (calibration.level.name(), measured(calibration));
        let measured = calibrations.iter().map(of).collect();
        return output::json(&Report { manifest, variance, measured });
    }
    let (out, rank, dim) = (args.out.display(), manifest.rank, manifest.dim);
    let bytes = manifest.projection.bytes;
    let mut text = format!("{out}: {rank} directions of {dim}, {bytes} bytes\n");
    for calibration in calibrations {
        let (level, blur) = (calibration.level, calibration.level.blur());
        let all: Vec<String> =
            measured(calibration).iter().map(|(count, recall)| format!("{count}: {recall:.4}")).collect();
        let offered = match calibration.enough() {
            Some((count, _)) => format!("{count} candidates"),
            None => format!("not offered, {} is wanted", level.wanted_recall()),
        };
        text.push_str(&format!(
            "{:<8}{} numbers, noise {}: {offered}; recall@20 within {}\n",
            level.name(),
            blur.dims,
            blur.noise,
            all.join("  ")
        ));
    }
    // Levels that need more directions than the vectors have are not measured.
    for level in Level::ALL.into_iter().filter(|level| level.blur().dims > rank) {
        let (name, dims) = (level.name(), level.blur().dims);
        text.push_str(&format!("{name:<8}{dims} numbers: not offered, the vectors have {rank} directions\n"));
    }
    output::print(&text)
}
