//! `dpr eval`: whole articles drawn, questions that a corpus answers, patterns and empty aliases among the answers.

use crate::support::common;

use common::{Bench, fail, json, succeed};
use serde_json::{Value, json};

/// Three passages, and an index of their words.
fn prepared() -> Bench {
    let bench = Bench::new();
    let passages =
        "id\ttext\ttitle\n1\tRome lies on the Tiber\t\n2\tParis lies on the Seine\t\n3\tOslo lies north\t\n";
    bench.write("passages.tsv", passages);
    succeed(&mut bench.dpr(&[
        "index",
        "--passages",
        "passages.tsv",
        "--out",
        "index",
        "--sparse",
        "english",
    ]));
    bench
}

fn retrieval(bench: &Bench, questions: &str) -> std::process::Command {
    bench.dpr(&["eval", "retrieval", "--index", "index", "--questions", questions])
}

#[test]
fn accuracy_is_also_measured_over_the_questions_that_the_corpus_answers() {
    let bench = prepared();
    let questions = "on the Tiber?\t['Rome']\nnorth of what?\t['Seine']\nwhere is Lima?\t['Lima']\n";
    bench.write("questions.tsv", questions);
    let report = json(retrieval(&bench, "questions.tsv").args(["--answerable", "--k", "1", "--json"]));
    let bm25 = &report["methods"][0];
    assert_eq!((&report["questions"], &report["answerable"]), (&json!(3), &json!(2)));
    assert_eq!(bm25["top_k"][0]["accuracy"], 1.0 / 3.0);
    assert_eq!(
        (&bm25["of_answerable"]["questions"], &bm25["of_answerable"]["top_k"][0]["accuracy"]),
        (&json!(2), &json!(0.5))
    );
    let table = succeed(retrieval(&bench, "questions.tsv").args(["--answerable", "--k", "1"]));
    assert!(
        table.contains("of the 2 questions (66.7 %) for which the corpus holds a passage with the answer"),
        "{table}"
    );
    assert!(json(retrieval(&bench, "questions.tsv").arg("--json")).get("answerable").is_none());
}

