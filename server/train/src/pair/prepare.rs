//! Preparation of a run: data and model are read and checked, answers are found among the tokens, and batches are
//! drawn.

use std::ops::RangeInclusive;
use std::time::Instant;

use dpr_core::model::sha256_hex;
use dpr_core::random::SplitMix;
use dpr_core::reader::ReadError;
use dpr_core::{ReaderConfig, TextTokenizer};
use rayon::prelude::*;

use super::super::encoders::TrainDevice;
use super::super::epochs::Steps;
use super::super::error::TrainError;
use super::super::prepare::{DryRun, peak_memory, shared_notes, trained_numbers};
use super::super::step::{StepNoise, StepOutcome};
use super::super::teacher::Teacher;
use super::batch::PairBatch;
use super::config::PairConfig;
use super::data::{PairData, PairItem};
use super::loss::{reader_step, reranker_step};
use super::start::{PairKind, PairModel};

/// Key of the random draws of passages.
const PASSAGES: u64 = 22;

/// Data and model of a run, read and checked.
pub struct PairPrepared {
    pub(super) data: PairData,
    /// The model as it is at the start.
    pub start: PairModel,
    pub(super) teacher: Option<Teacher>,
    /// A digest of the data, of the model that training starts from and of its teacher: a run continues only with the
    /// same digest.
    pub origin: String,
    /// Steps in an epoch.
    pub steps_per_epoch: usize,
    /// Steps in all.
    pub steps: usize,
    /// Notes about the data: not errors, but worth knowing.
    pub notes: Vec<String>,
}

impl PairPrepared {
    /// Reads what `config` names. The data is read first, so that its errors show before a model is loaded.
    ///
    /// # Errors
    /// [`TrainError`] names the setting, the file and item, or the model that cannot be used.
    pub fn new(config: &PairConfig, device: &TrainDevice) -> Result<Self, TrainError> {
        config.check()?;
        device.check(config.compute.precision)?;
        let mut data = PairData::read(config)?;
        let start = PairModel::start(config.task, &config.model, config.run.seed, device)?;
        let unmarked = match &start.kind {
            PairKind::Reader(reader) => keep_marked(&mut data, reader, start.tokenizer(), config)?,
            PairKind::Reranker(_) => 0,
        };
        let Steps { per_epoch: steps_per_epoch, all: steps } = Steps::of(data.train.seen(), &config.run)
            .map_err(|error| with_reason(error, &data, unmarked, start.model.max_passage_tokens))?;
        let teacher = Teacher::of(config.model.teacher.as_deref(), device)?;
        let mut origin = format!("{} {}", data.sha256(), start.fingerprint);
        if let Some(teacher) = &teacher {
            origin += &format!(" {}", teacher.fingerprint);
        }
        let origin = sha256_hex(origin.as_bytes());
        let notes = notes(&data, &start, config, unmarked, steps);
        Ok(Self { data, start, teacher, origin, steps_per_epoch, steps, notes })
    }
}

impl PairModel {
    /// Returns the tokenizer of the inputs.
    pub(super) fn tokenizer(&self) -> &TextTokenizer {
        &self.model.question().tokenizer
    }
}

/// Returns the error of too few questions with the number of those that are left out; any other error as it is. Of a
/// reader `unmarked` ones have no answer within `tokens` tokens.
fn with_reason(error: TrainError, data: &PairData, unmarked: usize, tokens: usize) -> TrainError {
    let TrainError::TooFewQuestions { batch, questions: seen } = error else { return error };
    let causes = [
        (data.unanswered, "have no passage with an answer".to_owned()),
        (unmarked, format!("have none in which an answer stands within {tokens} tokens")),
    ];
    let causes = causes.into_iter().filter(|(count, _)| *count > 0);
    let reason = causes.map(|(count, cause)| format!("{count} {cause}")).collect::<Vec<_>>().join(", ");
    if reason.is_empty() {
        return TrainError::TooFewQuestions { batch, questions: seen };
    }
    let usable = data.items().count();
    let all = usable + data.unanswered + unmarked;
    TrainError::TooFewUsable { batch, seen, usable, all, reason }
}

/// Removes the positives in which no answer is found before the cut, and the training items without any other. Returns
/// how many items were removed.
fn keep_marked(
    data: &mut PairData,
    reader: &ReaderConfig,
    tokenizer: &TextTokenizer,
    config: &PairConfig,
) -> Result<usize, TrainError> {
    let most = config.objective.max_matches;
    let mut removed = 0;
    for set in &mut data.train.0 {
        let pool = &data.pool;
        set.items.par_iter_mut().try_for_each(|item| {
            let marked = item.positives.iter().map(|passage| {
                let (title, text) = pool.get(*passage);
                Ok((*passage, marked(item, title, text, reader, tokenizer, most)?.is_some()))
            });
            let marked = marked.collect::<Result<Vec<_>, TrainError>>()?;
            item.positives =
                marked.into_iter().filter(|(_, found)| *found).map(|(passage, _)| passage).collect();
            Ok::<_, TrainError>(())
        })?;
        let before = set.items.len();
        set.items.retain(|item| !item.positives.is_empty());
        removed += before - set.items.len();
    }
    Ok(removed)
}

