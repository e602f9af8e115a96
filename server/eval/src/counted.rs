//! Counts in sentences: "1 question", "2 questions".

/// Returns `count` with the words that follow it: `one` after 1, `many` after any other number.
pub(crate) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
