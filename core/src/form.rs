//! Form of the texts that an encoder reads: prompts, and the way a title is joined to its text.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The longest prompt or template, in bytes: more would leave no room for a text.
const MOST_BYTES: usize = 4096;

/// Texts that are put before questions and passages, as `"query: "` and `"passage: "`. An empty one is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompts {
    /// Before a question.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub query: String,
    /// Before a passage, and before its title where it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub passage: String,
}

impl Prompts {
    /// Returns whether neither side has a prompt.
    pub fn is_empty(&self) -> bool {
        self.query.is_empty() && self.passage.is_empty()
    }
}

/// The way a passage's title and text become one input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TitleJoin {
    /// Title and text with the tokenizer's separators between, `[CLS] title [SEP] text [SEP]` (paper §4.1).
    #[default]
    Separator,
    /// Title, a space, text.
    Space,
    /// A template.
    Template(Template),
}

/// A template of a passage, as `title: {title} | text: {text}`. `{title|none}` stands for the title, or for `none`
/// where a passage has no title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    source: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Title { otherwise: String },
    Text,
}

/// The reason why a prompt or a join cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormError {
    /// Not one of the joins.
    #[error(
        "the title join is {0:?}: say \"separator\", \"space\", or a template with {{text}} once and {{title}} or {{title|WORDS}} at most once, as \"title: {{title}} | text: {{text}}\""
    )]
    Join(String),
    /// A title join other than `separator` for a `DPRReader`.
    #[error("the title join is {0:?}, and a DPRReader takes \"separator\" alone: leave it out")]
    Fixed(String),
    /// Too long.
    #[error("the {what} has {bytes} bytes, at most {MOST_BYTES} are allowed: shorten it")]
    Long {
        /// The prompt or template.
        what: &'static str,
        /// Its length.
        bytes: usize,
    },
}

impl TitleJoin {
    /// Returns whether this is the default.
    pub fn is_separator(&self) -> bool {
        *self == Self::Separator
    }

    /// Returns the join that leaves the title out, the template `{text}`.
    pub fn text_alone() -> Self {
        Self::Template(Template { source: "{text}".into(), parts: vec![Part::Text] })
    }
}

impl TryFrom<String> for TitleJoin {
    type Error = FormError;

    fn try_from(source: String) -> Result<Self, FormError> {
        match source.as_str() {
            "separator" => return Ok(Self::Separator),
            "space" => return Ok(Self::Space),
            _ => {}
        }
        if source.len() > MOST_BYTES {
            return Err(FormError::Long { what: "title join", bytes: source.len() });
        }
        match parts(&source) {
            Some(parts) => Ok(Self::Template(Template { source, parts })),
            None => Err(FormError::Join(source)),
        }
    }
}

impl std::str::FromStr for TitleJoin {
    type Err = FormError;

    fn from_str(source: &str) -> Result<Self, FormError> {
        source.to_owned().try_into()
    }
}

impl From<TitleJoin> for String {
    fn from(join: TitleJoin) -> Self {
        match join {
            TitleJoin::Separator => "separator".into(),
            TitleJoin::Space => "space".into(),
            TitleJoin::Template(template) => template.source,
        }
    }
}

/// Returns the parts of a template, which has `{text}` once, a title at most once and no other braces.
fn parts(source: &str) -> Option<Vec<Part>> {
    let (mut parts, mut rest, mut texts, mut titles) = (Vec::new(), source, 0, 0);
    while let Some(open) = rest.find('{') {
        let (before, after) = rest.split_at(open);
        let (name, after) = after[1..].split_once('}')?;
        if !before.is_empty() {
            parts.push(Part::Literal(before.to_owned()));
        }
        match name.split_once('|').unwrap_or((name, "")) {
            ("text", "") if name == "text" => {
                texts += 1;
                parts.push(Part::Text);
            }
            ("title", otherwise) => {
                titles += 1;
                parts.push(Part::Title { otherwise: otherwise.to_owned() });
            }
            _ => return None,
        }
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Literal(rest.to_owned()));
    }
    let braces = source.bytes().filter(|byte| matches!(byte, b'{' | b'}')).count();
    (texts == 1 && titles <= 1 && braces == 2 * (texts + titles)).then_some(parts)
}

impl Template {
    fn fill(&self, title: &str, text: &str) -> String {
        let mut filled = String::with_capacity(self.source.len() + title.len() + text.len());
        for part in &self.parts {
            filled.push_str(match part {
                Part::Literal(literal) => literal,
                Part::Title { otherwise } if title.trim().is_empty() => otherwise,
                Part::Title { .. } => title,
                Part::Text => text,
            });
        }
        filled
    }

    /// Returns the byte at which the text begins.
    fn text_offset(&self, title: &str) -> usize {
        let before = self.parts.iter().take_while(|part| !matches!(part, Part::Text));
        let bytes = before.map(|part| match part {
            Part::Literal(literal) => literal.len(),
            Part::Title { otherwise } if title.trim().is_empty() => otherwise.len(),
            Part::Title { .. } => title.len(),
            Part::Text => 0,
        });
        bytes.sum()
    }
}

/// A passage as the tokenizer takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassageForm<'a> {
    /// One text.
    One(Cow<'a, str>),
    /// A title and a text, with separators between.
    Two(Cow<'a, str>, &'a str),
}

