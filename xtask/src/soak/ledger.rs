//! All passages with their histories, and whether an answer can be right.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::Instant;

use serde_json::Value;

use super::filter::Filter;
use super::numbers::dot;
use super::passage::{Passage, Written};
use crate::failure::{Failure, Outcome};

/// Scores that differ by less may stand in either order: sums of floats depend on their order.
const TOLERANCE: f32 = 1e-4;

/// A change of an id's passage, or its deletion, with its times.
#[derive(Clone, Debug)]
struct Change {
    /// Before this moment nobody can have seen it.
    sent: Instant,
    /// After this moment everybody must see it; never when the server did not say so.
    done: Option<Instant>,
    passage: Option<Arc<Passage>>,
}

/// Histories by id, the earliest change first.
pub(super) struct Ledger {
    passages: RwLock<BTreeMap<String, Vec<Change>>>,
    /// Titles of the passages that never change.
    pub(super) titles: Vec<String>,
    pub(super) dim: usize,
    pub(super) model: String,
}

/// A passage that an answer names.
#[derive(Debug)]
pub(super) struct Hit {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) text: String,
    pub(super) score: f32,
    pub(super) written: Option<Written>,
}

/// A search: its vector `[dim]`, how many it asked for, and which passages it was to find.
pub(super) struct Search<'a> {
    pub(super) vector: &'a [f32],
    pub(super) k: usize,
    pub(super) filter: &'a Filter,
}

impl Ledger {
    /// Reads the passages and vectors of an index directory.
    pub(super) fn read(index: &str) -> Outcome<Self> {
        let failed = |what: String| Failure::new(format!("cannot read the index {index}: {what}"));
        let current =
            fs::read_to_string(Path::new(index).join("current")).map_err(|e| failed(e.to_string()))?;
        let version = Path::new(index).join(current.split(' ').next().unwrap_or_default());
        let read = |name: &str| fs::read(version.join(name)).map_err(|e| failed(format!("{name}: {e}")));
        let manifest: Value =
            serde_json::from_slice(&read("manifest.json")?).map_err(|e| failed(e.to_string()))?;
        let dim =
            manifest["dim"].as_u64().filter(|dim| *dim > 0).ok_or_else(|| failed("no vectors".into()))?
                as usize;
        let lines = String::from_utf8(read("passages.jsonl")?).map_err(|e| failed(e.to_string()))?;
        let vectors = read("vectors.f32")?;
        let start = Instant::now();
        let mut passages = BTreeMap::new();
        let mut titles = Vec::new();
        for (line, bytes) in lines.lines().zip(vectors.chunks_exact(4 * dim)) {
            let line: Value = serde_json::from_str(line).map_err(|e| failed(e.to_string()))?;
            let field = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            let vector =
                bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
            let passage = Passage { title: field("title"), text: field("text"), vector, written: None };
            titles.push(passage.title.clone());
            let change = Change { sent: start, done: Some(start), passage: Some(Arc::new(passage)) };
            passages.insert(field("id"), vec![change]);
        }
        titles.dedup();
        let model = manifest["model_fingerprint"].as_str().unwrap_or_default().to_owned();
        Ok(Self { passages: RwLock::new(passages), titles, dim, model })
    }

    pub(super) fn len(&self) -> usize {
        self.passages.read().map_or(0, |passages| passages.len())
    }

    /// Notes changes before they are sent: `None` is a deletion.
    pub(super) fn sending(&self, changes: &[(String, Option<Arc<Passage>>)]) {
        let sent = Instant::now();
        let Ok(mut passages) = self.passages.write() else { return };
        for (id, passage) in changes {
            let change = Change { sent, done: None, passage: passage.clone() };
            passages.entry(id.clone()).or_default().push(change);
        }
    }

    /// Notes what became of the last changes of these ids: acknowledged, or refused and thus never made. What is not
    /// known stays as it is.
    pub(super) fn answered(&self, ids: &[String], is_done: bool) {
        let now = Instant::now();
        let Ok(mut passages) = self.passages.write() else { return };
        for id in ids {
            let Some(history) = passages.get_mut(id) else { continue };
            match (is_done, history.last_mut()) {
                (true, Some(last)) => {
                    last.done = Some(now);
                    // Searches end within a minute; what was over before that is of no use.
                    let over = history.iter().rposition(|change| {
                        change.done.is_some_and(|done| now.duration_since(done).as_secs() > 60)
                    });
                    history.drain(..over.unwrap_or(0));
                }
                _ => drop(history.pop()),
            }
        }
    }

    /// Holds the answer to a search that ran from `start` to `end` against what can be; says what is wrong.
    pub(super) fn check(
        &self,
        search: &Search<'_>,
        hits: &[Hit],
        start: Instant,
        end: Instant,
    ) -> Result<(), String> {
        if let Some(pair) = hits.windows(2).find(|pair| pair[0].score < pair[1].score) {
            return Err(format!("{} stands before {}, which is better", pair[0].id, pair[1].id));
        }
        let passages = self.passages.read().map_err(|_| "a client panicked".to_owned())?;
        for (rank, hit) in hits.iter().enumerate() {
            if hits[..rank].iter().any(|other| other.id == hit.id) {
                return Err(format!("{} was found twice", hit.id));
            }
            let possible =
                passages.get(&hit.id).map(|history| possible(history, start, end)).unwrap_or_default();
            let is_right = possible.iter().any(|passage| {
                (dot(search.vector, &passage.vector) - hit.score).abs() < TOLERANCE
                    && passage.text == hit.text
                    && passage.title == hit.title
                    && passage.written == hit.written
                    && search.filter.takes(&hit.id, passage)
            });
            if !is_right {
                return Err(format!(
                    "{} with the score {} is none of its {} states",
                    hit.id,
                    hit.score,
                    possible.len()
                ));
            }
        }
        let least = if hits.len() < search.k {
            f32::NEG_INFINITY
        } else {
            hits.last().map_or(f32::INFINITY, |hit| hit.score)
        };
        for (id, history) in passages.iter() {
            let Some(passage) =
                lasting(history, start, end).filter(|passage| search.filter.takes(id, passage))
            else {
                continue;
            };
            let score = dot(search.vector, &passage.vector);
            if score > least + TOLERANCE && !hits.iter().any(|hit| hit.id == *id) {
                return Err(format!(
                    "{id} with the score {score} is missing, {} were found down to {least}",
                    hits.len()
                ));
            }
        }
        Ok(())
    }
}

