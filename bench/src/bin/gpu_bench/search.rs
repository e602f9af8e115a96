//! Questions a second of exact search, on the device and on the CPU, and whether both find the same.

use std::sync::Arc;
use std::time::Instant;

use dpr_core::Embedding;
use dpr_core::random::SplitMix;
use dpr_index::{ExactIndex, GpuIndex, Matrix, VectorIndex};
use dpr_train::TrainDevice;
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::{Arguments, Outcome, median};

/// Rows that a question finds.
const K: usize = 100;

/// Repetitions, of which the middle one counts.
const ROUNDS: usize = 5;

pub(crate) fn run(arguments: &mut Arguments, device: &TrainDevice) -> Outcome<Value> {
    let (rows, dim): (usize, usize) = (arguments.next("ROWS")?, arguments.next("DIM")?);
    let count: usize = arguments.next("QUESTIONS")?;
    let mut numbers = vec![0f32; rows * dim];
    numbers.par_chunks_mut(dim).enumerate().for_each(|(row, vector)| {
        let mut random = SplitMix::keyed(&[row as u64]);
        vector.iter_mut().for_each(|value| *value = random.normal() as f32);
    });
    let matrix = Arc::new(Matrix::new(numbers, rows, dim, |row| row.to_string())?);
    let mut random = SplitMix::keyed(&[u64::MAX]);
    let mut question = |_| Embedding::new((0..dim).map(|_| random.normal() as f32).collect(), dim);
    let questions = (0..count).map(&mut question).collect::<Result<Vec<_>, _>>()?;
    let started = Instant::now();
    let there = GpuIndex::new(Arc::clone(&matrix), &device.plain);
    let here = ExactIndex::new(matrix);
    let time = |index: &dyn VectorIndex, rounds: usize| -> Outcome<_> {
        let (mut seconds, mut found) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let started = Instant::now();
            found = index.search_batch(&questions, K)?;
            seconds.push(started.elapsed().as_secs_f64());
        }
        Ok((median(seconds), found))
    };
    time(&there, 1)?;
    let first_seconds = started.elapsed().as_secs_f64();
    let (there_seconds, there_found) = time(&there, ROUNDS)?;
    let (here_seconds, here_found) = time(&here, 1)?;
    Ok(json!({
        "rows": rows, "dim": dim, "questions": count, "first_seconds": first_seconds,
        "questions_per_second": count as f64 / there_seconds, "cpu_questions_per_second": count as f64 / here_seconds,
        "same_as_cpu": there_found == here_found, "left_to_cpu": there.searched_singly(),
        "teraflops": 2.0 * (rows * dim * count) as f64 / there_seconds / 1e12,
    }))
}
