//! Encrypted search: the manifest, the files and the delta that a client downloads, and the heads and numbers of
//! messages.

use dpr_core::private::encrypted::manifest::{Columns, Projection, Tables};
use dpr_core::private::encrypted::wire::{HEAD, Head, Kind, unpack};
use dpr_core::private::encrypted::{Delta, FetchHint, RankHint};

use crate::named;

/// A manifest that is right, as `dpr index private` wrote it.
const MANIFEST: &[u8] = include_bytes!("../seeds/private-manifest/whole");

/// Reads a manifest and, where it is taken, files that hold its bytes.
pub(crate) fn manifest(bytes: &[u8]) {
    let Ok(tables) = Tables::read(bytes) else { return };
    let _ = Projection::read(&tables, bytes);
    if let Ok(columns) = Columns::read(&tables, bytes) {
        let _ = columns.verify(0, bytes.to_vec());
        let _ = columns.locate(usize::MAX);
    }
    let _ = RankHint::read(&tables.rank, &tables.hash, bytes);
    let _ = FetchHint::read(&tables.fetch, &tables.hash, bytes);
}

pub(crate) fn valid_manifest() -> Vec<(String, Vec<u8>)> {
    vec![named("whole", MANIFEST)]
}

/// Reads a message, and its numbers at every width.
pub(crate) fn message(bytes: &[u8]) {
    let Some((head, numbers)) = Head::read(bytes) else { return };
    assert_eq!(head.write().as_slice(), &bytes[..HEAD], "a head is written as it was read");
    let _ = head.strip("a message", bytes, numbers.len());
    for bits in 1..=32 {
        assert_eq!(unpack(numbers, bits).count(), numbers.len() * 8 / bits as usize);
    }
}

pub(crate) fn valid_message() -> Vec<(String, Vec<u8>)> {
    let message = |kind, set, count| {
        let head = Head { kind, set, count, version: [7; 32] }.write();
        [head.as_slice(), &[0x5a; 26]].concat()
    };
    vec![named("rank", message(Kind::Rank, 1, 192)), named("fetch", message(Kind::Fetch, 16, 5))]
}

/// Reads a delta of the tables of a manifest.
pub(crate) fn delta(bytes: &[u8]) {
    let tables = Tables::read(MANIFEST).expect("the manifest is right");
    if let Ok(delta) = Delta::read(&tables, bytes) {
        assert_eq!(
            delta.write(&tables.version, tables.rank.dims()),
            bytes,
            "a delta is written as it was read"
        );
    }
}

pub(crate) fn valid_delta() -> Vec<(String, Vec<u8>)> {
    let tables = Tables::read(MANIFEST).expect("the manifest is right");
    let write = |delta: Delta| delta.write(&tables.version, tables.rank.dims());
    let removed = Delta { changes: 2, removed: vec![0, 7, 299], ..Delta::default() };
    let added = Delta { changes: 1 << 40, codes: vec![-3; 64], texts: b"texts".to_vec(), ..removed.clone() };
    vec![named("removed", write(removed)), named("added", write(added))]
}
