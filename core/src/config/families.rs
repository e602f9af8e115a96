//! Families of encoders: the keys under which each keeps its sizes in a `config.json`, and the switches of each that an
//! encoder here does not have.

use serde_json::Value;

use super::fields::{MAX_LAYERS, float, index, size, size_up_to};
use super::{ConfigError, Family, Rotary};

/// The way a feed-forward layer widens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedForward {
    /// `GELU(x W + b)`, the exact GELU.
    Gelu,
    /// `GELU(x W) * (x V)` (Shazeer 2020).
    GeGlu,
    /// `SiLU(x W) * (x V)` (Shazeer 2020).
    SwiGlu,
}

impl Family {
    /// Returns the family of a `model_type`. ELECTRA's discriminator is a BERT under another name; XLM-R and CamemBERT
    /// are RoBERTa with other vocabularies.
    pub(super) fn of(model_type: &str) -> Option<Self> {
        Some(match model_type {
            "bert" | "dpr" | "electra" => Self::Bert,
            "mpnet" => Self::Mpnet,
            "distilbert" => Self::Distilbert,
            "roberta" | "xlm-roberta" | "camembert" => Self::Roberta,
            "modernbert" => Self::Modernbert,
            "nomic_bert" => Self::NomicBert,
            _ => return None,
        })
    }

    /// Returns the way the feed-forward layers widen.
    pub fn feed_forward(self) -> FeedForward {
        match self {
            Self::Bert | Self::Mpnet | Self::Distilbert | Self::Roberta => FeedForward::Gelu,
            Self::Modernbert => FeedForward::GeGlu,
            Self::NomicBert => FeedForward::SwiGlu,
        }
    }

    /// Returns whether a layer normalises its inputs, not its sums, and the encoder its last states.
    pub fn is_pre_norm(self) -> bool {
        self == Self::Modernbert
    }

    /// Returns whether positions rotate queries and keys, in place of an embedding of each position.
    pub fn is_rotary(self) -> bool {
        matches!(self, Self::Modernbert | Self::NomicBert)
    }

    /// Returns whether there is an embedding of token types.
    pub fn has_token_types(self) -> bool {
        matches!(self, Self::Bert | Self::Roberta | Self::NomicBert)
    }

    /// Returns whether linear layers have biases.
    pub fn has_linear_biases(self) -> bool {
        !self.is_rotary()
    }

    /// Returns whether LayerNorms have biases.
    pub fn has_norm_biases(self) -> bool {
        self != Self::Modernbert
    }
}

/// The sizes of an encoder.
pub(super) struct Sizes {
    pub(super) hidden: usize,
    pub(super) layers: usize,
    pub(super) heads: usize,
    pub(super) intermediate: usize,
    pub(super) positions: usize,
    pub(super) token_types: usize,
    pub(super) eps: f64,
    pub(super) pad: u32,
}

/// Returns whether the file is NomicBERT's as its authors publish it, with the keys of GPT-2.
fn has_gpt_keys(root: &Value) -> bool {
    root.get("n_embd").is_some()
}

/// Reads the sizes under the family's keys.
pub(super) fn sizes(family: Family, root: &Value) -> Result<Sizes, ConfigError> {
    let keys = match family {
        Family::Distilbert => ["dim", "n_layers", "n_heads", "hidden_dim", "max_position_embeddings"],
        Family::NomicBert if has_gpt_keys(root) => ["n_embd", "n_layer", "n_head", "n_inner", "n_positions"],
        _ => [
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
            "intermediate_size",
            "max_position_embeddings",
        ],
    };
    let (eps, pad) = match family {
        Family::Modernbert => (float(root, "norm_eps", 1e-5)?, 0),
        Family::NomicBert if has_gpt_keys(root) => (float(root, "layer_norm_epsilon", 1e-12)?, 0),
        // DistilBERT's is written in its code, not in its file.
        Family::Distilbert => (1e-12, 0),
        Family::Mpnet | Family::Roberta => (float(root, "layer_norm_eps", 1e-12)?, 1),
        Family::Bert | Family::NomicBert => (float(root, "layer_norm_eps", 1e-12)?, 0),
    };
    let head = index(root, "head_dim", 0)? as usize;
    if head > 0 && head.saturating_mul(size(root, keys[2], None)?) != size(root, keys[0], None)? {
        refuse(root, "head_dim", "only hidden_size / num_attention_heads is supported")?;
    }
    Ok(Sizes {
        hidden: size(root, keys[0], None)?,
        layers: size_up_to(root, keys[1], None, MAX_LAYERS)?,
        heads: size(root, keys[2], None)?,
        intermediate: size(root, keys[3], None)?,
        positions: size(root, keys[4], None)?,
        token_types: if family.has_token_types() { size(root, "type_vocab_size", Some(2))? } else { 0 },
        eps,
        pad: index(root, "pad_token_id", pad)?,
    })
}

