//! From documents to measured retrieval and training data, as a person runs it.

use crate::support::common;

use common::{Bench, fail, fixtures, json, succeed};
use dpr_core::DeviceChoice;
use dpr_data::{TrainingContext, read_results, read_run, read_training};
use dpr_encode::model::CrossEncoderDir;
use serde_json::Value;

/// Three articles, two blocks of nine and eight words each.
const ARTICLES: &str = "id\ttext\ttitle
c\tCats sleep most of the day at home . Whiskers tell a cat how wide something is .\tCats
d\tDogs bark at strangers and wag their tails . A greyhound runs as fast as 72 km .\tDogs
m\tThe Moon goes round the Earth in days . Neil Armstrong walked on it in 1969 once\tMoon
";

const QUESTIONS: &str = "who walked on the moon in 1969?\t['Neil Armstrong']
how fast does a greyhound run?\t['72 km', '72 kilometres']
what do whiskers tell a cat?\t['how wide']
what is the capital of Peru?\t['Lima']
";

/// `blocks.tsv`, questions, and `index`, which has vectors and words.
fn prepared() -> Bench {
    let bench = Bench::new();
    bench.write("articles.tsv", ARTICLES);
    bench.write("questions.tsv", QUESTIONS);
    let split = ["data", "split", "--input", "articles.tsv", "--out", "blocks.tsv", "--words", "9", "--json"];
    assert_eq!(json(&mut bench.dpr(&split))["documents"], 3);
    let encode =
        ["encode", "--model", "model", "--passages", "blocks.tsv", "--out", "vectors", "--device", "cpu"];
    succeed(&mut bench.dpr(&encode));
    let index = ["index", "--vectors", "vectors", "--out", "index", "--kind", "exact", "--sparse", "english"];
    succeed(&mut bench.dpr(&index));
    bench
}

fn eval(bench: &Bench, more: &[&str]) -> std::process::Command {
    let mut command = bench.dpr(&["eval", "retrieval", "--index", "index", "--questions", "questions.tsv"]);
    command.args(more);
    command
}

/// `dpr data mine` from `index` for `questions` into `out`.
fn mine(bench: &Bench, index: &str, questions: &str, out: &str) -> std::process::Command {
    bench.dpr(&["data", "mine", "--index", index, "--questions", questions, "--out", out])
}

fn method<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["methods"].as_array().unwrap().iter().find(|method| method["method"] == name).unwrap()
}

#[test]
fn all_methods_are_measured_side_by_side_and_written_down() {
    let bench = prepared();
    let all = ["--model", "model", "--device", "cpu", "--methods", "bm25,tfidf,dense,hybrid", "--k", "1,2"];
    let report = json(eval(&bench, &all).args(["--out", "results", "--json"]));
    assert_eq!((&report["questions"], &report["judged_by"]), (&4.into(), &"answer".into()));
    for name in ["bm25", "tfidf"] {
        // Nothing tells of Lima; the other three share words with the block that answers them.
        assert_eq!(method(&report, name)["top_k"][0]["accuracy"], 0.75, "{name}");
    }
    let written: Value =
        serde_json::from_slice(&fs_err::read(bench.path("results/metrics.json")).unwrap()).unwrap();
    assert_eq!(written, report);
    assert!(fs_err::read_to_string(bench.path("results/accuracy.svg")).unwrap().contains("hybrid"));
    for name in ["bm25", "tfidf", "dense", "hybrid"] {
        let results = read_results(&bench.path(&format!("results/{name}.json.gz"))).unwrap();
        let results: Vec<_> = results.map(Result::unwrap).collect();
        let run = read_run(&bench.path(&format!("results/{name}.run.gz"))).unwrap();
        assert_eq!(results.len(), 4);
        for (result, ranked) in results.iter().zip(&run) {
            let ids: Vec<_> = result.ctxs.iter().map(|context| context.id.as_str()).collect();
            assert_eq!(ids, ranked.hits.iter().map(|hit| hit.passage.as_str()).collect::<Vec<_>>());
            assert!(result.ctxs.windows(2).all(|pair| pair[0].score >= pair[1].score));
        }
        let hits =
            results.iter().filter(|result| result.ctxs.iter().take(1).any(|context| context.has_answer));
        assert_eq!(hits.count() as f64 / 4.0, method(&report, name)["top_k"][0]["accuracy"], "{name}");
    }
    let table = succeed(&mut eval(&bench, &all));
    assert!(table.contains("a passage with the answer among the first k"), "{table}");

    let compare =
        ["eval", "compare", "BM25=results/bm25.json.gz", "results/dense.json.gz", "--k", "1,2", "--json"];
    let compared = json(&mut bench.dpr(&compare));
    let (bm25, dense) = (&compared["systems"][0], &compared["systems"][1]);
    assert_eq!((&bm25["name"], &bm25["top_k"]), (&"BM25".into(), &method(&report, "bm25")["top_k"]));
    assert_eq!(dense["top_k"], method(&report, "dense")["top_k"]);
    let alike = ["eval", "compare", "results/bm25.json.gz", "results/dense.json.gz"];
    let error = fail(bench.dpr(&alike).args(["--k", "1,100"]));
    assert!(error.contains("top-100 cannot be told"), "{error}");
}

