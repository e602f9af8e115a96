//! The command line and the server with a service in the place of an index directory, as an operator types it.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::common::{self, Bench, fail, succeed};
use crate::support::server::{Server, ask};

const QUESTIONS: &str = "w31 w38 w45\t['w31']\nw62 w69\t['w62']\nw7\t['no such word']\n";

/// A place in a service, and how the service is named.
pub(super) struct Service {
    /// What `--index` takes.
    pub(super) address: String,
    /// As `GET /v1/index` names it.
    pub(super) kind: &'static str,
    /// As messages name it.
    pub(super) called: &'static str,
    /// What the binary finds in its environment.
    pub(super) environment: &'static [(&'static str, &'static str)],
}

/// Ids and scores of a search's JSON.
fn hits(command: &mut Command) -> Vec<(String, f64)> {
    let hit = |hit: &Value| (hit["id"].as_str().unwrap().to_owned(), hit["score"].as_f64().unwrap());
    common::json(command)["hits"].as_array().unwrap().iter().map(hit).collect()
}

impl Service {
    /// The binary, with the service's environment.
    pub(super) fn dpr(&self, bench: &Bench, arguments: &[&str]) -> Command {
        let mut command = bench.dpr(arguments);
        command.envs(self.environment.iter().copied());
        command
    }

    /// A corpus of 60 goes in by two shards, is searched and measured as the directory beside it, and is changed.
    pub(super) fn takes_a_corpus(&self, bench: &Bench) {
        let address = self.address.as_str();
        bench.corpus(60);
        bench.write("questions.tsv", QUESTIONS);
        bench.index();
        for (shard, name) in [("0/2", "first"), ("1/2", "second")] {
            succeed(&mut bench.encode(name, &["--shard", shard]));
            let fill = ["index", "--vectors", name, "--index", address, "--json"];
            let report = common::json(&mut self.dpr(bench, &fill));
            assert_eq!((&report["written"], &report["unchanged"]), (&30.into(), &0.into()));
        }
        let again =
            succeed(&mut self.dpr(bench, &["index", "--vectors", "first", "second", "--out", address]));
        assert!(again.contains("0 passages written, 60 were there; 60 in all"), "{again}");

        let search = |index: &str| {
            let question =
                ["search", "--model", "model", "--device", "cpu", "--json", "--k", "5", "w31 w38 w45"];
            hits(self.dpr(bench, &question).args(["--index", index]))
        };
        let (here, there) = (search("index"), search(address));
        assert_eq!((here.len(), there.len()), (5, 5));
        for ((id, score), (other, same)) in here.iter().zip(&there) {
            assert!(id == other && (score - same).abs() < 1e-3, "{here:?} {there:?}");
        }
        let eval = |index: &str| {
            let flags =
                ["eval", "retrieval", "--model", "model", "--device", "cpu", "--questions", "questions.tsv"];
            common::json(self.dpr(bench, &flags).args(["--json", "--index", index]))
        };
        let (here, there) = (eval("index"), eval(address));
        assert_eq!(here["methods"][0]["top_k"], there["methods"][0]["top_k"]);
        assert_eq!((&there["passages"], &there["index_kind"]), (&60.into(), &self.kind.into()));
        for (flag, reason) in [("--answerable", "every passage"), ("--against-exact", "exact search")] {
            let flags = ["eval", "retrieval", "--model", "model", "--device", "cpu", flag];
            let questions = ["--questions", "questions.tsv", "--index", address];
            let error = fail(self.dpr(bench, &flags).args(questions));
            assert!(error.contains(flag) && error.contains(reason), "{error}");
        }
        let error = fail(&mut self.dpr(bench, &["search", "--index", address, "--method", "bm25", "w31"]));
        assert!(error.contains("no words"), "{error}");

        let deleted = succeed(&mut self.dpr(bench, &["index", "delete", "--index", address, "p1", "p2"]));
        assert!(deleted.contains("2 passages deleted; 58 passages"), "{deleted}");
        let error = fail(&mut self.dpr(bench, &["index", "delete", "--index", address, "p1"]));
        assert!(error.contains("p1"), "{error}");
        let add = ["index", "add", "--index", address, "--vectors", "vectors", "--json"];
        let report = common::json(&mut self.dpr(bench, &add));
        assert_eq!(
            (&report["added"], &report["replaced"], &report["count"]),
            (&2.into(), &58.into(), &60.into())
        );
        let error = fail(&mut self.dpr(bench, &["index", "compact", "--index", address]));
        assert!(error.contains("index directories") && error.contains(self.called), "{error}");
    }

    /// A server answers from 40 passages of the service; one is added, found, changed by `change`, and deleted.
    /// `change` is what another program does to the passage `new`, and the text that is found from then on.
    pub(super) fn is_served(&self, bench: &Bench, change: Option<(&dyn Fn(), &str)>) {
        bench.corpus(40);
        bench.index();
        succeed(&mut self.dpr(bench, &["index", "--vectors", "vectors", "--out", &self.address]));
        let flags = ["serve", "--model", "model", "--listen", "127.0.0.1:0", "--allow-updates"];
        let serve = || {
            let mut command = self.dpr(bench, &flags);
            command.args(["--device", "cpu", "--index", &self.address]);
            command
        };
        let error = fail(serve().arg("--allow-text"));
        assert!(error.contains("words"), "{error}");

        let server = Server::start(&mut serve());
        let send = |method: &str, path: &str, body: &Value| -> (u16, Value) {
            let (status, body) = ask(&server.address, method, path, &body.to_string()).unwrap();
            (status, serde_json::from_str(&body).unwrap())
        };
        let (_, manifest) = send("GET", "/v1/model", &Value::Null);
        let model = manifest["fingerprint"].as_str().unwrap();
        let mut vector = vec![0.0; manifest["dim"].as_u64().unwrap() as usize];
        vector[0] = 9.0;
        let text = "Words of its own.";
        let new = json!({ "id": "new", "title": "T", "text": text, "vector": vector });
        let put = send("POST", "/v1/passages", &json!({ "model": model, "passages": [new] }));
        assert_eq!(put, (200, json!({ "added": 1, "replaced": 0 })));
        let question = json!({ "model": model, "vector": vector, "k": 3 });
        let (status, found) = send("POST", "/v1/search", &question);
        let hit = &found["hits"][0];
        assert_eq!((status, &hit["id"], &hit["text"]), (200, &"new".into(), &text.into()));
        assert_eq!(found["hits"].as_array().unwrap().len(), 3);
        if let Some((change, text)) = change {
            change();
            let (_, found) = send("POST", "/v1/search", &question);
            assert_eq!(found["hits"][0]["text"], text);
        }
        let (status, unknown) = send("DELETE", "/v1/passages", &json!({ "ids": ["nobody"] }));
        assert_eq!((status, &unknown["error"]["code"]), (404, &"unknown_passage".into()));
        let (status, _) = send("DELETE", "/v1/passages", &json!({ "ids": ["new"] }));
        assert_eq!(status, 200);
        let (_, found) = send("POST", "/v1/search", &question);
        assert_ne!(found["hits"][0]["id"], "new");
        let mut filtered = question.clone();
        filtered["filter"] = json!({ "titles": ["no such title"] });
        let (status, refused) = send("POST", "/v1/search", &filtered);
        assert_eq!((status, &refused["error"]["code"]), (422, &"invalid_filter".into()));
        let (_, index) = send("GET", "/v1/index", &Value::Null);
        assert_eq!((&index["kind"], &index["count"]), (&self.kind.into(), &40.into()));
        assert!(!index.to_string().contains("127.0.0.1"), "{index}");
    }
}
