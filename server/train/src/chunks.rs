//! Chunks of a batch: the texts that are encoded together, shared out over the threads.

use std::cmp::Reverse;

use super::options::StepOptions;

/// Texts that one pass takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Position among the chunks of the batch.
    pub(super) number: usize,
    /// 0 for questions, 1 for passages.
    pub(super) side: usize,
    /// Places of the texts on their side.
    pub(super) rows: Vec<usize>,
    /// Tokens with padding.
    pub(super) tokens: usize,
}

/// Cuts questions and passages into chunks of like lengths and gives each thread a share of about the same number
/// of tokens. The shares depend on lengths alone, so that a step that is run again adds up in the same order.
pub(super) fn share_out(texts: [&[Vec<u32>]; 2], options: &StepOptions, threads: usize) -> Vec<Vec<Chunk>> {
    let mut chunks = Vec::new();
    for (side, texts) in texts.into_iter().enumerate() {
        for (rows, tokens) in cut(texts, options, threads.max(1)) {
            chunks.push(Chunk { number: chunks.len(), side, rows, tokens });
        }
    }
    chunks.sort_by_key(|chunk| Reverse(chunk.tokens)); // stable: ties stay in order
    let mut shares: Vec<(usize, Vec<Chunk>)> = vec![(0, Vec::new()); threads.max(1)];
    for chunk in chunks {
        if let Some((load, share)) = shares.iter_mut().min_by_key(|(load, _)| *load) {
            *load += chunk.tokens;
            share.push(chunk);
        }
    }
    shares.into_iter().map(|(_, share)| share).collect()
}

/// Cuts the texts of a side into chunks, the longest first: as many of about the same number of tokens for each thread
/// as the limits ask for. Returns the places of each chunk's texts and its tokens with padding.
fn cut(texts: &[Vec<u32>], options: &StepOptions, threads: usize) -> Vec<(Vec<usize>, usize)> {
    let mut order: Vec<usize> = (0..texts.len()).collect();
    order.sort_by_key(|row| Reverse(texts[*row].len()));
    let mut tokens: usize = texts.iter().map(Vec::len).sum();
    // Chunks of a thread, where a chunk has at most `limit`.
    let chunks_each = |all: usize, limit: usize| all.div_ceil(threads.saturating_mul(limit.max(1)));
    let each = chunks_each(tokens, options.chunk_tokens).max(chunks_each(texts.len(), options.chunk_rows));
    let mut left = threads * each;
    let mut chunks = Vec::new();
    let mut rest = order.as_slice();
    while let Some(first) = rest.first() {
        let longest = texts[*first].len().max(1);
        // An even share of the tokens that are left, to the nearest number of rows.
        let even = (tokens.div_ceil(left.max(1)) + longest / 2) / longest;
        let rows = even.min(options.chunk_tokens / longest).min(options.chunk_rows).clamp(1, rest.len());
        let (now, later) = rest.split_at(rows);
        tokens -= now.iter().map(|row| texts[*row].len()).sum::<usize>();
        chunks.push((now.to_vec(), rows * longest));
        (rest, left) = (later, left.saturating_sub(1));
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lengths: &[usize]) -> Vec<Vec<u32>> {
        lengths.iter().map(|length| vec![0; *length]).collect()
    }

    #[test]
    fn every_text_is_in_one_chunk_and_the_threads_are_even() {
        let questions = texts(&[9, 3, 12, 7]);
        let passages = texts(&(0..40).map(|i| 20 + i * 37 % 100).collect::<Vec<_>>());
        let options = StepOptions { chunk_rows: 8, chunk_tokens: 500, ..StepOptions::default() };
        let shares = share_out([&questions, &passages], &options, 2);
        let mut seen = [vec![0; 4], vec![0; 40]];
        for chunk in shares.iter().flatten() {
            assert!(chunk.rows.len() <= 8 && chunk.tokens <= 500);
            chunk.rows.iter().for_each(|row| seen[chunk.side][*row] += 1);
        }
        assert!(seen.iter().flatten().all(|count| *count == 1));
        let loads: Vec<usize> = shares.iter().map(|share| share.iter().map(|c| c.tokens).sum()).collect();
        assert!(loads[0].abs_diff(loads[1]) <= 500, "{loads:?}");
    }

    #[test]
    fn a_batch_of_three_chunks_is_cut_into_four_for_two_threads() {
        let lengths: Vec<usize> = (0..32).map(|i| 150 + i % 7).collect();
        let shares = share_out([&texts(&[16; 16]), &texts(&lengths)], &StepOptions::default(), 2);
        let loads: Vec<usize> = shares.iter().map(|share| share.iter().map(|c| c.tokens).sum()).collect();
        assert!(loads[0].abs_diff(loads[1]) <= 156, "{loads:?}");
        assert_eq!(shares.iter().flatten().filter(|chunk| chunk.side == 1).count(), 4, "{shares:?}");
    }

    #[test]
    fn limits_of_any_size_are_taken() {
        let most = usize::MAX / 2;
        let options = StepOptions { chunk_rows: most, chunk_tokens: most, ..StepOptions::default() };
        let shares = share_out([&texts(&[5; 4]), &texts(&[100; 8])], &options, 4);
        assert_eq!(shares.iter().flatten().map(|chunk| chunk.rows.len()).sum::<usize>(), 12, "{shares:?}");
    }

    #[test]
    fn a_batch_of_one_chunk_is_cut_for_the_threads_there_are() {
        let passages = texts(&[100; 4]);
        let shares = share_out([&texts(&[5]), &passages], &StepOptions::default(), 2);
        assert!(shares.iter().all(|share| share.iter().any(|chunk| chunk.side == 1)), "{shares:?}");
    }
}