/// A reader's input in which answers are marked.
pub(super) type Marked = (dpr_core::reader::ReaderInput, Vec<RangeInclusive<usize>>);

/// Returns a positive's input with its answers; `None` where none is before the cut, or the question leaves no room.
pub(super) fn marked(
    item: &PairItem,
    title: &str,
    text: &str,
    reader: &ReaderConfig,
    tokenizer: &TextTokenizer,
    most: usize,
) -> Result<Option<Marked>, TrainError> {
    let input = match reader.input(tokenizer, &item.question, title, text) {
        Ok(input) => input,
        Err(ReadError::Empty | ReadError::Question { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let spans = tokenizer.answer_spans(&input, &item.answers, most)?;
    Ok((!spans.is_empty()).then_some((input, spans)))
}

fn notes(
    data: &PairData,
    start: &PairModel,
    config: &PairConfig,
    unmarked: usize,
    steps: usize,
) -> Vec<String> {
    let mut notes = Vec::new();
    if !start.drawn.is_empty() {
        let (task, layers) = (config.task.name(), start.drawn.join(", "));
        notes.push(format!("layers of the {task} that the model does not have are drawn: {layers}"));
    }
    if data.unanswered > 0 {
        notes.push(format!("{} questions have no passage with an answer and are left out", data.unanswered));
    }
    if data.unanswered_dev > 0 {
        let count = data.unanswered_dev;
        notes.push(format!("{count} dev questions have no passage with an answer and are left out"));
    }
    if unmarked > 0 {
        notes.push(format!(
            "{unmarked} questions have no passage in which an answer stands within {} tokens and are left out",
            start.model.max_passage_tokens
        ));
    }
    let target = config.data.negatives_per_question;
    let short = data.items().filter(|item| item.negatives.len() < target).count();
    if short > 0 {
        notes.push(format!(
            "{short} questions have fewer than {target} negatives and are given those they have"
        ));
    }
    notes.extend(shared_notes(data.overlap, data.dev.len(), &config.optimiser, steps));
    notes
}

/// Draws the batches of every epoch.
pub(super) struct PairSampler<'a> {
    pub(super) data: &'a PairData,
    pub(super) config: &'a PairConfig,
    pub(super) kind: &'a PairKind,
    pub(super) teacher: Option<&'a Teacher>,
}

impl PairSampler<'_> {
    /// Returns the batches of an epoch, as numbers of items.
    pub(super) fn epoch(&self, epoch: usize) -> Vec<Vec<usize>> {
        let length = |item: &PairItem| self.length(item);
        let (run, bucket) = (&self.config.run, self.config.data.bucket);
        self.data.train.epoch(epoch, run, bucket, length, |item| item as u64)
    }

    /// Returns the number of characters of an item's first positive.
    fn length(&self, item: &PairItem) -> usize {
        item.positives.first().map_or(0, |passage| self.data.pool.get(*passage).1.len())
    }

    /// Returns the batch of longest texts, for trying out what memory training needs.
    fn longest(&self) -> Vec<usize> {
        self.data.train.longest(self.config.run.batch_size, |item| self.length(item))
    }

    /// Returns the inputs of a batch of items.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub(super) fn compose(
        &self,
        items: &[usize],
        epoch: usize,
        tokenizer: &TextTokenizer,
    ) -> Result<PairBatch, TrainError> {
        let mut batch = PairBatch::default();
        let mut lists = Vec::new();
        for number in items {
            let Some(item) = self.data.item(*number) else { continue };
            let mut random = SplitMix::keyed(&[self.config.run.seed, PASSAGES, epoch as u64, *number as u64]);
            let positive = item.positives[random.below(item.positives.len())];
            let mut negatives = item.negatives.clone();
            random.shuffle(&mut negatives);
            negatives.truncate(self.config.data.negatives_per_question);
            self.push(&mut batch, item, positive, &negatives, tokenizer)?;
            lists.push((item, [&[positive], negatives.as_slice()].concat()));
        }
        if let Some(teacher) = self.teacher {
            let of_question = |(item, passages): &(&PairItem, Vec<u32>)| {
                let texts: Vec<_> = passages.iter().map(|passage| self.data.pool.get(*passage)).collect();
                teacher.scores(&item.question, &texts)
            };
            batch.taught = lists.par_iter().map(of_question).collect::<Result<_, _>>()?;
        }
        Ok(batch)
    }

    fn push(
        &self,
        batch: &mut PairBatch,
        item: &PairItem,
        positive: u32,
        negatives: &[u32],
        tokenizer: &TextTokenizer,
    ) -> Result<(), TrainError> {
        let texts = |passage: u32| self.data.pool.get(passage);
        let first = batch.ids.len();
        match self.kind {
            PairKind::Reader(reader) => {
                let (title, text) = texts(positive);
                let most = self.config.objective.max_matches;
                // Items without a marked positive were removed.
                let Some((input, spans)) = marked(item, title, text, reader, tokenizer, most)? else {
                    return Ok(());
                };
                batch.ids.push(input.ids().to_vec());
                batch.spans.push(spans);
                for passage in negatives {
                    let (title, text) = texts(*passage);
                    let input = reader.input(tokenizer, &item.question, title, text)?;
                    batch.ids.push(input.ids().to_vec());
                }
            }
            PairKind::Reranker(_) => {
                for passage in [&[positive], negatives].concat() {
                    let (title, text) = texts(passage);
                    let pair = tokenizer.question_and_passage(&item.question, title, text)?;
                    batch.ids.push(pair.ids().to_vec());
                    batch.types.push(pair.types().to_vec());
                }
            }
        }
        batch.passages.push(batch.ids.len() - first);
        Ok(())
    }
}

