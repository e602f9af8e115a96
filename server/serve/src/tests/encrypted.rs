//! Encrypted questions over HTTP: constant shapes, refusals, and several questions in one reading.

use super::*;
use crate::body_kind::BodyKind;
use crate::room::{HeldBody, Room};
use crate::served_tables::TablesOfVersion;
use crate::{ServedTables, Serving};
use dpr_core::private::encrypted::wire::{Head, Kind};
use dpr_core::random::SplitMix;
use dpr_files::progress::Silent;
use dpr_index::search::Description;
use dpr_index::vectors::VectorSet;
use dpr_index::{IndexOptions, IndexReader, IndexWriter, build_index};
use dpr_private::{BuildOptions, Tables, build};
use std::time::Duration;

const WIDTH: usize = 32;

/// A server of an index and its private tables, and the head of messages to it.
struct Bench {
    app: Router,
    version: [u8; 32],
    rank: usize,
    fetch: usize,
    dir: tempfile::TempDir,
}

/// Builds an index and its private tables.
fn tables(dir: &std::path::Path) -> (Tables, Description) {
    let mut random = SplitMix::new(1);
    let passages = (0..60).map(|at| Passage::new(format!("p{at}"), "", format!("Passage {at}."))).collect();
    let rows: Vec<f32> = (0..60 * WIDTH).map(|_| random.normal() as f32).collect();
    let set = VectorSet::new(fingerprint(), WIDTH, passages, rows);
    build_index(&set, dir, &IndexOptions::default(), &Silent).unwrap();
    build(dir, &BuildOptions::default(), &Silent).unwrap();
    let index = IndexReader::open(dir).unwrap().live().describe();
    (Tables::open(dir, index.number, &index.version).unwrap(), index)
}

fn bench(options: Options) -> Bench {
    bench_within(options, Duration::from_secs(10)).0
}

/// A server whose encrypted questions are to be answered within a time, and its tables.
fn bench_within(options: Options, timeout: Duration) -> (Bench, Arc<TablesOfVersion>) {
    let dir = tempfile::tempdir().unwrap();
    let (tables, index) = tables(dir.path());
    let reader = IndexReader::open(dir.path()).unwrap();
    let checked = tables.checked();
    let (version, rank) = (checked.version, checked.rank.question_bytes());
    let fetch = checked.fetch.question_bytes();
    let state = AppState::new(options);
    // Twice the places that the tests need: an answer is sent a moment before the thread that made it gives its
    // place back.
    let served = ServedTables::new(tables, 1, 16, timeout).unwrap();
    let search = Arc::<dpr_index::LiveIndex>::clone(reader.live());
    let of_version = served.of(&index).unwrap();
    let encrypted = Some(Arc::new(served));
    assert!(state.publish_all(Serving { encrypted, ..Serving::new(search) }));
    (Bench { app: app(state), version, rank, fetch, dir }, of_version)
}

impl Bench {
    fn message(&self, kind: Kind, count: u16, bytes: usize, seed: u64) -> Vec<u8> {
        let set = if kind == Kind::Rank { 1 } else { 16 };
        let mut random = SplitMix::new(seed);
        let head = Head { kind, set, count, version: self.version }.write();
        head.into_iter().chain((0..bytes).map(|_| random.bits() as u8)).collect()
    }

    async fn post(&self, path: &str, body: Vec<u8>) -> Reply {
        let request = Request::post(path).header("content-type", "application/octet-stream");
        send(&self.app, request.body(Body::from(body)).unwrap()).await
    }
}

#[tokio::test]
async fn questions_that_are_refused_for_their_cost_leave_no_body_behind() {
    let mut options = Options::default();
    options.limits.max_bodies = 200 << 10;
    let room = options.limits.max_bodies;
    let (bench, _) = bench_within(options, Duration::from_nanos(1));
    for seed in 0..=(room / bench.fetch) as u64 {
        let reply = bench.post("/v1/encrypted/fetch", bench.message(Kind::Fetch, 1, bench.fetch, seed)).await;
        assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY, "{seed}: {}", reply.text());
        assert!(reply.text().contains("too_costly"), "{}", reply.text());
    }
}

