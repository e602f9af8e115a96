//! Tests of buckets: exported, read, and hostile.

use std::collections::BTreeSet;
use std::path::Path;

use dpr_core::private::bucket::BucketFile;
use dpr_core::private::device_key::DeviceKey;
use dpr_core::random::SplitMix;
use dpr_files::progress::Silent;
use dpr_index::Snapshot;
use serde_json::{Value, json};

use super::tests::{DIM, encoder, index, listed, opened, passages, whole};
use super::*;

fn options(size: usize) -> SiteOptions {
    SiteOptions { bucket_size: Some(size), ..SiteOptions::default() }
}

fn site(index: &Snapshot, out: &Path, size: usize) -> Exported {
    export(index, &encoder(), out, &options(size), &Silent).unwrap()
}

fn key(byte: u8) -> DeviceKey {
    DeviceKey::new([byte; 32])
}

/// Vectors of questions around the passages of the corpus.
fn questions(count: usize) -> Vec<Vec<f32>> {
    passages(9000..9000 + count).1.chunks_exact(DIM).map(<[f32]>::to_vec).collect()
}

#[test]
fn buckets_hold_every_passage_once_and_have_the_sizes_and_the_one_length_that_are_promised() {
    let (_dir, snapshot) = index(0..3000);
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("dpr");
    let exported = site(&snapshot, &out, 100);
    let (names, manifest) = whole(&out);
    let buckets = manifest.buckets.as_ref().unwrap();
    assert_eq!((manifest.format_version, listed(&out)), (2, names));
    assert_eq!((buckets.least, buckets.files.len(), exported.kept_centroids), (100, 24, false));
    let mut ids = Vec::new();
    for bucket in &buckets.files {
        let bytes = fs_err::read(out.join(&bucket.file.url)).unwrap();
        assert!((100..=150).contains(&bucket.passages), "{}", bucket.passages);
        assert_eq!(bytes.len() as u64, buckets.bytes());
        let parts = BucketFile::read(&bytes, bucket.passages).unwrap();
        let passages = opened(parts.texts);
        assert_eq!(passages.len(), bucket.passages);
        ids.extend(passages.into_iter().map(|passage| passage.id));
    }
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 3000);
    assert_eq!(ids.len(), 3000);
    // Padding to one length costs less than the passages of the largest bucket are more than the average.
    let least = buckets.files.iter().map(|bucket| bucket.passages).min().unwrap();
    assert!(buckets.bytes() < 150 * 150 * 24 && least >= 100, "{}", buckets.bytes());
    // Whoever downloads everything reads the same site.
    let read = Site::open(&out).unwrap();
    assert_eq!(read.search(&questions(1)[0], 5).unwrap().len(), 5);
}

#[test]
fn the_set_that_is_read_depends_on_the_bucket_of_the_question_and_the_key_alone() {
    let (_dir, snapshot) = index(0..3000);
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("dpr");
    site(&snapshot, &out, 100);
    let open = |byte: u8| BucketSite::open(&out, 2, 4, key(byte)).unwrap();
    let (mut one, mut other) = (open(1), open(2));
    let mut of_home: std::collections::BTreeMap<usize, Vec<u32>> = std::collections::BTreeMap::new();
    let mut differ = 0;
    for question in questions(200) {
        let fetched = one.search(&question, 5).unwrap();
        assert!(fetched.buckets.is_sorted_by(|a, b| a < b) && fetched.buckets.len() == 6);
        let (probed, all) = one.chosen(&question, &key(1)).unwrap();
        assert_eq!(all.iter().map(|bucket| *bucket as u32).collect::<Vec<_>>(), fetched.buckets);
        let before = of_home.entry(probed[0]).or_insert_with(|| fetched.buckets.clone());
        assert_eq!(*before, fetched.buckets, "home {}", probed[0]);
        differ += usize::from(other.search(&question, 5).unwrap().buckets != fetched.buckets);
        // Asked again, and by a client that was started again.
        let again = one.search(&question, 5).unwrap();
        assert_eq!((again.buckets, again.read, again.hits), (fetched.buckets.clone(), vec![], fetched.hits));
        assert_eq!(open(1).search(&question, 1).unwrap().buckets, fetched.buckets);
    }
    assert!(of_home.len() > 8 && differ > 150, "{} {differ}", of_home.len());
}

