//! The attacks of `dpr eval privacy` on a small corpus: SQuAD's paragraphs and questions as sums of word vectors.

use std::path::Path;
use std::sync::Arc;

use dpr_core::Embedding;
use dpr_core::private::blur::{Blur, DeviceKey, Level};
use dpr_core::random::SplitMix;
use dpr_data::{Passage, read_passages, read_questions};
use dpr_eval::privacy::{
    Attacked, Attackers, Blurred, DecoderOptions, EncodedQuestion, Mode, NetworkOptions, Noise, Plain,
    QuestionSplit, Random, attack, search,
};
use dpr_files::progress::Silent;
use dpr_index::private::principal_directions;
use dpr_index::search::Backend;
use dpr_index::vectors::VectorSet;
use dpr_index::{IndexOptions, IndexReader, build_index};

const SQUAD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web-demo/corpus/squad-dev-v1.1.json.gz");
const DIM: usize = 160;
const SEED: u64 = 5;

/// A number for each word, as a tokenizer has one.
fn tokens(text: &str) -> Vec<u32> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let hash = |word: &str| {
        let bytes = word.to_lowercase().into_bytes();
        bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
    };
    words.map(hash).collect()
}

/// The sum of the words' vectors, of length 1.
fn vector(text: &str) -> Embedding {
    let mut sum = vec![0f32; DIM];
    for token in tokens(text) {
        let mut random = SplitMix::keyed(&[u64::from(token)]);
        sum.iter_mut().for_each(|value| *value += random.normal() as f32);
    }
    let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt();
    Embedding::new(sum.iter().map(|value| value / length).collect(), DIM).unwrap()
}

struct Corpus {
    reader: IndexReader,
    attackers: Attackers,
    _dir: tempfile::TempDir,
}

fn corpus() -> Corpus {
    let passages: Vec<Passage> = read_passages(Path::new(SQUAD)).unwrap();
    let rows: Vec<f32> =
        passages.iter().flat_map(|passage| vector(&passage.text).as_slice().to_vec()).collect();
    let set = VectorSet::new("a model", DIM, passages, rows);
    let dir = tempfile::tempdir().unwrap();
    build_index(&set, dir.path(), &IndexOptions::default(), &Silent).unwrap();
    let reader = IndexReader::open(dir.path()).unwrap();
    let questions =
        read_questions(Path::new(SQUAD)).unwrap().into_iter().step_by(4).map(|question| EncodedQuestion {
            tokens: tokens(&question.text),
            vector: vector(&question.text),
            text: question.text,
        });
    let split = QuestionSplit::new(questions.collect(), 300, SEED).unwrap();
    let network = NetworkOptions { hidden: 96, epochs: 40 };
    let decoder = DecoderOptions { hidden: 96, epochs: 8 };
    let attackers = Attackers::new(split, set.rows.chunks(DIM), DIM, Some(network), Some(decoder), SEED);
    Corpus { reader, attackers, _dir: dir }
}

fn blurred<'a>(backend: &'a dyn Backend, corpus: &Corpus, blur: Blur) -> Blurred<'a> {
    let snapshot = corpus.reader.snapshot();
    let rows: Vec<&[f32]> = snapshot.vectors().map(Result::unwrap).collect();
    let (projection, _) = principal_directions(&rows, DIM).unwrap();
    Blurred::new(backend, Arc::new(projection), "blurred", blur, 400, DeviceKey::new([7; 32]))
}

/// A harness that finds nothing where there is something, or something where there is nothing, is broken.
#[test]
fn plain_vectors_give_words_away_random_ones_do_not_and_blurred_ones_give_fewer() {
    let corpus = corpus();
    let backend: &dyn Backend = corpus.reader.live().as_ref();
    let (plain, random) = (Plain::new(backend), Random { dims: 64 });
    let medium = blurred(backend, &corpus, Level::Medium.blur());
    let [of_plain, of_random, of_medium]: [Attacked; 3] =
        [&plain as &dyn Mode, &random, &medium].map(|mode| attack(mode, &corpus.attackers).unwrap());

    let network = |attacked: &Attacked| attacked.network.unwrap();
    assert!(of_plain.ridge.content > 0.2, "{of_plain:?}");
    assert!(network(&of_plain).content > 0.15, "{of_plain:?}");
    let decoder = |attacked: &Attacked| attacked.decoder.unwrap();
    assert!(decoder(&of_plain).content > 0.05, "{of_plain:?}");
    assert_eq!(of_plain.known, 1.0);
    assert!(of_plain.topic > 3.0 * corpus.attackers.topic_floor(), "{of_plain:?}");

    let floor = corpus.attackers.floor();
    for named in [of_random.ridge, network(&of_random)] {
        assert!(named.content < 0.02 && named.f1 < floor.f1 + 0.02, "{named:?} {floor:?}");
    }
    assert!(decoder(&of_random).content < 0.02 && decoder(&of_random).exact == 0.0, "{of_random:?}");
    assert!(of_random.known < 0.02, "{of_random:?}");
    assert!(of_random.topic < corpus.attackers.topic_floor() + 0.05, "{of_random:?}");

    assert!(of_medium.content() < 0.6 * of_plain.content(), "{of_medium:?} {of_plain:?}");
    assert!(of_medium.content() > of_random.content(), "{of_medium:?}");
    // What lets the server find passages lets it recognise a question that it knows.
    assert!(of_medium.known > 0.9, "{of_medium:?}");

    let asked = &corpus.attackers.split().test[..100];
    let of = |mode: &dyn Mode| search(mode, backend, asked).unwrap();
    assert_eq!(of(&random), None);
    let (plain, medium) = (of(&plain).unwrap(), of(&medium).unwrap());
    assert_eq!((plain.recall, plain.recall_within, plain.candidates), (1.0, 1.0, 20));
    assert_eq!(medium.candidates, 400);
    assert!(medium.recall_within > 0.8, "{medium:?}");
    // What is among the candidates is put in its place by the codes.
    assert!(medium.recall > medium.recall_within - 0.02, "{medium:?}");
    let by: Vec<f64> = medium.recall_by_candidates.iter().map(|(_, recall)| *recall).collect();
    assert!(by.len() == 4 && by.is_sorted(), "{medium:?}");
    assert!(medium.up_bytes < plain.up_bytes && medium.down_bytes > plain.down_bytes);
}

#[test]
fn views_are_what_travels() {
    let corpus = corpus();
    let backend: &dyn Backend = corpus.reader.live().as_ref();
    let blur = Level::Strong.blur();
    let mode = blurred(backend, &corpus, blur);
    let asked = &corpus.attackers.split().test[..5];
    let views = |noise| mode.views(asked, noise).unwrap();
    assert_eq!(views(Noise::Device), views(Noise::Device), "sticky");
    assert_ne!(views(Noise::Drawn(1)), views(Noise::Drawn(2)));
    assert_ne!(views(Noise::Device), views(Noise::None));
}
