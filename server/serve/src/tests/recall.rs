//! Tests of the recall of the answers against exact search, as operators see it.

use std::time::Duration;

use super::filter::live_over;
use super::*;
use dpr_index::IndexKind;

#[tokio::test]
async fn what_sampled_searches_found_is_counted_with_the_metrics() {
    let (live, dir) = live_over(IndexKind::Hnsw);
    let state = AppState::new(Options::default());
    let sampled = state.sample_recall(live, Duration::ZERO).unwrap();
    assert!(state.publish(sampled, model(dir.path(), true)));
    let app = app(state);
    assert!(get(&app, "/metrics").await.text().contains("dpr_recall_sample_wanted_total 0"));
    let asked = json!({"vector": [1, 0, 0, 0], "k": 30, "model": fingerprint()});
    for _ in 0..500 {
        assert_eq!(search(&app, &asked).await.json()["hits"].as_array().unwrap().len(), 30);
        tokio::time::sleep(Duration::from_millis(2)).await;
        let text = get(&app, "/metrics").await.text();
        let count = |name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().parse().unwrap()
        };
        let wanted = count("dpr_recall_sample_wanted_total");
        if wanted > 0 {
            assert_eq!(wanted % 20, 0, "the best 20 of 30");
            let found = count("dpr_recall_sample_found_total");
            assert!(found <= wanted && found * 10 >= wanted * 9, "{found} of {wanted}");
            return;
        }
    }
    panic!("no search was sampled");
}
