use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;

use dpr_core::kernel::search::f32::inner_product;
use dpr_core::private::local::LocalIndex;
use dpr_core::random::SplitMix;
use dpr_files::digest;
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{IndexOptions, IndexReader, build_index};
use serde_json::{Value, json};

use super::*;

pub(super) const DIM: usize = 40;
const MODEL: &str = "abcd";

pub(super) fn passages(ids: impl Iterator<Item = usize>) -> (Vec<Passage>, Vec<f32>) {
    let (mut passages, mut vectors) = (Vec::new(), Vec::new());
    let mut centres = SplitMix::new(2);
    let centres: Vec<f64> = (0..12 * DIM).map(|_| centres.normal()).collect();
    for id in ids {
        // A passage is the same in every corpus.
        let mut random = SplitMix::new(id as u64);
        let centre = random.below(12) * DIM;
        let vector: Vec<f64> = (0..DIM).map(|at| centres[centre + at] + random.normal()).collect();
        let norm = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
        vectors.extend(vector.into_iter().map(|x| (x / norm) as f32));
        passages.push(Passage::new(
            format!("p{id}"),
            format!("한국 {}", id / 5),
            format!("text \"{id}\"\n of it"),
        ));
    }
    (passages, vectors)
}

/// An index of these passages in a folder of its own, as it is searched.
pub(super) fn index(ids: impl Iterator<Item = usize>) -> (tempfile::TempDir, Arc<Snapshot>) {
    let dir = tempfile::tempdir().unwrap();
    let (passages, vectors) = passages(ids);
    let set = VectorSet::new(MODEL, DIM, passages, vectors);
    build_index(&set, dir.path(), &IndexOptions::default(), &Silent).unwrap();
    let snapshot = IndexReader::open(dir.path()).unwrap().snapshot();
    (dir, snapshot)
}

pub(super) fn encoder() -> SiteEncoder {
    let weights = Content::new("question_encoder.q8", "bin", b"weights".to_vec());
    let body = json!({ "weights": { "q8": weights.entry() } });
    SiteEncoder::new(MODEL, DIM, &body, vec![weights])
}

fn site(index: &Snapshot, out: &Path) -> Exported {
    export(index, &encoder(), out, &SiteOptions::default(), &Silent).unwrap()
}

/// Checks every file that the manifest in `out` names, and returns its names and the manifest.
pub(super) fn whole(out: &Path) -> (BTreeSet<String>, SiteManifest) {
    let manifest: SiteManifest =
        serde_json::from_slice(&fs_err::read(out.join(SITE_MANIFEST)).unwrap()).unwrap();
    for file in manifest.files() {
        assert_eq!(digest::of_file(&out.join(&file.url)).unwrap(), file.entry, "{}", file.url);
        assert!(file.url.contains(&file.entry.sha256));
    }
    let names = manifest.files().map(|file| file.url.clone()).collect();
    assert_eq!(manifest.parts.iter().map(|part| part.passages).sum::<usize>(), manifest.passages);
    (names, manifest)
}

pub(super) fn listed(out: &Path) -> BTreeSet<String> {
    let names = fs_err::read_dir(out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != SITE_MANIFEST && name != ".lock").collect()
}

/// Opens a file of texts as a page does.
pub(super) fn opened(bytes: &[u8]) -> Vec<Passage> {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (count, block) = (number(8), number(16));
    let blocks = count.div_ceil(block);
    let mut at = 24 + blocks * 8;
    let mut passages = Vec::new();
    for place in 0..blocks {
        let (packed, length) = (number(24 + place * 8), number(28 + place * 8));
        let mut json = Vec::new();
        flate2::read::DeflateDecoder::new(&bytes[at..at + packed]).read_to_end(&mut json).unwrap();
        assert_eq!(json.len(), length);
        passages.extend(serde_json::from_slice::<Vec<Passage>>(&json).unwrap());
        at += packed;
    }
    assert_eq!((passages.len(), at), (count, bytes.len()));
    passages
}

