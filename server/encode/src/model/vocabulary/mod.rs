//! The vocabulary of the browser's copies: the tokens that the texts of one page need, of a model that has many more.
//!
//! Most parameters of a multilingual encoder are rows of its word embedding: 96 of 118 million in
//! multilingual-e5-small. A page that is asked in two languages uses a tenth of them. The other rows are left out here,
//! and their pieces are taken out of the tokenizer, so that
//!
//! * a text of kept tokens is cut into the same tokens as before, and its vector is the same to the bit;
//! * another text is cut into kept tokens that are shorter, down to single characters, or becomes the unknown token.

mod language;
mod letters;
mod pieces;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::{iter, thread};

use dpr_core::{EncoderConfig, TextTokenizer};
use serde_json::{Value, json};

pub use language::Language;

use super::{ModelDir, ModelError, QUESTION_DIR};
use pieces::Pieces;

/// Texts by which a smaller tokenizer is compared with the whole one before it is written.
const COMPARED: usize = 1000;

/// Fields of a `config.json` that hold a token's id.
const ID_FIELDS: [&str; 7] = [
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "cls_token_id",
    "sep_token_id",
    "mask_token_id",
    "unk_token_id",
];

/// The tokens of a question encoder that are kept.
pub struct Vocabulary {
    dir: PathBuf,
    config: EncoderConfig,
    tokenizer_json: Value,
    tokenizer: TextTokenizer,
    pieces: Pieces,
    /// By id.
    kept: Vec<bool>,
    /// By id, how often each token occurs in the texts.
    counts: Vec<u64>,
    compared: Vec<String>,
}

/// The files of an encoder with fewer tokens, and the rows of its word embedding.
pub(super) struct Pruned {
    pub(super) config: Vec<u8>,
    pub(super) tokenizer: Vec<u8>,
    /// For each token, the row that it had, ascending.
    pub(super) rows: Vec<u32>,
}

impl Vocabulary {
    /// Returns the tokens of a model's question encoder that every vocabulary needs: the special ones, those of its
    /// question prompt, the unknown token, and single bytes where the tokenizer falls back to them.
    ///
    /// # Errors
    /// [`ModelError`] when a file cannot be read, or its tokenizer is of a kind that cannot be cut down.
    pub fn of(model: &ModelDir) -> Result<Self, ModelError> {
        let dir = model.path().join(QUESTION_DIR);
        let (config_bytes, tokenizer_bytes) =
            (model.config(QUESTION_DIR)?, fs_err::read(dir.join("tokenizer.json"))?);
        let config = EncoderConfig::from_json(&config_bytes).map_err(ModelError::in_dir(&dir))?;
        let tokenizer = unlimited(&tokenizer_bytes, &config, &dir)?;
        let path = dir.join("tokenizer.json");
        let tokenizer_json = serde_json::from_slice(&tokenizer_bytes)
            .map_err(|e| ModelError::Json { path: path.clone(), reason: e.to_string() })?;
        let pieces =
            Pieces::read(&tokenizer_json).map_err(|reason| ModelError::Vocabulary { path, reason })?;
        let counts = vec![0; config.vocab_size];
        let (kept, compared) = (Vec::new(), Vec::new());
        let mut vocabulary = Self { dir, config, tokenizer_json, tokenizer, pieces, kept, counts, compared };
        vocabulary.kept = vocabulary.needed()?;
        Ok(vocabulary)
    }

    /// Returns by id which tokens every vocabulary keeps, besides those that the tokenizer itself needs: the padding
    /// token and those of an empty question.
    fn needed(&self) -> Result<Vec<bool>, ModelError> {
        let mut needed = vec![false; self.config.vocab_size];
        needed[self.config.pad_token_id as usize] = true;
        // Positions are counted from the padding token's id on: it stays as it is.
        needed[..self.config.position_offset().min(self.config.vocab_size)].fill(true);
        let empty = self.tokenizer.question("").map_err(ModelError::in_dir(&self.dir))?;
        empty.iter().for_each(|id| needed[*id as usize] = true);
        Ok(needed)
    }

