//! Encrypted search: bytes, processor time of the server and of the client, memory, and whether the texts are right.
//!
//!     private_bench PASSAGES FOLDER [COUNT ...]
//!     private_bench --plot LINES FOLDER
//!
//! Prints a line of JSON for each number of passages. Texts are the first of the file, cut at 100 words, and more than it
//! has are its own once more with other ids and titles; vectors are synthetic, of 768 numbers around one direction for
//! each title, with a spectrum that falls as that of encoders does.
//! Times are those that one thread had a processor, so that other work on the machine does not count. The second form
//! plots such lines beside published figures.

mod published;

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

use dpr_core::random::SplitMix;
use dpr_data::{Passage, read_passages};
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{IndexKind, IndexOptions, LoadedIndex, build_index};
use dpr_private::client::{Client, Transport, TransportError};
use dpr_private::{BuildOptions, Tables, build};
use serde_json::json;

const DIM: usize = 768;
const MODEL: &str = "synthetic";
const K: usize = 5;
const SEARCHES: usize = 200;
const COUNTS: [usize; 3] = [2067, 22_000, 100_000];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, lines, folder] = arguments.as_slice()
        && flag == "--plot"
    {
        return published::plot(Path::new(lines), Path::new(folder));
    }
    let [passages, folder, counts @ ..] = arguments.as_slice() else {
        return Err(
            "usage: private_bench PASSAGES FOLDER [COUNT ...], or private_bench --plot LINES FOLDER".into()
        );
    };
    let counts: Vec<usize> = match counts {
        [] => COUNTS.to_vec(),
        counts => counts.iter().map(|count| count.parse()).collect::<Result<_, _>>()?,
    };
    let most = counts.iter().copied().max().unwrap_or_default();
    let mut passages = read_passages(Path::new(passages))?;
    passages.truncate(most);
    for passage in &mut passages {
        passage.text = passage.text.split_whitespace().take(100).collect::<Vec<_>>().join(" ");
        passage.metadata = Default::default();
    }
    for count in counts {
        if passages.is_empty() {
            return Err("the file has no passages".into());
        }
        println!("{}", measure(repeated(&passages, count), &Path::new(folder).join(count.to_string()))?);
    }
    Ok(())
}

/// Returns so many passages: the given ones, and then those again under other ids and titles.
fn repeated(passages: &[Passage], count: usize) -> Vec<Passage> {
    let passage = |at: usize| {
        let (round, mut passage) = (at / passages.len(), passages[at % passages.len()].clone());
        if round > 0 {
            passage.id = format!("{}-{round}", passage.id);
            passage.title = format!("{} {round}", passage.title);
        }
        passage
    };
    (0..count).map(passage).collect()
}

/// Unit vectors: a direction for each title, one for each passage, and coordinates that weigh less and less.
fn vectors(passages: &[Passage]) -> Vec<f32> {
    let mut random = SplitMix::new(1);
    let weights: Vec<f64> = (0..DIM).map(|at| (1.0 + at as f64 / 20.0).powf(-0.8)).collect();
    let (mut title, mut centre) = (None, vec![0.0; DIM]);
    let mut rows = Vec::with_capacity(passages.len() * DIM);
    for passage in passages {
        if title != Some(&passage.title) {
            title = Some(&passage.title);
            centre = weights.iter().map(|weight| weight * random.normal()).collect();
        }
        let row: Vec<f64> =
            centre.iter().zip(&weights).map(|(centre, weight)| centre + weight * random.normal()).collect();
        let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        rows.extend(row.into_iter().map(|x| (x / norm) as f32));
    }
    rows
}

/// Milliseconds that this thread has had a processor.
///
/// # Errors
/// A sentence where the system does not say: without a clock every time would be 0, and within its limit.
fn processor_ms() -> Result<f64, String> {
    const CLOCK: &str = "/proc/thread-self/schedstat";
    let text = std::fs::read_to_string(CLOCK).map_err(|error| {
        format!("cannot read {CLOCK}: {error}: run this on Linux with CONFIG_SCHED_INFO in its kernel")
    })?;
    let nanoseconds = text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
    Ok(nanoseconds.ok_or_else(|| format!("{CLOCK} begins with no number: {text:?}"))? / 1e6)
}

/// The server in this process, with its processor time and what went to and fro.
struct Direct<'a> {
    tables: &'a Tables,
    rank_ms: f64,
    fetch_ms: f64,
    up: usize,
    down: usize,
}

