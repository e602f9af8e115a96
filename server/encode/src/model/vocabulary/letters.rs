//! Letters of a token, held against the alphabets of languages.

use super::Language;

/// Returns whether every letter of a text is one of these languages'. Digits, punctuation, symbols and marks belong to
/// every language.
pub(super) fn all_of(text: &str, languages: &[Language]) -> bool {
    text.chars()
        .filter(|c| c.is_alphabetic())
        .flat_map(char::to_lowercase)
        .all(|c| !c.is_alphabetic() || languages.iter().any(|language| language.has(c)))
}

/// Returns the text of a piece whose characters stand for bytes, as in GPT-2's byte-level BPE; `None` for bytes that
/// are not whole characters.
pub(super) fn of_bytes(piece: &str) -> Option<String> {
    let bytes: Option<Vec<u8>> = piece.chars().map(byte).collect();
    String::from_utf8(bytes?).ok()
}

/// Returns the byte that a character of GPT-2's table stands for: printable ones of Latin-1 for themselves, and from
/// U+0100 on, in order, the others.
fn byte(character: char) -> Option<u8> {
    let is_itself = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    match u32::from(character) {
        code @ 0..=0xFF => u8::try_from(code).ok().filter(is_itself),
        code => (0..=u8::MAX).filter(|byte| !is_itself(byte)).nth(code.checked_sub(0x100)? as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_belongs_to_the_languages_that_have_all_its_letters() {
        let languages =
            |codes: &str| -> Vec<Language> { codes.split(',').map(|code| code.parse().unwrap()).collect() };
        for (text, codes, expected) in [
            ("question", "en", true),
            ("Straße", "en", false),
            ("Straße", "en,de", true),
            ("ÜBER", "de", true),
            ("질문", "en", false),
            ("질문", "ko", true),
            ("質問", "ja", true),
            ("質問", "ko", false),
            ("ещё", "ru", true),
            ("їжак", "ru", false),
            ("їжак", "uk", true),
            ("2024-11", "ko", true),
            ("", "en", true),
            ("e\u{301}", "en", true),
            ("कि", "hi", true),
        ] {
            assert_eq!(all_of(text, &languages(codes)), expected, "{text:?} in {codes}");
        }
    }

    #[test]
    fn bytes_are_read_by_the_table_of_gpt_2() {
        assert_eq!(of_bytes("Ġthe").as_deref(), Some(" the"));
        assert_eq!(of_bytes("ÃŁ").as_deref(), Some("ß"));
        assert_eq!(of_bytes("ì§Ī").as_deref(), Some("질"));
        assert_eq!(of_bytes("ì§"), None, "a part of a character");
        assert_eq!(of_bytes("\u{0}"), None);
        assert_eq!(of_bytes("語"), None);
    }
}
