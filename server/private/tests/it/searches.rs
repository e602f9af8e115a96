//! What is found, and what is sent for it.

use dpr_core::Embedding;
use dpr_core::random::SplitMix;
use dpr_files::progress::Silent;
use dpr_index::search::Backend as _;
use dpr_index::vectors::VectorSet;
use dpr_index::{IndexOptions, IndexReader, LoadedIndex, build_index};
use dpr_private::client::{Client, ClientError};
use dpr_private::{BuildError, BuildOptions, OpenError, Tables, build};

use crate::support::{DIM, Direct, MODEL, passages, tables, vectors};

fn question(random: &mut SplitMix) -> Vec<f32> {
    let all = vectors(40, 1);
    let near = random.below(40) * DIM;
    let vector: Vec<f64> = (0..DIM).map(|at| f64::from(all[near + at]) + 0.05 * random.normal()).collect();
    let norm = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    vector.into_iter().map(|x| (x / norm) as f32).collect()
}

#[test]
fn an_encrypted_search_finds_what_a_plain_one_finds_with_its_texts() {
    let dir = tempfile::tempdir().unwrap();
    let (index, tables) = tables(dir.path(), 2500);
    assert_eq!(tables.checked().rank.dims(), DIM, "all dimensions are kept");
    let mut client = Client::connect(Direct::new(&tables), MODEL, Some(&tables.version())).unwrap();
    let all = passages(2500);
    let noise = client.tables().manifest.rank.noise;
    assert!(noise < 0.03, "{noise}");
    let (mut found, mut random) = (0, SplitMix::new(77));
    for _ in 0..40 {
        let question = question(&mut random);
        let plain = index.index.search(&Embedding::new(question.clone(), DIM).unwrap(), 2500).unwrap();
        let hits = client.search(&question, 5).unwrap();
        assert_eq!(hits.len(), 5);
        for hit in &hits {
            let row: usize = hit.id[1..].parse().unwrap();
            assert_eq!((&hit.title, &hit.text), (&all[row].title, &all[row].text));
            let exact = plain.iter().find(|scored| scored.row == row).unwrap().score;
            assert!((f64::from(hit.score - exact)).abs() < 8.0 * noise + 0.02, "{} {exact}", hit.score);
            let cents = hit.score * 100.0;
            assert!((cents - cents.round()).abs() < 1e-3, "digits of {} are noise", hit.score);
        }
        found +=
            plain[..5].iter().filter(|row| hits.iter().any(|hit| hit.id == format!("p{}", row.row))).count();
    }
    // The noise swaps passages whose scores are within 0.01 of each other.
    assert!(found > 160, "{found} of 200 best passages");
}

#[test]
fn every_text_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let (index, tables) = tables(dir.path(), 600);
    let mut client = Client::connect(Direct::new(&tables), MODEL, None).unwrap();
    let all = passages(600);
    let right = (0..600).filter(|row| {
        let vector = &index.matrix().unwrap().as_slice()[row * DIM..][..DIM];
        let hits = client.search(vector, 2).unwrap();
        hits.iter().all(|hit| all.iter().any(|p| (&p.id, &p.text) == (&hit.id, &hit.text)))
            && hits.iter().any(|hit| hit.id == format!("p{row}"))
    });
    assert_eq!(right.count(), 600);
}

#[test]
fn rows_of_texts_are_no_longer_than_random_ones() {
    let dir = tempfile::tempdir().unwrap();
    let (_, tables) = tables(dir.path(), 3000);
    let text = &tables.checked().manifest.text;
    // Bytes less 128, uniform.
    let expected = (65_535.0 / 12.0 * text.used as f64).sqrt();
    assert!(text.used > 500, "{}", text.used);
    assert!((0.9..1.1).contains(&(text.row_norm / expected)), "{} {expected}", text.row_norm);
}

