//! Filters as SQL: conditions whose values are all bound.

use std::mem::discriminant;
use std::ops::Bound;

use dpr_data::Value;
use dpr_index::search::{Condition, Filter};

use crate::columns::IdType;
use crate::params::Param;
use crate::table::Table;
use crate::{PostgresAddress, PostgresError};

/// Conditions on the rows of a table, joined by AND, and the values bound to them from `$1` on.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Conditions {
    conditions: Vec<String>,
    pub(crate) params: Vec<Param>,
    /// `true` if a filter is among them.
    pub(crate) is_filtered: bool,
}

impl Conditions {
    /// Makes the conditions that a row is a passage, and one that a filter allows.
    pub(crate) fn of(
        table: &Table,
        address: &PostgresAddress,
        filter: Option<&Filter>,
    ) -> Result<Self, PostgresError> {
        let mut conditions = Self::default();
        conditions.conditions.extend(table.has_vector());
        let Some(Filter { ids, titles, condition }) = filter else { return Ok(conditions) };
        if !ids.is_empty() {
            let ids: Vec<String> = ids.iter().filter(|id| table.id_type.holds(id)).cloned().collect();
            conditions.params.push(Param::Texts(ids));
            let condition = table.has_id_in(conditions.params.len());
            conditions.conditions.push(condition);
        }
        if !titles.is_empty() {
            let untitled = titles.contains("");
            let titles: Vec<String> =
                titles.iter().filter(|title| IdType::Text.holds(title)).cloned().collect();
            let condition = match &table.title {
                Some(title) => {
                    let bound = conditions.bind(Param::Texts(titles));
                    let or_none = if untitled { format!(" OR t.{title} IS NULL") } else { String::new() };
                    format!("(t.{title} = ANY({bound}::text[]){or_none})")
                }
                None => if untitled { "TRUE" } else { "FALSE" }.to_owned(),
            };
            conditions.conditions.push(condition);
        }
        if let Some(condition) = condition {
            let metadata = table.metadata.as_ref();
            let metadata =
                metadata.ok_or_else(|| PostgresError::NoMetadata { address: address.to_string() })?;
            let sql = conditions.metadata(&format!("t.{metadata}"), condition);
            conditions.conditions.push(sql);
        }
        conditions.is_filtered = !(ids.is_empty() && titles.is_empty() && condition.is_none());
        Ok(conditions)
    }

    /// Returns ` WHERE ...`, or nothing.
    pub(crate) fn where_clause(&self) -> String {
        match self.conditions.as_slice() {
            [] => String::new(),
            conditions => format!(" WHERE {}", conditions.join(" AND ")),
        }
    }

    fn bind(&mut self, param: Param) -> String {
        self.params.push(param);
        format!("${}", self.params.len())
    }

    /// Returns a condition on the column `metadata`. It may be NULL where it does not hold.
    fn metadata(&mut self, metadata: &str, condition: &Condition) -> String {
        match condition {
            Condition::Equals { field, value } => match object(field, value) {
                Some(object) => format!("{metadata} @> {}::jsonb", self.bind(Param::Text(object))),
                None => "FALSE".to_owned(),
            },
            Condition::In { field, values } => {
                let objects = values.iter().filter_map(|value| object(field, value)).collect();
                format!("{metadata} @> ANY({}::text[]::jsonb[])", self.bind(Param::Texts(objects)))
            }
            Condition::Range { field, from, to } => self.range(metadata, field, from, to),
            // NULL, too, is not TRUE.
            Condition::Not(condition) => format!("({}) IS NOT TRUE", self.metadata(metadata, condition)),
            Condition::And(conditions) => self.joined(metadata, conditions, " AND ", "TRUE"),
            Condition::Or(conditions) => self.joined(metadata, conditions, " OR ", "FALSE"),
        }
    }

    fn joined(&mut self, metadata: &str, conditions: &[Condition], word: &str, none: &str) -> String {
        let parts: Vec<String> =
            conditions.iter().map(|condition| self.metadata(metadata, condition)).collect();
        if parts.is_empty() { none.to_owned() } else { format!("({})", parts.join(word)) }
    }

    fn range(&mut self, metadata: &str, field: &str, from: &Bound<Value>, to: &Bound<Value>) -> String {
        let kind = match (value_of(from), value_of(to)) {
            (Some(from), Some(to)) if discriminant(from) != discriminant(to) => return "FALSE".to_owned(),
            (from, to) => from.or(to),
        };
        if field.contains('\0') {
            return "FALSE".to_owned();
        }
        let field = self.bind(Param::Text(field.to_owned()));
        let kinds = match kind {
            Some(Value::Text(_)) => "'string'",
            Some(Value::Number(_)) => "'number'",
            Some(Value::Boolean(_)) => "'boolean'",
            None => "'string', 'number', 'boolean'",
        };
        let mut parts = vec![format!("pg_catalog.jsonb_typeof({metadata} -> {field}) IN ({kinds})")];
        for (bound, included, excluded) in [(from, ">=", ">"), (to, "<=", "<")] {
            let (value, mut operator) = match bound {
                Bound::Included(value) => (value, included),
                Bound::Excluded(value) => (value, excluded),
                Bound::Unbounded => continue,
            };
            parts.push(match value {
                // By bytes. No text of PostgreSQL holds a NUL, so that `a\0b` is just above `a`, and below all others.
                Value::Text(text) => {
                    let (text, has_nul) =
                        text.split_once('\0').map_or((text.as_str(), false), |(text, _)| (text, true));
                    if has_nul {
                        operator = if included == ">=" { ">" } else { "<=" };
                    }
                    let bound = self.bind(Param::Text(text.to_owned()));
                    format!("({metadata} ->> {field}) COLLATE \"C\" {operator} {bound}")
                }
                // JSON compares numbers by size, and `false` with `true`.
                value => {
                    let bound = self.bind(Param::Text(serde_json::json!(value).to_string()));
                    format!("{metadata} -> {field} {operator} {bound}::jsonb")
                }
            });
        }
        format!("({})", parts.join(" AND "))
    }
}

