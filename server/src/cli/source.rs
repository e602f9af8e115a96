//! Sources of rankings: an index, and the question encoder where vectors are compared.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

#[cfg(feature = "burn")]
use dpr_core::device::Device;
use dpr_core::{DeviceChoice, Embedding, TextEncoder};
use dpr_data::{Passage, Question};
use dpr_encode::model::ModelDir;
use dpr_encode::{PipelineOptions, encode_questions};
use dpr_index::search::{Backend, Description, Filter, Fusion, Method, Ranker, SearchError, Searcher};
#[cfg(feature = "train")]
use dpr_index::{FileError, sparse::SparseIndex};
use dpr_index::{IndexReader, LoadedIndex, LoadedSparse, OpenError, ScoredRow};

use super::by_id::ById;
use super::model_of_index::model_of_index;
use super::opened::{self, Opened};
use super::ranked::{Directory, Ranked, Request};
use super::source_args::SourceArgs;
use super::{CliError, progress};

/// Bytes of vectors that a GPU which nobody asked for by name is given: more may not fit its memory, which no driver
/// tells.
const UNASKED_GPU_BYTES: usize = 2 << 30;

/// An open index.
pub(super) struct Source {
    args: SourceArgs,
    ranked: Box<dyn Ranked>,
    /// Encodes questions, where a method compares vectors.
    encoder: Option<TextEncoder>,
}

impl Source {
    /// Opens what `methods` need, with all passages: the vectors and the model only where one compares vectors. An
    /// index with updates is refused: what is measured is what was built.
    pub(super) fn open(args: SourceArgs, methods: &[Method]) -> Result<Self, CliError> {
        let args = ready(args, methods)?;
        let choice = args.device;
        let Some(dir) = args.index.directory() else {
            let backend = args.index.open()?;
            return Self::of_backend(args, methods, backend);
        };
        if !compares_vectors(methods) {
            let words = Directory::with_passages(Box::new(LoadedSparse::open(dir)?))?;
            return Ok(Self::of_words(args, words));
        }
        let mut index = LoadedIndex::open(dir)?;
        let bytes = size_of_val(index.matrix()?.as_slice());
        if choice == DeviceChoice::Wgpu || bytes <= UNASKED_GPU_BYTES {
            search_on_gpu(&mut index, choice)?;
        }
        let searcher = Box::new(Searcher::new(index));
        Self::of_vectors(args, methods, searcher, Directory::with_passages)
    }

    /// As [`Source::open`], with the updates of the index, and without reading its passages.
    pub(super) fn open_live(args: SourceArgs, methods: &[Method]) -> Result<Self, CliError> {
        let args = ready(args, methods)?;
        if let Some(dir) = args.index.directory().filter(|_| !compares_vectors(methods)) {
            let words = Directory::new(words_of(dir)?);
            return Ok(Self::of_words(args, words));
        }
        let backend = args.index.open()?;
        Self::of_backend(args, methods, backend)
    }

    /// As [`Source::open_live`], of an index that is open already, by methods that compare vectors.
    pub(super) fn of_backend(
        args: SourceArgs,
        methods: &[Method],
        backend: Arc<dyn Backend>,
    ) -> Result<Self, CliError> {
        let args = ready(args, methods)?;
        if let Some(snapshot) = backend.snapshot() {
            let searcher = Box::new(Searcher::of(snapshot));
            return Self::of_vectors(args, methods, searcher, |opened| Ok(Directory::new(opened)));
        }
        if let Some(method) = methods.iter().find(|method| method.needs_words()) {
            return Err(format!(
                "{} holds no words, which {} ranks by: use --method(s) dense, or an index directory",
                args.index,
                method.name()
            )
            .into());
        }
        let Description { model, dim, .. } = backend.describe();
        let encoder = encoder_of(&args, (&model, dim))?;
        Ok(Self::of(args, Box::new(ById::new(backend)), Some(encoder)))
    }

    /// Takes an index directory whose vectors are compared.
    fn of_vectors(
        args: SourceArgs,
        methods: &[Method],
        searcher: Box<Searcher>,
        directory: impl FnOnce(Box<dyn Opened>) -> Result<Directory, CliError>,
    ) -> Result<Self, CliError> {
        let encoder = encoder_of(&args, (searcher.model_fingerprint(), searcher.dim()))?;
        if methods.iter().any(|method| method.needs_words()) && !searcher.index().has_sparse() {
            searcher.index().manifest.check_words()?;
            let path = args.index.directory().unwrap_or(Path::new("")).to_path_buf();
            return Err(OpenError::NoSparse { path }.into());
        }
        Ok(Self::of(args, Box::new(directory(searcher)?), Some(encoder)))
    }

    fn of_words(args: SourceArgs, words: Directory) -> Self {
        Self::of(args, Box::new(words), None)
    }

    fn of(args: SourceArgs, ranked: Box<dyn Ranked>, encoder: Option<TextEncoder>) -> Self {
        Self { args, ranked, encoder }
    }

    /// Returns all passages by row, where they were read; of a backend elsewhere those that were found so far.
    pub(super) fn passages(&self) -> &[Passage] {
        self.ranked.passages()
    }

    /// Returns the passage of a row that was ranked.
    pub(super) fn passage(&self, row: usize) -> Result<Passage, CliError> {
        self.ranked.passage(row)
    }

    /// Returns a fingerprint of the index's contents, where they have one.
    #[cfg(feature = "train")]
    pub(super) fn version(&self) -> &str {
        self.ranked.directory().map_or("", Opened::version)
    }

