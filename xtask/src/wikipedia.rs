//! Data that does not ship: Wikipedia introductions and published question sets, where they are at hand.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::demo_data::ENCODING;
use crate::failure::{Failure, Outcome};
use crate::paths::{SQUAD, dpr};
use crate::process::{self, command, output};
use crate::stamp::Stamp;

/// Where the blocks are kept.
const FOLDER: &str = "target/bench";

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

    /// Writes `corpus`: the paragraphs of SQuAD dev, then the first blocks of Wikipedia.
    pub(crate) fn mix(&self, blocks: usize, corpus: &str) -> Outcome {
        let convert = ["data", "convert", "--input", SQUAD, "--out", corpus, "--to", "psgs-tsv", "--lossy"];
        output(&mut command(dpr(), &convert))?;
        self.append(1..=blocks, corpus)
    }

    /// Writes `corpus`: the first blocks of Wikipedia.
    pub(crate) fn first_blocks(&self, blocks: usize, corpus: &str) -> Outcome {
        let _ = fs::remove_file(corpus);
        self.append(0..=blocks, corpus)
    }

    /// Adds these lines of the file of blocks, whose line 0 is the header, to `corpus`.
    fn append(&self, lines: RangeInclusive<usize>, corpus: &str) -> Outcome {
        let wikipedia = self.blocks()?;
        let append = || -> io::Result<()> {
            let mut text = String::new();
            let wanted = BufReader::new(File::open(&wikipedia)?).lines().skip(*lines.start());
            for line in wanted.take(lines.end() - lines.start() + 1) {
                text.push_str(&line?);
                text.push('\n');
            }
            let mut out = File::options().create(true).append(true).open(corpus)?;
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

    fn passages(&self) -> String {
        self.0.join("wiki/passages.tsv.gz").to_string_lossy().into_owned()
    }
}

/// Minutes of work, so what an earlier run encoded of the same corpus in the same way is kept; `name` tells what is kept
/// apart.
pub(crate) fn encode(name: &str, model: &str, corpus: &str, vectors: &str) -> Outcome {
    let arguments = ["encode", "--model", model, "--passages", corpus, "--out", vectors];
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
