//! A collection that is searched and changed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dpr_core::Embedding;
use dpr_core::model::sha256_hex;
use milvus::v2::prelude::{ConsistencyLevel, DeleteRequest, Ids, MetricType, SearchRequest, SearchVectors};
use milvus::v2::{FieldData, SingleResult};

use super::batch::{self, Row};
use super::client::{Client, SEARCH};
use super::collection::{self, Described, ID, METADATA, TEXT, TITLE, VECTOR};
use super::{MAX_K, MilvusAddress, MilvusError, expression};
use dpr_data::Passage;
use dpr_files::{Background, lock};
use dpr_index::search::{Filter, ServiceError, ServiceHealth};
use dpr_index::{ChangeError, NewPassage, Put};

/// Timeout of changes, and of opening a collection, with their retries.
const CHANGE: Duration = Duration::from_secs(30);

/// The time after opening and after a change by this program for which searches use strong consistency: what was loaded
/// before is found at once. Others use Milvus's bounded staleness, which is quicker and may miss changes of the last five
/// seconds.
const SETTLED: Duration = Duration::from_secs(10);

/// Largest `ef` of Milvus.
const MAX_EF: usize = 32_768;

/// A passage found, and the inner product of its vector and the question's.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The passage.
    pub passage: Passage,
    /// The inner product, as computed by Milvus.
    pub score: f32,
}

/// A collection, open; shared by as many threads as there are.
///
/// Its methods wait for the cluster, so they must not be called on a thread that runs a tokio runtime's tasks.
#[derive(Debug)]
pub struct MilvusIndex {
    client: Arc<Client>,
    described: Described,
    ef: usize,
    version: String,
    /// Passages when they were last counted.
    count: AtomicUsize,
    /// Time of the last change by this program, or of opening: another one may have changed the collection just before.
    changed: Mutex<Instant>,
    /// `true` if the collection's description is another than when it was opened.
    is_replaced: AtomicBool,
    pub(crate) health: ServiceHealth,
}

impl MilvusIndex {
    /// Connects to a collection that [`load`](super::load) made, and loads it into memory unless it is.
    /// `token` is `user:password` or an API key.
    ///
    /// # Errors
    /// [`MilvusError`]: no cluster, no such collection, one of another program.
    pub fn open(address: &MilvusAddress, token: Option<&str>) -> Result<Self, MilvusError> {
        let client = Client::connect(address, token)?;
        let (described, count) = client.wait(async {
            let described = collection::describe(&client, CHANGE).await?;
            // Millions of vectors take minutes.
            collection::ready(&client, CHANGE * 20).await?;
            let count = collection::count(&client, true, CHANGE).await?;
            Ok::<_, MilvusError>((described, count))
        })?;
        let ef = address.ef().map_or(described.hnsw.ef_search, |ef| ef as usize);
        let version = sha256_hex(format!("{address} {}", serde_json::json!(described)).as_bytes());
        Ok(Self {
            client,
            described,
            ef,
            version,
            count: count.into(),
            changed: Mutex::new(Instant::now()),
            is_replaced: AtomicBool::default(),
            health: ServiceHealth::default(),
        })
    }

    /// The description of the collection.
    pub fn described(&self) -> &Described {
        &self.described
    }

    /// The address of the collection.
    pub fn address(&self) -> &MilvusAddress {
        &self.client.address
    }

    /// A text that differs for every collection that differs in address, model or parameters.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Number of passages when they were last counted; makes no call.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Refuses a model whose vectors the collection does not hold.
    ///
    /// # Errors
    /// [`ServiceError::WrongModel`], or [`ServiceError::Dimension`].
    pub fn check_model(&self, fingerprint: &str, dim: usize) -> Result<(), ServiceError> {
        self.described.check(self.address(), fingerprint, dim)
    }

    /// Records the thread that asks the service whether it is there ([`watch`](dpr_index::search::watch)).
    pub fn watched_by(&self, watching: &Background) {
        self.health.watched_by(watching.state());
    }

