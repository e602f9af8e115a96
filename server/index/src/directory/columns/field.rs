//! One field of the columns: its values, ascending for each kind, and the posting list of each.

use std::cmp::Ordering;
use std::ops::{Bound, Range};

use dpr_data::{Metadata, Number, Value};
use rayon::prelude::*;
use roaring::RoaringBitmap;

use super::digest::{ColumnsDigest, FieldValue};
use super::postings::{self, Union};
use super::{Input, Unread};
use crate::CancelToken;

/// Bytes of posting lists that are read between two looks at whether to stop.
const LOOK_BYTES: usize = 128 << 10;

/// Bytes that are as much work as a posting list is beside its own.
const LIST_COST: usize = 32;

/// The places of a field's tables in the file. Values are counted from 0: the strings, then the numbers, then the
/// booleans.
#[derive(Debug)]
pub(super) struct Field {
    name: String,
    texts: usize,
    numbers: usize,
    booleans: usize,
    text_ends: Range<usize>,
    text_bytes: Range<usize>,
    number_bytes: Range<usize>,
    boolean_bytes: Range<usize>,
    posting_ends: Range<usize>,
    posting_bytes: Range<usize>,
}

impl Field {
    /// Reads the tables of one field, and checks all of them but the posting lists.
    pub(super) fn parse(input: &mut Input<'_>) -> Result<Self, String> {
        let length = usize::from(input.take(1)?[0]);
        let name =
            std::str::from_utf8(input.take(length)?).map_err(|_| "the name of a field is not UTF-8")?;
        if !(1..=Metadata::MAX_NAME).contains(&length) {
            return Err(format!("the name of a field has {length} bytes"));
        }
        let [texts, numbers, booleans] =
            [input.u32()?, input.u32()?, input.u32()?].map(|count| count as usize);
        let text_ends = range(input, texts, 8)?;
        let text_bytes = range(input, last_end(input.bytes, &text_ends)?, 1)?;
        let number_bytes = range(input, numbers, 8)?;
        let boolean_bytes = range(input, booleans, 1)?;
        let posting_ends = range(input, texts + numbers + booleans, 8)?;
        let posting_bytes = range(input, last_end(input.bytes, &posting_ends)?, 1)?;
        let field = Self {
            name: name.to_owned(),
            texts,
            numbers,
            booleans,
            text_ends,
            text_bytes,
            number_bytes,
            boolean_bytes,
            posting_ends,
            posting_bytes,
        };
        field.check(input.bytes)?;
        Ok(field)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn values(&self) -> usize {
        self.texts + self.numbers + self.booleans
    }

    /// Refuses values that do not ascend, by which they could not be found.
    fn check(&self, file: &[u8]) -> Result<(), String> {
        let numbers = file[self.number_bytes.clone()].as_chunks::<8>().0;
        let ascends = (1..self.texts).all(|at| self.text(file, at - 1) < self.text(file, at))
            && numbers.iter().all(|bytes| f64::from_le_bytes(*bytes).is_finite())
            && numbers.is_sorted_by(|a, b| f64::from_le_bytes(*a) < f64::from_le_bytes(*b))
            && matches!(file[self.boolean_bytes.clone()], [] | [0 | 1] | [0, 1]);
        if ascends && self.values() > 0 {
            Ok(())
        } else {
            Err(format!("the values of `{}` are not in order", self.name))
        }
    }

    fn text<'a>(&self, file: &'a [u8], at: usize) -> &'a [u8] {
        slice(&file[self.text_bytes.clone()], &file[self.text_ends.clone()], at)
    }

    /// Returns the posting list of a value.
    fn posting<'a>(&self, file: &'a [u8], value: usize) -> &'a [u8] {
        slice(&file[self.posting_bytes.clone()], &file[self.posting_ends.clone()], value)
    }

    /// Returns the values of the kind of `like`.
    fn of_kind(&self, like: &Value) -> Range<usize> {
        let numbers = self.texts + self.numbers;
        match like {
            Value::Text(_) => 0..self.texts,
            Value::Number(_) => self.texts..numbers,
            Value::Boolean(_) => numbers..self.values(),
        }
    }

    /// Compares a stored value with one of its kind.
    fn compare(&self, file: &[u8], stored: usize, value: &Value) -> Ordering {
        let at = stored - self.of_kind(value).start;
        match value {
            Value::Text(text) => self.text(file, at).cmp(text.as_bytes()),
            Value::Number(number) => {
                let stored = file[self.number_bytes.clone()].as_chunks::<8>().0[at];
                f64::from_le_bytes(stored).total_cmp(&number.get())
            }
            Value::Boolean(boolean) => file[self.boolean_bytes.clone()][at].cmp(&u8::from(*boolean)),
        }
    }

    /// Returns the first stored value of the kind of `value` that is not before it, or is after it.
    fn first(&self, file: &[u8], value: &Value, is_after: bool) -> usize {
        let Range { start: mut from, end: mut to } = self.of_kind(value);
        while from < to {
            let middle = usize::midpoint(from, to);
            match self.compare(file, middle, value) {
                Ordering::Less => from = middle + 1,
                Ordering::Equal if is_after => from = middle + 1,
                Ordering::Equal | Ordering::Greater => to = middle,
            }
        }
        from
    }

    /// Returns the stored values that are equal to `value`: one or none.
    pub(super) fn equal(&self, file: &[u8], value: &Value) -> Range<usize> {
        self.first(file, value, false)..self.first(file, value, true)
    }

    /// Returns the stored values between two bounds, of the bounds' kind.
    pub(super) fn between(&self, file: &[u8], from: &Bound<Value>, to: &Bound<Value>) -> Range<usize> {
        let kinds = [from, to].map(|bound| match bound {
            Bound::Included(value) | Bound::Excluded(value) => Some(self.of_kind(value)),
            Bound::Unbounded => None,
        });
        let kind = match kinds {
            [Some(one), Some(other)] if one != other => return 0..0,
            [Some(kind), _] | [None, Some(kind)] => kind,
            [None, None] => 0..self.values(),
        };
        let start = match from {
            Bound::Included(value) => self.first(file, value, false),
            Bound::Excluded(value) => self.first(file, value, true),
            Bound::Unbounded => kind.start,
        };
        let end = match to {
            Bound::Included(value) => self.first(file, value, true),
            Bound::Excluded(value) => self.first(file, value, false),
            Bound::Unbounded => kind.end,
        };
        start..end.max(start)
    }

    /// Returns the rows of some values, until `cancel` says to stop. The error says which posting list makes no sense.
    pub(super) fn rows(
        &self,
        file: &[u8],
        rows: u32,
        values: Range<usize>,
        cancel: &CancelToken,
    ) -> Result<RoaringBitmap, Unread> {
        let (mut union, mut unlooked) = (Union::new(rows), 0);
        for value in values {
            let posting = self.posting(file, value);
            unlooked += posting.len() + LIST_COST;
            if unlooked > LOOK_BYTES {
                cancel.check()?;
                unlooked = 0;
            }
            union.add(posting).map_err(|reason| {
                Unread::Corrupt(format!("the posting list {value} of `{}`: {reason}", self.name))
            })?;
        }
        Ok(union.into_rows())
    }

    /// Returns the digest of all values and their rows. The error says what makes no sense.
    pub(super) fn digest(&self, file: &[u8], rows: u32) -> Result<ColumnsDigest, String> {
        let of_value = |at: usize| {
            let value = self.value(file, at).ok_or_else(|| format!("value {at} of `{}`", self.name))?;
            let value = FieldValue::new(&self.name, &value);
            let rows = postings::read(self.posting(file, at), rows)?;
            Ok(rows.iter().map(|row| value.of_row(row)).fold(ColumnsDigest::default(), ColumnsDigest::and))
        };
        let values = (0..self.values()).into_par_iter().map(of_value);
        values.try_reduce(ColumnsDigest::default, |a, b| Ok(a.and(b)))
    }

    /// Returns a stored value; `None` for a string that is not UTF-8.
    fn value(&self, file: &[u8], at: usize) -> Option<Value> {
        let (numbers, booleans) = (self.texts, self.texts + self.numbers);
        Some(if at < numbers {
            Value::Text(std::str::from_utf8(self.text(file, at)).ok()?.to_owned())
        } else if at < booleans {
            let number = file[self.number_bytes.clone()].as_chunks::<8>().0[at - numbers];
            Value::Number(Number::new(f64::from_le_bytes(number))?)
        } else {
            Value::Boolean(file[self.boolean_bytes.clone()][at - booleans] == 1)
        })
    }
}