#[test]
fn what_is_sent_is_the_same_for_every_question() {
    let dir = tempfile::tempdir().unwrap();
    let (_, tables) = tables(dir.path(), 300);
    let mut client = Client::connect(Direct::new(&tables), MODEL, None).unwrap();
    let mut random = SplitMix::new(3);
    let first = std::mem::take(&mut client.transport().sent);
    assert_eq!(first.iter().filter(|sent| sent.0 == "GET").count(), 5);
    let mut expected = None;
    for round in 0..1000 {
        let question: Vec<f32> = match round {
            // The passages themselves, one number alone, and any direction.
            0..300 => vectors(300, 1)[round * DIM..][..DIM].to_vec(),
            300..348 => (0..DIM).map(|at| f32::from(u8::from(at == round - 300))).collect(),
            _ => (0..DIM).map(|_| random.normal() as f32).collect(),
        };
        client.search(&question, 3).unwrap();
        let sent = std::mem::take(&mut client.transport().sent);
        assert_eq!(sent, *expected.get_or_insert(sent.clone()), "question {round}");
    }
    let shape =
        (40 + tables.checked().rank.question_bytes(), 40 + 3 * tables.checked().fetch.question_bytes());
    let expected = expected.unwrap();
    assert_eq!((expected.len(), expected[0].2, expected[1].2), (2, shape.0, shape.1));
}

#[test]
fn questions_of_several_users_are_answered_in_one_reading_as_they_are_singly() {
    let dir = tempfile::tempdir().unwrap();
    let (_, tables) = tables(dir.path(), 300);
    let mut messages = Vec::new();
    for question in vectors(3, 9).chunks(DIM) {
        let mut client = Client::connect(Direct::new(&tables), MODEL, None).unwrap();
        let mut kept = Keeping { direct: Direct::new(&tables), kept: Vec::new() };
        std::mem::swap(&mut client.transport().sent, &mut kept.direct.sent);
        let mut client = Client::connect(kept, MODEL, None).unwrap();
        client.search(question, 4).unwrap();
        messages.push(std::mem::take(&mut client.transport().kept));
    }
    let ranked: Vec<_> = messages.iter().map(|kept| tables.read_rank(&kept[0], 0).unwrap()).collect();
    let fetched: Vec<_> = messages.iter().map(|kept| tables.read_fetch(&kept[1]).unwrap()).collect();
    let singly = |at: usize| {
        let rank = tables.rank(&[tables.read_rank(&messages[at][0], 0).unwrap()]);
        (rank, tables.fetch(&[tables.read_fetch(&messages[at][1]).unwrap()]))
    };
    for (at, (rank, fetch)) in tables.rank(&ranked).into_iter().zip(tables.fetch(&fetched)).enumerate() {
        assert!(singly(at) == (vec![rank], vec![fetch]), "{at}");
    }
}

/// Keeps the messages.
struct Keeping<'a> {
    direct: Direct<'a>,
    kept: Vec<Vec<u8>>,
}

impl dpr_private::client::Transport for Keeping<'_> {
    fn get(&mut self, path: &str, most: u64) -> Result<Vec<u8>, dpr_private::client::TransportError> {
        self.direct.get(path, most)
    }

    fn post(
        &mut self,
        path: &str,
        message: &[u8],
        most: u64,
    ) -> Result<Vec<u8>, dpr_private::client::TransportError> {
        self.kept.push(message.to_vec());
        self.direct.post(path, message, most)
    }
}

#[test]
fn no_two_messages_for_one_question_are_alike() {
    let dir = tempfile::tempdir().unwrap();
    let (_, tables) = tables(dir.path(), 100);
    let keeping = Keeping { direct: Direct::new(&tables), kept: Vec::new() };
    let mut client = Client::connect(keeping, MODEL, None).unwrap();
    let question = vectors(1, 2);
    for _ in 0..2 {
        client.search(&question, 2).unwrap();
    }
    let kept = &client.transport().kept;
    for (a, b) in [(&kept[0], &kept[2]), (&kept[1], &kept[3])] {
        let same = a.iter().zip(b.iter()).filter(|(a, b)| a == b).count();
        // One byte in 256 is the same by chance, and the head is.
        assert!(same < 40 + a.len() / 128, "{same} of {} bytes", a.len());
    }
}

