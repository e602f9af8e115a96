//! The reason of an error of JSON.

/// Returns serde_json's message without the place, which is relative to the text it was given.
pub(super) fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason).to_owned()
}
