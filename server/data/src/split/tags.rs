//! Tags of a page: not what looks like one in a comment, in an attribute or in a program.

/// Elements whose content is text up to their own end.
const OF_TEXT: [&str; 9] =
    ["iframe", "noembed", "noframes", "noscript", "script", "style", "textarea", "title", "xmp"];

/// Elements that have neither content nor an end.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr",
];

/// A tag of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    /// The name as it is written.
    pub(super) name: &'a str,
    /// `true` for an end tag, `</name>`.
    pub(super) is_end: bool,
    /// `true` for a self-closing tag, `<name/>`: in XML, SVG and MathML an element without content, in HTML a start tag.
    pub(super) is_empty: bool,
    /// The offset of what follows it.
    end: usize,
}

/// The tags of a page, in order.
pub(super) struct Tags<'a> {
    page: &'a str,
    is_xml: bool,
    at: usize,
    /// The open element whose content is text.
    text_of: Option<&'a str>,
}

impl<'a> Tags<'a> {
    /// Returns the tags of a page of HTML.
    pub(super) fn of(page: &'a str) -> Self {
        Self { page, is_xml: false, at: 0, text_of: None }
    }

    /// Moves behind the next `pattern`, or to the end of the page where there is none.
    fn skip_to(&mut self, pattern: &str) {
        let found = self.page[self.at..].find(pattern);
        self.at = found.map_or(self.page.len(), |found| self.at + found + pattern.len());
    }
}

impl<'a> Iterator for Tags<'a> {
    type Item = Tag<'a>;

    fn next(&mut self) -> Option<Tag<'a>> {
        let page = self.page;
        loop {
            self.at += page[self.at..].find('<')? + 1;
            let rest = &page[self.at..];
            if let Some(element) = self.text_of {
                if !is_end_of(rest, element) {
                    continue;
                }
                self.text_of = None;
            }
            if let Some(comment) = rest.strip_prefix("!--") {
                self.at = page.len() - comment.len() + comment_length(comment);
                continue;
            }
            if self.is_xml && rest.starts_with("![CDATA[") {
                self.skip_to("]]>");
                continue;
            }
            let (is_end, named) = rest.strip_prefix('/').map_or((false, rest), |named| (true, named));
            if !named.starts_with(|c: char| c.is_ascii_alphabetic()) {
                // A declaration or an instruction; any other `<` is text.
                if is_end || rest.starts_with(['!', '?']) {
                    self.skip_to(">");
                }
                continue;
            }
            let name = named.split(is_end_of_name).next().unwrap_or_default();
            let attributes = &named[name.len()..];
            let Some((length, is_empty)) = tag_rest(attributes.as_bytes()) else {
                self.at = page.len();
                return None;
            };
            self.at = page.len() - attributes.len() + length;
            let has_content = !(is_end || self.is_xml && is_empty);
            if has_content && OF_TEXT.into_iter().any(|element| name.eq_ignore_ascii_case(element)) {
                self.text_of = Some(name);
            }
            return Some(Tag { name, is_end, is_empty, end: self.at });
        }
    }
}

fn is_end_of_name(c: char) -> bool {
    c.is_ascii_whitespace() || matches!(c, '/' | '>')
}

/// Returns whether what follows a `<` is the end of this element.
fn is_end_of(rest: &str, element: &str) -> bool {
    let split = rest.strip_prefix('/').and_then(|named| named.split_at_checked(element.len()));
    split.is_some_and(|(name, after)| name.eq_ignore_ascii_case(element) && after.starts_with(is_end_of_name))
}

/// Returns the length of a comment behind its `<!--`, with its end.
fn comment_length(text: &str) -> usize {
    if let Some(end) = [">", "->"].into_iter().find(|end| text.starts_with(end)) {
        return end.len();
    }
    let mut at = 0;
    while let Some(found) = text[at..].find("--") {
        let dashes = at + found + 2;
        if let Some(end) = [">", "!>"].into_iter().find(|end| text[dashes..].starts_with(end)) {
            return dashes + end.len();
        }
        at += found + 1;
    }
    text.len()
}