#[tokio::test]
async fn questions_whose_clients_leave_before_a_thread_is_free_leave_no_body_behind() {
    let mut options = Options::default();
    options.limits.max_bodies = 200 << 10;
    let (bench, tables) = bench_within(options, Duration::from_secs(10));
    let bench = Arc::new(bench);
    // The only thread is busy.
    let ((begun, has_begun), (finish, finished)) = (mpsc::channel(), mpsc::channel::<()>());
    let (gate, place) = (tables.gate.clone(), tables.gate.enter().unwrap());
    let work = move || (begun.send(()), finished.recv());
    let busy = tokio::spawn(async move { gate.run(place, work).await.map(drop) });
    tokio::task::spawn_blocking(move || has_begun.recv().unwrap()).await.unwrap();
    for seed in 0..10 {
        for (kind, path) in [(Kind::Rank, "/v1/encrypted/rank"), (Kind::Fetch, "/v1/encrypted/fetch")] {
            let asked = Arc::clone(&bench);
            let asking = tokio::spawn(async move {
                let (count, bytes) = if kind == Kind::Rank { (32, asked.rank) } else { (1, asked.fetch) };
                asked.post(path, asked.message(kind, count, bytes, seed)).await
            });
            while tables.count_waiting(kind) == 0 {
                assert!(!asking.is_finished(), "{kind:?} {seed}: {}", asking.await.unwrap().text());
                tokio::task::yield_now().await;
            }
            asking.abort();
            assert!(asking.await.is_err());
            assert_eq!(tables.count_waiting(kind), 0, "{kind:?} {seed}");
        }
    }
    finish.send(()).unwrap();
    busy.await.unwrap().unwrap();
}

#[test]
fn a_thread_answers_the_question_that_it_was_given_to_before_those_that_wait_longer() {
    // One question is all that a thread ends in time.
    let (bench, tables) = bench_within(Options::default(), Duration::from_nanos(1));
    let room = Room::new(1 << 20);
    let ask = |seed| {
        let mut body = HeldBody::new(&room).unwrap();
        let message = bench.message(Kind::Rank, 32, bench.rank, seed);
        body.push(&message, BodyKind::Encrypted, message.len(), &room).unwrap();
        tables.ask(Kind::Rank, body, 0)
    };
    let [mut first, mut second, mut third] = [1, 2, 3].map(ask);
    tables.answer_waiting(Kind::Rank, second.number);
    assert!(second.answer.try_recv().unwrap().is_ok());
    assert!(first.answer.try_recv().is_err() && third.answer.try_recv().is_err());
    // One whose question was taken along answers another's, in turn.
    tables.answer_waiting(Kind::Rank, second.number);
    assert!(first.answer.try_recv().unwrap().is_ok());
    tables.answer_waiting(Kind::Rank, third.number);
    assert!(third.answer.try_recv().unwrap().is_ok());
}

#[tokio::test]
async fn every_question_has_an_answer_of_the_same_length_and_headers() {
    let bench = bench(Options::default());
    let mut shapes = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let rank = bench.post("/v1/encrypted/rank", bench.message(Kind::Rank, 32, bench.rank, seed)).await;
        let fetch =
            bench.post("/v1/encrypted/fetch", bench.message(Kind::Fetch, 3, 3 * bench.fetch, seed)).await;
        for reply in [&rank, &fetch] {
            assert_eq!((reply.status, reply.header("cache-control")), (StatusCode::OK, "no-store"));
            assert_eq!(reply.header("content-encoding"), "");
        }
        let names = |reply: &Reply| reply.headers.keys().map(ToString::to_string).collect::<Vec<_>>();
        shapes.insert((rank.body.len(), fetch.body.len(), names(&rank), names(&fetch)));
    }
    assert_eq!(shapes.len(), 1, "{shapes:?}");
    assert_eq!(shapes.first().unwrap().0, 40 + 8 + 1024);
}