    /// Returns the number of passages in the index.
    pub(super) fn count(&self) -> usize {
        self.ranked.count()
    }

    /// Takes in those of the passages with these ids that a backend elsewhere holds: rankings are judged by them.
    pub(super) fn take_in<'a>(&mut self, ids: impl IntoIterator<Item = &'a str>) -> Result<(), SearchError> {
        self.ranked.take_in(&mut ids.into_iter())
    }

    /// Returns the fingerprint of the model, where vectors are compared.
    pub(super) fn model(&self) -> Option<String> {
        self.ranked.model()
    }

    /// Returns the device that encodes questions, where vectors are compared.
    pub(super) fn device(&self) -> Option<&str> {
        self.encoder.as_ref().map(TextEncoder::device_name)
    }

    /// Returns how vectors are searched, where they are.
    pub(super) fn kind(&self) -> Option<String> {
        self.ranked.kind()
    }

    /// Returns the index whose vectors are compared, where this process holds them.
    pub(super) fn searcher(&self) -> Option<&Searcher> {
        self.ranked.directory()?.searcher()
    }

    /// Returns the vectors of the questions, and the seconds that encoding took; no vectors when nothing needs them.
    pub(super) fn encode(&self, questions: &[Question]) -> Result<(Vec<Embedding>, f64), CliError> {
        let Some(encoder) = &self.encoder else { return Ok((Vec::new(), 0.0)) };
        let texts = texts(questions);
        let threads = self.args.workers.count();
        let options = PipelineOptions::for_device(encoder.device_name(), None, threads);
        let started = Instant::now();
        let vectors = encode_questions(encoder, &texts, options, progress::on_stderr().as_ref())?;
        Ok((vectors, started.elapsed().as_secs_f64()))
    }

    /// Returns the token ids of a question, where vectors are compared.
    pub(super) fn question_tokens(&self, text: &str) -> Result<Vec<u32>, CliError> {
        let encoder = self.encoder.as_ref().ok_or(SearchError::NoVectors)?;
        Ok(encoder.question_tokens(text)?)
    }

    /// Returns the best `depth` rows for each question.
    pub(super) fn rank(
        &mut self,
        method: Method,
        questions: &[Question],
        vectors: &[Embedding],
        depth: usize,
        fusion: Fusion,
    ) -> Result<Vec<Vec<ScoredRow>>, CliError> {
        self.rank_among(method, questions, vectors, depth, fusion, &Filter::default())
    }

    /// Returns the best `depth` rows for each question among those that `filter` allows.
    pub(super) fn rank_among(
        &mut self,
        method: Method,
        questions: &[Question],
        vectors: &[Embedding],
        depth: usize,
        fusion: Fusion,
        filter: &Filter,
    ) -> Result<Vec<Vec<ScoredRow>>, CliError> {
        let request = Request { method, texts: &texts(questions), vectors, depth, fusion, filter };
        self.ranked.rank(&request, (self.args.ranking.bm25(), self.args.ranking.hybrid_depth))
    }

    /// Returns a ranker of all that this process holds.
    pub(super) fn ranker(&self) -> Ranker<'_> {
        let directory = self.ranked.directory();
        Ranker {
            words: directory.and_then(Opened::word_index),
            vectors: directory.and_then(opened::vectors),
            allowed: None,
            bm25: self.args.ranking.bm25(),
            depth: self.args.ranking.hybrid_depth,
        }
    }

    /// Returns the inverted index of the passages as they were built in.
    #[cfg(feature = "train")]
    pub(super) fn words(&self) -> Result<Option<&SparseIndex>, FileError> {
        self.ranked.directory().map_or(Ok(None), Opened::built_words)
    }
}

/// Sets the number of threads, and refuses options without a model where one is needed.
fn ready(args: SourceArgs, methods: &[Method]) -> Result<SourceArgs, CliError> {
    args.use_threads();
    if compares_vectors(methods) {
        args.model()?;
    }
    Ok(args)
}

fn compares_vectors(methods: &[Method]) -> bool {
    methods.iter().any(|method| method.needs_vectors())
}

/// Opens the words of an index directory, with its updates where it has some.
fn words_of(dir: &Path) -> Result<Box<dyn Opened>, CliError> {
    match LoadedSparse::open(dir) {
        Ok(words) => Ok(Box::new(words)),
        Err(OpenError::HasUpdates { .. }) => match IndexReader::open(dir)?.snapshot() {
            snapshot if snapshot.base().has_sparse() => Ok(Box::new(snapshot)),
            _ => Err(OpenError::NoSparse { path: dir.to_path_buf() }.into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// Opens the question encoder of an index's vectors: of the model `built_by`, and of `dim` numbers.
fn encoder_of(args: &SourceArgs, built_by: (&str, usize)) -> Result<TextEncoder, CliError> {
    let path = args.model()?;
    let model = model_of_index(&args.index, built_by, path, ModelDir::open(path)?)?;
    Ok(model.in_precision(args.numbers.precision).question_encoder(args.device)?)
}

/// Puts an exact index on the GPU, where this binary is built for one and the machine has it.
fn search_on_gpu(index: &mut LoadedIndex, choice: DeviceChoice) -> Result<(), CliError> {
    #[cfg(feature = "burn")]
    index.search_on(&Device::open(choice)?);
    #[cfg(not(feature = "burn"))]
    let _ = (index, choice);
    Ok(())
}

/// The questions' texts.
pub(super) fn texts(questions: &[Question]) -> Vec<&str> {
    questions.iter().map(|question| question.text.as_str()).collect()
}
