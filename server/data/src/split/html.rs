//! HTML pages as text: what a reader sees, without the navigation.

use ego_tree::iter::Edge;
use scraper::{Html, Node};

use super::text::Text;

/// Elements whose content is passed over: content that is not text or not of this page, pictures and players,
/// controls, and the readings above Chinese characters, which would stand inside the word.
const SKIPPED: [&str; 20] = [
    "title", "script", "style", "noscript", "template", "nav", "svg", "math", "canvas", "iframe", "object",
    "audio", "video", "map", "button", "select", "textarea", "datalist", "rt", "rp",
];

/// Elements that do not end a word: `<b>w</b>ord` is one.
const INLINE: [&str; 39] = [
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font",
    "i", "ins", "kbd", "label", "mark", "q", "rb", "rp", "rt", "ruby", "s", "samp", "script", "small",
    "span", "strike", "strong", "sub", "sup", "template", "time", "tt", "u", "var", "wbr",
];

/// Elements inside one another that are taken, without those whose end may be left out. Pages have dozens; the time
/// that HTML's rules take grows with the square of this.
pub(super) const MAX_DEPTH: usize = 2000;

/// Elements that have no end, or that end where the next begins.
const WITHOUT_END: [&str; 28] = [
    "area", "base", "body", "br", "col", "colgroup", "dd", "dt", "embed", "head", "hr", "html", "img",
    "input", "li", "link", "meta", "optgroup", "option", "p", "param", "source", "tbody", "td", "tfoot",
    "th", "tr", "wbr",
];

/// Returns whether more elements are open at once than [`MAX_DEPTH`], as in no page that a person wrote.
pub(super) fn is_too_deep(html: &str) -> bool {
    let (mut depth, mut program) = (0usize, None);
    for piece in html.split('<').skip(1) {
        let (is_end, rest) = piece.strip_prefix('/').map_or((false, piece), |rest| (true, rest));
        let name: String = rest
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .take(16)
            .map(|c| c.to_ascii_lowercase())
            .collect();
        // The text of a program holds no elements: `i<n` is a comparison.
        if program.as_ref().is_some_and(|open| !is_end || *open != name) {
            continue;
        }
        program = (!is_end && ["script", "style"].contains(&name.as_str())).then(|| name.clone());
        if name.is_empty() || WITHOUT_END.contains(&name.as_str()) {
            continue;
        }
        depth = if is_end { depth.saturating_sub(1) } else { depth + 1 };
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}

/// Reads a page. The title is `<title>`, else the first `<h1>`; the text is that of the page without scripts, styles,
/// navigation, forms' controls, pictures and elements marked `hidden`.
pub(super) fn read(html: &str) -> Text {
    let tree = Html::parse_document(html).tree;
    let mut text = String::new();
    let (mut title, mut heading) = (None, None);
    // The element whose content is passed over, and where in `text` the open `<h1>` begins.
    let (mut skipping, mut heading_at) = (None, None);
    for edge in tree.root().traverse() {
        let (node, is_open) = match edge {
            Edge::Open(node) => (node, true),
            Edge::Close(node) => (node, false),
        };
        if let Some(skipped) = skipping {
            if !is_open && node.id() == skipped {
                skipping = None;
            }
            continue;
        }
        match node.value() {
            // A soft hyphen is seen only where a line breaks, and would hide the word from any search.
            Node::Text(piece) if is_open => text.extend(piece.chars().filter(|c| *c != '\u{ad}')),
            Node::Element(element) => {
                let name = element.name();
                if !INLINE.contains(&name) {
                    text.push(' ');
                }
                if is_open && (SKIPPED.contains(&name) || element.attr("hidden").is_some()) {
                    skipping = Some(node.id());
                    if name == "title" && title.is_none() {
                        title =
                            Some(node.children().filter_map(|c| c.value().as_text().map(|t| &**t)).collect());
                    }
                } else if name == "h1" && heading.is_none() {
                    match heading_at {
                        Some(from) if !is_open => heading = text.get(from..).map(str::to_owned),
                        _ => heading_at = Some(text.len()),
                    }
                }
            }
            _ => {}
        }
    }
    let has_words = |title: &String| !title.trim().is_empty();
    Text { title: title.filter(has_words).or(heading.filter(has_words)), text }
}

/// Returns the text of a piece of HTML, as it stands in a Markdown file.
pub(super) fn text_of(fragment: &str) -> String {
    read(fragment).text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_page_is_what_its_reader_sees() {
        let page = read(concat!(
            "<!doctype html><html><head><meta charset=utf-8><title>A &amp; B\n</title><style>p{}</style>",
            "<script>if (a < b) {}</script></head><body><nav><ul><li>Home</ul></nav><h1>Head</h1>",
            "<p>One <b>w</b>ord,<br>hy&shy;phen&nbsp;x &lt;tag&gt;<p>Two<!-- no --><script>no()</script>fold",
            "<table><tr><td>1<td>2</table><svg><title>no</title></svg><p hidden>no</p><noscript>no</noscript>",
            "<ruby>漢<rt>かん</rt>字</ruby></body></html>"
        ));
        assert_eq!(words(&page.title.unwrap()), "A & B");
        assert_eq!(words(&page.text), "Head One word, hyphen x <tag> Twofold 1 2 漢字");
    }

    #[test]
    fn the_first_heading_stands_in_for_a_missing_title() {
        let title = |html| read(html).title.map(|title| words(&title));
        assert_eq!(title("<title> </title><h1>The <i>first</i></h1><h1>Second</h1>").unwrap(), "The first");
        assert_eq!(title("<p>None here"), None);
    }

    #[test]
    fn broken_html_is_read_as_a_browser_would() {
        let page = read("<nav><a href=x>Home</nav><div><p>Body <b>text</div> more & less <i");
        assert_eq!(words(&page.text), "Body text more & less");
        let deep = format!("{}end", "<div>".repeat(20_000));
        assert_eq!(words(&read(&deep).text), "end");
    }

    #[test]
    fn nesting_that_would_take_forever_is_told() {
        assert!(is_too_deep(&"<div>".repeat(2001)));
        assert!(!is_too_deep(&"<div><p>text</div>".repeat(5000)));
        assert!(!is_too_deep(&"<p>one<li>two<br>".repeat(5000)));
        let program = format!("<script>{}</script><p>text", "if(i<n )x();".repeat(5000));
        assert!(!is_too_deep(&program));
    }
}
