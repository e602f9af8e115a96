//! The id and the title of a passage, read without the rest of its line where that is possible.

use std::borrow::Cow;

#[cfg(test)]
use dpr_data::Passage;
use serde::Deserialize;

/// The id and the title of a passage: all that the table is made of.
#[derive(Debug, Deserialize, PartialEq, Eq)]
pub(super) struct Name<'a> {
    #[serde(borrow)]
    pub(super) id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) title: Cow<'a, str>,
}

impl<'a> Name<'a> {
    #[cfg(test)]
    pub(super) fn of(passage: &'a Passage) -> Self {
        Self { id: Cow::Borrowed(&passage.id), title: Cow::Borrowed(&passage.title) }
    }

    /// Returns the id and the title at the start of a line as indexes write it, `{"id":"…","title":"…",`, without
    /// parsing JSON. `None` for any other line, and where a text has escapes: parse such a line.
    pub(super) fn of_line_start(line: &'a [u8]) -> Option<Self> {
        let (id, rest) = plain_text(line.strip_prefix(br#"{"id":""#)?)?;
        let (title, rest) = plain_text(rest.strip_prefix(br#","title":""#)?)?;
        rest.starts_with(b",").then_some(Self { id: Cow::Borrowed(id), title: Cow::Borrowed(title) })
    }
}

/// Returns the text before the closing quote and what follows the quote; `None` for a text with an escape or a control
/// character.
fn plain_text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = memchr::memchr2(b'"', b'\\', bytes)?;
    let (text, rest) = bytes.split_at(end);
    let rest = rest.strip_prefix(b"\"")?;
    let text = std::str::from_utf8(text).ok()?;
    text.bytes().all(|byte| byte >= b' ').then_some((text, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_line_says_what_the_whole_line_says_or_nothing() {
        for (id, title, is_plain) in [
            ("1", "A title", true),
            ("ü", "", true),
            ("", "日本", true),
            ("a\"b", "T", false),
            ("a", "back\\slash", false),
            ("a", "tab\there", false),
            ("a", ",\"text\":", false),
        ] {
            let passage = Passage::new(id, title, "Text \"quoted\".");
            let line = serde_json::to_vec(&passage).unwrap();
            let read = Name::of_line_start(&line);
            assert_eq!(read, is_plain.then(|| Name::of(&passage)), "{id:?} {title:?}");
            assert_eq!(serde_json::from_slice::<Name<'_>>(&line).unwrap(), Name::of(&passage));
            for end in 0..line.len() {
                let cut = Name::of_line_start(&line[..end]);
                assert!(cut.is_none_or(|name| name == Name::of(&passage)), "{id:?} {title:?} {end}");
            }
        }
        for line in [
            r#"{"title":"T","id":"1","text":""}"#,
            r#"{ "id":"1","title":"T","text":""}"#,
            r#"{"id":"1","title":7,"text":""}"#,
            r#"{"id":"1","title":"T"}"#,
            "",
        ] {
            assert_eq!(Name::of_line_start(line.as_bytes()), None, "{line}");
        }
        assert_eq!(Name::of_line_start(b"{\"id\":\"\xff\",\"title\":\"\",\"text\":\"\"}"), None);
    }
}
