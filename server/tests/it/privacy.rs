//! `dpr index blur`, `dpr search --privacy` and `dpr eval privacy`, on the command line.

use fs_err as fs;

use crate::support::common::{Bench, fail, json, succeed};
use crate::support::corpus::{self, SQUAD, squad_rows, write_vectors};

/// With an index of SQuAD's paragraphs, as vectors of words `[128]`.
fn bench() -> Bench {
    let bench = Bench::new();
    write_vectors(&bench.path("vectors"), &corpus::set(squad_rows(128), 128));
    succeed(&mut bench.dpr(&["index", "--vectors", "vectors", "--out", "index"]));
    bench
}

#[test]
fn a_blur_directory_is_made_and_what_does_not_fit_it_is_refused() {
    let bench = bench();
    let made = json(
        &mut bench.dpr(&["index", "blur", "--index", "index", "--out", "blur", "--sample", "100", "--json"]),
    );
    assert_eq!((&made["dim"], &made["rank"], &made["questions"]), (&128.into(), &128.into(), &100.into()));
    assert_eq!(made["calibrated_on"], "passages");
    let medium = &made["levels"]["medium"];
    assert!(
        medium["candidates"].as_u64().unwrap() >= 50 && medium["recall"].as_f64().unwrap() >= 0.985,
        "{made}"
    );
    let before = fs::read(bench.path("blur/projection.f16")).unwrap();
    succeed(&mut bench.dpr(&["index", "blur", "--index", "index", "--out", "blur", "--sample", "100"]));
    assert_eq!(
        fs::read(bench.path("blur/projection.f16")).unwrap(),
        before,
        "the same vectors give the same file"
    );

    // What is wrong with --out is said before a model is opened and questions are encoded.
    let encoded = ["--model", "nowhere", "--questions", SQUAD];
    let error = fail(bench.dpr(&["index", "blur", "--index", "index", "--out", "vectors"]).args(encoded));
    assert!(error.contains("vectors holds `") && error.contains("give another --out"), "{error}");

    // The tiny model has vectors of 32 numbers: none of its questions can be asked by this directory.
    bench.corpus(200);
    succeed(&mut bench.encode("small-vectors", &[]));
    succeed(&mut bench.dpr(&["index", "--vectors", "small-vectors", "--out", "small"]));
    let search = |more: &[&str]| {
        let mut command =
            bench.dpr(&["search", "--model", "model", "--index", "small", "--privacy", "blurred"]);
        command.args(more).arg("who");
        command
    };
    let error = fail(&mut search(&[]));
    assert!(error.contains("needs --blur"), "{error}");
    let error = fail(&mut search(&["--blur", "blur"]));
    assert!(error.contains("of another model than the index"), "{error}");
    let error = fail(&mut search(&["--blur", "nothing"]));
    assert!(error.contains("blur.json is missing"), "{error}");
    for refused in [&["--title", "T"][..], &["--method", "bm25"], &["--rerank", "model"]] {
        let error = fail(search(&["--blur", "blur"]).args(refused));
        assert!(error.contains("--privacy"), "{error}");
    }
    // Options of another mode: the search would show more than was meant.
    for [option, value, modes] in [
        ["--blur", "blur", "blurred"],
        ["--level", "strong", "blurred"],
        ["--device-key", "key", "blurred or --privacy bucket"],
        ["--probes", "2", "bucket"],
        ["--decoys", "2", "bucket"],
        ["--expect-version", "aa", "encrypted"],
    ] {
        let plain = ["search", "--model", "model", "--index", "small", option, value, "who"];
        let error = fail(&mut bench.dpr(&plain));
        let says = format!("{option} is for --privacy {modes}, and this search is plain");
        assert!(error.contains(&says), "{error}");
    }
    assert!(!bench.path("key").exists());
    // 31 directions are too few for any level, so that none is offered; plain search does not take its place.
    let told = succeed(&mut bench.dpr(&["index", "blur", "--index", "small", "--out", "small-blur"]));
    assert!(told.contains("64 numbers: not offered, the vectors have 31 directions"), "{told}");
    let error = fail(&mut search(&["--blur", "small-blur"]));
    assert!(error.contains("does not offer the level medium, nor another"), "{error}");
    let error =
        fail(&mut bench.dpr(&["serve", "--index", "small", "--blur", "blur", "--listen", "127.0.0.1:0"]));
    assert!(error.contains("of another model than the index"), "{error}");
    let questions = ["eval", "privacy", "--model", "model", "--index", "small", "--questions", SQUAD];
    let error = fail(bench.dpr(&questions).args(["--modes", "light"]));
    assert!(error.contains("need --blur"), "{error}");
    let error = fail(bench.dpr(&questions).args(["--modes", "64:0.3", "--blur", "small-blur"]));
    assert!(error.contains("64 numbers were asked for, the projection has 31"), "{error}");
}

