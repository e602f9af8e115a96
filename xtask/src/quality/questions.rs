//! Questions made by rules: whether the weight of hybrid ranking can be tuned on them.

use super::files::{cells, measured};
use super::{TUNED_ON, Work, eval, once};
use crate::failure::Outcome;
use crate::paths::{DEMO_MODEL, SQUAD};

/// Blocks of Wikipedia among the paragraphs of SQuAD dev.
const BLOCKS: usize = 5_000;
/// Passages that questions are made of.
const MADE_OF: &str = "4000";
/// Kinds of questions, each alone and all together.
const KINDS: [&str; 5] = ["title", "cloze", "template", "anchor", "title,cloze,template,anchor"];

impl Work<'_> {
    /// Tunes hybrid ranking on questions of each kind and on real ones, and asks those of SQuAD dev that were not
    /// tuned on.
    pub(super) fn made_questions(&self) -> Outcome {
        let corpus = self.path("corpus.tsv");
        self.data.mix(SQUAD, 0..BLOCKS, &corpus)?;
        let index = self.index("starter", DEMO_MODEL, &corpus, &["--sparse", "english"])?;
        let real = self.tune(DEMO_MODEL, &index, &["--questions", SQUAD, "--limit", TUNED_ON])?;
        let mut rows =
            vec![("the default".to_owned(), None), (format!("{TUNED_ON} real questions"), Some(real))];
        for kinds in KINDS {
            let [out, queries, qrels] = ["json.gz", "jsonl", "tsv"]
                .map(|end| self.path(&format!("{}.{end}", kinds.replace(',', "-"))));
            let from = ["data", "questions", "--passages", &corpus, "--kinds", kinds, "--limit", MADE_OF];
            once(&qrels, &[&from[..], &["--out", &out, "--queries", &queries, "--qrels", &qrels]].concat())?;
            let weight = self.tune(DEMO_MODEL, &index, &["--questions", &queries, "--qrels", &qrels])?;
            rows.push((kinds.to_owned(), Some(weight)));
        }
        let mut table = vec![
            "| tuned on | weight | top-1 | top-5 | top-20 | top-100 |".to_owned(),
            "|---|---|---|---|---|---|".to_owned(),
        ];
        for (name, weight) in &rows {
            let results = self.path(&format!("results-{}", weight.as_deref().unwrap_or("default")));
            let mut options = vec!["--questions", SQUAD, "--skip", TUNED_ON, "--out", &results];
            options.extend(weight.iter().flat_map(|weight| ["--lambda", weight]));
            eval(DEMO_MODEL, &index, "hybrid", &options)?;
            let weight = weight.as_deref().unwrap_or("the paper's 1.1");
            table.push(format!("| {name} | {weight} | {} |", cells(&measured(&results)?, "hybrid")));
        }
        println!();
        table.iter().for_each(|line| println!("{line}"));
        Ok(())
    }
}
