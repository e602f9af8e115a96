//! Accuracies of several runs that differ by their seed alone.

use std::fs;

use serde_json::Value;

use super::Work;
use crate::failure::{Failure, Outcome};
use crate::json::json;

/// Seeds of training runs whose gain is reported: each figure is a mean of these, with the least and the greatest.
pub(super) const SEEDS: [&str; 3] = ["12345", "1", "2"];

impl Work<'_> {
    /// Trains one run a seed by `configs/small-cpu.toml`; the names and the best models.
    pub(super) fn train_seeds(
        &self,
        name: &str,
        data: &str,
        more: &[&str],
    ) -> Outcome<Vec<(String, String)>> {
        let train = |seed: &&str| {
            let run = of_seed(name, seed);
            self.train_by(&run, "configs/small-cpu.toml", &[data], &[more, &["--seed", seed]].concat())?;
            let best = self.path(&format!("{run}/best"));
            Ok((run, best))
        };
        SEEDS.iter().map(train).collect()
    }

    /// Prints the mean, the least and the greatest accuracy of the runs of each name.
    pub(super) fn over_seeds(&self, names: &[&str]) -> Outcome {
        println!("\nmeans over {} seeds, from the least to the greatest, in %", SEEDS.len());
        for name in names {
            let mut runs = Vec::new();
            for seed in SEEDS {
                let path = self.path(&format!("results-{}/metrics.json", of_seed(name, seed)));
                let text = fs::read_to_string(&path)
                    .map_err(|error| Failure::new(format!("cannot read {path}: {error}")))?;
                runs.push(accuracies(&json(&text, &path)?));
            }
            table(name, &runs).iter().for_each(|line| println!("{line}"));
        }
        Ok(())
    }
}

fn of_seed(name: &str, seed: &str) -> String {
    format!("{name}-seed-{seed}")
}

/// The accuracies of one method, by the number of passages looked at.
pub(super) type Accuracies = Vec<(String, Vec<(u64, f64)>)>;

/// Reads the accuracies of `metrics.json`, as `dpr eval retrieval --out` writes it.
pub(super) fn accuracies(metrics: &Value) -> Accuracies {
    let top = |method: &Value| {
        let top = method["top_k"].as_array().into_iter().flatten();
        top.filter_map(|top| Some((top["k"].as_u64()?, top["accuracy"].as_f64()?))).collect()
    };
    let methods = metrics["methods"].as_array().into_iter().flatten();
    methods.map(|method| (method["method"].as_str().unwrap_or_default().to_owned(), top(method))).collect()
}

/// Returns the mean, the least and the greatest of some numbers.
pub(super) fn spread(numbers: &[f64]) -> (f64, f64, f64) {
    let mean = numbers.iter().sum::<f64>() / numbers.len().max(1) as f64;
    numbers
        .iter()
        .fold((mean, f64::MAX, f64::MIN), |(mean, least, most), x| (mean, least.min(*x), most.max(*x)))
}

/// Returns a line for each method: its mean over the runs at each `k`, with the least and the greatest.
fn table(name: &str, runs: &[Accuracies]) -> Vec<String> {
    let Some(first) = runs.first() else { return Vec::new() };
    let of_method = |(method, top): &(String, Vec<(u64, f64)>)| {
        let figure = |(place, (k, _)): (usize, &(u64, f64))| {
            let of_run = |run: &Accuracies| {
                let (_, top) = run.iter().find(|(name, _)| name == method)?;
                top.get(place).map(|(_, accuracy)| accuracy * 100.0)
            };
            let all: Vec<f64> = runs.iter().filter_map(of_run).collect();
            let (mean, least, most) = spread(&all);
            format!("top-{k} {mean:.1} ({least:.1} to {most:.1})")
        };
        let figures: Vec<String> = top.iter().enumerate().map(figure).collect();
        format!("{name}, {method}: {}", figures.join(", "))
    };
    first.iter().map(of_method).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_has_the_mean_and_the_range_of_the_runs() {
        let run = |accuracy: f64| {
            let top = json!([{"k": 1, "accuracy": accuracy}, {"k": 5, "accuracy": 0.5}]);
            accuracies(&json!({"methods": [{"method": "dense", "top_k": top}]}))
        };
        let lines = table("all", &[run(0.6), run(0.63), run(0.66)]);
        assert_eq!(lines, ["all, dense: top-1 63.0 (60.0 to 66.0), top-5 50.0 (50.0 to 50.0)"]);
    }
}