/// Returns the length of a tag behind its name, with its `>`, and whether it ends in `/>`; `None` for a tag that the
/// page ends in.
fn tag_rest(text: &[u8]) -> Option<(usize, bool)> {
    let find = |from: usize, is_found: fn(u8) -> bool| {
        let found = text.get(from..).and_then(|rest| rest.iter().position(|byte| is_found(*byte)));
        found.map(|found| from + found)
    };
    let mut at = 0;
    loop {
        let name = find(at, |byte| !byte.is_ascii_whitespace() && byte != b'/')?;
        if text[name] == b'>' {
            return Some((name + 1, name > at && text[name - 1] == b'/'));
        }
        // The name of an attribute, which may begin with the sign that ends it.
        at = find(name + 1, |byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>' | b'='))?;
        let sign = find(at, |byte| !byte.is_ascii_whitespace())?;
        if text[sign] != b'=' {
            continue;
        }
        at = find(sign + 1, |byte| !byte.is_ascii_whitespace())?;
        at = match text[at] {
            b'"' => find(at + 1, |byte| byte == b'"')? + 1,
            b'\'' => find(at + 1, |byte| byte == b'\'')? + 1,
            _ => find(at, |byte| byte.is_ascii_whitespace() || byte == b'>')?,
        };
    }
}

/// Returns a page of XML as one of HTML: `<name/>`, which HTML takes for the beginning of an element, is followed by
/// its end.
pub(super) fn with_ends(xml: &str) -> String {
    let (mut html, mut copied) = (String::with_capacity(xml.len()), 0);
    for Tag { name, is_end, is_empty, end, .. } in (Tags { is_xml: true, ..Tags::of(xml) }) {
        if is_empty && !is_end && !VOID.contains(&name) {
            html.push_str(&xml[copied..end - "/>".len()]);
            html.push_str("></");
            html.push_str(name);
            html.push('>');
            copied = end;
        }
    }
    html.push_str(&xml[copied..]);
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(page: &str) -> Vec<String> {
        let written = |tag: Tag<'_>| format!("{}{}", if tag.is_end { "/" } else { "" }, tag.name);
        Tags::of(page).map(written).collect()
    }

    #[test]
    fn what_only_looks_like_a_tag_is_none() {
        let cases: [(&str, &[&str]); 6] = [
            ("a <b>w</b> 1 < 2 <é> </> </ b> <!doctype html> <?xml?> <i", &["b", "/b"]),
            ("<!--<a>--><b><!--><i><!---><u><!-- > -- <a> --!><s><!-- <a>", &["b", "i", "u", "s"]),
            ("<a x=\"</a>\" y='<b>'><i x=\">", &["a"]),
            ("<a \"><b =\"'></b><i x=a\"b><u x=>", &["a", "b", "/b", "i", "u"]),
            (
                "<script>i<n;'</div>'</scripts></SCRIPT ><title></a></title>",
                &["script", "/SCRIPT", "title", "/title"],
            ),
            ("<br/><a\nhref=x/>", &["br", "a"]),
        ];
        for (page, tags) in cases {
            assert_eq!(names(page), tags, "{page}");
        }
    }

    #[test]
    fn empty_elements_of_xml_have_an_end_in_html() {
        for (xml, html) in [
            ("<title/><br/><a id=\"x\"/>", "<title></title><br/><a id=\"x\"></a>"),
            ("<script src='/>' />x", "<script src='/>' ></script>x"),
            ("<!-- <p/> --><![CDATA[<p/>]]><p/>", "<!-- <p/> --><![CDATA[<p/>]]><p></p>"),
            ("<script>'<p/>'</script><svg:g/>", "<script>'<p/>'</script><svg:g></svg:g>"),
            ("<p>no such</p><p", "<p>no such</p><p"),
        ] {
            assert_eq!(with_ends(xml), html);
        }
    }
}
