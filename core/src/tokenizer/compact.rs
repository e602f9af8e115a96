//! Binary form of a BERT tokenizer: the vocabulary of WordPiece and the settings around it, half the size of the
//! `tokenizer.json` that it is made from. `docs/formats.md` describes the bytes.

mod bytes;
mod write;

use ahash::AHashMap;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::{AddedToken, Tokenizer};

use super::MOST_OF_WORD;
use super::template::{Template, Types};
use bytes::Bytes;
pub(super) use write::write;

/// The first bytes of the form, with its version.
const MAGIC: &[u8; 8] = b"DPRVOCA1";

/// Most bytes of a token. The longest of published vocabularies have some 60.
const MAX_TOKEN: usize = 1024;

/// The byte behind each token.
const END: u8 = b'\n';

/// Bits of the normalizer's settings.
const CLEAN_TEXT: u8 = 1;
const CHINESE: u8 = 2;
const LOWERCASE: u8 = 4;
const ACCENTS_SET: u8 = 8;
const ACCENTS: u8 = 16;

/// Bits of an added token.
const SINGLE_WORD: u8 = 1;
const LSTRIP: u8 = 2;
const RSTRIP: u8 = 4;
const NORMALIZED: u8 = 8;
const SPECIAL: u8 = 16;

/// All bits of the settings, and all bits of an added token.
const ALL_BITS: u8 = 31;

/// Returns whether the bytes begin as the binary form does.
pub(super) fn is_compact(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// A tokenizer as it is in the file.
pub(super) struct Compact {
    /// The tokenizer without a post-processor.
    pub(super) inner: Tokenizer,
    /// The special tokens.
    pub(super) template: Template,
    /// Number of tokens.
    pub(super) tokens: usize,
}

/// Reads the binary form.
///
/// # Errors
/// Says what is wrong with the bytes.
pub(super) fn read(bytes: &[u8]) -> Result<Compact, String> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("it does not begin with DPRVOCA1")?;
    let mut bytes = Bytes(rest);
    let settings = bits(bytes.u8()?, "settings")?;
    let prefix = bytes.text()?.to_owned();
    let max_chars = bytes.u32()? as usize;
    if max_chars > MOST_OF_WORD {
        return Err("its words may have more than 1,000 characters".into());
    }
    let unknown = bytes.u32()?;
    let (count, length) = (bytes.u32()? as usize, bytes.u32()? as usize);
    let template = template(&mut bytes)?;
    let added: Vec<(u32, u8)> = (0..bytes.u16()?)
        .map(|_| Ok((bytes.u32()?, bits(bytes.u8()?, "added tokens")?)))
        .collect::<Result<_, String>>()?;
    let tokens = tokens(bytes.rest(length)?, count)?;
    let token = |id: u32, what: &str| {
        let token = tokens.get(id as usize);
        token.copied().ok_or_else(|| format!("its {what} has the id {id}, and there are {count} tokens"))
    };
    let unknown = token(unknown, "unknown token")?.to_owned();
    let added = added.iter().map(|(id, flags)| Ok(added_token(token(*id, "added token")?, *flags)));
    let added = added.collect::<Result<Vec<_>, String>>()?;

    let mut vocabulary = AHashMap::with_capacity(count);
    for (id, token) in (0..).zip(&tokens) {
        if let Some(first) = vocabulary.insert((*token).to_owned(), id) {
            return Err(format!("its tokens {first} and {id} are both {token:?}"));
        }
    }
    let model = WordPiece::builder()
        .vocab(vocabulary)
        .unk_token(unknown)
        .continuing_subword_prefix(prefix)
        .max_input_chars_per_word(max_chars)
        .build()
        .map_err(|e| e.to_string())?;
    let is = |bit: u8| settings & bit != 0;
    let accents = is(ACCENTS_SET).then_some(is(ACCENTS));
    let mut inner = Tokenizer::new(model);
    inner.with_normalizer(Some(BertNormalizer::new(is(CLEAN_TEXT), is(CHINESE), accents, is(LOWERCASE))));
    inner.with_pre_tokenizer(Some(BertPreTokenizer));
    super::added::add(&mut inner, &added)?;
    Ok(Compact { inner, template, tokens: count })
}

/// Returns the bits, of which there are five.
fn bits(bits: u8, what: &str) -> Result<u8, String> {
    if bits > ALL_BITS {
        return Err(format!("the bits {bits:#04x} of its {what} are not all known"));
    }
    Ok(bits)
}

/// Reads three runs of ids with their types, and the types of two texts.
fn template(bytes: &mut Bytes<'_>) -> Result<Template, String> {
    let mut run = || {
        let pairs = (0..bytes.u8()?).map(|_| Ok((bytes.u32()?, u32::from(bytes.u8()?))));
        pairs.collect::<Result<(Vec<u32>, Vec<u32>), String>>()
    };
    let ((start, start_types), (separators, separator_types), (end, end_types)) = (run()?, run()?, run()?);
    let [first, second] = [bytes.u8()?, bytes.u8()?].map(u32::from);
    let types = Types { start: start_types, first, separators: separator_types, second, end: end_types };
    Ok(Template { start, separators, end, types })
}

/// Cuts the text into so many tokens, each with [`END`] behind it.
fn tokens(text: &[u8], count: usize) -> Result<Vec<&str>, String> {
    let wrong = || format!("it does not hold the {count} tokens that it promises");
    let (END, text) = text.split_last().map(|(last, text)| (*last, text)).ok_or_else(wrong)? else {
        return Err(wrong());
    };
    let text = std::str::from_utf8(text).map_err(|_| "its tokens are not UTF-8")?;
    // Before there is room made for as many tokens as the file says.
    if text.bytes().filter(|byte| *byte == END).count() + 1 != count {
        return Err(wrong());
    }
    let tokens: Vec<&str> = text.split(char::from(END)).collect();
    match tokens.iter().position(|token| !(1..=MAX_TOKEN).contains(&token.len())) {
        None => Ok(tokens),
        Some(id) => Err(format!("its token {id} has not from 1 to {MAX_TOKEN} bytes")),
    }
}

fn added_token(content: &str, flags: u8) -> AddedToken {
    let is = |bit: u8| flags & bit != 0;
    AddedToken {
        content: content.to_owned(),
        single_word: is(SINGLE_WORD),
        lstrip: is(LSTRIP),
        rstrip: is(RSTRIP),
        normalized: is(NORMALIZED),
        special: is(SPECIAL),
    }
}

#[cfg(test)]
mod tests;
