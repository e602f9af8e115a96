//! Damaged logs, and unfinished ones.

use super::*;

/// The log of the version in use.
fn log(dir: &Path) -> PathBuf {
    dir.join(format!("updates-{}.log", IndexDir::new(dir).current_version().unwrap()))
}

#[test]
fn each_of_500_damages_to_the_log_is_found_and_an_unfinished_write_is_none() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    build(&dir, 40, IndexKind::Exact);
    let updater = IndexWriter::open(&dir, "a test").unwrap();
    for i in 0..20 {
        updater.put(vec![new(&format!("n{i}"), &[i as f32 + 0.5; DIM])]).unwrap();
        updater.delete(vec![format!("p{i}")]).unwrap();
    }
    let expected = live(&updater.live().snapshot());
    drop(updater);
    let log = log(&dir);
    let whole = fs_err::read(&log).unwrap();
    let mut random = SplitMix::new(11);
    for number in 0..500 {
        let mut bytes = whole.clone();
        if number % 4 == 0 {
            bytes.truncate(random.below(bytes.len()));
        } else {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        fs_err::write(&log, &bytes).unwrap();
        let error = IndexReader::open(&dir).map(drop).expect_err("it is served");
        assert!(error.to_string().contains("updates-1.log"), "{number}: {error}");
        if number % 10 == 0 {
            assert_eq!(verify(&dir).unwrap().problems.len(), 1);
        }
    }
    // What a killed writer left beyond what it acknowledged.
    let frame = 1536..1536 + 16 + u32::from_le_bytes(whole[1536..1540].try_into().unwrap()) as usize;
    for tail in [vec![7], vec![0; 100], whole[1536..1600].to_vec(), whole[frame].to_vec()] {
        fs_err::write(&log, [&whole[..], &tail].concat()).unwrap();
        assert_eq!(live(&IndexReader::open(&dir).unwrap().live().snapshot()), expected);
        let updater = IndexWriter::open(&dir, "a test").unwrap();
        assert_eq!(live(&updater.live().snapshot()), expected);
        drop(updater);
        assert_eq!(fs_err::metadata(&log).unwrap().len(), whole.len() as u64, "it is cut off");
        fs_err::write(&log, &whole).unwrap();
    }
    // A commit mark that was torn: readers say so, a writer repairs it, and nothing is lost.
    for mark in [512, 1024] {
        let mut bytes = whole.clone();
        bytes[mark] ^= 1;
        fs_err::write(&log, bytes).unwrap();
        assert!(matches!(IndexReader::open(&dir), Err(OpenError::CommitMark { .. })));
        drop(IndexWriter::open(&dir, "a test").unwrap());
        assert_eq!(live(&IndexReader::open(&dir).unwrap().live().snapshot()), expected);
        fs_err::write(&log, &whole).unwrap();
    }
    fs_err::remove_file(&log).unwrap();
    assert!(matches!(IndexReader::open(&dir), Err(OpenError::File(FileError::Missing { .. }))));
    assert!(matches!(LoadedIndex::open(&dir), Err(OpenError::File(FileError::Missing { .. }))));
    assert!(matches!(IndexWriter::open(&dir, "a test"), Err(OpenError::File(FileError::Missing { .. }))));

    let other = root.path().join("other");
    build(&other, 41, IndexKind::Exact);
    drop(IndexWriter::open(&other, "a test").unwrap());
    fs_err::copy(other.join("updates-1.log"), &log).unwrap();
    assert!(matches!(IndexReader::open(&dir), Err(OpenError::OtherLog { .. })));
}
