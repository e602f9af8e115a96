//! All parts, each in a process of its own, beside PyTorch where it has the same GPU: a table.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Outcome;

/// The script of the peer, so that this program needs no file beside it.
const PEER: &str = include_str!("../../../../tests/bench/gpu_peer.py");

/// Time after which a part is ended: tuning takes minutes at first.
const LIMIT: Duration = Duration::from_secs(1200);

/// Steps of the paper's schedule for Natural Questions: 58,880 questions in batches of 128, 40 times.
const STEPS_OF_PAPER: f64 = 18_400.0;

/// A part in every number format.
struct Part {
    name: &'static str,
    /// SIZE, or ROWS of a search.
    size: &'static str,
    /// What follows size and precision.
    rest: &'static [&'static str],
    /// Numbers of `rest` that the peer takes too.
    shared: usize,
    /// The figure of the table, and its unit.
    figure: (&'static str, &'static str),
}

const fn encode(size: &'static str, rest: &'static [&'static str]) -> Part {
    Part { name: "encode", size, rest, shared: 3, figure: ("passages_per_second", "passages/s") }
}

const fn train(size: &'static str, rest: &'static [&'static str]) -> Part {
    Part { name: "train", size, rest, shared: 3, figure: ("questions_per_second", "questions/s") }
}

const fn search(rows: &'static str, rest: &'static [&'static str]) -> Part {
    Part { name: "search", size: rows, rest, shared: 2, figure: ("questions_per_second", "questions/s") }
}

/// Parts of a GPU: 64 passages of 160 tokens, the paper's batch of 128 questions with 256 passages of 256 tokens, and
/// 128 questions over a million vectors.
const REAL: [Part; 5] = [
    encode("minilm", &["64", "160", "3"]),
    encode("base", &["64", "160", "3"]),
    train("minilm", &["128", "256", "6", "16384", "65536"]),
    train("base", &["128", "256", "50", "16384", "16384"]),
    search("1000000", &["768", "128"]),
];

/// Parts of a software adapter, which takes minutes for less.
const SOFTWARE: [Part; 3] = [
    encode("tiny", &["4", "32", "2"]),
    train("tiny", &["4", "32", "2", "1024", "4096"]),
    search("20000", &["128", "16"]),
];

/// A part in one number format.
struct Job {
    part: &'static Part,
    precision: Option<&'static str>,
}

/// Runs the parts on `wgpu` whose names, as `train base f16`, contain one of `only`; all where there is none.
pub(crate) fn run(only: &[String]) -> Outcome<()> {
    let adapter = ask(&["adapter", "wgpu"])?;
    let name = adapter["device"].as_str().unwrap_or_default().to_owned();
    let formats: Vec<&'static str> = ["f32", "f16", "bf16"]
        .into_iter()
        .filter(|format| adapter["formats"].as_array().is_some_and(|list| list.contains(&json!(format))))
        .collect();
    let is_software = ["llvmpipe", "SwiftShader"].iter().any(|software| name.contains(software));
    let language = if adapter["spirv"] == true { "SPIR-V" } else { "WGSL" };
    println!("gpu: {name}, {language}, multiplies in {}", formats.join(", "));
    let peer = Peer::find()?;
    if let Some(peaks) = peer.as_ref().and_then(|peer| peer.ask(&["peaks".to_owned()]).ok()) {
        println!("gpu: PyTorch on {}: {peaks}", peaks["device"].as_str().unwrap_or_default());
    }
    let parts: &[Part] = if is_software { &SOFTWARE } else { &REAL };
    let mut jobs = Vec::new();
    for part in parts {
        match part.name {
            "search" => jobs.push(Job { part, precision: None }),
            _ => jobs.extend(formats.iter().map(|format| Job { part, precision: Some(*format) })),
        }
    }
    println!(
        "{:<20} {:>11} {:>11} {:>6}  {:<12} {:>9} {:>9} {:>7} {:>5} {:>8}",
        "part", "dpr", "PyTorch", "ratio", "", "TFLOP/s", "PyTorch's", "first s", "busy", "MiB"
    );
    for job in jobs.iter().filter(|job| only.is_empty() || only.iter().any(|name| job.name().contains(name)))
    {
        job.run(peer.as_ref());
    }
    Ok(())
}

impl Job {
    fn name(&self) -> String {
        [self.part.name, self.part.size, self.precision.unwrap_or_default()].join(" ").trim_end().to_owned()
    }

    fn run(&self, peer: Option<&Peer>) {
        let name = self.name();
        let part = self.part;
        let sizes = [Some(part.size), self.precision].into_iter().flatten();
        let own = [part.name, "wgpu"].into_iter().chain(sizes.clone()).chain(part.rest.iter().copied());
        let own: Vec<&str> = own.collect();
        let watched = Watch::start();
        let measured = ask(&own);
        let (busy, memory) = watched.map_or((f64::NAN, f64::NAN), Watch::end);
        let theirs = peer.map(|peer| {
            let of_peer = sizes.chain(part.rest[..part.shared].iter().copied());
            peer.ask(&std::iter::once(part.name).chain(of_peer).map(str::to_owned).collect::<Vec<_>>())
        });
        let theirs = match theirs {
            Some(Err(error)) => {
                println!("{name}: PyTorch: {error}");
                Value::Null
            }
            Some(Ok(theirs)) => theirs,
            None => Value::Null,
        };
        let number = |answer: &Value, key: &str| answer[key].as_f64().unwrap_or(f64::NAN);
        let (key, unit) = part.figure;
        match measured {
            Ok(own) => {
                let (speed, other) = (number(&own, key), number(&theirs, key));
                let [work, other_work] = [&own, &theirs].map(|answer| number(answer, "teraflops"));
                let (ratio, first) = (speed / other, number(&own, "first_seconds"));
                print!("{name:<20} {speed:>11.1} {other:>11.1} {ratio:>6.2}  {unit:<12} {work:>9.2} ");
                println!("{other_work:>9.2} {first:>7.1} {busy:>4.0}% {memory:>8.0}");
                if let Some(seconds) = own["seconds_a_step"].as_f64().filter(|_| part.size == "base") {
                    println!(
                        "    the paper's {STEPS_OF_PAPER} steps: {:.1} hours",
                        seconds * STEPS_OF_PAPER / 3600.0
                    );
                }
                println!("    {own}");
                println!("    {theirs}");
            }
            Err(error) => println!("{name}: {error}\n    {theirs}"),
        }
    }
}

/// Runs this program with other arguments.
fn ask(arguments: &[&str]) -> Outcome<Value> {
    answer(Command::new(std::env::current_exe()?).args(arguments))
}

/// Returns the JSON object that a program prints last.
fn answer(command: &mut Command) -> Outcome<Value> {
    let errors = tempfile::tempfile()?;
    let printed = tempfile::NamedTempFile::new()?;
    let mut child =
        command.stdin(Stdio::null()).stdout(printed.reopen()?).stderr(errors.try_clone()?).spawn()?;
    let started = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if started.elapsed() > LIMIT => {
                child.kill()?;
                break child.wait()?;
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let text = fs_err::read_to_string(printed.path())?;
    if !status.success() {
        return Err(
            format!("{status} after {:.0} s: {}", started.elapsed().as_secs_f64(), tail(errors)).into()
        );
    }
    Ok(serde_json::from_str(text.lines().last().unwrap_or_default())?)
}

/// Returns the end of what a program said.
fn tail(mut errors: File) -> String {
    use std::io::Seek as _;
    let mut text = String::new();
    let read = errors.rewind().and_then(|()| errors.read_to_string(&mut text));
    if read.is_err() {
        return String::new();
    }
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(6)..].join(" | ")
}

/// PyTorch with the GPU that is measured.
struct Peer {
    python: String,
    script: tempfile::NamedTempFile,
}

impl Peer {
    /// Returns the peer if the Python of `DPR_BENCH_PYTHON`, or `python3`, has a PyTorch that sees a GPU.
    fn find() -> Outcome<Option<Self>> {
        let python = std::env::var("DPR_BENCH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let sees = "import sys, torch; sys.exit(0 if torch.cuda.is_available() else 1)";
        let asked =
            Command::new(&python).args(["-c", sees]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !asked.is_ok_and(|status| status.success()) {
            println!("gpu: {python} has no PyTorch with a GPU: no peer");
            return Ok(None);
        }
        let mut script = tempfile::Builder::new().suffix(".py").tempfile()?;
        script.write_all(PEER.as_bytes())?;
        Ok(Some(Self { python, script }))
    }

    fn ask(&self, arguments: &[String]) -> Outcome<Value> {
        answer(Command::new(&self.python).arg(self.script.path()).args(arguments))
    }
}

/// `nvidia-smi`, which watches a GPU.
struct Watch {
    child: Child,
    printed: tempfile::NamedTempFile,
}

impl Watch {
    fn start() -> Option<Self> {
        let printed = tempfile::NamedTempFile::new().ok()?;
        let query =
            ["--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits", "-lms", "100"];
        let child = Command::new("nvidia-smi")
            .args(query)
            .stdout(printed.reopen().ok()?)
            .stderr(Stdio::null())
            .spawn();
        Some(Self { child: child.ok()?, printed })
    }

    /// Returns the share of the time in which a kernel ran, in per cent, over the second half, and the most memory, in
    /// MiB.
    fn end(mut self) -> (f64, f64) {
        if self.child.kill().and_then(|()| self.child.wait()).is_err() {
            return (f64::NAN, f64::NAN);
        }
        let text = fs_err::read_to_string(self.printed.path()).unwrap_or_default();
        let pairs = text.lines().filter_map(|line| line.split_once(','));
        let numbers =
            |(busy, memory): (&str, &str)| Some((busy.trim().parse().ok()?, memory.trim().parse().ok()?));
        let samples: Vec<(f64, f64)> = pairs.filter_map(numbers).collect();
        let late = &samples[samples.len() / 2..];
        let busy = late.iter().map(|(busy, _)| busy).sum::<f64>() / late.len() as f64;
        (busy, samples.iter().map(|(_, memory)| *memory).fold(f64::NAN, f64::max))
    }
}
