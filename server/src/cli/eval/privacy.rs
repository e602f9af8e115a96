//! `dpr eval privacy`: what a server can make of questions, in each mode of search.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::output::counted;
use dpr_core::private::blur::{Blur, DeviceKey, Level};
use dpr_data::{Question, read_questions};
use dpr_eval::privacy::{
    Attackers, Blurred, Bucket, DecoderOptions, EncodedQuestion, Mode, ModeReport, NetworkOptions, Plain,
    PrivacyReport, QuestionSplit, Random, attack, search,
};
use dpr_index::private::{BlurDir, CANDIDATES};
use dpr_index::search::{Backend, Method};
use dpr_private::site::BucketSite;

use super::super::privacy::open_blur;
use super::super::source::Source;
use super::super::source_args::SourceArgs;
use super::super::{CliError, output};
use super::result_files::{StagedResults, write_whole};
use crate::cli::progress;

/// Options of `dpr eval privacy`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr eval privacy --model model/ --index index/ --questions nq-dev.tsv --questions trivia-dev.tsv
  dpr index blur --model model/ --index index/ --questions nq-dev.tsv --out blur/
  dpr eval privacy --model model/ --index index/ --blur blur/ --questions nq-dev.tsv --questions trivia-dev.tsv --out report/
  dpr eval privacy --model model/ --index index/ --site site/dpr/ --questions nq-dev.tsv --modes plain,bucket:4:4,random

The attackers know the model, the index, the program, and all questions but those that they are tested on. They do not \
know the device's key. A question is recovered more easily by a better attacker than these: the figures are lower bounds.")]
pub(super) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Questions, any file that `dpr eval retrieval` takes or one a line; repeat for more. Duplicates are removed
    #[arg(long, value_name = "FILE", required = true)]
    questions: Vec<PathBuf>,
    /// Blur directory, as `dpr index blur` wrote it, for the blurred modes
    #[arg(long, value_name = "DIR")]
    blur: Option<PathBuf>,
    /// Static site of the index with buckets, as `dpr index export-static --buckets` wrote it, for the bucket modes
    #[arg(long, value_name = "DIR")]
    site: Option<PathBuf>,
    /// Modes: plain, random (a control), light, medium, strong, NUMBERS:NOISE such as 32:0.5, or bucket:PROBES:DECOYS
    /// [default: plain and random, with --blur also the levels that it offers, with --site also bucket:4:4]
    #[arg(long, value_name = "MODE,...", value_delimiter = ',', value_parser = mode_choice)]
    modes: Vec<ModeChoice>,
    /// Questions that are attacked; the attackers learn from the others
    #[arg(long, value_name = "N", default_value_t = 1000)]
    test: usize,
    /// Of those, questions that are searched for
    #[arg(long, value_name = "N", default_value_t = 500)]
    searches: usize,
    /// Seed of the split, of the noise and of the topics
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Passes of the neural attacker over its questions; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = NetworkOptions::default().epochs)]
    epochs: usize,
    /// Passes of the sequence decoder, the attacker that writes the question; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = DecoderOptions::default().epochs)]
    decoder_epochs: usize,
    /// Hidden units of the neural attackers
    #[arg(long, value_name = "N", default_value_t = NetworkOptions::default().hidden)]
    hidden: usize,
    /// Write into this directory: privacy.json, privacy.md and privacy.svg
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A mode that is attacked.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ModeChoice {
    Plain,
    Random,
    Level(Level),
    /// Numbers and noise that no level has.
    Own(Blur),
    Bucket {
        probes: usize,
        decoys: usize,
    },
}

