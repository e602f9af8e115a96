//! Modes of search: what a server sees of a question in each, and what the user gets.

use std::sync::Arc;

use dpr_core::Embedding;
use dpr_core::private::blur::{Blur, DeviceKey};
use dpr_core::private::projection::Projection;
use dpr_core::private::rerank::Reranker;
use dpr_core::random::SplitMix;
use dpr_index::CancelToken;
use dpr_index::private::candidates;
use dpr_index::search::{Backend, Hit, SearchError};

use super::PrivacyError;
use super::groups::GroupGuess;
use super::linear::Views;
use super::questions::EncodedQuestion;

/// The noise in views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// None: what an attacker makes of a question that it knows.
    None,
    /// Drawn from a seed: what an attacker trains with, who knows how noise is made and not the device's key.
    Drawn(u64),
    /// That of the device that is attacked.
    Device,
}

/// The result of a search in a mode.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Ids of the passages that the server returned, in its order.
    pub candidates: Vec<String>,
    /// Ids of the passages that the user gets, best first.
    pub hits: Vec<String>,
    /// Bytes of the request's body.
    pub up_bytes: usize,
    /// Bytes of the answer's body, before compression.
    pub down_bytes: usize,
}

/// A way to search that shows the server something of the question.
pub trait Mode: Sync {
    /// Returns the name.
    fn name(&self) -> String;

    /// Returns what the server sees of a question, in words.
    fn sees(&self) -> String;

    /// Returns what the server sees of each question as numbers, all of one length.
    ///
    /// # Errors
    /// [`PrivacyError`] when a question cannot be sent in this mode.
    fn views(&self, questions: &[EncodedQuestion], noise: Noise) -> Result<Views, PrivacyError>;

    /// Returns the `k` passages that a user in this mode finds; `None` where the mode finds nothing.
    ///
    /// # Errors
    /// [`PrivacyError`] when the search fails.
    fn search(&self, question: &EncodedQuestion, k: usize) -> Result<Option<Found>, PrivacyError>;

    /// Returns how often the real group is named among those that are fetched; `None` for a mode without groups.
    fn groups(&self) -> Option<GroupGuess> {
        None
    }
}

fn bytes_of(hits: &[Hit]) -> usize {
    serde_json::to_vec(hits).map_or(0, |json| json.len())
}

fn ids(hits: &[Hit]) -> Vec<String> {
    hits.iter().map(|hit| hit.id.clone()).collect()
}

/// Plain search: the server sees the vector.
pub struct Plain<'a> {
    backend: &'a dyn Backend,
}

impl<'a> Plain<'a> {
    /// Searches `backend`.
    pub fn new(backend: &'a dyn Backend) -> Self {
        Self { backend }
    }
}

impl Mode for Plain<'_> {
    fn name(&self) -> String {
        "plain".to_owned()
    }

    fn sees(&self) -> String {
        format!("{} numbers", self.backend.describe().dim)
    }

    fn views(&self, questions: &[EncodedQuestion], _: Noise) -> Result<Views, PrivacyError> {
        Ok(Views::of(questions.iter().map(|question| question.vector.as_slice().to_vec()).collect()))
    }

    fn search(&self, question: &EncodedQuestion, k: usize) -> Result<Option<Found>, PrivacyError> {
        let vector = std::slice::from_ref(&question.vector);
        let hits = self.backend.search(vector, k, None)?.pop().unwrap_or_default();
        let up_bytes = serde_json::json!({
            "vector": question.vector.to_base64_f32(), "k": k, "model": self.backend.describe().model
        });
        Ok(Some(Found {
            candidates: ids(&hits),
            up_bytes: up_bytes.to_string().len(),
            down_bytes: bytes_of(&hits),
            hits: ids(&hits),
        }))
    }
}

/// Blurred search: the server sees coordinates with noise.
pub struct Blurred<'a> {
    backend: &'a dyn Backend,
    projection: Arc<Projection>,
    name: String,
    blur: Blur,
    candidates: usize,
    key: DeviceKey,
    model: String,
}