#[test]
fn words_need_no_model_and_vectors_do() {
    let bench = prepared();
    succeed(&mut bench.dpr(&["index", "--passages", "blocks.tsv", "--out", "bm25", "--sparse", "english"]));
    let search = |index: &str, more: &[&str]| {
        let mut command = bench.dpr(&["search", "--index", index, "--json", "who walked on the moon?"]);
        command.args(more);
        command
    };
    let alone = json(&mut search("bm25", &["--method", "bm25"]));
    assert!(alone["hits"][0]["text"].as_str().unwrap().contains("walked on it"), "{alone}");
    assert_eq!(alone["hits"], json(&mut search("index", &["--method", "bm25"]))["hits"]);
    let error = fail(&mut search("index", &["--method", "hybrid"]));
    assert!(error.contains("need --model"), "{error}");
    let with_model = ["--model", "model", "--device", "cpu", "--method"];
    let error = fail(search("bm25", &with_model).arg("dense"));
    assert!(error.contains("no vectors"), "{error}");
    let hybrid = json(search("index", &with_model).args(["hybrid", "--lambda", "0"]));
    let ids = |answer: &Value| {
        let shared = alone["hits"].as_array().unwrap().len();
        let hits = answer["hits"].as_array().unwrap().iter().take(shared);
        hits.map(|hit| hit["id"].clone()).collect::<Vec<_>>()
    };
    // The last is equal to all that BM25 did not find: they get the least score.
    let last = ids(&alone).len() - 1;
    assert!(last > 0 && ids(&hybrid)[..last] == ids(&alone)[..last], "without weight vectors change nothing");
    // More passages than each list has by its depth: all six, and no more.
    for k in ["2", "6", "7"] {
        let found = json(search("index", &with_model).args(["hybrid", "--hybrid-depth", "1", "--k", k]));
        assert_eq!(found["hits"].as_array().unwrap().len(), k.parse::<usize>().unwrap().min(6), "{found}");
    }
    for weight in ["inf", "-1"] {
        let error = fail(search("index", &with_model).args(["hybrid", "--lambda", weight]));
        assert!(error.contains("is not a weight"), "{error}");
    }
    succeed(&mut bench.dpr(&["index", "--vectors", "vectors", "--out", "dense", "--kind", "exact"]));
    for method in ["bm25", "hybrid"] {
        let error = fail(search("dense", &with_model).arg(method));
        assert!(error.contains("--sparse"), "{method}: {error}");
    }
}

#[test]
fn the_weight_of_hybrid_ranking_is_tuned() {
    let bench = prepared();
    let tune = ["eval", "tune-hybrid", "--model", "model", "--device", "cpu", "--index", "index", "--json"];
    let report = json(bench.dpr(&tune).args(["--questions", "questions.tsv"]));
    let tried = report["tried"].as_array().unwrap();
    let reciprocal = |tried: &Value| tried["mrr_at_10"].as_f64().unwrap();
    let best = tried.iter().find(|tried| tried["lambda"] == report["best_lambda"]).unwrap();
    assert!(tried.len() > 20 && tried.iter().all(|tried| reciprocal(tried) <= reciprocal(best)));
    let lambda = report["best_lambda"].to_string();
    let all = ["--model", "model", "--device", "cpu", "--methods", "hybrid", "--lambda", &lambda, "--json"];
    assert_eq!(method(&json(&mut eval(&bench, &all)), "hybrid")["mrr_at_10"], best["mrr_at_10"]);
}

