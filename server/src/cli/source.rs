//! What rankings are made from: an index, and the question encoder where vectors are compared.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use dpr_core::device::Device;
use dpr_core::{DeviceChoice, Embedding, TextEncoder};

use super::CliError;
use super::gathered::Gathered;
use super::place::{IndexPlace, milvus_token};
use crate::data::{Passage, Question};
use crate::encode::{PipelineOptions, encode_questions};
use crate::index::milvus::{MilvusAddress, MilvusError, MilvusIndex};
use crate::index::{Follower, IndexError, LoadedIndex, LoadedSparse, Snapshot, VectorIndex};
use crate::model::ModelDir;
use crate::progress;
use crate::ranking::ScoredRow;
use crate::search::{Fusion, HYBRID_DEPTH, Method, Ranker, Searcher};
use crate::sparse::{Scoring, SparseIndex, WordIndex};

/// Bytes of vectors that a GPU which nobody asked for by name is given: more may not fit its memory, which no driver tells.
const UNASKED_GPU_BYTES: usize = 2 << 30;

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

/// How many rows of each list hybrid ranking combines.
fn depth(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}

impl FusionArgs {
    pub(super) fn fusion(self) -> Result<Fusion, CliError> {
        match self {
            Self { reciprocal_rank: true, .. } => Ok(Fusion::RECIPROCAL),
            Self { lambda, .. } if lambda.is_finite() && lambda >= 0.0 => Ok(Fusion::Linear { lambda }),
            Self { lambda, .. } => Err(format!("--lambda {lambda} is no weight: give 0 or more").into()),
        }
    }
}

/// Options of everything that ranks passages.
#[derive(Debug, clap::Args)]
pub(super) struct SourceArgs {
    /// Model directory, as `dpr import` wrote it; where vectors are compared
    #[arg(long, env = "DPR_MODEL", value_name = "DIR")]
    pub(super) model: Option<PathBuf>,
    /// Index directory, as `dpr index` wrote it, or milvus://HOST:PORT/COLLECTION
    #[arg(long, env = "DPR_INDEX", value_name = "DIR")]
    pub(super) index: IndexPlace,
    /// BM25: how soon repeating a word stops to count
    #[arg(long, value_name = "K1", default_value_t = 0.9)]
    k1: f32,
    /// BM25: how much longer passages are held back, 0 to 1
    #[arg(long, value_name = "B", default_value_t = 0.4)]
    b: f32,
    /// Hybrid: best passages by words, and by vectors, that are combined
    #[arg(long, value_name = "N", default_value_t = HYBRID_DEPTH, value_parser = depth)]
    hybrid_depth: usize,
    /// Worker threads [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Where to encode, and `dpr eval` to search an exact index: auto (a real GPU, else the CPU), wgpu, cpu, or flex
    /// (Burn's CPU backend)
    #[arg(long, env = "DPR_DEVICE", value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,
}

impl SourceArgs {
    fn use_threads(&self) {
        if let Some(threads) = self.threads {
            // A second call (tests run several subcommands in one process) keeps the first pool.
            let _ = rayon::ThreadPoolBuilder::new().num_threads(threads.into()).build_global();
        }
    }

    fn model(&self) -> Result<&Path, CliError> {
        let model = self.model.as_deref();
        model.ok_or_else(|| "dense and hybrid need --model, to encode the questions with; an index of words alone is ranked by bm25 or tfidf".into())
    }
}

/// An open index.
pub(super) struct Source {
    args: SourceArgs,
    vectors: Option<(Searcher, TextEncoder)>,
    /// A cluster in the place of the directory.
    cluster: Option<(Gathered, TextEncoder)>,
    words: Option<LoadedSparse>,
    /// An index with updates, where no vectors are compared.
    live: Option<Arc<Snapshot>>,
    /// Those of all rows: those of the index, and those added since.
    passages: Vec<Passage>,
}

impl Source {
    /// Opens what `methods` need: the vectors and the model only where one compares vectors. An index with updates is
    /// refused: what is measured is what was built.
    pub(super) fn open(args: SourceArgs, methods: &[Method]) -> Result<Self, CliError> {
        match args.index.clone() {
            IndexPlace::Milvus(address) => Self::open_cluster(args, methods, &address),
            IndexPlace::Dir(dir) => {
                let choice = args.device;
                Self::open_with(args, methods, &dir, |index| {
                    let mut index = LoadedIndex::open(index)?;
                    let bytes = size_of_val(index.matrix().as_slice());
                    if choice == DeviceChoice::Wgpu || bytes <= UNASKED_GPU_BYTES {
                        index.search_on(&Device::open(choice)?);
                    }
                    Ok(Searcher::new(index))
                })
            }
        }
    }