fn mode_choice(text: &str) -> Result<ModeChoice, String> {
    if let Some(level) = Level::ALL.into_iter().find(|level| level.name() == text) {
        return Ok(ModeChoice::Level(level));
    }
    let own = text.split_once(':').and_then(|(dims, noise)| {
        let (dims, noise) = (dims.parse().ok()?, noise.parse::<f32>().ok()?);
        (dims > 0 && noise.is_finite() && noise >= 0.0).then_some(Blur { dims, noise })
    });
    let bucket = text.strip_prefix("bucket:").and_then(|numbers| numbers.split_once(':'));
    if let Some((Ok(probes), Ok(decoys))) = bucket.map(|(probes, decoys)| (probes.parse(), decoys.parse())) {
        return Ok(ModeChoice::Bucket { probes, decoys });
    }
    match (text, own) {
        ("plain", _) => Ok(ModeChoice::Plain),
        ("random", _) => Ok(ModeChoice::Random),
        (_, Some(blur)) => Ok(ModeChoice::Own(blur)),
        _ => Err(
            "give plain, random, light, medium, strong, NUMBERS:NOISE such as 32:0.5, or bucket:PROBES:DECOYS"
                .to_owned(),
        ),
    }
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let mut questions = Vec::new();
    for file in &args.questions {
        questions.extend(read_questions(file)?);
    }
    let backend = args.source.index.open()?;
    let index = backend.describe();
    let blur = args.blur.as_deref().map(|dir| open_blur(dir, (&index.model, index.dim))).transpose()?;
    let choices = modes_of(&args, blur.as_ref())?;
    let staged = args.out.as_deref().map(StagedResults::of).transpose()?;
    let snapshot = backend.snapshot().ok_or(
        "topics are made of the passages' vectors, which only an index directory holds: give a directory as --index",
    )?;
    let source = Source::of_backend(args.source, &[Method::Dense], Arc::clone(&backend))?;
    let split = QuestionSplit::new(encoded(&source, &questions)?, args.test, args.seed)?;
    let network = NetworkOptions { hidden: args.hidden.max(1), epochs: args.epochs };
    let network = (args.epochs > 0).then_some(network);
    let decoder = DecoderOptions { hidden: args.hidden.max(1), epochs: args.decoder_epochs };
    let decoder = (args.decoder_epochs > 0).then_some(decoder);
    let dim = backend.describe().dim;
    let vectors = snapshot.vectors().collect::<Result<Vec<_>, _>>()?;
    let attackers = Attackers::new(split, vectors.into_iter(), dim, network, decoder, args.seed);

    let backend = backend.as_ref();
    let modes: Vec<Box<dyn Mode + '_>> = choices
        .iter()
        .map(|choice| match choice {
            ModeChoice::Bucket { probes, decoys } => {
                bucket(args.site.as_deref(), (*probes, *decoys), backend, args.seed)
            }
            other => mode(*other, backend, blur.as_ref(), args.seed),
        })
        .collect::<Result<_, _>>()?;
    let test = &attackers.split().test;
    let searched_for = &test[..test.len().min(args.searches)];
    let mut report = PrivacyReport {
        model: backend.describe().model,
        passages: backend.describe().count,
        train: attackers.split().train.len(),
        held_out: attackers.split().held_out.len(),
        test: test.len(),
        searched: searched_for.len(),
        pieces: attackers.pieces(),
        seed: args.seed,
        floor: attackers.floor(),
        topic_floor: attackers.topic_floor(),
        modes: Vec::new(),
    };
    let progress = progress::on_stderr();
    progress.start("attacking", "modes", modes.len() as u64);
    for mode in &modes {
        let mode = mode.as_ref();
        let (attacked, searched) = (attack(mode, &attackers)?, search(mode, backend, searched_for)?);
        let (name, sees, groups) = (mode.name(), mode.sees(), mode.groups());
        report.modes.push(ModeReport { mode: name, sees, attacked, searched, groups });
        progress.advance(1);
    }
    progress.finish();
    if let Some(staged) = staged {
        let write = |name: &str, text: &[u8]| write_whole(&staged.path().join(name), text);
        write("privacy.json", &serde_json::to_vec_pretty(&report)?)?;
        write("privacy.md", report.table().as_bytes())?;
        write("privacy.svg", report.svg()?.as_bytes())?;
        staged.publish()?;
    }
    if args.json {
        return output::json(&report);
    }
    let PrivacyReport { passages, train, test, searched, pieces, .. } = &report;
    output::print(&format!(
        "{}; attackers learned from {} ({}), were tested on {test}; {} searched for\n\n{}",
        counted(*passages, "passage", "passages"),
        counted(*train, "question", "questions"),
        counted(*pieces, "word piece", "word pieces"),
        counted(*searched, "was", "were"),
        report.table()
    ))
}

