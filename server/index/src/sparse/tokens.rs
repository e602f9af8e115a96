//! An [`Analysis`] as a tokenizer of tantivy.

use tantivy::tokenizer::{TextAnalyzer, Token, TokenStream, Tokenizer};

use super::Analyzer;
use super::analysis::Analysis;

impl Analyzer {
    /// Returns the analyzer as tantivy takes it, for an index of one's own with the same terms.
    pub fn tantivy(self) -> TextAnalyzer {
        TextAnalyzer::from(TermTokenizer::new(Analysis::new(self)))
    }
}

/// Gives tantivy the terms of a text.
#[derive(Clone, Debug)]
pub(super) struct TermTokenizer {
    analysis: Analysis,
    /// The terms of the text at hand, one after another, and where each ends.
    terms: String,
    ends: Vec<usize>,
    token: Token,
}

impl TermTokenizer {
    pub(super) fn new(analysis: Analysis) -> Self {
        Self { analysis, terms: String::new(), ends: Vec::new(), token: Token::default() }
    }
}

impl Tokenizer for TermTokenizer {
    type TokenStream<'a> = TermStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> TermStream<'a> {
        let Self { analysis, terms, ends, token } = self;
        terms.clear();
        ends.clear();
        token.reset();
        analysis.each(text, |term| {
            terms.push_str(term);
            ends.push(terms.len());
        });
        TermStream { terms, ends, next: 0, from: 0, token }
    }
}

/// The terms of one text.
pub(super) struct TermStream<'a> {
    terms: &'a str,
    ends: &'a [usize],
    next: usize,
    from: usize,
    token: &'a mut Token,
}

impl TokenStream for TermStream<'_> {
    fn advance(&mut self) -> bool {
        let Some(&end) = self.ends.get(self.next) else { return false };
        self.token.text.clear();
        self.token.text.push_str(&self.terms[self.from..end]);
        self.token.position = self.next;
        (self.from, self.next) = (end, self.next + 1);
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}
