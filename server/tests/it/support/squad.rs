//! DPR training json out of the SQuAD dev set that the demo page ships: each question with its paragraph, and a
//! neighbouring paragraph of the same article as the hard negative.

use std::io::Read as _;
use std::ops::Range;
use std::path::Path;

use serde_json::{Value, json};

/// The dev set.
fn squad() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web-demo/corpus/squad-dev-v1.1.json.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(fs_err::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// These articles in SQuAD's form, of each the first `paragraphs` paragraphs, and of each of these its first two
/// questions.
pub(crate) fn articles(articles: Range<usize>, paragraphs: usize) -> Value {
    let mut squad = squad();
    let all = squad["data"].as_array_mut().unwrap();
    *all = all.drain(articles).collect();
    for article in all {
        let of_article = article["paragraphs"].as_array_mut().unwrap();
        of_article.truncate(paragraphs);
        for paragraph in of_article {
            paragraph["qas"].as_array_mut().unwrap().truncate(2);
        }
    }
    squad
}

/// Up to `per_article` questions of each of these articles.
pub(crate) fn items(articles: Range<usize>, per_article: usize) -> Vec<Value> {
    let squad = squad();
    let mut items = Vec::new();
    for article in &squad["data"].as_array().unwrap()[articles] {
        let title = article["title"].as_str().unwrap().replace('_', " ");
        let paragraphs = article["paragraphs"].as_array().unwrap();
        let passage = |number: usize| {
            let paragraph = &paragraphs[number % paragraphs.len()];
            json!({ "title": title, "text": paragraph["context"] })
        };
        let questions = paragraphs.iter().enumerate().flat_map(|(number, paragraph)| {
            paragraph["qas"].as_array().unwrap().iter().map(move |qa| (number, qa))
        });
        items.extend(questions.take(per_article).map(|(number, qa)| {
            json!({
                "question": qa["question"],
                "answers": [qa["answers"][0]["text"]],
                "positive_ctxs": [passage(number)],
                "negative_ctxs": [],
                "hard_negative_ctxs": [passage(number + 1)],
            })
        }));
    }
    items
}
