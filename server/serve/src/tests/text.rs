//! Questions as text: refused by default, taken where the operator lets them in.

use super::*;
use crate::{Serving, TextSearch};
use dpr_core::EncodeError;
use dpr_index::CancelToken;
use dpr_index::search::{Fusion, Method};

/// One passage whose text says what was asked for; knows no words when `has_words` is false.
struct FakeText {
    has_words: bool,
}

impl TextSearch for FakeText {
    fn search_text(
        &self,
        question: &str,
        method: Method,
        fusion: Fusion,
        k: usize,
        filter: Option<&Filter>,
        _: &CancelToken,
    ) -> Result<Vec<Hit>, SearchError> {
        if method.needs_words() && !self.has_words {
            return Err(SearchError::NoSparse);
        }
        match question {
            "unlucky" => return Err(EncodeError::Device("out of memory".into()).into()),
            "long" => return Err(EncodeError::Length { row: 0, got: 600, limit: 512 }.into()),
            _ => {}
        }
        let filtered = filter.map(|filter| format!(" of {:?}", filter.ids)).unwrap_or_default();
        let title = format!("{} {fusion:?} {k}{filtered}", method.name());
        Ok(vec![Hit::new(Passage::new("p0", title, question), 1.5)])
    }

    fn default_method(&self) -> Method {
        if self.has_words { Method::Hybrid } else { Method::Dense }
    }
}

fn with_text(has_words: bool) -> (Router, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let state = AppState::new(Options::default());
    let search = Arc::new(FakeSearch { before: Box::new(|| {}) });
    let text = Some(Arc::new(FakeText { has_words }) as Arc<dyn TextSearch>);
    state.publish_all(Serving { model: Some(model(directory.path(), true)), text, ..Serving::new(search) });
    (app(state), directory)
}

async fn ask(app: &Router, body: &Value) -> Reply {
    let request = Request::post("/v1/search/text").header("content-type", "application/json");
    send(app, request.body(Body::from(body.to_string())).unwrap()).await
}

#[tokio::test]
async fn text_is_refused_unless_the_operator_lets_it_in() {
    let (app, _dir) = ready(Options::default());
    let reply = ask(&app, &json!({"question": "who won super bowl 50"})).await;
    assert_eq!(reply.error(), (403, "text_search_disabled".into()));
    assert!(!reply.text().contains("super bowl"));
}

#[tokio::test]
async fn where_text_is_let_in_it_is_ranked_as_asked() {
    let (app, _dir) = with_text(true);
    let reply = ask(&app, &json!({"question": "who won"})).await;
    let hit = &reply.json()["hits"][0];
    assert_eq!(
        (&hit["text"], &hit["title"]),
        (&json!("who won"), &json!("hybrid Linear { lambda: 1.1 } 10"))
    );
    let (timing, took) = (reply.header("server-timing"), reply.json()["took_ms"].as_f64());
    assert!(timing.contains("search;dur=") && took.is_some_and(|took| took >= 0.0), "{timing}");
    let reply = ask(&app, &json!({"question": "who won", "method": "bm25", "lambda": 20.0, "k": 3})).await;
    assert_eq!(reply.json()["hits"][0]["title"], "bm25 Linear { lambda: 20.0 } 3");
    let body = json!({"question": "who", "method": "bm25", "k": 3, "filter": {"ids": ["p7"]}});
    let reply = ask(&app, &body).await;
    assert_eq!(reply.json()["hits"][0]["title"], "bm25 Linear { lambda: 1.1 } 3 of {\"p7\"}");
    // Vectors are still searched as ever, and text still has no place among them.
    assert_eq!(search(&app, &good()).await.status, StatusCode::OK);
    let mut body = good();
    body["question"] = json!("who won");
    assert_eq!(search(&app, &body).await.error(), (403, "text_search_disabled".into()));
}

#[tokio::test]
async fn a_question_that_cannot_be_searched_for_is_refused() {
    let (app, _dir) = with_text(false);
    for (body, status, code) in [
        (json!({"question": "  "}), 422, "invalid_question"),
        (json!({"question": "a".repeat(4097)}), 422, "invalid_question"),
        (json!({"question": "who", "method": "hybrid"}), 422, "invalid_question"),
        (json!({"question": "who", "method": "dense", "lambda": 3e38}), 422, "invalid_question"),
        (json!({"question": "who", "method": "dense", "lambda": -1}), 422, "invalid_question"),
        (json!({"question": "who", "method": "dense", "k": 0}), 422, "invalid_k"),
        (json!({"question": "who", "method": "dense", "k": -1}), 422, "invalid_k"),
        (json!({"question": "who", "method": "dense", "k": 2.5}), 422, "invalid_k"),
        (json!({"question": "who", "method": "dense", "k": "10"}), 422, "invalid_k"),
        (json!({"question": "who", "method": "dense", "filter": {"title": "x"}}), 422, "invalid_filter"),
        (
            json!({"question": "who", "method": "dense", "filter": {"metadata": {"like": 1}}}),
            422,
            "invalid_filter",
        ),
        (json!({"question": "who", "method": "splade"}), 400, "invalid_json"),
        (json!({"question": "who", "method": null}), 400, "invalid_json"),
        (json!({"question": "who", "method": "dense", "vector": [1]}), 400, "invalid_json"),
        (json!({"method": "dense"}), 400, "invalid_json"),
    ] {
        assert_eq!(ask(&app, &body).await.error(), (status, code.to_owned()), "{body}");
    }
    assert_eq!(ask(&app, &json!({"question": "who", "method": "dense"})).await.status, StatusCode::OK);
    let reply = ask(&app, &json!({"question": "who"})).await;
    assert_eq!(reply.json()["hits"][0]["title"], "dense Linear { lambda: 1.1 } 10", "there are no words");
}

#[tokio::test]
async fn a_failure_of_the_encoder_is_the_servers_and_a_question_that_is_too_long_is_not() {
    let (app, _dir) = with_text(true);
    let reply = ask(&app, &json!({"question": "unlucky"})).await;
    assert_eq!(reply.error(), (500, "internal".into()));
    assert!(!reply.text().contains("out of memory"), "{}", reply.text());
    let reply = ask(&app, &json!({"question": "long"})).await;
    assert_eq!(reply.error(), (422, "invalid_question".into()));
}

#[tokio::test]
async fn a_search_by_text_that_is_refused_is_told_what_this_route_takes() {
    let (app, _dir) = with_text(false);
    let form = r#"send {"question": "text", "method": "hybrid", "bm25", "tfidf" or "dense", "k": 10}"#;
    for (body, says, fix) in [
        (
            json!({"question": "who", "method": "foo"}),
            "the body is not a search by text: unknown variant `foo`",
            form,
        ),
        (json!({"question": "who", "vector": [1]}), "unknown field `vector`", form),
        (
            json!({"question": "who", "lambda": -3}),
            "`lambda` is -3, outside 0 to 1000000",
            "leave `lambda` out",
        ),
        (json!({"question": "a".repeat(8000)}), "has 8000 characters", "at most 4096 characters"),
        (json!({"question": " "}), "`question` is blank", "at least one word"),
        (json!({"question": "who", "method": "bm25"}), "no inverted index", "a `method` that the index"),
    ] {
        let reply = ask(&app, &body).await;
        assert!(reply.message().contains(says), "{says}: {}", reply.text());
        assert!(reply.fix().contains(fix), "{says}: {}", reply.text());
    }
}
