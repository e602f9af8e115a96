//! Commands shown in documentation, and a folder to run them in.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fs_err as fs;
use serde_json::{Value, json};

use super::common::{fixtures, succeed};

/// The repository.
pub(crate) fn root() -> PathBuf {
    fixtures().join("../..")
}

/// A command line as a page shows it.
pub(crate) struct Shown {
    /// File and line.
    pub(crate) place: String,
    /// The line, without its comment.
    pub(crate) text: String,
    /// Variables set before the program, and the program with its arguments.
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) words: Vec<String>,
    /// Unless the page says before the block that it is not run.
    pub(crate) is_run: bool,
}

/// The pages that show commands.
pub(crate) fn pages() -> Vec<String> {
    let mut pages: Vec<String> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "wasm/npm/README.md"]
            .into_iter()
            .chain(["web-demo/README.md", "tests/browser/README.md", "tests/bundlers/README.md"])
            .chain(["tests/fixtures/README.md"])
            .map(str::to_owned)
            .collect();
    for folder in ["docs", "docs/guide", "docs/reference"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                pages.push(format!("{folder}/{name}"));
            }
        }
    }
    pages
}

/// The command lines in the blocks of a page that are marked `sh`.
pub(crate) fn examples(page: &str, text: &str) -> Vec<Shown> {
    let (mut found, mut before) = (Vec::new(), "");
    let mut lines = (1..).zip(text.lines());
    while let Some((_, line)) = lines.next() {
        let is_sh = line.trim() == "```sh";
        if line.trim().starts_with("```") {
            let is_run = !before.starts_with("<!-- not run: ");
            let mut joined = String::new();
            for (number, line) in lines.by_ref().take_while(|(_, line)| line.trim() != "```") {
                joined.push_str(line.trim());
                if is_sh && joined.ends_with('\\') {
                    joined.pop();
                    continue;
                }
                let (mut words, length) = split(&joined);
                // What the shell does with the output is not the program's.
                words.truncate(words.iter().position(|word| word == ">").unwrap_or(words.len()));
                let text = joined[..length].trim().to_owned();
                joined.clear();
                let is_assignment = |word: &String| {
                    let (name, _) = word.split_once('=').unwrap_or_default();
                    !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
                };
                let first = words.iter().take_while(|word| is_assignment(word)).count();
                let variables = words[..first].iter().filter_map(|word| word.split_once('='));
                let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                let words = words[first..].to_vec();
                if is_sh && !words.is_empty() {
                    found.push(Shown { place: format!("{page}:{number}"), text, variables, words, is_run });
                }
            }
        }
        before = line;
    }
    found
}

/// The words of a line as a shell splits it, and its length without the comment. Pages use quotes and comments alone.
fn split(line: &str) -> (Vec<String>, usize) {
    let (mut words, mut word, mut quote): (Vec<String>, Option<String>, _) = (Vec::new(), None, None);
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => return (words, at),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    (words, line.len())
}

/// A folder with the files that the guides name, and the server that runs there.
pub(crate) struct Walk {
    dir: tempfile::TempDir,
    server: Option<(Child, String)>,
}

impl Drop for Walk {
    fn drop(&mut self) {
        self.stop_server();
    }
}

/// Towns with a bridge each: an article, a builder, a question to train on (as many as a batch of
/// `configs/distill.toml` takes, and those that it holds out), to tune on, or to test with.
const TOWNS: usize = 96;
const TRAIN: Range<usize> = 0..80;
const DEV: Range<usize> = 80..88;
const TEST: Range<usize> = 88..TOWNS;

fn question(town: usize) -> String {
    format!("who built the bridge of town{town}?")
}

