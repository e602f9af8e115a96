//! Batches of passages: checked, with their digests, as columns.

use std::collections::HashMap;
use std::time::Duration;

use milvus::v2::prelude::{ConsistencyLevel, InsertRequest, QueryRequest, UpsertRequest};
use milvus::v2::{FieldData, QueryResults};
use sha2::{Digest, Sha256};

use super::MilvusError;
use super::client::Client;
use super::collection::{
    DIGEST, Described, ID, MAX_ID, MAX_METADATA, MAX_TEXT, METADATA, TEXT, TITLE, VECTOR,
};
use super::expression::one_of;
use super::metadata;
use dpr_data::{Metadata, Passage};
pub(super) use dpr_index::search::Row;
use dpr_index::{ChangeError, search};

/// Most bytes of vectors and texts in a batch; a call of gRPC may have 64 MB.
const MAX_BYTES: usize = 4 << 20;

/// Most rows in a batch.
const MAX_ROWS: usize = 1000;

/// The length that metadata can have as JSON, at most, in multiples of its own: a control character takes six bytes,
/// and an empty value with a name of one byte nine.
const LONGEST_FORM: usize = 16;

/// Refuses rows that cannot be stored or compared.
pub(super) fn check(rows: &[Row<'_>], dim: usize) -> Result<(), MilvusError> {
    for (position, (passage, vector)) in rows.iter().enumerate() {
        let Passage { id, title, text, .. } = passage;
        ChangeError::check_fields(position, passage)?;
        for (field, value, max) in [("id", id, MAX_ID), ("title", title, MAX_TEXT), ("text", text, MAX_TEXT)]
        {
            if value.len() > max {
                return Err(MilvusError::TooLong { id: id.clone(), field, bytes: value.len(), max });
            }
        }
        if passage.metadata.bytes() > MAX_METADATA / LONGEST_FORM {
            let (field, bytes) = ("metadata", metadata::stored(&passage.metadata).to_string().len());
            if bytes > MAX_METADATA {
                return Err(MilvusError::TooLong { id: id.clone(), field, bytes, max: MAX_METADATA });
            }
        }
        ChangeError::check_vector(id, vector, dim)?;
    }
    Ok(ChangeError::check_ids(rows.iter().map(|(passage, _)| passage.id.as_str()))?)
}

/// Returns `true` if a passage has metadata.
pub(super) fn have_metadata(rows: &[Row<'_>]) -> bool {
    rows.iter().any(|(passage, _)| !passage.metadata.is_empty())
}

/// Cuts rows into batches.
pub(super) fn batches<'a, 'b>(rows: &'b [Row<'a>]) -> Vec<&'b [Row<'a>]> {
    search::batches(rows, MAX_ROWS, MAX_BYTES)
}

/// Returns a digest of all fields of a row that are stored. Without metadata it is that of collections of the first
/// format.
pub(super) fn digest((Passage { id, title, text, metadata }, vector): Row<'_>) -> i64 {
    let mut hash = Sha256::new();
    for field in [id, title, text] {
        hash.update((field.len() as u64).to_le_bytes());
        hash.update(field.as_bytes());
    }
    vector.iter().for_each(|number| hash.update(number.to_le_bytes()));
    if !metadata.is_empty() {
        hash.update(metadata::stored(metadata).to_string().as_bytes());
    }
    let digest: [u8; 32] = hash.finalize().into();
    i64::from_le_bytes(std::array::from_fn(|at| digest[at]))
}

