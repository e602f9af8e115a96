//! Markdown files as text: the words without the marks.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::html::{self, TooDeep};
use super::tags::Tags;
use super::text::Text;

/// Reads a Markdown file. The title is `title` of the front matter, else the first heading, which then is not at the
/// head of the text as well; the text is everything else, code and tables included, pictures and link targets left
/// out.
pub(super) fn read(markdown: &str) -> Result<Text, TooDeep> {
    let (title, body) = front_matter(markdown);
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_HEADING_ATTRIBUTES;
    let mut reader = Reader { title, ..Reader::default() };
    for event in Parser::new_ext(body, options) {
        reader.take(event)?;
    }
    Ok(Text { title: reader.title, text: reader.text })
}

#[derive(Default)]
struct Reader {
    title: Option<String>,
    text: String,
    /// Pictures around the current event; what they hold is their description.
    pictures: usize,
    /// The offset in `text` at which the open heading begins.
    heading_at: usize,
    /// The lines of the open block of HTML.
    html: String,
    /// `true` inside a `<script>` or `<style>` of a paragraph, whose content is not text.
    is_program: bool,
}

impl Reader {
    fn take(&mut self, event: Event<'_>) -> Result<(), TooDeep> {
        match event {
            Event::Start(Tag::Image { .. }) => self.pictures += 1,
            Event::End(TagEnd::Image) => self.pictures = self.pictures.saturating_sub(1),
            _ if self.pictures > 0 => {}
            Event::InlineHtml(tag) => self.inline(&tag),
            Event::Text(_) | Event::Code(_) | Event::SoftBreak | Event::HardBreak if self.is_program => {}
            Event::Text(text) | Event::Code(text) => self.text.push_str(&text),
            Event::Html(line) => self.html.push_str(&line),
            Event::SoftBreak | Event::HardBreak | Event::Rule => self.text.push('\n'),
            Event::Start(tag) if !is_inline(&tag.to_end()) => {
                self.text.push('\n');
                if matches!(tag, Tag::Heading { .. }) {
                    self.heading_at = self.text.len();
                }
            }
            Event::End(tag) if !is_inline(&tag) => self.end(tag)?,
            _ => {}
        }
        Ok(())
    }