/// Takes `count` elements of `size` bytes.
fn range(input: &mut Input<'_>, count: usize, size: usize) -> Result<Range<usize>, String> {
    let start = input.at;
    let bytes = count.checked_mul(size).ok_or_else(|| format!("{count} values are too many"))?;
    input.take(bytes)?;
    Ok(start..input.at)
}

/// Returns the last of a table of ends, which must not descend.
fn last_end(file: &[u8], ends: &Range<usize>) -> Result<usize, String> {
    let ends = file[ends.clone()].as_chunks::<8>().0;
    if !ends.is_sorted_by_key(|end| u64::from_le_bytes(*end)) {
        return Err("its values overlap".to_owned());
    }
    let last = ends.last().map_or(0, |end| u64::from_le_bytes(*end));
    usize::try_from(last).map_err(|_| format!("{last} bytes of values are too many"))
}

/// Returns the element at `at` of elements that end at `ends`.
fn slice<'a>(bytes: &'a [u8], ends: &[u8], at: usize) -> &'a [u8] {
    let ends = ends.as_chunks::<8>().0;
    // Ends were compared with the number of bytes when the file was opened.
    let end = |at: usize| u64::from_le_bytes(ends[at]) as usize;
    &bytes[at.checked_sub(1).map_or(0, end)..end(at)]
}
