//! The model that the training of a reranker starts from: what it says of its texts is kept.

use crate::support::common;
use crate::support::squad;

use common::{Bench, fixtures, succeed};
use serde_json::{Value, json};

#[test]
fn a_reranker_that_starts_as_a_cross_encoder_keeps_its_prompts_its_title_join_and_its_types() {
    let bench = Bench::new();
    bench.write("train.json", json!(squad::items(0..2, 16)).to_string());
    // A directory whose tokenizer gives no types.
    fs_err::create_dir(bench.path("source")).unwrap();
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        let from = fixtures().join("cross-encoders/bert").join(name);
        fs_err::copy(from, bench.path("source").join(name)).unwrap();
    }
    let settings = json!({"model_max_length": 48, "model_input_names": ["input_ids", "attention_mask"]});
    bench.write("source/tokenizer_config.json", settings.to_string());
    let import = ["import", "--cross-encoder", "source", "--out"];
    let form = ["--query-prompt", "query: ", "--title-join", "separator"];
    succeed(bench.dpr(&import).arg("start").args(form));
    bench.write("source/tokenizer_config.json", json!({"model_max_length": 48}).to_string());
    succeed(bench.dpr(&import).arg("plain"));

    let train = |model: &str, out: &str| {
        let mut command = bench.dpr(&["train", "--task", "reranker", "--model", model, "--out", out]);
        command.args(["--data", "train.json", "--dev", "train.json", "--max-tokens", "48"]);
        succeed(command.args(["--device", "flex", "--batch-size", "4", "--max-steps", "1"]));
    };
    let section = |dir: &str| -> Value {
        let text = fs_err::read(bench.path(dir).join("cross_encoder/config.json")).unwrap();
        serde_json::from_slice::<Value>(&text).unwrap()["dpr"].clone()
    };
    for model in ["start", "plain"] {
        train(model, &format!("{model}-run"));
        assert_eq!(section(&format!("{model}-run/best")), section(model), "{model}");
    }
    let kept = section("start-run/best");
    assert_eq!((&kept["prompts"]["query"], &kept["one_type"]), (&json!("query: "), &json!(true)), "{kept}");
    assert_ne!(kept, section("plain"), "the default is another form");
    // The form is trained and measured with too.
    let at_start = |run: &str| fs_err::read_to_string(bench.path(run).join("metrics.jsonl")).unwrap();
    let loss = |run: &str| -> Value {
        serde_json::from_str::<Value>(at_start(run).lines().next().unwrap()).unwrap()["loss"].clone()
    };
    assert_ne!(loss("start-run"), loss("plain-run"));
}