impl Transport for Direct<'_> {
    fn get(&mut self, path: &str, _: u64) -> Result<Vec<u8>, TransportError> {
        let Some((_, name)) = path.strip_prefix("/v1/encrypted/files/").and_then(|path| path.split_once('/'))
        else {
            return Ok(self.tables.json().to_vec());
        };
        let file = self.tables.public_contents().find(|file| file.1 == name);
        Ok(file.ok_or("no such file")?.0.bytes().to_vec())
    }

    fn post(&mut self, path: &str, message: &[u8], _: u64) -> Result<Vec<u8>, TransportError> {
        let start = processor_ms()?;
        let answer = match path {
            "/v1/encrypted/rank" => self.tables.rank(&[self.tables.read_rank(message, 0)?]),
            _ => self.tables.fetch(&[self.tables.read_fetch(message)?]),
        };
        let took = processor_ms()? - start;
        match path {
            "/v1/encrypted/rank" => self.rank_ms += took,
            _ => self.fetch_ms += took,
        }
        let answer = answer.concat();
        self.up += message.len();
        self.down += answer.len();
        Ok(answer)
    }
}

fn measure(passages: Vec<Passage>, folder: &Path) -> Result<serde_json::Value, Box<dyn Error>> {
    let _ = std::fs::remove_dir_all(folder);
    let rows = vectors(&passages);
    let set = VectorSet::new(MODEL, DIM, passages.clone(), rows);
    // What is measured does not search the index.
    build_index(&set, folder, &IndexOptions { kind: IndexKind::Exact, ..IndexOptions::default() }, &Silent)?;
    drop(set);
    let known: HashMap<&str, &Passage> =
        passages.iter().map(|passage| (passage.id.as_str(), passage)).collect();
    let started = std::time::Instant::now();
    // The texts of the answer's first five are what is asked for at every size, at the dimension of the next size.
    let dims = (passages.len() > 50_000).then_some(192);
    build(folder, &BuildOptions { dims, ..BuildOptions::default() }, &Silent)?;
    let build_seconds = started.elapsed().as_secs_f64();
    let index = LoadedIndex::open(folder)?;
    let tables = Tables::open(folder, index.number(), index.version())?;
    let direct = Direct { tables: &tables, rank_ms: 0.0, fetch_ms: 0.0, up: 0, down: 0 };
    let mut client = Client::connect(direct, MODEL, None)?;
    let (mut random, mut right, mut same, mut found) = (SplitMix::new(9), 0, 0, 0);
    let (mut prepare_ms, mut search_ms) = (0.0, 0.0);
    for _ in 0..SEARCHES {
        let near = random.below(passages.len());
        let question: Vec<f32> =
            index.matrix()?.row(near).iter().map(|x| x + (0.02 * random.normal()) as f32).collect();
        let start = processor_ms()?;
        client.prepare(K)?;
        prepare_ms += processor_ms()? - start;
        let start = processor_ms()?;
        let hits = client.search(&question, K)?;
        search_ms += processor_ms()? - start;
        for hit in &hits {
            found += 1;
            let known = known.get(hit.id.as_str());
            let is_right = known.is_some_and(|p| p.title == hit.title && p.text == hit.text);
            right += usize::from(is_right);
        }
        same += usize::from(hits.first().is_some_and(|hit| hit.id == passages[near].id));
    }
    let checked = tables.checked();
    let (once, direct) = (client.downloaded(), client.transport());
    let each = |sum: f64| (sum / SEARCHES as f64 * 100.0).round() / 100.0;
    let served = direct.rank_ms + direct.fetch_ms;
    Ok(json!({
        "passages": passages.len(),
        "dims": checked.rank.dims(),
        "columns": checked.fetch.columns(),
        "rows": checked.fetch.rows(),
        "once_bytes": once,
        "up_bytes": direct.up / SEARCHES,
        "down_bytes": direct.down / SEARCHES,
        "server_rank_ms": each(direct.rank_ms),
        "server_fetch_ms": each(direct.fetch_ms),
        "client_prepare_ms": each(prepare_ms),
        "client_search_ms": each(search_ms - served),
        "server_memory_bytes": 4 * tables.rank_cost() + (checked.fetch.rows() * checked.fetch.columns()) as u64,
        "texts_right": right,
        "texts": found,
        "nearest_first": same as f64 / SEARCHES as f64,
        "noise": checked.manifest.rank.noise,
        "build_seconds": build_seconds,
    }))
}