#[test]
fn a_static_site_is_searched_as_it_was_exported_and_a_damaged_one_by_no_other_way() {
    let bench = Bench::new();
    bench.corpus(300);
    bench.index();
    succeed(&mut bench.dpr(&["export-web", "--model", "model"]));
    let export = ["index", "export-static", "--model", "model", "--index", "index", "--out", "site"];
    succeed(bench.dpr(&export).args(["--pack-bytes", "4096"]));
    let search = |index: &str, more: &[&str]| {
        let mut command = bench.dpr(&["search", "--model", "model", "--index", index, "--device", "cpu"]);
        command.args(more).arg("w1 w8 w15");
        command
    };
    let local = ["--privacy", "local", "--k", "20", "--json"];
    let found = json(&mut search("site", &local));
    assert_eq!(json(&mut search("site/dpr-static.json", &local)), found);
    let hits = found["hits"].as_array().unwrap();
    assert_eq!((hits.len(), &found["method"]), (20, &"dense".into()));
    // All of the corpus is there, with its texts, scored as its vectors are.
    let exact = json(&mut search("index", &["--k", "300", "--json"]));
    let exact = exact["hits"].as_array().unwrap();
    for hit in hits {
        let same = exact.iter().find(|exact| exact["id"] == hit["id"]).unwrap();
        assert_eq!((&hit["title"], &hit["text"]), (&same["title"], &same["text"]));
    }
    let lines = bench.write("questions.txt", "w1 w8 w15\nw2 w9\n");
    let mut many = bench.dpr(&["search", "--model", "model", "--index", "site", "--device", "cpu"]);
    let many = succeed(many.args(["--privacy", "local", "--k", "20", "--questions"]).arg(lines));
    let first: serde_json::Value = serde_json::from_str(many.lines().next().unwrap()).unwrap();
    let ids = |hits: &serde_json::Value| -> Vec<String> {
        hits.as_array().unwrap().iter().map(|hit| hit["id"].to_string()).collect()
    };
    assert_eq!((many.lines().count(), ids(&first["hits"])), (2, ids(&found["hits"])));

    for refused in [&["--title", "T"][..], &["--method", "bm25"], &["--rerank", "model"]] {
        let error = fail(search("site", &["--privacy", "local"]).args(refused));
        assert!(error.contains("--privacy"), "{error}");
    }
    let error = fail(&mut search("index", &["--privacy", "local"]));
    assert!(
        error.contains("dpr-static.json is missing") && error.contains("dpr index export-static --index"),
        "{error}"
    );
    for site in ["site", "site/dpr-static.json"] {
        let error = fail(&mut search(site, &[]));
        assert!(error.contains("static site") && error.contains("--privacy local"), "{error}");
    }
    let error = fail(&mut search("http://127.0.0.1:9", &["--privacy", "local"]));
    assert!(error.contains("searches files"), "{error}");
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(bench.path("site/dpr-static.json")).unwrap()).unwrap();
    let texts = manifest["parts"][0]["texts"]["url"].as_str().unwrap();
    fs::write(bench.path("site").join(texts), "cut off").unwrap();
    let error = fail(&mut search("site", &["--privacy", "local"]));
    assert!(error.contains(texts) && error.contains("export-static"), "{error}");
}

