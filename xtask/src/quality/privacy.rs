//! `--only privacy` and `privacy-large`: what attackers make of plain and blurred questions and of fetched buckets, on
//! blocks of Wikipedia.

use super::Work;
use crate::bench::{Vectors, vectors};
use crate::failure::Outcome;
use crate::paths::{DEMO_MODEL, dpr};
use crate::process::{self, command, output};
use crate::wikipedia::encode;

/// Public question sets that attackers learn from and are tested on.
const QUESTIONS: [&str; 4] = ["nq-dev.tsv", "nq-test.tsv", "trivia-dev.tsv", "wq-train.json"];

/// Questions that candidates are calibrated with: of another set than those that are attacked.
const CALIBRATED_ON: &str = "wq-dev.json";

impl Work<'_> {
    /// All modes on 60,000 blocks drawn at random.
    pub(super) fn privacy(&self) -> Outcome {
        // Vectors that `cargo xtask bench --only index` uses too; encoding takes a quarter of an hour.
        let Some(Vectors { vectors, .. }) = vectors(false)? else { return Ok(()) };
        let (index, blur) = self.blurred(&vectors)?;
        let site = self.path("site");
        let export = ["index", "export-static", "--index", &index, "--model", DEMO_MODEL, "--out", &site];
        output(command(dpr(), &export).arg("--buckets"))?;
        let modes = "plain,light,medium,strong,bucket:1:1,bucket:2:2,bucket:4:4,bucket:8:8,random";
        self.attack(&index, &blur, &["--site", &site, "--modes", modes])
    }

    /// Plain and blurred questions on all blocks, whose vectors are made in bf16 for its speed.
    pub(super) fn privacy_large(&self) -> Outcome {
        let (blocks, vectors) = (self.data.blocks()?, self.path("vectors"));
        encode("quality-privacy-large", DEMO_MODEL, &blocks, &vectors, &["--precision", "bf16"])?;
        let (index, blur) = self.blurred(&vectors)?;
        self.attack(&index, &blur, &["--modes", "plain,light,medium,strong,random"])
    }

    /// An exact index of these vectors and its levels of blurring; their directories.
    fn blurred(&self, vectors: &str) -> Outcome<(String, String)> {
        let (index, blur) = (self.path("index"), self.path("blur"));
        output(&mut command(dpr(), &["index", "--vectors", vectors, "--out", &index]))?;
        let make = ["index", "blur", "--index", &index, "--model", DEMO_MODEL, "--out", &blur, "--questions"];
        process::run(command(dpr(), &make).arg(self.data.questions(CALIBRATED_ON)))?;
        Ok((index, blur))
    }

    /// Attacks the questions of all sets; the report is in the folder `report`.
    fn attack(&self, index: &str, blur: &str, more: &[&str]) -> Outcome {
        let report = self.path("report");
        let attack = ["eval", "privacy", "--index", index, "--model", DEMO_MODEL, "--blur", blur, "--out"];
        let mut attack = command(dpr(), &attack);
        attack.arg(report).args(more);
        for set in QUESTIONS {
            attack.args(["--questions", &self.data.questions(set)]);
        }
        process::run(&mut attack)
    }
}
