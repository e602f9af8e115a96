//! Batches of questions with their passages in one input each.

use std::ops::RangeInclusive;

use super::super::error::TrainError;

/// A batch of questions with their passages, each pair one input. The inputs of a question stand together, that of its
/// positive first.
#[derive(Clone, Debug, Default)]
pub struct PairBatch {
    /// Token ids of each input.
    pub ids: Vec<Vec<u32>>,
    /// Token types of each input; no inputs where all types are 0.
    pub types: Vec<Vec<u8>>,
    /// Number of inputs of each question.
    pub passages: Vec<usize>,
    /// For a reader, the answers in the positive of each question: positions of their first and last tokens.
    pub spans: Vec<Vec<RangeInclusive<usize>>>,
    /// For a reranker with a teacher, the teacher's logits of the passages of each question, or none; no questions
    /// without a teacher.
    pub taught: Vec<Vec<f32>>,
}

impl PairBatch {
    /// Refuses a batch that the objective is not defined for; `marked` says that answers must be marked.
    ///
    /// # Errors
    /// [`TrainError::Batch`] says what is wrong.
    pub fn check(&self, marked: bool) -> Result<(), TrainError> {
        let bad = |what: String| Err(TrainError::Batch { what });
        let Self { ids, types, passages, spans, taught } = self;
        if passages.is_empty() || passages.contains(&0) || passages.iter().sum::<usize>() != ids.len() {
            return bad(format!("{} inputs for questions of {passages:?} passages", ids.len()));
        }
        if !types.is_empty() && !types.iter().map(Vec::len).eq(ids.iter().map(Vec::len)) {
            return bad("token types that are not those of its tokens".into());
        }
        if ids.iter().any(Vec::is_empty) {
            return bad("an input without tokens".into());
        }
        let fits = |(taught, passages): (&Vec<f32>, &usize)| taught.is_empty() || taught.len() == *passages;
        if !taught.is_empty() && (taught.len() != passages.len() || !taught.iter().zip(passages).all(fits)) {
            return bad(format!(
                "a teacher's scores of {:?} passages",
                taught.iter().map(Vec::len).collect::<Vec<_>>()
            ));
        }
        if !marked {
            return Ok(());
        }
        let mut first = 0;
        for (question, &count) in passages.iter().enumerate() {
            let tokens = ids[first].len();
            let fits = |span: &RangeInclusive<usize>| span.start() <= span.end() && *span.end() < tokens;
            match spans.get(question) {
                Some(spans) if !spans.is_empty() && spans.iter().all(fits) => first += count,
                found => return bad(format!("question {question}: spans {found:?} in {tokens} tokens")),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_does_not_fit_together_is_refused() {
        let whole = PairBatch {
            ids: vec![vec![1, 2, 3], vec![1, 2], vec![4, 5]],
            types: Vec::new(),
            passages: vec![2, 1],
            spans: vec![vec![1..=2], vec![0..=0, 1..=1]],
            taught: vec![vec![1.0, 2.0], Vec::new()],
        };
        whole.check(true).unwrap();
        let changed = |change: fn(&mut PairBatch)| {
            let mut batch = whole.clone();
            change(&mut batch);
            batch.check(true).unwrap_err().to_string()
        };
        assert!(changed(|batch| batch.passages[1] = 2).contains("3 inputs"));
        assert!(changed(|batch| batch.passages = vec![3, 0]).contains("[3, 0]"));
        assert!(changed(|batch| batch.types = vec![vec![0; 3]]).contains("token types"));
        assert!(changed(|batch| batch.taught[0].truncate(1)).contains("scores of [1, 0] passages"));
        assert!(changed(|batch| batch.taught.truncate(1)).contains("scores of [2] passages"));
        assert!(changed(|batch| batch.ids[1].clear()).contains("without tokens"));
        assert!(changed(|batch| batch.spans[0] = vec![1..=3]).contains("question 0"));
        assert!(changed(|batch| batch.spans[1].clear()).contains("question 1"));
        assert!(changed(|batch| batch.spans.truncate(1)).contains("None"));
        assert!(PairBatch::default().check(false).is_err());
    }
}
