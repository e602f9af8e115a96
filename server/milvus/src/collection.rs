//! The collection: its schema, its index, and its description.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use milvus::v2::prelude::{ConsistencyLevel, IndexParam, IndexType, MetricType, QueryRequest};
use milvus::v2::request::collection::{
    CreateCollectionRequest, DescribeCollectionRequest, GetLoadStateRequest, HasCollectionRequest,
    LoadCollectionRequest,
};
use milvus::v2::request::index::{CreateIndexRequest, DescribeIndexRequest};
use milvus::v2::request::utility::{FlushRequest, ListQuerySegmentsRequest};
use milvus::v2::{CollectionSchema, DataType, FieldData, FieldSchema, LoadState, QuerySegmentInfo};
use serde::{Deserialize, Serialize};

use super::client::{Client, missing};
use super::{MilvusAddress, MilvusError};
use dpr_index::HnswParams;
use dpr_index::search::ServiceError;

pub(super) const ID: &str = "id";
pub(super) const DIGEST: &str = "digest";
pub(super) const TITLE: &str = "title";
pub(super) const TEXT: &str = "text";
pub(super) const VECTOR: &str = "vector";
/// JSON; since format 2.
pub(super) const METADATA: &str = "metadata";
const COUNT: &str = "count(*)";

/// Most bytes of an id.
pub(super) const MAX_ID: usize = 512;
/// Most bytes of a title or a text: those of a `VarChar` of Milvus.
pub(super) const MAX_TEXT: usize = 65_535;
/// Most bytes of a passage's metadata as JSON (Milvus's `common.JSONMaxLength`).
pub(super) const MAX_METADATA: usize = 65_536;

/// The format of the collections that this program makes, and the newest it reads. 2: passages have metadata.
const FORMAT: u32 = 2;

/// The first format with a field for metadata.
const METADATA_SINCE: u32 = 2;

/// Time between two polls of Milvus's background work.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Rows from which on a segment gets a graph (Milvus's `indexCoord.segment.minSegmentNumRowsToEnableIndex`).
const GRAPH_ROWS: i64 = 1024;

/// Time for which a load waits for query nodes that load no further graph.
const GRAPHS_LOADED: Duration = Duration::from_secs(60);

/// The description of a collection, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Described {
    /// 2, or 1 for a collection whose passages have no metadata.
    #[serde(rename = "dpr_format")]
    format: u32,
    /// Fingerprint of the model of the vectors.
    pub model_fingerprint: String,
    /// Numbers in a vector.
    pub dim: usize,
    /// The graphs' parameters.
    pub hnsw: HnswParams,
    /// The program that made the collection.
    pub created_by: String,
}

impl Described {
    /// Makes the description of a new collection.
    pub(super) fn new(model_fingerprint: &str, dim: usize, hnsw: HnswParams) -> Self {
        let created_by = concat!("dpr ", env!("CARGO_PKG_VERSION")).to_owned();
        Self { format: FORMAT, model_fingerprint: model_fingerprint.to_owned(), dim, hnsw, created_by }
    }

    /// Returns `true` if passages of the collection have metadata; one of an older format has no field for it.
    pub fn has_metadata(&self) -> bool {
        self.format >= METADATA_SINCE
    }

    /// Refuses a passage or a filter with metadata where the collection has no field for it.
    pub(super) fn check_metadata(&self, address: &MilvusAddress, is_used: bool) -> Result<(), MilvusError> {
        if self.has_metadata() || !is_used {
            return Ok(());
        }
        Err(MilvusError::NoMetadata { address: address.to_string() })
    }

    /// Returns the fields that hold a passage, besides its id.
    pub(super) fn passage_fields(&self) -> Vec<&'static str> {
        let metadata = self.has_metadata().then_some(METADATA);
        [TITLE, TEXT].into_iter().chain(metadata).collect()
    }

    fn parse(address: &MilvusAddress, text: &str) -> Result<Self, MilvusError> {
        #[derive(Deserialize)]
        struct Format {
            dpr_format: u32,
        }
        let foreign = |why: String| MilvusError::Foreign { address: address.to_string(), why };
        let Format { dpr_format: found } =
            serde_json::from_str(text).map_err(|_| foreign("its description is not of dpr".into()))?;
        ServiceError::check_format(address, found, FORMAT)?;
        serde_json::from_str(text).map_err(|error| foreign(format!("its description: {error}")))
    }

    /// Refuses vectors of another model or length.
    pub(super) fn check(&self, address: &MilvusAddress, model: &str, dim: usize) -> Result<(), ServiceError> {
        ServiceError::check_model(address, (&self.model_fingerprint, self.dim), (model, dim))
    }
}

