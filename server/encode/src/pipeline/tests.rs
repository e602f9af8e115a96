use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread::ThreadId;
use std::time::Duration;

use dpr_core::EncodeError;

use super::*;
use dpr_files::progress::Silent;

/// Rows of known lengths; a row's vector is `[row + 1, length, 1]`, whatever else is in its batch.
#[derive(Default)]
struct Fake {
    lengths: Vec<usize>,
    /// Turns the flag true in this forward call, counted from 1.
    cancel_at: Option<(usize, AtomicBool)>,
    nan_row: Option<usize>,
    panic_row: Option<usize>,
    short: bool,
    forwards: AtomicUsize,
    largest: AtomicUsize,
    forward_threads: Mutex<Vec<ThreadId>>,
}

impl Fake {
    fn new(rows: usize) -> Self {
        Self { lengths: (0..rows).map(|row| 2 + row * 7919 % 255).collect(), ..Self::default() }
    }

    fn flag(&self) -> &AtomicBool {
        static NEVER: AtomicBool = AtomicBool::new(false);
        self.cancel_at.as_ref().map_or(&NEVER, |(_, flag)| flag)
    }
}

impl Rows for Fake {
    fn dim(&self) -> usize {
        3
    }

    fn max_tokens(&self) -> usize {
        256
    }

    fn name(&self, row: usize) -> String {
        format!("passage \"p{row}\"")
    }

    fn tokens(&self, row: usize) -> Result<Vec<u32>, EncodeError> {
        Ok(vec![row as u32; self.lengths[row]])
    }

    fn forward(&self, batch: &[Vec<u32>]) -> Result<Vec<f32>, EncodeError> {
        let calls = self.forwards.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some((at, flag)) = &self.cancel_at
            && calls == *at
        {
            flag.store(true, Ordering::Relaxed);
        }
        self.largest.fetch_max(batch.len() * batch.iter().map(Vec::len).max().unwrap(), Ordering::Relaxed);
        self.forward_threads.lock().unwrap().push(std::thread::current().id());
        std::thread::sleep(Duration::from_micros(50));
        let mut vectors: Vec<f32> = Vec::new();
        for ids in batch {
            let row = ids[0] as usize;
            assert!(self.panic_row != Some(row), "a broken encoder");
            let first = if self.nan_row == Some(row) { f32::NAN } else { row as f32 + 1.0 };
            vectors.extend([first, ids.len() as f32, 1.0]);
        }
        if self.short {
            vectors.truncate(3 * (batch.len() - 1));
        }
        Ok(vectors)
    }
}

fn options(threads: usize) -> PipelineOptions {
    PipelineOptions { batch_tokens: 512, threads, forward_threads: threads }
}

fn parts(rows: usize, size: usize) -> Vec<Range<usize>> {
    (0..rows).step_by(size).map(|from| from..(from + size).min(rows)).collect()
}

type Kept = Vec<(Range<usize>, Vec<f32>)>;

/// Runs the pipeline and returns what it handed on, by part.
fn run(
    fake: &Fake,
    parts: &[Range<usize>],
    options: PipelineOptions,
) -> (Result<Encoded, EncodingError>, Kept) {
    let kept = Mutex::new(Vec::new());
    let outcome =
        encode_rows(fake, parts, options, Job { stop: fake.flag(), progress: &Silent }, &|part, vectors| {
            kept.lock().unwrap().push((part.clone(), vectors.to_vec()));
            Ok(())
        });
    let mut kept = kept.into_inner().unwrap();
    kept.sort_by_key(|(part, _)| part.start);
    (outcome, kept)
}

fn joined(kept: &Kept) -> Vec<f32> {
    kept.iter().flat_map(|(_, vectors)| vectors.iter().copied()).collect()
}

fn expected(fake: &Fake) -> Vec<f32> {
    let rows = fake.lengths.iter().enumerate();
    rows.flat_map(|(row, length)| [row as f32 + 1.0, *length as f32, 1.0]).collect()
}

