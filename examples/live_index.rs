//! # An index that changes while it is searched
//!
//! An index directory is built once and then takes updates: passages are added, replaced and deleted while searches go
//! on. This example builds a small index of random vectors, changes it, follows the changes from a reader that could be
//! another process, and compacts it at the end. No model is needed: an index knows vectors, not where they come from.
//!
//! ```sh
//! cargo run --release -p dpr-examples --example live_index
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use dpr_core::Embedding;
use dpr_core::random::SplitMix;
use dpr_data::Passage;
use dpr_files::progress::Silent;
use dpr_index::search::Backend as _;
use dpr_index::vectors::VectorSet;
use dpr_index::{
    ChangeError, CompactionPolicy, FileError, IndexKind, IndexOptions, IndexReader, IndexWriter, NewPassage,
    OpenError, Put, UpdateError, VectorIndex as _, build_index,
};

/// Numbers in a vector.
const DIM: usize = 64;

/// Passages that the index is built with.
const BUILT: usize = 2_000;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // # Building
    //
    // A [`VectorSet`] is what an encoder makes of a corpus: the passages, and one row of numbers for each, one after
    // another, [2000, 64]. It also names the model that made the rows. Vectors of two models cannot be compared, and
    // the name is how a server refuses a question that was encoded by another one.
    let directory = tempfile::tempdir()?;
    let dir = directory.path().join("index");
    let mut random = SplitMix::new(2020);
    let passages: Vec<Passage> = (0..BUILT).map(|n| passage(&format!("p{n}"), "As it was built.")).collect();
    let rows: Vec<f32> = (0..BUILT).flat_map(|_| random_vector(&mut random)).collect();
    let vectors = VectorSet::new("no model: random numbers", DIM, passages, rows);

    // `IndexKind::Exact`, the default, compares a query with every row. `IndexKind::Hnsw` walks a graph towards the
    // query and looks at a small share of the rows, which is what a million passages need.
    let options = IndexOptions { kind: IndexKind::Hnsw, ..IndexOptions::default() };
    let manifest = build_index(&vectors, &dir, &options, &Silent)?;
    println!("built an {} index of {} passages", manifest.kind, manifest.count);

    // # One writer, any number of readers
    //
    // A writer holds the directory's lock until it is dropped. The second argument is what others are told who want to
    // write at the same time; they are refused, and do not wait.
    let writer = Arc::new(IndexWriter::open(&dir, "the live_index example")?);
    let refused = IndexWriter::open(&dir, "somebody else").map(drop).unwrap_err();
    assert!(matches!(refused, OpenError::File(FileError::Busy { .. })));
    println!("refused: {refused}");

    // A reader takes no lock. It may be of another process, on the same disk.
    let reader = IndexReader::open(&dir)?;

    // # Adding
    //
    // `put` returns when the change is on the disk. If the machine loses power a moment later, the passage is there
    // when it starts again. Threads that put at the same time share one wait for the disk.
    let vector = embedding(&mut random)?;
    let new = NewPassage { passage: passage("new", "Added a moment ago."), vector: vector.clone() };
    assert_eq!(writer.put(vec![new])?, Put { added: 1, replaced: 0 });

    // The process that writes finds the passage at once. The reader finds it after it has looked at the directory,
    // which costs two small reads when nothing has changed.
    let best = |reader: &IndexReader| -> Result<String, Box<dyn Error>> {
        let hits = reader.live().search(std::slice::from_ref(&vector), 1, None)?;
        Ok(format!("{}: {}", hits[0][0].id, hits[0][0].text))
    };
    assert_ne!(best(&reader)?, "new: Added a moment ago.");
    assert!(reader.refresh()?, "there was something new");
    assert_eq!(best(&reader)?, "new: Added a moment ago.");

    // A search takes a snapshot of the index, and nothing changes in a snapshot. This one is for later.
    let before = reader.snapshot();

    // # Replacing
    //
    // A passage that is put under an id that is taken replaces the one that has it. The replaced row keeps its number
    // and is never found again.
    let corrected = NewPassage { passage: passage("new", "Corrected."), vector: vector.clone() };
    assert_eq!(writer.put(vec![corrected])?, Put { added: 0, replaced: 1 });
    reader.refresh()?;
    assert_eq!(best(&reader)?, "new: Corrected.");

    // # Deleting
    //
    // Deletions go by id. A request is carried out as a whole or not at all: `p1` stays here, since the other id is
    // unknown.
    let unknown = writer.delete(vec!["p1".to_owned(), "nobody".to_owned()]).unwrap_err();
    assert!(matches!(unknown, UpdateError::Change(ChangeError::UnknownIds { .. })));
    println!("refused: {unknown}");
    writer.delete((0..500).map(|n| format!("p{n}")).collect())?;

    // # Watching
    //
    // A server does not call `refresh` itself: `watch` does that on a thread, which ends with the reader.
    let reader = reader.watch(Duration::from_millis(20))?;
    for _ in 0..500 {
        if reader.snapshot().len() == 1_501 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let index = reader.live().describe();
    println!(
        "version {}: {} passages, {} added and {} removed since it was built",
        index.number, index.count, index.added, index.removed
    );
    assert_eq!((index.count, index.added, index.removed), (BUILT - 500 + 1, 1, 500));

    // The snapshot that was taken before knows nothing of all that.
    assert_eq!(before.len(), BUILT + 1);

    // # Compacting
    //
    // Passages added since the index was built are compared one by one, and deleted ones are passed over. Both cost
    // time once they are many. Compaction builds a new version of the passages as they are now, while searches and
    // updates go on, and puts it in use by one rename. A service leaves that to `compact_in_background`, which builds
    // whenever the policy says so and ends when the value that it returns is dropped.
    let policy = CompactionPolicy::default();
    assert!(policy.is_due(&writer.live().snapshot()), "500 of 2,000 is more than a tenth");
    let built = writer.compact(0, &Arc::default(), &Silent)?;
    println!("compacted: {} passages", built.map_or(0, |manifest| manifest.count));
    let compacting = writer.compact_in_background(policy)?;

    // Readers take the new version up as they take up any other change.
    reader.refresh()?;
    let index = reader.live().describe();
    assert_eq!((index.number, index.count, index.changes), (2, 1_501, 0));
    assert_eq!(best(&reader)?, "new: Corrected.");

    drop(compacting);
    Ok(())
}

fn passage(id: &str, text: &str) -> Passage {
    Passage::new(id, "", text)
}

fn random_vector(random: &mut SplitMix) -> Vec<f32> {
    (0..DIM).map(|_| random.normal() as f32).collect()
}

/// An [`Embedding`] is a vector that was checked: of the right length, finite, and not all zero.
fn embedding(random: &mut SplitMix) -> Result<Embedding, dpr_core::EmbeddingError> {
    Embedding::new(random_vector(random), DIM)
}
