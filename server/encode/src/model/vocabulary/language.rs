//! Languages by their letters.

use std::ops::RangeInclusive;
use std::str::FromStr;

/// A language, by its ISO 639-1 code, and the letters that it is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Language {
    code: &'static str,
    letters: Letters,
}

/// The letters of a language, in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Letters {
    /// a to z, and these.
    Latin(&'static str),
    /// These, and а to я.
    Cyrillic(&'static str),
    /// All letters of these blocks (Unicode, Blocks.txt).
    Blocks(&'static [RangeInclusive<char>]),
}

use Letters::{Blocks, Cyrillic, Latin};

const ARABIC: &[RangeInclusive<char>] = &[
    '\u{600}'..='\u{6ff}',
    '\u{750}'..='\u{77f}',
    '\u{8a0}'..='\u{8ff}',
    '\u{fb50}'..='\u{fdff}',
    '\u{fe70}'..='\u{feff}',
];
const HAN: RangeInclusive<char> = '\u{4e00}'..='\u{9fff}';
const HAN_EXTENSION: RangeInclusive<char> = '\u{3400}'..='\u{4dbf}';
const HAN_COMPATIBLE: RangeInclusive<char> = '\u{f900}'..='\u{faff}';
const HAN_SIGNS: RangeInclusive<char> = '\u{3005}'..='\u{3007}';
const DEVANAGARI: &[RangeInclusive<char>] = &['\u{900}'..='\u{97f}', '\u{a8e0}'..='\u{a8ff}'];

/// All languages that are known here.
const LANGUAGES: &[(&str, Letters)] = &[
    ("af", Latin("áäéèêëíîïóôöúûü")),
    ("am", Blocks(&['\u{1200}'..='\u{139f}'])),
    ("ar", Blocks(ARABIC)),
    ("az", Latin("çəğıi̇öşü")),
    ("be", Cyrillic("ёіў")),
    ("bg", Cyrillic("ѝ")),
    ("bn", Blocks(&['\u{980}'..='\u{9ff}'])),
    ("bs", Latin("čćđšž")),
    ("ca", Latin("àçèéíïòóúü")),
    ("cs", Latin("áčďéěíňóřšťúůýž")),
    ("cy", Latin("âêîôûŵŷáéíóúẃýàèìòùẁỳäëïöüẅÿ")),
    ("da", Latin("æøåáéíóúý")),
    ("de", Latin("äöüß")),
    ("el", Blocks(&['\u{370}'..='\u{3ff}', '\u{1f00}'..='\u{1fff}'])),
    ("en", Latin("")),
    ("es", Latin("áéíóúüñ")),
    ("et", Latin("äõöüšž")),
    ("eu", Latin("çñ")),
    ("fa", Blocks(ARABIC)),
    ("fi", Latin("äöåšž")),
    ("fr", Latin("àâæçéèêëîïôœùûüÿ")),
    ("ga", Latin("áéíóú")),
    ("gl", Latin("áéíïóúüñ")),
    ("gu", Blocks(&['\u{a80}'..='\u{aff}'])),
    ("he", Blocks(&['\u{590}'..='\u{5ff}', '\u{fb1d}'..='\u{fb4f}'])),
    ("hi", Blocks(DEVANAGARI)),
    ("hr", Latin("čćđšž")),
    ("hu", Latin("áéíóöőúüű")),
    ("hy", Blocks(&['\u{530}'..='\u{58f}'])),
    ("id", Latin("é")),
    ("is", Latin("áðéíóúýþæö")),
    ("it", Latin("àèéìíîòóùú")),
    (
        "ja",
        Blocks(&[
            '\u{3040}'..='\u{30ff}',
            '\u{31f0}'..='\u{31ff}',
            '\u{ff66}'..='\u{ff9f}',
            HAN,
            HAN_EXTENSION,
            HAN_COMPATIBLE,
            HAN_SIGNS,
        ]),
    ),
    ("ka", Blocks(&['\u{10a0}'..='\u{10ff}', '\u{1c90}'..='\u{1cbf}'])),
    ("kk", Cyrillic("әғқңөұүһіё")),
    ("km", Blocks(&['\u{1780}'..='\u{17ff}'])),
    ("kn", Blocks(&['\u{c80}'..='\u{cff}'])),
    (
        "ko",
        Blocks(&[
            '\u{1100}'..='\u{11ff}',
            '\u{3130}'..='\u{318f}',
            '\u{a960}'..='\u{a97f}',
            '\u{ac00}'..='\u{d7ff}',
        ]),
    ),
    ("lo", Blocks(&['\u{e80}'..='\u{eff}'])),
    ("lt", Latin("ąčęėįšųūž")),
    ("lv", Latin("āčēģīķļņšūž")),
    ("mk", Cyrillic("ѓѕјљњќџѐѝ")),
    ("ml", Blocks(&['\u{d00}'..='\u{d7f}'])),
    ("mn", Cyrillic("өүё")),
    ("mr", Blocks(DEVANAGARI)),
    ("ms", Latin("é")),
    ("my", Blocks(&['\u{1000}'..='\u{109f}'])),
    ("nb", Latin("æøåàéèêóòôü")),
    ("ne", Blocks(DEVANAGARI)),
    ("nl", Latin("áàäéèëíïóöúü")),
    ("nn", Latin("æøåàéèêóòôü")),
    ("no", Latin("æøåàéèêóòôü")),
    ("pa", Blocks(&['\u{a00}'..='\u{a7f}'])),
    ("pl", Latin("ąćęłńóśźż")),
    ("pt", Latin("áâãàçéêíóôõúü")),
    ("ro", Latin("ăâîșțşţ")),
    ("ru", Cyrillic("ё")),
    ("si", Blocks(&['\u{d80}'..='\u{dff}'])),
    ("sk", Latin("áäčďéíĺľňóôŕšťúýž")),
    ("sl", Latin("čšž")),
    ("sq", Latin("çë")),
    ("sr", Cyrillic("ђјљњћџ")),
    ("sv", Latin("åäöáàé")),
    ("sw", Latin("")),
    ("ta", Blocks(&['\u{b80}'..='\u{bff}'])),
    ("te", Blocks(&['\u{c00}'..='\u{c7f}'])),
    ("th", Blocks(&['\u{e00}'..='\u{e7f}'])),
    ("tl", Latin("áàâéèêíìîñóòôúùû")),
    ("tr", Latin("âçğıi̇îöşüû")),
    ("uk", Cyrillic("ґєії")),
    ("ur", Blocks(ARABIC)),
    ("vi", Latin("ăâđêôơưàảãáạằẳẵắặầẩẫấậèẻẽéẹềểễếệìỉĩíịòỏõóọồổỗốộờởỡớợùủũúụừửữứựỳỷỹýỵ")),
    (
        "zh",
        Blocks(&[
            '\u{3100}'..='\u{312f}',
            HAN,
            HAN_EXTENSION,
            HAN_COMPATIBLE,
            HAN_SIGNS,
            '\u{20000}'..='\u{3134f}',
        ]),
    ),
];

impl Language {
    /// Returns the ISO 639-1 codes of all languages that are known here.
    pub fn codes() -> impl Iterator<Item = &'static str> {
        LANGUAGES.iter().map(|(code, _)| *code)
    }

    /// Returns the ISO 639-1 code.
    pub fn code(self) -> &'static str {
        self.code
    }

    /// Returns whether this letter, in lower case, is one of the language's.
    pub(super) fn has(self, letter: char) -> bool {
        match self.letters {
            Latin(others) => letter.is_ascii_lowercase() || others.contains(letter),
            Cyrillic(others) => ('а'..='я').contains(&letter) || others.contains(letter),
            Blocks(blocks) => blocks.iter().any(|block| block.contains(&letter)),
        }
    }
}

impl FromStr for Language {
    type Err = String;

    fn from_str(code: &str) -> Result<Self, String> {
        let lower = code.to_ascii_lowercase();
        let found = LANGUAGES.iter().find(|(known, _)| *known == lower);
        found.map(|(code, letters)| Self { code, letters: *letters }).ok_or_else(|| {
            let known: Vec<_> = Self::codes().collect();
            format!("{code:?} is not a language known here; known are {}", known.join(", "))
        })
    }
}
