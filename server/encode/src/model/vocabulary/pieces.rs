//! The pieces of a `tokenizer.json`: which belong together, and the file with fewer of them.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Value, json};

use super::letters;

/// A tokenizer's pieces, of one of three algorithms. With each, a text whose tokens are all kept is cut as before:
/// WordPiece takes the longest piece that fits, which is still there; Unigram the segmentation of the best score, and
/// there are fewer to choose from; BPE the merge of the lowest rank, and those of a token are kept with it.
pub(super) struct Pieces {
    /// By id: pieces of the algorithm's vocabulary.
    by_id: BTreeMap<u32, String>,
    /// Ids that stay in every vocabulary.
    fixed: Vec<u32>,
    /// Marks a piece that goes on within a word, `##`, or none.
    prefix: String,
    /// Marks a piece at the end of a word, `</w>`, or none.
    suffix: String,
    /// Pieces are of bytes, each written as a character of GPT-2's table.
    byte_level: bool,
    /// BPE: the pieces that are merged into a piece.
    parts: HashMap<u32, Vec<[u32; 2]>>,
}

impl Pieces {
    /// Reads the pieces of a `tokenizer.json`.
    ///
    /// # Errors
    /// Says what the file has that is not known here.
    pub(super) fn read(json: &Value) -> Result<Self, String> {
        let model = &json["model"];
        let is_unigram = match (model["type"].as_str(), &model["vocab"]) {
            (Some("WordPiece" | "BPE"), Value::Object(_)) => false,
            (Some("Unigram"), Value::Array(_)) => true,
            (kind, _) => {
                let kind = kind.unwrap_or("unknown");
                return Err(format!(
                    "its model is of the type {kind:?}: WordPiece, Unigram and BPE can have fewer tokens"
                ));
            }
        };
        let by_id = pieces(&model["vocab"])?;
        let text = |field: &str| model[field].as_str().unwrap_or_default().to_owned();
        let mut pieces = Self {
            fixed: Vec::new(),
            prefix: text("continuing_subword_prefix"),
            suffix: text("end_of_word_suffix"),
            byte_level: names_byte_level(&json["pre_tokenizer"]) || names_byte_level(&json["normalizer"]),
            parts: HashMap::new(),
            by_id,
        };
        let ids: HashMap<&str, u32> = pieces.by_id.iter().map(|(id, piece)| (piece.as_str(), *id)).collect();
        let mut fixed: Vec<u32> = Vec::new();
        fixed.extend(json["added_tokens"].as_array().into_iter().flatten().filter_map(|t| whole(&t["id"])));
        fixed.extend(model["unk_token"].as_str().and_then(|token| ids.get(token)));
        if model["byte_fallback"] == true {
            fixed.extend((0..=255u8).filter_map(|byte| ids.get(format!("<0x{byte:02X}>").as_str())));
        }
        if is_unigram {
            fixed.extend(whole(&model["unk_id"]));
            // An unknown character's score is that of the least likely piece, less a constant.
            let scores = model["vocab"].as_array().into_iter().flatten().map(|piece| piece[1].as_f64());
            let least = (0..).zip(scores).filter_map(|(id, score)| Some((id, score?)));
            fixed.extend(least.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(id, _)| id));
        }
        let mut parts: HashMap<u32, Vec<[u32; 2]>> = HashMap::new();
        for merge in model["merges"].as_array().into_iter().flatten() {
            let merge = Merge::read(merge, &pieces.prefix)?;
            let known = [merge.left, merge.right, &merge.whole].map(|piece| ids.get(piece).copied());
            let [Some(left), Some(right), Some(whole)] = known else {
                return Err(format!("its merge {:?} {:?} is not of its pieces", merge.left, merge.right));
            };
            parts.entry(whole).or_default().push([left, right]);
        }
        (pieces.fixed, pieces.parts) = (fixed, parts);
        Ok(pieces)
    }

    /// Returns each piece with the text that it stands for; pieces that are a part of a character are left out.
    pub(super) fn texts(&self) -> impl Iterator<Item = (u32, String)> {
        self.by_id.iter().filter_map(|(id, piece)| {
            let stem = self.stem(piece);
            let text = if self.byte_level { letters::of_bytes(stem)? } else { stem.to_owned() };
            Some((*id, text))
        })
    }

    /// Returns a piece without the marks of its place in a word.
    fn stem<'a>(&self, piece: &'a str) -> &'a str {
        let piece = piece.strip_prefix(self.prefix.as_str()).unwrap_or(piece);
        let piece = piece.strip_suffix(self.suffix.as_str()).unwrap_or(piece);
        // Unigram, and BPE of SentencePiece, mark a word's start.
        piece.strip_prefix('▁').unwrap_or(piece)
    }

    /// Adds what the kept tokens need: special tokens, the pieces that BPE merges into them, and the single characters
    /// of kept pieces, so that other words of the same letters have tokens.
    pub(super) fn complete(&self, kept: &mut [bool]) {
        for id in &self.fixed {
            if let Some(kept) = kept.get_mut(*id as usize) {
                *kept = true;
            }
        }
        let is_kept = |id: u32, kept: &[bool]| kept.get(id as usize) == Some(&true);
        let known: HashSet<char> = self
            .by_id
            .iter()
            .filter(|(id, _)| is_kept(**id, kept))
            .flat_map(|(_, piece)| self.stem(piece).chars())
            .collect();
        for (id, piece) in &self.by_id {
            let mut characters = self.stem(piece).chars();
            let single = match (characters.next(), characters.next()) {
                (None, _) => true,
                (Some(only), None) => self.byte_level || known.contains(&only),
                _ => false,
            };
            if let (true, Some(kept)) = (single, kept.get_mut(*id as usize)) {
                *kept = true;
            }
        }
        let mut waiting: Vec<u32> = (0..kept.len() as u32).filter(|id| is_kept(*id, kept)).collect();
        while let Some(id) = waiting.pop() {
            for part in self.parts.get(&id).into_iter().flatten().flatten() {
                if let Some(kept) = kept.get_mut(*part as usize).filter(|kept| !**kept) {
                    *kept = true;
                    waiting.push(*part);
                }
            }
        }
    }

    /// Returns the `tokenizer.json` with the pieces that are in `renumbered`, under their new ids.
    ///
    /// # Errors
    /// Says which part of the file names a token that is not there.
    pub(super) fn cut(&self, json: &Value, renumbered: &BTreeMap<u32, u32>) -> Result<Value, String> {
        let mut json = json.clone();
        (json["padding"], json["truncation"]) = (Value::Null, Value::Null);
        let added = json.get_mut("added_tokens").and_then(Value::as_array_mut);
        for token in added.into_iter().flatten() {
            token.get_mut("id").map_or(Ok(()), |id| renumber(id, renumbered))?;
        }
        json.get_mut("post_processor")
            .map_or(Ok(()), |processor| renumber_template(processor, renumbered))?;
        let kept = |id: u32| renumbered.get(&id);
        let model = &mut json["model"];
        match model["vocab"].take() {
            Value::Array(pieces) => {
                let pieces = (0..).zip(pieces).filter(|(id, _)| kept(*id).is_some());
                model["vocab"] = pieces.map(|(_, piece)| piece).collect();
                if !model["unk_id"].is_null() {
                    renumber(&mut model["unk_id"], renumbered)?;
                }
            }
            _ => {
                let pieces =
                    self.by_id.iter().filter_map(|(id, piece)| Some((piece.clone(), json!(kept(*id)?))));
                model["vocab"] = Value::Object(pieces.collect());
            }
        }
        if let Some(merges) = model["merges"].as_array_mut() {
            let pieces: HashSet<&str> = self
                .by_id
                .iter()
                .filter(|(id, _)| kept(**id).is_some())
                .map(|(_, piece)| piece.as_str())
                .collect();
            merges.retain(|merge| {
                Merge::read(merge, &self.prefix).is_ok_and(|merge| {
                    [merge.left, merge.right, &merge.whole].iter().all(|piece| pieces.contains(piece))
                })
            });
        }
        Ok(json)
    }
}

