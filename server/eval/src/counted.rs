//! Counts in sentences: "1 question", "2 questions".

/// Returns `count` with the words that follow it: `one` after 1, `many` after any other number.
///
/// ```
/// use dpr_eval::counted;
///
/// assert_eq!(counted(1, "question has no answer", "questions have no answer"), "1 question has no answer");
/// assert_eq!(counted(0, "passage", "passages"), "0 passages");
/// ```
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