#[test]
fn a_site_holds_what_the_index_holds_and_finds_what_it_finds() {
    let (_dir, snapshot) = index(0..3000);
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("site/dpr");
    let exported = site(&snapshot, &out);
    let (names, manifest) = whole(&out);
    assert_eq!((manifest.passages, manifest.dim, manifest.dims, manifest.bits), (3000, DIM, DIM, 4));
    assert_eq!((listed(&out), exported.written.written), (names.clone(), names.len()));
    assert!(manifest.parts.len() > 1);
    let read = |file: &SiteFile| fs_err::read(out.join(&file.url)).unwrap();
    let projection = Projection::from_bytes(&read(&manifest.projection)).unwrap();
    let mut local = LocalIndex::new(projection);
    let mut texts = Vec::new();
    for part in &manifest.parts {
        local.add(&read(&part.codes), part.passages).unwrap();
        texts.extend(opened(&read(&part.texts)));
    }
    let (expected, vectors) = passages(0..3000);
    assert_eq!(texts, expected);
    let mut share = 0.0;
    for question in passages(9000..9050).1.chunks_exact(DIM) {
        let mut exact: Vec<(usize, f32)> =
            vectors.chunks_exact(DIM).map(|vector| inner_product(question, vector)).enumerate().collect();
        exact.sort_by(|a, b| b.1.total_cmp(&a.1));
        let found = local.search(question, 20).unwrap();
        share +=
            exact[..20].iter().filter(|(row, _)| found.iter().any(|f| f.row as usize == *row)).count() as f64;
    }
    assert!(share / 1000.0 > 0.78, "recall@20 is {}", share / 1000.0);
}

#[test]
fn an_update_writes_what_differs_and_removes_what_two_manifests_do_not_name() {
    let (_dir, before) = index(0..4000);
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("dpr");
    site(&before, &out);
    let (first, _) = whole(&out);
    fs_err::write(out.join("index.html"), "the page's own").unwrap();

    // Again: nothing is written.
    let again = site(&before, &out);
    assert_eq!((again.written.written, again.written.removed, again.kept_directions), (0, 0, true));

    // A passage goes and others come: parts without them stay.
    let (_dir, after) = index((0..1500).chain(1501..4003));
    let changed = site(&after, &out);
    let (second, manifest) = whole(&out);
    assert_eq!((manifest.passages, changed.kept_directions), (4002, true));
    assert!(changed.written.written <= 4, "{:?} of {} parts", changed.written, manifest.parts.len());
    assert_eq!(changed.written.removed, 0, "who reads the site before can go on");
    assert!(first.is_subset(&listed(&out)));

    // A file that was changed is written again.
    let spoiled = out.join(&manifest.parts[0].codes.url);
    fs_err::write(&spoiled, "x").unwrap();
    let mended = site(&after, &out);
    assert_eq!(mended.written.written, 1);
    assert_eq!(mended.written.removed, first.difference(&second).count());
    assert_eq!(whole(&out).0, second);

    // With other directions, all codes differ.
    let refit = SiteOptions { refit: true, ..SiteOptions::default() };
    let refit = export(&after, &encoder(), &out, &refit, &Silent).unwrap();
    assert!(!refit.kept_directions && refit.written.written > manifest.parts.len());
    let narrow = SiteOptions { dims: Some(16), ..SiteOptions::default() };
    let narrow = export(&after, &encoder(), &out, &narrow, &Silent).unwrap();
    assert_eq!((narrow.manifest.dims, narrow.kept_directions), (16, false));
    assert_eq!(fs_err::read_to_string(out.join("index.html")).unwrap(), "the page's own");
}

/// Sets a flag at so many steps.
struct StopAt(Arc<AtomicBool>, AtomicUsize);

impl Progress for StopAt {
    fn start(&self, _: &'static str, _: &'static str, _: u64) {}
    fn advance(&self, _: u64) {
        if self.1.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    fn finish(&self) {}
}

#[test]
fn an_export_that_is_stopped_leaves_the_site_as_it_was() {
    let (_dir, before) = index(0..600);
    let (_dir2, after) = index(100..900);
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("dpr");
    let stopped = |index: &Snapshot, steps: usize| {
        let options = SiteOptions::default();
        let progress = StopAt(Arc::clone(&options.stop), AtomicUsize::new(steps));
        export(index, &encoder(), &out, &options, &progress).map(drop)
    };
    for steps in [1, 2, 3] {
        assert!(matches!(stopped(&before, steps), Err(SiteError::Interrupted)), "{steps}");
        assert!(!out.exists());
        assert_eq!(fs_err::read_dir(root.path()).unwrap().count(), 0);
    }
    site(&before, &out);
    let (names, manifest) = whole(&out);
    for steps in [1, 2, 3] {
        assert!(matches!(stopped(&after, steps), Err(SiteError::Interrupted)), "{steps}");
        assert_eq!(whole(&out), (names.clone(), manifest.clone()));
    }
    // What a killed export has written beside the site goes two exports later, when no manifest names it.
    let digest = "0".repeat(64);
    let left = out.join(format!("codes.{digest}.bin"));
    fs_err::write(&left, "half of it").unwrap();
    assert_eq!(whole(&out), (names, manifest));
    site(&after, &out);
    assert!(!left.exists());
    assert_eq!(whole(&out).1.passages, 800);
}

/// Exports another index at the third step.
struct Meanwhile<'a>(&'a (dyn Fn() + Sync), AtomicUsize);