/// Refuses what changes the vectors and is not computed here.
pub(super) fn check(family: Family, root: &Value) -> Result<(), ConfigError> {
    check_activation(family, root)?;
    for (field, expected) in [("embedding_size", "hidden_size"), ("embedding_dim", "hidden_size")] {
        let [got, required] = [field, expected].map(|field| root.get(field).and_then(Value::as_u64));
        if got.is_some() && got != required {
            return refuse(root, field, "only word embeddings as wide as the hidden states are supported");
        }
    }
    if root.get("model_type").is_some_and(|kind| kind == "electra") && root.get("embedding_size").is_none() {
        return Err(ConfigError::Field { field: "embedding_size", expected: "the hidden_size" });
    }
    // What each switch must be; a file without it has this value.
    let switches = match family {
        Family::Modernbert => &["norm_bias", "attention_bias", "mlp_bias"][..],
        Family::NomicBert => &[
            "prenorm",
            "qkv_proj_bias",
            "mlp_fc1_bias",
            "mlp_fc2_bias",
            "use_rms_norm",
            "parallel_block",
            "causal",
            "rotary_emb_interleaved",
            "scale_attn_by_inverse_layer_idx",
            "rotary_scaling_factor",
            "rotary_emb_scale_base",
        ],
        _ => &[],
    };
    for &field in switches {
        if root.get(field).is_some_and(|got| !got.is_null() && *got != Value::Bool(false)) {
            return refuse(root, field, "it must be false or null");
        }
    }
    if root.get("scale_attn_weights").is_some_and(|scaled| *scaled == Value::Bool(false)) {
        return refuse(root, "scale_attn_weights", "only true is supported");
    }
    if float(root, "rotary_emb_fraction", 1.0)? != 1.0 {
        return refuse(root, "rotary_emb_fraction", "only 1.0 is supported");
    }
    if index(root, "moe_every_n_layers", 0)? != 0 {
        return refuse(root, "moe_every_n_layers", "layers of several experts are not supported");
    }
    Ok(())
}

fn refuse(root: &Value, field: &'static str, expected: &str) -> Result<(), ConfigError> {
    let got = root.get(field).unwrap_or(&Value::Null).to_string();
    Err(ConfigError::Value { field, got, expected: expected.into() })
}

/// The encoders compute the exact GELU, and NomicBERT's SiLU; a model trained with another activation would give wrong
/// vectors.
fn check_activation(family: Family, root: &Value) -> Result<(), ConfigError> {
    let (field, expected) = match family {
        Family::Distilbert => ("activation", "gelu"),
        Family::Modernbert => ("hidden_activation", "gelu"),
        Family::NomicBert if has_gpt_keys(root) => ("activation_function", "swiglu"),
        Family::NomicBert => ("hidden_act", "silu"),
        _ => ("hidden_act", "gelu"),
    };
    match root.get(field).and_then(Value::as_str) {
        None => Ok(()),
        Some(got) if got == expected => Ok(()),
        Some(got) => {
            let exact = if expected == "gelu" { " (the exact erf form)" } else { "" };
            let expected = format!("only {expected:?}{exact} is supported");
            Err(ConfigError::Value { field, got: got.into(), expected })
        }
    }
}