#[test]
fn what_is_found_in_all_buckets_is_what_a_page_finds_that_downloads_everything() {
    let (_dir, snapshot) = index(0..1000);
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("dpr");
    site(&snapshot, &out, 100);
    let local = Site::open(&out).unwrap();
    let mut few = BucketSite::open(&out, 1, 1, key(1)).unwrap();
    let mut all = BucketSite::open(&out, 8, 0, key(1)).unwrap();
    assert_eq!(all.buckets().files.len(), 8);
    assert!(all.sees().starts_with("8 of 8 buckets of some 125 passages each, 0 of them decoys"));
    let ids = |hits: Vec<(Passage, f32)>| -> BTreeSet<String> {
        hits.into_iter().map(|(passage, _)| passage.id).collect()
    };
    let (mut shared, mut inside) = (0, 0);
    for question in questions(50) {
        let expected = ids(local.search(&question, 20).unwrap());
        let found = all.search(&question, 20).unwrap();
        assert!(found.hits.is_sorted_by(|a, b| a.1 >= b.1));
        // The codes of a bucket have scales of their own.
        shared += ids(found.hits).intersection(&expected).count();
        inside += ids(few.search(&question, 20).unwrap().hits).intersection(&expected).count();
    }
    assert!(shared > 800, "{shared} of 1000");
    assert!(inside > 300 && inside < shared, "{inside} of 1000 in one bucket and a decoy");
}

#[test]
fn an_update_keeps_the_centroids_and_writes_the_buckets_that_changed() {
    let (_dir, before) = index(0..2000);
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("dpr");
    let first = site(&before, &out, 100);
    let again = site(&before, &out, 100);
    assert_eq!((again.written.written, again.kept_centroids), (0, true));
    assert_eq!(first.manifest.buckets, again.manifest.buckets);
    let (_dir, after) = index((0..700).chain(701..2001));
    let changed = site(&after, &out, 100);
    assert!(changed.kept_centroids);
    let [old, new] = [&first, &changed].map(|exported| exported.manifest.buckets.clone().unwrap());
    assert_eq!(old.centroids, new.centroids);
    let same = new.files.iter().filter(|bucket| old.files.contains(bucket)).count();
    // All of them, where the longest has another length than before.
    assert!(same + 4 >= new.files.len() || new.bytes() != old.bytes(), "{same} of {}", new.files.len());
    // Another size makes others, and so does a corpus that has doubled; without the option there are none.
    let larger = site(&after, &out, 200);
    assert!(!larger.kept_centroids);
    let refit = SiteOptions { refit: true, ..options(200) };
    assert!(!export(&after, &encoder(), &out, &refit, &Silent).unwrap().kept_centroids);
    let without = export(&after, &encoder(), &out, &SiteOptions::default(), &Silent).unwrap();
    assert_eq!((without.manifest.format_version, &without.manifest.buckets), (1, &None));
    let refused = BucketSite::open(&out, 1, 1, key(1)).unwrap_err().to_string();
    assert!(refused.contains("no buckets"), "{refused}");
}