#[test]
fn a_part_of_the_questions_can_be_asked() {
    let bench = prepared();
    let part = |more: &[&str]| {
        let report = json(eval(&bench, &["--json"]).args(more));
        (report["questions"].as_u64().unwrap(), method(&report, "bm25")["top_k"][0]["accuracy"].clone())
    };
    // Only the last question has no answer in the index.
    assert_eq!(part(&["--limit", "3"]), (3, 1.0.into()));
    assert_eq!(part(&["--skip", "1", "--limit", "2"]), (2, 1.0.into()));
    assert_eq!(part(&["--skip", "2", "--limit", "9"]), (2, 0.5.into()));
    assert_eq!(part(&["--skip", "3"]), (1, 0.0.into()));
    let error = fail(&mut eval(&bench, &["--skip", "4", "--limit", "1"]));
    for told in ["questions.tsv", "--skip 4", "none of its 4 questions", "--limit"] {
        assert!(error.contains(told), "no {told}: {error}");
    }
    bench.write("qrels.tsv", "query-id\tcorpus-id\tscore\n1\tm#1\t2\n3\tc#1\t1\n");
    assert_eq!(part(&["--qrels", "qrels.tsv", "--skip", "1"]), (1, 1.0.into()), "of those judged");
    let error = fail(&mut eval(&bench, &["--qrels", "qrels.tsv", "--skip", "2"]));
    assert!(error.contains("none of its 2 judged questions"), "{error}");
    let tune = ["eval", "tune-hybrid", "--model", "model", "--device", "cpu", "--index", "index", "--json"];
    let tuned = json(bench.dpr(&tune).args(["--questions", "questions.tsv", "--skip", "2"]));
    assert_eq!(tuned["tried"][0]["questions"], 2);
    assert!(tuned["tried"][0]["mrr_at_10"].as_f64().unwrap() > 0.0, "{tuned}");
    // Every weight finds nothing for the last question: none of them is the best.
    let error = fail(bench.dpr(&tune).args(["--questions", "questions.tsv", "--skip", "3"]));
    for told in ["questions.tsv", "no question (of 1)", "a passage with the answer", "of index at any weight"]
    {
        assert!(error.contains(told), "no {told}: {error}");
    }
}

