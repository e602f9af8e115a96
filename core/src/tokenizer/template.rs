//! Special tokens of an input, as the `post_processor` of a `tokenizer.json` puts them around one text and between two.

use serde_json::Value;

/// Ids around and between texts: `start text end`, and `start first separators second end`, with the token types of the
/// latter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Template {
    /// Before the first text: `[CLS]` or `<s>`.
    pub(super) start: Vec<u32>,
    /// Between two texts: `[SEP]`, or `</s> </s>`.
    pub(super) separators: Vec<u32>,
    /// After the last text: `[SEP]` or `</s>`.
    pub(super) end: Vec<u32>,
    /// The types of the tokens of two texts.
    pub(super) types: Types,
}

/// Token types of two texts, part by part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Types {
    /// Types of the tokens before the first text.
    pub(super) start: Vec<u32>,
    /// Type of the first text's tokens.
    pub(super) first: u32,
    /// Types of the separators.
    pub(super) separators: Vec<u32>,
    /// Type of the second text's tokens.
    pub(super) second: u32,
    /// Types of the tokens after the second text.
    pub(super) end: Vec<u32>,
}

impl Types {
    /// Returns the largest type.
    pub(super) fn largest(&self) -> u32 {
        let runs = [&self.start, &self.separators, &self.end].into_iter().flatten().copied();
        runs.chain([self.first, self.second]).max().unwrap_or(0)
    }
}

impl Template {
    /// Reads a `TemplateProcessing`, `BertProcessing` or `RobertaProcessing`, alone or in a `Sequence` with processors
    /// that add no token (`ByteLevel`).
    ///
    /// # Errors
    /// Says what the post-processor is instead.
    pub(super) fn read(post_processor: &Value) -> Result<Self, String> {
        let processors = match kind(post_processor) {
            Some("Sequence") => post_processor["processors"].as_array().map_or(&[][..], Vec::as_slice),
            _ => std::slice::from_ref(post_processor),
        };
        let mut adding = processors.iter().filter(|processor| kind(processor) != Some("ByteLevel"));
        let (Some(processor), None) = (adding.next(), adding.next()) else {
            return Err("it has not exactly one part that adds special tokens".into());
        };
        match kind(processor) {
            Some("TemplateProcessing") => Self::of_pieces(processor),
            Some("BertProcessing") => Self::of_two(processor, 1, 1),
            Some("RobertaProcessing") => Self::of_two(processor, 2, 0),
            Some(other) => Err(format!("its type is {other:?}")),
            None => Err("it is missing, so that no special tokens are known".into()),
        }
    }

    /// Reads `{"cls": [token, id], "sep": [token, id]}` with this number of separators between two texts, and this type
    /// of the second text.
    fn of_two(processor: &Value, separators: usize, second: u32) -> Result<Self, String> {
        let id = |field: &str| {
            whole(&processor[field][1]).ok_or_else(|| format!("its {field} is not a token and its id"))
        };
        let (start, end) = (id("cls")?, id("sep")?);
        let types =
            Types { start: vec![0], first: 0, separators: vec![0; separators], second, end: vec![second] };
        Ok(Self { start: vec![start], separators: vec![end; separators], end: vec![end], types })
    }

    /// Reads the templates `single` and `pair`, which must put the same tokens first and last.
    fn of_pieces(processor: &Value) -> Result<Self, String> {
        let [single, pair] = ["single", "pair"].map(|field| Runs::read(processor, field));
        let (single, pair) = (single?, pair?);
        let texts = <[u32; 2]>::try_from(pair.texts).unwrap_or_default();
        match (<[Run; 2]>::try_from(single.special), <[Run; 3]>::try_from(pair.special)) {
            (Ok([start, end]), Ok([first, separators, last]))
                if start.ids == first.ids && end.ids == last.ids =>
            {
                let types = Types {
                    start: first.types,
                    first: texts[0],
                    separators: separators.types,
                    second: texts[1],
                    end: last.types,
                };
                Ok(Self { start: start.ids, separators: separators.ids, end: end.ids, types })
            }
            _ => Err("its templates are not [start] A [end] and [start] A [separators] B [end]".into()),
        }
    }

    /// Returns the number of special tokens of a pair of texts.
    pub(super) fn pair_tokens(&self) -> usize {
        self.start.len() + self.separators.len() + self.end.len()
    }

    /// Returns the largest id.
    pub(super) fn largest(&self) -> u32 {
        [&self.start, &self.separators, &self.end].into_iter().flatten().copied().max().unwrap_or(0)
    }
}

fn kind(value: &Value) -> Option<&str> {
    value["type"].as_str()
}

fn whole(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| u32::try_from(id).ok())
}

/// Special tokens that stand together in a template, and their types.
#[derive(Default)]
struct Run {
    ids: Vec<u32>,
    types: Vec<u32>,
}

/// A template: the special tokens before the first text and after each text, and the types of the texts.
struct Runs {
    special: Vec<Run>,
    texts: Vec<u32>,
}