/// Returns the modes that were asked for, and refuses those that cannot be had.
fn modes_of(args: &Args, blur: Option<&BlurDir>) -> Result<Vec<ModeChoice>, CliError> {
    if args.modes.is_empty() {
        let levels = blur.into_iter().flat_map(|blur| blur.manifest().levels.keys());
        return Ok([ModeChoice::Plain]
            .into_iter()
            .chain(levels.map(|level| ModeChoice::Level(*level)))
            .chain(args.site.iter().map(|_| ModeChoice::Bucket { probes: 4, decoys: 4 }))
            .chain([ModeChoice::Random])
            .collect());
    }
    for choice in &args.modes {
        let dims = match (choice, blur) {
            (ModeChoice::Plain | ModeChoice::Random | ModeChoice::Bucket { .. }, _) => continue,
            (_, None) => return Err("blurred modes need --blur, which `dpr index blur` writes".into()),
            (ModeChoice::Level(level), Some(_)) => level.blur().dims,
            (ModeChoice::Own(own), Some(_)) => own.dims,
        };
        let rank = blur.map_or(0, |blur| blur.manifest().rank);
        if dims > rank {
            return Err(format!("{dims} numbers were asked for, the projection has {rank}").into());
        }
    }
    Ok(args.modes.clone())
}

fn mode<'a>(
    choice: ModeChoice,
    backend: &'a dyn Backend,
    blur: Option<&BlurDir>,
    seed: u64,
) -> Result<Box<dyn Mode + 'a>, CliError> {
    let most = CANDIDATES.into_iter().max().unwrap_or(1);
    let (name, own, candidates) = match choice {
        ModeChoice::Plain => return Ok(Box::new(Plain::new(backend))),
        ModeChoice::Bucket { .. } => return Err("bucket modes need --site".into()),
        ModeChoice::Random => return Ok(Box::new(Random { dims: 64 })),
        // A level that is not offered is measured with as many candidates as there can be.
        ModeChoice::Level(level) => {
            let entry = blur.and_then(|blur| blur.level(level));
            (level.name().to_owned(), level.blur(), entry.map_or(most, |entry| entry.candidates))
        }
        ModeChoice::Own(own) => (format!("{}:{}", own.dims, own.noise), own, most),
    };
    let blur = blur.ok_or("blurred modes need --blur, which `dpr index blur` writes")?;
    let projection = Arc::clone(blur.projection());
    Ok(Box::new(Blurred::new(backend, projection, name, own, candidates, device_key(seed))))
}

/// Opens a site of the same index as a mode.
fn bucket<'a>(
    site: Option<&Path>,
    (probes, decoys): (usize, usize),
    backend: &dyn Backend,
    seed: u64,
) -> Result<Box<dyn Mode + 'a>, CliError> {
    let path = site.ok_or("bucket modes need --site, which `dpr index export-static --buckets` writes")?;
    let site = BucketSite::open(path, probes, decoys, device_key(seed))?;
    let (index, manifest) = (backend.describe(), site.manifest());
    if (manifest.model_fingerprint.as_str(), manifest.passages) != (index.model.as_str(), index.count) {
        let path = path.display();
        return Err(format!(
            "{path} is not of this index: export it with `dpr index export-static --buckets`"
        )
        .into());
    }
    Ok(Box::new(Bucket::new(site, device_key(seed))))
}

/// Returns the key of the device that is attacked. It is not secret here, so that a report can be made again.
fn device_key(seed: u64) -> DeviceKey {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    DeviceKey::new(key)
}

/// Encodes the questions.
fn encoded(source: &Source, questions: &[Question]) -> Result<Vec<EncodedQuestion>, CliError> {
    let (vectors, _) = source.encode(questions)?;
    let of = |(question, vector): (&Question, _)| {
        Ok(EncodedQuestion {
            text: question.text.clone(),
            tokens: source.question_tokens(&question.text)?,
            vector,
        })
    };
    questions.iter().zip(vectors).map(of).collect()
}
