//! Answer patterns: CuratedTREC's are written for Python, whose syntax differs a little from Rust's.

use std::iter::Peekable;
use std::str::Chars;

use regex::RegexBuilder;

use super::tokens::nfd;

/// Size limit of a compiled pattern, in bytes; a pattern beyond it is refused, not compiled for minutes.
const SIZE_LIMIT: usize = 64 << 20;

/// A pattern that is searched case-insensitively, `^` and `$` at every line, with Unicode classes.
#[derive(Debug)]
pub(super) enum Pattern {
    /// A pattern that is searched in time linear in the text.
    Linear(regex::Regex),
    /// A pattern that needs backtracking: look-around, back-references, possessive repeats.
    Backtracking(fancy_regex::Regex),
}

impl Pattern {
    /// Compiles the decomposed (NFD) pattern; the error says what is wrong with the pattern.
    pub(super) fn new(python: &str) -> Result<Self, String> {
        let translated = Translator::new(&nfd(python)).run()?;
        let pattern = format!("(?im){}", translated.rust);
        if !translated.possessive
            && let Ok(linear) = RegexBuilder::new(&pattern).size_limit(SIZE_LIMIT).build()
        {
            return Ok(Self::Linear(linear));
        }
        fancy_regex::RegexBuilder::new(&pattern)
            .delegate_size_limit(SIZE_LIMIT)
            .build()
            .map(Self::Backtracking)
            .map_err(|error| error.to_string().split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Searches decomposed (NFD) text. A search that backtracks without end counts as no match.
    pub(super) fn is_match(&self, text: &str) -> bool {
        match self {
            Self::Linear(regex) => regex.is_match(text),
            Self::Backtracking(regex) => regex.is_match(text).unwrap_or(false),
        }
    }
}

/// A pattern in Rust's syntax.
struct Translated {
    rust: String,
    possessive: bool,
}

/// The preceding element of a pattern, which decides what `+` and `?` mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Item,
    Repeat,
    /// A repeat with its `?` (lazy) or `+` (possessive).
    Closed,
}

/// Rewrites what Python takes and Rust does not, or takes otherwise: `\` before any sign (`\°`, `\–`), `{` that
/// repeats nothing, `{,n}`, `\Z`, `\0`, and within classes `[`, `&&`, `~~` and a `-` beside `\w`. Refuses what Python
/// refuses and Rust takes: a repeat of a repeat (`a**`), and letters that are not an escape (`\y`).
struct Translator<'a> {
    rest: Peekable<Chars<'a>>,
    out: Translated,
}

impl<'a> Translator<'a> {
    fn new(python: &'a str) -> Self {
        Self { rest: python.chars().peekable(), out: Translated { rust: String::new(), possessive: false } }
    }

    fn run(mut self) -> Result<Translated, String> {
        let mut before = Before::Item;
        while let Some(next) = self.rest.next() {
            before = match next {
                '*' | '+' | '?' => self.repeat(next, before)?,
                '{' => self.brace(before)?,
                _ => {
                    self.item(next)?;
                    Before::Item
                }
            };
        }
        Ok(self.out)
    }

    fn item(&mut self, first: char) -> Result<(), String> {
        match first {
            '\\' => self.escape(false).map(|_| ()),
            '[' => self.class(),
            _ => {
                self.out.rust.push(first);
                // The `?` of `(?:` is not a repeat.
                if first == '(' && self.rest.next_if_eq(&'?').is_some() {
                    self.out.rust.push('?');
                }
                Ok(())
            }
        }
    }

    fn repeat(&mut self, sign: char, before: Before) -> Result<Before, String> {
        self.out.rust.push(sign);
        match (before, sign) {
            (Before::Item, _) => Ok(Before::Repeat),
            (Before::Repeat, '?') => Ok(Before::Closed),
            (Before::Repeat, '+') => {
                self.out.possessive = true;
                Ok(Before::Closed)
            }
            _ => Err("multiple repeat".to_owned()),
        }
    }

    fn brace(&mut self, before: Before) -> Result<Before, String> {
        let Some((least, most)) = self.bounds() else {
            self.out.rust.push_str("\\{");
            return Ok(Before::Item);
        };
        if before != Before::Item {
            return Err("multiple repeat".to_owned());
        }
        let least = if least.is_empty() { "0" } else { &least };
        let bounds = most.map_or_else(|| format!("{{{least}}}"), |most| format!("{{{least},{most}}}"));
        self.out.rust.push_str(&bounds);
        Ok(Before::Repeat)
    }

