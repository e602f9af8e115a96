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
fn columns_of_high_ranks_stand_apart_and_in_line() {
    let bench = prepared();
    bench.write("questions.tsv", "on the Tiber?\t['Rome']\n");
    bench.write("qrels.txt", "1 0 1 1\n");
    let ks = ["--k", "1,10000,100000"];
    let lines = |table: String| -> Vec<String> { table.lines().skip(1).map(str::to_owned).collect() };
    let mut judged = retrieval(&bench, "questions.tsv");
    let judged = lines(succeed(judged.args(ks).args(["--qrels", "qrels.txt", "--out", "results"])));
    let heads: Vec<&str> = judged[0].split_whitespace().collect();
    let ranks = ["recall@1", "recall@10000", "recall@100000", "questions/s"];
    assert_eq!(heads[..6], ["method", "top-1", "top-10000", "top-100000", "MRR@10", "nDCG@10"]);
    assert_eq!(heads[6..], ranks);
    assert_eq!(judged[1].split_whitespace().count(), heads.len(), "{judged:?}");
    assert_eq!(judged[0].len(), judged[1].len(), "{judged:?}");
    let answerable = lines(succeed(retrieval(&bench, "questions.tsv").args(ks).arg("--answerable")));
    let of_these: Vec<&str> = answerable[3].split_whitespace().collect();
    assert_eq!(of_these, ["bm25", "100.00", "100.00", "100.00"], "{answerable:?}");
    let run = ["eval", "run", "--run", "results/bm25.run.gz", "--qrels", "qrels.txt"];
    let run = lines(succeed(bench.dpr(&run).args(ks)));
    assert!(run.len() == 15 && run.iter().all(|line| line.len() == run[0].len()), "{run:?}");
}

