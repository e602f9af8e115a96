//! The names of analyzers: the ways text becomes terms.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Declares [`Analyzer`]: first the analyzers that drop stop words, each with the variant that keeps them, then those
/// that have no list of stop words.
macro_rules! analyzers {
    (
        dropping { $($(#[$doc:meta])* $variant:ident $name:literal, $kept:ident $kept_name:literal;)* }
        keeping { $($(#[$plain_doc:meta])* $plain:ident $plain_name:literal;)* }
    ) => {
        /// The way text becomes terms. An index keeps the name of its analyzer, and questions are analysed the same
        /// way.
        ///
        /// Except for [`English`](Self::English) and [`Bigram`](Self::Bigram), an analyzer is a language: words in
        /// lower case as the language has it, without articles that are elided before an apostrophe and without stop
        /// words, stemmed by the Snowball algorithm of the language. Stop words are Snowball's, where it publishes a
        /// list; the variants `…WithStopWords` keep them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Analyzer {
            $(
                $(#[$doc])* $variant,
                #[doc = concat!("`", $name, "`, with stop words as terms.")] $kept,
            )*
            $($(#[$plain_doc])* $plain,)*
        }

        impl Analyzer {
            /// Every analyzer, those of the same language beside each other.
            pub const ALL: &'static [Self] = &[$(Self::$variant, Self::$kept,)* $(Self::$plain,)*];

            /// Returns the name, as in the manifest of an index and on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name, Self::$kept => $kept_name,)*
                    $(Self::$plain => $plain_name,)*
                }
            }

            /// Returns the analyzer that differs in that it keeps stop words; the same one where none are dropped.
            #[must_use]
            pub const fn with_stop_words(self) -> Self {
                match self {
                    $(Self::$variant | Self::$kept => Self::$kept,)*
                    $(Self::$plain => Self::$plain,)*
                }
            }

            /// Returns the analyzer that differs in that it drops stop words; the same one where it has no list.
            #[must_use]
            pub const fn without_stop_words(self) -> Self {
                match self {
                    $(Self::$variant | Self::$kept => Self::$variant,)*
                    $(Self::$plain => Self::$plain,)*
                }
            }
        }
    };
}

analyzers! {
    dropping {
        /// Words in lower case without possessive `'s` and without Lucene's 33 stop words, stemmed by Porter's
        /// algorithm: the steps of Lucene's `EnglishAnalyzer`, which the DPR paper searched with. Words are runs of
        /// letters, digits and marks, so that "U.S." is two of them.
        English "english", EnglishWithStopWords "english_with_stop_words";
        /// English by Porter's later algorithm ("Porter2", Snowball's `english`), without Lucene's 33 stop words.
        EnglishPorter2 "english_porter2", EnglishPorter2WithStopWords "english_porter2_with_stop_words";
        /// Danish.
        Danish "danish", DanishWithStopWords "danish_with_stop_words";
        /// Dutch.
        Dutch "dutch", DutchWithStopWords "dutch_with_stop_words";
        /// Finnish.
        Finnish "finnish", FinnishWithStopWords "finnish_with_stop_words";
        /// French; elides what Lucene does (`l'`, `qu'`, `jusqu'` …).
        French "french", FrenchWithStopWords "french_with_stop_words";
        /// German; `ß` is `ss`, and `ae`, `oe`, `ue` are umlauts.
        German "german", GermanWithStopWords "german_with_stop_words";
        /// Hungarian.
        Hungarian "hungarian", HungarianWithStopWords "hungarian_with_stop_words";
        /// Italian; elides what Lucene does (`l'`, `dell'`, `un'` …).
        Italian "italian", ItalianWithStopWords "italian_with_stop_words";
        /// Norwegian, Bokmål.
        Norwegian "norwegian", NorwegianWithStopWords "norwegian_with_stop_words";
        /// Portuguese.
        Portuguese "portuguese", PortugueseWithStopWords "portuguese_with_stop_words";
        /// Russian.
        Russian "russian", RussianWithStopWords "russian_with_stop_words";
        /// Spanish.
        Spanish "spanish", SpanishWithStopWords "spanish_with_stop_words";
        /// Swedish.
        Swedish "swedish", SwedishWithStopWords "swedish_with_stop_words";
    }
    keeping {
        /// Arabic; vowel marks and forms of alef do not matter.
        Arabic "arabic";
        /// Armenian.
        Armenian "armenian";
        /// Basque.
        Basque "basque";
        /// Catalan; elides what Lucene does (`l'`, `d'` …), and `l·l` is within a word.
        Catalan "catalan";
        /// Czech.
        Czech "czech";
        /// Estonian.
        Estonian "estonian";
        /// Greek; accents, breathings and the final form of sigma do not matter.
        Greek "greek";
        /// Hindi.
        Hindi "hindi";
        /// Indonesian.
        Indonesian "indonesian";
        /// Irish; elides what Lucene does (`d'`, `m'`, `b'`), and drops the `n`, `t` and `h` before a vowel.
        Irish "irish";
        /// Lithuanian.
        Lithuanian "lithuanian";
        /// Persian; Arabic forms of yeh and kaf do not matter.
        Persian "persian";
        /// Polish.
        Polish "polish";
        /// Romanian; `ş` and `ţ` with a cedilla are `ș` and `ț`.
        Romanian "romanian";
        /// Serbian; Cyrillic becomes Latin.
        Serbian "serbian";
        /// Tamil.
        Tamil "tamil";
        /// Turkish; the lower case of `I` is `ı` and that of `İ` is `i`.
        Turkish "turkish";
        /// For Chinese, Japanese and Korean: every two neighbouring characters of those scripts, other words whole
        /// and in lower case, after Lucene's `CJKAnalyzer`.
        Bigram "bigram";
    }
}

impl fmt::Display for Analyzer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error of a name that no analyzer has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this version of dpr has no analyzer `{name}`; it has {}",
    Analyzer::ALL.iter().map(|analyzer| analyzer.name()).collect::<Vec<_>>().join(", ")
)]
pub struct UnknownAnalyzer {
    /// The name.
    pub name: String,
}

impl FromStr for Analyzer {
    type Err = UnknownAnalyzer;

    fn from_str(name: &str) -> Result<Self, UnknownAnalyzer> {
        let known = Self::ALL.iter().find(|analyzer| analyzer.name() == name);
        known.copied().ok_or_else(|| UnknownAnalyzer { name: name.to_owned() })
    }
}

impl Serialize for Analyzer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Analyzer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The values of a flag; those that keep stop words are accepted and not listed, since there is a flag for that.
#[cfg(feature = "clap")]
impl clap::ValueEnum for Analyzer {
    fn value_variants<'a>() -> &'a [Self] {
        Self::ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        let is_hidden = *self != self.without_stop_words();
        Some(clap::builder::PossibleValue::new(self.name()).hide(is_hidden))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_one_analyzer() {
        let mut names: Vec<&str> = Analyzer::ALL.iter().map(|analyzer| analyzer.name()).collect();
        for analyzer in Analyzer::ALL {
            assert_eq!(analyzer.name().parse(), Ok(*analyzer));
            assert_eq!(serde_json::to_value(analyzer).unwrap(), analyzer.name());
            assert_eq!(analyzer.with_stop_words().without_stop_words(), analyzer.without_stop_words());
            let base = analyzer.without_stop_words().name();
            let kept = format!("{base}_with_stop_words");
            assert!([base, &kept].contains(&analyzer.name()), "{analyzer}");
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Analyzer::ALL.len());
    }

    #[test]
    fn the_manifest_of_a_newer_program_is_refused_by_the_name_in_it() {
        let error = serde_json::from_str::<Analyzer>("\"klingon\"").unwrap_err().to_string();
        assert!(error.contains("`klingon`") && error.contains("french, french_with_stop_words"), "{error}");
    }
}
