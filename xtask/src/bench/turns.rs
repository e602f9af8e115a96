//! Two programs that take turns of a fraction of a second, so that a slow minute of the machine meets both.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::middle;
use crate::failure::{Failure, Outcome};

/// A program that reads lines, and for each does a turn of its work and prints how long one piece of it took, in
/// milliseconds. It ends with its input.
struct Worker {
    name: &'static str,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Worker {
    fn start(name: &'static str, command: &mut Command) -> Outcome<Self> {
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| Failure::new(format!("cannot start {name}: {error}")))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = output.ok_or_else(|| Failure::new(format!("{name} has no output")))?;
        Ok(Self { name, child, input, output: BufReader::new(output) })
    }

    /// Runs one turn of the program, and returns the milliseconds it printed.
    fn turn(&mut self) -> Outcome<f64> {
        let mut line = String::new();
        if let Some(input) = &mut self.input
            && input.write_all(b"turn\n").and_then(|()| input.flush()).is_ok()
        {
            let _ = self.output.read_line(&mut line);
        }
        line.trim().parse().map_err(|_| Failure::new(format!("{} ended, or printed {line:?}", self.name)))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// The times of two programs that took turns, a value a turn.
pub(super) struct Turns {
    times: [Vec<f64>; 2],
}

impl Turns {
    /// Runs both programs for so many turns each, after one that is not counted.
    pub(super) fn of(programs: [(&'static str, &mut Command); 2], turns: usize) -> Outcome<Self> {
        let [ours, peer] = programs.map(|(name, command)| Worker::start(name, command));
        let mut workers = [ours?, peer?];
        let mut times = [Vec::new(), Vec::new()];
        for turn in 0..=turns {
            for (worker, times) in workers.iter_mut().zip(&mut times) {
                let milliseconds = worker.turn()?;
                if turn > 0 {
                    times.push(milliseconds);
                }
            }
        }
        Ok(Self { times })
    }

    /// Returns the median time of each.
    pub(super) fn medians(&self) -> [f64; 2] {
        self.times.each_ref().map(|times| middle(times))
    }

    /// Returns the median of each turn's ratio, of the first program's time to the second's.
    pub(super) fn ratio(&self) -> f64 {
        let [ours, peers] = &self.times;
        middle(&ours.iter().zip(peers).map(|(ours, peer)| ours / peer).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn programs_take_turns_and_the_first_is_not_counted() {
        let counting = "i=0; while read -r line; do i=$((i + 1)); echo $i; done";
        let twice = "i=0; while read -r line; do i=$((i + 2)); echo $i; done";
        let (mut one, mut other) = (shell(counting), shell(twice));
        let turns = Turns::of([("one", &mut one), ("other", &mut other)], 3).unwrap();
        assert_eq!(turns.times, [vec![2.0, 3.0, 4.0], vec![4.0, 6.0, 8.0]]);
        assert_eq!((turns.medians(), turns.ratio()), ([3.0, 6.0], 0.5));
    }

    #[test]
    fn a_program_that_ends_is_named() {
        let (mut one, mut other) =
            (shell("while read -r line; do echo 1; done"), shell("read -r line; echo 1"));
        let failure = Turns::of([("one", &mut one), ("other", &mut other)], 3).err().unwrap();
        assert!(failure.to_string().contains("other ended"), "{failure}");
    }
}