impl Progress for Meanwhile<'_> {
    fn start(&self, _: &'static str, _: &'static str, _: u64) {}
    fn advance(&self, _: u64) {
        if self.1.fetch_add(1, Ordering::Relaxed) == 2 {
            (self.0)();
        }
    }
    fn finish(&self) {}
}

#[test]
fn an_export_that_another_one_overtook_leaves_its_site_as_it_is() {
    let [(_dir, before), (_dir2, other), (_dir3, after)] = [0..300, 100..400, 200..500].map(index);
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("dpr");
    site(&before, &out);
    let overtake = || drop(site(&other, &out));
    let progress = Meanwhile(&overtake, AtomicUsize::new(0));
    let refused = export(&after, &encoder(), &out, &SiteOptions::default(), &progress).unwrap_err();
    assert!(matches!(&refused, SiteError::Changed { dir } if *dir == out), "{refused}");
    assert_eq!(whole(&out).1.index_version, other.base().version());
    site(&after, &out);
    assert_eq!(whole(&out).1.index_version, after.base().version());
    // Two exports at once to a new directory: the later is refused.
    let first = root.path().join("first");
    let overtake = || drop(site(&other, &first));
    let progress = Meanwhile(&overtake, AtomicUsize::new(0));
    let refused = export(&after, &encoder(), &first, &SiteOptions::default(), &progress).unwrap_err();
    assert!(matches!(&refused, SiteError::Changed { dir } if *dir == first), "{refused}");
    assert!(refused.to_string().contains("another export wrote the site in"), "{refused}");
    assert_eq!(whole(&first).1.index_version, other.base().version());
}

#[test]
fn what_cannot_be_a_site_is_refused_before_anything_is_written() {
    let (_dir, snapshot) = index(0..40);
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("dpr");
    let refused = |encoder: &SiteEncoder, options: SiteOptions, out: &PathBuf| {
        export(&snapshot, encoder, out, &options, &Silent).unwrap_err().to_string()
    };
    let mut other = encoder();
    "ef01".clone_into(&mut other.fingerprint);
    let error = refused(&other, SiteOptions::default(), &out);
    assert!(error.contains("built by model abcd") && error.contains("ef01"), "{error}");
    let mut narrow = encoder();
    narrow.dim = 20;
    assert!(refused(&narrow, SiteOptions::default(), &out).contains("(20 dims)"));
    for dims in [0, DIM + 1] {
        let options = SiteOptions { dims: Some(dims), ..SiteOptions::default() };
        assert!(refused(&encoder(), options, &out).contains("give a number from 1 to 40"));
    }
    assert!(!out.exists());

    fs_err::create_dir(&out).unwrap();
    fs_err::write(out.join("notes.txt"), "mine").unwrap();
    assert!(refused(&encoder(), SiteOptions::default(), &out).contains("holds `notes.txt`"));
    fs_err::remove_file(out.join("notes.txt")).unwrap();
    site(&snapshot, &out);
    let path = out.join(SITE_MANIFEST);
    let good: Value = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    for (version, says) in [(3, "format version 3"), (u64::MAX, "format version")] {
        let mut newer = good.clone();
        newer["format_version"] = json!(version);
        fs_err::write(&path, newer.to_string()).unwrap();
        let error = refused(&encoder(), SiteOptions::default(), &out);
        assert!(error.contains(says), "{error}");
    }
    fs_err::write(&path, "{\"format_version\":1").unwrap();
    assert!(refused(&encoder(), SiteOptions::default(), &out).contains("damaged"));
    assert_eq!(listed(&out).len(), good["parts"].as_array().unwrap().len() * 2 + 3);
}

#[test]
fn an_index_without_passages_is_refused() {
    let (dir, _) = index(0..3);
    let writer = dpr_index::IndexWriter::open(dir.path(), "a test").unwrap();
    let ids: Vec<String> = (0..3).map(|id| format!("p{id}")).collect();
    writer.delete(ids).unwrap();
    drop(writer);
    let empty = IndexReader::open(dir.path()).unwrap().snapshot();
    let root = tempfile::tempdir().unwrap();
    let error = export(&empty, &encoder(), &root.path().join("dpr"), &SiteOptions::default(), &Silent);
    assert!(matches!(error, Err(SiteError::Empty)), "{error:?}");
}

