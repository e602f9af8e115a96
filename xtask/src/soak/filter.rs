//! Filters of searches, as JSON for the server and as a test of a passage for the ledger.

use serde_json::{Value, json};

use super::passage::Passage;

/// Titles, ids and a condition on metadata; none of them leaves all passages.
#[derive(Debug, Default)]
pub(super) struct Filter {
    pub(super) titles: Vec<String>,
    pub(super) ids: Vec<String>,
    pub(super) condition: Option<Condition>,
}

/// A condition on the metadata that writers give: `writer`, a string, and `round`, a number. Passages that were built in
/// have neither.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    /// Written by one of these.
    Writers(Vec<String>),
    /// Written in a round from the first up to the second, which is not one of them.
    Rounds(u64, u64),
    Not(Box<Condition>),
    Both(Box<[Condition; 2]>),
}

impl Filter {
    pub(super) fn is_empty(&self) -> bool {
        self.titles.is_empty() && self.ids.is_empty() && self.condition.is_none()
    }

    /// Returns the field `filter` of a search.
    pub(super) fn json(&self) -> Value {
        let mut json = json!({});
        if !self.titles.is_empty() {
            json["titles"] = json!(self.titles);
        }
        if !self.ids.is_empty() {
            json["ids"] = json!(self.ids);
        }
        if let Some(condition) = &self.condition {
            json["metadata"] = condition.json();
        }
        json
    }

    /// Returns `true` if a search may find the passage.
    pub(super) fn takes(&self, id: &str, passage: &Passage) -> bool {
        (self.titles.is_empty() || self.titles.contains(&passage.title))
            && (self.ids.is_empty() || self.ids.iter().any(|other| other == id))
            && self.condition.as_ref().is_none_or(|condition| condition.holds(passage))
    }
}

impl Condition {
    fn json(&self) -> Value {
        match self {
            Self::Writers(writers) if writers.len() == 1 => json!({ "field": "writer", "eq": writers[0] }),
            Self::Writers(writers) => json!({ "field": "writer", "in": writers }),
            Self::Rounds(from, to) => json!({ "field": "round", "gte": from, "lt": to }),
            Self::Not(condition) => json!({ "not": condition.json() }),
            Self::Both(both) => json!({ "and": [both[0].json(), both[1].json()] }),
        }
    }

    fn holds(&self, passage: &Passage) -> bool {
        let written = passage.written.as_ref();
        match self {
            Self::Writers(writers) => written.is_some_and(|written| writers.contains(&written.writer)),
            Self::Rounds(from, to) => written.is_some_and(|written| (*from..*to).contains(&written.round)),
            Self::Not(condition) => !condition.holds(passage),
            Self::Both(both) => both.iter().all(|condition| condition.holds(passage)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::passage::Written;
    use super::*;

    #[test]
    fn a_condition_is_sent_and_tested_alike() {
        let of = |written| Passage { title: "t".into(), text: "x".into(), vector: vec![1.0], written };
        let written = |round| of(Some(Written { writer: "a".into(), round }));
        let rounds = Condition::Rounds(2, 5);
        assert_eq!(rounds.json(), json!({ "field": "round", "gte": 2, "lt": 5 }));
        assert!(rounds.holds(&written(2)) && !rounds.holds(&written(5)) && !rounds.holds(&of(None)));
        // A passage without the field fails the comparison, and passes its negation.
        let not = Condition::Not(Box::new(rounds.clone()));
        assert!(not.holds(&of(None)) && not.holds(&written(5)) && !not.holds(&written(4)));
        let both = Condition::Both(Box::new([Condition::Writers(vec!["a".into()]), not]));
        assert_eq!(
            both.json(),
            json!({ "and": [{ "field": "writer", "eq": "a" }, { "not": { "field": "round", "gte": 2, "lt": 5 } }] })
        );
        assert!(both.holds(&written(7)) && !both.holds(&written(3)) && !both.holds(&of(None)));
        let filter = Filter { ids: vec!["p".into()], condition: Some(both), ..Filter::default() };
        assert!(filter.takes("p", &written(7)) && !filter.takes("q", &written(7)));
        assert_eq!(filter.json()["ids"], json!(["p"]));
    }
}
