//! The error of changes, common to all homes of passages.

use std::collections::HashMap;

use dpr_core::{Embedding, EmbeddingError};
use dpr_data::{Passage, control_character};

/// The error of passages to write, or of ids to delete, that no home of passages takes.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named for what they are")]
pub enum ChangeError {
    /// There are no passages and no ids.
    #[error("there is nothing to do: give at least one passage")]
    Empty,
    /// Passages to delete are not there.
    #[error("no passage has the id {}: nothing was deleted", listed(ids))]
    UnknownIds { ids: Vec<String> },
    /// A passage to write has a blank `field`, `id` or `text`; `position` counts from 0, among the passages given.
    #[error("the passage at {position} has a blank {field}: give it one")]
    Blank { position: usize, field: &'static str },
    /// A passage to write has an id with a control character, which no line of a list or a log can hold; `position`
    /// counts from 0, among the passages given.
    #[error(
        "the id of the passage at {position} has the control character U+{:04X}: leave it out",
        u32::from(*character)
    )]
    ControlCharacter { position: usize, character: char },
    /// Two passages, or two ids, are one.
    #[error(
        "the passage id `{id}` is at row {first} and again at row {second}: ids must differ, remove one of them"
    )]
    DuplicateId { id: String, first: usize, second: usize },
    /// A passage to write has a vector that cannot be found.
    #[error("the passage `{id}`: {source}")]
    Vector { id: String, source: EmbeddingError },
}

impl ChangeError {
    /// Refuses a passage with a blank id or text, or with a control character in its id; `position` is its place among
    /// the passages given, from 0.
    ///
    /// # Errors
    /// [`ChangeError::Blank`], or [`ChangeError::ControlCharacter`].
    pub fn check_fields(position: usize, passage: &Passage) -> Result<(), Self> {
        for (field, value) in [("id", &passage.id), ("text", &passage.text)] {
            if value.trim().is_empty() {
                return Err(Self::Blank { position, field });
            }
        }
        match control_character(&passage.id) {
            None => Ok(()),
            Some(character) => Err(Self::ControlCharacter { position, character }),
        }
    }

    /// Refuses a vector that is not of `dim` finite numbers.
    ///
    /// # Errors
    /// [`ChangeError::Vector`], which names the passage by `id`.
    pub fn check_vector(id: &str, vector: &[f32], dim: usize) -> Result<(), Self> {
        Embedding::check(vector, dim).map_err(|source| Self::Vector { id: id.to_owned(), source })
    }

    /// Refuses a change without ids, or with one of them twice.
    ///
    /// # Errors
    /// [`ChangeError::Empty`], or [`ChangeError::DuplicateId`].
    pub fn check_ids<'a>(ids: impl IntoIterator<Item = &'a str>) -> Result<(), Self> {
        let mut rows = HashMap::new();
        for (second, id) in ids.into_iter().enumerate() {
            if let Some(first) = rows.insert(id, second) {
                return Err(Self::DuplicateId { id: id.to_owned(), first, second });
            }
        }
        if rows.is_empty() { Err(Self::Empty) } else { Ok(()) }
    }

    /// Refuses ids to delete some of which are not there.
    ///
    /// # Errors
    /// [`ChangeError::UnknownIds`], with all of those.
    pub fn check_known(ids: &[String], is_there: impl Fn(&str) -> bool) -> Result<(), Self> {
        let unknown: Vec<String> = ids.iter().filter(|id| !is_there(id)).cloned().collect();
        if unknown.is_empty() { Ok(()) } else { Err(Self::UnknownIds { ids: unknown }) }
    }
}

/// Returns some of the ids, without control characters, and the number of the others.
fn listed(ids: &[String]) -> String {
    const SHOWN: usize = 5;
    let printable = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    let shown =
        ids.iter().take(SHOWN).map(|id| format!("`{}`", id.chars().map(printable).collect::<String>()));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match ids.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_ids_are_named_up_to_five_and_printable() {
        let ids: Vec<String> = ["a\u{0}b", "c`d", "e", "f", "g", "h", "there"].map(str::to_owned).into();
        let error = ChangeError::check_known(&ids, |id| id == "there").unwrap_err().to_string();
        assert_eq!(
            error,
            "no passage has the id `a\\u{0}b`, `c`d`, `e`, `f`, `g` and 1 more: nothing was deleted"
        );
        assert_eq!(ChangeError::check_known(&ids, |_| true), Ok(()));
    }

    #[test]
    fn an_id_with_a_control_character_is_refused_by_its_position() {
        let check = |id: &str| ChangeError::check_fields(2, &Passage::new(id, "a\nb", "a\nb"));
        for (id, character) in [("a\nb", '\n'), ("\u{0}", '\0'), ("a\u{85}", '\u{85}')] {
            assert_eq!(check(id), Err(ChangeError::ControlCharacter { position: 2, character }), "{id:?}");
        }
        let message = check("a\nb").unwrap_err().to_string();
        assert_eq!(message, "the id of the passage at 2 has the control character U+000A: leave it out");
        assert_eq!(check("a b\u{202e} é"), Ok(()));
        assert!(matches!(check("\n"), Err(ChangeError::Blank { position: 2, field: "id" })));
    }

    #[test]
    fn a_change_needs_ids_that_differ() {
        assert_eq!(ChangeError::check_ids([]), Err(ChangeError::Empty));
        assert_eq!(ChangeError::check_ids(["a", "b"]), Ok(()));
        let twice = ChangeError::check_ids(["a", "b", "a"]).unwrap_err();
        assert_eq!(twice, ChangeError::DuplicateId { id: "a".into(), first: 0, second: 2 });
    }
}
