//! An index that changes after its private tables were built: what clients find, and what they ask for.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpr_core::Embedding;
use dpr_core::private::encrypted::delta::MOST_DELTA;
use dpr_core::private::encrypted::search::{PUBLIC_FILES, Public};
use dpr_core::private::encrypted::{Delta, WireError};
use dpr_core::random::SplitMix;
use dpr_data::Passage;
use dpr_files::progress::Silent;
use dpr_index::{IndexWriter, NewPassage};
use dpr_private::client::{Client, ClientError};
use dpr_private::{DeltaError, MOST_CHANGED, Tables, build, build_as_before};

use crate::support::{DIM, Direct, MODEL, tables, vectors};

const COUNT: usize = 300;

/// An index that is written, and the private tables of the version that it began with.
struct Bench {
    writer: IndexWriter,
    tables: Tables,
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (_, tables) = tables(dir.path(), COUNT);
        Self { writer: IndexWriter::open(dir.path(), "a test").unwrap(), tables, dir }
    }

    fn put(&self, id: &str, text: &str, vector: &[f32]) {
        let vector = Embedding::new(vector.to_vec(), DIM).unwrap();
        self.writer.put(vec![NewPassage { passage: Passage::new(id, "", text), vector }]).unwrap();
    }

    fn client(&self) -> Client<Direct<'_>> {
        let direct = Direct { live: Some(self.writer.live()), ..Direct::new(&self.tables) };
        let mut client = Client::connect(direct, MODEL, None).unwrap();
        client.transport().sent.clear();
        client
    }
}

/// The methods and paths of what was sent, without versions.
fn paths(client: &mut Client<Direct<'_>>) -> Vec<String> {
    let sent = std::mem::take(&mut client.transport().sent);
    sent.iter().map(|(method, path, _)| format!("{method} {}", path.split('/').nth(3).unwrap())).collect()
}

#[test]
fn added_passages_are_found_with_their_texts_and_removed_ones_are_not() {
    let bench = Bench::new();
    let (old, new) = (vectors(COUNT, 1), vectors(40, 77));
    let mut client = bench.client();
    for (at, vector) in new.chunks(DIM).enumerate() {
        bench.put(&format!("new{at}"), &format!("한국 text \"{at}\"\n"), vector);
    }
    // p7 is replaced by a passage elsewhere, p3 deleted, new5 deleted again, new6 replaced.
    bench.put("p7", "moved", &old[200 * DIM..201 * DIM].iter().map(|x| -x).collect::<Vec<_>>());
    bench.writer.delete(vec!["p3".into(), "new5".into()]).unwrap();
    bench.put("new6", "again", &new[6 * DIM..7 * DIM]);
    for (at, vector) in new.chunks(DIM).enumerate().filter(|(at, _)| *at != 5) {
        let hits = client.search(vector, 3).unwrap();
        let text = if at == 6 { "again".to_owned() } else { format!("한국 text \"{at}\"\n") };
        assert_eq!((hits[0].id.as_str(), &hits[0].text), (&*format!("new{at}"), &text));
        let exact: f32 = vector.iter().map(|x| x * x).sum();
        assert!((hits[0].score - exact).abs() < 0.06, "{} {exact}", hits[0].score);
    }
    let moved: Vec<f32> = old[200 * DIM..201 * DIM].iter().map(|x| -x).collect();
    assert_eq!(client.search(&moved, 1).unwrap()[0].text, "moved");
    for (row, vector) in
        [(3, &old[3 * DIM..4 * DIM]), (7, &old[7 * DIM..8 * DIM]), (5, &new[5 * DIM..6 * DIM])]
    {
        let hits = client.search(vector, 10).unwrap();
        assert_eq!(hits.len(), 10, "as many as there were");
        let gone = ["p3", "new5"];
        let shown =
            hits.iter().find(|hit| gone.contains(&hit.id.as_str()) || hit.id == "p7" && hit.text != "moved");
        assert_eq!(shown, None, "{row}");
    }
    // What plain search finds, as nearly as 8 bits and noise let it.
    let (mut random, mut same) = (SplitMix::new(3), 0);
    for _ in 0..50 {
        let question: Vec<f32> = (0..DIM).map(|_| random.normal() as f32).collect();
        let snapshot = bench.writer.live().snapshot();
        let exact = snapshot.search_exactly(&Embedding::new(question.clone(), DIM).unwrap(), 10).unwrap();
        let exact: HashSet<String> = exact.iter().map(|row| snapshot.passage(row.row).unwrap().id).collect();
        same += client.search(&question, 10).unwrap().iter().filter(|hit| exact.contains(&hit.id)).count();
    }
    assert!(same >= 450, "{same} of 500");
}

