//! The body of `POST /v1/search`, as sent and as understood.
//!
//! It is read by hand rather than by a derived `Deserialize`, for the sake of the errors: a question sent as
//! text, an unknown field and a vector with a hole are told apart, each with its own code.

use std::fmt;

use dpr_core::Embedding;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::body_kind::BodyKind;
use super::bounded::{Bounded, BoundedSeed};
use super::error::ApiError;
use super::limits::Limits;
use super::metadata::WireCondition;
use super::nested;
use super::vector::{VectorInput, VectorSeed, WireVector};
use super::vector_role::VectorRole;
use dpr_index::search::Filter;

/// A search: one vector, or a batch of them.
//
// What is not checked yet stays where it is in the body.
#[derive(Debug, Default, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchRequest<'a> {
    /// The question's vector. Exactly one of `vector` and `vectors` is sent.
    #[schema(value_type = WireVector, required = false)]
    vector: Option<VectorInput>,
    /// A batch of question vectors.
    #[schema(value_type = Vec<WireVector>, required = false)]
    vectors: Option<Bounded<VectorInput>>,
    /// Passages to return for each vector, best first.
    #[schema(value_type = usize, required = false, minimum = 1, default = 10)]
    k: Option<&'a RawValue>,
    /// Finds only passages with one of these titles and one of these ids, where any are given, and with metadata for
    /// which the condition holds. Whoever sends one tells what the question is about.
    #[schema(value_type = FilterBody, required = false)]
    filter: Option<&'a RawValue>,
    /// Fingerprint of the model that made the vectors, 64 hexadecimal digits, as GET /v1/model tells it.
    #[schema(value_type = String)]
    model: Option<&'a RawValue>,
    #[schema(ignore)]
    has_text: bool,
    #[schema(ignore)]
    unknown: Option<String>,
}

/// Which passages may be found.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default, expecting = "an object")]
pub struct FilterBody<'a> {
    /// Titles, at most 1000; none leaves all.
    #[schema(value_type = Vec<String>)]
    #[serde(deserialize_with = "titles")]
    titles: Names,
    /// Ids, at most 1000; none leaves all.
    #[schema(value_type = Vec<String>)]
    #[serde(deserialize_with = "ids")]
    ids: Names,
    /// A condition on the metadata; none leaves all.
    #[schema(value_type = WireCondition, required = false)]
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

/// Most titles, and most ids, of a filter.
const MAX_FILTER: usize = 1000;

/// Names of a filter.
type Names = Bounded<String>;

fn titles<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Names, D::Error> {
    nested::array_from(deserializer, "titles", MAX_FILTER, "an array of strings")
}

fn ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Names, D::Error> {
    nested::array_from(deserializer, "ids", MAX_FILTER, "an array of strings")
}

impl<'a> FilterBody<'a> {
    /// Returns the filter; `None` for one that lets all passages through.
    pub(super) fn parse(json: &'a RawValue) -> Result<Option<Filter>, ApiError> {
        let Self { titles, ids, metadata } = nested::value(json)
            .map_err(|error| ApiError::InvalidFilter(format!("`filter` is not a filter: {error}")))?;
        for (name, Names { count, .. }) in [("titles", &titles), ("ids", &ids)] {
            if *count > MAX_FILTER {
                let text =
                    format!("`filter.{name}` holds {count} of them; a filter holds at most {MAX_FILTER}");
                return Err(ApiError::InvalidFilter(text));
            }
        }
        let condition = metadata.map(nested::value).transpose();
        let condition =
            condition.map_err(|error| ApiError::InvalidFilter(format!("`filter.metadata`: {error}")))?;
        let (titles, ids) = (titles.kept.into_iter().collect(), ids.kept.into_iter().collect());
        let filter = Filter { titles, ids, condition };
        Ok((!filter.is_empty()).then_some(filter))
    }
}

/// A search whose every part was checked.
#[derive(Debug)]
pub(super) struct ValidSearch {
    /// At least one; each of the index's dimension.
    pub(super) vectors: Vec<Embedding>,
    /// 1 to `Limits::max_k`.
    pub(super) k: usize,
    /// Only where the body has one that does not let all passages through.
    pub(super) filter: Option<Filter>,
    /// `true` if the body had `vectors`, so that the answer has `results`.
    pub(super) batch: bool,
}

/// The names under which people send a question's text.
pub(super) const TEXT_FIELDS: [&str; 8] =
    ["text", "texts", "question", "questions", "query", "queries", "q", "input"];

impl<'a> SearchRequest<'a> {
    /// Reads a JSON body and checks everything in it against the index (`dim`, `fingerprint`) and the limits.
    /// Whatever the body holds, reading it takes no more memory than a good one and the body itself.
    ///
    /// # Errors
    /// [`ApiError`] for the first thing that is wrong.
    pub(super) fn read(
        body: &'a [u8],
        dim: usize,
        fingerprint: &str,
        limits: &Limits,
    ) -> Result<ValidSearch, ApiError> {
        Self::parse(body, bounds(limits.max_batch, dim))?.validate(dim, fingerprint, limits)
    }