#[test]
fn an_alias_of_which_nothing_is_left_does_not_end_an_evaluation() {
    let bench = prepared();
    bench.write("questions.tsv", "on the Tiber?\t['\u{200b}', 'Rome']\n");
    let output = retrieval(&bench, "questions.tsv").args(["--k", "1", "--json"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && told.contains("1 answer holds no letter, digit or sign and is left out"),
        "{told}"
    );
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
    assert!(table.contains("1 answer pattern is not a regular expression and never matches"), "{table}");
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
    assert_eq!(articles["clusters"], json!({"by": "article", "count": 8, "too_few": true}));
    assert_eq!(passages["clusters"], json!({"by": "passage", "count": 16, "too_few": true}));
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
    assert!(table.contains("WARNING: an interval of 8 articles is not to be trusted"), "{table}");
    assert!(table.contains("at least 20 are needed"), "{table}");
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

/// A retriever result of one question for each row: whether each of its passages is right, best first.
fn result_file(rows: &[Vec<bool>]) -> String {
    let result = |(number, row): (usize, &Vec<bool>)| {
        let passage = |(place, right): (usize, &bool)| {
            let id = place.to_string();
            json!({"id": id, "title": "", "text": "t", "score": 1.0, "has_answer": right})
        };
        let ctxs: Vec<_> = row.iter().enumerate().map(passage).collect();
        json!({"question": format!("question {number}?"), "answers": ["t"], "ctxs": ctxs})
    };
    json!(rows.iter().enumerate().map(result).collect::<Vec<_>>()).to_string()
}

#[test]
fn an_interval_of_few_articles_is_not_to_be_trusted_and_one_article_is_refused() {
    let bench = Bench::new();
    // Articles of two questions each.
    let squad = |articles: usize| {
        let article = |number: usize| {
            let question = |number: usize| {
                let answers = json!([{"text": "it", "answer_start": 0}]);
                json!({"id": format!("{number}"), "question": format!("question {number}?"), "answers": answers})
            };
            let qas = [question(2 * number), question(2 * number + 1)];
            json!({"title": format!("A{number}"), "paragraphs": [{"context": format!("it is {number}"), "qas": qas}]})
        };
        json!({"version": "1.1", "data": (0..articles).map(article).collect::<Vec<_>>()}).to_string()
    };
    let compare = |articles: usize| {
        bench.write("squad.json", squad(articles));
        for (name, of) in [("a.json", 3_usize), ("b.json", 2)] {
            let rows: Vec<_> = (0..2 * articles).map(|number| vec![number.is_multiple_of(of)]).collect();
            bench.write(name, result_file(&rows));
        }
        let mut command = bench.dpr(&["eval", "compare", "a.json", "b.json", "--k", "1"]);
        command.args(["--cluster", "article", "--questions", "squad.json"]);
        command
    };
    let (few, enough) = (succeed(&mut compare(19)), succeed(&mut compare(20)));
    assert!(few.contains("WARNING: an interval of 19 articles is not to be trusted"), "{few}");
    assert!(few.contains("at least 20 are needed; give questions about more articles"), "{few}");
    assert!(!enough.contains("WARNING"), "{enough}");
    assert_eq!(json(compare(19).arg("--json"))["clusters"]["too_few"], true);
    assert_eq!(json(compare(20).arg("--json"))["clusters"]["too_few"], false);
    let error = fail(&mut compare(1));
    for told in ["squad.json", "1 article", "the results (2)", "20 articles or more", "leave out --cluster"] {
        assert!(error.contains(told), "no {told}: {error}");
    }
}

#[test]
fn default_ranks_that_cannot_be_told_are_left_out_and_those_asked_for_are_refused() {
    let bench = Bench::new();
    bench.write("a.json", result_file(&[vec![false; 7], vec![true; 3]]));
    bench.write("b.json", result_file(&[vec![true; 30], vec![true; 30]]));
    let compare = |more: &[&str]| {
        let mut command = bench.dpr(&["eval", "compare", "a.json", "b.json"]);
        command.args(more);
        command
    };
    let output = compare(&["--json"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    assert!(
        told.contains("a.json lists at most 7 passages a question") && told.contains("top-20, top-100"),
        "{told}"
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ranks =
        |list: &Value| list.as_array().unwrap().iter().map(|row| row["k"].clone()).collect::<Vec<_>>();
    assert_eq!(ranks(&report["systems"][0]["top_k"]), [1, 5]);
    assert_eq!(ranks(&report["comparisons"]), [1, 5]);
    assert!(succeed(&mut compare(&[])).contains("(1 question won, 0 lost)"));
    let error = fail(&mut compare(&["--k", "1,20"]));
    assert!(error.contains("at most 7 passages a question, so top-20 cannot be told"), "{error}");
    bench.write("a.json", result_file(&[vec![], vec![]]));
    assert!(fail(&mut compare(&[])).contains("a.json lists no passages"));
}

#[test]
fn a_file_that_is_no_retriever_result_is_refused_with_the_one_that_is_wanted() {
    let bench = Bench::new();
    bench.write("right.json", result_file(&[vec![true]]));
    bench.write("x.run", "i1 Q0 d1 1 2.0 bm25\n");
    bench.write("metrics.json", "{\"questions\": 1}");
    bench.write("training.json", "[{\"question\": \"q?\", \"answers\": []}]");
    for name in ["x.run", "metrics.json", "training.json"] {
        let compare = bench.dpr(&["eval", "compare", name, "right.json", "--k", "1"]);
        let answers = bench.dpr(&["eval", "answers", "--reader", "reader", "--results", name]);
        for mut command in [compare, answers] {
            let error = fail(&mut command);
            for told in [name, "NAME.json.gz that `dpr eval retrieval --out` writes", "`dpr eval run`"] {
                assert!(error.contains(told), "no {told}: {error}");
            }
        }
    }
    let cut = result_file(&[vec![true], vec![true]]).replace("\"question 1?\"", "7");
    bench.write("cut.json", cut);
    let error = fail(&mut bench.dpr(&["eval", "compare", "cut.json", "right.json", "--k", "1"]));
    assert!(error.contains("item 2") && !error.contains("NAME.json.gz"), "{error}");
    bench.write("short.run", "q Q0 d 1 2.0\n");
    bench.write("qrels.txt", "q 0 d 1\n");
    let error = fail(&mut bench.dpr(&["eval", "run", "--run", "short.run", "--qrels", "qrels.txt"]));
    assert!(error.contains("expected 6 separated by white space"), "{error}");
}

/// SQuAD json of one question with this id.
fn one_question(id: &str) -> String {
    let answers = json!([{"text": "Rome", "answer_start": 0}]);
    let qas = json!([{"id": id, "question": "on the Tiber?", "answers": answers}]);
    let paragraph = json!({"context": "Rome lies on the Tiber", "qas": qas});
    json!({"version": "1.1", "data": [{"title": "T", "paragraphs": [paragraph]}]}).to_string()
}

#[test]
fn a_run_that_fails_leaves_no_result_files() {
    let bench = prepared();
    bench.write("spaced.json", one_question("q 1"));
    bench.write("good.json", one_question("q1"));
    let measure = |index: &str, questions: &str| {
        let mut command = bench.dpr(&["eval", "retrieval", "--index", index, "--questions", questions]);
        command.args(["--by", "answer", "--methods", "bm25,tfidf", "--out", "results"]);
        command
    };
    let error = fail(&mut measure("index", "spaced.json"));
    for told in ["spaced.json", "question \"q 1\"", "white space", "rename it"] {
        assert!(error.contains(told), "no {told}: {error}");
    }
    assert!(!bench.path("results").exists(), "said before anything is made");
    let error = fail(retrieval(&bench, "good.json").args(["--by", "answer", "--out", "index"]));
    assert!(error.contains("index holds `current`") && error.contains("give another --out"), "{error}");
    assert!(!bench.path("index/metrics.json").exists(), "an index takes no result files");
    bench.write("spaced.tsv", "id\ttext\ttitle\n1 a\tRome lies on the Tiber\t\n");
    succeed(&mut bench.dpr(&["index", "--passages", "spaced.tsv", "--out", "spaced", "--sparse", "english"]));
    let error = fail(&mut measure("spaced", "good.json"));
    assert!(error.contains("spaced: passage \"1 a\""), "{error}");
    let names = || {
        let entries = fs_err::read_dir(bench.path("results")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert!(names().is_empty(), "{:?}", names());
    // The file that is written last cannot be put in its place.
    fs_err::create_dir(bench.path("results/metrics.json")).unwrap();
    let error = fail(&mut measure("index", "good.json"));
    assert!(error.contains("metrics.json is a directory"), "{error}");
    assert_eq!(names(), ["metrics.json"]);
    fs_err::remove_dir(bench.path("results/metrics.json")).unwrap();
    succeed(&mut measure("index", "good.json"));
    let all =
        ["accuracy.svg", "bm25.json.gz", "bm25.run.gz", "metrics.json", "tfidf.json.gz", "tfidf.run.gz"];
    assert_eq!(names(), all);
}

#[test]
fn training_data_is_named_as_such_where_questions_are_wanted() {
    let bench = prepared();
    let made =
        r#"[{"question": "on the Tiber?", "answers": [], "positive_ctxs": [{"title": "", "text": "Rome"}]}]"#;
    bench.write("made.json", made);
    let error = fail(&mut retrieval(&bench, "made.json"));
    for told in
        ["made.json is DPR training json, not a file of questions", "`dpr data questions --queries FILE"]
    {
        assert!(error.contains(told), "no {told}: {error}");
    }
}

#[test]
fn one_is_not_told_as_many() {
    let bench = prepared();
    bench.write("one.json", one_question("q1"));
    bench.write("said.json", r#"{"q1": "Rome", "q9": "x"}"#);
    let measured =
        succeed(retrieval(&bench, "one.json").args(["--by", "answer", "--answerable", "--out", "results"]));
    assert!(measured.starts_with("1 question, 3 passages: "), "{measured}");
    assert!(measured.contains("of the 1 question (100.0 %)"), "{measured}");
    let answers = ["eval", "answers", "--questions", "one.json", "--predictions", "said.json"];
    let answered = succeed(&mut bench.dpr(&answers));
    assert!(answered.starts_with("1 question\n"), "{answered}");
    assert!(answered.contains("1 prediction is for no question of the set; it does not count"), "{answered}");
    bench.write("other.json", r#"{"q9": "x"}"#);
    let error = fail(bench.dpr(&answers[..4]).args(["--predictions", "other.json"]));
    assert!(
        error.contains("of 1 prediction none is for one of the 1 question (the first is \"q1\")"),
        "{error}"
    );
    bench.write("qrels.txt", "q1 0 1 1\nq2 0 1 1\n");
    let judged =
        succeed(&mut bench.dpr(&["eval", "run", "--run", "results/bm25.run.gz", "--qrels", "qrels.txt"]));
    assert!(judged.contains("1 of them has no ranking and counts 0"), "{judged}");
}
