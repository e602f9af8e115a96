//! Plain text files, and the title and text that every kind of file is read as.

use super::Words;

/// A first line with more words than this is a paragraph.
const MAX_TITLE_WORDS: usize = 20;

/// Title and text of one file.
#[derive(Debug)]
pub(super) struct Text {
    /// The title that the content names, not yet trimmed.
    pub(super) title: Option<String>,
    pub(super) text: String,
}

/// Reads a plain text file. The title is the first line, when an empty line follows it and it has at most 20 words;
/// the text is the rest.
pub(super) fn read(text: String) -> Text {
    let body = text.trim_start();
    let (first, rest) = body.split_once('\n').unwrap_or((body, ""));
    let second = rest.split('\n').next().unwrap_or_default();
    let is_title = second.trim().is_empty()
        && !rest.trim().is_empty()
        && Words::of(first).take(MAX_TITLE_WORDS + 1).count() <= MAX_TITLE_WORDS;
    if is_title {
        return Text { title: Some(first.to_owned()), text: rest.to_owned() };
    }
    Text { title: None, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_that_stands_alone_is_the_title() {
        let long = "word ".repeat(21) + "\n\nBody";
        for (file, title) in [
            ("Title\n\nBody", Some("Title")),
            ("\n\nTitle\r\n \r\nBody", Some("Title\r")),
            ("A line\nof a paragraph\n\nBody", None),
            ("Only line\n\n", None),
            ("Only line", None),
            ("", None),
            (&long, None),
        ] {
            let read = read(file.to_owned());
            assert_eq!(read.title.as_deref(), title, "{file}");
            assert_eq!(read.text.contains("Body"), file.contains("Body"), "{file}");
        }
    }
}