    /// Keeps every token that these texts are cut into, each whole and as a question, behind the question prompt. Works
    /// on all cores.
    ///
    /// # Errors
    /// [`ModelError::Encoder`] for a text that cannot be cut into tokens.
    pub fn keep_texts<T: AsRef<str> + Sync>(&mut self, texts: &[T]) -> Result<(), ModelError> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let tokenizer = &self.tokenizer;
        let cut = |texts: &[T]| {
            let mut counts: HashMap<u32, u64> = HashMap::new();
            for text in texts {
                for id in tokenizer.question(text.as_ref())? {
                    *counts.entry(id).or_default() += 1;
                }
            }
            Ok(counts)
        };
        let share = texts.len().div_ceil(cores).max(1);
        let counts: Vec<Result<HashMap<u32, u64>, dpr_core::TokenizerError>> = thread::scope(|scope| {
            let workers: Vec<_> = texts.chunks(share).map(|texts| scope.spawn(|| cut(texts))).collect();
            let joined = workers.into_iter().map(|worker| worker.join());
            joined.map(|counts| counts.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        for counts in counts {
            for (id, count) in counts.map_err(ModelError::in_dir(&self.dir))? {
                self.kept[id as usize] = true;
                self.counts[id as usize] += count;
            }
        }
        let room = COMPARED - self.compared.len();
        self.compared.extend(texts.iter().take(room).map(|text| text.as_ref().to_owned()));
        Ok(())
    }

    /// Keeps every token of these languages' letters, and those without letters: digits, punctuation, symbols.
    /// Languages that share an alphabet share its tokens: the tokens of English hold most of those of Dutch.
    pub fn keep_languages(&mut self, languages: &[Language]) {
        for (id, text) in self.pieces.texts() {
            if letters::all_of(&text, languages) {
                self.kept[id as usize] = true;
            }
        }
    }

    /// Leaves out the tokens that occur least often in the texts, until at most `most` stay. Tokens that every
    /// vocabulary needs stay, and so do the single letters of those that are kept.
    ///
    /// # Errors
    /// [`ModelError::FewTokens`] when these alone are more.
    pub fn keep_commonest(&mut self, most: usize) -> Result<(), ModelError> {
        let needed = self.needed()?;
        let mut by_count: Vec<usize> =
            (0..self.kept.len()).filter(|id| self.kept[*id] && !needed[*id]).collect();
        by_count.sort_by_key(|id| (std::cmp::Reverse(self.counts[*id]), *id));
        let (mut fewest, mut room) = (usize::MAX, most);
        loop {
            let mut kept = needed.clone();
            by_count.iter().take(room).for_each(|id| kept[*id] = true);
            let mut whole = kept.clone();
            self.pieces.complete(&mut whole);
            let total = whole.iter().filter(|kept| **kept).count();
            if total <= most {
                self.kept = kept;
                break;
            }
            fewest = fewest.min(total);
            if room == 0 {
                return Err(ModelError::FewTokens { dir: self.dir.clone(), most, fewest });
            }
            room = room.saturating_sub(total - most);
        }
        let (tokenizer, kept) = (&self.tokenizer, &self.kept);
        // Texts that are cut into other tokens from now on are left out of the comparison.
        let is_whole =
            |text: &String| tokenizer.question(text).is_ok_and(|ids| ids.iter().all(|id| kept[*id as usize]));
        self.compared.retain(is_whole);
        Ok(())
    }

    /// Returns the number of tokens that the model has.
    pub fn total(&self) -> usize {
        self.config.vocab_size
    }

    /// Returns the encoder of a `config.json` with the kept tokens, and whatever they need, numbered anew in the same
    /// order.
    pub(super) fn prune(&self, config: &[u8]) -> Result<Pruned, ModelError> {
        let path = self.dir.join("tokenizer.json");
        let refused = |reason: String| ModelError::Vocabulary { path: path.clone(), reason };
        let mut kept = self.kept.clone();
        self.pieces.complete(&mut kept);
        let rows: Vec<u32> = (0..).zip(&kept).filter(|(_, kept)| **kept).map(|(id, _)| id).collect();
        let renumbered: BTreeMap<u32, u32> = rows.iter().copied().zip(0..).collect();
        let tokenizer_json = self.pieces.cut(&self.tokenizer_json, &renumbered).map_err(refused)?;
        let tokenizer = serde_json::to_vec(&tokenizer_json).map_err(std::io::Error::other)?;
        let config = serde_json::from_slice(config).map_err(std::io::Error::other)?;
        let config_json = self.config_json(config, &renumbered);
        let config = serde_json::to_vec_pretty(&config_json).map_err(std::io::Error::other)?;
        let read = EncoderConfig::from_json(&config).map_err(ModelError::in_dir(&self.dir))?;
        let smaller = unlimited(&tokenizer, &read, &self.dir)?;
        for text in iter::once("").chain(self.compared.iter().map(String::as_str)) {
            let whole = self.tokenizer.question(text).map_err(ModelError::in_dir(&self.dir))?;
            let cut = smaller.question(text).map_err(ModelError::in_dir(&self.dir))?;
            let same = whole.iter().map(|id| renumbered.get(id)).eq(cut.iter().map(Some));
            if !same {
                let text: String = text.chars().take(60).collect();
                return Err(refused(format!("with fewer tokens it cuts the text {text:?} in another way")));
            }
        }
        Ok(Pruned { config, tokenizer, rows })
    }

    /// Returns the `config.json` for these tokens.
    fn config_json(&self, mut config: Value, renumbered: &BTreeMap<u32, u32>) -> Value {
        config["vocab_size"] = json!(renumbered.len());
        config["pad_token_id"] = json!(self.config.pad_token_id);
        let Some(fields) = config.as_object_mut() else { return config };
        for field in ID_FIELDS {
            let Some(id) = fields.get(field).and_then(Value::as_u64) else { continue };
            match u32::try_from(id).ok().and_then(|id| renumbered.get(&id)) {
                Some(id) => fields.insert(field.to_owned(), json!(id)),
                None => fields.remove(field),
            };
        }
        config
    }
}

/// Returns the tokenizer, which cuts no text short.
fn unlimited(
    tokenizer: &[u8],
    config: &EncoderConfig,
    dir: &std::path::Path,
) -> Result<TextTokenizer, ModelError> {
    let config = EncoderConfig { max_tokens: usize::MAX, ..config.clone() };
    TextTokenizer::from_json(tokenizer, &config).map_err(ModelError::in_dir(dir))
}