#[test]
fn sizes_and_numbers_of_buckets_that_are_not_possible_are_refused() {
    let (_dir, snapshot) = index(0..300);
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("dpr");
    for size in [0, 9, 151, usize::MAX] {
        let error = export(&snapshot, &encoder(), &out, &options(size), &Silent).unwrap_err();
        assert!(error.to_string().contains("give from 10 to 150"), "{error}");
    }
    assert!(!out.exists());
    site(&snapshot, &out, 100);
    for (probes, decoys, says) in [
        (3, 0, "ask for 1, 2, 4 or 8"),
        (2, 1, "another multiple"),
        (1, 65, "up to 64"),
        (2, 2, "the site has 2"),
    ] {
        let error = BucketSite::open(&out, probes, decoys, key(1)).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let mut site = BucketSite::open(&out, 1, 1, key(1)).unwrap();
    assert!(matches!(site.search(&[1.0; 3], 1), Err(SiteReadError::Bucket(_))));
    assert!(matches!(site.search(&[1.0; DIM], 0), Err(SiteReadError::Bucket(_))));
    assert_eq!(site.search(&[1.0; DIM], 1000).unwrap().hits.len(), 300);
    assert!(matches!(site.ids(2), Err(SiteReadError::Damaged { .. })));
}

/// Writes a changed manifest, and returns what opening the site says, and a search of all its buckets.
fn refused(out: &Path, manifest: &Value) -> String {
    fs_err::write(out.join(SITE_MANIFEST), manifest.to_string()).unwrap();
    let searched = BucketSite::open(out, 1, 1, key(1)).and_then(|mut site| {
        let found =
            questions(4).iter().map(|question| site.search(question, 500)).collect::<Result<Vec<_>, _>>()?;
        Ok(found.len())
    });
    searched.unwrap_err().to_string()
}

#[test]
fn hostile_manifests_are_refused_with_what_is_wrong() {
    let (_dir, snapshot) = index(0..300);
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("dpr");
    site(&snapshot, &out, 100);
    let good: Value = serde_json::from_slice(&fs_err::read(out.join(SITE_MANIFEST)).unwrap()).unwrap();
    let with = |pointer: &str, value: Value| {
        let mut changed = good.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        changed
    };
    let second = good.pointer("/buckets/files/1").unwrap().clone();
    let mut doubled = second.clone();
    doubled["passages"] = good["buckets"]["files"][0]["passages"].clone();
    for (manifest, says) in [
        (with("/buckets/least", json!(200)), "fewer than the 200 that were promised"),
        (with("/buckets/files/0/passages", json!(0)), "buckets hold"),
        (with("/buckets/files/0/passages", json!(u64::MAX)), "buckets hold"),
        (with("/buckets/files", json!([])), "0 buckets"),
        (with("/buckets/files", json!(vec![second.clone(); 4097])), "4097 buckets"),
        (with("/buckets/files/0", doubled), "one file"),
        (with("/buckets/files/0/bytes", json!(77)), "one length"),
        (with("/buckets/files/0/url", json!("../../etc/passwd")), "is not a name of its files"),
        (with("/buckets/centroids/url", json!("/dev/zero")), "is not a name of its files"),
        (with("/buckets/centroids", good["projection"].clone()), "the kind 4"),
        (with("/passages", json!(0)), "it says 0 passages"),
        (with("/bits", json!(8)), "8 bits"),
        (with("/format_version", json!(3)), "format version 3"),
    ] {
        let error = refused(&out, &manifest);
        assert!(error.contains(says), "{says}: {error}");
    }
}

#[test]
fn buckets_of_a_hostile_site_end_in_errors_whatever_they_hold() {
    let (_dir, snapshot) = index(0..60);
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("dpr");
    site(&snapshot, &out, 24);
    let (_, manifest) = whole(&out);
    let buckets = manifest.buckets.clone().unwrap();
    let good = fs_err::read(out.join(&buckets.files[0].file.url)).unwrap();
    let mut random = SplitMix::new(12);
    let mut searched = 0;
    for _ in 0..300 {
        let mut bad = good.clone();
        for _ in 0..=random.below(3) {
            // Mostly the heads of the bucket and of its codes.
            let most = if random.below(2) == 0 { bad.len() } else { 56 };
            let at = random.below(most);
            bad[at] = random.bits() as u8;
        }
        let content = Content::new("bucket", "bin", bad.clone());
        fs_err::write(out.join(content.name()), &bad).unwrap();
        let mut changed = manifest.clone();
        changed.buckets.as_mut().unwrap().files[0].file = content.entry();
        fs_err::write(out.join(SITE_MANIFEST), serde_json::to_vec(&changed).unwrap()).unwrap();
        let mut site = BucketSite::open(&out, 1, 1, key(1)).unwrap();
        if let Ok(found) = site.search(&[0.5; DIM], 60) {
            searched += 1;
            assert!(found.hits.iter().all(|(_, score)| score.is_finite()));
        }
    }
    assert!(searched > 20, "changes that cannot be seen at once are met too: {searched}");
}
