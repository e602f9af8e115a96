//! Blocks of a document's text, and their ids.

use std::ops::Range;

use super::{SplitError, Words};

/// Options of splitting documents into blocks. The default is the paper's: 100 words, no overlap, every rest its own
/// block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitOptions {
    words: usize,
    overlap: usize,
    min_words: usize,
}

impl Default for SplitOptions {
    fn default() -> Self {
        Self { words: 100, overlap: 0, min_words: 1 }
    }
}

impl SplitOptions {
    /// Blocks of `words` words, of which the first `overlap` repeat the end of the block before. The last block
    /// of a document is as short as what is left; with fewer than `min_words` words it joins the block before it
    /// instead (which is then longer than `words`). Nothing is ever dropped.
    ///
    /// # Errors
    /// [`SplitError::BlockSize`] for 0 words, [`SplitError::Overlap`] for an overlap that is not less than
    /// `words`, [`SplitError::MinWords`] when `min_words` is above `words`.
    pub fn new(words: usize, overlap: usize, min_words: usize) -> Result<Self, SplitError> {
        if words == 0 {
            return Err(SplitError::BlockSize);
        }
        if overlap >= words {
            return Err(SplitError::Overlap { overlap, words });
        }
        if min_words > words {
            return Err(SplitError::MinWords { min_words, words });
        }
        Ok(Self { words, overlap, min_words })
    }
}

/// One block of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The block's number in the document, from 0.
    pub number: usize,
    /// The number of words in the block.
    pub words: usize,
    /// The block's words, with one space where the document has white space between them.
    pub text: String,
}

/// The blocks of one document, in order (paper §4.1). A text without words has none.
///
/// ```
/// # use dpr_data::split::{Blocks, SplitOptions};
/// let options = SplitOptions::new(3, 1, 1)?;
/// let texts: Vec<_> = Blocks::of("a b c d e", &options).map(|block| block.text).collect();
/// assert_eq!(texts, ["a b c", "c d e"]);
/// # Ok::<(), dpr_data::split::SplitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Blocks<'a> {
    text: &'a str,
    words: Vec<Range<usize>>,
    options: SplitOptions,
    number: usize,
    /// First word of the next block; past the end when there is none.
    start: usize,
}

impl<'a> Blocks<'a> {
    /// Returns the blocks of `text`.
    pub fn of(text: &'a str, options: &SplitOptions) -> Self {
        Self { text, words: Words::of(text).collect(), options: *options, number: 0, start: 0 }
    }

    /// Words of the whole document, as [`Words`] counts them.
    pub fn document_words(&self) -> usize {
        self.words.len()
    }

    fn text_of(&self, words: &[Range<usize>]) -> String {
        let (Some(first), Some(last)) = (words.first(), words.last()) else { return String::new() };
        let mut text = String::with_capacity(last.end - first.start);
        let mut end = first.start;
        for word in words {
            // Characters of Chinese and Japanese are words that nothing separates.
            if word.start > end {
                text.push(' ');
            }
            text.push_str(&self.text[word.clone()]);
            end = word.end;
        }
        text
    }
}

impl Iterator for Blocks<'_> {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        let SplitOptions { words: size, overlap, min_words } = self.options;
        let count = self.words.len();
        if self.start >= count {
            return None;
        }
        let next = self.start + (size - overlap);
        let mut end = count.min(self.start.saturating_add(size));
        let next_is_last = next.saturating_add(size) >= count;
        if end < count && next_is_last && count - next < min_words {
            end = count;
        }
        let words = &self.words[self.start..end];
        let block = Block { number: self.number, words: words.len(), text: self.text_of(words) };
        self.number += 1;
        self.start = if end == count { count } else { next };
        Some(block)
    }
}

/// Returns the id of a document's block: `{document}#{number}`, so that a document with one block has `{document}#0`.
pub fn block_id(document: &str, number: usize) -> String {
    format!("{document}#{number}")
}

/// Returns the document and the number that [`block_id`] made `id` of; `None` when it is not such an id.
///
/// ```
/// # use dpr_data::split::document_of;
/// assert_eq!(document_of("guide/c#.md#12"), Some(("guide/c#.md", 12)));
/// assert_eq!(document_of("wiki:1"), None);
/// ```
pub fn document_of(id: &str) -> Option<(&str, usize)> {
    let (document, digits) = id.rsplit_once('#')?;
    let number = digits.parse().ok()?;
    // `+1` and `01` parse too, but no block is called so.
    (!document.is_empty() && block_id(document, number) == id).then_some((document, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str, words: usize, overlap: usize, min_words: usize) -> Vec<String> {
        let options = SplitOptions::new(words, overlap, min_words).unwrap();
        Blocks::of(text, &options).map(|block| block.text).collect()
    }

    #[test]
    fn blocks_are_disjoint_and_the_rest_is_its_own() {
        assert_eq!(texts("a  b\nc d e\t", 2, 0, 1), ["a b", "c d", "e"]);
        assert_eq!(texts("a b c d", 2, 0, 1), ["a b", "c d"]);
        assert_eq!(texts("a", 2, 0, 1), ["a"]);
        assert!(texts(" ", 2, 0, 1).is_empty());
    }

    #[test]
    fn overlapping_blocks_end_with_the_document() {
        assert_eq!(texts("a b c d e", 3, 1, 1), ["a b c", "c d e"]);
        assert_eq!(texts("a b c d e f", 3, 1, 1), ["a b c", "c d e", "e f"]);
        assert_eq!(texts("a b c", 3, 2, 1), ["a b c"], "a block of nothing but overlap tells nothing");
    }

    #[test]
    fn a_rest_that_is_too_short_joins_the_block_before_it() {
        assert_eq!(texts("a b c d e f g", 3, 0, 2), ["a b c", "d e f g"]);
        assert_eq!(texts("a b c d e f g h", 3, 0, 2), ["a b c", "d e f", "g h"]);
        assert_eq!(texts("a b c d e f", 3, 1, 3), ["a b c", "c d e f"]);
        assert_eq!(texts("a", 3, 0, 3), ["a"], "a short document is all there is");
    }

    #[test]
    fn chinese_and_japanese_are_cut_by_the_character_and_stay_unspaced() {
        assert_eq!(texts("東京は日本の首都。 人口1400万", 4, 0, 1), ["東京は日", "本の首都。", "人口1400万"]);
    }

    #[test]
    fn sizes_near_the_largest_number_do_not_overflow() {
        assert_eq!(texts("a b c", usize::MAX, usize::MAX - 1, usize::MAX), ["a b c"]);
    }

    #[test]
    fn ids_lead_back_to_the_document_and_nothing_else_does() {
        for document in ["1", "wiki:12", "a/b c.md", "c#", "x#1"] {
            assert_eq!(document_of(&block_id(document, 7)), Some((document, 7)));
        }
        for id in ["", "a", "a#", "#1", "a#x", "a#+1", "a#01", "a#-1", "a#99999999999999999999999"] {
            assert_eq!(document_of(id), None, "{id}");
        }
    }

    #[test]
    fn options_that_cannot_work_are_refused() {
        for (words, overlap, min_words, said) in
            [(0, 0, 0, "0 words"), (5, 5, 1, "overlap of 5"), (5, 0, 6, "at least 6")]
        {
            let error = SplitOptions::new(words, overlap, min_words).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
