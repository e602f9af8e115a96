//! Added tokens: texts that are one token wherever they stand.

use tokenizers::{AddedToken, NormalizedString, Normalizer as _, Tokenizer};

/// Adds tokens to a tokenizer that has its normalizer.
///
/// # Errors
/// Names a token that would be found where there is nothing: one that the normalizer leaves nothing of, and white space
/// that takes the white space around it along. The `tokenizers` library panics on some texts with them.
pub(super) fn add(inner: &mut Tokenizer, added: &[AddedToken]) -> Result<(), String> {
    for token in added {
        let mut content = NormalizedString::from(token.content.as_str());
        if let Some(normalizer) = inner.get_normalizer().filter(|_| token.normalized) {
            normalizer.normalize(&mut content).map_err(|e| e.to_string())?;
        }
        let (content, strips) = (content.get(), token.lstrip || token.rstrip);
        if content.is_empty() || strips && content.chars().all(char::is_whitespace) {
            let text = &token.content;
            return Err(format!("the added token {text:?} stands for nothing: a text has it everywhere"));
        }
    }
    inner.add_tokens(added);
    Ok(())
}
