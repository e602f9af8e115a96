//! Filling a collection, from where an earlier load stopped.

use std::time::Duration;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use super::batch::{self, Row};
use super::client::Client;
use super::collection::{self, Described};
use super::{MilvusAddress, MilvusError};
use dpr_files::progress::Progress;
use dpr_index::search::{self, LoadReport, ServiceError};
use dpr_index::vectors::VectorSet;

/// Options of filling a collection.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Options common to all services.
    pub common: search::LoadOptions,
    /// Channels of a new collection, each of which takes writes by itself.
    pub channels: u16,
    /// Credentials: `user:password` or an API key.
    pub token: Option<String>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { common: search::LoadOptions::default(), channels: 1, token: None }
    }
}

/// Writes `vectors` and their passages into a collection, which is made when it is missing, and waits until their
/// graphs are built and searched, so that every one of them is found.
///
/// A passage that is there already, with the same text and the same vector, is not written again: a load that was
/// killed, or whose cluster was, goes on when it is run again. Loads of different shards may run at once.
///
/// # Errors
/// [`MilvusError`]: no cluster, a collection of another model or of another program, rows that cannot be stored, or a
/// cluster that took nothing for longer than `patience`, which counts from the first connection on.
pub fn load(
    address: &MilvusAddress,
    vectors: &VectorSet,
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<LoadReport, MilvusError> {
    let rows: Vec<Row<'_>> = vectors.passages.iter().zip(vectors.rows.chunks(vectors.dim.max(1))).collect();
    batch::check(&rows, vectors.dim)?;
    let client = Client::connect_to_load(address, options.token.as_deref())?;
    client.wait(fill(&client, &vectors.model_fingerprint, vectors.dim, &rows, options, progress))
}

async fn fill(
    client: &Client,
    model: &str,
    dim: usize,
    rows: &[Row<'_>],
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<LoadReport, MilvusError> {
    let (address, patience) = (&client.address, options.common.patience);
    let described = match collection::describe(client, patience).await {
        Err(MilvusError::Service(ServiceError::Missing { .. })) => {
            let new = Described::new(model, dim, options.common.hnsw);
            let made = collection::create(client, &new, options.channels, patience).await;
            // Another machine may have been quicker: then it is there now.
            match (made, collection::describe(client, patience).await) {
                (_, Ok(described)) => described,
                (Err(error), _) | (Ok(()), Err(error)) => return Err(error),
            }
        }
        described => described?,
    };
    described.check(address, model, dim)?;
    described.check_metadata(address, batch::have_metadata(rows))?;
    // A load that made the collection may have been stopped before this.
    collection::declare_graph(client, &described, patience).await?;
    collection::ready(client, patience).await?;
    let resumed = collection::count(client, true, patience).await? > 0;

    progress.start("writing", "passages", rows.len() as u64);
    let write = async |batch: &[Row<'_>]| {
        options.common.check_stop()?;
        let missing = if resumed { missing(client, batch, patience).await? } else { batch.to_vec() };
        if !missing.is_empty() {
            batch::upsert(client, &described, &missing, patience).await?;
        }
        progress.advance(batch.len() as u64);
        Ok::<_, MilvusError>(missing.len())
    };
    let written = stream::iter(batch::batches(rows))
        .map(write)
        .buffer_unordered(options.common.in_flight.max(1))
        .try_fold(0, async |sum, batch| Ok(sum + batch))
        .await?;
    progress.finish();

    collection::flush(client, patience).await?;
    progress.start("building graphs", "passages", rows.len() as u64);
    let mut before = 0;
    collection::indexed(client, patience, |done, _| {
        progress.advance(done.saturating_sub(before).min(rows.len() as u64));
        before = before.max(done);
        Ok(options.common.check_stop()?)
    })
    .await?;
    collection::searched_by_graphs(client, rows.len(), patience, || Ok(options.common.check_stop()?)).await?;
    progress.finish();
    let count = collection::count(client, true, patience).await?;
    ServiceError::check_count(address, rows.len(), count)?;
    Ok(LoadReport { written, unchanged: rows.len() - written, count })
}

/// Returns the rows of a batch whose digests differ from those in the collection.
async fn missing<'a>(
    client: &Client,
    batch: &[Row<'a>],
    patience: Duration,
) -> Result<Vec<Row<'a>>, MilvusError> {
    let ids: Vec<String> = batch.iter().map(|(passage, _)| passage.id.clone()).collect();
    let there = batch::digests(client, &ids, false, patience).await?;
    let is_missing = |row: &&Row<'_>| there.get(&row.0.id) != Some(&batch::digest(**row));
    Ok(batch.iter().filter(is_missing).copied().collect())
}
