//! Words of a text, with or without spaces between them.

use std::ops::Range;

/// The words of a text in order, each as its range of bytes.
///
/// White space separates words, as in the DPR paper. Chinese and Japanese are written without it: in a text that
/// has more than two Han or Kana characters for every stretch between white space, each of them is a word, so that
/// `東京2020年` is 東, 京, 2020 and 年; punctuation stays with what it follows. A Chinese name in an English text is
/// one word, and so is each word of a Chinese text that was cut into words before; Korean is taken as it is spaced.
/// Thai, Lao, Khmer and Burmese are not told apart: there a word is whatever stands between two spaces.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    text: &'a str,
    at: usize,
    is_unspaced: bool,
}

impl<'a> Words<'a> {
    /// Returns the words of `text`.
    pub fn of(text: &'a str) -> Self {
        Self { text, at: 0, is_unspaced: is_unspaced_text(text) }
    }
}

impl Iterator for Words<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let rest = self.text.get(self.at..)?;
        let start = self.at + rest.find(|c: char| !c.is_whitespace())?;
        let rest = &self.text[start..];
        let length = if self.is_unspaced { first_word(rest) } else { rest.find(char::is_whitespace) };
        self.at = length.map_or(self.text.len(), |length| start + length);
        Some(start..self.at)
    }
}

fn is_unspaced_text(text: &str) -> bool {
    let unspaced = text.chars().filter(|c| is_unspaced(*c)).count();
    unspaced > 0 && unspaced > 2 * text.split_whitespace().count()
}

/// Returns the length in bytes of the word that an unspaced text begins with; `None` for the whole text.
fn first_word(text: &str) -> Option<usize> {
    // The word so far: whether it has a letter or digit, and whether that is one of the characters that are words.
    let (mut has_letter, mut is_character) = (false, false);
    for (at, c) in text.char_indices() {
        if c.is_whitespace() {
            return Some(at);
        }
        let next_is_character = is_unspaced(c);
        if next_is_character || c.is_alphanumeric() {
            if has_letter && (next_is_character || is_character) {
                return Some(at);
            }
            (has_letter, is_character) = (true, next_is_character);
        }
    }
    None
}

/// Returns whether `c` is a character of Chinese or Japanese that is a word by itself: Han, Hiragana or Katakana.
///
/// Marks that change the character before them (voicing marks) and punctuation among the Kana are not.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{3005}' | '\u{3007}' | '\u{3021}'..='\u{3029}'          // 々, 〇, Suzhou numerals
        | '\u{2e80}'..='\u{2fdf}'                                   // radicals
        | '\u{3041}'..='\u{3096}' | '\u{309d}'..='\u{309f}'         // Hiragana
        | '\u{30a1}'..='\u{30fa}' | '\u{30fc}'..='\u{30ff}'         // Katakana and its long mark
        | '\u{31f0}'..='\u{31ff}' | '\u{ff66}'..='\u{ff9d}'         // Katakana: small, half-width
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' // Han
        | '\u{1b000}'..='\u{1b16f}'                                 // historic Kana
        | '\u{20000}'..='\u{3ffff}'                                 // Han, planes 2 and 3
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        Words::of(text).map(|range| &text[range]).collect()
    }

    #[test]
    fn words_of_many_scripts() {
        let cases: [(&str, &[&str]); 13] = [
            ("", &[]),
            (" \n\t", &[]),
            (" Alberton , Montana\u{a0}( USA )\n", &["Alberton", ",", "Montana", "(", "USA", ")"]),
            ("naïve café—über", &["naïve", "café—über"]),
            ("한국어 위키백과의 문서", &["한국어", "위키백과의", "문서"]),
            ("Tokyo ( 東京都 , Tōkyō-to )", &["Tokyo", "(", "東京都", ",", "Tōkyō-to", ")"]),
            ("我们 是 学生 。", &["我们", "是", "学生", "。"]),
            ("東京2020年", &["東", "京", "2020", "年"]),
            ("「東京」は、日本。", &["「東", "京」", "は、", "日", "本。"]),
            ("ラーメン を\n食べる", &["ラ", "ー", "メ", "ン", "を", "食", "べ", "る"]),
            ("これが\u{3099}か", &["こ", "れ", "が\u{3099}", "か"]),
            ("(iPhone的)价格is高", &["(iPhone", "的)", "价", "格", "is", "高"]),
            ("𠮷野家", &["𠮷", "野", "家"]),
        ];
        for (text, expected) in cases {
            assert_eq!(words(text), expected, "{text}");
        }
    }
}
