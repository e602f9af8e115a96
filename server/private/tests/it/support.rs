//! An index of random vectors, its private tables, and a server without a socket.

use std::path::Path;

use dpr_core::random::SplitMix;
use dpr_data::Passage;
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{IndexOptions, LiveIndex, LoadedIndex, build_index};
use dpr_private::client::{Transport, TransportError};
use dpr_private::{BuildOptions, Tables, build};

pub(crate) const DIM: usize = 48;
pub(crate) const MODEL: &str = "the model";

/// Unit vectors `[count, DIM]` around a few directions.
pub(crate) fn vectors(count: usize, seed: u64) -> Vec<f32> {
    let mut random = SplitMix::new(seed);
    let centres: Vec<f64> = (0..20 * DIM).map(|_| random.normal()).collect();
    let vector = |random: &mut SplitMix| {
        let centre = random.below(20) * DIM;
        let vector: Vec<f64> = (0..DIM).map(|at| centres[centre + at] + random.normal()).collect();
        let norm = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
        vector.into_iter().map(move |x| (x / norm) as f32)
    };
    (0..count).flat_map(|_| vector(&mut random)).collect()
}

pub(crate) fn passages(count: usize) -> Vec<Passage> {
    let mut random = SplitMix::new(4);
    let words = ["river", "bridge", "castle", "of", "the", "winter", "한국", "é", "\"quoted\"", "tower\n"];
    let passage = |at: usize, random: &mut SplitMix| {
        let text: Vec<&str> = (0..random.below(120) + 1).map(|_| words[random.below(words.len())]).collect();
        Passage::new(format!("p{at}"), format!("Title {}", at / 5), format!("{at}: {}", text.join(" ")))
    };
    (0..count).map(|at| passage(at, &mut random)).collect()
}

/// Builds an index and its private tables in `dir`, and opens them.
pub(crate) fn tables(dir: &Path, count: usize) -> (LoadedIndex, Tables) {
    let set = VectorSet::new(MODEL, DIM, passages(count), vectors(count, 1));
    build_index(&set, dir, &IndexOptions::default(), &Silent).unwrap();
    build(dir, &BuildOptions::default(), &Silent).unwrap();
    let index = LoadedIndex::open(dir).unwrap();
    let tables = Tables::open(dir, index.number(), index.version()).unwrap();
    (index, tables)
}

/// What a server is sent: method, path, and the length of the body.
pub(crate) type Sent = (&'static str, String, usize);

/// Changes an answer to a path.
pub(crate) type Change<'a> = Box<dyn FnMut(&str, Vec<u8>) -> Vec<u8> + 'a>;

/// A server that remembers what it was sent, and whose answers a test may change.
pub(crate) struct Direct<'a> {
    pub(crate) tables: &'a Tables,
    /// The index as it is now; without it nothing has changed.
    pub(crate) live: Option<&'a LiveIndex>,
    pub(crate) sent: Vec<Sent>,
    pub(crate) change: Change<'a>,
}

impl<'a> Direct<'a> {
    pub(crate) fn new(tables: &'a Tables) -> Self {
        Self { tables, live: None, sent: Vec::new(), change: Box::new(|_, answer| answer) }
    }
}

impl Transport for Direct<'_> {
    fn get(&mut self, path: &str, _: u64) -> Result<Vec<u8>, TransportError> {
        self.sent.push(("GET", path.to_owned(), 0));
        let file = path.strip_prefix("/v1/encrypted/files/").and_then(|path| path.split_once('/'));
        let answer = match (file, path.strip_prefix("/v1/encrypted/delta/")) {
            (None, None) => self.tables.json().to_vec(),
            (None, Some(version)) => {
                assert_eq!(version, self.tables.version());
                self.tables.delta(&self.live.ok_or("nothing has changed")?.snapshot())?.to_vec()
            }
            (Some((sha256, name)), _) => {
                let mut files = self.tables.public_contents();
                let (content, ..) =
                    files.find(|file| (file.1, file.2.sha256.as_str()) == (name, sha256)).unwrap();
                content.bytes().to_vec()
            }
        };
        Ok((self.change)(path, answer))
    }

    fn post(&mut self, path: &str, message: &[u8], _: u64) -> Result<Vec<u8>, TransportError> {
        self.sent.push(("POST", path.to_owned(), message.len()));
        let answer = match path {
            "/v1/encrypted/rank" => {
                let changes = self.live.map_or(0, |live| live.snapshot().changes());
                self.tables.rank(&[self.tables.read_rank(message, changes)?])
            }
            _ => self.tables.fetch(&[self.tables.read_fetch(message)?]),
        };
        Ok((self.change)(path, answer.concat()))
    }
}
