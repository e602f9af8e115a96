//! # Training the encoders on your own questions
//!
//! The encoders learn from questions with the passages that answer them. All passages of a batch serve every question:
//! the answer's own passage is to score above the passages of all other questions, and above the hard negatives, which
//! look like an answer and are none (paper §3.2).
//!
//! This example takes 400 questions of SQuAD, writes the training file, trains a tiny encoder with random weights for
//! 200 steps, and compares how often the right passage comes first before and after. It takes seconds on two cores; a
//! real run differs in its model, its files and its settings, which `configs/` holds.
//!
//! ```sh
//! cargo run --release -p dpr-examples --example train_on_your_questions
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use dpr_core::{DeviceChoice, Pooling};
use dpr_data::{
    DataError, Passage, Question, TrainingContext, TrainingItem, read_passages, read_questions,
    write_training,
};
use dpr_encode::model::{ImportOptions, ModelDir, import};
use dpr_files::Job;
use dpr_files::progress::Silent;
use dpr_train::{
    DataFile, DataOptions, ModelOptions, OptimiserOptions, Prepared, RunOptions, Scores, TrainConfig,
    TrainDevice, train,
};

/// Questions that are used.
const QUESTIONS: usize = 400;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let directory = tempfile::tempdir()?;
    let dir = directory.path();

    // # The training file
    //
    // SQuAD says of each question which paragraph it was asked about: that is its positive. A hard negative should be
    // a passage that a search would rank high. `dpr data mine` takes them from BM25; here the next paragraph of the
    // same article does.
    let corpus = repository.join("web-demo/corpus/squad-dev-v1.1.json.gz");
    let passages = read_passages(&corpus)?;
    let rows: HashMap<&str, usize> =
        passages.iter().enumerate().map(|(row, passage)| (passage.id.as_str(), row)).collect();
    let context = |passage: &Passage| TrainingContext {
        title: passage.title.clone(),
        text: passage.text.clone(),
        passage_id: Some(passage.id.clone()),
        score: None,
    };
    let item = |question: &Question| -> Option<TrainingItem> {
        let row = *rows.get(question.gold.as_ref()?.id.as_str())?;
        Some(TrainingItem {
            question: question.text.clone(),
            answers: question.answers.as_slice().to_vec(),
            positive_ctxs: vec![context(&passages[row])],
            hard_negative_ctxs: vec![context(&passages[(row + 1) % passages.len()])],
            ..TrainingItem::default()
        })
    };

    // Every fifth question is kept for measuring. Its paragraph is trained on with other questions, but the question
    // itself is new to the encoder.
    let questions = read_questions(&corpus)?;
    let items: Vec<TrainingItem> = questions.iter().filter_map(item).take(QUESTIONS).collect();
    let (train_file, dev_file) = (dir.join("train.json.gz"), dir.join("dev.json.gz"));
    for (path, is_dev) in [(&train_file, false), (&dev_file, true)] {
        // The writer takes item by item. The file appears when all are written, or not at all.
        let chosen = items.iter().enumerate().filter(|(number, _)| (number % 5 == 0) == is_dev);
        let written = write_training(path, |out| {
            for (_, item) in chosen {
                out.write(item)?;
            }
            Ok::<(), DataError>(())
        })?;
        println!("{written} questions to {}", if is_dev { "measure with" } else { "train on" });
    }

    // # The model to start from
    //
    // One encoder for questions and passages. The paper trains two, from BERT; `encoders = "separate"` makes two of
    // one.
    let encoder = repository.join("tests/fixtures/dpr-tiny/question");
    let options = ImportOptions { pooling: Some(Pooling::Mean), ..ImportOptions::default() };
    import(&encoder, None, &dir.join("model"), &options)?;

    // # The settings
    //
    // Every field has the paper's value unless it is set. Here they are set in Rust; `TrainConfig` is also what
    // `dpr train --config` reads from TOML.
    let config = TrainConfig {
        model: ModelOptions {
            start: dir.join("model"),
            max_question_tokens: Some(32),
            max_passage_tokens: Some(128),
            ..ModelOptions::default()
        },
        data: DataOptions {
            train: vec![DataFile { path: train_file, weight: 1.0 }],
            dev: vec![dev_file],
            ..DataOptions::default()
        },
        // The tiny encoder takes large steps; BERT needs 1e-5 or 2e-5.
        optimiser: OptimiserOptions { learning_rate: 3e-3, warm_up: 10, ..OptimiserOptions::default() },
        run: RunOptions { batch_size: 16, epochs: 10, dropout: 0.0, ..RunOptions::default() },
        ..TrainConfig::default()
    };

    // # Training
    //
    // `Prepared` reads everything before the first step, so that a mistake in a file shows now and not after an hour.
    let device = TrainDevice::open(DeviceChoice::Flex)?;
    let prepared = Prepared::new(&config, &device)?;
    for note in &prepared.notes {
        println!("note: {note}");
    }

    // The run directory keeps the settings, a line for every step, curves, checkpoints and the best model. When the
    // process is killed, the same call with `resume` set to true goes on from the last checkpoint and takes the steps
    // that it would have taken. Setting `stop` from another thread ends the run after a checkpoint.
    let stop = AtomicBool::new(false);
    let job = Job { stop: &stop, progress: &Silent };
    let report = train(&config, &dir.join("run"), false, prepared, &device, job)?;
    println!("{} steps in {:.1} s", report.steps, report.seconds);

    // # Before and after
    //
    // The dev questions were measured before the first step and after every epoch; the best model is the one with the
    // lowest average rank. Each question's passage is ranked among the passages of all dev questions.
    let best = report.best.map(|best| best.scores);
    let (Some(Scores::Retrieval(before)), Some(Scores::Retrieval(after))) = (report.at_start, best) else {
        return Err("the dev questions were not measured".into());
    };
    println!("{} questions, {} passages", after.questions, after.passages);
    for (name, before, after) in [("top-1", before.top1, after.top1), ("top-5", before.top5, after.top5)] {
        println!("{name}: {:5.1} % before, {:5.1} % after", 100.0 * before, 100.0 * after);
    }
    println!("average rank: {:.1} before, {:.1} after", before.average_rank, after.average_rank);
    assert!(after.average_rank < before.average_rank, "it learned something");

    // The best model is a model directory as any other: encode, index and search with it, as in the example
    // `search_your_passages`. Its fingerprint is new, so that indexes of the old model refuse its questions.
    let trained = ModelDir::open(&report.model)?;
    println!("the trained model has the fingerprint {}…", &trained.manifest().fingerprint[..12]);
    Ok(())
}