fn value_of(bound: &Bound<Value>) -> Option<&Value> {
    match bound {
        Bound::Included(value) | Bound::Excluded(value) => Some(value),
        Bound::Unbounded => None,
    }
}

/// Returns the JSON object of one field; `None` for what PostgreSQL's JSON cannot hold, so that no row has it.
fn object(field: &str, value: &Value) -> Option<String> {
    let is_held = !field.contains('\0') && !matches!(value, Value::Text(text) if text.contains('\0'));
    is_held.then(|| serde_json::json!({ field: value }).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::Extension;
    use crate::table::Longest;

    fn table() -> Table {
        Table {
            oid: 1,
            name: "\"public\".\"passages\"".into(),
            id: "\"id\"".into(),
            id_type: IdType::Text,
            title: Some("\"title\"".into()),
            text: "\"text\"".into(),
            metadata: Some("\"metadata\"".into()),
            vector: "\"embedding\"".into(),
            vector_number: 5,
            longest: Longest::default(),
            is_partial: false,
            is_half: false,
            dim: 3,
            extension: Extension::of_tests(),
            comment: None,
        }
    }

    fn conditions(table: &Table, filter: &Filter) -> Conditions {
        Conditions::of(table, &"postgres://u@localhost/d".parse().unwrap(), Some(filter)).unwrap()
    }

    fn of(condition: &str) -> (String, Vec<Param>) {
        let condition = Some(serde_json::from_str(condition).unwrap());
        let conditions = conditions(&table(), &Filter { condition, ..Filter::default() });
        (conditions.where_clause(), conditions.params)
    }

    #[test]
    fn values_are_bound_and_never_in_the_statement() {
        let mean = "'); DROP TABLE passages; --";
        let filter = Filter {
            ids: [mean.to_owned()].into(),
            titles: [mean.to_owned()].into(),
            condition: Some(
                serde_json::from_value(serde_json::json!({ "and": [
                    { "field": mean, "eq": mean },
                    { "field": mean, "in": [mean] },
                    { "field": mean, "gt": mean, "lte": mean },
                ]}))
                .unwrap(),
            ),
        };
        let conditions = conditions(&table(), &filter);
        let sql = conditions.where_clause();
        assert!(!sql.contains("DROP") && !sql.contains("');"), "{sql}");
        assert_eq!(conditions.params.len(), 7);
        assert!(conditions.is_filtered);
    }

    #[test]
    fn conditions_are_written_as_json_operators() {
        let (sql, params) = of(r#"{"field": "year", "gte": 2000, "lt": 2010}"#);
        assert_eq!(
            sql,
            " WHERE (pg_catalog.jsonb_typeof(t.\"metadata\" -> $1) IN ('number') AND t.\"metadata\" -> $1 >= $2::jsonb \
             AND t.\"metadata\" -> $1 < $3::jsonb)"
        );
        let texts = ["year", "2000", "2010"].map(|text| Param::Text(text.to_owned()));
        assert_eq!(params, texts);
        let (sql, params) = of(r#"{"not": {"field": "draft", "eq": true}}"#);
        assert_eq!(sql, " WHERE (t.\"metadata\" @> $1::jsonb) IS NOT TRUE");
        assert_eq!(params, [Param::Text(r#"{"draft":true}"#.into())]);
        let both = r#"{"or": [{"field": "a", "eq": 1}, {"not": {"field": "a", "in": ["x"]}}]}"#;
        assert_eq!(
            of(both).0,
            " WHERE (t.\"metadata\" @> $1::jsonb OR (t.\"metadata\" @> ANY($2::text[]::jsonb[])) IS NOT TRUE)"
        );
    }

    #[test]
    fn what_the_database_cannot_hold_is_not_asked_for() {
        assert_eq!(of("{\"field\": \"a\", \"eq\": \"x\\u0000\"}").0, " WHERE FALSE");
        let (sql, params) = of("{\"field\": \"a\", \"gte\": \"x\\u0000y\", \"lt\": \"z\\u0000\"}");
        assert!(sql.contains("> $2") && sql.contains("<= $3"), "{sql}");
        assert_eq!(params[1..], [Param::Text("x".into()), Param::Text("z".into())]);
        let numbered = Table { id_type: IdType::Int8, title: None, ..table() };
        let filter = Filter { ids: ["7", "07", "x"].map(str::to_owned).into(), ..Filter::default() };
        let found = conditions(&numbered, &filter);
        assert_eq!(found.params, [Param::Texts(vec!["7".into()])]);
        assert_eq!(found.where_clause(), " WHERE t.\"id\" = ANY($1::text[]::int8[])");
        let titled = Filter { titles: ["x".to_owned()].into(), ..Filter::default() };
        assert_eq!(conditions(&numbered, &titled).where_clause(), " WHERE FALSE");
    }
}