    /// Reads `2}`, `2,}`, `,3}` or `2,3}`, and nothing when the brace opens none of these.
    fn bounds(&mut self) -> Option<(String, Option<String>)> {
        let ahead: String = self.rest.clone().take_while(|c| *c != '}').collect();
        let (least, most) = ahead.split_once(',').map_or((ahead.as_str(), None), |(a, b)| (a, Some(b)));
        let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_closed = self.rest.clone().nth(ahead.chars().count()) == Some('}');
        if !is_closed || !all_digits(least) || !most.is_none_or(all_digits) || ahead.is_empty() {
            return None;
        }
        let bounds = (least.to_owned(), most.map(str::to_owned));
        self.rest.by_ref().take(ahead.len() + 1).for_each(drop);
        Some(bounds)
    }

    /// Translates the characters after a backslash and returns whether they are a class of their own, as `\w`.
    fn escape(&mut self, in_class: bool) -> Result<bool, String> {
        let escaped = self.rest.next().ok_or("a backslash ends the pattern")?;
        match escaped {
            'Z' if !in_class => self.out.rust.push_str("\\z"),
            'b' if in_class => self.out.rust.push_str("\\x08"),
            '0' => self.out.rust.push_str("\\x00"),
            'b' | 'B' | 'A' | 'z' if !in_class => self.out.rust.extend(['\\', escaped]),
            'a' | 'f' | 'n' | 'r' | 't' | 'v' | 'x' | 'u' | 'U' => self.out.rust.extend(['\\', escaped]),
            'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'p' | 'P' => {
                self.out.rust.extend(['\\', escaped]);
                return Ok(true);
            }
            _ if escaped.is_ascii_alphabetic() => return Err(format!("unknown escape \\{escaped}")),
            '<' | '>' => self.out.rust.push(escaped),
            _ if escaped.is_ascii() => self.out.rust.extend(['\\', escaped]),
            _ => self.out.rust.push(escaped),
        }
        Ok(false)
    }

    fn class(&mut self) -> Result<(), String> {
        self.out.rust.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.rust.push('^');
        }
        if self.rest.next_if_eq(&']').is_some() {
            self.out.rust.push_str("\\]");
        }
        loop {
            match self.rest.next().ok_or("a character class without its `]`")? {
                ']' => break self.out.rust.push(']'),
                '\\' => {
                    if self.escape(true)? && self.rest.next_if_eq(&'-').is_some() {
                        self.out.rust.push_str("\\-");
                    }
                }
                '[' if self.rest.peek() == Some(&':') => self.named_class(),
                '-' if self.is_class_ahead() => self.out.rust.push_str("\\-"),
                sign @ ('[' | '&' | '~') => self.out.rust.extend(['\\', sign]),
                other => self.out.rust.push(other),
            }
        }
        Ok(())
    }

    /// `[:alpha:]`, or an opening bracket like any other sign.
    fn named_class(&mut self) {
        let ahead: String = self.rest.clone().take_while(|c| *c != ']').collect();
        if ahead.len() > 2 && ahead.ends_with(':') {
            self.rest.by_ref().take(ahead.chars().count() + 1).for_each(drop);
            self.out.rust.push_str(&format!("[{ahead}]"));
        } else {
            self.out.rust.push_str("\\[");
        }
    }

    fn is_class_ahead(&self) -> bool {
        let mut ahead = self.rest.clone();
        ahead.next() == Some('\\') && ahead.next().is_some_and(|c| "dDsSwWpP".contains(c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern).unwrap().is_match(text)
    }

    #[test]
    fn pythons_syntax_is_taken() {
        assert!(finds(r"28 June 1491 \– 28", "28 June 1491 – 28"));
        assert!(finds(r"4\'\,\%\<\°", "4',%<°"));
        assert!(finds("a{x}|^b{,2}c$", "z\nbbc"));
        assert!(finds(r"[[\]][]x][a-\d][\w-.]", "]]-."));
        assert!(finds(r"[^[:alpha:]][[:digit:]]\Z", "!7"));
        assert!(finds("[&&]{2}", "&&") && !finds("[a&&b]{3}", "xab"));
    }

    #[test]
    fn what_needs_backtracking_is_taken_too() {
        assert!(finds(r"\b(\w+) \1\b", "the the end") && !finds(r"\b(\w+) \1\b", "the end"));
        assert!(finds("(?<!the )Rhine", "a Rhine") && !finds("(?<!the )Rhine", "The Rhine"));
        assert!(!finds("a++a", "aaa") && finds("a+?a", "aaa"));
        // A hopeless search ends.
        assert!(!finds(r"(?=(a*)*\1b)(a|aa)+c", &"a".repeat(60)));
    }

    #[test]
    fn what_python_refuses_is_refused() {
        for invalid in [
            "(a", "a)", "[a", "[]", "*a", "a|*b", "a**", "a*?*", "a{2}{3}", "a\\", r"\y", r"\e", "[z-a]",
            "a{3,1}",
        ] {
            assert!(Pattern::new(invalid).is_err(), "{invalid}");
        }
        assert!(Pattern::new("(((a{1000}){1000}){1000}){1000}").is_err());
    }
}