#[test]
fn judged_passages_are_measured_as_trec_eval_does() {
    let bench = prepared();
    bench.write("qrels.tsv", "query-id\tcorpus-id\tscore\n1\tm#1\t2\n1\tm#0\t1\n2\td#1\t1\n3\tc#1\t0\n");
    let report = json(eval(&bench, &["--qrels", "qrels.tsv", "--json"]).args(["--k", "1,20"]));
    let bm25 = &method(&report, "bm25")["qrels"];
    // The fourth question is not judged: nothing can be said of it.
    assert_eq!((&report["questions"], &report["unjudged"]), (&3.into(), &1.into()));
    assert_eq!((&bm25["questions"], &bm25["without_ranking"]), (&3.into(), &0.into()));
    let first = json(eval(&bench, &["--qrels", "qrels.tsv", "--json"]).args(["--limit", "1"]));
    let first = method(&first, "bm25");
    assert_eq!((&first["top_k"][0]["accuracy"], &first["qrels"]["mrr_at_10"]), (&1.0.into(), &1.0.into()));
    assert_eq!(
        bm25["recall"][1]["recall"].as_f64().unwrap(),
        2.0 / 3.0,
        "all of two, nothing to find for one"
    );
    let table = succeed(&mut eval(&bench, &["--qrels", "qrels.tsv"]));
    assert!(table.contains("nDCG@10") && table.contains("recall@100"), "{table}");
    succeed(eval(&bench, &["--qrels", "qrels.tsv"]).args(["--out", "judged"]));
    let run = ["eval", "run", "--run", "judged/bm25.run.gz", "--qrels", "qrels.tsv", "--k", "1,20", "--json"];
    assert_eq!(&json(&mut bench.dpr(&run)), bm25);
    // Passages are ordered by their scores, whatever the ranks of the file say.
    bench.write("unranked.run", "1 Q0 m#1 0 2.0 x\n1 Q0 m#0 0 1.0 x\n");
    bench.write("ranked.run", "1 Q0 m#1 1 2.0 x\n1 Q0 m#0 2 1.0 x\n");
    let [unranked, ranked] = ["unranked.run", "ranked.run"]
        .map(|run| json(&mut bench.dpr(&["eval", "run", "--run", run, "--qrels", "qrels.tsv", "--json"])));
    assert_eq!(unranked, ranked);
    bench.write("twice.run", "1 Q0 m#1 1 2.0 x\n1 Q0 m#1 2 1.0 x\n");
    let error = fail(&mut bench.dpr(&["eval", "run", "--run", "twice.run", "--qrels", "qrels.tsv"]));
    assert!(error.contains("query `1` has passage `m#1` at line 1 and again at line 2"), "{error}");
    bench.write("other.tsv", "query-id\tcorpus-id\tscore\n1\tz#9\t1\n");
    let error = fail(&mut eval(&bench, &["--qrels", "other.tsv"]));
    assert!(error.contains("\"z#9\", which is not in the corpus"), "{error}");
    // Judged, and nothing relevant: figures of 0 would say that nothing was found.
    bench.write("none.tsv", "query-id\tcorpus-id\tscore\n1\tm#1\t-1\n2\td#1\t0\n");
    let run = bench.dpr(&["eval", "run", "--run", "judged/bm25.run.gz", "--qrels", "none.tsv"]);
    for mut command in [eval(&bench, &["--qrels", "none.tsv"]), run] {
        let error = fail(&mut command);
        for told in ["none.tsv: ", "no judged question (of 2) has a relevant passage", "above 0"] {
            assert!(error.contains(told), "no {told}: {error}");
        }
    }
    bench.write("headless.tsv", "1\tm#1\t2\n");
    let error = fail(&mut eval(&bench, &["--qrels", "headless.tsv"]));
    assert!(error.contains("header `query-id"), "{error}");
}

#[test]
fn of_judged_passages_with_equal_scores_the_later_id_comes_first_as_in_trec_eval() {
    let bench = Bench::new();
    let text = "Neil Armstrong walked on the Moon in 1969";
    bench.write(
        "twins.tsv",
        format!("id\ttext\ttitle\na\t{text}\tMoon\nb\t{text}\tMoon\nc\tCats sleep\tCats\n"),
    );
    bench.write("questions.tsv", QUESTIONS);
    bench.write("qrels.tsv", "query-id\tcorpus-id\tscore\n1\ta\t1\n");
    succeed(&mut bench.dpr(&["index", "--passages", "twins.tsv", "--out", "index", "--sparse", "english"]));
    let report =
        json(eval(&bench, &["--qrels", "qrels.tsv", "--json"]).args(["--k", "1,20", "--out", "out"]));
    let bm25 = &method(&report, "bm25")["qrels"];
    assert_eq!((&bm25["mrr_at_10"], &bm25["recall"][0]["recall"]), (&0.5.into(), &0.0.into()));
    let run = ["eval", "run", "--run", "out/bm25.run.gz", "--qrels", "qrels.tsv", "--k", "1,20", "--json"];
    assert_eq!(&json(&mut bench.dpr(&run)), bm25);
}