    /// Counts the passages, and looks whether the collection is still the one that was opened.
    ///
    /// # Errors
    /// [`MilvusError`] when the cluster does not answer; [`MilvusError::Changed`].
    pub fn refresh(&self) -> Result<usize, MilvusError> {
        let is_same = match self.client.wait(collection::describe(&self.client, SEARCH)) {
            Ok(described) => described == self.described,
            // Made anew by another program, or by a newer one.
            Err(MilvusError::Foreign { .. } | MilvusError::Service(ServiceError::NewerFormat { .. })) => {
                false
            }
            Err(error) => return Err(error),
        };
        self.is_replaced.store(!is_same, Ordering::Relaxed);
        self.check_replaced()?;
        let count = self.client.wait(collection::count(&self.client, self.has_just_changed(), SEARCH))?;
        self.count.store(count, Ordering::Relaxed);
        Ok(count)
    }

    /// Refuses a collection that was made anew with other vectors.
    fn check_replaced(&self) -> Result<(), MilvusError> {
        match self.is_replaced.load(Ordering::Relaxed) {
            true => Err(MilvusError::Changed { address: self.address().to_string() }),
            false => Ok(()),
        }
    }

    fn has_just_changed(&self) -> bool {
        lock(&self.changed).elapsed() < SETTLED
    }

    fn note_change(&self) {
        *lock(&self.changed) = Instant::now();
    }

    /// The `k` passages of greatest inner product with each vector (`[dim]`), best first, equal scores by id; all when
    /// there are fewer. Of those that `filter` allows.
    ///
    /// What other programs wrote is found within seconds; what this one wrote, at once.
    ///
    /// # Errors
    /// [`MilvusError`]: a vector of another length, `k` of 0 or more than [`MAX_K`] where there are as many passages,
    /// a collection that the last [`refresh`](Self::refresh) found made anew, or a cluster that does not answer.
    pub fn search(
        &self,
        vectors: &[Embedding],
        k: usize,
        filter: &Filter,
    ) -> Result<Vec<Vec<Found>>, MilvusError> {
        self.described.check_metadata(self.address(), filter.condition.is_some())?;
        if k == 0 || (k > MAX_K && self.count() > MAX_K) {
            return Err(MilvusError::K { k });
        }
        let k = k.min(MAX_K);
        for vector in vectors {
            ServiceError::check_dim(self.address(), self.described.dim, vector.as_slice().len())?;
        }
        self.check_replaced()?;
        if vectors.is_empty() {
            return Ok(Vec::new());
        }
        let all: Vec<Vec<f32>> = vectors.iter().map(|vector| vector.as_slice().to_vec()).collect();
        let (all, filter, name) = (&all, &expression::of_filter(filter), self.address().collection());
        let (ef, fields) = (self.ef.max(k).min(MAX_EF), &self.described.passage_fields());
        let level =
            if self.has_just_changed() { ConsistencyLevel::Strong } else { ConsistencyLevel::Bounded };
        let answer = self.client.wait(self.client.call("searching", SEARCH, |sdk| async move {
            let mut request = SearchRequest::builder()
                .collection_name(name)
                .vector_field(VECTOR)
                .vectors(SearchVectors::Float(all.clone()))
                .metric_type(MetricType::Ip)
                .extra_params(HashMap::from([("ef".to_owned(), ef.to_string())]))
                .output_fields(fields.iter().copied())
                .consistency_level(level)
                .limit(k as i64);
            if !filter.is_empty() {
                request = request.filter(filter);
            }
            sdk.search(request.build()?).await
        }))?;
        let results = answer.results();
        let found: Vec<_> = results.iter().map(|result| self.found(result)).collect::<Result<_, _>>()?;
        match found.len() == vectors.len() {
            true => Ok(found),
            false => {
                let what = format!("{} lists of passages for {} vectors", found.len(), vectors.len());
                Err(self.client.nonsense(what))
            }
        }
    }

