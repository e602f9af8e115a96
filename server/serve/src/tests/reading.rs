//! Answers to questions sent as text: refused by default, read from the passages found where the operator gave a
//! reader.

use super::*;
use crate::{Limits, ServedReader, Serving, TextSearch};
use dpr_core::device::Device;
use dpr_core::{EncoderBytes, ReadOptions, Reader};
use dpr_index::CancelToken;
use dpr_index::search::{Fusion, Method};

const PASSAGES: [(&str, &str); 3] = [
    ("Rhine", "The Rhine rises in the Alps – über 1,230 km it flows north."),
    ("Nothing", ""),
    ("Cat", "Cats sleep most of the day."),
];

/// The first `k` of the passages, whatever is asked.
struct Found;

impl TextSearch for Found {
    fn search_text(
        &self,
        _: &str,
        _: Method,
        _: Fusion,
        k: usize,
        _: Option<&Filter>,
        _: &CancelToken,
    ) -> Result<Vec<Hit>, SearchError> {
        let hit = |(title, text): &(&str, &str)| Hit::new(Passage::new(*title, *title, *text), 2.5);
        Ok(PASSAGES.iter().take(k).map(hit).collect())
    }
}

/// A reader of random weights.
fn reader() -> Reader {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/readers/dpr");
    let read = |name: &str| fs_err::read(format!("{dir}/{name}")).unwrap();
    let (config, tokenizer, weights) =
        (read("config.json"), read("tokenizer.json"), read("model.safetensors"));
    let weights = [("model.safetensors", weights.as_slice())];
    let files = EncoderBytes { config: &config, tokenizer: &tokenizer, weights: &weights };
    Reader::load(&files, None, &Device::Kernel).unwrap()
}

fn with(reader: Option<Reader>) -> Router {
    with_options(Options::default(), reader)
}

fn with_options(options: Options, reader: Option<Reader>) -> Router {
    let state = AppState::new(options);
    state.publish_all(Serving {
        text: Some(Arc::new(Found)),
        reader: reader.map(|reader| Arc::new(ServedReader::new(reader, "the reader".into()))),
        ..Serving::new(Arc::new(FakeSearch { before: Box::new(|| {}) }))
    });
    app(state)
}

async fn ask(app: &Router, body: &Value) -> Reply {
    let request = Request::post("/v1/answer").header("content-type", "application/json");
    send(app, request.body(Body::from(body.to_string())).unwrap()).await
}

#[tokio::test]
async fn questions_are_answered_only_where_text_is_let_in_and_a_reader_is_there() {
    let question = json!({"question": "who won super bowl 50"});
    let (closed, _dir) = ready(Options::default());
    for (app, code) in [(closed, "text_search_disabled"), (with(None), "answers_disabled")] {
        let reply = ask(&app, &question).await;
        assert_eq!(reply.error(), (403, code.into()));
        assert!(!reply.text().contains("super bowl"));
    }
}

#[tokio::test]
async fn answers_are_those_of_the_reader_with_their_passages_and_places() {
    let question = "where does the rhine rise";
    let expected = reader().read(question, &PASSAGES, 3, ReadOptions::default()).unwrap();
    let reply = ask(&with(Some(reader())), &json!({"question": question, "depth": 3})).await;
    let json = reply.json();
    assert_eq!((&json["read"], &json["reader"]), (&json!(3), &json!("the reader")), "{json}");
    assert!(json["took_ms"].as_f64().is_some_and(|took| took > 0.0), "{json}");
    let answers = json["answers"].as_array().unwrap();
    // The passage without a text answers nothing.
    assert_eq!((answers.len(), expected.len()), (2, 2));
    for (found, expected) in answers.iter().zip(&expected) {
        let (title, text) = PASSAGES[expected.passage];
        assert_eq!(found["answer"], expected.text.as_str());
        assert_eq!((&found["passage"]["id"], &found["passage"]["text"]), (&json!(title), &json!(text)));
        assert_eq!((&found["rank"], &found["passage"]["score"]), (&json!(expected.passage + 1), &json!(2.5)));
        for (name, value) in [("score", expected.score), ("selection", expected.selection)] {
            assert!((found[name].as_f64().unwrap() - value).abs() < 1e-6, "{name} of {found}");
        }
        let place = [&found["start"], &found["end"]].map(|at| at.as_u64().unwrap() as usize);
        let cut: String = text.chars().skip(place[0]).take(place[1] - place[0]).collect();
        assert_eq!(cut, expected.text);
    }
    let one = ask(&with(Some(reader())), &json!({"question": question, "depth": 1, "top": 1})).await.json();
    assert_eq!((&one["read"], one["answers"].as_array().unwrap().len()), (&json!(1), 1));
}

