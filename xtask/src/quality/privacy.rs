//! `--only privacy`: what attackers make of plain and blurred questions and of fetched buckets, on blocks of Wikipedia.

use super::Work;
use crate::bench::{Vectors, vectors};
use crate::failure::Outcome;
use crate::paths::{DEMO_MODEL, dpr};
use crate::process::{self, command, output};

/// Public question sets that attackers learn from and are tested on.
const QUESTIONS: [&str; 4] = ["nq-dev.tsv", "nq-test.tsv", "trivia-dev.tsv", "wq-train.json"];

/// Questions that candidates are calibrated with: of another set than those that are attacked.
const CALIBRATED_ON: &str = "wq-dev.json";

impl Work<'_> {
    /// The starter model's vectors of blocks drawn at random, and all question sets.
    pub(super) fn privacy(&self) -> Outcome {
        // Those of `cargo xtask bench --only index`: 60,000 of them take half an hour.
        let Some(Vectors { vectors, .. }) = vectors(false)? else { return Ok(()) };
        let index = self.path("index");
        output(&mut command(dpr(), &["index", "--vectors", &vectors, "--out", &index]))?;
        let (blur, report) = (self.path("blur"), self.path("report"));
        let calibrated_on = self.data.questions(CALIBRATED_ON);
        let make = ["index", "blur", "--index", &index, "--model", DEMO_MODEL, "--out", &blur, "--questions"];
        process::run(command(dpr(), &make).arg(calibrated_on))?;
        let site = self.path("site");
        let export = ["index", "export-static", "--index", &index, "--model", DEMO_MODEL, "--out", &site];
        output(command(dpr(), &export).arg("--buckets"))?;
        let attack = ["eval", "privacy", "--index", &index, "--model", DEMO_MODEL, "--blur", &blur, "--out"];
        let mut attack = command(dpr(), &attack);
        attack.args([report.as_str(), "--site", &site, "--modes"]);
        attack.arg("plain,light,medium,strong,bucket:1:1,bucket:2:2,bucket:4:4,bucket:8:8,random");
        for set in QUESTIONS {
            attack.args(["--questions", &self.data.questions(set)]);
        }
        process::run(&mut attack)
    }
}
