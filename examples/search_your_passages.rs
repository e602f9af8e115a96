//! # From a model and a corpus to answers
//!
//! Dense retrieval takes four steps: import a model, encode the passages, index their vectors, and encode each question
//! to look for the passages whose vectors have the greatest inner product with it. This example does all four, and then
//! ranks by words as well.
//!
//! It runs on what lies in the repository: 200 paragraphs of SQuAD and a tiny encoder with random weights, which is as
//! quick as it is ignorant. With a real model the same lines find real answers:
//!
//! ```sh
//! cargo run --release -p dpr-examples --example search_your_passages
//! cargo run --release -p dpr-examples --example search_your_passages -- --encoder all-MiniLM-L6-v2/
//! ```
//!
//! where `all-MiniLM-L6-v2/` is a directory as Hugging Face has it: `config.json`, `tokenizer.json`,
//! `model.safetensors`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dpr_core::{DeviceChoice, Pooling};
use dpr_data::{Passage, stream_passages};
use dpr_encode::model::{ImportOptions, ModelDir, import};
use dpr_encode::{EncodeOptions, PipelineOptions, Shard, encode_corpus};
use dpr_files::Job;
use dpr_files::progress::Silent;
use dpr_index::search::{Fusion, Method, Searcher, TextSearcher};
use dpr_index::sparse::{Analyzer, SparseOptions};
use dpr_index::vectors::VectorSet;
use dpr_index::{IndexOptions, IndexReader, build_index};

const QUESTION: &str = "Who was the first European to travel the Amazon River?";

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let directory = tempfile::tempdir()?;
    let dir = directory.path();

    // # The model
    //
    // `import` turns what Hugging Face has into a model directory, whose files are listed with their checksums. The
    // model's fingerprint is a digest over everything that decides what its vectors are; vectors and indexes carry it.
    //
    // Without a second encoder the first encodes questions and passages alike, as sentence encoders do. DPR's models
    // are pairs: `import(&question, Some(&passage), ..)`.
    let given = option("--encoder").map(PathBuf::from);
    let (encoder, options) = match given {
        // The directory says itself how its vectors are pooled and scaled.
        Some(encoder) => (encoder, ImportOptions::default()),
        None => {
            // Averaged over the tokens, even random weights make texts alike that share words.
            let options = ImportOptions { pooling: Some(Pooling::Mean), ..ImportOptions::default() };
            (repository.join("tests/fixtures/dpr-tiny/question"), options)
        }
    };
    let manifest = import(&encoder, None, &dir.join("model"), &options)?;
    println!("model {}: vectors of {} numbers", manifest.name, manifest.dim);

    // # The passages
    //
    // The reader tells the format by the file: TSV as `psgs_w100.tsv`, BEIR's jsonl, or SQuAD's json, also compressed.
    // It reads passage by passage, so that a corpus may be larger than memory.
    let corpus = repository.join("web-demo/corpus/squad-dev-v1.1.json.gz");
    let passages: Vec<Passage> = stream_passages(&corpus)?.take(200).collect::<Result<_, _>>()?;

    // # Their vectors
    //
    // Encoding is the slow step: hours for millions of passages. It therefore goes to disk in parts. If the process is
    // killed, the same call encodes what is missing; `Shard` lets several machines take a share each, and
    // `DeviceChoice::Auto` takes a GPU where there is one.
    let model = ModelDir::open(&dir.join("model"))?;
    let encoder = model.passage_encoder(DeviceChoice::Cpu)?;
    let options = EncodeOptions {
        shard: Shard::WHOLE,
        pipeline: PipelineOptions::for_device(encoder.device_name(), None, None),
        force: false,
    };
    let never = AtomicBool::new(false);
    let fingerprint = model.manifest().space();
    let vectors = dir.join("vectors");
    let job = Job { stop: &never, progress: &Silent };
    let summary = encode_corpus(&encoder, fingerprint, &passages, &vectors, &options, job)?;
    println!(
        "{} passages encoded on {} in {:.1?}",
        summary.passages,
        encoder.device_name(),
        summary.encoding
    );

    // # The index
    //
    // One index directory can hold vectors and, beside them, an inverted index of the passages' words. Whoever looks at
    // the directory sees the old version or the new one, whole.
    let sparse = SparseOptions { analyzer: Analyzer::English, threads: 0 };
    let options = IndexOptions { sparse: Some(sparse), ..IndexOptions::default() };
    let index = dir.join("index");
    build_index(&VectorSet::read(&[vectors])?, &index, &options, &Silent)?;

    // # Searching
    //
    // A `TextSearcher` encodes the question and searches. It asks its backend for the newest state of the index each
    // time, so that a reader that watches its directory is all that a service needs to keep up with updates.
    let reader = IndexReader::open(&index)?;
    // A question that another model encoded would find nonsense without saying so.
    Searcher::of(reader.snapshot()).check_model(fingerprint)?;
    let searcher = TextSearcher::new(reader.live().clone(), model.question_encoder(DeviceChoice::Cpu)?);

    // By vectors, by words (BM25), and by both: the hybrid adds BM25's score to the inner product, weighted by lambda.
    println!("\n{QUESTION}");
    for method in [Method::Dense, Method::Bm25, Method::Hybrid] {
        let hits = searcher.search(QUESTION, method, Fusion::PAPER, 3)?;
        println!("\nby {}:", method.name());
        for hit in &hits {
            let text: String = hit.text.chars().take(80).collect();
            println!("  {:8.3}  {:8}  {}: {text}…", hit.score, hit.id, hit.title);
        }
        assert_eq!(hits.len(), 3);
    }

    // The paragraph that answers shares words with the question, so that BM25 finds it whatever the model.
    let hits = searcher.search(QUESTION, Method::Bm25, Fusion::PAPER, 3)?;
    assert!(hits.iter().any(|hit| hit.text.contains("Francisco de Orellana")));

    // # Without the encoder
    //
    // Where the question is encoded elsewhere, in a browser for instance, only its vector arrives. The backend takes
    // it as it is, and this is all that a search server does.
    let vector = model.question_encoder(DeviceChoice::Cpu)?.encode_question(QUESTION)?;
    let backend: Arc<dyn dpr_index::search::Backend> = reader.live().clone();
    let by_vector = backend.search(&[vector], 3, None)?.remove(0);
    assert_eq!(by_vector, searcher.search(QUESTION, Method::Dense, Fusion::PAPER, 3)?);
    Ok(())
}

/// The argument after `name`, if there is one.
fn option(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}
