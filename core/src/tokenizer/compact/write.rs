//! Writer of the binary form, and the test whether a tokenizer fits into it.

use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::{AddedToken, Model as _, ModelWrapper, NormalizerWrapper, PreTokenizerWrapper, Tokenizer};

use super::super::file::File;
use super::super::template::Template;
use super::{
    ACCENTS, ACCENTS_SET, CHINESE, CLEAN_TEXT, Compact, END, LOWERCASE, LSTRIP, MAGIC, MAX_TOKEN, NORMALIZED,
    RSTRIP, SINGLE_WORD, SPECIAL, read,
};

/// Returns the binary form of a tokenizer; `None` for one that the form does not hold exactly. The form is read back,
/// and the tokenizer that it makes is compared.
pub(in super::super) fn write(file: &File, template: &Template) -> Option<Vec<u8>> {
    let bytes = of_parts(&file.inner, &file.added, template)?;
    let back = read(&bytes).ok()?;
    is_same(&back, &file.inner, template).then_some(bytes)
}

/// Returns whether the library writes both tokenizers as the same file.
fn is_same(back: &Compact, inner: &Tokenizer, template: &Template) -> bool {
    let written = |tokenizer: &Tokenizer| tokenizer.to_string(false).ok();
    back.template == *template && written(inner).is_some_and(|text| written(&back.inner) == Some(text))
}

fn of_parts(inner: &Tokenizer, added: &[AddedToken], template: &Template) -> Option<Vec<u8>> {
    let ModelWrapper::WordPiece(model) = inner.get_model() else { return None };
    let Some(NormalizerWrapper::BertNormalizer(normalizer)) = inner.get_normalizer() else { return None };
    let Some(PreTokenizerWrapper::BertPreTokenizer(_)) = inner.get_pre_tokenizer() else { return None };
    let prefix = &model.continuing_subword_prefix;
    let tokens = tokens(model)?;
    let mut bytes = MAGIC.to_vec();
    bytes.push(settings(normalizer));
    bytes.push(u8::try_from(prefix.len()).ok()?);
    bytes.extend(prefix.as_bytes());
    bytes.extend(u32::try_from(model.max_input_chars_per_word).ok()?.to_le_bytes());
    bytes.extend(model.token_to_id(&model.unk_token)?.to_le_bytes());
    let length = tokens.iter().map(|token| token.len() + 1).sum::<usize>();
    for number in [tokens.len(), length] {
        bytes.extend(u32::try_from(number).ok()?.to_le_bytes());
    }
    let types = &template.types;
    let runs = [
        (&template.start, &types.start),
        (&template.separators, &types.separators),
        (&template.end, &types.end),
    ];
    for (ids, types) in runs {
        bytes.push(u8::try_from(ids.len()).ok()?);
        for (id, kind) in ids.iter().zip(types) {
            bytes.extend(id.to_le_bytes());
            bytes.push(u8::try_from(*kind).ok()?);
        }
    }
    for kind in [types.first, types.second] {
        bytes.push(u8::try_from(kind).ok()?);
    }
    bytes.extend(u16::try_from(added.len()).ok()?.to_le_bytes());
    for token in added {
        bytes.extend(model.token_to_id(&token.content)?.to_le_bytes());
        bytes.push(flags(token));
    }
    for token in tokens {
        bytes.extend(token.as_bytes());
        bytes.push(END);
    }
    Some(bytes)
}

/// Returns the tokens in the order of their ids, which must be 0, 1, 2, ….
fn tokens(model: &WordPiece) -> Option<Vec<String>> {
    let mut tokens: Vec<(String, u32)> = model.get_vocab().into_iter().collect();
    tokens.sort_unstable_by_key(|(_, id)| *id);
    let fits = |(at, (token, id)): (u32, &(String, u32))| {
        at == *id && (1..=MAX_TOKEN).contains(&token.len()) && !token.contains(char::from(END))
    };
    (0..).zip(&tokens).all(fits).then(|| tokens.into_iter().map(|(token, _)| token).collect())
}

fn settings(normalizer: &BertNormalizer) -> u8 {
    let accents = normalizer.strip_accents;
    of_bits([
        (normalizer.clean_text, CLEAN_TEXT),
        (normalizer.handle_chinese_chars, CHINESE),
        (normalizer.lowercase, LOWERCASE),
        (accents.is_some(), ACCENTS_SET),
        (accents == Some(true), ACCENTS),
    ])
}

fn flags(token: &AddedToken) -> u8 {
    of_bits([
        (token.single_word, SINGLE_WORD),
        (token.lstrip, LSTRIP),
        (token.rstrip, RSTRIP),
        (token.normalized, NORMALIZED),
        (token.special, SPECIAL),
    ])
}

fn of_bits(bits: [(bool, u8); 5]) -> u8 {
    bits.into_iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum()
}