#[test]
fn training_data_is_mined_from_words_and_from_vectors() {
    let bench = prepared();
    let asked = |out: &str| mine(&bench, "index", "questions.tsv", out);
    let mined =
        |out: &str, more: &[&str]| json(asked(out).args(["--json", "--random-negatives", "2"]).args(more));
    let report = mined("words.json", &["--dataset", "tiny"]);
    assert_eq!(
        (&report["questions"], &report["kept"], &report["dropped"]),
        (&4.into(), &3.into(), &1.into())
    );
    mined("vectors.json.gz", &["--hard", "dense", "--model", "model", "--device", "cpu"]);
    for name in ["words.json", "vectors.json.gz"] {
        let items: Vec<_> = read_training(&bench.path(name)).unwrap().map(Result::unwrap).collect();
        assert_eq!(items.len(), 3, "{name}");
        for item in &items {
            let holds = |text: &str| item.answers.iter().any(|answer| text.contains(answer.as_str()));
            assert!(holds(&item.positive_ctxs[0].text), "{name}: {item:?}");
            let negatives = || item.hard_negative_ctxs.iter().chain(&item.negative_ctxs);
            assert!(negatives().all(|context| !holds(&context.text)), "{name}: {item:?}");
            assert!(!item.hard_negative_ctxs.is_empty() && item.negative_ctxs.len() == 2, "{name}: {item:?}");
            assert!(negatives().all(|context| context.passage_id != item.positive_ctxs[0].passage_id));
        }
    }
    let words: Vec<_> = read_training(&bench.path("words.json")).unwrap().map(Result::unwrap).collect();
    assert!(words.iter().all(|item| item.dataset.as_deref() == Some("tiny")));
    mined("again.json", &["--dataset", "tiny"]);
    let bytes = |name: &str| fs_err::read(bench.path(name)).unwrap();
    assert_eq!(bytes("again.json"), bytes("words.json"), "the same seed gives the same file");
    mined("other.json", &["--dataset", "tiny", "--seed", "2"]);
    assert_ne!(bytes("other.json"), bytes("words.json"), "another seed draws others");
    assert!(fail(asked("x.json").args(["--hard", "dense"])).contains("need --model"));
    let error = fail(asked("x.json").args(["--positives", "gold"]));
    assert!(error.contains("does not name the paragraph"), "{error}");
    // Before a model is opened and questions are encoded.
    let dense = ["--hard", "dense", "--model", "nowhere"];
    let error = fail(asked("x.json").args(["--positives", "gold"]).args(dense));
    assert!(error.contains("does not name the paragraph"), "{error}");
    fs_err::create_dir(bench.path("folder")).unwrap();
    let error = fail(asked("folder").args(dense));
    assert!(error.contains("folder") && error.contains("is a directory"), "{error}");
    bench.write("bare.txt", "who walked on the moon?\n");
    let error = fail(mine(&bench, "index", "bare.txt", "x.json").args(dense));
    assert!(error.contains("lists no answers: give it some, or leave it out"), "{error}");
    assert!(fail(&mut asked("questions.tsv")).contains("is the input"));
    assert_eq!(fs_err::read_to_string(bench.path("questions.tsv")).unwrap(), QUESTIONS);
    bench.write("lima.tsv", "what is the capital of Peru?\t['Lima']\n");
    assert!(fail(&mut mine(&bench, "index", "lima.tsv", "x.json")).contains("nothing to train on"));
    assert!(!bench.path("x.json").exists() && !bench.path("x.json.unfinished").exists());
}

