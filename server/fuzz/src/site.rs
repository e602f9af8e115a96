//! Files of a static site, as `dpr search --privacy local` and `bucket` read them: the manifest, codes, texts, centroids
//! and buckets.

use std::sync::{Mutex, OnceLock};

use dpr_core::model::sha256_hex;
use dpr_core::private::device_key::DeviceKey;
use dpr_data::Passage;
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{IndexOptions, IndexReader, build_index};
use dpr_private::site::{BucketSite, SITE_MANIFEST, Site, SiteEncoder, SiteOptions, export};
use fs_err as fs;
use serde_json::{Value, json};

use crate::directories::write_model;
use crate::index::{COUNT, vector_of};
use crate::made::Made;
use crate::named;

/// A site of one part and of two buckets.
fn site() -> &'static Mutex<Made> {
    static MADE: OnceLock<Mutex<Made>> = OnceLock::new();
    MADE.get_or_init(|| {
        Made::new(|path| {
            let scratch = tempfile::tempdir().expect("a temporary directory");
            let model = write_model(&scratch.path().join("model"));
            let (space, dim) = (model.manifest().space().to_owned(), model.manifest().dim);
            let passage = |row| Passage::new(format!("p{row}"), "Title", format!("Text {row}."));
            let rows: Vec<f32> = (0..COUNT).flat_map(|row| vector_of(row, dim)).collect();
            let set = VectorSet::new(space, dim, (0..COUNT).map(passage).collect(), rows);
            let index = scratch.path().join("index");
            build_index(&set, &index, &IndexOptions::default(), &Silent).expect("an index");
            let index = IndexReader::open(&index).expect("an index that was just made").snapshot();
            let encoder = SiteEncoder::of(&model).expect("a model with copies for browsers");
            let options = SiteOptions { bucket_size: Some(COUNT / 2), ..SiteOptions::default() };
            export(&index, &encoder, path, &options, &Silent).expect("a new folder");
        })
    })
}

/// Opens the site with this manifest, and searches it.
fn search(manifest: &[u8], more: Option<(&str, &[u8])>) {
    Made::with(site(), SITE_MANIFEST, manifest, |path| {
        if let Some((name, bytes)) = more {
            fs::write(path.join(name), bytes).expect("a small file");
        }
        if let Ok(site) = Site::open(path) {
            let manifest = site.manifest();
            let question = vector_of(COUNT, manifest.dim);
            if let Ok(found) = site.search(&question, 3) {
                assert_eq!(found.len(), manifest.passages.min(3));
            }
        }
        if let Ok(mut site) = BucketSite::open(path, 1, 1, DeviceKey::new([1; 32])) {
            let question = vector_of(COUNT, site.manifest().dim);
            if let Ok(found) = site.search(&question, 3) {
                assert!(found.hits.len() <= 3 && found.buckets.is_sorted() && found.buckets.len() == 2);
            }
        }
        if let Some((name, _)) = more {
            fs::remove_file(path.join(name)).expect("a file that was just written");
        }
    });
}

/// Puts the bytes in the place of a file of the buckets, with its size and checksum in the manifest.
fn in_buckets(pointer: &str, bytes: &[u8]) {
    let mut manifest = described();
    let sha256 = sha256_hex(bytes);
    let name = format!("fuzzed_bucket.{sha256}.bin");
    if let Some(file) = manifest.pointer_mut(pointer) {
        file["url"] = json!(name);
        file["bytes"] = json!(bytes.len());
        file["sha256"] = json!(sha256);
    }
    search(manifest.to_string().as_bytes(), Some((&name, bytes)));
}

/// Returns a file of the buckets.
fn of_buckets(pointer: &str) -> Vec<u8> {
    let manifest = described();
    let name = manifest.pointer(pointer).and_then(|file| file["url"].as_str());
    Made::read(site(), name.expect("the manifest names its files"))
}

/// The centroids of the buckets.
pub(crate) fn centroids(bytes: &[u8]) {
    in_buckets("/buckets/centroids", bytes);
}

pub(crate) fn valid_centroids() -> Vec<(String, Vec<u8>)> {
    vec![named("two-buckets", of_buckets("/buckets/centroids"))]
}

/// A bucket, of the length that the site's buckets have.
pub(crate) fn bucket(bytes: &[u8]) {
    let mut whole = bytes.to_vec();
    whole.resize(of_buckets("/buckets/files/0").len(), 0);
    in_buckets("/buckets/files/0", &whole);
}

pub(crate) fn valid_bucket() -> Vec<(String, Vec<u8>)> {
    vec![named("one-of-two", of_buckets("/buckets/files/0"))]
}

/// The site's manifest.
pub(crate) fn manifest(bytes: &[u8]) {
    search(bytes, None);
}

pub(crate) fn valid_manifest() -> Vec<(String, Vec<u8>)> {
    vec![named("one-part", Made::read(site(), SITE_MANIFEST))]
}

/// Puts the bytes in the place of a file of the part, with its size and checksum in the manifest.
fn in_part(kind: &str, bytes: &[u8]) {
    let mut manifest = described();
    let sha256 = sha256_hex(bytes);
    // A name that no file of the site has.
    let name = format!("fuzzed_{kind}.{sha256}.bin");
    manifest["parts"][0][kind] = json!({ "url": name, "bytes": bytes.len(), "sha256": sha256 });
    search(manifest.to_string().as_bytes(), Some((&name, bytes)));
}

fn described() -> Value {
    serde_json::from_slice(&Made::read(site(), SITE_MANIFEST)).expect("a manifest that was just written")
}

/// Returns a file of the part.
fn of_part(kind: &str) -> Vec<u8> {
    let name = described()["parts"][0][kind]["url"].as_str().map(str::to_owned);
    Made::read(site(), &name.expect("the manifest names its files"))
}

/// The codes of a part.
pub(crate) fn codes(bytes: &[u8]) {
    in_part("codes", bytes);
}

pub(crate) fn valid_codes() -> Vec<(String, Vec<u8>)> {
    vec![named("one-part", of_part("codes"))]
}

/// The texts of a part.
pub(crate) fn texts(bytes: &[u8]) {
    in_part("texts", bytes);
}

pub(crate) fn valid_texts() -> Vec<(String, Vec<u8>)> {
    vec![named("one-part", of_part("texts"))]
}