/// Computes the loss and the gradients of a batch, as `kind` has them.
pub(super) fn step_of(
    kind: &PairKind,
    config: &PairConfig,
    model: &super::super::encoders::DualEncoder,
    batch: &PairBatch,
    noise: StepNoise,
    scale: f32,
    device: &TrainDevice,
) -> Result<StepOutcome, TrainError> {
    match kind {
        PairKind::Reader(_) => reader_step(model, batch, &config.compute, noise, scale, device),
        PairKind::Reranker(_) => {
            reranker_step(model, batch, config.ranking(), &config.compute, noise, scale, device)
        }
    }
}

/// Reads everything and computes the batch of longest passages once, changing nothing.
///
/// # Errors
/// [`TrainError`] as a run would return it before its first step.
pub fn pair_dry_run(config: &PairConfig, device: &TrainDevice) -> Result<DryRun, TrainError> {
    let PairPrepared { data, start, teacher, steps_per_epoch, steps, notes, .. } =
        PairPrepared::new(config, device)?;
    let sampler = PairSampler { data: &data, config, kind: &start.kind, teacher: teacher.as_ref() };
    let batch = sampler.compose(&sampler.longest(), 0, start.tokenizer())?;
    let started = Instant::now();
    let noise = StepNoise { dropout: config.run.dropout as f32, seed: config.run.seed };
    let outcome = step_of(&start.kind, config, &start.model, &batch, noise, 1.0, device)?;
    Ok(DryRun {
        questions: data.items().count(),
        dev_questions: data.dev.len(),
        passages: data.pool.len(),
        steps_per_epoch,
        steps,
        parameters: trained_numbers(&start.model),
        batch_texts: batch.ids.len(),
        batch_tokens: batch.ids.iter().map(Vec::len).sum(),
        loss: outcome.loss,
        seconds: started.elapsed().as_secs_f64(),
        peak_memory: peak_memory(),
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::epochs::{ItemSet, ItemSets};
    use super::*;

    #[test]
    fn questions_that_can_be_trained_on_are_told_from_those_that_an_epoch_sees() {
        let said = |usable: usize, weight: f64| {
            let item = PairItem {
                question: "who?".into(),
                answers: vec!["me".into()],
                positives: vec![0],
                negatives: Vec::new(),
            };
            let set = ItemSet { path: "a.json".into(), weight, items: vec![item; usable] };
            let data = PairData { train: ItemSets(vec![set]), unanswered: 2, ..PairData::default() };
            let few = TrainError::TooFewQuestions { batch: 16, questions: data.train.seen() };
            with_reason(few, &data, 1, 350).to_string()
        };
        let of = "can be trained on (2 have no passage with an answer, 1 have none in which an answer stands within \
                  350 tokens)";
        let expected = format!(
            "a batch takes 16 questions, and an epoch sees 5: 10 of the training data's 13 {of}; lower batch_size, or \
             give more data"
        );
        assert_eq!(said(10, 0.5), expected);
        let none = format!(
            "a batch takes 16 questions, and an epoch sees 0: 0 of the training data's 3 {of}; give more data"
        );
        assert_eq!(said(0, 0.5), none);
    }
}
