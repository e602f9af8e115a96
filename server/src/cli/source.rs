//! What rankings are made from: an index, and the question encoder where vectors are compared.

use std::path::PathBuf;
use std::time::Instant;

use clap::ValueEnum;
use dpr_core::{DeviceChoice, Embedding, TextEncoder};
use rayon::prelude::*;

use super::CliError;
use crate::data::{Passage, Question};
use crate::encode::{PipelineOptions, encode_questions};
use crate::index::{IndexError, LoadedIndex, LoadedSparse};
use crate::model::ModelDir;
use crate::progress;
use crate::ranking::ScoredRow;
use crate::search::{Fusion, HYBRID_DEPTH, Searcher, fuse};
use crate::sparse::{Scoring, SparseIndex};

/// A way to rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Method {
    /// By shared words (BM25)
    Bm25,
    /// By cosine of TF-IDF vectors
    Tfidf,
    /// By inner product of vectors
    Dense,
    /// BM25 and dense together
    Hybrid,
}

impl Method {
    fn needs_vectors(self) -> bool {
        matches!(self, Self::Dense | Self::Hybrid)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bm25 => "bm25",
            Self::Tfidf => "tfidf",
            Self::Dense => "dense",
            Self::Hybrid => "hybrid",
        }
    }
}

/// How hybrid ranking combines.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct FusionArgs {
    /// Hybrid: weight of the inner product beside BM25; `dpr eval tune-hybrid` finds the best
    #[arg(long, value_name = "LAMBDA", default_value_t = 1.1, allow_negative_numbers = true)]
    lambda: f32,
    /// Hybrid: add reciprocal ranks instead of scores
    #[arg(long, conflicts_with = "lambda")]
    reciprocal_rank: bool,
}

impl FusionArgs {
    pub(super) fn fusion(self) -> Result<Fusion, CliError> {
        match self {
            Self { reciprocal_rank: true, .. } => Ok(Fusion::RECIPROCAL),
            Self { lambda, .. } if lambda.is_finite() => Ok(Fusion::Linear { lambda }),
            Self { lambda, .. } => {
                Err(format!("--lambda {lambda} is no weight: give a finite number").into())
            }
        }
    }
}

/// Options of everything that ranks passages.
#[derive(Debug, clap::Args)]
pub(super) struct SourceArgs {
    /// Model directory, as `dpr import` wrote it; for dense and hybrid
    #[arg(long, env = "DPR_MODEL", value_name = "DIR")]
    pub(super) model: Option<PathBuf>,
    /// Index directory, as `dpr index` wrote it
    #[arg(long, env = "DPR_INDEX", value_name = "DIR")]
    pub(super) index: PathBuf,
    /// BM25: how soon repeating a word stops to count
    #[arg(long, value_name = "K1", default_value_t = 0.9)]
    k1: f32,
    /// BM25: how much longer passages are held back, 0 to 1
    #[arg(long, value_name = "B", default_value_t = 0.4)]
    b: f32,
    /// Worker threads for encoding [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Where to encode: auto (a real GPU, else the CPU), wgpu, cpu, or flex (Burn's CPU backend)
    #[arg(long, env = "DPR_DEVICE", value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,
}

/// An open index.
pub(super) struct Source {
    args: SourceArgs,
    vectors: Option<(Searcher, TextEncoder)>,
    words: Option<LoadedSparse>,
}

/// Questions ranked at a time by two rankings of thousands of rows: all at once would fill the memory.
pub(super) const BLOCK: usize = 512;

impl Source {
    /// Opens what `methods` need: the vectors and the model only where one compares vectors.
    pub(super) fn open(args: SourceArgs, methods: &[Method]) -> Result<Self, CliError> {
        if methods.iter().any(|method| method.needs_vectors()) {
            let model =
                args.model.as_ref().ok_or("dense and hybrid need --model, to encode the questions with")?;
            let searcher = Searcher::new(LoadedIndex::open(&args.index)?);
            let model = ModelDir::open(model)?;
            searcher.check_model(&model.manifest().fingerprint)?;
            let encoder = model.question_encoder(args.device)?;
            if methods.contains(&Method::Hybrid) && searcher.index().sparse().is_none() {
                return Err(IndexError::NoSparse { path: args.index.clone() }.into());
            }
            return Ok(Self { vectors: Some((searcher, encoder)), words: None, args });
        }
        let words = Some(LoadedSparse::open(&args.index)?);
        Ok(Self { vectors: None, words, args })
    }

