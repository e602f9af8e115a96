//! Answers: what a server computes from a message that tells it nothing.

use dpr_core::kernel::ring::multiply_bytes;
use dpr_core::model::hex;
use dpr_core::private::encrypted::RankShape;
use dpr_core::private::encrypted::rank;
use dpr_core::private::encrypted::wire::{HEAD, Head, Kind, unpack};

use crate::Tables;
use crate::ranks::{self, Transforms};

pub use dpr_core::private::encrypted::search::MOST_FETCHES;

/// A message that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It is for another version of the tables.
    #[error("the message is for version {got} of the private tables; version {expected} is served")]
    Version {
        /// As sent, in hexadecimal digits.
        got: String,
        /// The one that is served.
        expected: String,
    },
    /// A message of another kind, or of a length that differs from what its head says.
    #[error("the message is not one for these tables: {0}")]
    Message(String),
}

/// A question for ranking, read and checked.
#[derive(Debug)]
pub struct RankQuestion {
    numbers: Transforms,
    /// Changes of the index since the tables were made of it.
    changes: u64,
}

/// Questions for columns, read and checked: numbers `[columns]` for each.
#[derive(Debug)]
pub struct FetchQuestion(Vec<Vec<u32>>);

impl Tables {
    /// Returns the bytes of a message for ranking.
    pub fn rank_question_bytes(&self) -> usize {
        HEAD + self.checked().rank.question_bytes()
    }

    /// Returns the bytes of a message that fetches so many columns.
    pub fn fetch_question_bytes(&self, fetches: usize) -> usize {
        HEAD + fetches * self.checked().fetch.question_bytes()
    }

    /// Returns the 32-bit numbers that ranking reads.
    pub fn rank_cost(&self) -> u64 {
        let shape = &self.checked().rank;
        (shape.blocks() * shape.dims() * shape.set().degree) as u64
    }

    /// Returns about the 32-bit numbers that take as long to read as fetching so many columns takes.
    pub fn fetch_cost(&self, fetches: usize) -> u64 {
        let shape = &self.checked().fetch;
        (shape.rows() * shape.columns() / 4 * fetches) as u64
    }

    /// Reads a message for ranking. Its answer will tell that so many `changes` came to the index since the tables were
    /// made of it.
    ///
    /// # Errors
    /// [`AnswerError`].
    pub fn read_rank(&self, message: &[u8], changes: u64) -> Result<RankQuestion, AnswerError> {
        let shape = &self.checked().rank;
        let (head, numbers) = self.head(message, Kind::Rank, shape.set().number)?;
        if usize::from(head.count) != shape.dims() {
            let (got, expected) = (head.count, shape.dims());
            return Err(AnswerError::Message(format!("it has {got} dimensions, expected {expected}")));
        }
        check_length(message, self.rank_question_bytes())?;
        Ok(RankQuestion { numbers: transforms_of(shape, numbers), changes })
    }

    /// Answers questions for ranking, all in one reading of the table: messages in the order of the questions.
    pub fn rank(&self, questions: &[RankQuestion]) -> Vec<Vec<u8>> {
        self.rank_while(questions, &|| true).unwrap_or_default()
    }

    /// Answers as [`rank`](Self::rank) does, for as long as `is_wanted`, which is asked between parts of the table.
    /// Returns `None` when it was not.
    pub fn rank_while(
        &self,
        questions: &[RankQuestion],
        is_wanted: &dyn Fn() -> bool,
    ) -> Option<Vec<Vec<u8>>> {
        let shape = &self.checked().rank;
        let numbers: Vec<&Transforms> = questions.iter().map(|question| &question.numbers).collect();
        let head = self.head_of(Kind::Rank, shape.set().number, shape.dims());
        let head = |question: &RankQuestion| [head.as_slice(), &question.changes.to_le_bytes()].concat();
        rank_answers(shape, self.ranks(), &numbers, questions.iter().map(head).collect(), is_wanted)
    }

    /// Reads a message that fetches columns.
    ///
    /// # Errors
    /// [`AnswerError`].
    pub fn read_fetch(&self, message: &[u8]) -> Result<FetchQuestion, AnswerError> {
        let shape = &self.checked().fetch;
        let (head, numbers) = self.head(message, Kind::Fetch, shape.set().number)?;
        let fetches = usize::from(head.count);
        if !(1..=MOST_FETCHES).contains(&fetches) {
            let text = format!("it fetches {fetches} columns, outside 1 to {MOST_FETCHES}");
            return Err(AnswerError::Message(text));
        }
        check_length(message, self.fetch_question_bytes(fetches))?;
        let shift = 32 - shape.sent_bits();
        let question =
            |bytes: &[u8]| unpack(bytes, shape.sent_bits()).map(|number| number << shift).collect();
        Ok(FetchQuestion(numbers.chunks_exact(shape.question_bytes()).map(question).collect()))
    }