impl Walk {
    pub(crate) fn new() -> Self {
        let walk = Self { dir: tempfile::tempdir().unwrap(), server: None };
        for (name, fixture) in [
            ("all-MiniLM-L6-v2", "dpr-tiny/question"),
            ("e5-small-v2", "dpr-tiny/question"),
            ("dpr-question_encoder-single-nq-base", "dpr-tiny/question"),
            ("dpr-ctx_encoder-single-nq-base", "dpr-tiny/ctx"),
            ("ms-marco-MiniLM-L6-v2", "cross-encoders/bert"),
            ("dpr-reader-single-nq-base", "readers/dpr"),
        ] {
            walk.copy(&fixtures().join(fixture), name);
        }
        // The real one gives 768 numbers; the fixture gets there by a projection.
        let mut import = walk.dpr();
        import.args(["import", "--project", "768", "--out", "projected", "--question"]);
        succeed(import.arg(fixtures().join("mpnet-tiny")));
        walk.copy(&walk.path("projected/question_encoder"), "all-mpnet-base-v2");
        for entry in fs::read_dir(root().join("configs")).unwrap() {
            let entry = entry.unwrap();
            // The fixture has places for 128 tokens.
            let text = fs::read_to_string(entry.path()).unwrap();
            let text = text.replace("max_passage_tokens = 192", "max_passage_tokens = 96");
            let text = text.replace("\nmax_tokens = 256", "\nmax_tokens = 96");
            walk.write(&format!("configs/{}", entry.file_name().to_string_lossy()), &text);
        }
        walk.write("web-demo/dist/index.html", "<!doctype html><title>search</title>");
        walk.write_articles();
        walk.write_questions();
        walk.write(
            "new.tsv",
            "id\ttext\ttitle\n17-3\tCats sleep.\tCats\n17-4\tDogs bark.\tDogs\n17-5\tOwls hunt.\tOwls\n",
        );
        walk
    }

    /// Makes what a guide or the README needs and commands of the guides before have not made.
    pub(crate) fn prepare(&self, guide: &str) {
        if guide == "README" {
            let passages = (0..TOWNS).map(|town| {
                format!("{town}\tThe bridge of town{town} was built by Mason{town}.\tTown {town}\n")
            });
            self.write("passages.tsv", &("id\ttext\ttitle\n".to_owned() + &passages.collect::<String>()));
            let mut import = self.dpr();
            import.args(["import", "--reader", "dpr-reader-single-nq-base", "--out", "reader"]);
            succeed(&mut import);
        }
        if guide == "evaluation" {
            let passages = fs::read_to_string(self.path("passages.tsv")).unwrap();
            let ids = passages.lines().skip(1).filter_map(|line| line.split('\t').next());
            let judged =
                ids.take(8).zip(1..).map(|(id, query)| format!("{query}\t{}\t1\n", id.trim_matches('"')));
            self.write("qrels.tsv", &format!("query-id\tcorpus-id\tscore\n{}", judged.collect::<String>()));
        }
    }

    /// Runs a line, which must succeed, and returns whether there was one to run: what others check is passed over.
    pub(crate) fn run(&mut self, line: &Shown) -> bool {
        let (Some(program), Some(task)) = (line.words.first(), line.words.get(1)) else { return false };
        println!("{}: {}", line.place, line.text);
        match (program.as_str(), task.as_str()) {
            ("dpr", "serve") => self.serve(line),
            ("dpr", _) => {
                let mut command = self.dpr();
                command.args(&line.words[1..]).envs(line.variables.iter().cloned());
                succeed(&mut command);
            }
            ("curl", _) => self.send(line),
            _ => return false,
        }
        true
    }

