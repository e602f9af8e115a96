//! Sparse search beside plain tantivy: the same passages, terms and questions, in turns.
//!
//!     sparse_bench PASSAGES QUESTIONS FOLDER [ROUNDS]
//!
//! Prints JSON. Both index with two threads and search with one, 100 passages a question; tantivy with its own
//! constants, its one-byte lengths and its top-k that skips blocks. `every_posting` is our index searched without bounds;
//! `differ` is the number of questions for which a search with bounds found other rows or scores than that.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use dpr_data::{Passage, read_passages, read_questions};
use dpr_files::progress::Silent;
use dpr_index::ScoredRow;
use dpr_index::sparse::{Analyzer, Scoring, SparseIndex, SparseOptions, build_sparse};
use serde_json::json;
use tantivy::collector::TopDocs;
use tantivy::query::{BooleanQuery, Occur, Query, TermQuery};
use tantivy::schema::{FAST, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::TokenStream as _;
use tantivy::{Index, IndexWriter, TantivyDocument, Term};

const ANALYZER: Analyzer = Analyzer::English;
const THREADS: usize = 2;
const K: usize = 100;

#[derive(Default)]
struct Engine {
    build_seconds: Vec<f64>,
    questions_per_second: Vec<f64>,
    bytes: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [passages, questions, folder, rest @ ..] = arguments.as_slice() else {
        return Err("usage: sparse_bench PASSAGES QUESTIONS FOLDER [ROUNDS]".into());
    };
    let rounds = rest.first().map_or(Ok(3), |rounds| rounds.parse())?;
    let passages = read_passages(passages.as_ref())?;
    let questions: Vec<String> =
        read_questions(questions.as_ref())?.into_iter().map(|question| question.text).collect();
    let (mut ours, mut every, mut plain) = (Engine::default(), Engine::default(), Engine::default());
    let mut differ = 0;
    for round in 0..rounds {
        let index = build_ours(&empty(folder, "dpr")?, &passages, &mut ours)?;
        if round == 0 {
            differ = different(&index, &questions)?;
        }
        // Each engine is asked twice: the first pass brings the files into memory and learns the words.
        time(&questions, &mut ours, |question| index.search(question, K, Scoring::PAPER).map(drop))?;
        time(&questions, &mut every, |question| {
            index.search_every_posting(question, K, Scoring::PAPER).map(drop)
        })?;
        measure_plain(&empty(folder, "tantivy")?, &passages, &questions, &mut plain)?;
    }
    let report = |engine: Engine| {
        json!({
            "build_seconds": engine.build_seconds,
            "questions_per_second": engine.questions_per_second,
            "bytes": engine.bytes,
        })
    };
    let (passages, questions) = (passages.len(), questions.len());
    println!(
        "{}",
        json!({
            "passages": passages,
            "questions": questions,
            "dpr": report(ours),
            "every_posting": report(every),
            "tantivy": report(plain),
            "differ": differ,
        })
    );
    Ok(())
}

fn empty(folder: &str, name: &str) -> std::io::Result<PathBuf> {
    let folder = Path::new(folder).join(name);
    if folder.exists() {
        fs_err::remove_dir_all(&folder)?;
    }
    fs_err::create_dir_all(&folder)?;
    Ok(folder)
}

fn bytes(folder: &Path) -> std::io::Result<u64> {
    fs_err::read_dir(folder)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}

fn build_ours(
    folder: &Path,
    passages: &[Passage],
    engine: &mut Engine,
) -> Result<SparseIndex, Box<dyn Error>> {
    let started = Instant::now();
    let options = SparseOptions { analyzer: ANALYZER, threads: THREADS };
    build_sparse(folder, passages, options, &false.into(), &Silent)?;
    engine.build_seconds.push(started.elapsed().as_secs_f64());
    engine.bytes = bytes(folder)?;
    Ok(SparseIndex::open(folder, ANALYZER, passages.len())?)
}

/// Times the second of two passes over the questions.
fn time<E: Error + 'static>(
    questions: &[String],
    engine: &mut Engine,
    mut search: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), Box<dyn Error>> {
    for pass in 0..2 {
        let started = Instant::now();
        questions.iter().try_for_each(|question| search(question))?;
        if pass == 1 {
            engine.questions_per_second.push(questions.len() as f64 / started.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

/// Returns the number of questions and constants for which the search with bounds finds other rows or scores than the
/// one that scores every posting.
fn different(index: &SparseIndex, questions: &[String]) -> Result<usize, Box<dyn Error>> {
    let scorings = [
        Scoring::PAPER,
        Scoring::Bm25 { k1: 1.2, b: 0.75 },
        Scoring::Bm25 { k1: 0.0, b: 0.0 },
        Scoring::Bm25 { k1: 2.0, b: 1.0 },
        Scoring::TfIdf,
    ];
    let bits = |found: Vec<ScoredRow>| -> Vec<(usize, u32)> {
        found.iter().map(|found| (found.row, found.score.to_bits())).collect()
    };
    let mut differ = 0;
    for question in questions {
        for scoring in scorings {
            let found = bits(index.search(question, K, scoring)?);
            differ += usize::from(found != bits(index.search_every_posting(question, K, scoring)?));
        }
    }
    Ok(differ)
}

fn measure_plain(
    folder: &Path,
    passages: &[Passage],
    questions: &[String],
    engine: &mut Engine,
) -> Result<(), Box<dyn Error>> {
    let mut schema = Schema::builder();
    let indexing =
        TextFieldIndexing::default().set_tokenizer("terms").set_index_option(IndexRecordOption::WithFreqs);
    let text = schema.add_text_field("text", TextOptions::default().set_indexing_options(indexing));
    let row = schema.add_u64_field("row", FAST);
    let started = Instant::now();
    let index = Index::create_in_dir(folder, schema.build())?;
    index.tokenizers().register("terms", ANALYZER.tantivy());
    let mut writer: IndexWriter = index.writer_with_num_threads(THREADS, 512 << 20)?;
    for (passage, number) in passages.iter().zip(0..) {
        let mut document = TantivyDocument::new();
        document.add_text(text, &passage.title);
        document.add_text(text, &passage.text);
        document.add_u64(row, number);
        writer.add_document(document)?;
    }
    writer.commit()?;
    writer.wait_merging_threads()?;
    engine.build_seconds.push(started.elapsed().as_secs_f64());
    engine.bytes = bytes(folder)?;
    let searcher = index.reader()?.searcher();
    let mut analyzer = ANALYZER.tantivy();
    time(questions, engine, |question| {
        let mut terms: Vec<(Occur, Box<dyn Query>)> = Vec::new();
        let mut stream = analyzer.token_stream(question);
        while stream.advance() {
            let term = Term::from_field_text(text, &stream.token().text);
            terms.push((Occur::Should, Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs))));
        }
        drop(stream);
        searcher.search(&BooleanQuery::new(terms), &TopDocs::with_limit(K).order_by_score()).map(drop)
    })
}
