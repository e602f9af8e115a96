//! HTML pages as text: what a reader sees, without the navigation.

use std::collections::HashMap;

use ego_tree::iter::Edge;
use scraper::{Html, Node};

use super::tags::{Tags, with_ends};
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
    "input", "li", "link", "meta", "option", "p", "param", "source", "tbody", "td", "tfoot", "th", "tr",
    "track", "wbr",
];

/// The reason why a page is not read: more elements are open at once than [`MAX_DEPTH`].
#[derive(Debug)]
pub(super) struct TooDeep;

/// Returns whether more elements are open at once than [`MAX_DEPTH`], as in no page that a person wrote. The end of an
/// element that is not open closes nothing, and `/>` ends an element of SVG and MathML. A page that hides its depth, in
/// SVG that is broken, is read all the same, and takes long.
fn is_too_deep(html: &str) -> bool {
    let (mut open, mut depth) = (HashMap::<String, usize>::new(), 0usize);
    for tag in Tags::of(html) {
        let name = tag.name.to_ascii_lowercase();
        let is_foreign = ["svg", "math"].into_iter().any(|root| name == root || open.contains_key(root));
        if WITHOUT_END.contains(&name.as_str()) || is_foreign && tag.is_empty {
            continue;
        }
        if !tag.is_end {
            *open.entry(name).or_default() += 1;
            depth += 1;
        } else if let Some(count) = open.get_mut(&name) {
            *count -= 1;
            depth -= 1;
            if *count == 0 {
                open.remove(&name);
            }
        }
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}

/// Reads a page as [`read`] does. `is_xhtml` says that its name is one of XHTML, which its beginning may say as well.
pub(super) fn read_page(page: &str, is_xhtml: bool) -> Result<Text, TooDeep> {
    if is_xhtml || page.trim_start().starts_with("<?xml") {
        return read_checked(&with_ends(page));
    }
    read_checked(page)
}

fn read_checked(html: &str) -> Result<Text, TooDeep> {
    if is_too_deep(html) {
        return Err(TooDeep);
    }
    Ok(read(html))
}

/// Reads a page. The title is `<title>`, else the first `<h1>`; the text is that of the page without scripts, styles,
/// navigation, forms' controls, pictures and elements marked `hidden`.
fn read(html: &str) -> Text {
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
pub(super) fn text_of(fragment: &str) -> Result<String, TooDeep> {
    read_checked(fragment).map(|page| page.text)
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

    #[test]
    fn an_end_closes_only_an_element_that_is_open() {
        for piece in ["<div></x><p>", "<div title='</div>'>", "<div><!--</div>-->", "<optgroup><p></x>"] {
            assert!(is_too_deep(&piece.repeat(3000)), "{piece}");
        }
        assert!(is_too_deep(&"<div><textarea></div></textarea>".repeat(3000)));
        assert!(!is_too_deep(&"<x></x></div>".repeat(3000)));
    }

    #[test]
    fn in_svg_empty_elements_are_closed() {
        let paths = "<path d='M0'/>".repeat(5000);
        assert!(!is_too_deep(&format!("<svg><g>{paths}</g></svg>")));
        assert!(!is_too_deep(&"<svg/><svg><use/></svg><math/>".repeat(3000)));
        assert!(is_too_deep(&"<svg><g>".repeat(1500)));
        assert!(is_too_deep(&format!("<svg/>{}", "<x/>".repeat(3000))), "in HTML `/>` ends nothing");
    }

    #[test]
    fn an_empty_element_of_xhtml_does_not_take_in_the_rest_of_the_page() {
        let body = "<body><h1>One</h1><p>Hello<br/>there.</p></body></html>";
        let scripted = format!("<html><head><title>Chapter</title><script src=\"a.js\"/></head>{body}");
        let untitled = format!("<html><head><title/></head>{body}");
        for (page, title) in [(&scripted, "Chapter"), (&untitled, "One")] {
            for page in [read_page(page, true), read_page(&format!("\n<?xml version=\"1.0\"?>{page}"), false)]
            {
                let page = page.unwrap();
                assert_eq!(words(&page.title.unwrap()), title);
                assert_eq!(words(&page.text), "One Hello there.");
            }
        }
        let many = format!("<html><body>{}<p>end</p></body></html>", "<a id=\"x\"/>".repeat(5000));
        assert_eq!(words(&read_page(&many, true).unwrap().text), "end");
    }
}