#[test]
fn a_site_that_is_read_finds_what_its_files_say_in_their_order() {
    let (_dir, snapshot) = index(0..1500);
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("dpr");
    site(&snapshot, &out);
    let (_, manifest) = whole(&out);
    let bytes = |file: &SiteFile| fs_err::read(out.join(&file.url)).unwrap();
    let mut local = LocalIndex::new(Projection::from_bytes(&bytes(&manifest.projection)).unwrap());
    for part in &manifest.parts {
        local.add(&bytes(&part.codes), part.passages).unwrap();
    }
    let (passages_of_site, _) = passages(0..1500);
    for path in [out.clone(), out.join(SITE_MANIFEST)] {
        let read = Site::open(&path).unwrap();
        assert_eq!(*read.manifest(), manifest);
        for question in passages(9000..9020).1.chunks_exact(DIM) {
            let found = read.search(question, 20).unwrap();
            let expected = local.search(question, 20).unwrap();
            assert_eq!(found.len(), 20);
            for ((passage, score), row) in found.iter().zip(&expected) {
                assert_eq!((passage, *score), (&passages_of_site[row.row as usize], row.score));
            }
        }
        assert_eq!(read.search(&[1.0; DIM], 5000).unwrap().len(), 1500);
        assert!(matches!(read.search(&[1.0; 3], 1), Err(SiteReadError::Question(_))));
        assert!(matches!(read.search(&[1.0; DIM], 0), Err(SiteReadError::Question(_))));
    }
}

#[test]
fn a_site_with_a_file_that_is_missing_cut_or_changed_is_refused_by_the_files_name() {
    let (_dir, snapshot) = index(0..40);
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("dpr");
    site(&snapshot, &out);
    let (_, manifest) = whole(&out);
    assert_eq!(manifest.parts.len(), 1);
    let part = &manifest.parts[0];
    for file in [&manifest.projection, &part.codes, &part.texts] {
        let path = out.join(&file.url);
        let good = fs_err::read(&path).unwrap();
        let mut changed = good.clone();
        changed[good.len() / 2] ^= 1;
        for bad in [changed, good[..good.len() - 1].to_vec(), [good.as_slice(), &[0]].concat(), Vec::new()] {
            fs_err::write(&path, bad).unwrap();
            let error = Site::open(&out).unwrap_err().to_string();
            assert!(error.contains(&file.url) && error.contains("export"), "{error}");
        }
        fs_err::remove_file(&path).unwrap();
        assert!(matches!(Site::open(&out), Err(SiteReadError::File(_))));
        fs_err::write(&path, good).unwrap();
    }
    Site::open(&out).unwrap();
}

/// Puts `bytes` in the place of the file of texts or codes of the only part, with a manifest that names them.
fn replaced(out: &Path, kind: &str, bytes: &[u8]) {
    let (_, mut manifest) = whole(out);
    let content = Content::new(kind, "bin", bytes.to_vec());
    fs_err::write(out.join(content.name()), bytes).unwrap();
    match kind {
        "texts" => manifest.parts[0].texts = content.entry(),
        _ => manifest.parts[0].codes = content.entry(),
    }
    fs_err::write(out.join(SITE_MANIFEST), serde_json::to_vec(&manifest).unwrap()).unwrap();
}