    fn parse(body: &'a [u8], bounds: BoundedSeed<VectorSeed>) -> Result<Self, ApiError> {
        let mut json = serde_json::Deserializer::from_slice(body);
        let parsed = json.deserialize_map(RequestVisitor(bounds));
        parsed.and_then(|request| json.end().map(|()| request)).map_err(|error| {
            let text = error.to_string();
            // serde_json has no other mark for a literal such as 1e999.
            if text.starts_with("number out of range") {
                let text = format!("the body holds a number too large for a float: {text}");
                ApiError::InvalidVector(VectorRole::Question, text)
            } else {
                ApiError::InvalidJson(BodyKind::Search, text)
            }
        })
    }

    fn validate(self, dim: usize, fingerprint: &str, limits: &Limits) -> Result<ValidSearch, ApiError> {
        if self.has_text {
            return Err(ApiError::TextSearchDisabled);
        }
        if let Some(name) = self.unknown {
            return Err(ApiError::UnknownField(name));
        }
        let (inputs, batch) = match (self.vector, self.vectors) {
            (Some(one), None) => (Bounded { kept: vec![one], count: 1 }, false),
            (None, Some(many)) => (many, true),
            (None, None) => return Err(ApiError::MissingField("vector")),
            (Some(_), Some(_)) => {
                let text = "it has both `vector` and `vectors`".into();
                return Err(ApiError::InvalidJson(BodyKind::Search, text));
            }
        };
        let k = checked_k(self.k, limits)?;
        check_model(self.model, fingerprint)?;
        let filter = self.filter.map(FilterBody::parse).transpose()?.flatten();
        if inputs.count == 0 || inputs.count > limits.max_batch {
            return Err(ApiError::InvalidBatch { got: inputs.count, max: limits.max_batch });
        }
        if inputs.count.saturating_mul(k) > limits.max_hits() {
            return Err(ApiError::TooManyHits { vectors: inputs.count, k, max: limits.max_hits() });
        }
        let mut vectors = Vec::with_capacity(inputs.count);
        for (at, input) in inputs.kept.into_iter().enumerate() {
            let name = if batch { format!("vectors[{at}]") } else { "vector".to_owned() };
            vectors.push(input.embedding(&name, dim, VectorRole::Question)?);
        }
        Ok(ValidSearch { vectors, k, filter, batch })
    }
}

/// Reads a batch of at most `max` vectors, each of at most `dim` numbers.
fn bounds(max: usize, dim: usize) -> BoundedSeed<VectorSeed> {
    BoundedSeed { max, element: VectorSeed { dim }, expected: "an array of vectors" }
}

/// Returns the `k` of a body, 1 to `Limits::max_k`.
pub(super) fn checked_k(json: Option<&RawValue>, limits: &Limits) -> Result<usize, ApiError> {
    let max = limits.max_k;
    counted(json, limits.default_k, max).map_err(|got| ApiError::InvalidK { got, max })
}

/// Returns a whole number from 1 to `max`, or `default` where there is none; another value as it was sent.
pub(super) fn counted(json: Option<&RawValue>, default: usize, max: usize) -> Result<usize, String> {
    let Some(json) = json else { return Ok(default.min(max)) };
    match serde_json::from_str(json.get()) {
        Ok(count) if (1..=max).contains(&count) => Ok(count),
        _ => Err(brief(json)),
    }
}

fn check_model(json: Option<&RawValue>, fingerprint: &str) -> Result<(), ApiError> {
    let json = json.ok_or(ApiError::MissingField("model"))?;
    let Ok(model) = serde_json::from_str::<String>(json.get()) else {
        let text = format!("`model` is {}, not text", brief(json));
        return Err(ApiError::InvalidJson(BodyKind::Search, text));
    };
    if model.eq_ignore_ascii_case(fingerprint) {
        return Ok(());
    }
    Err(ApiError::WrongModel { got: model, expected: fingerprint.to_owned() })
}