#[test]
fn a_cross_encoder_leaves_out_hard_negatives_that_it_scores_as_high_as_the_positive() {
    let bench = prepared();
    let mut import = bench.dpr(&["import", "--out", "reranker", "--cross-encoder"]);
    succeed(import.arg(fixtures().join("cross-encoders/bert")));
    let mined = |out: &str, more: &[&str]| {
        let report =
            json(mine(&bench, "index", "questions.tsv", out).args(["--json", "--device", "cpu"]).args(more));
        let items: Vec<_> = read_training(&bench.path(out)).unwrap().map(Result::unwrap).collect();
        (report, items)
    };
    let (all, whole) = mined("all.json", &[]);
    let (report, denoised) = mined("denoised.json", &["--denoise", "reranker"]);
    let reranker =
        CrossEncoderDir::open(&bench.path("reranker")).unwrap().cross_encoder(DeviceChoice::Cpu).unwrap();
    let mut left_out = 0;
    for (whole, denoised) in whole.iter().zip(&denoised) {
        let score = |context: &TrainingContext| {
            reranker.score(&whole.question, &[(&context.title, &context.text)]).unwrap()[0]
        };
        let limit = score(&whole.positive_ctxs[0]);
        let below = whole.hard_negative_ctxs.iter().filter(|context| score(context) < limit);
        let expected: Vec<_> = below.map(|context| &context.passage_id).collect();
        let got: Vec<_> = denoised.hard_negative_ctxs.iter().map(|context| &context.passage_id).collect();
        assert_eq!(got, expected, "{}", whole.question);
        left_out += whole.hard_negative_ctxs.len() - expected.len();
        assert_eq!(whole.negative_ctxs, denoised.negative_ctxs, "random negatives stay");
    }
    assert_eq!((&all["denoised"], &report["denoised"]), (&0.into(), &left_out.into()));
    let hard: usize = whole.iter().map(|item| item.hard_negative_ctxs.len()).sum();
    assert!(left_out > 0 && left_out < hard, "{left_out} of {hard}");
    let (none, items) = mined("none.json", &["--denoise", "reranker", "--denoise-margin", "1e9"]);
    assert_eq!((&none["denoised"], &none["without_hard_negative"]), (&hard.into(), &items.len().into()));

    for (more, expected) in [
        (&["--denoise", "reranker", "--denoise-margin", "-1"][..], "0 or above"),
        (&["--denoise-margin", "1"], "--denoise <DIR>"),
    ] {
        let output = mine(&bench, "index", "questions.tsv", "x.json").args(more).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(expected), "{said}");
    }
    let error = fail(mine(&bench, "index", "questions.tsv", "x.json").args(["--denoise", "model"]));
    assert!(error.contains("cross-encoder") && !bench.path("x.json.unfinished").exists(), "{error}");
}

#[test]
fn gold_paragraphs_are_found_again_among_blocks() {
    let bench = Bench::new();
    let filler =
        |from: usize, to: usize| (from..to).map(|i| format!("word{i}")).collect::<Vec<_>>().join(" ");
    // The answer stands in both halves; the question is about the second.
    let paragraph =
        format!("{} Utrecht {} signed in Utrecht {}", filler(0, 10), filler(10, 38), filler(40, 60));
    let start = paragraph.rfind("Utrecht").unwrap();
    let korean = "이 조약은 위트레흐트에서 여러 나라의 대표가 오랜 협상 끝에 마침내 서명하여 전쟁을 끝냈다";
    let ask = |id: &str, text: &str, start: usize, context: &str| {
        let start = context[..start].chars().count();
        let answers = [serde_json::json!({"text": text, "answer_start": start})];
        let qas = [serde_json::json!({"id": id, "question": "where was it signed?", "answers": answers})];
        serde_json::json!({"context": context, "qas": qas})
    };
    let nowhere =
        ask("n", "Lima", 0, "Lima is named in no block of this pool and so its question has no positive");
    let paragraphs = [
        ask("q", "Utrecht", start, &paragraph),
        ask("k", "위트레흐트", korean.find("위트레흐트").unwrap(), korean),
        nowhere,
    ];
    let squad = serde_json::json!({"data": [{"title": "Peace", "paragraphs": paragraphs}]});
    bench.write("squad.json", squad.to_string());
    // A pool that holds the halves as blocks, and a block that names the answer for itself.
    let articles = format!(
        "id\ttext\ttitle\na\t{paragraph}\tPeace\nb\tsigned in Utrecht\tUtrecht\nk\t서문 {korean}\t조약\n"
    );
    bench.write("articles.tsv", articles);
    let split = ["data", "split", "--input", "articles.tsv", "--out", "blocks.tsv", "--words", "39"];
    succeed(&mut bench.dpr(&split));
    succeed(&mut bench.dpr(&["index", "--passages", "blocks.tsv", "--out", "bm25", "--sparse", "bigram"]));
    let told = succeed(mine(&bench, "bm25", "squad.json", "gold.json").args(["--positives", "gold"]));
    assert!(told.contains("2 of 3 questions kept"), "{told}");
    let items: Vec<_> = read_training(&bench.path("gold.json")).unwrap().map(Result::unwrap).collect();
    let positives: Vec<_> =
        items.iter().map(|item| item.positive_ctxs[0].passage_id.as_deref().unwrap()).collect();
    assert_eq!(positives, ["a#1", "k#0"]);
    // The Korean answer carries a particle; a passage with it is still no negative.
    let negatives = items.iter().flat_map(|item| {
        item.hard_negative_ctxs.iter().chain(&item.negative_ctxs).map(move |context| (item, context))
    });
    for (item, context) in negatives {
        assert!(!context.text.contains(&item.answers[0]), "{item:?}");
    }
}