#[test]
fn a_site_is_searched_by_its_buckets_which_the_answer_lists_and_the_device_s_key_decides() {
    let bench = Bench::new();
    bench.corpus(300);
    bench.index();
    succeed(&mut bench.dpr(&["export-web", "--model", "model"]));
    let export = ["index", "export-static", "--model", "model", "--index", "index", "--out", "site"];
    let made = json(bench.dpr(&export).args(["--buckets", "--bucket-size", "24", "--json"]));
    let buckets = &made["buckets"];
    assert_eq!((&buckets["count"], &buckets["kept_centroids"]), (&10.into(), &false.into()));
    assert!(buckets["least"].as_u64().unwrap() >= 24, "{made}");
    let again = succeed(bench.dpr(&export).args(["--buckets", "--bucket-size", "24"]));
    assert!(again.contains("buckets: 10 of") && again.contains("files: 0 written"), "{again}");
    let error = fail(bench.dpr(&export).args(["--buckets", "--bucket-size", "200"]));
    assert!(error.contains("give from 10 to 150") && error.contains("--bucket-size"), "{error}");
    bench.corpus(5);
    succeed(&mut bench.encode("few-vectors", &[]));
    succeed(&mut bench.dpr(&["index", "--vectors", "few-vectors", "--out", "few"]));
    let few =
        ["index", "export-static", "--model", "model", "--index", "few", "--out", "few-site", "--buckets"];
    let error = fail(&mut bench.dpr(&few));
    assert!(error.contains("too small for buckets, which need 20 passages"), "{error}");
    assert!(error.contains("leave --buckets out") && !error.contains("give from"), "{error}");

    let search = |more: &[&str], question: &str| {
        let mut command = bench.dpr(&["search", "--model", "model", "--index", "site", "--device", "cpu"]);
        command.args(["--privacy", "bucket"]).args(more).arg(question);
        command
    };
    let with_key = ["--device-key", "key", "--probes", "2", "--json"];
    let first = json(&mut search(&with_key, "w1 w8 w15"));
    let numbers = |found: &serde_json::Value| -> Vec<u64> {
        found["privacy"]["buckets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|number| number.as_u64().unwrap())
            .collect()
    };
    assert_eq!((numbers(&first).len(), &first["privacy"]["mode"]), (4, &"bucket".into()));
    assert!(numbers(&first).is_sorted(), "{first}");
    assert_eq!(first["privacy"]["buckets"], first["privacy"]["read"]);
    assert_eq!(
        json(&mut search(&with_key, "w1 w8 w15")),
        first,
        "the same question fetches the same buckets"
    );
    let table = succeed(&mut search(&["--device-key", "key", "--probes", "2"], "w1 w8 w15"));
    assert!(
        table.contains("The host of the files sees 4 of 10 buckets of some 30 passages each, 2 of them"),
        "{table}"
    );
    // All buckets hold all that a page downloads that searches by itself.
    let all = json(&mut search(&["--probes", "2", "--decoys", "8", "--k", "300", "--json"], "w1 w8 w15"));
    assert_eq!((all["hits"].as_array().unwrap().len(), numbers(&all).len()), (300, 10));
    // Fewer than asked for are told with the reason, and no more than the site has are no shortage.
    let told = |more: &[&str]| {
        let output = search(more, "w1 w8 w15").output().unwrap();
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let few = told(&["--probes", "1", "--decoys", "1", "--k", "300"]);
    assert!(
        few.contains("of --k 300 passages were found: the 2 buckets") && few.contains("--probes"),
        "{few}"
    );
    let whole = told(&["--probes", "2", "--decoys", "8", "--k", "301"]);
    assert!(!whole.contains("passages were found"), "{whole}");
    // Another key has other decoys. The questions may share one bucket, for which two keys draw the same 3 of 9
    // others once in 84 times: of four keys, one differs.
    bench.write("questions.txt", "w1 w8 w15\nw2 w9\nw3 w30\nw70 w4\nw11 w12\n");
    let lines = |key: &str| -> Vec<serde_json::Value> {
        let mut many = bench.dpr(&["search", "--model", "model", "--index", "site", "--device", "cpu"]);
        many.args(["--privacy", "bucket", "--probes", "1", "--decoys", "3", "--questions", "questions.txt"]);
        let text = succeed(many.args(["--device-key", key]));
        text.lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["buckets"].clone())
            .collect()
    };
    assert_eq!(lines("key").len(), 5);
    assert_eq!(lines("key"), lines("key"));
    assert!(
        ["second-key", "third-key", "fourth-key", "fifth-key"]
            .iter()
            .any(|other| lines(other) != lines("key"))
    );

    for refused in [&["--title", "T"][..], &["--method", "bm25"], &["--rerank", "model"]] {
        let error = fail(&mut search(refused, "w1"));
        assert!(error.contains("--privacy"), "{error}");
    }
    for (numbers, says) in [
        (&["--probes", "3"][..], "ask for 1, 2, 4 or 8"),
        (&["--probes", "2", "--decoys", "3"], "another multiple"),
        (&["--probes", "8"], "are 16 buckets, the site has 10"),
    ] {
        let error = fail(&mut search(numbers, "w1"));
        assert!(error.contains(says), "{error}");
    }
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(bench.path("site/dpr-static.json")).unwrap()).unwrap();
    for bucket in manifest["buckets"]["files"].as_array().unwrap() {
        let path = bench.path("site").join(bucket["url"].as_str().unwrap());
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, [&bytes[..bytes.len() - 1], &[1]].concat()).unwrap();
    }
    let error = fail(&mut search(&["--probes", "1"], "w1"));
    assert!(error.contains("bucket.") && error.contains("SHA-256"), "{error}");
    succeed(&mut bench.dpr(&[
        "index",
        "export-static",
        "--model",
        "model",
        "--index",
        "index",
        "--out",
        "plain-site",
    ]));
    let mut without =
        bench.dpr(&["search", "--model", "model", "--index", "plain-site", "--privacy", "bucket", "w1"]);
    let error = fail(&mut without);
    assert!(error.contains("has no buckets") && error.contains("export-static --buckets"), "{error}");
}

