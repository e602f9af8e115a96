//! A model that compares by the Euclidean distance: every kind of index ranks its passages by it.

use std::collections::HashSet;

use dpr_core::config::Side;
use dpr_core::random::SplitMix;
use dpr_core::{DeviceChoice, Embedding, EncoderConfig};
use dpr_data::Passage;
use dpr_encode::model::{ImportOptions, ModelDir, import};
use dpr_encode::{PipelineOptions, encode_passages, encode_questions};
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{IndexKind, IndexOptions, LoadedIndex, Storage, build_index};

/// The kinds of indexes, by which rows are chosen in four ways.
const KINDS: [(IndexKind, Storage); 4] = [
    (IndexKind::Exact, Storage::F32),
    (IndexKind::Exact, Storage::Int8),
    (IndexKind::Exact, Storage::F16),
    (IndexKind::Hnsw, Storage::F32),
];

fn index(kind: IndexKind, storage: Storage, dim: usize, rows: Vec<f32>) -> (tempfile::TempDir, LoadedIndex) {
    let passages = (0..rows.len() / dim).map(|row| Passage::new(row.to_string(), "", "text")).collect();
    let vectors = VectorSet::new("model", dim, passages, rows);
    let dir = tempfile::tempdir().unwrap();
    let options = IndexOptions { kind, storage, ..IndexOptions::default() };
    build_index(&vectors, dir.path(), &options, &Silent).unwrap();
    let loaded = LoadedIndex::open(dir.path()).unwrap();
    (dir, loaded)
}

#[test]
fn texts_rank_by_distance_as_numpy_ranks_python_s_vectors() {
    let fixtures = crate::files::fixtures().join("sentence-transformers");
    let read = |path: &str| fs_err::read(fixtures.join(path)).unwrap();
    let texts: Vec<String> = serde_json::from_slice(&read("heads/texts.json")).unwrap();
    for version in ["5", "6"] {
        let ranking: Vec<Vec<usize>> =
            serde_json::from_slice(&read(&format!("heads/euclidean-{version}/ranking.json"))).unwrap();
        let dir = tempfile::tempdir().unwrap();
        for file in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
            fs_err::write(dir.path().join(file), read(&format!("mean-{version}/{file}"))).unwrap();
        }
        fs_err::create_dir(dir.path().join("1_Pooling")).unwrap();
        for file in ["modules.json", "config_sentence_transformers.json", "1_Pooling/config.json"] {
            fs_err::write(dir.path().join(file), read(&format!("heads/euclidean-{version}/{file}"))).unwrap();
        }
        let limit = Some(16);
        let options = ImportOptions {
            max_question_tokens: limit,
            max_passage_tokens: limit,
            ..ImportOptions::default()
        };
        let out = dir.path().join("model");
        import(dir.path(), None, &out, &options).unwrap();
        let model = ModelDir::open(&out).unwrap();
        assert_eq!(model.manifest().dim, 9, "eight numbers and the coordinate");

        let pipeline = PipelineOptions::for_device("cpu", None, None);
        let asked: Vec<&str> = texts.iter().map(String::as_str).collect();
        let encoder = model.question_encoder(DeviceChoice::Cpu).unwrap();
        let questions = encode_questions(&encoder, &asked, pipeline, &Silent).unwrap();
        let passages: Vec<Passage> = texts.iter().map(|text| Passage::new(text, "", text)).collect();
        let encoder = model.passage_encoder(DeviceChoice::Cpu).unwrap();
        let found = encode_passages(&encoder, &passages, pipeline, &Silent).unwrap();
        let rows: Vec<f32> = found.into_iter().flat_map(Embedding::into_vec).collect();
        for (kind, storage) in KINDS {
            let (_dir, loaded) = index(kind, storage, 9, rows.clone());
            for (question, expected) in questions.iter().zip(&ranking) {
                let best = loaded.index.search(question, texts.len()).unwrap();
                let best: Vec<usize> = best.iter().map(|hit| hit.row).collect();
                assert_eq!(&best, expected, "version {version}, {kind} {storage:?}");
            }
        }
    }
}

#[test]
fn eight_bits_and_the_graph_find_the_nearest_of_vectors_of_many_lengths() {
    let (dim, count, asked, k) = (256, 3000, 40, 10);
    let json = format!(
        r#"{{"model_type":"bert","hidden_size":{dim},"num_hidden_layers":1,"num_attention_heads":1,"vocab_size":9,
            "intermediate_size":1,"max_position_embeddings":9}}"#
    );
    let mut random = SplitMix::new(7);
    // As an encoder's states: a mean that all share, and lengths that differ.
    let mean: Vec<f64> = (0..dim).map(|_| random.normal()).collect();
    let mut point = || {
        let spread = 0.3 + 0.5 * random.normal().abs().min(2.0);
        mean.iter().map(|mean| (mean + spread * random.normal()) as f32).collect::<Vec<f32>>()
    };
    let passages: Vec<Vec<f32>> = (0..count).map(|_| point()).collect();
    let questions: Vec<Vec<f32>> = (0..asked).map(|_| point()).collect();
    let distance = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
    let length = passages.iter().map(|row| distance(row, &vec![0.0; dim]).sqrt()).sum::<f64>() / count as f64;

    let recall = |kind, storage, weight: f32| {
        let mut config = EncoderConfig::from_json(json.as_bytes()).unwrap();
        config.l2 = Some(weight);
        let whole =
            |row: &[f32], side| row.iter().copied().chain(config.coordinate(side, row)).collect::<Vec<f32>>();
        let rows = passages.iter().flat_map(|row| whole(row, Side::Passage)).collect();
        let (_dir, loaded) = index(kind, storage, config.vector_dim(), rows);
        let found = questions.iter().map(|question| {
            let mut nearest: Vec<usize> = (0..count).collect();
            nearest.sort_by(|a, b| {
                let of = |row: &usize| distance(question, &passages[*row]);
                of(a).total_cmp(&of(b))
            });
            let nearest: HashSet<usize> = nearest[..k].iter().copied().collect();
            let query = Embedding::new(whole(question, Side::Question), config.vector_dim()).unwrap();
            let best = loaded.index.search(&query, k).unwrap();
            best.iter().filter(|hit| nearest.contains(&hit.row)).count()
        });
        found.sum::<usize>() as f64 / (asked * k) as f64
    };
    // The weight that an import chooses; see `docs/formats.md`.
    let weight = (length * (dim as f64).sqrt() / 12.0).log2().round().exp2() as f32;
    for (kind, storage) in KINDS {
        let least = if (kind, storage) == (IndexKind::Exact, Storage::F32) { 1.0 } else { 0.98 };
        let got = recall(kind, storage, weight);
        assert!(got >= least, "{kind} {storage:?}: {got}");
    }
    let without = recall(IndexKind::Exact, Storage::Int8, 1.0);
    assert!(without < 0.9, "the weight is what keeps the eight bits fine: {without}");
}
