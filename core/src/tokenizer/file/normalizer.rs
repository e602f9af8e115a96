//! The `normalizer` of a `tokenizer.json`.

use tokenizers::NormalizerWrapper;
use tokenizers::normalizers::replace::ReplacePattern;
use tokenizers::normalizers::{
    BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, Replace, Sequence,
    Strip, StripAccents,
};

use super::charsmap;
use super::field::Field;

/// Reads a normalizer by its `type`.
///
/// # Errors
/// Names the field that is wrong.
pub(super) fn read(part: &Field<'_>) -> Result<NormalizerWrapper, String> {
    let kind = part.get("type");
    Ok(match kind.text()? {
        "BertNormalizer" => BertNormalizer::new(
            part.get("clean_text").flag()?,
            part.get("handle_chinese_chars").flag()?,
            part.get("strip_accents").some().map(|field| field.flag()).transpose()?,
            part.get("lowercase").flag()?,
        )
        .into(),
        "ByteLevel" => ByteLevel.into(),
        "Lowercase" => Lowercase.into(),
        "NFC" => NFC.into(),
        "NFD" => NFD.into(),
        "NFKC" => NFKC.into(),
        "NFKD" => NFKD.into(),
        "Nmt" => Nmt.into(),
        "Precompiled" => {
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
            Replace::new(what, content)
                .map_err(|e| pattern.is_not(&format!("a regular expression: {e}")))?
                .into()
        }
        "Sequence" => {
            let parts = part.get("normalizers").items()?.map(|part| read(&part));
            Sequence::new(parts.collect::<Result<_, _>>()?).into()
        }
        "Strip" => Strip::new(part.get("strip_left").flag()?, part.get("strip_right").flag()?).into(),
        "StripAccents" => StripAccents.into(),
        _ => return Err(kind.is_not("a normalizer that is known")),
    })
}
