//! Encoders of random weights in the sizes that people use.

use std::path::Path;

use dpr_core::random::SplitMix;
use dpr_core::weights::random_weights;
use dpr_core::{EncoderConfig, Pooling};
use dpr_encode::model::{ImportOptions, ModelDir, import};
use serde_json::{Map, Value, json};

use crate::Outcome;

/// Words of the vocabulary, as in BERT.
const VOCABULARY: usize = 30_522;

/// Ids below this are special tokens.
const FIRST_WORD: usize = 1000;

/// The sizes of an encoder.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    layers: usize,
    hidden: usize,
    heads: usize,
}

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tiny" => Ok(Self { layers: 2, hidden: 128, heads: 2 }),
            "minilm" => Ok(Self { layers: 6, hidden: 384, heads: 12 }),
            "base" => Ok(Self { layers: 12, hidden: 768, heads: 12 }),
            other => Err(format!("{other}: tiny, minilm or base")),
        }
    }
}

impl Size {
    /// Floating-point operations of a forward pass over one token of a text of so many. What follows the attention of
    /// the last layer is computed for the first token alone, so it does not count; PyTorch computes it for all.
    pub(crate) fn operations(self, tokens: usize) -> f64 {
        let (hidden, layers) = (self.hidden as f64, self.layers as f64);
        layers * (2.0 * 12.0 * hidden * hidden + 4.0 * tokens as f64 * hidden) - 2.0 * 9.0 * hidden * hidden
    }

    fn config(self) -> Value {
        json!({
            "model_type": "bert", "hidden_size": self.hidden, "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads, "intermediate_size": 4 * self.hidden, "vocab_size": VOCABULARY,
            "max_position_embeddings": 512, "type_vocab_size": 2, "pad_token_id": 0
        })
    }

    /// Makes a model directory at `path` of one encoder that serves questions and passages.
    pub(crate) fn write(self, path: &Path) -> Outcome<ModelDir> {
        let from = path.with_extension("huggingface");
        fs_err::create_dir_all(&from)?;
        let config = self.config();
        fs_err::write(from.join("config.json"), config.to_string())?;
        fs_err::write(from.join("tokenizer.json"), tokenizer().to_string())?;
        let weights = random_weights(&EncoderConfig::from_json(config.to_string().as_bytes())?, 7)?;
        fs_err::write(from.join("model.safetensors"), weights)?;
        let options = ImportOptions { pooling: Some(Pooling::Cls), ..ImportOptions::default() };
        import(&from, None, path, &options)?;
        fs_err::remove_dir_all(&from)?;
        Ok(ModelDir::open(path)?)
    }
}

/// Returns a tokenizer whose words are numbers.
fn tokenizer() -> Value {
    let special = [("[PAD]", 0), ("[UNK]", 100), ("[CLS]", 101), ("[SEP]", 102), ("[MASK]", 103)];
    let mut words: Map<String, Value> = (0..VOCABULARY).map(|id| (format!("{id}"), id.into())).collect();
    for (word, id) in special {
        words.remove(&id.to_string());
        words.insert(word.into(), id.into());
    }
    let token = |(word, id): (&str, i32)| {
        json!({"id": id, "content": word, "special": true, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false})
    };
    json!({
        "version": "1.0", "added_tokens": special.map(token), "padding": null, "truncation": null, "decoder": null,
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 102], "cls": ["[CLS]", 101]},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": words}
    })
}

/// Returns texts of so many token ids each.
pub(crate) fn texts(random: &mut SplitMix, count: usize, tokens: usize) -> Vec<Vec<u32>> {
    let mut text =
        |_| (0..tokens).map(|_| (FIRST_WORD + random.below(VOCABULARY - FIRST_WORD)) as u32).collect();
    (0..count).map(&mut text).collect()
}
