//! Clients of a soak: most search, some change passages, some send what no server should take.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::filter::{Condition, Filter};
use super::ledger::{Hit, Ledger, Search};
use super::misuse;
use super::numbers::Numbers;
use super::passage::{Passage, Written};
use super::report::Report;
use super::server::{SECRET, SECRET_NUMBER, Server, token};
use super::wire::Connection;

/// Ids that one writer changes, again and again: the index stays as large as it is.
const IDS: usize = 40;
/// Of so many clients, one changes passages and one sends what is wrong; of fewer, one of four.
const SHARE: usize = 16;
/// Fewest clients: one of each kind, and one more that searches.
pub(super) const FEWEST: usize = 4;

/// Works until told to stop.
pub(super) fn work(
    number: usize,
    clients: usize,
    ledger: &Ledger,
    server: &Server,
    stop: &AtomicBool,
) -> Report {
    let mut client =
        Client { numbers: Numbers::new(number as u64 + 1), ledger, server, report: Report::default() };
    let share = SHARE.min((clients / 4).max(FEWEST));
    match number % share {
        1 => client.write(number / share, stop),
        2 => client.misuse(stop),
        _ => client.search(stop),
    }
    client.report
}

struct Client<'a> {
    numbers: Numbers,
    ledger: &'a Ledger,
    server: &'a Server,
    report: Report,
}

