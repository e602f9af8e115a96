//! The `pre_tokenizer` of a `tokenizer.json`.

use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::delimiter::CharDelimiterSplit;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::fixed_length::FixedLength;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::pre_tokenizers::unicode_scripts::UnicodeScripts;
use tokenizers::pre_tokenizers::whitespace::{Whitespace, WhitespaceSplit};
use tokenizers::{PreTokenizerWrapper, SplitDelimiterBehavior};

use super::field::Field;

/// Reads a pre-tokenizer by its `type`.
///
/// # Errors
/// Names the field that is wrong.
pub(super) fn read(part: &Field<'_>) -> Result<PreTokenizerWrapper, String> {
    let kind = part.get("type");
    Ok(match kind.text()? {
        "BertPreTokenizer" => BertPreTokenizer.into(),
        "ByteLevel" => ByteLevel::new(
            part.get("add_prefix_space").flag()?,
            part.get("trim_offsets").flag()?,
            part.get("use_regex").flag_or(true)?,
        )
        .into(),
        "CharDelimiterSplit" => CharDelimiterSplit::new(part.get("delimiter").character()?).into(),
        "Digits" => Digits::new(part.get("individual_digits").flag()?).into(),
        "FixedLength" => {
            let length = part.get("length").some();
            match length.as_ref().map_or(Ok(5), Field::number)? {
                // Chunks of nothing are a panic in the library.
                0 => return Err("its pre_tokenizer has a length of 0".into()),
                length => PreTokenizerWrapper::FixedLength(FixedLength::new(length)),
            }
        }
        "Metaspace" => metaspace(part)?.into(),
        "Punctuation" => {
            let behavior = part.get("behavior").some();
            let default = SplitDelimiterBehavior::Isolated;
            Punctuation::new(behavior.as_ref().map_or(Ok(default), delimiter)?).into()
        }
        "Sequence" => {
            let parts = part.get("pretokenizers").items()?.map(|part| read(&part));
            Sequence::new(parts.collect::<Result<_, _>>()?).into()
        }
        "Split" => {
            let pattern = part.get("pattern");
            let what = match pattern.get("Regex").some() {
                Some(regex) => SplitPattern::Regex(regex.text()?.to_owned()),
                None => SplitPattern::String(pattern.get("String").text()?.to_owned()),
            };
            Split::new(what, delimiter(&part.get("behavior"))?, part.get("invert").flag()?)
                .map_err(|e| pattern.is_not(&format!("a regular expression: {e}")))?
                .into()
        }
        "UnicodeScripts" => UnicodeScripts.into(),
        "Whitespace" => Whitespace.into(),
        "WhitespaceSplit" => WhitespaceSplit.into(),
        _ => return Err(kind.is_not("a pre-tokenizer that is known")),
    })
}

/// Reads a `Metaspace`, with the `prepend_scheme` of today or the `add_prefix_space` that older files have.
fn metaspace(part: &Field<'_>) -> Result<Metaspace, String> {
    let scheme = part.get("prepend_scheme");
    let mut first = match scheme.value().as_str() {
        None if scheme.value().is_null() => PrependScheme::Always,
        Some("always") => PrependScheme::Always,
        Some("first") => PrependScheme::First,
        Some("never") => PrependScheme::Never,
        _ => return Err(scheme.is_not("\"always\", \"first\" or \"never\"")),
    };
    let prefix = part.get("add_prefix_space");
    if !prefix.flag_or(true)? {
        if !scheme.value().is_null() && first != PrependScheme::Never {
            return Err(prefix.is_not("what its prepend_scheme says"));
        }
        first = PrependScheme::Never;
    }
    Ok(Metaspace::new(part.get("replacement").character()?, first, part.get("split").flag_or(true)?))
}

/// Reads what becomes of a delimiter between two pieces of a text.
fn delimiter(behavior: &Field<'_>) -> Result<SplitDelimiterBehavior, String> {
    use SplitDelimiterBehavior::{Contiguous, Isolated, MergedWithNext, MergedWithPrevious, Removed};
    Ok(match behavior.text()? {
        "Contiguous" => Contiguous,
        "Isolated" => Isolated,
        "MergedWithNext" => MergedWithNext,
        "MergedWithPrevious" => MergedWithPrevious,
        "Removed" => Removed,
        _ => return Err(behavior.is_not("a behavior that is known")),
    })
}