/// A merge of BPE: `"left right"`, or `["left", "right"]`.
struct Merge<'a> {
    left: &'a str,
    right: &'a str,
    whole: String,
}

impl<'a> Merge<'a> {
    fn read(merge: &'a Value, prefix: &str) -> Result<Self, String> {
        let pair = match merge {
            Value::String(merge) => merge.split_once(' '),
            merge => merge[0].as_str().zip(merge[1].as_str()),
        };
        let (left, right) = pair.ok_or_else(|| format!("its merge {merge} is not a pair of pieces"))?;
        let rest = right.strip_prefix(prefix).unwrap_or(right);
        Ok(Self { left, right, whole: format!("{left}{rest}") })
    }
}

/// Returns the pieces of a vocabulary by id: an object of ids, or a list of pieces with their scores.
fn pieces(vocab: &Value) -> Result<BTreeMap<u32, String>, String> {
    let wrong = |piece: &dyn std::fmt::Display| {
        format!("its vocabulary has the entry {piece}, expected a piece with its id or its score")
    };
    match vocab {
        Value::Array(pieces) => (0..)
            .zip(pieces)
            .map(|(id, piece)| Ok((id, piece[0].as_str().ok_or_else(|| wrong(piece))?.to_owned())))
            .collect(),
        Value::Object(pieces) => pieces
            .iter()
            .map(|(piece, id)| Ok((whole(id).ok_or_else(|| wrong(id))?, piece.clone())))
            .collect(),
        other => Err(wrong(other)),
    }
}

fn whole(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}

/// Returns whether a pre-tokenizer or a normalizer writes bytes as characters.
fn names_byte_level(value: &Value) -> bool {
    let parts = ["pretokenizers", "normalizers"].map(|field| value[field].as_array());
    value["type"] == "ByteLevel" || parts.into_iter().flatten().flatten().any(names_byte_level)
}

/// Replaces an id by its new one.
fn renumber(id: &mut Value, renumbered: &BTreeMap<u32, u32>) -> Result<(), String> {
    let new = whole(id).and_then(|id| renumbered.get(&id));
    *id = json!(new.ok_or_else(|| format!("it names the token {id}, which is not in its vocabulary"))?);
    Ok(())
}

/// Replaces the ids in a post-processor.
fn renumber_template(processor: &mut Value, renumbered: &BTreeMap<u32, u32>) -> Result<(), String> {
    let parts = processor.get_mut("processors").and_then(Value::as_array_mut);
    for part in parts.into_iter().flatten() {
        renumber_template(part, renumbered)?;
    }
    let tokens = processor.get_mut("special_tokens").and_then(Value::as_object_mut);
    for token in tokens.into_iter().flat_map(|tokens| tokens.values_mut()) {
        for id in token.get_mut("ids").and_then(Value::as_array_mut).into_iter().flatten() {
            renumber(id, renumbered)?;
        }
    }
    for field in ["cls", "sep"] {
        if let Some([_, id]) = processor.get_mut(field).and_then(Value::as_array_mut).map(Vec::as_mut_slice) {
            renumber(id, renumbered)?;
        }
    }
    Ok(())
}