/// Reads the rotary positions of ModernBERT and NomicBERT, in the keys of their first files or in `rope_parameters`.
pub(super) fn rotary(family: Family, root: &Value, layers: usize) -> Result<Option<Rotary>, ConfigError> {
    let theta = |kind: Option<&str>, old: &'static str, default: f64| {
        let parameters = root.get("rope_parameters").unwrap_or(&Value::Null);
        let parameters = kind.map_or(parameters, |kind| &parameters[kind]);
        match parameters["rope_type"].as_str() {
            None | Some("default") => {}
            Some(other) => {
                let (got, expected) = (format!("{other:?}"), "only \"default\" is supported".into());
                return Err(ConfigError::Value { field: "rope_type", got, expected });
            }
        }
        let theta = match parameters["rope_theta"].as_f64() {
            Some(theta) => theta,
            None => float(root, old, default)?,
        };
        if theta.is_finite() && theta >= 1.0 {
            return Ok(theta);
        }
        Err(ConfigError::Value {
            field: old,
            got: theta.to_string(),
            expected: "it must be at least 1".into(),
        })
    };
    if family.is_rotary() && root.get("rope_scaling").is_some_and(|scaling| !scaling.is_null()) {
        refuse(root, "rope_scaling", "only null is supported")?;
    }
    match family {
        Family::Modernbert => {
            let global = theta(Some("full_attention"), "global_rope_theta", 160_000.0)?;
            // As in transformers: null takes the global base, and a field that is absent 10,000.
            let is_null = root.get("local_rope_theta").is_some_and(Value::is_null);
            let local = if is_null { global } else { 10_000.0 };
            Ok(Some(Rotary {
                theta: global,
                local_theta: theta(Some("sliding_attention"), "local_rope_theta", local)?,
                window: size(root, "local_attention", Some(128))? / 2,
                local_layers: local_layers(root, layers)?,
            }))
        }
        Family::NomicBert => {
            let theta = theta(None, "rotary_emb_base", 1_000.0)?;
            let local_layers = vec![false; layers];
            Ok(Some(Rotary { theta, local_theta: theta, window: 0, local_layers }))
        }
        _ => Ok(None),
    }
}

/// Returns for each layer whether its attention is local.
fn local_layers(root: &Value, layers: usize) -> Result<Vec<bool>, ConfigError> {
    let Some(types) = root.get("layer_types").filter(|types| !types.is_null()) else {
        let every = size(root, "global_attn_every_n_layers", Some(3))?;
        return Ok((0..layers).map(|layer| layer % every != 0).collect());
    };
    let is_local = |kind: &Value| match kind.as_str() {
        Some("sliding_attention") => Some(true),
        Some("full_attention") => Some(false),
        _ => None,
    };
    let list: Option<Vec<bool>> = types.as_array().and_then(|types| types.iter().map(is_local).collect());
    list.filter(|list| list.len() == layers).ok_or(ConfigError::Field {
        field: "layer_types",
        expected: "a list of \"full_attention\" and \"sliding_attention\", one for each layer",
    })
}

#[cfg(test)]
mod tests {
    use super::super::EncoderConfig;
    use super::*;

    fn read(json: &str) -> Result<EncoderConfig, String> {
        EncoderConfig::from_json(json.as_bytes()).map_err(|error| error.to_string())
    }

    const SIZES: &str = r#""hidden_size":32,"num_hidden_layers":4,"num_attention_heads":4,
        "intermediate_size":64,"vocab_size":100,"max_position_embeddings":66"#;
    const NOMIC: &str = r#""model_type":"nomic_bert","n_embd":32,"n_layer":2,"n_head":4,"n_inner":64,
        "n_positions":128,"vocab_size":64,"activation_function":"swiglu","rotary_emb_base":1000"#;

