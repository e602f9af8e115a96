//! Encodes a corpus and its questions in every precision and says how fast, how near to f32, and how well passages are
//! found.
//!
//! ```text
//! cargo run --release -p dpr-bench --bin precision_bench -- MODEL_DIR SQUAD_JSON [ROUNDS] [--speeds]
//! cargo run --release -p dpr-bench --bin precision_bench -- MODEL_DIR SQUAD_JSON --turns PRECISION
//! ```
//!
//! Prints a line of JSON for each precision. The precisions take turns, round by round: `passages_per_second` and
//! `question_ms` (from text to vector, one thread) are medians of the rounds, `speed_ratio` and `question_ratio` the
//! medians of each round's ratio to f32 in it. `least_cosine` and `mean_cosine` are of all passages and questions with
//! their vectors in f32. `top_1`, `top_5` and `top_20` are the accuracies at k of exact search for the gold passage,
//! with questions and passages in that precision; `mixed_top_1` with questions in f32, as a page may send them. With
//! `--speeds`, the corpus's questions are not encoded, and nothing but speeds is printed. With `--turns`, nothing but
//! questions in that precision is measured: for each line of its input the program encodes one 40 times, and prints the
//! median milliseconds.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use dpr_core::kernel::search::batch::QueryBatch;
use dpr_core::{DeviceChoice, Embedding, Precision, TextEncoder};
use dpr_data::{Passage, Question, read_passages, read_questions};
use dpr_encode::model::ModelDir;
use dpr_encode::{PipelineOptions, encode_passages, encode_questions};
use dpr_files::progress::Silent;

/// 16 tokens with the two that frame it.
const QUESTION: &str = "which nfl team represented the afc at super bowl 50 in the year 2016";
const QUESTION_RUNS: usize = 60;
const USAGE: &str = "usage: precision_bench MODEL_DIR SQUAD_JSON [ROUNDS] [--speeds] | --turns PRECISION";
/// Questions of a turn.
const TURN: usize = 40;
/// Threads that encode passages, as many as the peers have.
const THREADS: usize = 2;

/// One precision with its measurements, a value a round.
struct Measured {
    precision: Precision,
    passage_encoder: TextEncoder,
    question_encoder: TextEncoder,
    passages: Vec<Embedding>,
    questions: Vec<Embedding>,
    speeds: Vec<f64>,
    question_ms: Vec<f64>,
}

impl Measured {
    fn load(model: &str, precision: Precision) -> Result<Self, Box<dyn Error>> {
        let model = ModelDir::open(Path::new(model))?.in_precision(precision);
        Ok(Self {
            precision,
            passage_encoder: model.passage_encoder(DeviceChoice::Cpu)?,
            question_encoder: model.question_encoder(DeviceChoice::Cpu)?,
            passages: Vec::new(),
            questions: Vec::new(),
            speeds: Vec::new(),
            question_ms: Vec::new(),
        })
    }

    fn round(&mut self, passages: &[Passage]) -> Result<(), Box<dyn Error>> {
        let started = Instant::now();
        self.passages = encode_passages(&self.passage_encoder, passages, options(), &Silent)?;
        self.speeds.push(passages.len() as f64 / started.elapsed().as_secs_f64());
        self.question_ms.push(question_ms(&self.question_encoder, QUESTION_RUNS)?);
        Ok(())
    }

    /// Vectors of the passages, then of the questions.
    fn vectors(&self) -> impl Iterator<Item = &[f32]> {
        self.passages.iter().chain(&self.questions).map(Embedding::as_slice)
    }