    /// Starts the server on a free port and waits until it answers searches.
    fn serve(&mut self, line: &Shown) {
        self.stop_server();
        let mut command = self.dpr();
        command.args(&line.words[1..]).envs(line.variables.iter().cloned());
        command.args(["--listen", "127.0.0.1:0", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut told = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut told).unwrap();
        if told.is_empty() {
            child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
            panic!("{}: {}\n{told}", line.place, line.text);
        }
        let told: Value = serde_json::from_str(&told).unwrap();
        let address = told["listening"].as_str().unwrap().trim_start_matches("http://").to_owned();
        self.server = Some((child, address));
        assert_eq!(self.request("GET", "/readyz", "", "").0, 200, "{}", line.place);
    }

    pub(crate) fn stop_server(&mut self) {
        if let Some((mut child, _)) = self.server.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends what a `curl` line sends.
    fn send(&self, line: &Shown) {
        let (mut method, mut headers, mut body, mut path) = ("GET", String::new(), String::new(), "/");
        let mut words = line.words[1..].iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                "-X" => method = words.next().unwrap(),
                "-H" => headers += &format!("{}\r\n", words.next().unwrap()),
                "-d" => words.next().unwrap().clone_into(&mut body),
                address => path = address.strip_prefix("localhost:7878").unwrap(),
            }
        }
        if body.contains("FINGERPRINT") {
            let index: Value = serde_json::from_str(&self.request("GET", "/v1/index", "", "").1).unwrap();
            body = body.replace("FINGERPRINT", index["model"].as_str().unwrap());
        }
        let (status, answer) = self.request(method, path, &headers, &body);
        assert_eq!(status, 200, "{}: {}\n{answer}", line.place, line.text);
    }

    fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let (_, address) = self.server.as_ref().expect("a `dpr serve` before it on the page");
        let mut socket = TcpStream::connect(address).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n"
        );
        socket.write_all((head + body).as_bytes()).unwrap();
        let mut reply = String::new();
        socket.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn write_articles(&self) {
        for town in 0..TOWNS {
            let filler = |from: usize, count: usize| -> String {
                let word = |at: usize| match at % 40 {
                    // In every block, so that BM25 finds more than a hundred for each question.
                    0 => "bridge ".to_owned(),
                    // Sentences, for the inverse cloze task.
                    n if n % 13 == 12 => "end. A ".to_owned(),
                    _ => format!("w{} ", (town * 131 + at * 17) % 997),
                };
                (from..from + count).map(word).collect()
            };
            let text = format!(
                "{} The bridge of town{town} was built by Mason{town} . {}",
                // So that the next sentence is early in a block, which a small reader cuts.
                filler(0, 100),
                filler(100, 370)
            );
            let (name, text) = match town % 3 {
                0 => (format!("town{town}.txt"), text),
                1 => (format!("town{town}.md"), format!("# Town {town}\n\n{text}\n")),
                _ => (format!("town{town}.html"), format!("<title>Town {town}</title><p>{text}</p>")),
            };
            self.write(&format!("articles/{name}"), &text);
        }
    }

    fn write_questions(&self) {
        let tsv = |towns: Range<usize>| -> String {
            towns.map(|town| format!("{}\t['Mason{town}']\n", question(town))).collect()
        };
        self.write("train.tsv", &tsv(TRAIN));
        self.write("dev.tsv", &tsv(DEV));
        self.write("test.tsv", &tsv(TEST));
        self.write("questions.txt", &format!("{}\nwho won super bowl 50\n", question(TEST.start)));
        let paragraphs = TEST.map(|town| {
            let context = format!("Mason{town} built it.");
            let answers = [json!({"text": format!("Mason{town}"), "answer_start": 0})];
            json!({"context": context, "qas": [{"id": format!("q{town}"), "question": question(town), "answers": answers}]})
        });
        let paragraphs: Vec<Value> = paragraphs.collect();
        self.write(
            "squad-dev.json",
            &json!({"version": "1.1", "data": [{"title": "Towns", "paragraphs": paragraphs}]}).to_string(),
        );
        let predictions: serde_json::Map<String, Value> =
            TEST.map(|town| (format!("q{town}"), format!("Mason{town}").into())).collect();
        self.write("predictions.json", &Value::Object(predictions).to_string());
    }

    /// The program, in this folder, on the CPU.
    fn dpr(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dpr"));
        command.current_dir(self.dir.path()).env("DPR_DEVICE", "cpu");
        for name in ["DPR_MODEL", "DPR_INDEX", "DPR_LOG", "DPR_UPDATE_TOKEN", "DPR_KEYS", "DPR_KEYS_FILE"] {
            command.env_remove(name);
        }
        command
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn copy(&self, from: &Path, to: &str) {
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = self.path(to).join(entry.file_name());
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
