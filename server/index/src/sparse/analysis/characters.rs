//! Classes of characters, and their lower case.

/// The characters that stand for an apostrophe.
pub(super) const APOSTROPHES: [char; 2] = ['\'', '\u{2019}'];

/// Letters, digits and the marks that go with them.
pub(super) fn is_word(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphanumeric()
    } else {
        c.is_alphanumeric() || unicode_normalization::char::is_combining_mark(c)
    }
}

/// Han, Kana and Hangul.
pub(super) fn is_cjk(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{11ff}' | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}' | '\u{3130}'..='\u{318f}'
        | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}'
        | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

/// The zero-width non-joiner, which separates a suffix in Persian.
pub(super) const NON_JOINER: char = '\u{200c}';

/// Returns `true` for a character that a word is written with and does not consist of: the soft hyphen, joiners and the
/// Arabic tatweel.
pub(super) fn is_filler(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{640}' | NON_JOINER | '\u{200d}' | '\u{2060}')
}

/// Returns the ASCII digit for one of Arabic, Persian, Devanagari or Tamil, and any other character as it is.
pub(super) fn ascii_digit(c: char) -> char {
    for zero in ['\u{660}', '\u{6f0}', '\u{966}', '\u{be6}'] {
        if let Some(digit @ 0..=9) = u32::from(c).checked_sub(u32::from(zero)) {
            return char::from_digit(digit, 10).unwrap_or(c);
        }
    }
    c
}

/// Puts the lower case of `word` into `to`, in no language's way.
pub(super) fn lower(word: &str, to: &mut String) {
    to.clear();
    if word.is_ascii() {
        to.push_str(word);
        to.make_ascii_lowercase();
    } else {
        to.extend(word.chars().flat_map(char::to_lowercase));
    }
}