    /// As [`Source::open`], with the updates of the index.
    pub(super) fn open_live(args: SourceArgs, methods: &[Method]) -> Result<Self, CliError> {
        let dir = match args.index.clone() {
            IndexPlace::Milvus(address) => return Self::open_cluster(args, methods, &address),
            IndexPlace::Dir(dir) => dir,
        };
        let open = |index: &Path| -> Result<Arc<Snapshot>, IndexError> {
            Ok(Follower::open(index)?.live().snapshot())
        };
        if !methods.iter().any(|method| method.needs_vectors())
            && matches!(LoadedSparse::open(&dir), Err(IndexError::HasUpdates { .. }))
        {
            let snapshot = open(&dir)?;
            if snapshot.base().sparse().is_none() {
                return Err(IndexError::NoSparse { path: dir }.into());
            }
            return Ok(Self {
                passages: all(&snapshot)?,
                live: Some(snapshot),
                cluster: None,
                vectors: None,
                words: None,
                args,
            });
        }
        Self::open_with(args, methods, &dir, |index| Ok(Searcher::of(open(index)?)))
    }

    fn open_with(
        args: SourceArgs,
        methods: &[Method],
        dir: &Path,
        open: impl FnOnce(&Path) -> Result<Searcher, CliError>,
    ) -> Result<Self, CliError> {
        args.use_threads();
        if methods.iter().any(|method| method.needs_vectors()) {
            let model = args.model()?;
            let searcher = open(dir)?;
            let model = ModelDir::open(model)?;
            searcher.check_model(model.manifest().space())?;
            let encoder = model.question_encoder(args.device)?;
            if methods.iter().any(|method| method.needs_words()) && searcher.index().sparse().is_none() {
                return Err(IndexError::NoSparse { path: dir.to_path_buf() }.into());
            }
            let passages = all(searcher.snapshot())?;
            return Ok(Self {
                vectors: Some((searcher, encoder)),
                cluster: None,
                words: None,
                live: None,
                passages,
                args,
            });
        }
        let words = LoadedSparse::open(dir)?;
        let passages = words.passages.read_all()?;
        Ok(Self { vectors: None, cluster: None, passages, words: Some(words), live: None, args })
    }

    /// A cluster keeps vectors and passages, and no words.
    fn open_cluster(args: SourceArgs, methods: &[Method], address: &MilvusAddress) -> Result<Self, CliError> {
        if let Some(method) = methods.iter().find(|method| method.needs_words()) {
            return Err(format!(
                "{address} holds no words, which {} ranks by: use --method(s) dense, or an index directory",
                method.name()
            )
            .into());
        }
        args.use_threads();
        let model = ModelDir::open(args.model()?)?;
        let index = MilvusIndex::open(address, milvus_token()?.as_deref())?;
        index.check_model(model.manifest().space(), model.manifest().dim)?;
        let encoder = model.question_encoder(args.device)?;
        let cluster = Some((Gathered::new(index), encoder));
        Ok(Self { cluster, vectors: None, words: None, live: None, passages: Vec::new(), args })
    }

    /// All passages, in the order of the rows; of a cluster those that were found so far.
    pub(super) fn passages(&self) -> &[Passage] {
        self.cluster.as_ref().map_or(&self.passages, |(gathered, _)| gathered.passages())
    }

    /// Another value for every index that differs.
    pub(super) fn version(&self) -> &str {
        let beside = self.vectors.as_ref().map(|(searcher, _)| searcher.index().version());
        beside.or(self.words.as_ref().map(LoadedSparse::version)).unwrap_or_default()
    }

    /// Passages in the index.
    pub(super) fn count(&self) -> usize {
        self.cluster.as_ref().map_or_else(|| self.passages().len(), |(gathered, _)| gathered.index().count())
    }