/// Returns the description of the collection, if `dpr` made it.
pub(super) async fn describe(client: &Client, patience: Duration) -> Result<Described, MilvusError> {
    let address = &client.address;
    let name = address.collection();
    let has = client
        .call("looking for the collection", patience, |sdk| async move {
            sdk.has_collection(HasCollectionRequest::builder().collection_name(name).build()?).await
        })
        .await?;
    if !has.exists() {
        return Err(missing(address).into());
    }
    let answer = client
        .call("describing the collection", patience, |sdk| async move {
            sdk.describe_collection(DescribeCollectionRequest::builder().collection_name(name).build()?).await
        })
        .await?;
    let collection = answer.description();
    let described = Described::parse(address, collection.get_description())?;
    let missing = [ID, DIGEST, VECTOR]
        .into_iter()
        .chain(described.passage_fields())
        .find(|field| !collection.get_field_names().iter().any(|name| name == field));
    match missing {
        None => Ok(described),
        Some(field) => {
            let why = format!("it has no field `{field}`");
            Err(MilvusError::Foreign { address: address.to_string(), why })
        }
    }
}

/// Makes the collection with `shards` channels, to which as many machines can write at once.
pub(super) async fn create(
    client: &Client,
    described: &Described,
    shards: u16,
    patience: Duration,
) -> Result<(), MilvusError> {
    let text = serde_json::to_string(described).map_err(|error| client.nonsense(error.to_string()))?;
    let dim = u32::try_from(described.dim).map_err(|_| client.nonsense("so many dimensions"))?;
    let field = |name, kind| FieldSchema::new().name(name).data_type(kind);
    let schema = CollectionSchema::new()
        .enable_dynamic_field(false)
        .add_field(field(ID, DataType::VarChar).max_length(MAX_ID as u32).primary_key(true))
        .add_field(field(DIGEST, DataType::Int64))
        .add_field(field(TITLE, DataType::VarChar).max_length(MAX_TEXT as u32))
        .add_field(field(TEXT, DataType::VarChar).max_length(MAX_TEXT as u32))
        .add_field(field(VECTOR, DataType::FloatVector).dimension(dim))
        .add_field(field(METADATA, DataType::Json));
    let (name, text, schema) = (client.address.collection(), &text, &schema);
    client
        .call("making the collection", patience, |sdk| async move {
            let request = CreateCollectionRequest::builder()
                .collection_name(name)
                .description(text)
                .num_shards(shards.into())
                .schema(schema.clone())
                .consistency_level(ConsistencyLevel::Bounded)
                .build()?;
            sdk.create_collection(request).await
        })
        .await
}

/// Declares the HNSW index of the vectors; declaring it again does nothing.
pub(super) async fn declare_graph(
    client: &Client,
    described: &Described,
    patience: Duration,
) -> Result<(), MilvusError> {
    let HnswParams { m, ef_construction, .. } = described.hnsw;
    let graph = &IndexParam::new()
        .field_name(VECTOR)
        .index_name(VECTOR)
        .index_type(IndexType::Hnsw)
        .metric_type(MetricType::Ip)
        .extra_params(HashMap::from([
            ("M".to_owned(), m.to_string()),
            ("efConstruction".to_owned(), ef_construction.to_string()),
        ]));
    let name = client.address.collection();
    client
        .call("declaring the graphs", patience, |sdk| async move {
            let request =
                CreateIndexRequest::builder().collection_name(name).index_param(graph.clone()).sync(false);
            sdk.create_index(request.build()?).await
        })
        .await
        .map(drop)
}

/// Loads the collection into memory, unless it is, and waits until it can be searched.
pub(super) async fn ready(client: &Client, patience: Duration) -> Result<(), MilvusError> {
    let (name, started) = (client.address.collection(), Instant::now());
    client
        .call("loading the collection into memory", patience, |sdk| async move {
            sdk.load_collection(LoadCollectionRequest::builder().collection_name(name).sync(false).build()?)
                .await
        })
        .await?;
    loop {
        let what = "loading the collection into memory";
        let answer = client
            .call(what, patience, |sdk| async move {
                sdk.get_load_state(GetLoadStateRequest::builder().collection_name(name).build()?).await
            })
            .await?;
        if answer.state() == LoadState::Loaded {
            return Ok(());
        }
        wait(client, what, started, patience, || format!("it is {:?}", answer.state())).await?;
    }
}

/// Flushes what was written to segments on disk.
pub(super) async fn flush(client: &Client, patience: Duration) -> Result<(), MilvusError> {
    let name = client.address.collection();
    let flushed = client.call("flushing the collection", patience, |sdk| async move {
        sdk.flush(FlushRequest::builder().collection_names([name]).build()?).await
    });
    flushed.await.map(drop)
}