#[test]
fn an_alias_of_which_nothing_is_left_does_not_end_an_evaluation() {
    let bench = prepared();
    bench.write("questions.tsv", "on the Tiber?\t['\u{200b}', 'Rome']\n");
    let output = retrieval(&bench, "questions.tsv").args(["--k", "1", "--json"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && told.contains("1 answers hold no letter, digit or sign"), "{told}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["methods"][0]["top_k"][0]["accuracy"], 1.0);
    bench.write("questions.tsv", "on the Tiber?\t['\u{200b}']\n");
    let error = fail(&mut retrieval(&bench, "questions.tsv"));
    assert!(error.contains("all of its answers") && error.contains("leave the question out"), "{error}");
}

#[test]
fn regular_expressions_are_answers_that_predictions_match() {
    let bench = Bench::new();
    bench.write(
        "trec.tsv",
        "7\tfactoid\twho?\tNeil( Armstrong)?\n8\tfactoid\twhen?\t19?69\n9\tfactoid\twhat?\t(no\n",
    );
    bench.write("predictions.json", r#"{"7": "neil armstrong", "8": "in 1969", "9": "no"}"#);
    let answers = ["eval", "answers", "--questions", "trec.tsv", "--predictions", "predictions.json"];
    let report = json(bench.dpr(&answers).arg("--json"));
    assert_eq!((&report["exact_match"], &report["invalid_patterns"]), (&json!(1.0 / 3.0), &json!(1)));
    let table = succeed(&mut bench.dpr(&answers));
    assert!(table.contains("1 answer patterns are not regular expressions"), "{table}");
}

/// SQuAD json of 8 articles with 2 paragraphs of 5 questions each; the first question of every article has the same
/// text.
fn squad() -> Value {
    let paragraph = |article: usize, paragraph: usize| {
        let question = |number: usize| {
            let text = match (paragraph, number) {
                (0, 0) => "What is it?".to_owned(),
                _ => format!("What is {article} {paragraph} {number}?"),
            };
            let answers = json!([{"text": "it", "answer_start": 0}]);
            json!({"id": format!("{article}-{paragraph}-{number}"), "question": text, "answers": answers})
        };
        json!({"context": format!("it is {article} {paragraph}"), "qas": (0..5).map(question).collect::<Vec<_>>()})
    };
    let article = |number: usize| json!({"title": format!("A{number}"), "paragraphs": [paragraph(number, 0), paragraph(number, 1)]});
    json!({"version": "1.1", "data": (0..8).map(article).collect::<Vec<_>>()})
}

#[test]
fn systems_are_compared_by_whole_articles() {
    let bench = Bench::new();
    let squad = squad();
    bench.write("squad.json", squad.to_string());
    let asked: Vec<(usize, &Value)> = squad["data"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .flat_map(|(article, value)| {
            value["paragraphs"].as_array().unwrap().iter().map(move |p| (article, p))
        })
        .flat_map(|(article, p)| p["qas"].as_array().unwrap().iter().map(move |q| (article, &q["question"])))
        .collect();
    for (name, wins) in [("a.json", 0), ("b.json", 6)] {
        let result = |(article, question): &(usize, &Value)| {
            let found =
                json!([{"id": "1", "title": "", "text": "t", "score": 1.0, "has_answer": *article < wins}]);
            json!({"question": question, "answers": ["it"], "ctxs": found})
        };
        bench.write(name, json!(asked.iter().map(result).collect::<Vec<_>>()).to_string());
    }
    let compare = |more: &[&str]| {
        let mut command = bench.dpr(&["eval", "compare", "a.json", "b.json", "--k", "1"]);
        command.args(more);
        command
    };
    let by =
        |cluster: &str| json(compare(&["--cluster", cluster, "--questions", "squad.json"]).arg("--json"));
    let (alone, passages, articles) = (json(compare(&[]).arg("--json")), by("passage"), by("article"));
    assert_eq!(articles["clusters"], json!({"by": "article", "count": 8}));
    assert_eq!(passages["clusters"], json!({"by": "passage", "count": 16}));
    assert!(alone.get("clusters").is_none());
    let width = |report: &Value| {
        let found = &report["comparisons"][0];
        assert_eq!(found["difference"], 0.75);
        found["high"].as_f64().unwrap() - found["low"].as_f64().unwrap()
    };
    let (alone, passages, articles) = (width(&alone), width(&passages), width(&articles));
    assert!(alone < 0.7 * passages && passages < 0.9 * articles, "{alone} {passages} {articles}");
    let table = succeed(&mut compare(&["--cluster", "article", "--questions", "squad.json"]));
    assert!(table.contains("Paired bootstrap of whole articles (8)"), "{table}");
    bench.write("other.json", squad.to_string().replace("What is it?", "What was it?"));
    let error = fail(&mut compare(&["--cluster", "article", "--questions", "other.json"]));
    assert!(error.contains("does not say which passage \"What is it?\" is about"), "{error}");
}

#[test]
fn questions_on_which_systems_differ_are_shown() {
    let bench = Bench::new();
    let file = |right: [bool; 3]| {
        let result = |(number, right): (usize, bool)| {
            let passage = |place: usize, text: &str, has_answer: bool| {
                json!({"id": format!("{number}-{place}"), "title": "Finals", "text": text, "score": 1.0,
                       "has_answer": has_answer})
            };
            let first = if right { "The Broncos won." } else { "A halftime show." };
            let ctxs = [passage(1, first, right), passage(2, "Denver.", true)];
            json!({"question": format!("who won final {number}?"), "answers": ["Broncos"], "ctxs": ctxs})
        };
        json!(right.into_iter().enumerate().map(result).collect::<Vec<_>>()).to_string()
    };
    bench.write("a.json", file([true, false, true]));
    bench.write("b.json", file([true, true, false]));
    let compare = |more: &[&str]| {
        let mut command = bench.dpr(&["eval", "compare", "BM25=a.json", "DPR=b.json", "--k", "1"]);
        command.args(more);
        command
    };
    let table = succeed(&mut compare(&["--examples", "5"]));
    let shown: Vec<&str> = table.lines().skip_while(|line| !line.starts_with("who won")).collect();
    assert_eq!(
        shown,
        [
            "who won final 1?",
            "  DPR has a right passage within 1, BM25 has not",
            "  DPR (right at 1): Finals | The Broncos won.",
            "  BM25 (right at 2): Finals | A halftime show.",
            "",
            "who won final 2?",
            "  BM25 has a right passage within 1, DPR has not",
            "  BM25 (right at 1): Finals | The Broncos won.",
            "  DPR (right at 2): Finals | A halftime show.",
        ]
    );
    let report = json(compare(&["--examples", "1"]).arg("--json"));
    assert_eq!(report["examples"][0]["winner"], "DPR");
    assert_eq!(report["examples"][1]["lost"]["right_at"], 2);
    assert!(json(compare(&[]).arg("--json")).get("examples").is_none());
    assert_eq!(compare(&["--examples", "1001"]).output().unwrap().status.code(), Some(2));
}
