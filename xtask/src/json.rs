//! Figures in the JSON that a program prints.

use serde_json::Value;

use crate::failure::{Failure, Outcome};

/// Returns the JSON that `program` printed, as a whole or on its last line.
pub(crate) fn json(text: &str, program: &str) -> Outcome<Value> {
    let last = text.trim();
    serde_json::from_str(last)
        .or_else(|_| serde_json::from_str(last.lines().last().unwrap_or_default()))
        .map_err(|e| Failure::new(format!("{program} printed no JSON ({e}): {last}")))
}

/// Returns the number under `key`.
pub(crate) fn number(value: &Value, key: &str) -> Outcome<f64> {
    value[key].as_f64().ok_or_else(|| Failure::new(format!("no number `{key}` in {value}")))
}
