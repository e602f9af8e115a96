//! The `normalizer` of a `tokenizer.json`.

use tokenizers::NormalizerWrapper;
use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::normalizers::{
    BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, Replace, Sequence,
    Strip, StripAccents,
};

use super::charsmap;
use super::field::Field;

/// The greatest product of the factors by which the parts of a normalizer may lengthen a text: a few replacements in a
/// row would otherwise make a question as large as memory.
const MOST_GROWTH: usize = 256;

/// Reads a normalizer by its `type`.
///
/// # Errors
/// Names the field that is wrong.
pub(super) fn read(part: &Field<'_>) -> Result<NormalizerWrapper, String> {
    let mut left = MOST_GROWTH;
    within(part, &mut left)
}

/// Reads a normalizer that lengthens a text by `left` at most, which is divided by what it does.
fn within(part: &Field<'_>, left: &mut usize) -> Result<NormalizerWrapper, String> {
    let kind = part.get("type");
    let mut growth = 1;
    let read: NormalizerWrapper = match kind.text()? {
        "BertNormalizer" => BertNormalizer::new(
            part.get("clean_text").flag()?,
            part.get("handle_chinese_chars").flag()?,
            part.get("strip_accents").some().map(|field| field.flag()).transpose()?,
            part.get("lowercase").flag()?,
        )
        .into(),
        "ByteLevel" => {
            growth = 2;
            ByteLevel.into()
        }
        "Lowercase" => Lowercase.into(),
        "NFC" => NFC.into(),
        "NFD" => NFD.into(),
        "NFKC" => NFKC.into(),
        "NFKD" => NFKD.into(),
        "Nmt" => Nmt.into(),
        "Precompiled" => {
            // SentencePiece's own tables have replacements of up to 33 bytes; each table is checked by itself, too.
            growth = 32;
            let table = charsmap::read(&part.get("precompiled_charsmap"))?;
            Precompiled::from(&table).map_err(|e| e.to_string())?.into()
        }
        "Prepend" => Prepend::new(part.get("prepend").text()?.to_owned()).into(),
        "Replace" => {
            let (pattern, content) = (part.get("pattern"), part.get("content").text()?);
            let what = match pattern.get("Regex").some() {
                Some(regex) => ReplacePattern::Regex(regex.text()?.to_owned()),
                None => ReplacePattern::String(pattern.get("String").text()?.to_owned()),
            };
            growth = match &what {
                ReplacePattern::String(text) if !text.is_empty() => content.len().div_ceil(text.len()).max(1),
                // An expression may match each byte, or the empty text between two bytes.
                _ => content.len() + 1,
            };
            Replace::new(what, content)
                .map_err(|e| pattern.is_not(&format!("a regular expression: {e}")))?
                .into()
        }
        "Sequence" => {
            let parts = part.get("normalizers").items()?.map(|part| within(&part, left));
            Sequence::new(parts.collect::<Result<_, _>>()?).into()
        }
        "Strip" => Strip::new(part.get("strip_left").flag()?, part.get("strip_right").flag()?).into(),
        "StripAccents" => StripAccents.into(),
        _ => return Err(kind.is_not("a normalizer that is known")),
    };
    *left /= growth;
    match *left {
        0 => Err(part.is_not("one that leaves a text within 256 times its length")),
        _ => Ok(read),
    }
}
