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
        println!("\n| steps | f32 | bf16 | bf16 less f32 | standard error of a mean of f32 |");
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

/// Returns a line for every [`WINDOW`] steps and one for all: the mean losses, their difference, and the standard error
/// of the mean in f32, by how much the losses of batches differ.
///
/// # Errors
/// [`Failure`] for runs that have not the same number of steps, or fewer than two.
fn table(single: &[f64], narrow: &[f64]) -> Outcome<Vec<String>> {
    if single.len() != narrow.len() || single.len() < 2 {
        let lengths = format!("the runs have {} and {} steps", single.len(), narrow.len());
        return Err(Failure::new(lengths).fix("remove their folders, and run this again"));
    }
    let line = |steps: String, single: &[f64], narrow: &[f64]| {
        let (of_single, of_narrow) = (mean(single), mean(narrow));
        let squares: f64 = single.iter().map(|loss| (loss - of_single).powi(2)).sum();
        let error = (squares / (single.len().max(2) - 1) as f64 / single.len() as f64).sqrt();
        let difference = of_narrow - of_single;
        format!("| {steps} | {of_single:.4} | {of_narrow:.4} | {difference:+.4} | {error:.4} |")
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
    fn a_line_has_the_means_of_its_steps_their_difference_and_the_error_of_the_first() {
        let single: Vec<f64> = (0..60).map(|step| if step % 2 == 0 { 1.0 } else { 3.0 }).collect();
        let narrow: Vec<f64> = single.iter().map(|loss| loss - 0.5).collect();
        let lines = table(&single, &narrow).unwrap();
        // The deviation of 25 ones and 25 threes is the root of 50/49, and the error a fiftieth root of that.
        assert_eq!(lines[0], "| 1 to 50 | 2.0000 | 1.5000 | -0.5000 | 0.1429 |");
        assert!(lines[1].starts_with("| 51 to 60 | 2.0000 | 1.5000 |"), "{}", lines[1]);
        assert!(lines[2].starts_with("| all | 2.0000 | 1.5000 | -0.5000 |") && lines.len() == 3);
        let refused = table(&single, &narrow[..59]).unwrap_err().to_string();
        assert!(refused.contains("60 and 59 steps"), "{refused}");
    }
}