#[tokio::test]
async fn a_question_that_cannot_be_answered_is_refused() {
    let app = with(Some(reader()));
    for (body, status, code) in [
        (json!({"question": "  "}), 422, "invalid_question"),
        (json!({"question": "a".repeat(4097)}), 422, "invalid_question"),
        // Few enough characters, and more tokens than the reader takes.
        (json!({"question": "a ".repeat(2000)}), 422, "invalid_question"),
        (json!({"question": "who", "lambda": -1}), 422, "invalid_question"),
        (json!({"question": "who", "depth": 0}), 422, "invalid_k"),
        (json!({"question": "who", "depth": 101}), 422, "invalid_k"),
        (json!({"question": "who", "depth": 2.5}), 422, "invalid_k"),
        (json!({"question": "who", "top": "3"}), 422, "invalid_k"),
        (json!({"question": "who", "depth": 2, "top": 3}), 422, "invalid_k"),
        (json!({"question": "who", "filter": {"title": "x"}}), 422, "invalid_filter"),
        (json!({"question": "who", "k": 3}), 400, "invalid_json"),
        (json!({"question": ["who"]}), 400, "invalid_json"),
    ] {
        assert_eq!(ask(&app, &body).await.error(), (status, code.to_owned()), "{body}");
    }
}

#[tokio::test]
async fn a_question_that_is_refused_is_told_what_this_route_takes() {
    let app = with(Some(reader()));
    let form = r#""depth": 20, "top": 3}"#;
    for (body, says, fix) in [
        (
            json!({"question": "who", "k": 3}),
            "the body is not a question to be answered: unknown field `k`",
            form,
        ),
        (json!({"question": "who", "method": "foo"}), "unknown variant `foo`", form),
        (json!({"question": "a".repeat(8000)}), "has 8000 characters", "at most 4096 characters"),
        (json!({"question": "a ".repeat(2000)}), "tokens", "or a shorter one"),
        (
            json!({"question": "who", "lambda": -3}),
            "`lambda` is -3, outside 0 to 1000000",
            "leave `lambda` out",
        ),
    ] {
        let reply = ask(&app, &body).await;
        assert!(reply.message().contains(says), "{says}: {}", reply.text());
        assert!(reply.fix().contains(fix) && !reply.fix().contains("\"k\""), "{says}: {}", reply.text());
    }
    let long = ask(&app, &json!({"question": "a".repeat(3 << 20)})).await;
    assert_eq!((long.error().0, long.fix().contains("a shorter question")), (413, true), "{}", long.text());
}

#[tokio::test]
async fn an_answer_of_too_many_bytes_is_refused_by_the_names_of_this_route() {
    let limits = Limits { max_answer: 100, ..Limits::default() };
    let app = with_options(Options { limits, ..Options::default() }, Some(reader()));
    let reply = ask(&app, &json!({"question": "where does the rhine rise", "depth": 3})).await;
    assert_eq!(reply.error(), (422, "answer_too_large".into()));
    assert_eq!(
        reply.message(),
        "the passages for depth = 3 come to more than the 100 bytes that one answer holds"
    );
    assert_eq!(reply.fix(), "send a smaller `depth`, or a smaller `top`");
}

#[test]
fn reading_ends_when_nobody_waits_for_the_answer() {
    let served = ServedReader::new(reader(), String::new());
    let (hits, cancel) = ([Hit::new(Passage::new("a", "", "Cats sleep."), 1.0)], CancelToken::new());
    assert!(served.answers("what sleeps", &hits, 1, &cancel).is_ok());
    cancel.cancel();
    let error = served.answers("what sleeps", &hits, 1, &cancel).unwrap_err().to_string();
    assert!(error.contains("stop"), "{error}");
    assert!(served.cost(40) == 2 * served.cost(20) && served.cost(1) > 0);
}