impl Client<'_> {
    fn search(&mut self, stop: &AtomicBool) {
        let mut connection = Connection::new(self.server.address(), "");
        while !stop.load(Ordering::Relaxed) {
            match self.numbers.below(10) {
                0 => self.search_once(&mut connection, "batch", 4, &Filter::default()),
                1 => {
                    let titles = (0..3).map(|_| self.title()).collect();
                    let filter = Filter { titles, ..Filter::default() };
                    self.search_once(&mut connection, "filter by titles", 1, &filter);
                }
                2 => {
                    let ids = (0..20).map(|_| id(self.numbers.below(SHARE), self.numbers.below(IDS)));
                    let filter = Filter { ids: ids.collect(), ..Filter::default() };
                    self.search_once(&mut connection, "filter by ids", 1, &filter);
                }
                3 => {
                    let filter = Filter { condition: Some(self.condition()), ..Filter::default() };
                    self.search_once(&mut connection, "filter by metadata", 1, &filter);
                }
                _ => self.search_once(&mut connection, "search", 1, &Filter::default()),
            }
        }
    }

    fn title(&mut self) -> String {
        let titles = &self.ledger.titles;
        match self.numbers.below(8) {
            0 => format!("{SECRET} title {}", self.numbers.below(SHARE)),
            _ => titles[self.numbers.below(titles.len())].clone(),
        }
    }

    /// Returns a condition that leaves few passages, or nearly all.
    fn condition(&mut self) -> Condition {
        let writers = (0..1 + self.numbers.below(3)).map(|_| writer(self.numbers.below(SHARE))).collect();
        let from = self.numbers.below(2000) as u64;
        let rounds = Condition::Rounds(from, from + 500);
        match self.numbers.below(4) {
            0 => Condition::Writers(writers),
            1 => rounds,
            2 => Condition::Not(Box::new(Condition::Writers(writers))),
            _ => Condition::Both(Box::new([Condition::Writers(writers), Condition::Not(Box::new(rounds))])),
        }
    }

    /// One request of `count` vectors, and its check.
    fn search_once(
        &mut self,
        connection: &mut Connection,
        kind: &'static str,
        count: usize,
        filter: &Filter,
    ) {
        let vectors: Vec<_> = (0..count).map(|_| self.vector()).collect();
        let k = 1 + self.numbers.below(20);
        let mut body = json!({ "k": k, "model": self.ledger.model });
        let sent: Vec<_> = vectors.iter().map(|vector| self.on_the_wire(vector)).collect();
        match count {
            1 => body["vector"] = sent[0].clone(),
            _ => body["vectors"] = sent.into(),
        }
        if !filter.is_empty() {
            body["filter"] = filter.json();
        }
        let start = Instant::now();
        let answered = connection.ask("POST", "/v1/search", &body.to_string());
        let end = Instant::now();
        let (status, answer) = match answered {
            Ok(answered) => answered,
            Err(error) => return self.report.wrong(format!("{kind}: no answer: {error}")),
        };
        self.report.count(kind, status, end - start);
        let lists = match status {
            200 => lists(&answer, count),
            // A full queue is said at once; the client comes back a little later.
            429 | 503 => return std::thread::sleep(Duration::from_millis(5)),
            // A filter that leaves nothing may be refused: as if nothing had been found.
            422 if answer.contains("invalid_filter") && !filter.is_empty() => Some(vec![Vec::new()]),
            _ => return self.report.wrong(format!("{kind}: {status} {answer}")),
        };
        let Some(lists) = lists else {
            return self.report.wrong(format!("{kind}: not the answer to {count} vectors: {answer}"));
        };
        for (vector, hits) in vectors.iter().zip(lists) {
            let search = Search { vector, k, filter };
            if let Err(what) = self.ledger.check(&search, &hits, start, end) {
                self.report.wrong(format!("{kind}: {what}"));
            }
        }
        self.report.checked += count;
    }

    /// A vector of length 1; some begin with a number that a log must not show.
    fn vector(&mut self) -> Vec<f32> {
        let mut vector = self.numbers.unit(self.ledger.dim);
        if self.numbers.below(4) == 0 {
            let first: f32 = SECRET_NUMBER.parse().unwrap_or(1.0);
            let rest =
                vector[1..].iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
            let scale = (1.0 - first * first).sqrt() / rest;
            vector.iter_mut().for_each(|value| *value *= scale);
            vector[0] = first;
            vector[1] = 0.0;
        }
        vector
    }

    /// As numbers, or as bytes in base64.
    fn on_the_wire(&mut self, vector: &[f32]) -> Value {
        match self.numbers.below(2) {
            0 => json!(vector),
            _ => {
                let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
                BASE64_STANDARD.encode(bytes).into()
            }
        }
    }

    /// Changes passages with ids that no other client changes.
    fn write(&mut self, own: usize, stop: &AtomicBool) {
        let headers = format!("authorization: Bearer {}\r\n", token());
        let mut connection = Connection::new(self.server.address(), &headers);
        let mut there = BTreeSet::new();
        let mut round = 0;
        while !stop.load(Ordering::Relaxed) {
            round += 1;
            let count = 1 + self.numbers.below(8);
            let at = self.numbers.below(IDS - count);
            let ids: Vec<_> = (at..at + count).map(|at| id(own, at)).collect();
            // Nobody else changes these ids: what is not there would be an error.
            if self.numbers.below(4) == 0 && ids.iter().all(|id| there.contains(id)) {
                let changes: Vec<_> = ids.iter().map(|id| (id.clone(), None)).collect();
                let body = json!({ "ids": ids });
                if self.change(&mut connection, "delete", "DELETE", &changes, &body) {
                    for id in &ids {
                        there.remove(id);
                    }
                }
            } else {
                let passages: Vec<_> = ids
                    .iter()
                    .map(|id| {
                        let text = format!("{SECRET} text of {id}, round {round}");
                        let title = format!("{SECRET} title {own}");
                        let written = Some(Written { writer: writer(own), round });
                        (id.clone(), Arc::new(Passage { title, text, vector: self.vector(), written }))
                    })
                    .collect();
                let sent: Vec<_> = passages
                    .iter()
                    .map(|(id, passage)| {
                        let vector = self.on_the_wire(&passage.vector);
                        let metadata = json!({ "writer": writer(own), "round": round });
                        json!({
                            "id": id, "title": passage.title, "text": passage.text, "vector": vector, "metadata": metadata
                        })
                    })
                    .collect();
                let body = json!({ "model": self.ledger.model, "passages": sent });
                let changes: Vec<_> = passages.into_iter().map(|(id, passage)| (id, Some(passage))).collect();
                if self.change(&mut connection, "put", "POST", &changes, &body) {
                    there.extend(ids);
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends changes, and returns whether they were made.
    fn change(
        &mut self,
        connection: &mut Connection,
        kind: &'static str,
        method: &str,
        changes: &[(String, Option<Arc<Passage>>)],
        body: &Value,
    ) -> bool {
        let ids: Vec<_> = changes.iter().map(|(id, _)| id.clone()).collect();
        self.ledger.sending(changes);
        let start = Instant::now();
        let answered = connection.ask(method, "/v1/passages", &body.to_string());
        match &answered {
            Ok((status, answer)) => {
                self.report.count(kind, *status, start.elapsed());
                match status {
                    200 => self.ledger.answered(&ids, true),
                    429 => self.ledger.answered(&ids, false),
                    // Whether it was made is not known; the ledger allows both.
                    503 => {}
                    _ => self.report.wrong(format!("{kind}: {status} {answer}")),
                }
            }
            Err(error) => self.report.wrong(format!("{kind}: no answer: {error}")),
        }
        answered.is_ok_and(|(status, _)| status == 200)
    }

    fn misuse(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let start = Instant::now();
            match misuse::send(&mut self.numbers, self.ledger, self.server.address()) {
                Ok(status) => self.report.count("misuse", status, start.elapsed()),
                Err(what) => self.report.wrong(format!("misuse: {what}")),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The id of a passage that changes.
fn id(writer: usize, number: usize) -> String {
    format!("soak-{writer}-{number}")
}

/// The name of a writer in metadata, which no log may show.
fn writer(number: usize) -> String {
    format!("{SECRET} writer {number}")
}

/// The hits for each of `count` vectors; nothing when the answer is not one of that form.
fn lists(answer: &str, count: usize) -> Option<Vec<Vec<Hit>>> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let hits = |list: &Value| -> Option<Vec<Hit>> {
        let list = list["hits"].as_array()?.iter();
        list.map(|hit| {
            let text = |field: &str| hit[field].as_str().map(str::to_owned);
            let score = hit["score"].as_f64()? as f32;
            let metadata = |field: &str| hit.get("metadata")?.get(field);
            let written = match (metadata("writer"), metadata("round")) {
                (None, None) => None,
                (writer, round) => {
                    Some(Written { writer: writer?.as_str()?.to_owned(), round: round?.as_u64()? })
                }
            };
            Some(Hit { id: text("id")?, title: text("title")?, text: text("text")?, score, written })
        })
        .collect()
    };
    match count {
        1 => Some(vec![hits(&answer)?]),
        _ => {
            let results = answer["results"].as_array().filter(|results| results.len() == count)?;
            results.iter().map(hits).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_for_one_vector_and_for_several() {
        let hit = r#"{"id": "a", "score": 0.5, "title": "t", "text": "x"}"#;
        let one = lists(&format!(r#"{{"hits": [{hit}], "took_ms": 1}}"#), 1).unwrap();
        assert_eq!((one.len(), one[0][0].id.as_str(), one[0][0].score), (1, "a", 0.5));
        let metadata = r#", "metadata": {"writer": "w", "round": 3}}"#;
        let changed = format!(r#"{{"hits": [{}{metadata}]}}"#, hit.trim_end_matches('}'));
        let written = lists(&changed, 1).unwrap().remove(0).remove(0).written;
        assert_eq!(written, Some(Written { writer: "w".into(), round: 3 }));
        assert_eq!(one[0][0].written, None);
        let two = format!(r#"{{"results": [{{"hits": [{hit}]}}, {{"hits": []}}], "took_ms": 1}}"#);
        assert_eq!(lists(&two, 2).unwrap().iter().map(Vec::len).collect::<Vec<_>>(), [1, 0]);
        assert!(
            lists(&two, 3).is_none() && lists("{}", 1).is_none() && lists(r#"{"hits": [{}]}"#, 1).is_none()
        );
    }
}
