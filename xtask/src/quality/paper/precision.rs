//! The loss of training in bf16 beside that of f32: the same questions in the same batches, with the same dropout.

use super::super::Work;
use super::super::files::read;
use super::row::{Row, settings};
use crate::failure::{Failure, Outcome};
use crate::json::{json, number};

/// Steps of each run.
const STEPS: usize = 300;
/// Questions of a batch.
const BATCH: usize = 16;
/// Steps of a line of the table.
const WINDOW: usize = 50;

impl Work<'_> {
    /// Trains in f32 and in bf16 and prints the losses of both, and how much they differ.
    pub(in crate::quality) fn precision(&self) -> Outcome {
        let start = self.start()?;
        let mut curves = Vec::new();
        for precision in ["f32", "bf16"] {
            let settings = settings("hard", 1, true, "dot", "nll", "1.0");
            let row = Row {
                batch: BATCH,
                steps: STEPS,
                ..Row::trained(
                    &start,
                    precision.to_owned(),
                    format!("precision-{precision}"),
                    vec![self.path("first-10000.json.gz")],
                    format!("{settings}\n[compute]\nprecision = \"{precision}\"\n"),
                )
            };
            let (_, seconds) = self.train_row(&row)?;
            println!("{precision}: {STEPS} steps of {BATCH} questions in {:.1} minutes", seconds / 60.0);
            curves.push(losses(&self.path(&row.run))?);
        }
        let [single, narrow] = &curves[..] else { return Ok(()) };
        println!("\n| steps | f32 | bf16 | bf16 less f32 | standard error of the difference |");
        println!("|---|---|---|---|---|");
        table(single, narrow)?.iter().for_each(|line| println!("{line}"));
        Ok(())
    }
}

/// Returns the loss of each step of a run, by its `metrics.jsonl`.
fn losses(run: &str) -> Outcome<Vec<f64>> {
    let path = format!("{run}/metrics.jsonl");
    let mut losses = Vec::new();
    for line in read(&path)?.lines() {
        let metric = json(line, &path)?;
        if metric["kind"] == "step" {
            losses.push(number(&metric, "loss")?);
        }
    }
    Ok(losses)
}

/// Returns a line for every [`WINDOW`] steps and one for all: the mean losses, the mean difference of a step's losses,
/// and the standard error of that mean.
///
/// # Errors
/// [`Failure`] for runs that have not the same number of steps, or fewer than two.
fn table(single: &[f64], narrow: &[f64]) -> Outcome<Vec<String>> {
    if single.len() != narrow.len() || single.len() < 2 {
        let lengths = format!("the runs have {} and {} steps", single.len(), narrow.len());
        return Err(Failure::new(lengths).fix(
            "remove precision-f32, precision-bf16 and their .seconds files in target/quality/paper, and run this again",
        ));
    }
    let line = |steps: String, single: &[f64], narrow: &[f64]| {
        let differences: Vec<f64> =
            narrow.iter().zip(single).map(|(narrow, single)| narrow - single).collect();
        let difference = mean(&differences);
        let squares: f64 = differences.iter().map(|one| (one - difference).powi(2)).sum();
        let error = (squares / (single.len().max(2) - 1) as f64 / single.len() as f64).sqrt();
        let (single, narrow) = (mean(single), mean(narrow));
        format!("| {steps} | {single:.4} | {narrow:.4} | {difference:+.4} | {error:.4} |")
    };
    let windows = single.chunks(WINDOW).zip(narrow.chunks(WINDOW)).enumerate();
    let mut lines: Vec<String> = windows
        .map(|(place, (single, narrow))| {
            let first = place * WINDOW;
            line(format!("{} to {}", first + 1, first + single.len()), single, narrow)
        })
        .collect();
    lines.push(line("all".to_owned(), single, narrow));
    Ok(lines)
}

fn mean(losses: &[f64]) -> f64 {
    losses.iter().sum::<f64>() / losses.len() as f64
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn a_line_has_the_means_of_its_steps_their_difference_and_its_error() {
        let single: Vec<f64> = (0..60).map(|step| f64::from(step % 5)).collect();
        let narrow: Vec<f64> = single.iter().enumerate().map(|(i, loss)| loss - (i % 2) as f64).collect();
        let lines = table(&single, &narrow).unwrap();
        // 25 differences of 0 and 25 of -1: their variance is 12.5 / 49, and the error the root of a fiftieth of that.
        assert_eq!(lines[0], "| 1 to 50 | 2.0000 | 1.5000 | -0.5000 | 0.0714 |");
        assert!(lines[1].starts_with("| 51 to 60 | 2.0000 | 1.5000 | -0.5000 |"), "{}", lines[1]);
        assert!(lines[2].starts_with("| all | 2.0000 | 1.5000 | -0.5000 |") && lines.len() == 3);
        let refused = table(&single, &narrow[..59]).unwrap_err().to_string();
        assert!(refused.contains("60 and 59 steps"), "{refused}");
    }
}