    fn inline(&mut self, html: &str) {
        let Some(tag) = Tags::of(html).next() else { return };
        match tag.name.to_ascii_lowercase().as_str() {
            "br" => self.text.push(' '),
            "script" | "style" => self.is_program = !(tag.is_end || tag.is_empty),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) -> Result<(), TooDeep> {
        self.is_program = false;
        match tag {
            TagEnd::HtmlBlock => {
                let html = std::mem::take(&mut self.html);
                self.text.push_str(&html::text_of(&html)?);
            }
            TagEnd::Heading(_) if self.title.is_none() => {
                let (before, heading) = self.text.split_at(self.heading_at);
                if !heading.trim().is_empty() {
                    self.title = Some(heading.to_owned());
                    if before.trim().is_empty() {
                        self.text.clear();
                    }
                }
            }
            _ => {}
        }
        self.text.push('\n');
        Ok(())
    }
}

/// Marks that do not end a word: `**w**ord` is one.
fn is_inline(tag: &TagEnd) -> bool {
    matches!(tag, TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link | TagEnd::Image)
}

/// Returns the title in a block of YAML (`---`) or TOML (`+++`) at the head of the file, and what follows the block.
/// Markdown itself has no such block: to the parser it would be a rule and a heading.
fn front_matter(markdown: &str) -> (Option<String>, &str) {
    let none = (None, markdown);
    let mut lines = markdown.split_inclusive('\n');
    let Some(fence) = lines.next().map(str::trim_end).filter(|line| matches!(*line, "---" | "+++")) else {
        return none;
    };
    let sign = if fence == "---" { ':' } else { '=' };
    let mut title = None;
    let mut at = markdown.find('\n').map_or(markdown.len(), |end| end + 1);
    for line in lines {
        at += line.len();
        if line.trim_end() == fence {
            return (title, &markdown[at..]);
        }
        match line.split_once(sign) {
            Some((key, value)) if key.trim_end() == "title" && title.is_none() => {
                title = unquote(value.trim())
            }
            _ => {}
        }
    }
    none
}

/// Returns a value on one line, without its quotes and with what is escaped in them; the signs of longer values (`|`,
/// `>`) are not a title.
fn unquote(value: &str) -> Option<String> {
    let inside = |quote| value.strip_prefix(quote).and_then(|v| v.strip_suffix(quote));
    let value = match (inside('"'), inside('\'')) {
        (Some(text), _) => unescape(text),
        (None, Some(text)) => text.replace("''", "'"),
        (None, None) => value.to_owned(),
    };
    value.chars().any(char::is_alphanumeric).then_some(value)
}

/// Returns a text of double quotes with `"` for `\"` and `\` for `\\`.
fn unescape(text: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        rest = match after.strip_prefix(['"', '\\']) {
            Some(behind) => {
                plain.push_str(&after[..1]);
                behind
            }
            None => {
                plain.push('\\');
                after
            }
        };
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(markdown: &str) -> Text {
        super::read(markdown).unwrap()
    }

    fn words(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn marks_go_and_words_stay() {
        let read = read(concat!(
            "[![build](b.svg)](https://x)\n\nThe *Title* {#top}\n=========\n\n",
            "Some **w**ord with `code`, a [link](https://y) and\na break.[^1]\n\n* one\n* [x] two\n\n",
            "| a | b |\n|---|---|\n| 1 | 2 |\n\n```rust\nlet x = 1;\n```\n\n## Next\n\n---\n\nlast: ~~gone~~\n\n",
            "<details><summary>More</summary><script>no()</script></details>\n\n<!-- no -->\n\n[^1]: A note.\n"
        ));
        assert_eq!(words(&read.title.unwrap()), "The Title");
        assert_eq!(
            words(&read.text),
            "Some word with code, a link and a break. one two a b 1 2 let x = 1; Next last: gone More A note."
        );
    }

    #[test]
    fn a_heading_that_comes_late_is_title_and_text() {
        let read = read("Before.\n\n# Late\n\nAfter.\n");
        assert_eq!(words(&read.title.unwrap()), "Late");
        assert_eq!(words(&read.text), "Before. Late After.");
    }

    #[test]
    fn front_matter_names_the_title_and_is_no_text() {
        for (file, title) in [
            ("---\ntitle: \"It's: here\"\ntags: [a]\n---\n# Head\nBody\n", "It's: here"),
            ("---\r\ntitle: Plain\r\n---\r\n# Head\r\nBody\r\n", "Plain"),
            ("+++\ntitle = 'Toml'\n+++\n# Head\nBody", "Toml"),
            ("---\ntitle: \"A \\\"b\\\" \\\\ \\c\"\n---\n# Head\nBody\n", "A \"b\" \\ \\c"),
            ("---\ntitle: 'It''s'\n---\n# Head\nBody\n", "It's"),
        ] {
            let read = read(file);
            assert_eq!((read.title.as_deref(), words(&read.text).as_str()), (Some(title), "Head Body"));
        }
        let read = read("---\ntitle: >\n  folded\n---\n# Head\nBody\n");
        assert_eq!((read.title.as_deref(), words(&read.text).as_str()), (Some("Head"), "Body"));
    }

    #[test]
    fn a_rule_at_the_head_is_no_front_matter() {
        let read = read("---\n\nBody, then a rule\n\n***\n\nEnd\n");
        assert_eq!((read.title, words(&read.text).as_str()), (None, "Body, then a rule End"));
    }

    #[test]
    fn programs_within_a_paragraph_are_no_text() {
        let file = concat!(
            "One <script>no()\nno `no` *no*</script>two<br/>three <STYLE>p{}</STYLE >four <style>no\n\n",
            "Five\n"
        );
        assert_eq!(words(&read(file).text), "One two three four Five");
        assert_eq!(words(&read("A <style/>b <script src='a'/>c").text), "A b c");
    }

    #[test]
    fn a_picture_of_many_elements_is_passed_over() {
        let file = format!("<svg>\n{}</svg>\n\nText\n", "<path d='M0'/>\n".repeat(5000));
        assert_eq!(words(&read(&file).text), "Text");
    }

    #[test]
    fn a_block_of_html_that_would_take_forever_is_told() {
        assert!(super::read(&"<div>\n".repeat(3000)).is_err());
        assert_eq!(words(&read(&"<div>\n\nx\n\n".repeat(3)).text), "x x x");
    }
}