    fn found(&self, result: &SingleResult) -> Result<Vec<Found>, MilvusError> {
        let scores = result.get_scores();
        if scores.is_empty() {
            return Ok(Vec::new());
        }
        let texts = |name| match result.get_output_field(name) {
            Some(FieldData::VarChar { values, .. }) if values.len() == scores.len() => Ok(values),
            _ => Err(self.client.nonsense(format!("the {name}s of passages are not a text each"))),
        };
        let ids = match result.get_ids() {
            Ids::VarChar(ids) if ids.len() == scores.len() => ids,
            _ => return Err(self.client.nonsense(format!("the {ID}s of passages are not a text each"))),
        };
        let metadata = result.get_output_field(METADATA);
        let passages = batch::joined(&self.client, ids, texts(TITLE)?, texts(TEXT)?, metadata)?;
        let found = passages.into_iter().zip(scores);
        let mut found: Vec<Found> = found.map(|(passage, score)| Found { passage, score: *score }).collect();
        found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.passage.id.cmp(&b.passage.id)));
        Ok(found)
    }

    /// The passages with these ids that are there, in no order.
    ///
    /// # Errors
    /// [`MilvusError`] when the cluster does not answer.
    pub fn passages(&self, ids: &[String]) -> Result<Vec<Passage>, MilvusError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.client.wait(batch::passages(&self.client, &self.described, ids, CHANGE))
    }

    /// The vectors of the passages with these ids that are there.
    ///
    /// # Errors
    /// [`MilvusError`] when the cluster does not answer.
    pub fn vectors(&self, ids: &[String]) -> Result<HashMap<String, Vec<f32>>, MilvusError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        self.client.wait(batch::vectors(&self.client, ids, SEARCH))
    }

    /// Adds passages, or puts them in the place of those that have their ids. When it returns, the cluster has them
    /// written, and every search of this program that begins finds them.
    ///
    /// # Errors
    /// [`MilvusError`]. Passages that cannot be stored are refused before any is written; when the cluster goes away in
    /// the middle some may be written, and writing all again does no harm.
    pub fn put(&self, passages: &[NewPassage]) -> Result<Put, MilvusError> {
        let rows: Vec<Row<'_>> = passages.iter().map(|new| (&new.passage, new.vector.as_slice())).collect();
        batch::check(&rows, self.described.dim)?;
        self.described.check_metadata(self.address(), batch::have_metadata(&rows))?;
        self.check_replaced()?;
        let client = &self.client;
        let replaced = client.wait(async {
            let mut replaced = 0;
            for rows in batch::batches(&rows) {
                let ids: Vec<String> = rows.iter().map(|(passage, _)| passage.id.clone()).collect();
                replaced += batch::digests(client, &ids, true, CHANGE).await?.len();
                batch::upsert(client, &self.described, rows, CHANGE).await?;
                self.note_change();
            }
            Ok::<_, MilvusError>(replaced)
        })?;
        let added = passages.len() - replaced;
        self.count.fetch_add(added, Ordering::Relaxed);
        Ok(Put { added, replaced })
    }

    /// Deletes passages by their ids and returns their number.
    ///
    /// # Errors
    /// [`MilvusError`]; [`ChangeError::UnknownIds`] when some are not there, and then none is deleted.
    pub fn delete(&self, ids: &[String]) -> Result<usize, MilvusError> {
        ChangeError::check_ids(ids.iter().map(String::as_str))?;
        let (client, name) = (&self.client, self.address().collection());
        let condition = &expression::one_of(ID, ids);
        client.wait(async {
            let there = batch::digests(client, ids, true, CHANGE).await?;
            ChangeError::check_known(ids, |id| there.contains_key(id))?;
            client
                .call("deleting passages", CHANGE, |sdk| async move {
                    let request = DeleteRequest::builder().collection_name(name).filter(condition);
                    sdk.delete(request.build()?).await
                })
                .await
        })?;
        self.note_change();
        let before = self.count.load(Ordering::Relaxed);
        self.count.store(before.saturating_sub(ids.len()), Ordering::Relaxed);
        Ok(ids.len())
    }
}