#[test]
fn a_report_has_its_table_its_json_and_its_plot() {
    let bench = bench();
    bench.corpus(300);
    succeed(&mut bench.encode("small-vectors", &[]));
    succeed(&mut bench.dpr(&["index", "--vectors", "small-vectors", "--out", "small"]));
    succeed(&mut bench.dpr(&["index", "blur", "--index", "small", "--out", "blur"]));
    let questions: Vec<String> =
        (0..400).map(|n| format!("what is w{} and w{} number {n}", n % 97, n * 7 % 97)).collect();
    bench.write("questions.txt", questions.join("\n"));
    let arguments =
        ["eval", "privacy", "--model", "model", "--index", "small", "--questions", "questions.txt"];
    let more = [
        "--blur",
        "blur",
        "--modes",
        "plain,16:0.3,random",
        "--test",
        "100",
        "--searches",
        "20",
        "--epochs",
        "2",
    ];
    let out = ["--hidden", "32", "--out", "report"];
    let table = succeed(bench.dpr(&arguments).args(more).args(out));
    assert!(
        table.contains("| plain | 32 numbers |") && table.contains("| 16:0.3 | 16 numbers, noise 0.3 |"),
        "{table}"
    );
    let report: serde_json::Value =
        serde_json::from_slice(&fs::read(bench.path("report/privacy.json")).unwrap()).unwrap();
    assert_eq!(
        (&report["test"], &report["held_out"], &report["train"]),
        (&100.into(), &30.into(), &270.into())
    );
    assert_eq!(report["modes"][0]["searched"]["recall_within"], 1.0);
    assert_eq!(report["modes"][2]["searched"], serde_json::Value::Null);
    assert!(fs::read_to_string(bench.path("report/privacy.svg")).unwrap().contains("16:0.3"));
    assert!(table.ends_with(&fs::read_to_string(bench.path("report/privacy.md")).unwrap()));
    fs::create_dir_all(bench.path("taken/privacy.svg")).unwrap();
    let quick =
        ["--test", "100", "--searches", "1", "--epochs", "0", "--decoder-epochs", "0", "--out", "taken"];
    let error = fail(bench.dpr(&arguments).args(["--modes", "plain"]).args(quick));
    assert!(error.contains("privacy.svg is a directory"), "{error}");
    assert_eq!(fs::read_dir(bench.path("taken")).unwrap().count(), 1, "no part of a report is left");
    let error = fail(bench.dpr(&arguments).args(["--test", "399"]));
    assert!(error.contains("400 different questions are not enough"), "{error}");
}