    #[test]
    fn roberta_s_positions_start_after_the_pad_id() {
        for kind in ["roberta", "xlm-roberta", "camembert"] {
            let json =
                format!(r#"{{"model_type":"{kind}",{SIZES},"type_vocab_size":1,"layer_norm_eps":1e-5}}"#);
            let config = read(&json).unwrap();
            assert_eq!((config.family, config.pad_token_id, config.type_vocab_size), (Family::Roberta, 1, 1));
            assert_eq!((config.position_offset(), config.position_limit()), (2, 64));
            assert_eq!(config.layer_norm_eps, 1e-5);
        }
    }

    #[test]
    fn distilbert_s_own_keys_are_read() {
        let json = r#"{"model_type":"distilbert","dim":32,"n_layers":2,"n_heads":4,"hidden_dim":64,
            "vocab_size":100,"max_position_embeddings":64,"activation":"gelu"}"#;
        let config = read(json).unwrap();
        assert_eq!((config.hidden_size, config.num_hidden_layers, config.intermediate_size), (32, 2, 64));
        assert_eq!((config.type_vocab_size, config.layer_norm_eps, config.position_limit()), (0, 1e-12, 64));
        let error = read(&json.replace("\"gelu\"", "\"relu\"")).unwrap_err();
        assert!(error.contains("activation is relu"), "{error}");
    }

