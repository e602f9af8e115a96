use super::*;

fn json(extra: &str) -> String {
    format!(
        r#"{{"model_type":"bert","hidden_size":32,"num_hidden_layers":2,"num_attention_heads":4,
           "intermediate_size":64,"vocab_size":100,"max_position_embeddings":64{extra}}}"#
    )
}

fn dpr(extra: &str) -> String {
    json(&format!(r#","dpr":{{"pooling":"cls","normalize":false,"max_tokens":64,{extra}}}"#))
}

#[test]
fn a_head_decides_the_size_of_the_vectors_and_a_section_reads_back() {
    let step = |output| format!(r#"{{"dense":{{"output":{output},"bias":false,"activation":"gelu"}}}}"#);
    let head = format!(r#""head":[{},"normalize",{}]"#, step(20), step(12));
    let text =
        dpr(&format!(r#"{head},"truncate":10,"l2":2.0,"prompts":{{"query":"q: "}},"title_join":"space""#));
    let config = EncoderConfig::from_json(text.as_bytes()).unwrap();
    assert_eq!((config.head_width(), config.dim(), config.vector_dim()), (12, 10, 11));
    assert_eq!(config.coordinate(Side::Question, &[3.0, 4.0]), Some(2.0));
    assert_eq!(config.coordinate(Side::Passage, &[3.0, 4.0]), Some(-6.25));
    let widths: Vec<_> = dense_layers(&config.head, 32).map(|(input, layer)| (input, layer.output)).collect();
    assert_eq!(widths, [(32, 20), (20, 12)]);
    let mut again: Value = serde_json::from_str(&text).unwrap();
    again["dpr"] = serde_json::to_value(config.section()).unwrap();
    assert_eq!(EncoderConfig::from_json(again.to_string().as_bytes()).unwrap(), config);
    assert!(!config.is_first_format());

    let plain = EncoderConfig::from_json(json("").as_bytes()).unwrap();
    let section = serde_json::to_value(plain.section()).unwrap();
    assert_eq!(section, serde_json::json!({ "pooling": "cls", "normalize": false, "max_tokens": 64 }));
    assert!(plain.is_first_format() && plain.coordinate(Side::Passage, &[1.0]).is_none());
}

#[test]
fn the_paper_s_pooling_is_the_default() {
    let config = EncoderConfig::from_json(json("").as_bytes()).unwrap();
    assert_eq!((config.pooling, config.normalize, config.max_tokens), (Pooling::Cls, false, 64));
    assert_eq!((config.dim(), config.layer_norm_eps, config.type_vocab_size), (32, 1e-12, 2));
}

#[test]
fn mpnet_s_positions_start_after_the_pad_id() {
    let text = json("").replace("\"bert\"", "\"mpnet\"");
    let config = EncoderConfig::from_json(text.as_bytes()).unwrap();
    assert_eq!((config.pad_token_id, config.position_offset(), config.position_limit()), (1, 2, 62));
    assert_eq!((config.type_vocab_size, config.relative_attention_num_buckets), (0, 32));
}

#[test]
fn buckets_of_relative_positions_are_limited() {
    let buckets = |count: u64| {
        let text = json(&format!(r#","relative_attention_num_buckets":{count}"#));
        EncoderConfig::from_json(text.replace("\"bert\"", "\"mpnet\"").as_bytes())
    };
    assert_eq!(buckets(256).unwrap().relative_attention_num_buckets, 256);
    for count in [0, 257, 512, 1 << 20] {
        let message = buckets(count).unwrap_err().to_string();
        let expected = format!("relative_attention_num_buckets is {count}, it must be from 1 to 256");
        assert!(message.contains(&expected), "{message:?} does not say {expected:?}");
    }
}

#[test]
fn what_encoders_of_texts_say_of_themselves_is_read() {
    for class in ["BertModel", "BertForMaskedLM", "BertForPreTraining", "DPRContextEncoder"] {
        let said = format!(
            r#","architectures":["{class}"],"position_embedding_type":"absolute","is_decoder":false"#
        );
        EncoderConfig::from_json(json(&said).as_bytes()).unwrap();
    }
}

#[test]
fn each_bad_config_names_its_field() {
    let cases = [
        (json("").replace("bert", "roformer"), "roformer"),
        (json("").replace("\"hidden_size\":32,", ""), "hidden_size"),
        (json("").replace("\"num_attention_heads\":4", "\"num_attention_heads\":5"), "does not divide"),
        (json("").replace("\"hidden_size\":32", "\"hidden_size\":0"), "from 1 to"),
        (json("").replace("\"num_hidden_layers\":2", "\"num_hidden_layers\":1025"), "from 1 to 1024"),
        (json(r#","hidden_act":"relu""#), "relu"),
        (json(r#","position_embedding_type":"relative_key_query""#), "relative_key_query"),
        (json(r#","is_decoder":true"#), "is_decoder is true"),
        (json(r#","architectures":["BertForSequenceClassification"]"#), "cross-encoder"),
        (json(r#","architectures":["BertForQuestionAnswering"]"#), "a reader"),
        (json(r#","architectures":["DPRReader"]"#), "a reader"),
        (json(r#","architectures":["BertForTokenClassification"]"#), "a tagger"),
        (json(r#","pad_token_id":100"#), "vocab_size is 100"),
        (json(r#","dpr":{"pooling":"attention"}"#), "last_token"),
        (json(r#","dpr":{"pooling":"max"}"#), "normalize"),
        (dpr(r#""later":1"#), "unknown field `later`"),
        (dpr(r#""head":["whiten"]"#), "whiten"),
        (dpr(r#""head":[{"dense":{"output":0,"bias":true,"activation":"tanh"}}]"#), "from 1 to"),
        (dpr(r#""head":[{"dense":{"output":4,"bias":true,"activation":"swish"}}]"#), "swish"),
        (
            dpr(r#""head":[{"dense":{"output":4,"bias":true,"activation":"tanh"}}],"truncate":5"#),
            "the 4 numbers",
        ),
        (dpr(r#""truncate":0"#), "dpr.truncate is 0"),
        (dpr(r#""l2":-1.0"#), "dpr.l2 is -1"),
        (dpr(r#""title_join":"{title}""#), "{text} once"),
        (json(r#","dpr":{"pooling":"cls","normalize":false,"max_tokens":65}"#), "64 positions"),
        ("[]".into(), "JSON object"),
        ("{".into(), "JSON object"),
    ];
    for (text, expected) in cases {
        let error = EncoderConfig::from_json(text.as_bytes()).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(expected), "{message:?} does not say {expected:?}");
        let fix = "take the config.json that belongs to the weights, or another model";
        assert_eq!(message.ends_with(fix), matches!(error, ConfigError::Value { .. }), "{message}");
    }
}
