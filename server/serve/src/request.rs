//! The body of `POST /v1/search`, as sent and as understood.
//!
//! It is read by hand rather than by a derived `Deserialize`, for the sake of the errors: a question sent as
//! text, an unknown field and a vector with a hole are told apart, each with its own code.

use std::fmt;

use dpr_core::Embedding;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use utoipa::ToSchema;

use super::error::ApiError;
use super::limits::Limits;
use super::vector::{VectorInput, WireVector};
use dpr_index::search::Filter;

/// A search: one vector, or a batch of them.
#[derive(Debug, Default, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchRequest {
    /// The question's vector. Exactly one of `vector` and `vectors` is sent.
    #[schema(value_type = WireVector, required = false)]
    vector: Option<VectorInput>,
    /// A batch of question vectors.
    #[schema(value_type = Vec<WireVector>, required = false)]
    vectors: Option<Vec<VectorInput>>,
    /// Passages to return for each vector, best first.
    #[schema(value_type = usize, required = false, minimum = 1, default = 10)]
    k: Option<Value>,
    /// Finds only passages with one of these titles and one of these ids, where any are given. Whoever sends one tells
    /// what the question is about.
    #[schema(value_type = FilterBody, required = false)]
    filter: Option<Value>,
    /// Fingerprint of the model that made the vectors, 64 hexadecimal digits, as GET /v1/model tells it.
    #[schema(value_type = String)]
    model: Option<Value>,
    #[schema(ignore)]
    has_text: bool,
    #[schema(ignore)]
    unknown: Option<String>,
}

/// Which passages may be found.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FilterBody {
    /// Titles, at most 1000; none leaves all.
    titles: Vec<String>,
    /// Ids, at most 1000; none leaves all.
    ids: Vec<String>,
}

/// Most titles, and most ids, of a filter.
const MAX_FILTER: usize = 1000;

impl FilterBody {
    fn parse(value: Value) -> Result<Filter, ApiError> {
        let Self { titles, ids } = serde_json::from_value(value)
            .map_err(|error| ApiError::InvalidFilter(format!("`filter` is no filter: {error}")))?;
        for (name, list) in [("titles", &titles), ("ids", &ids)] {
            if list.len() > MAX_FILTER {
                let count = list.len();
                let text =
                    format!("`filter.{name}` holds {count} of them; a filter holds at most {MAX_FILTER}");
                return Err(ApiError::InvalidFilter(text));
            }
        }
        Ok(Filter { titles: titles.into_iter().collect(), ids: ids.into_iter().collect() })
    }
}

/// A search whose every part was checked.
#[derive(Debug)]
pub(super) struct ValidSearch {
    /// At least one; each of the index's dimension.
    pub(super) vectors: Vec<Embedding>,
    /// 1 to `Limits::max_k`.
    pub(super) k: usize,
    /// Only where the body has one.
    pub(super) filter: Option<Filter>,
    /// Whether the body had `vectors`, so that the answer has `results`.
    pub(super) batch: bool,
}

/// The names under which people send a question's text.
pub(super) const TEXT_FIELDS: [&str; 8] =
    ["text", "texts", "question", "questions", "query", "queries", "q", "input"];

impl SearchRequest {
    /// Reads a JSON body.
    ///
    /// # Errors
    /// [`ApiError::InvalidJson`], or [`ApiError::InvalidVector`] for a number no float can hold.
    pub(super) fn parse(body: &[u8]) -> Result<Self, ApiError> {
        serde_json::from_slice(body).map_err(|error| {
            let text = error.to_string();
            // serde_json has no other mark for a literal such as 1e999.
            if text.starts_with("number out of range") {
                ApiError::InvalidVector(format!("the body holds a number too large for a float: {text}"))
            } else {
                ApiError::InvalidJson(text)
            }
        })
    }

