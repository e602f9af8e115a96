//! The `model` of a `tokenizer.json`: a vocabulary, and how words become pieces of it.

use ahash::AHashMap;
use serde_json::Value;
use tokenizers::ModelWrapper;
use tokenizers::models::bpe::BPE;
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::models::wordpiece::WordPiece;

use super::super::MOST_OF_WORD;
use super::field::Field;

/// The longest piece of a Unigram model in bytes: the library keeps pieces in a tree that is taken down by as many nested
/// calls. SentencePiece makes none of more than 16 characters unless it is told to.
const MAX_PIECE: usize = 1024;

/// Reads a model by its `type`, or by its fields in files from before there were types (GPT-2's, RoBERTa's).
///
/// # Errors
/// Names the field that is wrong.
pub(super) fn read(part: &Field<'_>) -> Result<ModelWrapper, String> {
    let kind = part.get("type");
    let has = |name: &str| !part.get(name).value().is_null();
    let name = match kind.value() {
        Value::Null if part.get("vocab").value().is_array() => "Unigram",
        Value::Null if has("merges") => "BPE",
        Value::Null if has("continuing_subword_prefix") => "WordPiece",
        Value::Null if has("unk_token") => "WordLevel",
        _ => kind.text()?,
    };
    match name {
        "BPE" => bpe(part),
        "Unigram" => unigram(part),
        "WordLevel" => WordLevel::builder()
            .vocab(vocabulary(&part.get("vocab"))?)
            .unk_token(part.get("unk_token").text()?.to_owned())
            .build()
            .map(Into::into)
            .map_err(|e| e.to_string()),
        "WordPiece" => WordPiece::builder()
            .vocab(vocabulary(&part.get("vocab"))?)
            .unk_token(part.get("unk_token").text()?.to_owned())
            .continuing_subword_prefix(part.get("continuing_subword_prefix").text()?.to_owned())
            .max_input_chars_per_word(word_limit(&part.get("max_input_chars_per_word"))?)
            .build()
            .map(Into::into)
            .map_err(|e| e.to_string()),
        _ => Err(kind.is_not("a model that is known")),
    }
}

/// Reads the most characters of a word that WordPiece cuts into tokens.
fn word_limit(limit: &Field<'_>) -> Result<usize, String> {
    let most = limit.number()?;
    if most > MOST_OF_WORD { Err(limit.is_not("at most 1,000")) } else { Ok(most) }
}

/// Reads tokens with their ids.
fn vocabulary(vocab: &Field<'_>) -> Result<AHashMap<String, u32>, String> {
    let tokens = vocab.value().as_object().ok_or_else(|| vocab.is_not("an object"))?;
    let mut ids = AHashMap::with_capacity(tokens.len());
    for (token, id) in tokens {
        let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
        ids.insert(token.clone(), id.ok_or_else(|| format!("its vocabulary gives {token:?} no id"))?);
    }
    Ok(ids)
}

fn bpe(part: &Field<'_>) -> Result<ModelWrapper, String> {
    let prefix = part.get("continuing_subword_prefix").some().map(|field| field.text()).transpose()?;
    let mut builder = BPE::builder().vocab_and_merges(
        vocabulary(&part.get("vocab"))?,
        merges(&part.get("merges"), prefix.unwrap_or("").len())?,
    );
    // Dropout is for training a model (Provilkov et al. 2020): without it a text has the same ids every time.
    if let Some(dropout) = part.get("dropout").some()
        && !dropout.value().is_number()
    {
        return Err(dropout.is_not("a number"));
    }
    if let Some(unknown) = part.get("unk_token").some() {
        builder = builder.unk_token(unknown.text()?.to_owned());
    }
    if let Some(prefix) = prefix {
        builder = builder.continuing_subword_prefix(prefix.to_owned());
    }
    if let Some(suffix) = part.get("end_of_word_suffix").some() {
        builder = builder.end_of_word_suffix(suffix.text()?.to_owned());
    }
    builder
        .fuse_unk(part.get("fuse_unk").flag_or(false)?)
        .byte_fallback(part.get("byte_fallback").flag_or(false)?)
        .ignore_merges(part.get("ignore_merges").flag_or(false)?)
        .build()
        .map(Into::into)
        .map_err(|e| e.to_string())
}

/// Reads the pairs of tokens that become one, `["a", "b"]` or `"a b"`; the second begins with a prefix of as many bytes,
/// which the library cuts off without looking.
fn merges(merges: &Field<'_>, prefix: usize) -> Result<Vec<(String, String)>, String> {
    let pairs = merges.value().as_array().ok_or_else(|| merges.is_not("an array"))?;
    let pairs = pairs.iter().filter(|pair| pair.as_str().is_none_or(|line| !line.starts_with("#version")));
    let read = |pair: &Value| {
        let (first, second) = match pair {
            Value::String(line) => line.split_once(' ').filter(|(_, second)| !second.contains(' '))?,
            Value::Array(both) if both.len() == 2 => (both[0].as_str()?, both[1].as_str()?),
            _ => return None,
        };
        second.is_char_boundary(prefix).then(|| (first.to_owned(), second.to_owned()))
    };
    pairs.map(|pair| read(pair).ok_or_else(|| format!("its merge {pair} is not two tokens"))).collect()
}

fn unigram(part: &Field<'_>) -> Result<ModelWrapper, String> {
    let vocab = part.get("vocab");
    let pieces = vocab.value().as_array().ok_or_else(|| vocab.is_not("an array"))?;
    let read = |entry: &Value| match entry.as_array().map(Vec::as_slice) {
        Some([piece, score]) => {
            let piece = piece.as_str().filter(|piece| piece.len() <= MAX_PIECE)?;
            Some((piece.to_owned(), score.as_f64()?))
        }
        _ => None,
    };
    let wrong = |at: usize| {
        format!("entry {at} of its vocabulary is not a piece of at most {MAX_PIECE} bytes and its score")
    };
    let pieces = pieces.iter().enumerate().map(|(at, entry)| read(entry).ok_or_else(|| wrong(at)));
    let unknown = part.get("unk_id").some().map(|field| field.number()).transpose()?;
    Unigram::from(pieces.collect::<Result<_, _>>()?, unknown, part.get("byte_fallback").flag_or(false)?)
        .map(Into::into)
        .map_err(|e| e.to_string())
}
