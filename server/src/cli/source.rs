//! What rankings are made from: an index, and the question encoder where vectors are compared.

use std::path::Path;
use std::time::Instant;

#[cfg(feature = "burn")]
use dpr_core::device::Device;
use dpr_core::{DeviceChoice, Embedding, TextEncoder};
use dpr_data::{Passage, Question};
use dpr_encode::model::ModelDir;
use dpr_encode::{PipelineOptions, encode_questions};
#[cfg(any(feature = "milvus", feature = "postgres"))]
use dpr_index::search::Description;
use dpr_index::search::{Filter, Fusion, Method, Ranker, SearchError, Searcher};
#[cfg(feature = "train")]
use dpr_index::sparse::SparseIndex;
use dpr_index::{IndexReader, LoadedIndex, LoadedSparse, OpenError, RowSet, ScoredRow};

use super::by_id::ById;
use super::model_of_index::model_of_index;
use super::opened::{self, Opened};
use super::source_args::SourceArgs;
use super::{CliError, progress};
use crate::location::{Location, of_server};

/// Bytes of vectors that a GPU which nobody asked for by name is given: more may not fit its memory, which no driver
/// tells.
const UNASKED_GPU_BYTES: usize = 2 << 30;

/// An open index.
pub(super) struct Source {
    args: SourceArgs,
    home: Home,
    /// Encodes questions, where a method compares vectors.
    encoder: Option<TextEncoder>,
    /// All passages by row, where they were [read](Source::read_passages): built-in ones, then added ones.
    passages: Vec<Passage>,
}

/// The home of the passages that are ranked.
enum Home {
    /// In an index directory.
    Here(Box<dyn Opened>),
    /// In a database that knows passages by their ids.
    #[cfg_attr(not(any(feature = "milvus", feature = "postgres")), allow(dead_code))]
    Elsewhere(ById),
}

impl Source {
    /// Opens what `methods` need, with all passages: the vectors and the model only where one compares vectors. An
    /// index with updates is refused: what is measured is what was built.
    pub(super) fn open(args: SourceArgs, methods: &[Method]) -> Result<Self, CliError> {
        let choice = args.device;
        let as_built =
            |dir: &Path| -> Result<Box<dyn Opened>, CliError> { Ok(Box::new(LoadedSparse::open(dir)?)) };
        let mut source = Self::open_with(args, methods, as_built, |index| {
            let mut index = LoadedIndex::open(index)?;
            let bytes = size_of_val(index.matrix().as_slice());
            if choice == DeviceChoice::Wgpu || bytes <= UNASKED_GPU_BYTES {
                search_on_gpu(&mut index, choice)?;
            }
            Ok(Searcher::new(index))
        })?;
        if let Home::Here(opened) = &source.home {
            source.passages = opened.read_passages()?;
        }
        Ok(source)
    }

    /// As [`Source::open`], with the updates of the index, and without reading its passages.
    pub(super) fn open_live(args: SourceArgs, methods: &[Method]) -> Result<Self, CliError> {
        let open = |index: &Path| IndexReader::open(index).map(|reader| reader.snapshot());
        let words = |dir: &Path| -> Result<Box<dyn Opened>, CliError> {
            match LoadedSparse::open(dir) {
                Ok(words) => Ok(Box::new(words)),
                Err(OpenError::HasUpdates { .. }) => match open(dir)? {
                    snapshot if snapshot.base().sparse().is_some() => Ok(Box::new(snapshot)),
                    _ => Err(OpenError::NoSparse { path: dir.to_path_buf() }.into()),
                },
                Err(error) => Err(error.into()),
            }
        };
        Self::open_with(args, methods, words, |index| Ok(Searcher::of(open(index)?)))
    }

    fn open_with(
        args: SourceArgs,
        methods: &[Method],
        words: impl FnOnce(&Path) -> Result<Box<dyn Opened>, CliError>,
        vectors: impl FnOnce(&Path) -> Result<Searcher, CliError>,
    ) -> Result<Self, CliError> {
        args.use_threads();
        let dir = match &args.index {
            Location::Dir(dir) => dir.clone(),
            Location::Server(address) => return Err(of_server(address)),
            #[cfg(feature = "milvus")]
            Location::Milvus(_) => return Self::open_elsewhere(args, methods),
            #[cfg(feature = "postgres")]
            Location::Postgres(_) => return Self::open_elsewhere(args, methods),
        };
        if !methods.iter().any(|method| method.needs_vectors()) {
            return Ok(Self { home: Home::Here(words(&dir)?), encoder: None, passages: Vec::new(), args });
        }
        let path = args.model()?;
        let searcher = vectors(&dir)?;
        let built_by = (searcher.model_fingerprint(), searcher.dim());
        let model = model_of_index(&args.index, built_by, path, ModelDir::open(path)?)?;
        let encoder = model.in_precision(args.numbers.precision).question_encoder(args.device)?;
        if methods.iter().any(|method| method.needs_words()) && searcher.index().sparse().is_none() {
            return Err(OpenError::NoSparse { path: dir }.into());
        }
        let home = Home::Here(Box::new(searcher));
        Ok(Self { home, encoder: Some(encoder), passages: Vec::new(), args })
    }