#[test]
fn files_of_a_hostile_site_end_in_errors_whatever_they_hold() {
    let (_dir, snapshot) = index(0..40);
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("dpr");
    site(&snapshot, &out);
    let (_, manifest) = whole(&out);
    let json = serde_json::to_value(&manifest).unwrap();
    let texts = fs_err::read(out.join(&manifest.parts[0].texts.url)).unwrap();
    let codes = fs_err::read(out.join(&manifest.parts[0].codes.url)).unwrap();
    let mut random = SplitMix::new(11);
    let question = vec![0.5; DIM];
    let mut searched = 0;
    for round in 0..400 {
        let (kind, good) = if round % 2 == 0 { ("texts", &texts) } else { ("codes", &codes) };
        let mut bad = good.clone();
        for _ in 0..=random.below(3) {
            // Mostly the head and the table.
            let most = if random.below(2) == 0 { bad.len() } else { 40 };
            let at = random.below(most);
            bad[at] = random.bits() as u8;
        }
        if random.below(4) == 0 {
            bad.truncate(random.below(bad.len()));
        }
        replaced(&out, kind, &bad);
        if let Ok(site) = Site::open(&out) {
            searched += 1;
            if let Ok(found) = site.search(&question, 40) {
                assert!(found.iter().all(|(_, score)| score.is_finite()));
            }
        }
        replaced(&out, kind, good);
    }
    assert!(searched > 20, "changes that cannot be seen at once are met too: {searched}");
    // Manifests.
    let with = |pointer: &str, value: Value| {
        let mut changed = json.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        changed
    };
    for bad in [
        with("/parts/0/texts/url", json!("../../etc/passwd")),
        with("/parts/0/codes/url", json!("/dev/zero")),
        with("/parts/0/passages", json!(41)),
        with("/parts/0/passages", json!(u64::MAX)),
        with("/passages", json!(0)),
        with("/bits", json!(8)),
        with("/dims", json!(3)),
        with("/format_version", json!(99)),
        with("/parts/0/texts/bytes", json!(u64::MAX)),
        with("/parts", json!([])),
        json!([]),
    ] {
        fs_err::write(out.join(SITE_MANIFEST), bad.to_string()).unwrap();
        let error = Site::open(&out).unwrap_err().to_string();
        assert!(error.contains(SITE_MANIFEST) || error.contains(".bin"), "{bad}: {error}");
    }
    fs_err::write(out.join(SITE_MANIFEST), "not json").unwrap();
    assert!(Site::open(&out).is_err());
    assert!(Site::open(&root.path().join("nowhere")).is_err());
}

/// Opens a pack: a file of texts, and its padding.
fn unpacked(bytes: &[u8]) -> Vec<Passage> {
    let padding = u32::from_le_bytes(bytes[20..24].try_into().unwrap()) as usize;
    let (file, zeros) = bytes.split_at(bytes.len() - padding);
    assert!(zeros.iter().all(|byte| *byte == 0));
    opened(file)
}

#[test]
fn packs_have_a_fixed_number_of_bytes_and_hold_every_passage_once() {
    let dir = tempfile::tempdir().unwrap();
    let (mut all, vectors) = passages(0..1500);
    // Longer than a block of eight, and than a pack, may be.
    let mut random = SplitMix::new(3);
    let mut noise =
        |bytes: usize| (0..bytes).map(|_| format!("{:02x}", random.below(256))).collect::<String>();
    all[700] = Passage::new("long", "of one pack", noise(3000));
    all[900] = Passage::new("longer", "of several packs", noise(9000));
    let set = VectorSet::new(MODEL, DIM, all.clone(), vectors);
    build_index(&set, dir.path(), &IndexOptions::default(), &Silent).unwrap();
    let snapshot = IndexReader::open(dir.path()).unwrap().snapshot();
    let root = tempfile::tempdir().unwrap();
    let out = root.path().join("dpr");
    let options = SiteOptions { pack_bytes: Some(4096), ..SiteOptions::default() };
    export(&snapshot, &encoder(), &out, &options, &Silent).unwrap();
    let (names, manifest) = whole(&out);
    assert_eq!((manifest.pack_bytes, listed(&out)), (Some(4096), names));
    let mut found = Vec::new();
    let mut larger = 0;
    for part in &manifest.parts {
        assert_eq!(part.packs.iter().map(|pack| pack.passages).sum::<usize>(), part.passages);
        for pack in &part.packs {
            let bytes = fs_err::read(out.join(&pack.file.url)).unwrap();
            assert_eq!(bytes.len() % 4096, 0);
            larger += usize::from(bytes.len() > 4096);
            let passages = unpacked(&bytes);
            assert_eq!(passages.len(), pack.passages);
            assert!(bytes.len() == 4096 || passages.len() == 1);
            found.extend(passages);
        }
    }
    assert_eq!((found, larger), (all, 1));
    // Whoever downloads everything, or reads the site here, needs no packs.
    let question = &passages(9000..9001).1;
    let whole_site = root.path().join("without");
    let without = site(&snapshot, &whole_site);
    assert_eq!((without.manifest.pack_bytes, &without.manifest.parts[0].packs), (None, &Vec::new()));
    let found = |path: &Path| Site::open(path).unwrap().search(question, 5).unwrap();
    assert_eq!(found(&out), found(&whole_site));
    for got in [0, 4095, (4 << 20) + 1] {
        let options = SiteOptions { pack_bytes: Some(got), ..SiteOptions::default() };
        let refused = export(&snapshot, &encoder(), &out, &options, &Silent);
        assert!(matches!(refused, Err(SiteError::PackBytes { .. })));
    }
}
