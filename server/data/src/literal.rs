//! Python list literals of strings, as question files hold their answers: `['a', "b's"]`.
//!
//! DPR's own reader calls `eval` on the literal. Here it is parsed by the rules of the Python reference (string and
//! bytes literals), so that a file can say nothing but strings.

use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

/// The reason why a text is not a list of strings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: expected {expected}, found {found}")]
pub struct LiteralError {
    /// The column in the literal, in characters from 1.
    pub column: usize,
    /// The content expected at this column.
    pub expected: &'static str,
    /// The content found at this column.
    pub found: String,
}

/// Parses a list of Python strings. Nothing is evaluated.
///
/// The parser understands single, double and triple quotes, the prefixes `u` and `r`, every escape but `\N{...}`,
/// strings beside each other (they join, as in Python), and a comma after the last.
///
/// # Errors
/// [`LiteralError`] with the column: anything else, as a number, a name, a call or a nested list.
pub fn parse_list(text: &str) -> Result<Vec<String>, LiteralError> {
    let mut parser = Parser { rest: text.chars().peekable(), column: 1 };
    parser.skip_space();
    if !parser.take('[') {
        return Err(parser.unexpected("`[`, the start of a list of strings"));
    }
    let mut items = Vec::new();
    loop {
        parser.skip_space();
        if parser.take(']') {
            break;
        }
        items.push(parser.item()?);
        if !parser.take(',') {
            if parser.take(']') {
                break;
            }
            return Err(parser.unexpected("`,` or `]`"));
        }
    }
    parser.skip_space();
    match parser.rest.peek() {
        None => Ok(items),
        Some(_) => Err(parser.unexpected("nothing after the list")),
    }
}

/// Writes strings as Python's `repr` of a list does, so that [`parse_list`] gives them back.
pub fn format_list(items: &[String]) -> String {
    let mut out = String::from("[");
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        push_repr(&mut out, item);
    }
    out.push(']');
    out
}

fn push_repr(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if is_printable(c) => out.push(c),
            c => {
                let _ = match u32::from(c) {
                    code @ ..=0xff => write!(out, "\\x{code:02x}"),
                    code @ ..=0xffff => write!(out, "\\u{code:04x}"),
                    code => write!(out, "\\U{code:08x}"),
                }; // a String takes every write
            }
        }
    }
    out.push(quote);
}

/// Returns the value of Python's `str.isprintable` for a character. Rust's debug form escapes by the same general
/// categories, except that it leaves a combining mark alone only behind another character.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    String::from_iter(['a', c]).escape_debug().nth(1) != Some('\\')
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    column: usize,
}