#[test]
fn the_delta_is_asked_for_once_a_change_and_by_everybody_alike() {
    let bench = Bench::new();
    let mut client = bench.client();
    let question = &vectors(COUNT, 1)[..DIM];
    let (ask, delta) = (["POST rank", "POST fetch"], ["POST rank", "GET delta", "POST fetch"]);
    client.search(question, 3).unwrap();
    assert_eq!(paths(&mut client), ask);
    bench.put("new", "text", question);
    let mut bodies = Vec::new();
    for (at, question) in vectors(COUNT, 1).chunks(DIM).take(20).enumerate() {
        client.search(question, 3).unwrap();
        bodies.push(
            client.transport().sent.iter().map(|sent| sent.2).filter(|bytes| *bytes > 0).collect::<Vec<_>>(),
        );
        assert_eq!(paths(&mut client), if at == 0 { delta.to_vec() } else { ask.to_vec() });
    }
    assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]));
    bench.writer.delete(vec!["new".into()]).unwrap();
    client.search(question, 3).unwrap();
    assert_eq!(paths(&mut client), delta);
    // The same bytes as before until something changes.
    let snapshot = bench.writer.live().snapshot();
    assert!(Arc::ptr_eq(&bench.tables.delta(&snapshot).unwrap(), &bench.tables.delta(&snapshot).unwrap()));
}

#[test]
fn whoever_takes_one_version_alone_takes_no_changes_of_it() {
    let bench = Bench::new();
    let version = bench.tables.version();
    let direct = Direct { live: Some(bench.writer.live()), ..Direct::new(&bench.tables) };
    let mut client = Client::connect(direct, MODEL, Some(&version)).unwrap();
    let question = &vectors(COUNT, 1)[..DIM];
    client.search(question, 3).unwrap();
    bench.put("new", "text", question);
    let refused = client.search(question, 3).unwrap_err();
    assert!(
        matches!(&refused, ClientError::Version { got, .. } if got.ends_with("and 1 changes since")),
        "{refused}"
    );
}

/// A page has one [`Public`] for all of its searches, those that take one version alone and those that do not.
#[test]
fn a_search_is_told_of_the_changes_of_a_delta_that_another_took_in_or_is_not_ranked_by_them() {
    let bench = Bench::new();
    let question = vectors(1, 5);
    bench.put("new", "text", &question);
    let (checked, delta) = (bench.tables.checked(), bench.tables.delta(&bench.writer.live().snapshot()));
    let file = |name: &str| bench.tables.public_contents().find(|file| file.1 == name).unwrap().0.bytes();
    let mut public = Public::read(checked.clone(), PUBLIC_FILES.map(file)).unwrap();
    // A ranking whose answer says that there are so many changes.
    let ranked = |public: &Public, changes: u64| {
        let (message, pending) = public.ask(public.masks(1).unwrap(), &question).unwrap();
        let asked = bench.tables.read_rank(&message, changes).unwrap();
        let ranking = public.ranked(pending, &bench.tables.rank(&[asked]).concat());
        let told = (ranking.changes(), public.is_behind(&ranking));
        (ranking, told)
    };
    let columns = |public: &Public, ranking| {
        let (message, chosen) = public.choose(ranking).unwrap();
        let answer = bench.tables.fetch(&[bench.tables.read_fetch(&message).unwrap()]);
        public.open(chosen, &answer.concat()).unwrap().columns
    };
    let (without, told) = ranked(&public, 0);
    assert_eq!((told, ranked(&public, 1).1), ((0, false), (1, true)));
    let bytes = delta.unwrap();
    public.update(&bytes).unwrap();
    let added = vec![Delta::read(checked, &bytes).unwrap().texts];
    let found = columns(&public, without);
    assert!(found.len() == 1 && found != added, "one of the tables");
    for (changes, expected) in [(0, (1, false)), (1, (1, false)), (2, (2, true))] {
        let (ranking, told) = ranked(&public, changes);
        assert_eq!((told, columns(&public, ranking) == added), (expected, true), "{changes}");
    }
}

