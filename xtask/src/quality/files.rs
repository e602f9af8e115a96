//! Small files of a run, and the accuracies in them.

use std::fs;

use super::seeds::{Accuracies, accuracies};
use crate::failure::{Failure, Outcome};
use crate::json::json;

pub(super) fn read(path: &str) -> Outcome<String> {
    fs::read_to_string(path).map_err(|error| Failure::new(format!("cannot read {path}: {error}")))
}

/// Writes a file whole or not at all.
pub(super) fn write(path: &str, text: &str) -> Outcome {
    let part = format!("{path}.part");
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, path));
    written.map_err(|error| Failure::new(format!("cannot write {path}: {error}")))
}

/// Returns the accuracies of each method that `dpr eval retrieval --out RESULTS` measured.
pub(super) fn measured(results: &str) -> Outcome<Accuracies> {
    let path = format!("{results}/metrics.json");
    Ok(accuracies(&json(&read(&path)?, &path)?))
}

/// Returns the cells of a method's accuracies, in %.
pub(super) fn cells(measured: &Accuracies, method: &str) -> String {
    let top = measured.iter().find(|(name, _)| name == method).map(|(_, top)| top.as_slice());
    let cells = top.unwrap_or_default().iter().map(|(_, accuracy)| format!("{:.1}", accuracy * 100.0));
    cells.collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_accuracies_of_its_method_and_none_of_one_that_is_not_there() {
        let top = |accuracy: f64| vec![(1, accuracy), (20, 0.956)];
        let measured = vec![("bm25".to_owned(), top(0.742)), ("dense".to_owned(), top(0.5))];
        assert_eq!(cells(&measured, "bm25"), "74.2 | 95.6");
        assert_eq!(cells(&measured, "hybrid"), "");
    }
}