#[tokio::test]
async fn what_is_no_question_for_these_tables_is_refused() {
    let bench = bench(Options::default());
    let rank = bench.message(Kind::Rank, 32, bench.rank, 1);
    let mut other = rank.clone();
    other[20] ^= 1;
    let mut set = rank.clone();
    set[5] = 2;
    let invalid = (422, "invalid_ciphertext".to_owned());
    for (what, body, expected) in [
        ("another version", other, (409, "wrong_version".to_owned())),
        ("another set", set, invalid.clone()),
        ("a byte less", rank[..rank.len() - 1].to_vec(), invalid.clone()),
        ("a byte more", [rank.as_slice(), &[0]].concat(), (413, "body_too_large".to_owned())),
        ("a fetch", bench.message(Kind::Fetch, 1, bench.fetch, 1), invalid.clone()),
        ("a head alone", rank[..40].to_vec(), invalid.clone()),
        ("a short head", rank[..39].to_vec(), invalid.clone()),
        ("nothing", Vec::new(), (400, "empty_body".to_owned())),
        ("JSON", br#"{"vector": [1]}"#.to_vec(), invalid.clone()),
    ] {
        assert_eq!(bench.post("/v1/encrypted/rank", body).await.error(), expected, "{what}");
    }
    for count in [0, 11, u16::MAX] {
        let body = bench.message(Kind::Fetch, count, bench.fetch, 1);
        assert_eq!(bench.post("/v1/encrypted/fetch", body).await.error(), invalid, "{count} columns");
    }
    let mut random = SplitMix::new(7);
    for _ in 0..200 {
        let mut body = rank[..40].to_vec();
        let at = random.below(40);
        body[at] = random.bits() as u8;
        body.extend((0..random.below(100)).map(|_| random.bits() as u8));
        let reply = bench.post("/v1/encrypted/rank", body).await;
        assert!(reply.status.is_client_error(), "{}", reply.status);
    }
    let asked = bench.post("/v1/encrypted/rank?q=secret", rank.clone()).await;
    assert_eq!(asked.error(), (400, "unexpected_query".into()));
    let json = Request::post("/v1/encrypted/rank").header("content-type", "application/json");
    let reply = send(&bench.app, json.body(Body::from(rank)).unwrap()).await;
    assert_eq!(reply.error(), invalid);
}

#[tokio::test]
async fn where_only_private_questions_are_answered_vectors_and_texts_are_not_read() {
    let bench = bench(Options { private_only: true, ..Options::default() });
    let refused = (403, "plain_search_disabled".into());
    let vector = json!({ "model": fingerprint(), "vector": vec![1.0; WIDTH] }).to_string();
    for (path, body) in [
        ("/v1/search", vector.as_str()),
        ("/v1/search", "no JSON"),
        ("/v1/search/text", "{}"),
        ("/v1/answer", "{}"),
    ] {
        let request = Request::post(path).header("content-type", "application/json");
        let reply = send(&bench.app, request.body(Body::from(body.to_owned())).unwrap()).await;
        assert_eq!(reply.error(), refused, "{path} {body}");
    }
    let rank = bench.post("/v1/encrypted/rank", bench.message(Kind::Rank, 32, bench.rank, 1)).await;
    assert_eq!(rank.status, StatusCode::OK, "{}", rank.text());
    assert_eq!(get(&bench.app, "/v1/private").await.json(), json!({ "modes": ["encrypted"] }));
    assert_eq!(get(&bench.app, "/v1/index").await.json()["plain"], json!(false));
}

#[tokio::test]
async fn questions_that_come_together_are_all_answered_with_their_own_answers() {
    let bench = Arc::new(bench(Options::default()));
    let ask = |seed: u64| {
        let bench = Arc::clone(&bench);
        async move { bench.post("/v1/encrypted/rank", bench.message(Kind::Rank, 32, bench.rank, seed)).await }
    };
    let mut alone = Vec::new();
    for seed in 0..8 {
        alone.push(ask(seed).await.body);
    }
    let together: Vec<_> = (0..8).map(|seed| tokio::spawn(ask(seed))).collect();
    for (seed, reply) in together.into_iter().enumerate() {
        let reply = reply.await.unwrap();
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
        assert!(reply.body == alone[seed], "{seed}");
    }
}

#[tokio::test]
async fn the_tables_are_described_and_a_server_without_says_so() {
    let bench = bench(Options::default());
    let described = get(&bench.app, "/v1/encrypted").await;
    assert_eq!(sha256_hex(&described.body), described.header("etag").trim_matches('"'));
    let manifest = described.json();
    for (name, file) in manifest["files"].as_object().unwrap() {
        let sha256 = file["sha256"].as_str().unwrap();
        let content = get(&bench.app, &format!("/v1/encrypted/files/{sha256}/{name}")).await;
        assert_eq!((content.status, sha256_hex(&content.body).as_str()), (StatusCode::OK, sha256));
    }
    for (name, file) in manifest["tables"].as_object().unwrap() {
        let path = format!("/v1/encrypted/files/{}/{name}", file["sha256"].as_str().unwrap());
        assert_eq!(get(&bench.app, &path).await.error(), (404, "not_found".into()));
    }
    let (plain, _dir) = ready(Options::default());
    assert_eq!(get(&plain, "/v1/encrypted").await.error(), (404, "no_encrypted_search".into()));
    let request = Request::post("/v1/encrypted/rank").header("content-type", "application/octet-stream");
    let reply = send(&plain, request.body(Body::from("x")).unwrap()).await;
    assert_eq!(reply.error(), (404, "no_encrypted_search".into()));
}

/// `dpr index private` puts other tables in the place of those that a server has open.
#[tokio::test]
#[cfg_attr(not(unix), ignore = "a mapped file cannot be removed there")]
async fn files_stay_those_that_were_checked_when_others_take_their_paths() {
    let bench = bench(Options::default());
    let manifest = get(&bench.app, "/v1/encrypted").await.json();
    let tables = dpr_private::dir_of_version(bench.dir.path(), 1);
    for (name, file) in manifest["files"].as_object().unwrap() {
        let path = tables.join(name);
        fs_err::remove_file(&path).unwrap();
        fs_err::write(&path, vec![7; file["bytes"].as_u64().unwrap() as usize]).unwrap();
        let sha256 = file["sha256"].as_str().unwrap();
        let address = format!("/v1/encrypted/files/{sha256}/{name}");
        let whole = get(&bench.app, &address).await;
        assert_eq!((whole.status, sha256_hex(&whole.body).as_str()), (StatusCode::OK, sha256), "{name}");
        let part = get_with(&bench.app, &address, &[("range", "bytes=5-9")]).await;
        assert_eq!((part.status.as_u16(), part.body.as_slice()), (206, &whole.body[5..10]), "{name}");
    }
}

#[tokio::test]
async fn what_changed_is_told_by_every_ranking_and_handed_out_whole_up_to_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let (tables, _) = tables(dir.path());
    let writer = IndexWriter::open(dir.path(), "a test").unwrap();
    let (checked, path) = (tables.checked(), format!("/v1/encrypted/delta/{}", tables.version()));
    let (version, rank) = (checked.version, checked.rank.question_bytes());
    let described = checked.clone();
    let state = AppState::new(Options::default());
    let served = ServedTables::new(tables, 1, 16, Duration::from_secs(10)).unwrap();
    let search = Arc::<dpr_index::LiveIndex>::clone(writer.live());
    assert!(state.publish_all(Serving { encrypted: Some(Arc::new(served)), ..Serving::new(search) }));
    let bench = Bench { app: app(state), version, rank, fetch: 0, dir };
    let changes = async || {
        let reply = bench.post("/v1/encrypted/rank", bench.message(Kind::Rank, 32, rank, 1)).await;
        (reply.status == StatusCode::OK).then(|| u64::from_le_bytes(reply.body[40..48].try_into().unwrap()))
    };
    assert_eq!(changes().await, Some(0));
    writer.delete(vec!["p1".into(), "p2".into()]).unwrap();
    assert_eq!(changes().await, Some(2));
    let reply = get(&bench.app, &path).await;
    let delta = dpr_core::private::encrypted::Delta::read(&described, &reply.body).unwrap();
    assert_eq!((delta.changes, delta.removed.len(), delta.codes.len()), (2, 2, 0));
    assert_eq!(reply.header("cache-control"), "no-cache");
    let tag = reply.header("etag").to_owned();
    let known = |tag: &str| Request::get(&path).header("if-none-match", tag.to_owned());
    assert_eq!(send(&bench.app, known(&tag).body(Body::empty()).unwrap()).await.status, 304);
    writer.delete(vec!["p3".into()]).unwrap();
    assert_eq!(send(&bench.app, known(&tag).body(Body::empty()).unwrap()).await.status, 200);
    for other in ["0".repeat(64), "%00".into(), "x".repeat(5000)] {
        let reply = get(&bench.app, &format!("/v1/encrypted/delta/{other}")).await;
        assert_eq!(reply.error(), (409, "wrong_version".into()), "{other:.9}");
        assert!(reply.body.len() < 1000);
    }
    // More than a delta takes.
    let vector = dpr_core::Embedding::new(vec![0.5; WIDTH], WIDTH).unwrap();
    let passage = |at: usize| Passage::new(format!("new{at}"), "", "text");
    let new = |at| dpr_index::NewPassage { passage: passage(at), vector: vector.clone() };
    writer.put((0..1997).map(new).collect()).unwrap();
    assert_eq!((changes().await, get(&bench.app, &path).await.status), (Some(2000), StatusCode::OK));
    let modes = async || get(&bench.app, "/v1/private").await.json()["modes"].clone();
    assert_eq!(modes().await, serde_json::json!(["plain", "encrypted"]));
    writer.put(vec![new(1997)]).unwrap();
    assert_eq!(changes().await, None);
    for path in [path.as_str(), "/v1/encrypted"] {
        assert_eq!(get(&bench.app, path).await.error(), (503, "outdated_tables".into()), "{path}");
    }
    assert_eq!(modes().await, serde_json::json!(["plain"]), "what is refused is not offered");
}