impl Parser<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        self.column += 1;
        Some(c)
    }

    fn take(&mut self, expected: char) -> bool {
        let found = self.rest.peek() == Some(&expected);
        if found {
            self.next();
        }
        found
    }

    fn skip_space(&mut self) {
        while matches!(self.rest.peek(), Some(' ' | '\t' | '\n' | '\r' | '\x0c')) {
            self.next();
        }
    }

    fn unexpected(&self, expected: &'static str) -> LiteralError {
        let found: String = self.rest.clone().take(16).collect();
        self.error(expected, if found.is_empty() { "the end".to_owned() } else { format!("`{found}`") })
    }

    fn error(&self, expected: &'static str, found: String) -> LiteralError {
        LiteralError { column: self.column, expected, found }
    }

    /// Parses one or more strings beside each other, and the space behind them.
    fn item(&mut self) -> Result<String, LiteralError> {
        let mut text = String::new();
        loop {
            self.string(&mut text)?;
            self.skip_space();
            if matches!(self.rest.peek(), None | Some(',' | ']')) {
                return Ok(text);
            }
            // Whatever else follows must be another string; say what may follow when it is none.
            if !self.at_string() {
                return Err(self.unexpected("`,` or `]`"));
            }
        }
    }

    fn at_string(&self) -> bool {
        let mut ahead = self.rest.clone();
        match ahead.next() {
            Some('\'' | '"') => true,
            Some('u' | 'U' | 'r' | 'R') => matches!(ahead.next(), Some('\'' | '"')),
            _ => false,
        }
    }

    fn string(&mut self, text: &mut String) -> Result<(), LiteralError> {
        if !self.at_string() {
            return Err(self.unexpected("a quoted string"));
        }
        let raw = match self.rest.peek() {
            Some('r' | 'R') => self.next().is_some(),
            Some('u' | 'U') => self.next().is_none(),
            _ => false,
        };
        let Some(quote) = self.next() else { return Err(self.unexpected("a quoted string")) };
        let mut triple = false;
        if self.rest.peek() == Some(&quote) {
            self.next();
            if !self.take(quote) {
                return Ok(()); // an empty string
            }
            triple = true;
        }
        loop {
            if self.rest.peek() == Some(&quote) {
                if !triple {
                    self.next();
                    return Ok(());
                }
                let mut ahead = self.rest.clone();
                if ahead.by_ref().take(3).filter(|c| *c == quote).count() == 3 {
                    for _ in 0..3 {
                        self.next();
                    }
                    return Ok(());
                }
            }
            match self.rest.peek() {
                None => return Err(self.unexpected("a closing quote")),
                Some('\n' | '\r') if !triple => {
                    return Err(self.error("a closing quote", "the end of the line".to_owned()));
                }
                Some('\\') if raw => {
                    text.push('\\');
                    self.next();
                    // A quote behind a backslash does not close a raw string, and both stay.
                    match self.next() {
                        Some(c) => text.push(c),
                        None => return Err(self.unexpected("a closing quote")),
                    }
                }
                Some('\\') => self.escape(text)?,
                Some(_) => text.extend(self.next()),
            }
        }
    }

    fn escape(&mut self, text: &mut String) -> Result<(), LiteralError> {
        let start = self.clone_at();
        self.next();
        let Some(c) = self.next() else { return Err(self.unexpected("a closing quote")) };
        let plain = match c {
            '\n' => return Ok(()), // the line goes on
            '\\' | '\'' | '"' => c,
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            'x' => self.code(2, &start)?,
            'u' => self.code(4, &start)?,
            'U' => self.code(8, &start)?,
            'N' => return Err(start.unexpected("an escape with a number (`\\u2019`), not a name")),
            '0'..='7' => {
                let mut code = c.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    let Some(digit) = self.rest.peek().and_then(|c| c.to_digit(8)) else { break };
                    code = code * 8 + digit;
                    self.next();
                }
                char::from_u32(code).unwrap_or_default() // at most 0o777
            }
            // Python keeps the backslash before a character that it cannot escape.
            other => {
                text.push('\\');
                other
            }
        };
        text.push(plain);
        Ok(())
    }

    fn code(&mut self, digits: usize, start: &Self) -> Result<char, LiteralError> {
        let mut code = 0;
        for _ in 0..digits {
            let Some(digit) = self.rest.peek().and_then(|c| c.to_digit(16)) else {
                return Err(start.unexpected("2 hex digits after \\x, 4 after \\u, 8 after \\U"));
            };
            code = code * 16 + digit;
            self.next();
        }
        char::from_u32(code).ok_or_else(|| start.unexpected("the code of a character (no half of a pair)"))
    }

    fn clone_at(&self) -> Self {
        Self { rest: self.rest.clone(), column: self.column }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_python_reads() {
        let cases: &[(&str, &[&str])] = &[
            ("[]", &[]),
            (" [ ] ", &[]),
            ("['a']", &["a"]),
            ("['a', \"b's\", ]", &["a", "b's"]),
            ("[ 'a' ,'b' ]\r\n", &["a", "b"]),
            (r#"['it\'s', "say \"hi\""]"#, &["it's", "say \"hi\""]),
            (r"['a\tb\n\\', '\a\b\f\v\r']", &["a\tb\n\\", "\x07\x08\x0c\x0b\r"]),
            (r"['\xe9 \u2019 \U0001F681 \101\0\7z \777']", &["é \u{2019} 🚁 A\0\x07z ǿ"]),
            (r"['\d+\.', '\8']", &[r"\d+\.", r"\8"]),
            (r#"['a' 'b'"c", 'd']"#, &["abc", "d"]),
            (r#"[u'a', R'\d\'', r"\n"]"#, &["a", r"\d\'", r"\n"]),
            ("['''it's''', '', '''''', \"\"\"a\n\"b\"\"\"]", &["it's", "", "", "a\n\"b"]),
            ("['a\\\nb']", &["ab"]),
            ("['拳闘', '‘70s']", &["拳闘", "‘70s"]),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_list(text).unwrap(), *expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_list_of_strings_is_refused_with_its_column() {
        let cases = [
            ("", 1, "`[`, the start of a list of strings, found the end"),
            ("'a'", 1, "`[`, the start of a list of strings, found `'a'`"),
            ("('a',)", 1, "found `('a',)`"),
            ("[", 2, "a quoted string, found the end"),
            ("[,]", 2, "a quoted string, found `,]`"),
            ("['a',,]", 6, "a quoted string, found `,]`"),
            ("['a'", 5, "`,` or `]`, found the end"),
            ("['a' b]", 6, "`,` or `]`, found `b]`"),
            ("['a'] # more", 7, "nothing after the list, found `# more`"),
            ("['a' + 'b']", 6, "`,` or `]`, found `+ 'b']`"),
            ("['a'.upper()]", 5, "`,` or `]`, found `.upper()]`"),
            ("['a', 3]", 7, "a quoted string, found `3]`"),
            ("[None]", 2, "a quoted string, found `None]`"),
            ("[['a']]", 2, "a quoted string"),
            ("[b'a']", 2, "a quoted string, found `b'a']`"),
            ("[f'{x}']", 2, "a quoted string"),
            ("[ur'a']", 2, "a quoted string"),
            ("[__import__('os').system('ls')]", 2, "found `__import__('os')`"),
            ("[x for x in 'a']", 2, "a quoted string"),
            ("['a]", 5, "a closing quote, found the end"),
            ("['a\n']", 4, "a closing quote, found the end of the line"),
            (r"['a\", 5, "a closing quote, found the end"),
            (r"[r'a\']", 8, "a closing quote, found the end"),
            ("['''a''", 8, "a closing quote, found the end"),
            (r"['é\x4g']", 4, r"2 hex digits after \x, 4 after \u, 8 after \U, found `\x4g']`"),
            (r"['\ud83d\ude00']", 3, "no half of a pair"),
            (r"['\U00110000']", 3, "the code of a character"),
            (r"['\N{BULLET}']", 3, r"an escape with a number (`\u2019`), not a name, found `\N{BULLET}']`"),
        ];
        for (text, column, message) in cases {
            let error = parse_list(text).unwrap_err();
            assert_eq!(error.column, column, "{text}: {error}");
            assert!(error.to_string().contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn lists_are_written_as_python_writes_them() {
        let cases: &[(&[&str], &str)] = &[
            (&[], "[]"),
            (&["a", "b"], "['a', 'b']"),
            (&["it's", "\"", "'\""], r#"["it's", '"', '\'"']"#),
            (&["\\ \n\r\t\0\x7f"], r"['\\ \n\r\t\x00\x7f']"),
            (
                &["é\u{a0}\u{ad}\u{2028}\u{301}\u{feff}🚁\u{f0000}"],
                "['é\\xa0\\xad\\u2028\u{301}\\ufeff🚁\\U000f0000']",
            ),
        ];
        for (items, expected) in cases {
            let items: Vec<String> = items.iter().map(|item| (*item).to_owned()).collect();
            assert_eq!(format_list(&items), *expected);
            assert_eq!(parse_list(expected).unwrap(), items);
        }
    }
}
