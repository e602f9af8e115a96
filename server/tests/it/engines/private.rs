//! Blurred search through every engine: the question is lifted below the edge, so that each searches as it always does.

use std::time::{Duration, Instant};

use dpr_core::private::blur::{DeviceKey, Level};
use dpr_core::private::rerank::Reranker;
use dpr_index::CancelToken;
use dpr_index::private::{calibrate, candidates, principal_directions};

use super::*;

/// How long a graph may take to be loaded.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn every_engine_answers_a_blurred_question_with_codes_that_put_the_best_first() {
    let set = passages();
    let questions = questions(&set);
    let rows: Vec<&[f32]> = set.rows.chunks(DIM).collect();
    let (projection, _) = principal_directions(&rows, DIM).unwrap();
    let (key, never) = (DeviceKey::new([9; 32]), CancelToken::never());
    each(&set, "blurred", |engine| {
        let name = engine.name;
        await_graph(engine, &set, &questions);
        let mut recall = 0.0;
        for (at, question) in questions.iter().take(50).enumerate() {
            let blur = Level::Medium.blur();
            let sent = blur.apply(&projection, question.as_slice(), &key, "m", &[at as u32]).unwrap();
            let found = candidates(engine.search.as_ref(), &projection, &sent, 200, &never).unwrap();
            assert_eq!(found.len(), 200, "{name}");
            let reranker = Reranker::new(&projection, question.as_slice());
            let best = reranker.rank(found.iter().map(|found| found.code.as_slice()), 20).unwrap();
            let exact = plain(&set, question, 2067, |_| true);
            for (place, score) in &best {
                let id = &found[*place].hit.id;
                let (_, expected) = exact.iter().find(|(known, _)| known == id).unwrap();
                assert!((f64::from(*score) - expected).abs() < 0.02, "{name}: {id} {score} {expected}");
            }
            let ids: Vec<String> = best.iter().map(|(place, _)| found[*place].hit.id.clone()).collect();
            recall += share(&ids, &exact[..20]) / 50.0;
        }
        assert!(recall > 0.9, "{name}: recall@20 {recall}");
        let measured = calibrate(engine.search.as_ref(), &projection, &questions[..20], 1).unwrap();
        assert_eq!(measured.len(), 3, "{name}");
        for level in &measured {
            assert!(level.recall.is_sorted() && level.recall[4] > 0.95, "{name}: {level:?}");
        }
    });
}

/// Waits until plain search has the engine's recall: Milvus searches what was just written by a coarser index of its own
/// until the graph is loaded.
fn await_graph(engine: &Engine, set: &VectorSet, questions: &[Embedding]) {
    let asked = &questions[..20];
    let exact: Vec<_> = asked.iter().map(|question| plain(set, question, 20, |_| true)).collect();
    let began = Instant::now();
    loop {
        let found = engine.search.search(asked, 20, None).unwrap();
        let ids = |hits: Vec<Hit>| hits.into_iter().map(|hit| hit.id).collect::<Vec<_>>();
        let recall: f64 =
            found.into_iter().zip(&exact).map(|(hits, exact)| share(&ids(hits), exact)).sum::<f64>() / 20.0;
        if recall >= engine.recall {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{}: recall@20 of plain search is {recall}", engine.name);
        std::thread::sleep(Duration::from_secs(1));
    }
}