#[test]
fn rows_come_back_in_their_order_with_any_number_of_threads() {
    for (rows, size) in [(1, 512), (2067, 512), (512, 512), (130, 7)] {
        for threads in [1, 2, 5, 16] {
            let fake = Fake::new(rows);
            let parts = parts(rows, size);
            let (outcome, kept) = run(&fake, &parts, options(threads));
            assert_eq!(kept.iter().map(|(part, _)| part.clone()).collect::<Vec<_>>(), parts);
            assert_eq!(joined(&kept), expected(&fake), "{rows} rows, {threads} threads");
            let outcome = outcome.unwrap();
            assert_eq!(outcome.rows, rows);
            assert_eq!(outcome.tokens, fake.lengths.iter().sum::<usize>());
            assert_eq!(outcome.truncated, fake.lengths.iter().filter(|length| **length >= 256).count());
            assert!(fake.largest.into_inner() <= 512);
        }
    }
}

#[test]
fn a_device_that_takes_one_batch_at_a_time_is_fed_by_one_thread() {
    let fake = Fake::new(1500);
    let one = PipelineOptions { forward_threads: 1, ..options(4) };
    let (outcome, kept) = run(&fake, &parts(1500, 512), one);
    outcome.unwrap();
    assert_eq!(joined(&kept), expected(&fake));
    let threads = fake.forward_threads.into_inner().unwrap();
    assert!(threads.iter().all(|thread| *thread == threads[0]));
}

#[test]
fn a_stopped_run_keeps_whole_parts_and_a_second_one_does_the_rest() {
    for stop_at in [1, 40, 200, 400] {
        let stopping = Fake { cancel_at: Some((stop_at, AtomicBool::new(false))), ..Fake::new(2067) };
        let all = parts(2067, 512);
        let (outcome, mut kept) = run(&stopping, &all, options(2));
        let Err(EncodingError::Stopped { done, total: 2067 }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(done, kept.iter().map(|(part, _)| part.len()).sum::<usize>());
        assert!(done < 2067);

        let missing: Vec<_> =
            all.iter().filter(|part| kept.iter().all(|(had, _)| had != *part)).cloned().collect();
        let second = Fake::new(2067);
        let (outcome, more) = run(&second, &missing, options(3));
        assert_eq!(outcome.unwrap().rows, 2067 - done);
        kept.extend(more);
        kept.sort_by_key(|(part, _)| part.start);
        assert_eq!(joined(&kept), expected(&second));
    }
}

#[test]
fn a_vector_that_cannot_rank_names_its_passage() {
    let fake = Fake { nan_row: Some(700), ..Fake::new(1000) };
    let (outcome, kept) = run(&fake, &parts(1000, 512), options(2));
    let error = outcome.unwrap_err().to_string();
    assert!(
        error.starts_with("passage \"p700\" has no usable vector") && error.contains("not finite"),
        "{error}"
    );
    assert!(kept.iter().all(|(part, _)| !part.contains(&700)));
}

#[test]
fn an_encoder_that_returns_too_little_is_an_error() {
    let fake = Fake { short: true, ..Fake::new(20) };
    let error = run(&fake, &parts(20, 512), options(2)).0.unwrap_err();
    assert!(matches!(error, EncodingError::Vector { .. }), "{error}");
}

#[test]
fn a_failed_write_ends_the_run_with_its_error() {
    let fake = Fake::new(3000);
    let missing = || VectorsError::None;
    let outcome = encode_rows(
        &fake,
        &parts(3000, 512),
        options(2),
        Job { stop: fake.flag(), progress: &Silent },
        &|_, _| Err(missing()),
    );
    assert!(matches!(outcome, Err(EncodingError::Vectors(VectorsError::None))), "{outcome:?}");
    assert!(fake.forwards.into_inner() < 300, "work went on after the disk had failed");
}

#[test]
#[should_panic(expected = "a scoped thread panicked")]
fn a_panic_in_the_encoder_does_not_hang_the_others() {
    let fake = Fake { panic_row: Some(3), ..Fake::new(64) };
    let _ = run(&fake, &parts(64, 512), options(8));
}