/// Encrypted questions are answered at every moment while a new version of the index is put in use: by a server that
/// writes the index, and by one that follows it.
#[tokio::test(flavor = "multi_thread")]
async fn tables_of_a_new_version_are_there_for_its_first_question() {
    for is_writer in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (tables, before) = tables(dir.path());
        let index = dir.path().to_path_buf();
        let writer =
            IndexWriter::open(dir.path(), "a test").unwrap().with_preparation(move |version, stop| {
                Ok(dpr_private::build_as_before(version, &index, stop, &Silent).map(drop)?)
            });
        let reader = IndexReader::open(dir.path()).unwrap();
        let live = if is_writer { writer.live() } else { reader.live() };
        let served = Arc::new(ServedTables::new(tables, 1, 16, Duration::from_secs(10)).unwrap());
        let (index, expecting) = (dir.path().to_path_buf(), Arc::clone(&served));
        assert!(live.on_version(move |version| {
            assert!(expecting.expect(&index, version.number(), version.version()).unwrap());
        }));
        assert!(!live.on_version(|_| panic!("the second is not called")));
        let state = AppState::new(Options::default());
        let search = Arc::<dpr_index::LiveIndex>::clone(live);
        assert!(state.publish_all(Serving { encrypted: Some(served), ..Serving::new(search) }));
        let app = app(state);
        // Asked before the task, which may run only after the new version is in use.
        let mut tags = vec![get(&app, "/v1/encrypted").await.header("etag").to_owned()];
        let asking = tokio::spawn({
            let live = Arc::clone(live);
            async move {
                while tags.len() < 2 {
                    let is_new = live.describe().version != before.version;
                    let reply = get(&app, "/v1/encrypted").await;
                    assert_eq!(reply.status, StatusCode::OK, "{tags:?}");
                    let tag = reply.header("etag").to_owned();
                    if tags.last() != Some(&tag) {
                        tags.push(tag);
                    }
                    assert!(tags.len() == 2 || !is_new, "tables of the version before");
                }
            }
        });
        writer.delete(vec!["p1".into()]).unwrap();
        assert!(writer.compact(1, &Arc::default(), &Silent).unwrap().is_some());
        assert!(is_writer || reader.refresh().unwrap());
        tokio::time::timeout(Duration::from_secs(60), asking).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn tables_that_are_missing_or_damaged_do_not_take_the_place_of_those_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let (tables, index) = tables(dir.path());
    let version = tables.version();
    let served = ServedTables::new(tables, 1, 16, Duration::from_secs(10)).unwrap();
    let follow = |number| {
        let newest = Description { version: "another".to_owned(), number, ..index.clone() };
        served.follow(dir.path(), &newest)
    };
    assert_eq!(served.follow(dir.path(), &index).unwrap(), None, "they are in use");
    assert_eq!(follow(index.number + 1).unwrap(), None, "they are not there yet");
    let of_another = follow(index.number).unwrap_err().to_string();
    assert!(of_another.contains("another index"), "{of_another}");
    let damaged = dpr_private::dir_of_version(dir.path(), index.number + 1);
    fs_err::create_dir(&damaged).unwrap();
    fs_err::write(damaged.join("private.json"), "{").unwrap();
    assert!(follow(index.number + 1).is_err());
    assert_eq!(served.of(&index).unwrap().tables.version(), version);
}

#[test]
fn tables_that_are_built_again_for_the_same_version_take_the_place_of_those_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let (tables, index) = tables(dir.path());
    let before = tables.version();
    let served = ServedTables::new(tables, 1, 16, Duration::from_secs(10)).unwrap();
    let in_use = || served.of(&index).unwrap().tables.version();
    assert_eq!(served.follow(dir.path(), &index).unwrap(), None);
    let built = build(dir.path(), &BuildOptions { rank_set: 2, ..BuildOptions::default() }, &Silent).unwrap();
    let after = served.follow(dir.path(), &index).unwrap().expect("others are in their place");
    assert_ne!(before, after);
    assert_eq!((in_use(), served.follow(dir.path(), &index).unwrap()), (after.clone(), None));
    // Damaged ones, and none at all, leave those in use.
    let manifest = built.path.join("private.json");
    fs_err::remove_file(&manifest).unwrap();
    assert_eq!((served.follow(dir.path(), &index).unwrap(), in_use()), (None, after.clone()));
    fs_err::write(&manifest, "{").unwrap();
    assert!(served.follow(dir.path(), &index).is_err());
    assert_eq!(in_use(), after);
}