    /// Checks everything against the index (`dim`, `fingerprint`) and the limits.
    pub(super) fn validate(
        self,
        dim: usize,
        fingerprint: &str,
        limits: &Limits,
    ) -> Result<ValidSearch, ApiError> {
        if self.has_text {
            return Err(ApiError::TextSearchDisabled);
        }
        if let Some(name) = self.unknown {
            return Err(ApiError::UnknownField(name));
        }
        let (inputs, batch) = match (self.vector, self.vectors) {
            (Some(one), None) => (vec![one], false),
            (None, Some(many)) => (many, true),
            (None, None) => return Err(ApiError::MissingField("vector")),
            (Some(_), Some(_)) => {
                return Err(ApiError::InvalidJson("it has both `vector` and `vectors`".into()));
            }
        };
        let k = match self.k {
            None => limits.default_k.min(limits.max_k),
            Some(value) => match value.as_u64().and_then(|k| usize::try_from(k).ok()) {
                Some(k) if (1..=limits.max_k).contains(&k) => k,
                _ => return Err(ApiError::InvalidK { got: brief(&value), max: limits.max_k }),
            },
        };
        match self.model {
            None => return Err(ApiError::MissingField("model")),
            Some(Value::String(model)) if model.eq_ignore_ascii_case(fingerprint) => {}
            Some(Value::String(model)) => {
                return Err(ApiError::WrongModel { got: model, expected: fingerprint.to_owned() });
            }
            Some(other) => {
                return Err(ApiError::InvalidJson(format!("`model` is {}, not text", brief(&other))));
            }
        }
        let filter = self.filter.map(FilterBody::parse).transpose()?;
        if inputs.is_empty() {
            return Err(ApiError::InvalidVector("`vectors` is empty".into()));
        }
        if inputs.len() > limits.max_batch {
            return Err(ApiError::InvalidVector(format!(
                "`vectors` holds {} vectors; a batch holds at most {}",
                inputs.len(),
                limits.max_batch
            )));
        }
        if inputs.len().saturating_mul(k) > limits.max_hits() {
            return Err(ApiError::TooManyHits { vectors: inputs.len(), k, max: limits.max_hits() });
        }
        let mut vectors = Vec::with_capacity(inputs.len());
        for (at, input) in inputs.into_iter().enumerate() {
            let name = if batch { format!("vectors[{at}]") } else { "vector".to_owned() };
            vectors.push(input.embedding(&name, dim)?);
        }
        Ok(ValidSearch { vectors, k, filter, batch })
    }
}

/// A value as an error message shows it; long ones are cut.
fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

impl<'de> Deserialize<'de> for SearchRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RequestVisitor)
    }
}

struct RequestVisitor;

impl<'de> Visitor<'de> for RequestVisitor {
    type Value = SearchRequest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `vector` or `vectors`, `k` and `model`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SearchRequest, A::Error> {
        let mut request = SearchRequest::default();
        while let Some(field) = map.next_key::<String>()? {
            match field.as_str() {
                "vector" => once(&mut request.vector, map.next_value()?, "vector")?,
                "vectors" => once(&mut request.vectors, map.next_value()?, "vectors")?,
                "filter" => once(&mut request.filter, map.next_value()?, "filter")?,
                "k" => once(&mut request.k, map.next_value()?, "k")?,
                "model" => once(&mut request.model, map.next_value()?, "model")?,
                other => {
                    map.next_value::<IgnoredAny>()?;
                    if TEXT_FIELDS.contains(&other.to_ascii_lowercase().as_str()) {
                        request.has_text = true;
                    } else if request.unknown.is_none() {
                        request.unknown = Some(field.chars().take(40).collect());
                    }
                }
            }
        }
        Ok(request)
    }
}