#[test]
fn mining_goes_on_after_a_kill() {
    let bench = Bench::new();
    let mut articles = String::from("id\ttext\ttitle\n");
    let mut questions = String::new();
    for row in 0..3000 {
        articles.push_str(&format!(
            "{row}\tthe code of door {row} is x{row}y and door {} is near\tDoors\n",
            row % 7
        ));
        questions.push_str(&format!("what is the code of door {row}?\t['x{row}y']\n"));
    }
    bench.write("articles.tsv", articles);
    bench.write("questions.tsv", questions);
    succeed(&mut bench.dpr(&["index", "--passages", "articles.tsv", "--out", "bm25", "--sparse", "english"]));
    let mine = |out: &str| mine(&bench, "bm25", "questions.tsv", out);
    succeed(&mut mine("whole.json"));
    let journal = bench.path("killed.json.unfinished");
    let mut child = mine("killed.json").stderr(std::process::Stdio::null()).spawn().unwrap();
    // Killed at the first sign of work on disk, long before the last of twelve steps.
    let begun = || fs_err::metadata(&journal).is_ok_and(|file| file.len() > 1000);
    while !begun() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!bench.path("killed.json").exists(), "nothing half-written");
    let kept = fs_err::metadata(&journal).unwrap().len();
    assert!(kept > 1000, "what was done is kept");
    succeed(&mut mine("killed.json"));
    let bytes = |name: &str| fs_err::read(bench.path(name)).unwrap();
    assert!(bytes("killed.json") == bytes("whole.json"), "as if it had not been killed");
    assert!(!journal.exists());
}

#[test]
fn answer_patterns_that_are_none_are_named_and_never_match() {
    let bench = prepared();
    bench.write("trec.tsv", "7\tfactoid\twho walked on the moon?\t(Neil|Buzz) Arm\\w+\n8\tfactoid\twho walked on the moon?\t(Neil\n");
    let mut command =
        bench.dpr(&["eval", "retrieval", "--index", "index", "--questions", "trec.tsv", "--json"]);
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("\"8\"") && told.contains("\"(Neil\" is not a valid regular expression"), "{told}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(method(&report, "bm25")["top_k"][3]["accuracy"], 0.5);
}

#[test]
fn a_killed_build_of_words_leaves_the_index_that_was_there() {
    let bench = Bench::new();
    let mut lines = String::from("id\ttext\ttitle\n");
    for row in 0..60_000 {
        lines.push_str(&format!(
            "{row}\tpassage {row} of {} with words {} and {}\tT\n",
            row % 97,
            row * 7,
            row * 13
        ));
    }
    bench.write("many.tsv", lines);
    bench.write("few.tsv", "id\ttext\ttitle\n1\tthe old index\tOld\n");
    let build = |passages: &str| {
        bench.dpr(&["index", "--passages", passages, "--out", "index", "--sparse", "english", "--json"])
    };
    let search = |question: &str| {
        json(&mut bench.dpr(&["search", "--index", "index", "--method", "bm25", "--json", question]))
    };
    succeed(&mut build("few.tsv"));
    let folders = || fs_err::read_dir(bench.path("index")).unwrap().count();
    let before = folders();
    let mut child = build("many.tsv")
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while folders() == before && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success(), "it was killed while it built");
    assert_eq!(search("old index")["hits"][0]["title"], "Old");
    assert_eq!(json(&mut build("many.tsv"))["count"], 60_000);
    assert_eq!(search("passage 59999")["hits"][0]["id"], "59999");
    let names = fs_err::read_dir(bench.path("index")).unwrap();
    let left: Vec<_> = names
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_string_lossy().contains("unfinished"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