    /// Takes in those of the passages with these ids that a cluster holds: rankings are judged by them.
    pub(super) fn bring<'a>(&mut self, ids: impl IntoIterator<Item = &'a str>) -> Result<(), MilvusError> {
        match &mut self.cluster {
            Some((gathered, _)) => gathered.bring(ids),
            None => Ok(()),
        }
    }

    /// Fingerprint of the model, where vectors are compared.
    pub(super) fn model(&self) -> Option<&str> {
        let beside = self.vectors.as_ref().map(|(searcher, _)| searcher.model_fingerprint());
        let of = self.cluster.as_ref().map(|(gathered, _)| gathered.index().described());
        beside.or(of.map(|described| described.model_fingerprint.as_str()))
    }

    /// Where questions are encoded, where they are.
    pub(super) fn device(&self) -> Option<&str> {
        self.encoder().map(TextEncoder::device_name)
    }

    /// How vectors are searched, where they are.
    pub(super) fn kind(&self) -> Option<String> {
        let beside = self.vectors.as_ref().map(|(searcher, _)| searcher.index().index.kind().to_string());
        beside.or(self.cluster.as_ref().map(|_| "milvus".to_owned()))
    }

    fn encoder(&self) -> Option<&TextEncoder> {
        let beside = self.vectors.as_ref().map(|(_, encoder)| encoder);
        beside.or(self.cluster.as_ref().map(|(_, encoder)| encoder))
    }

    /// The index and the question encoder that belongs to it, where vectors of a directory are compared.
    pub(super) fn vectors(&self) -> Option<&(Searcher, TextEncoder)> {
        self.vectors.as_ref()
    }

    /// The vectors of the questions, and the seconds that took; none when nothing needs them.
    pub(super) fn encode(&self, questions: &[Question]) -> Result<(Vec<Embedding>, f64), CliError> {
        let Some(encoder) = self.encoder() else { return Ok((Vec::new(), 0.0)) };
        let texts = texts(questions);
        let threads = self.args.threads.map(usize::from);
        let options = PipelineOptions::for_device(encoder.device_name(), None, threads);
        let started = Instant::now();
        let vectors = encode_questions(encoder, &texts, options, progress::on_stderr().as_ref())?;
        Ok((vectors, started.elapsed().as_secs_f64()))
    }

    /// The best `depth` rows for each question.
    pub(super) fn rank(
        &mut self,
        method: Method,
        questions: &[Question],
        vectors: &[Embedding],
        depth: usize,
        fusion: Fusion,
    ) -> Result<Vec<Vec<ScoredRow>>, CliError> {
        if let Some((gathered, _)) = &mut self.cluster {
            // Opening refused all methods but this.
            return Ok(gathered.rank(vectors, depth)?);
        }
        Ok(self.ranker().rank(method, &texts(questions), vectors, depth, fusion)?)
    }

    /// Ranks by all that is open.
    pub(super) fn ranker(&self) -> Ranker<'_> {
        let snapshot = self.vectors.as_ref().map(|(searcher, _)| searcher.snapshot());
        let beside = snapshot.filter(|snapshot| snapshot.base().sparse().is_some());
        let live = self.live.as_deref().map(|snapshot| snapshot as &dyn WordIndex);
        let alone = live.or(self.words.as_ref().map(|words| &words.index as &dyn WordIndex));
        Ranker {
            words: beside.map(|snapshot| snapshot as &dyn WordIndex).or(alone),
            vectors: snapshot.map(|snapshot| snapshot as &dyn VectorIndex),
            bm25: self.bm25(),
            depth: self.args.hybrid_depth,
        }
    }

    /// The inverted index of the passages as they were built in.
    pub(super) fn words(&self) -> Option<&SparseIndex> {
        let beside = self.vectors.as_ref().and_then(|(searcher, _)| searcher.index().sparse());
        beside.or(self.words.as_ref().map(|words| &words.index))
    }

    /// BM25 with the constants asked for.
    pub(super) fn bm25(&self) -> Scoring {
        Scoring::Bm25 { k1: self.args.k1, b: self.args.b }
    }
}

/// The passages of all rows.
fn all(snapshot: &Snapshot) -> Result<Vec<Passage>, IndexError> {
    let mut passages = snapshot.base().passages().read_all()?;
    let added = (passages.len()..snapshot.rows()).map(|row| snapshot.passage(row));
    passages.extend(added.collect::<Result<Vec<_>, _>>()?);
    Ok(passages)
}

/// The questions' texts.
pub(super) fn texts(questions: &[Question]) -> Vec<&str> {
    questions.iter().map(|question| question.text.as_str()).collect()
}