impl Runs {
    fn read(processor: &Value, field: &str) -> Result<Self, String> {
        let pieces =
            processor[field].as_array().ok_or_else(|| format!("its template {field:?} is missing"))?;
        let mut runs = Self { special: vec![Run::default()], texts: Vec::new() };
        for piece in pieces {
            let token = &piece["SpecialToken"]["id"];
            match (token.as_str(), piece["Sequence"]["id"].as_str()) {
                (Some(token), _) => {
                    let ids = processor["special_tokens"][token]["ids"].as_array();
                    let ids: Option<Vec<u32>> = ids.and_then(|ids| ids.iter().map(whole).collect());
                    let ids = ids.ok_or_else(|| format!("its special token {token:?} has no ids"))?;
                    let kind = whole(&piece["SpecialToken"]["type_id"]).unwrap_or(0);
                    if let Some(run) = runs.special.last_mut() {
                        run.types.resize(run.types.len() + ids.len(), kind);
                        run.ids.extend(&ids);
                    }
                }
                // The texts come in order, each once.
                (_, Some("A")) if runs.texts.is_empty() => runs.text(piece),
                (_, Some("B")) if runs.texts.len() == 1 => runs.text(piece),
                _ => return Err(format!("its template {field:?} does not take its texts in order")),
            }
        }
        Ok(runs)
    }

    fn text(&mut self, piece: &Value) {
        self.texts.push(whole(&piece["Sequence"]["type_id"]).unwrap_or(0));
        self.special.push(Run::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn template(single: &str, pair: &str) -> Value {
        let pieces = |text: &str| -> Value {
            text.split(' ')
                .map(|piece| match piece {
                    "A" | "B" => json!({"Sequence": {"id": piece, "type_id": 0}}),
                    token => json!({"SpecialToken": {"id": token, "type_id": 0}}),
                })
                .collect()
        };
        let token = |id: u32| json!({"ids": [id]});
        json!({"type": "TemplateProcessing", "single": pieces(single), "pair": pieces(pair),
            "special_tokens": {"<s>": token(0), "</s>": token(2), "[CLS]": token(101), "[SEP]": token(102)}})
    }

    fn read(value: &Value) -> ([Vec<u32>; 3], usize) {
        let template = Template::read(value).unwrap();
        let tokens = template.pair_tokens();
        ([template.start, template.separators, template.end], tokens)
    }

    #[test]
    fn the_types_of_two_texts_are_those_of_the_file() {
        let types = |value: &Value| Template::read(value).unwrap().types;
        let of_bert = Types { start: vec![0], first: 0, separators: vec![0], second: 1, end: vec![1] };
        assert_eq!(
            types(&json!({"type": "BertProcessing", "sep": ["[SEP]", 102], "cls": ["[CLS]", 101]})),
            of_bert
        );
        let mut classic = template("[CLS] A [SEP]", "[CLS] A [SEP] B [SEP]");
        assert_eq!((types(&classic).second, types(&classic).largest()), (0, 0));
        classic["pair"][3]["Sequence"]["type_id"] = json!(1);
        classic["pair"][4]["SpecialToken"]["type_id"] = json!(1);
        assert_eq!((types(&classic).largest(), types(&classic)), (1, of_bert));
        let roberta = json!({"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]});
        let none = Types { start: vec![0], separators: vec![0; 2], end: vec![0], ..Types::default() };
        assert_eq!(types(&roberta), none);
    }

    #[test]
    fn every_kind_gives_what_it_puts_around_and_between_texts() {
        let bert = json!({"type": "BertProcessing", "sep": ["[SEP]", 102], "cls": ["[CLS]", 101]});
        let roberta = json!({"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0],
            "trim_offsets": true, "add_prefix_space": false});
        let classic = template("[CLS] A [SEP]", "[CLS] A [SEP] B [SEP]");
        assert_eq!(read(&bert), ([vec![101], vec![102], vec![102]], 3));
        assert_eq!(read(&classic), read(&bert));
        let twice = ([vec![0], vec![2, 2], vec![2]], 4);
        assert_eq!(read(&roberta), twice);
        assert_eq!(read(&template("<s> A </s>", "<s> A </s> </s> B </s>")), twice);
        let byte_level = json!({"type": "ByteLevel", "trim_offsets": false});
        assert_eq!(read(&json!({"type": "Sequence", "processors": [byte_level, roberta]})), twice);
        assert_eq!(read(&template("A </s>", "A </s> B </s>")), ([vec![], vec![2], vec![2]], 2));
    }

    #[test]
    fn anything_else_is_refused_with_its_reason() {
        let byte_level = json!({"type": "ByteLevel"});
        let bert = json!({"type": "BertProcessing", "sep": ["[SEP]", 102], "cls": ["[CLS]", 101]});
        let cases = [
            (Value::Null, "is missing"),
            (byte_level, "not exactly one"),
            (json!({"type": "Sequence", "processors": [bert, bert]}), "not exactly one"),
            (json!({"type": "Other"}), "\"Other\""),
            (json!({"type": "BertProcessing", "sep": ["[SEP]", -1], "cls": ["[CLS]", 101]}), "its sep"),
            (template("[CLS] A [SEP]", "[CLS] B [SEP] A [SEP]"), "in order"),
            (template("[CLS] A A [SEP]", "[CLS] A [SEP] B [SEP]"), "in order"),
            (template("[CLS] A [SEP]", "[CLS] A [SEP]"), "are not [start]"),
            (template("[CLS] A [SEP]", "<s> A [SEP] B [SEP]"), "are not [start]"),
            (template("[CLS] A [MISSING]", "[CLS] A [SEP] B [SEP]"), "\"[MISSING]\" has no ids"),
        ];
        for (value, expected) in cases {
            let reason = Template::read(&value).unwrap_err();
            assert!(reason.contains(expected), "{reason:?} does not say {expected:?}");
        }
    }
}