    /// Opens a backend that keeps vectors and passages, and no words.
    #[cfg(any(feature = "milvus", feature = "postgres"))]
    fn open_elsewhere(args: SourceArgs, methods: &[Method]) -> Result<Self, CliError> {
        if let Some(method) = methods.iter().find(|method| method.needs_words()) {
            return Err(format!(
                "{} holds no words, which {} ranks by: use --method(s) dense, or an index directory",
                args.index,
                method.name()
            )
            .into());
        }
        let path = args.model()?;
        let model = ModelDir::open(path)?;
        let backend = args.index.open()?;
        let Description { model: built_by, dim, .. } = backend.describe();
        let model = model_of_index(&args.index, (&built_by, dim), path, model)?;
        let encoder = model.in_precision(args.numbers.precision).question_encoder(args.device)?;
        let home = Home::Elsewhere(ById::new(backend));
        Ok(Self { home, encoder: Some(encoder), passages: Vec::new(), args })
    }

    /// Returns the index directory, where there is one.
    fn here(&self) -> Option<&dyn Opened> {
        match &self.home {
            Home::Here(opened) => Some(opened.as_ref()),
            Home::Elsewhere(_) => None,
        }
    }

    /// Returns all passages by row, where they were read; of a backend elsewhere those that were found so far.
    pub(super) fn passages(&self) -> &[Passage] {
        match &self.home {
            Home::Here(_) => &self.passages,
            Home::Elsewhere(by_id) => by_id.passages(),
        }
    }

    /// Returns the passage of a row that was ranked.
    pub(super) fn passage(&self, row: usize) -> Result<Passage, CliError> {
        Ok(match &self.home {
            Home::Here(opened) => opened.passage(row)?,
            Home::Elsewhere(by_id) => by_id.passages()[row].clone(),
        })
    }

    /// Returns a fingerprint of the index's contents, where they have one.
    pub(super) fn version(&self) -> &str {
        self.here().map_or("", Opened::version)
    }

    /// Returns the number of passages in the index.
    pub(super) fn count(&self) -> usize {
        match &self.home {
            Home::Here(_) => self.passages.len(),
            Home::Elsewhere(by_id) => by_id.backend().describe().count,
        }
    }

    /// Takes in those of the passages with these ids that a backend elsewhere holds: rankings are judged by them.
    pub(super) fn take_in<'a>(&mut self, ids: impl IntoIterator<Item = &'a str>) -> Result<(), SearchError> {
        match &mut self.home {
            Home::Here(_) => Ok(()),
            Home::Elsewhere(by_id) => by_id.take_in(ids),
        }
    }

    /// Returns the fingerprint of the model, where vectors are compared.
    pub(super) fn model(&self) -> Option<String> {
        match &self.home {
            Home::Here(opened) => Some(opened.searcher()?.model_fingerprint().to_owned()),
            Home::Elsewhere(by_id) => Some(by_id.backend().describe().model),
        }
    }

    /// Returns the device that encodes questions, where vectors are compared.
    pub(super) fn device(&self) -> Option<&str> {
        self.encoder.as_ref().map(TextEncoder::device_name)
    }

    /// Returns how vectors are searched, where they are.
    pub(super) fn kind(&self) -> Option<String> {
        match &self.home {
            Home::Here(opened) => Some(opened.searcher()?.index().index.kind().to_string()),
            Home::Elsewhere(by_id) => Some(by_id.backend().describe().kind),
        }
    }

    /// Returns the index whose vectors are compared, where this process holds them.
    pub(super) fn searcher(&self) -> Option<&Searcher> {
        self.here()?.searcher()
    }

    /// Returns the vectors of the questions, and the seconds that encoding took; no vectors when nothing needs them.
    pub(super) fn encode(&self, questions: &[Question]) -> Result<(Vec<Embedding>, f64), CliError> {
        let Some(encoder) = &self.encoder else { return Ok((Vec::new(), 0.0)) };
        let texts = texts(questions);
        let threads = self.args.threads.map(usize::from);
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
        let allowed = match &mut self.home {
            Home::Elsewhere(by_id) => {
                // Opening refused all methods but this.
                let filter = Some(filter).filter(|filter| !filter.is_empty());
                return Ok(by_id.rank(vectors, depth, filter)?);
            }
            Home::Here(_) if filter.is_empty() => None,
            Home::Here(opened) => Some(opened.allowed(filter)?),
        };
        if allowed.as_ref().is_some_and(RowSet::is_empty) {
            return Err(SearchError::NothingAllowed.into());
        }
        let ranker = Ranker { allowed: allowed.as_ref(), ..self.ranker() };
        Ok(ranker.rank(method, &texts(questions), vectors, depth, fusion)?)
    }

    /// Returns a ranker of all that this process holds.
    pub(super) fn ranker(&self) -> Ranker<'_> {
        Ranker {
            words: self.here().and_then(Opened::word_index),
            vectors: self.here().and_then(opened::vectors),
            allowed: None,
            bm25: self.args.ranking.bm25(),
            depth: self.args.ranking.hybrid_depth,
        }
    }

    /// Returns the inverted index of the passages as they were built in.
    #[cfg(feature = "train")]
    pub(super) fn words(&self) -> Option<&SparseIndex> {
        self.here()?.built_words()
    }
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