    #[test]
    fn electra_is_a_bert_where_its_embeddings_are_as_wide() {
        let json = format!(r#"{{"model_type":"electra",{SIZES},"embedding_size":32}}"#);
        assert_eq!(read(&json).unwrap().family, Family::Bert);
        let error = read(&json.replace("\"embedding_size\":32", "\"embedding_size\":16")).unwrap_err();
        assert!(error.contains("embedding_size is 16"), "{error}");
        let error = read(&json.replace(",\"embedding_size\":32", "")).unwrap_err();
        assert!(error.contains("embedding_size"), "{error}");
    }

    #[test]
    fn modernbert_s_two_thetas_and_windows_are_read_old_and_new() {
        let old = format!(
            r#"{{"model_type":"modernbert",{SIZES},"norm_eps":1e-6,"global_attn_every_n_layers":2,
            "local_attention":16,"global_rope_theta":80000.0,"local_rope_theta":500.0}}"#
        );
        let new = format!(
            r#"{{"model_type":"modernbert",{SIZES},"norm_eps":1e-6,"local_attention":16,
            "layer_types":["full_attention","sliding_attention","full_attention","sliding_attention"],
            "rope_parameters":{{"full_attention":{{"rope_theta":80000.0,"rope_type":"default"}},
            "sliding_attention":{{"rope_theta":500.0,"rope_type":"default"}}}}}}"#
        );
        let config = read(&old).unwrap();
        assert_eq!(config, read(&new).unwrap());
        assert_eq!((config.layer_norm_eps, config.position_offset(), config.position_limit()), (1e-6, 0, 66));
        let local_layers = vec![false, true, false, true];
        assert_eq!(config.rotary, Some(Rotary { theta: 8e4, local_theta: 500.0, window: 8, local_layers }));
        let default = read(&format!(r#"{{"model_type":"modernbert",{SIZES}}}"#)).unwrap().rotary.unwrap();
        assert_eq!((default.theta, default.local_theta, default.window), (160_000.0, 10_000.0, 64));
        assert_eq!(default.local_layers, [false, true, true, false]);
    }

    #[test]
    fn a_local_theta_of_null_is_the_global_one() {
        let thetas = |extra: &str| {
            let json = format!(r#"{{"model_type":"modernbert",{SIZES}{extra}}}"#);
            let rotary = read(&json).unwrap().rotary.unwrap();
            (rotary.theta, rotary.local_theta)
        };
        assert_eq!(thetas(""), (160_000.0, 10_000.0));
        assert_eq!(thetas(r#","local_rope_theta":null"#), (160_000.0, 160_000.0));
        assert_eq!(thetas(r#","local_rope_theta":null,"global_rope_theta":80000.0"#), (8e4, 8e4));
        let newer = |kind: &str| format!(r#","rope_parameters":{{"{kind}":{{"rope_theta":500.0}}}}"#);
        let null = r#","local_rope_theta":null"#;
        assert_eq!(thetas(&format!("{null}{}", newer("full_attention"))), (500.0, 500.0));
        assert_eq!(thetas(&format!("{null}{}", newer("sliding_attention"))), (160_000.0, 500.0));
    }

    #[test]
    fn more_layers_than_any_encoder_has_are_refused_under_every_key() {
        let distilbert = r#"{"model_type":"distilbert","dim":32,"n_layers":4,"n_heads":4,"hidden_dim":64,
            "vocab_size":100,"max_position_embeddings":64}"#;
        let bert = format!(r#"{{"model_type":"bert",{SIZES}}}"#);
        let modern = format!(r#"{{"model_type":"modernbert",{SIZES}}}"#);
        let nomic = format!("{{{NOMIC}}}").replace("\"n_layer\":2", "\"n_layer\":4");
        for (json, key) in [
            (bert.as_str(), "num_hidden_layers"),
            (modern.as_str(), "num_hidden_layers"),
            (distilbert, "n_layers"),
            (nomic.as_str(), "n_layer"),
        ] {
            let of =
                |layers: u64| read(&json.replace(&format!("\"{key}\":4"), &format!("\"{key}\":{layers}")));
            assert_eq!(of(1024).unwrap().num_hidden_layers, 1024);
            for layers in [1025, 1 << 20, u64::MAX] {
                let expected = format!("{key} is {layers}, it must be from 1 to 1024");
                let error = of(layers).unwrap_err();
                assert!(error.contains(&expected), "{error:?} does not say {expected:?}");
            }
        }
    }

    #[test]
    fn nomic_bert_s_own_keys_are_read() {
        let config = read(&format!("{{{NOMIC}}}")).unwrap();
        let sizes = (config.hidden_size, config.num_hidden_layers, config.intermediate_size);
        assert_eq!((sizes, config.position_limit(), config.type_vocab_size), ((32, 2, 64), 128, 2));
        let rotary = config.rotary.unwrap();
        assert_eq!((rotary.theta, rotary.local_layers), (1000.0, vec![false, false]));
        let native = format!(
            r#"{{"model_type":"nomic_bert",{SIZES},"hidden_act":"silu","rope_parameters":{{"rope_theta":500.0}}}}"#
        );
        assert_eq!(read(&native).unwrap().rotary.unwrap().theta, 500.0);
    }

    #[test]
    fn switches_that_are_not_computed_here_are_refused() {
        let modern = |extra: &str| format!(r#"{{"model_type":"modernbert",{SIZES},{extra}}}"#);
        let nomic = |extra: &str| format!("{{{NOMIC},{extra}}}");
        let cases = [
            (modern(r#""norm_bias":true"#), "norm_bias is true"),
            (modern(r#""hidden_activation":"silu""#), "hidden_activation is silu"),
            (modern(r#""rope_scaling":{"type":"linear"}"#), "rope_scaling"),
            (modern(r#""rope_parameters":{"full_attention":{"rope_type":"yarn"}}"#), "rope_type is \"yarn\""),
            (modern(r#""layer_types":["full_attention"]"#), "one for each layer"),
            (modern(r#""global_rope_theta":0.0"#), "global_rope_theta is 0"),
            (nomic(r#""prenorm":true"#), "prenorm is true"),
            (nomic(r#""rotary_emb_fraction":0.5"#), "rotary_emb_fraction is 0.5"),
            (nomic(r#""rotary_scaling_factor":2"#), "rotary_scaling_factor is 2"),
            (nomic(r#""moe_every_n_layers":2"#), "moe_every_n_layers is 2"),
            (nomic(r#""qkv_proj_bias":true"#), "qkv_proj_bias is true"),
            (nomic(r#""scale_attn_weights":false"#), "scale_attn_weights is false"),
            (nomic(r#""head_dim":16"#), "head_dim is 16"),
        ];
        for (json, expected) in cases {
            let error = read(&json).unwrap_err();
            assert!(error.contains(expected), "{error:?} does not say {expected:?}");
        }
    }
}
