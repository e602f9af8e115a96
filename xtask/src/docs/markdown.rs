//! The few things of Markdown that checks look at: links, the anchors of headings, code in a line, and fenced blocks.

use std::ops::Range;

/// A link or an image: the line it stands in, from 1, and where in the text its target is.
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) target: Range<usize>,
}

/// A fenced block: the line of its fence, what follows the fence's ticks, and the lines in it.
pub(super) struct Block<'a> {
    pub(super) line: usize,
    pub(super) language: &'a str,
    pub(super) lines: Vec<&'a str>,
}

/// A Markdown file, read once.
pub(super) struct Markdown<'a> {
    pub(super) links: Vec<Link>,
    pub(super) anchors: Vec<String>,
    /// Code in a line, with the line's number.
    pub(super) code: Vec<(usize, &'a str)>,
    pub(super) blocks: Vec<Block<'a>>,
}

impl<'a> Markdown<'a> {
    pub(super) fn parse(text: &'a str) -> Self {
        let mut page = Self { links: Vec::new(), anchors: Vec::new(), code: Vec::new(), blocks: Vec::new() };
        let (mut fence, mut in_comment, mut start) = (None, false, 0);
        for (number, line) in text.split_inclusive('\n').enumerate() {
            let (trimmed, number) = (line.trim(), number + 1);
            if let Some(ticks) = fence {
                match trimmed.strip_prefix(ticks) {
                    Some("") => fence = None,
                    _ => {
                        page.blocks.last_mut().into_iter().for_each(|block| block.lines.push(line.trim_end()))
                    }
                }
            } else if in_comment {
                in_comment = !line.contains("-->");
            } else if let Some(ticks) = ["```", "~~~"].into_iter().find(|ticks| trimmed.starts_with(ticks)) {
                let language = trimmed[ticks.len()..].trim();
                page.blocks.push(Block { line: number, language, lines: Vec::new() });
                fence = Some(ticks);
            } else if trimmed.starts_with("<!--") {
                in_comment = !line.contains("-->");
            } else {
                if let Some(heading) = heading(trimmed) {
                    page.add_anchor(anchor(heading));
                }
                page.code.extend(line.split('`').skip(1).step_by(2).map(|code| (number, code)));
                let targets = targets(line);
                page.links.extend(
                    targets
                        .map(|range| Link { line: number, target: start + range.start..start + range.end }),
                );
            }
            start += line.len();
        }
        page
    }

    /// A heading that stands there twice gets a number, as forges and mdBook give it.
    fn add_anchor(&mut self, anchor: String) {
        let mut unique = anchor.clone();
        let mut number = 0;
        while self.anchors.contains(&unique) {
            number += 1;
            unique = format!("{anchor}-{number}");
        }
        self.anchors.push(unique);
    }
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    ((1..=6).contains(&level) && text.starts_with(' ')).then(|| text.trim())
}

/// The anchor that mdBook and forges give a heading.
fn anchor(heading: &str) -> String {
    let mut text = heading.to_owned();
    // Of a link only its text counts.
    while let (Some(middle), Some(start)) = (text.find("]("), text.find('[')) {
        let Some(end) = text[middle..].find(')').filter(|_| start < middle) else { break };
        text = format!("{}{}{}", &text[..start], &text[start + 1..middle], &text[middle + end + 1..]);
    }
    text.chars()
        .flat_map(char::to_lowercase)
        .filter_map(|c| match c {
            c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
            c if c.is_whitespace() => Some('-'),
            _ => None,
        })
        .collect()
}

/// Returns the ranges of a line that are targets of links, outside of code.
fn targets(line: &str) -> impl Iterator<Item = Range<usize>> {
    let (mut found, mut is_code, bytes) = (Vec::new(), false, line.as_bytes());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'`' => is_code = !is_code,
            b']' if !is_code && bytes.get(at + 1) == Some(&b'(') => {
                let start = at + 2;
                let end = line[start..].find([')', ' ']).map(|length| start + length);
                if let Some(end) = end {
                    found.push(start..end);
                    at = end;
                }
            }
            // `[label]: target` at the beginning of a line
            b']' if !is_code && line.starts_with('[') && line[at..].starts_with("]: ") => {
                let start = at + 3;
                found.push(start..start + line[start..].trim_end().len());
                at = bytes.len();
            }
            _ => {}
        }
        at += 1;
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# A `b.c` of [two](x.md)

See [one](a.md#b), `[no](code.md)` and ![an image](i.png).
<!-- [no](comment.md) -->
```sh
dpr index  # [no](block.md)
```
[label]: r.md
## Again
## Again
";

    #[test]
    fn links_outside_of_code_and_comments_are_found() {
        let page = Markdown::parse(TEXT);
        let found: Vec<_> = page.links.iter().map(|link| (link.line, &TEXT[link.target.clone()])).collect();
        assert_eq!(found, [(1, "x.md"), (3, "a.md#b"), (3, "i.png"), (8, "r.md")]);
        assert_eq!(page.code, [(1, "b.c"), (3, "[no](code.md)")]);
    }

    #[test]
    fn headings_have_the_anchors_that_links_use() {
        assert_eq!(Markdown::parse(TEXT).anchors, ["a-bc-of-two", "again", "again-1"]);
    }

    #[test]
    fn blocks_are_taken_with_their_language() {
        let page = Markdown::parse(TEXT);
        assert_eq!((page.blocks.len(), page.blocks[0].line, page.blocks[0].language), (1, 5, "sh"));
        assert_eq!(page.blocks[0].lines, ["dpr index  # [no](block.md)"]);
    }
}