impl<'a> Blurred<'a> {
    /// Searches `backend` for so many candidates, with noise of `key`.
    pub fn new(
        backend: &'a dyn Backend,
        projection: Arc<Projection>,
        name: impl Into<String>,
        blur: Blur,
        candidates: usize,
        key: DeviceKey,
    ) -> Self {
        let model = backend.describe().model;
        Self { backend, projection, name: name.into(), blur, candidates, key, model }
    }

    fn sent(&self, question: &EncodedQuestion, noise: Noise) -> Result<Vec<f32>, PrivacyError> {
        let (projection, vector) = (&self.projection, question.vector.as_slice());
        Ok(match noise {
            Noise::None => self.blur.with_noise(projection, vector, &[])?,
            Noise::Drawn(seed) => {
                let numbers = question.tokens.iter().map(|token| u64::from(*token));
                let key: Vec<u64> = [seed, self.blur.dims as u64].into_iter().chain(numbers).collect();
                let mut random = SplitMix::keyed(&key);
                let normal: Vec<f64> = vector.iter().map(|_| random.normal()).collect();
                self.blur.with_noise(projection, vector, &normal)?
            }
            Noise::Device => self.blur.apply(projection, vector, &self.key, &self.model, &question.tokens)?,
        })
    }
}

impl Mode for Blurred<'_> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn sees(&self) -> String {
        format!("{} numbers, noise {}", self.blur.dims, self.blur.noise)
    }

    fn views(&self, questions: &[EncodedQuestion], noise: Noise) -> Result<Views, PrivacyError> {
        let rows = questions.iter().map(|question| self.sent(question, noise));
        Ok(Views::of(rows.collect::<Result<_, _>>()?))
    }

    fn search(&self, question: &EncodedQuestion, k: usize) -> Result<Option<Found>, PrivacyError> {
        let sent = self.sent(question, Noise::Device)?;
        let never = CancelToken::never();
        let found = candidates(self.backend, &self.projection, &sent, self.candidates, &never)?;
        let reranker = Reranker::new(&self.projection, question.vector.as_slice());
        let best = reranker.rank(found.iter().map(|found| found.code.as_slice()), k)?;
        let y = Embedding::new(sent, self.blur.dims).map_err(|_| SearchError::NoVectors)?.to_base64_f16();
        let up_bytes = serde_json::json!({
            "y": y, "level": self.name, "model": self.model, "projection": self.projection.sha256()
        });
        // Codes travel as base64.
        let codes = self.projection.code_len().div_ceil(3) * 4 * found.len();
        let hits: Vec<Hit> = found.iter().map(|found| found.hit.clone()).collect();
        Ok(Some(Found {
            hits: best.iter().map(|(at, _)| hits[*at].id.clone()).collect(),
            up_bytes: up_bytes.to_string().len(),
            down_bytes: bytes_of(&hits) + codes,
            candidates: ids(&hits),
        }))
    }
}

/// Vectors that have nothing to do with the question: what attackers make of nothing.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    /// Numbers in a view.
    pub dims: usize,
}

impl Mode for Random {
    fn name(&self) -> String {
        "random".to_owned()
    }

    fn sees(&self) -> String {
        format!("{} random numbers", self.dims)
    }

    fn views(&self, questions: &[EncodedQuestion], noise: Noise) -> Result<Views, PrivacyError> {
        let seed = match noise {
            Noise::None => 1,
            Noise::Device => 2,
            Noise::Drawn(seed) => 3 + seed,
        };
        let mut random = SplitMix::keyed(&[seed, self.dims as u64]);
        let scale = 1.0 / (self.dims as f64).sqrt();
        let mut view = || (0..self.dims).map(|_| (random.normal() * scale) as f32).collect();
        Ok(Views::of(questions.iter().map(|_| view()).collect()))
    }

    fn search(&self, _: &EncodedQuestion, _: usize) -> Result<Option<Found>, PrivacyError> {
        Ok(None)
    }
}
