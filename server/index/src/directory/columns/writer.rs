//! The writer of the columns, which takes the metadata of the passages in the order of the rows.

use std::collections::BTreeMap;
use std::io::{self, Write};

use dpr_data::{Metadata, Value};

use super::{MAGIC, postings};

/// The metadata of passages by field and value.
#[derive(Debug, Default)]
pub(crate) struct ColumnsWriter {
    rows: u32,
    /// For each value of a field its rows, ascending. Strings are before numbers, numbers before booleans.
    fields: BTreeMap<String, BTreeMap<Value, Vec<u32>>>,
}

impl ColumnsWriter {
    /// Adds the metadata of the next row. There are fewer rows than u32 counts, as building checks.
    pub(crate) fn add(&mut self, metadata: &Metadata) {
        for (name, value) in metadata.iter() {
            let values = match self.fields.get_mut(name) {
                Some(values) => values,
                None => self.fields.entry(name.to_owned()).or_default(),
            };
            match values.get_mut(value) {
                Some(rows) => rows.push(self.rows),
                None => {
                    values.insert(value.clone(), vec![self.rows]);
                }
            }
        }
        self.rows += 1;
    }

    /// Returns `true` if no row has metadata.
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    pub(super) fn rows(&self) -> u32 {
        self.rows
    }

    pub(super) fn fields(&self) -> &BTreeMap<String, BTreeMap<Value, Vec<u32>>> {
        &self.fields
    }

    /// Writes the file.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(MAGIC)?;
        out.write_all(&u64::from(self.rows).to_le_bytes())?;
        out.write_all(&(self.fields.len() as u32).to_le_bytes())?;
        self.fields.iter().try_for_each(|(name, values)| write_field(name, values, out))
    }
}

fn write_field(name: &str, values: &BTreeMap<Value, Vec<u32>>, out: &mut dyn Write) -> io::Result<()> {
    // A name has at most 64 bytes, and there are no more values than rows.
    out.write_all(&[name.len() as u8])?;
    out.write_all(name.as_bytes())?;
    let (mut texts, mut numbers, mut booleans) = (Vec::new(), Vec::new(), Vec::new());
    for value in values.keys() {
        match value {
            Value::Text(text) => texts.push(text.as_bytes()),
            Value::Number(number) => numbers.push(number.get().to_le_bytes()),
            Value::Boolean(boolean) => booleans.push(u8::from(*boolean)),
        }
    }
    for count in [texts.len(), numbers.len(), booleans.len()] {
        out.write_all(&(count as u32).to_le_bytes())?;
    }
    write_ends(texts.iter().map(|text| text.len()), out)?;
    texts.iter().try_for_each(|text| out.write_all(text))?;
    out.write_all(numbers.as_flattened())?;
    out.write_all(&booleans)?;
    let (mut lists, mut lengths) = (Vec::new(), Vec::with_capacity(values.len()));
    for rows in values.values() {
        let start = lists.len();
        postings::write(rows, &mut lists)?;
        lengths.push(lists.len() - start);
    }
    write_ends(lengths.into_iter(), out)?;
    out.write_all(&lists)
}

/// Writes the end of each element, counted from the beginning of the first.
fn write_ends(lengths: impl Iterator<Item = usize>, out: &mut dyn Write) -> io::Result<()> {
    let mut end = 0;
    for length in lengths {
        end += length as u64;
        out.write_all(&end.to_le_bytes())?;
    }
    Ok(())
}