    /// All passages, in the order of the rows.
    pub(super) fn passages(&self) -> &[Passage] {
        match (&self.vectors, &self.words) {
            (Some((searcher, _)), _) => searcher.index().passages(),
            (None, Some(words)) => &words.passages,
            (None, None) => &[],
        }
    }

    /// The index and the question encoder that belongs to it, where vectors are compared.
    pub(super) fn vectors(&self) -> Option<&(Searcher, TextEncoder)> {
        self.vectors.as_ref()
    }

    /// The inverted index.
    pub(super) fn sparse(&self) -> Result<&SparseIndex, CliError> {
        let beside = self.vectors.as_ref().and_then(|(searcher, _)| searcher.index().sparse());
        let found = beside.or(self.words.as_ref().map(|words| &words.index));
        found.ok_or_else(|| IndexError::NoSparse { path: self.args.index.clone() }.into())
    }

    /// The vectors of the questions, and the seconds that took; none when nothing needs them.
    pub(super) fn encode(&self, questions: &[Question]) -> Result<(Vec<Embedding>, f64), CliError> {
        let Some((_, encoder)) = &self.vectors else { return Ok((Vec::new(), 0.0)) };
        let texts = texts(questions);
        let threads = self.args.threads.map(usize::from);
        let options = PipelineOptions::for_device(encoder.device_name(), None, threads);
        let started = Instant::now();
        let vectors = encode_questions(encoder, &texts, options, progress::on_stderr().as_ref())?;
        Ok((vectors, started.elapsed().as_secs_f64()))
    }

    /// The best `depth` rows for each question.
    pub(super) fn rank(
        &self,
        method: Method,
        questions: &[Question],
        vectors: &[Embedding],
        depth: usize,
        fusion: Fusion,
    ) -> Result<Vec<Vec<ScoredRow>>, CliError> {
        match method {
            Method::Bm25 => self.by_words(questions, depth, self.bm25()),
            Method::Tfidf => self.by_words(questions, depth, Scoring::TfIdf),
            Method::Dense => self.by_vectors(vectors, depth),
            Method::Hybrid => {
                let mut rows = Vec::with_capacity(questions.len());
                for (questions, vectors) in questions.chunks(BLOCK).zip(vectors.chunks(BLOCK)) {
                    let (sparse, dense) = self.both(questions, vectors)?;
                    let pairs = sparse.par_iter().zip(&dense);
                    rows.par_extend(pairs.map(|(sparse, dense)| fuse(sparse, dense, fusion, depth)));
                }
                Ok(rows)
            }
        }
    }

    /// The two rankings that hybrid ranking combines.
    pub(super) fn both(
        &self,
        questions: &[Question],
        vectors: &[Embedding],
    ) -> Result<(Vec<Vec<ScoredRow>>, Vec<Vec<ScoredRow>>), CliError> {
        let sparse = self.by_words(questions, HYBRID_DEPTH, self.bm25())?;
        Ok((sparse, self.by_vectors(vectors, HYBRID_DEPTH)?))
    }

    /// BM25 with the constants asked for.
    pub(super) fn bm25(&self) -> Scoring {
        Scoring::Bm25 { k1: self.args.k1, b: self.args.b }
    }

    fn by_words(
        &self,
        questions: &[Question],
        depth: usize,
        scoring: Scoring,
    ) -> Result<Vec<Vec<ScoredRow>>, CliError> {
        Ok(self.sparse()?.search_batch(&texts(questions), depth, scoring)?)
    }

    fn by_vectors(&self, vectors: &[Embedding], depth: usize) -> Result<Vec<Vec<ScoredRow>>, CliError> {
        let Some((searcher, _)) = &self.vectors else { return Ok(Vec::new()) };
        Ok(searcher.index().index.search_batch(vectors, depth)?)
    }
}

fn texts(questions: &[Question]) -> Vec<&str> {
    questions.iter().map(|question| question.text.as_str()).collect()
}
