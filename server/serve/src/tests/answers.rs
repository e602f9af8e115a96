//! Answers that are too large: the search stops reading passages once they have more bytes than an answer.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::Limits;
use dpr_data::Passage;
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{CancelToken, IndexOptions, LiveIndex, LoadedIndex, Snapshot, build_index};

const COUNT: usize = 300;
const TEXT: usize = 20_000;

/// An index that tells how many bytes of passages its searches read.
#[derive(Debug)]
struct Counted {
    index: LiveIndex,
    read: Arc<AtomicUsize>,
}

impl Backend for Counted {
    fn search_until(
        &self,
        vectors: &[Embedding],
        k: usize,
        filter: Option<&Filter>,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<Hit>>, SearchError> {
        let found = self.index.search_until(vectors, k, filter, cancel);
        self.read.store(cancel.found_bytes(), Ordering::SeqCst);
        found
    }

    fn describe(&self) -> Description {
        self.index.describe()
    }

    fn passages(&self, ids: &[String]) -> Result<Vec<Passage>, SearchError> {
        self.index.passages(ids)
    }
}

#[tokio::test]
async fn passages_are_read_until_they_have_the_bytes_of_an_answer() {
    let dir = tempfile::tempdir().unwrap();
    let passage = |at: usize| Passage::new(format!("p{at}"), "", "x".repeat(TEXT));
    let rows: Vec<f32> = (0..COUNT).flat_map(|at| [1.0, at as f32, 0.0, 0.0]).collect();
    let set = VectorSet::new(fingerprint(), DIM, (0..COUNT).map(passage).collect(), rows);
    let path = dir.path().join("index");
    build_index(&set, &path, &IndexOptions::default(), &Silent).unwrap();
    let limit = 500_000;
    let limits = Limits { max_answer: limit, ..Limits::default() };
    let state = AppState::new(Options { limits, ..Options::default() });
    let index = LiveIndex::new(Arc::new(Snapshot::of(LoadedIndex::open(&path).unwrap())));
    let read = Arc::new(AtomicUsize::new(0));
    let backend = Counted { index, read: Arc::clone(&read) };
    assert!(state.publish(Arc::new(backend), model(dir.path(), true)));
    let app = app(state);

    let single = |k: usize| json!({"vector": [1, 1, 0, 0], "k": k, "model": fingerprint()});
    let batch = json!({"vectors": vec![[1, 1, 0, 0]; 30], "k": COUNT, "model": fingerprint()});
    for (k, body) in [(COUNT, single(COUNT)), (COUNT, batch), (26, single(26))] {
        let reply = search(&app, &body).await;
        assert_eq!(reply.error(), (422, "answer_too_large".into()));
        let message = reply.message();
        assert!(message.contains(&format!("k = {k}")) && message.contains(&limit.to_string()), "{message}");
        let read = read.load(Ordering::SeqCst);
        assert!((limit..=limit + TEXT + 4).contains(&read), "{read} bytes of {}", COUNT * TEXT);
    }
    assert_eq!(search(&app, &single(24)).await.status, StatusCode::OK);
}