#[test]
fn tables_are_of_one_version_of_one_index_and_built_anew_in_one_step() {
    let dir = tempfile::tempdir().unwrap();
    let (index, first) = tables(dir.path(), 100);
    let options = BuildOptions { dims: Some(32), ..BuildOptions::default() };
    build(dir.path(), &options, &dpr_files::progress::Silent).unwrap();
    let second = Tables::open(dir.path(), 1, index.version()).unwrap();
    assert_eq!((first.checked().rank.dims(), second.checked().rank.dims()), (48, 32));
    assert_ne!(first.version(), second.version());
    assert_ne!(first.checked().hash, second.checked().hash, "public randomness is new");
    assert!(matches!(Tables::open(dir.path(), 1, "another"), Err(OpenError::OtherIndex { .. })));
    assert!(matches!(Tables::open(dir.path(), 2, index.version()), Err(OpenError::Missing { .. })));
    let names: Vec<_> =
        fs_err::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().contains("tmp")), "{names:?}");

    // The index is searched as before.
    let reader = IndexReader::open(dir.path()).unwrap();
    assert_eq!(reader.live().describe().count, 100);
    for (dims, rank_set) in [(31, 1), (49, 1), (257, 1), (32, 3), (32, 16)] {
        let options = BuildOptions { dims: Some(dims), rank_set, ..BuildOptions::default() };
        let refused = build(dir.path(), &options, &dpr_files::progress::Silent);
        assert!(matches!(refused, Err(BuildError::Parameter(_))), "{dims} {rank_set}");
    }
    let options = BuildOptions::default();
    options.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let refused = build(dir.path(), &options, &dpr_files::progress::Silent);
    assert!(matches!(refused, Err(BuildError::Interrupted)));
    assert_eq!(Tables::open(dir.path(), 1, index.version()).unwrap().version(), second.version());
}

#[test]
fn questions_that_cannot_be_asked_are_refused_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let (_, tables) = tables(dir.path(), 100);
    let mut client = Client::connect(Direct::new(&tables), MODEL, None).unwrap();
    client.transport().sent.clear();
    for question in
        [vec![0.0; DIM], vec![f32::NAN; DIM], vec![f32::INFINITY; DIM], vec![1.0; DIM + 1], vec![]]
    {
        assert!(matches!(client.search(&question, 3), Err(ClientError::Answer(_))));
    }
    for k in [0, 11] {
        assert!(matches!(client.search(&[1.0; DIM], k), Err(ClientError::K(_))));
    }
    assert!(client.transport().sent.is_empty());
    assert!(matches!(
        Client::connect(Direct::new(&tables), "another", None).map(drop),
        Err(ClientError::Model { .. })
    ));
    assert!(matches!(
        Client::connect(Direct::new(&tables), MODEL, Some(&"0".repeat(64))).map(drop),
        Err(ClientError::Version { .. })
    ));
}

#[test]
fn one_vector_that_is_far_longer_leaves_the_others_their_ranks() {
    let dir = tempfile::tempdir().unwrap();
    let mut rows = vectors(60, 1);
    rows.extend(vectors(1, 8).into_iter().map(|number| 3000.0 * number));
    let set = VectorSet::new(MODEL, DIM, passages(61), rows.clone());
    build_index(&set, dir.path(), &IndexOptions::default(), &Silent).unwrap();
    let built = build(dir.path(), &BuildOptions::default(), &Silent).unwrap();
    assert_eq!((built.shortened, built.warnings().len()), (1, 1));
    assert!(built.tables.manifest.rank.row_norm <= 44.0);
    let index = LoadedIndex::open(dir.path()).unwrap();
    let tables = Tables::open(dir.path(), index.number(), index.version()).unwrap();
    let mut client = Client::connect(Direct::new(&tables), MODEL, None).unwrap();
    let mut found = 0;
    for question in rows.chunks(DIM).take(60) {
        let exact = index.index.search(&Embedding::new(question.to_vec(), DIM).unwrap(), 5).unwrap();
        let hits = client.search(question, 5).unwrap();
        found += exact.iter().filter(|row| hits.iter().any(|hit| hit.id == format!("p{}", row.row))).count();
    }
    assert!(found >= 240, "{found} of 300 best passages");
}

#[test]
fn vectors_that_cannot_be_ranked_by_are_refused_with_what_is_needed() {
    let refused = |count: usize, dim: usize, options: &BuildOptions| {
        let dir = tempfile::tempdir().unwrap();
        let set = VectorSet::new(MODEL, dim, passages(count), vec![0.5; count * dim]);
        build_index(&set, dir.path(), &IndexOptions::default(), &Silent).unwrap();
        build(dir.path(), options, &Silent).unwrap_err()
    };
    for (dim, dims) in [(16, None), (8, Some(32))] {
        let error = refused(40, dim, &BuildOptions { dims, ..BuildOptions::default() });
        assert!(matches!(error, BuildError::Narrow { least: 32, .. }), "{dim}: {error}");
    }
    for count in [1, 40] {
        let error = refused(count, 48, &BuildOptions::default());
        assert!(matches!(error, BuildError::NoSpread), "{count}: {error}");
        assert!(error.to_string().contains("two different passages are needed"), "{error}");
    }
}