/// Prompts and the title join of one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextForm {
    /// Texts before questions and passages.
    pub prompts: Prompts,
    /// The way titles are joined.
    pub join: TitleJoin,
}

impl TextForm {
    /// Checks the lengths.
    ///
    /// # Errors
    /// [`FormError::Long`] names the prompt.
    pub fn check(&self) -> Result<(), FormError> {
        let prompts =
            [("prompt of questions", &self.prompts.query), ("prompt of passages", &self.prompts.passage)];
        match prompts.into_iter().find(|(_, prompt)| prompt.len() > MOST_BYTES) {
            Some((what, prompt)) => Err(FormError::Long { what, bytes: prompt.len() }),
            None => Ok(()),
        }
    }

    /// Returns a question with its prompt.
    pub fn question<'a>(&self, text: &'a str) -> Cow<'a, str> {
        prompted(&self.prompts.query, text.into())
    }

    /// Returns a passage with its prompt; a blank title is none.
    pub fn passage<'a>(&self, title: &'a str, text: &'a str) -> PassageForm<'a> {
        let prompt = &self.prompts.passage;
        match &self.join {
            TitleJoin::Template(template) => {
                PassageForm::One(prompted(prompt, template.fill(title, text).into()))
            }
            _ if title.trim().is_empty() => PassageForm::One(prompted(prompt, text.into())),
            TitleJoin::Space => PassageForm::One(format!("{prompt}{title} {text}").into()),
            TitleJoin::Separator => PassageForm::Two(prompted(prompt, title.into()), text),
        }
    }

    /// Returns the byte at which the text begins in the one text that [`TextForm::passage`] makes, or in the second of
    /// two.
    pub(crate) fn text_offset(&self, title: &str) -> usize {
        let prompt = self.prompts.passage.len();
        match &self.join {
            TitleJoin::Template(template) => prompt + template.text_offset(title),
            _ if title.trim().is_empty() => prompt,
            TitleJoin::Space => prompt + title.len() + 1,
            TitleJoin::Separator => 0,
        }
    }
}

fn prompted<'a>(prompt: &str, text: Cow<'a, str>) -> Cow<'a, str> {
    if prompt.is_empty() { text } else { format!("{prompt}{text}").into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(query: &str, passage: &str, join: &str) -> TextForm {
        TextForm {
            prompts: Prompts { query: query.into(), passage: passage.into() },
            join: join.parse().unwrap(),
        }
    }

    fn one(text: &str) -> PassageForm<'_> {
        PassageForm::One(text.into())
    }

    #[test]
    fn prompts_stand_before_what_the_tokenizer_reads() {
        let e5 = form("query: ", "passage: ", "separator");
        assert_eq!(e5.question("who"), "query: who");
        assert_eq!(e5.passage("T", "x"), PassageForm::Two("passage: T".into(), "x"));
        assert_eq!(e5.passage(" ", "x"), one("passage: x"));
        assert_eq!(form("", "p: ", "space").passage("T", "x"), one("p: T x"));
        assert_eq!(form("", "", "space").passage("", "x"), one("x"));
    }

    #[test]
    fn a_template_is_filled_once_and_never_from_the_texts_themselves() {
        let gemma = form("", "", "title: {title|none} | text: {text}");
        assert_eq!(gemma.passage("{text}", "{title}"), one("title: {text} | text: {title}"));
        assert_eq!(gemma.passage("", "x"), one("title: none | text: x"));
        assert_eq!(form("", "p ", "{text}").passage("T", "x"), one("p x"));
    }

    #[test]
    fn the_place_of_the_text_is_known() {
        let gemma = "title: {title|none} | text: {text} end";
        for join in ["separator", "space", gemma, "{text} ({title})", "{text}"] {
            for title in ["", " ", "Äpfel"] {
                let form = form("", "p: ", join);
                let (one, from) = (form.passage(title, "The text."), form.text_offset(title));
                let text = match &one {
                    PassageForm::One(text) => text.as_ref(),
                    PassageForm::Two(_, text) => text,
                };
                assert!(text[from..].starts_with("The text."), "{join:?} {title:?}: {text:?} from {from}");
            }
        }
        assert_eq!(TitleJoin::text_alone(), "{text}".parse().unwrap());
    }

    #[test]
    fn what_is_no_join_is_refused_and_every_join_reads_back() {
        for bad in [
            "",
            "comma",
            "{title}",
            "{text}{text}",
            "{text|x}",
            "{body} {text}",
            "{text",
            "{text}}",
            "{{text}}",
            "{title|a{b} {text}",
            "{title|{} {text}",
        ] {
            let error = bad.parse::<TitleJoin>().unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")) && error.contains("{text} once"), "{error}");
        }
        for join in ["separator", "space", "a {title} b {text} c"] {
            assert_eq!(String::from(join.parse::<TitleJoin>().unwrap()), join);
        }
        let long = "x".repeat(5000);
        assert!(format!("{long}{{text}}").parse::<TitleJoin>().is_err());
        let error = form(&long, "", "space").check().unwrap_err().to_string();
        assert!(error.contains("prompt of questions has 5000 bytes, at most 4096"), "{error}");
    }
}