/// Writes a batch. A row replaces the one that has its id, so that writing is idempotent.
pub(super) async fn upsert(
    client: &Client,
    described: &Described,
    rows: &[Row<'_>],
    patience: Duration,
) -> Result<(), MilvusError> {
    let name = client.address.collection();
    let texts = |of: fn(&Passage) -> &String| rows.iter().map(|(passage, _)| of(passage).clone()).collect();
    let mut columns = vec![
        FieldData::varchar(ID, texts(|passage| &passage.id)),
        FieldData::int64(DIGEST, rows.iter().map(|row| digest(*row)).collect()),
        FieldData::varchar(TITLE, texts(|passage| &passage.title)),
        FieldData::varchar(TEXT, texts(|passage| &passage.text)),
        FieldData::float_vector(VECTOR, rows.iter().map(|(_, vector)| vector.to_vec()).collect()),
    ];
    if described.has_metadata() {
        let metadata = rows.iter().map(|(passage, _)| metadata::stored(&passage.metadata));
        columns.push(FieldData::json(METADATA, metadata.collect()));
    }
    let columns = &columns;
    let answer = client
        .call("writing passages", patience, |sdk| async move {
            let rows = InsertRequest::builder().collection_name(name).columns(columns.clone()).build()?;
            sdk.upsert(UpsertRequest::builder().insert(rows).build()?).await
        })
        .await?;
    match usize::try_from(answer.upsert_count()) {
        Ok(written) if written == rows.len() => Ok(()),
        _ => {
            Err(client.nonsense(format!("{} of {} passages are written", answer.upsert_count(), rows.len())))
        }
    }
}

/// Returns the digests of those of `ids` that are there; with strong consistency where `exactly`.
pub(super) async fn digests(
    client: &Client,
    ids: &[String],
    exactly: bool,
    patience: Duration,
) -> Result<HashMap<String, i64>, MilvusError> {
    let level = if exactly { ConsistencyLevel::Strong } else { ConsistencyLevel::Bounded };
    let found = look_up(client, ids, &[ID, DIGEST], level, patience).await?;
    match (found.get_output_field(ID), found.get_output_field(DIGEST)) {
        (Some(FieldData::VarChar { values: ids, .. }), Some(FieldData::Int64 { values: digests, .. })) => {
            Ok(ids.iter().cloned().zip(digests.iter().copied()).collect())
        }
        (None, None) => Ok(HashMap::new()),
        _ => Err(client.nonsense("ids and digests are not of their types")),
    }
}

/// Returns the passages with those of `ids` that are there.
pub(super) async fn passages(
    client: &Client,
    described: &Described,
    ids: &[String],
    patience: Duration,
) -> Result<Vec<Passage>, MilvusError> {
    let fields: Vec<&str> = [ID].into_iter().chain(described.passage_fields()).collect();
    let found = look_up(client, ids, &fields, ConsistencyLevel::Bounded, patience).await?;
    let texts = |name| match found.get_output_field(name) {
        Some(FieldData::VarChar { values, .. }) => Ok(values.as_slice()),
        None => Ok(&[][..]),
        Some(_) => Err(client.nonsense(format!("the {name}s of passages are not texts"))),
    };
    let ids = texts(ID)?;
    joined(client, ids, texts(TITLE)?, texts(TEXT)?, found.get_output_field(METADATA))
}

/// Returns the vectors of those of `ids` that are there.
pub(super) async fn vectors(
    client: &Client,
    ids: &[String],
    patience: Duration,
) -> Result<HashMap<String, Vec<f32>>, MilvusError> {
    let found = look_up(client, ids, &[ID, VECTOR], ConsistencyLevel::Bounded, patience).await?;
    match (found.get_output_field(ID), found.get_output_field(VECTOR)) {
        (Some(FieldData::VarChar { values: ids, .. }), Some(FieldData::FloatVector { values, .. }))
            if ids.len() == values.len() =>
        {
            Ok(ids.iter().cloned().zip(values.iter().cloned()).collect())
        }
        (None, None) => Ok(HashMap::new()),
        _ => Err(client.nonsense("ids and vectors are not of their types")),
    }
}

/// Makes passages of columns. Without the last one they have no metadata.
pub(super) fn joined(
    client: &Client,
    ids: &[String],
    titles: &[String],
    texts: &[String],
    metadata: Option<&FieldData>,
) -> Result<Vec<Passage>, MilvusError> {
    let metadata = match metadata {
        Some(FieldData::Json { values, .. }) => values.as_slice(),
        None => &[],
        Some(_) => return Err(client.nonsense("the metadata of passages is not JSON".to_owned())),
    };
    let mut passages = Vec::with_capacity(ids.len());
    for (row, ((id, title), text)) in ids.iter().zip(titles).zip(texts).enumerate() {
        let read = metadata.get(row).map_or_else(|| Some(Metadata::default()), metadata::read);
        let read = read.ok_or_else(|| client.nonsense(format!("the metadata of `{id}` is not flat")))?;
        passages.push(Passage::new(id, title, text).with_metadata(read));
    }
    Ok(passages)
}

async fn look_up(
    client: &Client,
    ids: &[String],
    fields: &[&str],
    level: ConsistencyLevel,
    patience: Duration,
) -> Result<QueryResults, MilvusError> {
    let (name, filter) = (client.address.collection(), &one_of(ID, ids));
    let looked_up = client.call("looking passages up", patience, |sdk| async move {
        let request = QueryRequest::builder()
            .collection_name(name)
            .filter(filter)
            .output_fields(fields.iter().copied())
            .consistency_level(level);
        sdk.query(request.build()?).await
    });
    Ok(looked_up.await?.results().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_collection_cannot_hold_is_refused_with_its_limit() {
        let refused =
            |passage: Passage| check(&[(&passage, &[1.0, 2.0])], 2).map_err(|error| error.to_string());
        let good = Passage::new("1", "T", "Text.");
        let of = |value: String| good.clone().with_metadata(Metadata::new([("a", value)]).unwrap());
        assert_eq!(refused(of("x".repeat(65_528))), Ok(()), "65,536 bytes as JSON");
        let long = refused(of("x".repeat(65_529))).unwrap_err();
        assert!(long.contains("metadata has 65537 bytes") && long.contains("65536"), "{long}");
        // A control character takes six bytes.
        let escaped = refused(of("\u{1}".repeat(11_000))).unwrap_err();
        assert!(escaped.contains("metadata has 66008 bytes"), "{escaped}");
        assert_eq!(refused(of("\u{1}".repeat(10_000))), Ok(()));
        for (passage, says, advice) in [
            (Passage { id: "x".repeat(513), ..good.clone() }, "id has 513 bytes", "a shorter id"),
            (Passage { title: "x".repeat(65_536), ..good.clone() }, "title has 65536 bytes", "shorten it"),
            (
                Passage { text: "x".repeat(65_536), ..good.clone() },
                "text has 65536 bytes",
                "split the passage",
            ),
            (of("x".repeat(65_529)), "metadata has 65537 bytes", "leave fields of it out"),
        ] {
            let error = refused(passage).unwrap_err();
            assert!(error.contains(says) && error.contains(advice), "{error}");
        }
    }
}
