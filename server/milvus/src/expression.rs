//! Filters in Milvus's language. Every value is a JSON literal, whose escapes are what Milvus reads, and every name
//! of a metadata field a key without characters of the language.

use std::ops::Bound;

use dpr_data::Value;
use dpr_index::search::{Condition, Filter};
use serde_json::json;

use super::collection::{ID, METADATA, TITLE};
use super::metadata::key;

/// Returns the condition that a field is one of some values. The client's own conditions need a server that fills in
/// templates, from 2.5 on.
pub(super) fn one_of(field: &str, values: &[impl serde::Serialize]) -> String {
    format!("{field} in {}", json!(values))
}

/// Returns which passages may be found; empty for all.
pub(super) fn of_filter(filter: &Filter) -> String {
    let mut parts = Vec::new();
    for (field, values) in [(ID, &filter.ids), (TITLE, &filter.titles)] {
        let mut values: Vec<&String> = values.iter().collect();
        values.sort_unstable();
        if !values.is_empty() {
            parts.push(one_of(field, &values));
        }
    }
    parts.extend(filter.condition.as_ref().map(of_condition));
    parts.join(" && ")
}

/// Returns a condition in parentheses.
fn of_condition(condition: &Condition) -> String {
    let all = |conditions: &[Condition], operator: &str, of_none: &str| {
        let parts: Vec<String> = conditions.iter().map(of_condition).collect();
        if parts.is_empty() { of_none.to_owned() } else { parts.join(operator) }
    };
    let inner = match condition {
        Condition::Equals { field, value } => with_field(field, |path| equals(path, value)),
        Condition::In { field, values } => with_field(field, |path| {
            let parts: Vec<String> = values.iter().map(|value| equals(path, value)).collect();
            if parts.is_empty() { NONE.to_owned() } else { format!("({})", parts.join(" || ")) }
        }),
        Condition::Range { field, from, to } => with_field(field, |path| {
            let bound = |bound: &Bound<Value>, included: &str, excluded: &str| match bound {
                Bound::Included(value) => Some(format!("{path} {included} {}", json!(value))),
                Bound::Excluded(value) => Some(format!("{path} {excluded} {}", json!(value))),
                Bound::Unbounded => None,
            };
            let bounds = [bound(from, ">=", ">"), bound(to, "<=", "<")];
            let bounds: Vec<String> = bounds.into_iter().flatten().collect();
            if bounds.is_empty() { ALL.to_owned() } else { bounds.join(" && ") }
        }),
        Condition::Not(condition) => format!("not {}", of_condition(condition)),
        Condition::And(conditions) => all(conditions, " && ", ALL),
        Condition::Or(conditions) => all(conditions, " || ", NONE),
    };
    format!("({inner})")
}

/// Conditions that every passage meets, and none: no id is blank.
const ALL: &str = r#"id != """#;
const NONE: &str = r#"id == """#;

fn equals(path: &str, value: &Value) -> String {
    format!("{path} == {}", json!(value))
}

/// Returns a comparison of a metadata field that fails where the field is missing, so that its negation holds there.
fn with_field(name: &str, comparison: impl FnOnce(&str) -> String) -> String {
    let path = format!("{METADATA}[{}]", json!(key(name)));
    // Without parentheses Milvus takes all that follows for what exists.
    format!("(exists {path}) && {}", comparison(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(ids: &[&str], titles: &[&str], condition: Option<&str>) -> String {
        let set = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        let condition = condition.map(|json| serde_json::from_str(json).unwrap());
        of_filter(&Filter { ids: set(ids), titles: set(titles), condition })
    }

    #[test]
    fn ids_and_titles_are_quoted() {
        assert_eq!(expression(&[], &[], None), "");
        assert_eq!(expression(&["b", "a"], &[], None), r#"id in ["a","b"]"#);
        let mean = "\"] || id != \"";
        assert_eq!(expression(&["1"], &[mean], None), r#"id in ["1"] && title in ["\"] || id != \""]"#);
    }

    #[test]
    fn conditions_are_comparisons_of_a_json_field() {
        for (condition, expected) in [
            (r#"{"field":"lang","eq":"en"}"#, r#"((exists metadata["lang"]) && metadata["lang"] == "en")"#),
            (r#"{"field":"ok","eq":true}"#, r#"((exists metadata["ok"]) && metadata["ok"] == true)"#),
            (
                r#"{"field":"year","gte":2000,"lt":2010.5}"#,
                r#"((exists metadata["year"]) && metadata["year"] >= 2000 && metadata["year"] < 2010.5)"#,
            ),
            (r#"{"field":"n","gt":-1}"#, r#"((exists metadata["n"]) && metadata["n"] > -1)"#),
            (
                r#"{"field":"n","in":[2,"a",1]}"#,
                r#"((exists metadata["n"]) && (metadata["n"] == "a" || metadata["n"] == 1 || metadata["n"] == 2))"#,
            ),
            (
                r#"{"not":{"or":[{"field":"a","eq":1},{"field":"b","lte":"x"}]}}"#,
                r#"(not (((exists metadata["a"]) && metadata["a"] == 1) || ((exists metadata["b"]) && metadata["b"] <= "x")))"#,
            ),
        ] {
            assert_eq!(expression(&[], &[], Some(condition)), expected);
        }
        assert_eq!(
            expression(&["1"], &[], Some(r#"{"field":"a","eq":1}"#)),
            r#"id in ["1"] && ((exists metadata["a"]) && metadata["a"] == 1)"#
        );
        assert_eq!(of_condition(&Condition::And(Vec::new())), r#"(id != "")"#);
        assert_eq!(of_condition(&Condition::Or(Vec::new())), r#"(id == "")"#);
    }

    #[test]
    fn no_name_and_no_value_leaves_its_quotes() {
        let mean = r#"a"] == 1 || id != "" || metadata["b"#;
        let condition = Condition::Equals { field: mean.to_owned(), value: Value::from(mean) };
        let expression = of_condition(&condition);
        let quoted = "a%22%5D%20%3D%3D%201%20%7C%7C%20id%20%21%3D%20%22%22%20%7C%7C%20metadata%5B%22b";
        let value = r#"a\"] == 1 || id != \"\" || metadata[\"b"#;
        assert_eq!(
            expression,
            format!(r#"((exists metadata["{quoted}"]) && metadata["{quoted}"] == "{value}")"#)
        );
    }
}