    fn ask(&mut self, questions: &[Question]) -> Result<(), Box<dyn Error>> {
        let texts: Vec<&str> = questions.iter().map(|question| question.text.as_str()).collect();
        self.questions = encode_questions(&self.question_encoder, &texts, options(), &Silent)?;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(model), Some(file)) = (arguments.next(), arguments.next()) else {
        return Err(USAGE.into());
    };
    let mut arguments = arguments.peekable();
    if arguments.next_if(|flag| flag == "--turns").is_some() {
        let precision = arguments.next().ok_or("--turns needs a precision")?.parse()?;
        return take_turns(&Measured::load(&model, precision)?.question_encoder);
    }
    let (flags, rounds): (Vec<_>, Vec<_>) = arguments.partition(|argument| argument == "--speeds");
    let rounds: usize = match rounds.as_slice() {
        [] => 3,
        [rounds] => rounds.parse()?,
        _ => return Err(USAGE.into()),
    };
    let (passages, questions) = (read_passages(Path::new(&file))?, read_questions(Path::new(&file))?);
    let loaded = Precision::ALL.into_iter().map(|precision| Measured::load(&model, precision));
    let mut all = loaded.collect::<Result<Vec<_>, _>>()?;
    for _ in 0..rounds.max(1) {
        for measured in &mut all {
            measured.round(&passages)?;
        }
    }
    if !flags.is_empty() {
        for measured in &all {
            println!("{}", speeds(measured, &all[0]));
        }
        return Ok(());
    }
    for measured in &mut all {
        measured.ask(&questions)?;
    }
    let gold: Vec<Option<usize>> =
        questions.iter().map(|question| row_of_gold(question, &passages)).collect();
    for measured in &all {
        println!("{}", report(measured, &all[0], &gold));
    }
    Ok(())
}

/// Returns the median milliseconds from a question to its vector.
fn question_ms(encoder: &TextEncoder, runs: usize) -> Result<f64, Box<dyn Error>> {
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let started = Instant::now();
        encoder.encode_question(QUESTION)?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(times))
}

fn take_turns(encoder: &TextEncoder) -> Result<(), Box<dyn Error>> {
    for line in std::io::stdin().lines() {
        line?;
        println!("{}", question_ms(encoder, TURN)?);
    }
    Ok(())
}

fn options() -> PipelineOptions {
    PipelineOptions::for_device("cpu", None, Some(THREADS))
}

fn row_of_gold(question: &Question, passages: &[Passage]) -> Option<usize> {
    let gold = question.gold.as_ref()?;
    passages.iter().position(|passage| passage.text == *gold.text)
}

fn speeds(measured: &Measured, single: &Measured) -> serde_json::Value {
    let ratios = |ours: &[f64], theirs: &[f64]| median(ours.iter().zip(theirs).map(|(a, b)| a / b).collect());
    serde_json::json!({
        "precision": measured.precision,
        "passages": measured.passages.len(),
        "passages_per_second": median(measured.speeds.clone()),
        "speed_ratio": ratios(&measured.speeds, &single.speeds),
        "question_ms": median(measured.question_ms.clone()),
        "question_ratio": ratios(&single.question_ms, &measured.question_ms),
    })
}

fn report(measured: &Measured, single: &Measured, gold: &[Option<usize>]) -> serde_json::Value {
    let cosines: Vec<f64> = measured.vectors().zip(single.vectors()).map(|(a, b)| cosine(a, b)).collect();
    let own = accuracies(&measured.questions, &measured.passages, gold);
    let mixed = accuracies(&single.questions, &measured.passages, gold);
    let mut values = speeds(measured, single);
    values["questions"] = measured.questions.len().into();
    values["least_cosine"] = cosines.iter().copied().fold(1.0, f64::min).into();
    values["mean_cosine"] = (cosines.iter().sum::<f64>() / cosines.len().max(1) as f64).into();
    values["top_1"] = own[0].into();
    values["top_5"] = own[1].into();
    values["top_20"] = own[2].into();
    values["mixed_top_1"] = mixed[0].into();
    values
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// The shares of questions with the gold passage among the first 1, 5 and 20.
fn accuracies(questions: &[Embedding], passages: &[Embedding], gold: &[Option<usize>]) -> [f64; 3] {
    let rows: Vec<f32> = passages.iter().flat_map(|vector| vector.as_slice()).copied().collect();
    let dim = rows.len() / passages.len().max(1);
    let mut found = [0usize; 3];
    for (questions, gold) in questions.chunks(64).zip(gold.chunks(64)) {
        let batch = QueryBatch::new(questions.iter().map(Embedding::as_slice), dim);
        let mut scores = vec![0f32; questions.len() * passages.len()];
        batch.products(&rows, &mut scores);
        for (scores, gold) in scores.chunks_exact(passages.len()).zip(gold) {
            let Some(gold) = gold else { continue };
            let better = scores.iter().filter(|score| **score > scores[*gold]).count();
            for (count, depth) in found.iter_mut().zip([1, 5, 20]) {
                *count += usize::from(better < depth);
            }
        }
    }
    let total = gold.iter().flatten().count().max(1);
    found.map(|count| count as f64 / total as f64)
}

/// The middle value, the upper one of two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