/// States that may have been seen between two moments.
fn possible(history: &[Change], start: Instant, end: Instant) -> Vec<Arc<Passage>> {
    // Everything before the last change that was made by then is gone.
    let first = history.iter().rposition(|change| change.done.is_some_and(|done| done <= start)).unwrap_or(0);
    let seen = history[first..].iter().filter(|change| change.sent <= end);
    seen.filter_map(|change| change.passage.clone()).collect()
}

/// The state that was there all the time between two moments, if there is one.
fn lasting(history: &[Change], start: Instant, end: Instant) -> Option<&Passage> {
    let at = history.iter().rposition(|change| change.sent <= end)?;
    let change = &history[at];
    if change.done.is_some_and(|done| done <= start) { change.passage.as_deref() } else { None }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn passage(text: &str, vector: [f32; 2]) -> Arc<Passage> {
        Arc::new(Passage { title: "t".into(), text: text.into(), vector: vector.into(), written: None })
    }

    fn hit(id: &str, text: &str, score: f32) -> Hit {
        Hit { id: id.into(), title: "t".into(), text: text.into(), score, written: None }
    }

    /// `a` and `b` since long, at 0.9 and 0.5 of the question (1, 0).
    fn ledger() -> (Ledger, Instant) {
        let start = Instant::now();
        let settled = |passage| vec![Change { sent: start, done: Some(start), passage: Some(passage) }];
        let passages = BTreeMap::from([
            ("a".to_owned(), settled(passage("one", [0.9, 0.0]))),
            ("b".to_owned(), settled(passage("two", [0.5, 0.0]))),
        ]);
        (Ledger { passages: RwLock::new(passages), titles: Vec::new(), dim: 2, model: String::new() }, start)
    }

    fn check(ledger: &Ledger, k: usize, ids: &[String], hits: &[Hit], start: Instant) -> Result<(), String> {
        let filter = Filter { ids: ids.to_vec(), ..Filter::default() };
        let search = Search { vector: &[1.0, 0.0], k, filter: &filter };
        ledger.check(&search, hits, start, start + Duration::from_millis(1))
    }

    #[test]
    fn an_answer_has_the_best_passages_in_order_and_as_they_are() {
        let (ledger, start) = ledger();
        let later = start + Duration::from_secs(1);
        let right = [hit("a", "one", 0.9), hit("b", "two", 0.5)];
        assert_eq!(check(&ledger, 2, &[], &right, later), Ok(()));
        assert_eq!(check(&ledger, 1, &[], &right[..1], later), Ok(()));
        let only = ["b".to_owned()];
        assert_eq!(check(&ledger, 2, &only, &right[1..], later), Ok(()));
        for wrong in [
            vec![hit("b", "two", 0.5)],
            vec![hit("b", "two", 0.5), hit("a", "one", 0.9)],
            vec![hit("a", "one", 0.8), hit("b", "two", 0.5)],
            vec![hit("a", "other", 0.9), hit("b", "two", 0.5)],
            vec![hit("a", "one", 0.9), hit("a", "one", 0.9)],
            vec![hit("c", "one", 0.9), hit("b", "two", 0.5)],
            vec![],
        ] {
            assert!(check(&ledger, 2, &[], &wrong, later).is_err(), "{wrong:?}");
        }
        assert!(check(&ledger, 2, &only, &right, later).is_err(), "the filter leaves b alone");
    }

    #[test]
    fn before_and_after_a_change_one_state_is_right_and_meanwhile_both_are() {
        let (ledger, start) = ledger();
        let after = start + Duration::from_secs(9);
        let (old, gone) = ([hit("a", "one", 0.9)], [hit("b", "two", 0.5)]);
        let id = ["a".to_owned()];
        ledger.sending(&[(id[0].clone(), None)]);
        // Not acknowledged: a search that ends after it was sent may see either.
        let meanwhile = Instant::now() + Duration::from_secs(1);
        assert_eq!(check(&ledger, 1, &[], &old, meanwhile), Ok(()));
        assert_eq!(check(&ledger, 1, &[], &gone, meanwhile), Ok(()));
        ledger.answered(&id, true);
        assert!(check(&ledger, 1, &[], &old, after).is_err());
        assert_eq!(check(&ledger, 1, &[], &gone, after), Ok(()));
        let search = Search { vector: &[1.0, 0.0], k: 1, filter: &Filter::default() };
        assert_eq!(ledger.check(&search, &old, start, start), Ok(()));
        assert!(ledger.check(&search, &gone, start, start).is_err());
        // Refused: as if it had never been sent.
        ledger.sending(&[("b".to_owned(), None)]);
        ledger.answered(&["b".to_owned()], false);
        assert_eq!(check(&ledger, 1, &[], &gone, after), Ok(()));
        assert!(check(&ledger, 1, &[], &[], after).is_err());
    }
}