#[test]
fn more_than_everybody_can_be_asked_to_download_is_no_delta() {
    let bench = Bench::new();
    let vector = Embedding::new(vectors(1, 9), DIM).unwrap();
    let put = |ids: std::ops::Range<usize>, text: &str| {
        let passage = |at| Passage::new(format!("new{at}"), "", format!("{at} {text}"));
        let new = |at| NewPassage { passage: passage(at), vector: vector.clone() };
        bench.writer.put(ids.map(new).collect()).unwrap();
        bench.writer.live().snapshot()
    };
    assert!(bench.tables.delta(&put(0..MOST_CHANGED, "")).is_ok());
    let refused = bench.tables.delta(&put(MOST_CHANGED..MOST_CHANGED + 1, "")).unwrap_err();
    assert!(matches!(refused, DeltaError::TooLarge { changed: 2001, .. }), "{refused}");

    let bench = Bench::new();
    let mut random = SplitMix::new(1);
    let mut noise =
        |bytes: usize| (0..bytes).map(|_| char::from(33 + random.below(90) as u8)).collect::<String>();
    let add = |at: usize, text: String| {
        bench.put(&format!("new{at}"), &text, vector.as_slice());
        bench.tables.delta(&bench.writer.live().snapshot())
    };
    let made = add(0, noise(900_000)).unwrap();
    assert!(made.len() <= MOST_DELTA);
    add(1, noise(900_000)).unwrap();
    let refused = add(2, noise(900_000)).unwrap_err();
    assert!(matches!(refused, DeltaError::TooLarge { bytes, .. } if bytes > MOST_DELTA), "{refused}");
}

#[test]
fn a_delta_that_is_wrong_is_refused_and_the_one_before_stays() {
    let bench = Bench::new();
    bench.put("new", "text", &vectors(1, 5));
    bench.writer.delete(vec!["p1".into(), "p2".into(), "p250".into()]).unwrap();
    let checked = bench.tables.checked();
    let whole = bench.tables.delta(&bench.writer.live().snapshot()).unwrap().to_vec();
    let read = |bytes: &[u8]| Delta::read(checked, bytes);
    let delta = read(&whole).unwrap();
    assert_eq!((delta.changes, delta.removed.len(), delta.codes.len()), (4, 3, DIM));
    for bytes in 0..56 + 3 * 4 + DIM {
        assert!(matches!(read(&whole[..bytes]), Err(WireError::Delta(_))), "{bytes} bytes");
    }
    let written = |delta: Delta| delta.write(&checked.version, DIM);
    let removed = |removed: Vec<u32>| written(Delta { removed, ..delta.clone() });
    for (what, bytes) in [
        ("twice", removed(vec![4, 4])),
        ("descending", removed(vec![5, 4])),
        ("beyond the tables", removed(vec![COUNT as u32])),
        ("too many", removed((0..2000).collect())),
        ("another version", delta.write(&[1; 32], DIM)),
        ("other dimensions", delta.write(&checked.version, DIM - 1)),
    ] {
        assert!(matches!(read(&bytes), Err(WireError::Delta(_))), "{what}");
    }
    let mut random = SplitMix::new(2);
    for _ in 0..5000 {
        let mut bytes = whole.clone();
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
        let _ = read(&bytes);
    }
    // Over the way to a client: an error, with nothing sent after it.
    let change = |path: &str, mut answer: Vec<u8>| {
        if path.starts_with("/v1/encrypted/delta/") {
            answer[6] ^= 1;
        }
        answer
    };
    let direct =
        Direct { live: Some(bench.writer.live()), change: Box::new(change), ..Direct::new(&bench.tables) };
    let mut client = Client::connect(direct, MODEL, None).unwrap();
    client.transport().sent.clear();
    let refused = client.search(&vectors(1, 5), 3).unwrap_err();
    assert!(matches!(refused, ClientError::Answer(WireError::Delta(_))), "{refused}");
    assert_eq!(paths(&mut client), ["POST rank", "GET delta"]);
    // Texts that are not those of the added passages are refused before anything depends on what is found: a question
    // that is far from them fails as one that is near.
    let near = vectors(1, 5);
    let far: Vec<f32> = near.iter().map(|number| -number).collect();
    for cut in [4, whole.len() - (56 + 3 * 4 + DIM)] {
        for question in [&near, &far] {
            let spoil = move |path: &str, answer: Vec<u8>| match path.starts_with("/v1/encrypted/delta/") {
                true => answer[..answer.len() - cut].to_vec(),
                false => answer,
            };
            let live = bench.writer.live();
            let direct = Direct { live: Some(live), change: Box::new(spoil), ..Direct::new(&bench.tables) };
            let mut client = Client::connect(direct, MODEL, None).unwrap();
            client.transport().sent.clear();
            let refused = client.search(question, 1).unwrap_err();
            assert!(matches!(refused, ClientError::Passages(_)), "{cut}: {refused}");
            assert_eq!(paths(&mut client), ["POST rank", "GET delta"], "{cut}");
        }
    }
}