/// Waits until the graphs of all segments are built; `told` gets the number of rows in graphs, and of all rows.
pub(super) async fn indexed(
    client: &Client,
    patience: Duration,
    mut told: impl FnMut(u64, u64) -> Result<(), MilvusError>,
) -> Result<(), MilvusError> {
    let (name, what) = (client.address.collection(), "building the graphs");
    let (mut since, mut best) = (Instant::now(), 0);
    loop {
        let answer = client
            .call(what, patience, |sdk| async move {
                sdk.describe_index(
                    DescribeIndexRequest::builder().collection_name(name).index_name(VECTOR).build()?,
                )
                .await
            })
            .await?;
        let Some(graph) = answer.indexes().first() else {
            return Err(client.nonsense("the collection has no index of its vectors"));
        };
        let (done, all) = (graph.get_indexed_rows().max(0) as u64, graph.get_total_rows().max(0) as u64);
        told(done, all)?;
        if done >= all && graph.get_pending_rows() <= 0 {
            return Ok(());
        }
        if done > best {
            (since, best) = (Instant::now(), done);
        }
        wait(client, what, since, patience, || {
            format!("{done} of {all} rows {}", graph.get_failure_reason())
        })
        .await?;
    }
}

/// Waits until the query nodes have at least `rows` rows in memory and search every segment by its graph. Until a node
/// has loaded a graph that is built, it searches the segment by a coarse index, whose answers lack passages, with a
/// filter up to half of them.
///
/// It ends too where the cluster does not tell its segments, and where no further graph is loaded for
/// [`GRAPHS_LOADED`]: another program may be writing, or the cluster's least segment with a graph may be larger.
pub(super) async fn searched_by_graphs(
    client: &Client,
    rows: usize,
    patience: Duration,
    mut told: impl FnMut() -> Result<(), MilvusError>,
) -> Result<(), MilvusError> {
    let name = client.address.collection();
    let (mut since, mut least) = (Instant::now(), usize::MAX);
    while since.elapsed() < GRAPHS_LOADED {
        told()?;
        let answer = client.call("listing the loaded segments", patience, |sdk| async move {
            sdk.list_query_segments(ListQuerySegmentsRequest::builder().collection_name(name).build()?).await
        });
        let segments = match answer.await {
            Ok(answer) => answer.segments().to_vec(),
            Err(error) => {
                tracing::debug!("{}: {error}: searches may lack passages for a while", client.address);
                return Ok(());
            }
        };
        let is_without = |segment: &&QuerySegmentInfo| {
            segment.get_row_count() >= GRAPH_ROWS && segment.get_index_name().is_empty()
        };
        let loaded: i64 = segments.iter().map(QuerySegmentInfo::get_row_count).sum();
        // While a node puts a segment in the place of what was written, none may be listed.
        let lacks_rows = usize::try_from(loaded).is_ok_and(|loaded| loaded < rows);
        let missing = segments.iter().filter(is_without).count() + usize::from(lacks_rows);
        if missing == 0 {
            return Ok(());
        }
        if missing < least {
            (since, least) = (Instant::now(), missing);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    tracing::warn!(
        "{}: the nodes have not loaded all segments and their graphs yet: answers may lack passages until they have",
        client.address
    );
    Ok(())
}

async fn wait(
    client: &Client,
    what: &'static str,
    since: Instant,
    patience: Duration,
    reason: impl FnOnce() -> String,
) -> Result<(), MilvusError> {
    if since.elapsed() >= patience.max(client.least) {
        let (address, seconds) = (client.address.to_string(), since.elapsed().as_secs());
        return Err(ServiceError::Unavailable { address, what, seconds, reason: reason() }.into());
    }
    tokio::time::sleep(LOOK_EVERY).await;
    Ok(())
}

/// Counts the passages; with strong consistency where `exactly`.
pub(super) async fn count(client: &Client, exactly: bool, patience: Duration) -> Result<usize, MilvusError> {
    let name = client.address.collection();
    let level = if exactly { ConsistencyLevel::Strong } else { ConsistencyLevel::Bounded };
    let answer = client
        .call("counting the passages", patience, |sdk| async move {
            let request =
                QueryRequest::builder().collection_name(name).output_fields([COUNT]).consistency_level(level);
            sdk.query(request.build()?).await
        })
        .await?;
    match answer.results().get_output_field(COUNT) {
        Some(FieldData::Int64 { values, .. }) => values
            .first()
            .and_then(|count| usize::try_from(*count).ok())
            .ok_or_else(|| client.nonsense("no count")),
        _ => Err(client.nonsense("the count is not a number")),
    }
}
