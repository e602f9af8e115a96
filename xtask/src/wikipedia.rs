//! Data that does not ship: Wikipedia introductions and published question sets, where they are at hand.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::demo_data::ENCODING;
use crate::failure::{Failure, Outcome};
use crate::paths::dpr;
use crate::process::{self, command, output};
use crate::stamp::Stamp;

/// The folder of the blocks.
const FOLDER: &str = "target/bench";

/// Seed of the draw of blocks. Blocks of one article stand together in the file.
const SEED: u64 = 12345;

/// The folder of it.
pub(crate) struct Wikipedia(PathBuf);

impl Wikipedia {
    /// Beside the repository, or where `DPR_SHARED` says; says so when it is not there.
    pub(crate) fn find() -> Option<Self> {
        let shared = std::env::var_os("DPR_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
        let data = Self(shared.join("data"));
        if Path::new(&data.passages()).is_file() {
            return Some(data);
        }
        println!(
            "skipped: Wikipedia and its questions are not beside the repository (DPR_SHARED names another place)"
        );
        None
    }

    /// Splits the introductions into blocks of 100 words; the file of blocks.
    pub(crate) fn blocks(&self) -> Outcome<String> {
        fs::create_dir_all(FOLDER).map_err(|error| Failure::new(format!("cannot make {FOLDER}: {error}")))?;
        let blocks = format!("{FOLDER}/wikipedia-blocks.tsv");
        output(&mut command(dpr(), &["data", "split", "--input", &self.passages(), "--out", &blocks]))?;
        Ok(blocks)
    }

    /// Writes `corpus`: the paragraphs of a SQuAD file, then blocks of Wikipedia drawn at random, as
    /// [`drawn_blocks`](Self::drawn_blocks).
    pub(crate) fn mix(&self, squad: &str, drawn: Range<usize>, corpus: &str) -> Outcome {
        let part = format!("{corpus}.part");
        let convert = ["data", "convert", "--input", squad, "--out", &part, "--to", "psgs-tsv", "--lossy"];
        output(&mut command(dpr(), &convert))?;
        self.append(drawn, false, &part)?;
        whole(&part, corpus)
    }

    /// Writes `corpus`: blocks of Wikipedia drawn at random, those from `drawn.start` to `drawn.end` of a random order.
    /// Two ranges that do not meet have no block in common.
    pub(crate) fn drawn_blocks(&self, drawn: Range<usize>, corpus: &str) -> Outcome {
        let part = format!("{corpus}.part");
        let _ = fs::remove_file(&part);
        self.append(drawn, true, &part)?;
        whole(&part, corpus)
    }

    /// Adds drawn lines of the file of blocks to `corpus`, in the order of the file, with its header where that is
    /// wanted.
    fn append(&self, drawn: Range<usize>, header: bool, corpus: &str) -> Outcome {
        let wikipedia = self.blocks()?;
        let append = || -> io::Result<()> {
            let text = fs::read_to_string(&wikipedia)?;
            let lines: Vec<&str> = text.lines().collect();
            let mut out = File::options().create(true).append(true).open(corpus)?;
            let head = lines.first().filter(|_| header);
            let blocks = lines.get(1..).unwrap_or_default();
            let rows = drawn_of(blocks.len(), drawn.clone());
            let chosen = head.into_iter().copied().chain(rows.into_iter().map(|row| blocks[row]));
            let text: String = chosen.flat_map(|line| [line, "\n"]).collect();
            io::Write::write_all(&mut out, text.as_bytes())
        };
        append().map_err(|error| Failure::new(format!("cannot add {wikipedia} to {corpus}: {error}")))
    }

    /// The question set of this name.
    pub(crate) fn questions(&self, name: &str) -> String {
        self.0.join(format!("questions/{name}")).to_string_lossy().into_owned()
    }

    /// The SQuAD-format set of this name.
    pub(crate) fn squad(&self, name: &str) -> String {
        self.0.join(format!("squad/{name}.json")).to_string_lossy().into_owned()
    }

    /// KorQuAD 1.0 dev; says so when it is not there.
    pub(crate) fn korquad(&self) -> Option<String> {
        let file = self.0.join("korquad/korquad-dev-v1.0.json");
        if !file.is_file() {
            println!("skipped: KorQuAD is not beside the repository (DPR_SHARED names another place)");
            return None;
        }
        Some(file.to_string_lossy().into_owned())
    }

    fn passages(&self) -> String {
        self.0.join("wiki/passages.tsv.gz").to_string_lossy().into_owned()
    }
}

/// Gives a file its name when all of it is written.
fn whole(part: &str, name: &str) -> Outcome {
    fs::rename(part, name).map_err(|error| Failure::new(format!("cannot rename {part} to {name}: {error}")))
}

/// Returns the numbers below `count` at these places of a random order, ascending. The order is that of SHA-256 over a
/// seed and the number: the same on every machine, and the first thousand are among the first two thousand.
fn drawn_of(count: usize, places: Range<usize>) -> Vec<usize> {
    let mut order: Vec<(Vec<u8>, usize)> =
        (0..count).map(|number| (Sha256::digest(format!("{SEED} {number}")).to_vec(), number)).collect();
    order.sort_unstable();
    let mut drawn: Vec<usize> =
        order.into_iter().skip(places.start).take(places.len()).map(|(_, number)| number).collect();
    drawn.sort_unstable();
    drawn
}

/// Minutes of work, so what an earlier run encoded of the same corpus in the same way is kept; `name` tells what is
/// kept apart.
pub(crate) fn encode(name: &str, model: &str, corpus: &str, vectors: &str, more: &[&str]) -> Outcome {
    let arguments = ["encode", "--model", model, "--passages", corpus, "--out", vectors];
    let arguments = [&arguments[..], more].concat();
    let manifest = format!("{model}/model.json");
    let mut inputs = vec![manifest.as_str(), corpus];
    inputs.extend(ENCODING);
    // Written before the work: `dpr encode` goes on where it was, and is quick where all is done.
    let stamp = Stamp::of(name, &inputs, &[&arguments.join(" ")])?;
    if !stamp.is_fresh(&[]) {
        let _ = fs::remove_dir_all(vectors);
        stamp.write()?;
    }
    process::run(&mut command(dpr(), &arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_drawn_from_the_whole_file() {
        let drawn = drawn_of(100_000, 0..2_000);
        assert!(drawn.len() == 2_000 && drawn.is_sorted());
        for tenth in 0..10 {
            let of_tenth = drawn.iter().filter(|row| **row / 10_000 == tenth).count();
            assert!((140..260).contains(&of_tenth), "{of_tenth} of tenth {tenth}");
        }
        let fewer = drawn_of(100_000, 0..1_000);
        assert!(fewer.iter().all(|row| drawn.contains(row)));
        assert!(drawn_of(100_000, 2_000..3_000).iter().all(|row| !drawn.contains(row)));
        assert_eq!(drawn_of(10, 0..50), (0..10).collect::<Vec<_>>());
    }
}