/// Builds private tables of a version before it is put in use, as programs do that write an index.
fn prepared(dir: &Path) -> IndexWriter {
    let index = dir.to_path_buf();
    IndexWriter::open(dir, "a test").unwrap().with_preparation(move |version, stop| {
        build_as_before(version, &index, stop, &Silent).map(drop).map_err(Into::into)
    })
}

#[test]
fn a_new_version_has_tables_before_it_is_in_use() {
    let Bench { writer, dir, .. } = Bench::new();
    drop(writer);
    let options = dpr_private::BuildOptions { dims: Some(32), rank_set: 2, ..Default::default() };
    build(dir.path(), &options, &Silent).unwrap();
    let writer = prepared(dir.path());
    let vector = Embedding::new(vectors(1, 5), DIM).unwrap();
    writer.put(vec![NewPassage { passage: Passage::new("new", "", "text"), vector }]).unwrap();
    writer.compact(1, &Arc::default(), &Silent).unwrap().unwrap();
    let snapshot = writer.live().snapshot();
    let open = || Tables::open(dir.path(), snapshot.base().number(), snapshot.base().version());
    let rank = &open().unwrap().checked().manifest.rank.clone();
    assert_eq!((rank.dims, rank.set), (32, 2), "as it was chosen before");
    assert_eq!(open().unwrap().checked().manifest.passages, COUNT + 1);

    // Tables that cannot be built do not keep the version from being used.
    drop(writer);
    let failing =
        IndexWriter::open(dir.path(), "a test").unwrap().with_preparation(|_, _| Err("no room".into()));
    failing.delete(vec!["p1".into()]).unwrap();
    failing.compact(1, &Arc::default(), &Silent).unwrap().unwrap();
    assert_eq!((failing.live().snapshot().base().number(), failing.live().snapshot().changes()), (3, 0));
}

#[test]
fn searches_beside_changes_show_nothing_that_was_deleted_before_and_all_that_was_added() {
    let bench = Bench::new();
    let (rows, fresh) = (vectors(COUNT, 1), vectors(60, 31));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (bench, rows, fresh, over) = (&bench, &rows, &fresh, &over);
            scope.spawn(move || {
                let (mut client, mut random) = (bench.client(), SplitMix::new(thread));
                while !over.load(Ordering::Relaxed) {
                    let before = bench.writer.live().snapshot();
                    let (row, at) = (random.below(COUNT), random.below(60));
                    let hits = client.search(&rows[row * DIM..][..DIM], 5).unwrap();
                    let gone = |id: &str| {
                        let row = id.strip_prefix('p').and_then(|row| row.parse::<usize>().ok());
                        row.is_some_and(|row| !before.contains(row))
                    };
                    assert!(!hits.iter().any(|hit| gone(&hit.id)), "one that was deleted before the search");
                    let is_there = before.passages().any(|one| one.unwrap().0.id == format!("new{at}"));
                    let hits = client.search(&fresh[at * DIM..][..DIM], 1).unwrap();
                    assert!(
                        !is_there || hits[0].id == format!("new{at}"),
                        "one that was added before the search"
                    );
                }
            });
        }
        for (at, vector) in fresh.chunks(DIM).enumerate() {
            bench.put(&format!("new{at}"), &format!("text {at}"), vector);
            bench.writer.delete(vec![format!("p{}", at * 4)]).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        over.store(true, Ordering::Relaxed);
    });
}