    /// Answers questions for columns, all in one reading of the table: messages in the order of the questions.
    pub fn fetch(&self, questions: &[FetchQuestion]) -> Vec<Vec<u8>> {
        self.fetch_while(questions, &|| true).unwrap_or_default()
    }

    /// Answers as [`fetch`](Self::fetch) does, for as long as `is_wanted`, which is asked between parts of the table.
    /// Returns `None` when it was not.
    pub fn fetch_while(
        &self,
        questions: &[FetchQuestion],
        is_wanted: &dyn Fn() -> bool,
    ) -> Option<Vec<Vec<u8>>> {
        let shape = &self.checked().fetch;
        let queries: Vec<&[u32]> =
            questions.iter().flat_map(|question| &question.0).map(Vec::as_slice).collect();
        let mut sums = vec![0; queries.len() * shape.rows()];
        let rows = (PART / shape.columns()).max(LEAST_ROWS);
        for (part, table) in self.texts().chunks(rows * shape.columns()).enumerate() {
            if !is_wanted() {
                return None;
            }
            let (begin, count) = (part * rows, table.len() / shape.columns());
            let mut products = vec![0; queries.len() * count];
            multiply_bytes(table, &queries, &mut products);
            for (sums, products) in sums.chunks_exact_mut(shape.rows()).zip(products.chunks_exact(count)) {
                sums[begin..begin + count].copy_from_slice(products);
            }
        }
        let mut columns = sums.chunks_exact(shape.rows());
        let answer = |question: &FetchQuestion| {
            let mut answer = self.head_of(Kind::Fetch, shape.set().number, question.0.len()).to_vec();
            for column in columns.by_ref().take(question.0.len()) {
                answer.extend(column.iter().flat_map(|number| high_half(*number)));
            }
            answer
        };
        Some(questions.iter().map(answer).collect())
    }

    fn head_of(&self, kind: Kind, set: u8, count: usize) -> [u8; HEAD] {
        Head { kind, set, count: count as u16, version: self.checked().version }.write()
    }

    fn head<'a>(&self, message: &'a [u8], kind: Kind, set: u8) -> Result<(Head, &'a [u8]), AnswerError> {
        let wrong = |text: &str| AnswerError::Message(text.to_owned());
        let (head, numbers) = Head::read(message).ok_or_else(|| wrong("it does not begin with a head"))?;
        if head.version != self.checked().version {
            let (got, expected) = (hex(&head.version), hex(&self.checked().version));
            return Err(AnswerError::Version { got, expected });
        }
        match (head.kind == kind, head.set == set) {
            (true, true) => Ok((head, numbers)),
            (false, _) => Err(wrong("it is of another kind")),
            (true, false) => {
                Err(AnswerError::Message(format!("its parameter set is {}, expected {set}", head.set)))
            }
        }
    }
}

/// Returns the transforms of a question's packed numbers.
pub(crate) fn transforms_of(shape: &RankShape, numbers: &[u8]) -> Transforms {
    let (set, ntt) = (shape.set(), rank::transform(shape));
    let shift = 28 - set.sent_bits;
    let mut question: Vec<u32> =
        unpack(numbers, set.sent_bits).map(|number| (number << shift) % set.modulus).collect();
    question.chunks_exact_mut(set.degree).for_each(|polynomial| ntt.forward(polynomial));
    Transforms::of(shape, &question)
}

/// Bytes of a table of texts that are multiplied at once.
const PART: usize = 16 << 20;

/// Rows of a table of texts that are multiplied at once at least: a question is prepared once for them.
const LEAST_ROWS: usize = 64;

/// Returns for each question its head and a byte for each passage of each block of the table, or `None` if they were no
/// longer wanted.
pub(crate) fn rank_answers(
    shape: &RankShape,
    table: &Transforms,
    questions: &[&Transforms],
    heads: Vec<Vec<u8>>,
    is_wanted: &dyn Fn() -> bool,
) -> Option<Vec<Vec<u8>>> {
    let modulus = u64::from(shape.set().modulus);
    let scores = ranks::products(shape, table, questions, is_wanted)?;
    let answer = |(mut answer, scores): (Vec<u8>, Vec<u32>)| {
        answer.reserve_exact(scores.len());
        answer.extend(scores.into_iter().map(|number| ((u64::from(number) << 8) / modulus) as u8));
        answer
    };
    Some(heads.into_iter().zip(scores).map(answer).collect())
}

/// Returns the high 16 bits of a sum, rounded.
pub(crate) fn high_half(number: u32) -> [u8; 2] {
    ((number.wrapping_add(1 << 15) >> 16) as u16).to_le_bytes()
}

fn check_length(message: &[u8], expected: usize) -> Result<(), AnswerError> {
    match message.len() == expected {
        true => Ok(()),
        false => Err(AnswerError::Message(format!("it has {} bytes, expected {expected}", message.len()))),
    }
}