fn once<T, E: serde::de::Error>(slot: &mut Option<T>, value: T, name: &'static str) -> Result<(), E> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn check(body: &str) -> Result<ValidSearch, ApiError> {
        let body = body.replace("MODEL", &format!("\"{MODEL}\""));
        SearchRequest::parse(body.as_bytes())?.validate(3, MODEL, &Limits::default())
    }

    #[test]
    fn a_vector_is_numbers_or_base64() {
        let numbers = check(r#"{"vector":[1,-2.5,0],"model":MODEL}"#).unwrap();
        assert_eq!(numbers.vectors[0].as_slice(), [1.0, -2.5, 0.0]);
        assert_eq!((numbers.k, numbers.batch), (10, false));
        for text in [numbers.vectors[0].to_base64_f32(), numbers.vectors[0].to_base64_f16()] {
            let same = check(&format!(r#"{{"vectors":["{text}"],"k":1,"model":MODEL}}"#)).unwrap();
            assert_eq!(same.vectors[0].as_slice(), [1.0, -2.5, 0.0]);
            assert!(same.batch);
        }
    }

    /// Body, code, what the message must hold.
    #[test]
    fn every_kind_of_bad_body_has_its_code_and_says_what_is_wrong() {
        use super::super::error::ErrorCode::{self, *};
        let cases: &[(&str, ErrorCode, &str)] = &[
            ("[]", InvalidJson, "an object with `vector`"),
            ("{", InvalidJson, "EOF"),
            (r#"{"vector":[1,2,3],"model":MODEL,"top":3}"#, InvalidJson, "no field `top`"),
            (r#"{"vector":[1,2,3],"vector":[1,2,3],"model":MODEL}"#, InvalidJson, "duplicate field"),
            (r#"{"vector":[1,2,3],"vectors":[],"model":MODEL}"#, InvalidJson, "both"),
            (r#"{"model":MODEL}"#, InvalidJson, "lacks the field `vector`"),
            (r#"{"vector":[1,2,3]}"#, InvalidJson, "lacks the field `model`"),
            (r#"{"vector":[1,2,3],"model":7}"#, InvalidJson, "`model` is 7"),
            (
                r#"{"vector":[1,2,3],"model":"beef"}"#,
                WrongModel,
                "model beef, this index by model aaaaaaaaaaaa…",
            ),
            (r#"{"vector":[1,2,3],"model":MODEL,"k":0}"#, InvalidK, "`k` is 0"),
            (r#"{"vector":[1,2,3],"model":MODEL,"k":1001}"#, InvalidK, "1001, outside 1 to 1000"),
            (r#"{"vector":[1,2,3],"model":MODEL,"k":-1}"#, InvalidK, "`k` is -1"),
            (r#"{"vector":[1,2,3],"model":MODEL,"k":2.5}"#, InvalidK, "`k` is 2.5"),
            (r#"{"vector":[1,2,3],"model":MODEL,"k":"10"}"#, InvalidK, "`k` is \"10\""),
            (
                r#"{"vector":[1,2,3],"model":MODEL,"filter":"a title"}"#,
                InvalidFilter,
                "`filter` is no filter",
            ),
            (
                r#"{"vector":[1,2,3],"model":MODEL,"filter":{"title":"a"}}"#,
                InvalidFilter,
                "unknown field `title`",
            ),
            (r#"{"vector":[1,2,3],"model":MODEL,"filter":{"ids":[7]}}"#, InvalidFilter, "integer"),
            (r#"{"vector":[1,2],"model":MODEL}"#, InvalidVector, "2"),
            (r#"{"vector":[0,0,0],"model":MODEL}"#, InvalidVector, "zero"),
            (r#"{"vector":[1,1e999,0],"model":MODEL}"#, InvalidVector, "too large"),
            (r#"{"vector":[1,1e39,0],"model":MODEL}"#, InvalidVector, "number at 1 is not finite"),
            (r#"{"vector":[1,null,0],"model":MODEL}"#, InvalidVector, "null"),
            (r#"{"vector":[1,[2],0],"model":MODEL}"#, InvalidVector, "an array at position 1"),
            (r#"{"vector":{"0":1},"model":MODEL}"#, InvalidVector, "Array.from"),
            (r#"{"vector":null,"model":MODEL}"#, InvalidVector, "null"),
            (r#"{"vector":"AADAfwAAgD8AAIA/","model":MODEL}"#, InvalidVector, "number at 0 is not finite"),
            (r#"{"vector":"AACAfwAAgD8AAIA/","model":MODEL}"#, InvalidVector, "number at 0 is not finite"),
            (r#"{"vector":"no base64!","model":MODEL}"#, InvalidVector, "`vector`"),
            (r#"{"vectors":[],"model":MODEL}"#, InvalidVector, "empty"),
            (r#"{"vectors":[[1,2,3],[1,2]],"model":MODEL}"#, InvalidVector, "`vectors[1]`"),
            (r#"{"text":"who won","vector":[1,2,3],"model":MODEL}"#, TextSearchDisabled, "vectors, not text"),
            (r#"{"Question":null}"#, TextSearchDisabled, "vectors, not text"),
        ];
        for (body, code, says) in cases {
            let error = check(body).expect_err(body);
            assert_eq!(error.code(), *code, "{body}: {error}");
            assert!(error.to_string().contains(says), "{body}: {error}");
        }
    }

    #[test]
    fn a_batch_is_bounded_in_vectors_and_in_passages() {
        let of = |n: usize, k: usize| {
            check(&format!(r#"{{"vectors":[{}],"k":{k},"model":MODEL}}"#, vec!["[1,2,3]"; n].join(",")))
        };
        assert_eq!(of(64, 100).unwrap().vectors.len(), 64);
        assert!(of(65, 1).unwrap_err().to_string().contains("65 vectors; a batch holds at most 64"));
        assert!(of(11, 1000).unwrap_err().to_string().contains("one response holds 10000"));
    }
}