/// A value as an error message shows it, as it was sent; long ones are cut.
fn brief(json: &RawValue) -> String {
    let text = json.get();
    match text.char_indices().nth(40) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

/// Reads a request, and of its vectors no more than these bounds.
struct RequestVisitor(BoundedSeed<VectorSeed>);

impl<'de> Visitor<'de> for RequestVisitor {
    type Value = SearchRequest<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `vector` or `vectors`, `k` and `model`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SearchRequest<'de>, A::Error> {
        let mut request = SearchRequest::default();
        let Self(bounds) = self;
        while let Some(field) = map.next_key::<String>()? {
            match field.as_str() {
                "vector" => {
                    once(&mut request.vector, map.next_value_seed(bounds.element)?, "vector")?;
                }
                "vectors" => once(&mut request.vectors, map.next_value_seed(bounds)?, "vectors")?,
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
        SearchRequest::read(body.as_bytes(), 3, MODEL, &Limits::default())
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
        use super::super::error_code::ErrorCode::{self, *};
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
                r#"{"vector":[1,2,3],"model":[{"":0},{"":0},{"":0},{"":0},{"":0},{"":0}]}"#,
                InvalidJson,
                "…, not text",
            ),
            (r#"{"vectors":7,"model":MODEL}"#, InvalidJson, "an array of vectors"),
            (r#"{"vector":[1,2,3],"model":MODEL} {}"#, InvalidJson, "trailing"),
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
            (r#"{"vector":[1,2,3],"model":MODEL,"k":[{"":0}]}"#, InvalidK, "`k` is [{\"\":0}]"),
            (
                r#"{"vector":[1,2,3],"model":MODEL,"filter":"a title"}"#,
                InvalidFilter,
                "`filter` is not a filter",
            ),
            (
                r#"{"vector":[1,2,3],"model":MODEL,"filter":{"title":"a"}}"#,
                InvalidFilter,
                "unknown field `title`",
            ),
            (
                r#"{"vector":[1,2,3],"model":MODEL,"filter":{"ids":["a",7]}}"#,
                InvalidFilter,
                "`ids[1]`: invalid type: integer",
            ),
            (
                r#"{"vector":[1,2,3],"model":MODEL,"filter":{"metadata":{"field":"a","like":"b%"}}}"#,
                InvalidFilter,
                "`filter.metadata`: the condition: there is no operator `like`",
            ),
            (
                r#"{"vector":[1,2,3],"model":MODEL,"filter":{"metadata":{"and":[{"field":"a","gt":true}]}}}"#,
                InvalidFilter,
                "and[0]: `gt` takes a number or a string",
            ),
            (r#"{"vector":[1,2],"model":MODEL}"#, InvalidVector, "2"),
            (r#"{"vector":[1,2,3,4,5],"model":MODEL}"#, InvalidVector, "has 5 numbers, expected 3"),
            (r#"{"vector":[1,2,3,4,"5"],"model":MODEL}"#, InvalidVector, "text at position 4"),
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
            (r#"{"vectors":[],"model":MODEL}"#, InvalidVector, "`vectors` holds 0 vectors"),
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
    fn a_filter_that_lets_all_passages_through_is_none() {
        let of = |filter: &str| {
            let body = format!(r#"{{"vector":[1,2,3],"model":MODEL,"filter":{filter}}}"#);
            check(&body).unwrap().filter
        };
        for filter in ["{}", r#"{"titles":[],"ids":[],"metadata":null}"#] {
            assert_eq!(of(filter), None, "{filter}");
        }
        assert!(of(r#"{"ids":["a"]}"#).is_some_and(|filter| filter.ids.contains("a")));
    }

    #[test]
    fn a_batch_is_bounded_in_vectors_and_in_passages() {
        let of = |n: usize, k: usize| {
            check(&format!(r#"{{"vectors":[{}],"k":{k},"model":MODEL}}"#, vec!["[1,2,3]"; n].join(",")))
        };
        assert_eq!(of(64, 100).unwrap().vectors.len(), 64);
        assert!(of(65, 1).unwrap_err().to_string().contains("65 vectors; a batch holds 1 to 64"));
        assert!(of(11, 1000).unwrap_err().to_string().contains("one response holds 10000"));
    }

    #[test]
    fn no_more_is_kept_of_a_body_than_a_good_one_holds() {
        let bounds = bounds(64, 3);
        let many = |element: &str| vec![element; 100_000].join(",");
        let body = format!(r#"{{"vectors":[{}]}}"#, many("[]"));
        let batch = SearchRequest::parse(body.as_bytes(), bounds).unwrap().vectors.unwrap();
        assert_eq!((batch.count, batch.kept.len()), (100_000, 64));
        assert!(batch.kept.capacity() <= 64);
        let empty =
            |input: &VectorInput| matches!(input, VectorInput::Numbers(values, 0) if values.capacity() == 0);
        assert!(batch.kept.iter().all(empty));
        let body = format!(r#"{{"vector":[{}]}}"#, many("1"));
        match SearchRequest::parse(body.as_bytes(), bounds).unwrap().vector {
            Some(VectorInput::Numbers(values, 100_000)) => assert!(values.capacity() < 10),
            other => panic!("{other:?}"),
        }
        let body = format!(r#"{{"titles":[{}]}}"#, many("\"\""));
        let filter: FilterBody<'_> = serde_json::from_str(&body).unwrap();
        assert_eq!((filter.titles.count, filter.titles.kept.len()), (100_000, 1000));
    }
}
