//! Servers and files that are wrong: errors, never a panic, and never a text that was not verified.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dpr_core::private::encrypted::manifest::Tables as Checked;
use dpr_core::private::encrypted::{ManifestError, Projection, WireError};
use dpr_core::random::SplitMix;
use dpr_files::progress::Silent;
use dpr_private::client::{Client, ClientError};
use dpr_private::{AnswerError, BuildOptions, Tables, build, dir_of_version};
use serde_json::{Value, json};

use crate::support::{DIM, Direct, MODEL, passages, tables, vectors};

fn connect<'a>(
    tables: &'a Tables,
    change: impl FnMut(&str, Vec<u8>) -> Vec<u8> + 'a,
) -> Result<Client<Direct<'a>>, ClientError> {
    let direct = Direct { change: Box::new(change), ..Direct::new(tables) };
    Client::connect(direct, MODEL, None)
}

#[test]
fn a_wrong_answer_is_an_error_or_other_passages_but_never_another_text() {
    let dir = tempfile::tempdir().unwrap();
    let (_, tables) = tables(dir.path(), 300);
    let all = passages(300);
    let question = &vectors(300, 1)[..DIM];
    let mut random = SplitMix::new(6);
    let mut replayed: Option<Vec<u8>> = None;
    for path in ["/v1/encrypted/rank", "/v1/encrypted/fetch"] {
        for wrong in 0..8 {
            let replay = replayed.clone();
            let mut random = SplitMix::new(random.bits());
            let mut client = connect(&tables, |at, mut answer| {
                if at != path {
                    return answer;
                }
                match wrong {
                    0 => answer.truncate(answer.len() - 1),
                    1 => answer.push(0),
                    2 => answer.clear(),
                    3 => answer.truncate(39),
                    4 => answer[20] ^= 1,
                    // Random, of the right length; behind the number of changes; in the head of another kind.
                    5 => answer[48..].iter_mut().for_each(|byte| *byte = random.bits() as u8),
                    6 => answer[4] ^= 3,
                    _ => answer = replay.clone().unwrap_or(answer),
                }
                answer
            })
            .unwrap();
            let found = client.search(question, 3);
            let sent: Vec<String> =
                client.transport().sent.iter().skip(5).map(|sent| sent.1.clone()).collect();
            assert_eq!(sent, ["/v1/encrypted/rank", "/v1/encrypted/fetch"], "asked once, whatever came back");
            match (path, wrong, found) {
                // A ranking has no hash: other passages are found, and their texts are right.
                ("/v1/encrypted/rank", 5 | 7, Ok(hits)) => {
                    assert!(
                        hits.iter().all(|hit| all.iter().any(|p| (&p.id, &p.text) == (&hit.id, &hit.text)))
                    );
                }
                ("/v1/encrypted/fetch", 5 | 7, Err(error)) => {
                    assert!(matches!(error, ClientError::Answer(WireError::Spoiled)), "{error}");
                }
                (_, 5 | 7, found) => panic!("{path} {wrong}: {found:?}"),
                (_, _, found) => {
                    let error = found.unwrap_err();
                    assert!(
                        matches!(error, ClientError::Answer(WireError::Length { .. } | WireError::Head(_))),
                        "{path} {wrong}: {error}"
                    );
                }
            }
            // The answer to another question, to be played again.
            let mut keeping = connect(&tables, |at, answer| {
                if at == path {
                    replayed = Some(answer.clone());
                }
                answer
            })
            .unwrap();
            keeping.search(question, 3).unwrap();
        }
        replayed = None;
        let mut keeping = connect(&tables, |at, answer| {
            if at == "/v1/encrypted/fetch" {
                replayed = Some(answer.clone());
            }
            answer
        })
        .unwrap();
        keeping.search(question, 3).unwrap();
    }
}

#[test]
fn scores_are_of_whole_decoded_numbers_whatever_noise_the_manifest_names() {
    let dir = tempfile::tempdir().unwrap();
    let (index, tables) = tables(dir.path(), 300);
    let content = tables.public_contents().find(|file| file.1 == "projection.f16").unwrap().0;
    let projection = Projection::read(tables.checked(), content.bytes()).unwrap();
    let mut json: Value = serde_json::from_slice(tables.json()).unwrap();
    let path = dir_of_version(dir.path(), 1).join("private.json");
    for noise in [1e-9, 0.0, -1e-300, 1e300] {
        json["rank"]["noise"] = json!(noise);
        fs_err::remove_file(&path).unwrap();
        fs_err::write(&path, json.to_string()).unwrap();
        let tables = Tables::open(dir.path(), 1, index.version()).unwrap();
        let mut client = connect(&tables, |_, answer| answer).unwrap();
        for question in vectors(20, 1).chunks(DIM) {
            let projected = projection.project(question).unwrap();
            let (offset, next) = (projected.inner_product(0.0), projected.inner_product(1.0));
            for hit in client.search(question, 5).unwrap() {
                let decoded = (hit.score - offset) / (next - offset);
                let is_whole = (decoded - decoded.round()).abs() < 1e-2;
                assert!(is_whole || noise == 1e300, "noise {noise}: {decoded}");
                assert!(hit.score.is_finite(), "noise {noise}");
            }
        }
    }
}

/// `dpr index private` exchanges the directory at any time, also while a server opens it.
#[test]
#[cfg_attr(not(unix), ignore = "a directory of mapped files cannot be renamed there")]
fn tables_whose_directory_is_exchanged_while_they_are_opened_are_of_one_manifest_or_refused() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (index, first) = tables(dir.path(), 300);
    drop(first);
    let used = dir_of_version(dir.path(), 1);
    let [other, third] = ["other", "third"].map(|name| elsewhere.path().join(name));
    fs_err::rename(&used, &other).unwrap();
    let options = BuildOptions { dims: Some(32), ..BuildOptions::default() };
    build(dir.path(), &options, &Silent).unwrap();
    let open = || Tables::open(dir.path(), 1, index.version());
    let begun = Instant::now();
    open().unwrap();
    // Long enough for about every second opening to see one directory alone.
    let longest = 4 * begun.elapsed().as_micros() as usize + 1;
    let (over, until) = (AtomicBool::new(false), Instant::now() + Duration::from_secs(60));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = SplitMix::new(3);
            while !over.load(Ordering::Relaxed) && Instant::now() < until {
                for (from, to) in [(&used, &third), (&other, &used), (&third, &other)] {
                    fs_err::rename(from, to).unwrap();
                }
                std::thread::sleep(Duration::from_micros(random.below(longest) as u64));
            }
        });
        let all = passages(300);
        let mut opened = 0;
        while opened < 60 && Instant::now() < until {
            let Ok(tables) = open() else {
                std::thread::yield_now();
                continue;
            };
            opened += 1;
            let client = connect(&tables, |_, answer| answer);
            let hits = client.and_then(|mut client| client.search(&vectors(300, 1)[..DIM], 3));
            // Columns of other tables have other hashes.
            let hits = hits.unwrap_or_else(|error| panic!("opening {opened}: {error}"));
            assert!(hits.iter().all(|hit| all.iter().any(|p| (&p.id, &p.text) == (&hit.id, &hit.text))));
        }
        over.store(true, Ordering::Relaxed);
        assert!(opened > 0, "no opening saw whole tables");
    });
}

#[test]
fn files_that_differ_by_one_bit_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (_, tables) = tables(dir.path(), 100);
    for name in ["projection.f16", "columns.bin", "rank.hint", "text.hint"] {
        for wrong in 0..3 {
            let refused = connect(&tables, |path, mut answer| {
                if path.ends_with(name) {
                    match wrong {
                        0 => answer[7] ^= 4,
                        1 => answer.truncate(answer.len() - 1),
                        _ => answer.push(0),
                    }
                }
                answer
            });
            let error = refused.map(drop).unwrap_err();
            assert!(matches!(error, ClientError::Manifest(ManifestError::Content { .. })), "{name}: {error}");
        }
    }
}

#[test]
fn a_manifest_with_other_parameters_or_sizes_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (_, tables) = tables(dir.path(), 100);
    let json: Value = serde_json::from_slice(tables.json()).unwrap();
    Checked::read(tables.json()).unwrap();
    let changes: [(&str, Value); 20] = [
        ("/rank/set", json!(3)),
        ("/rank/set", json!(2)),
        ("/rank/set", json!(16)),
        ("/rank/dims", json!(31)),
        ("/rank/dims", json!(47)),
        ("/rank/scale", json!(-1.0)),
        ("/rank/row_norm", json!(44.1)),
        ("/rank/row_norm", json!(-1)),
        ("/text/set", json!(1)),
        ("/text/columns", json!(2049)),
        ("/text/columns", json!(4096)),
        ("/text/columns", json!(u64::MAX)),
        ("/text/rows", json!(31)),
        ("/text/rows", json!(1u64 << 40)),
        ("/text/used", json!(0)),
        ("/text/row_norm", json!(1e9)),
        ("/passages", json!(1025)),
        ("/dim", json!(0)),
        ("/files/rank.hint/bytes", json!(1)),
        ("/tables/rank.i8/sha256", json!("zz")),
    ];
    for (at, value) in changes {
        let mut other = json.clone();
        *other.pointer_mut(at).unwrap() = value.clone();
        let refused = Checked::read(other.to_string().as_bytes());
        assert!(refused.is_err(), "{at} = {value}");
    }
    for (field, value) in [("seed", json!("ab")), ("a", json!([1]))] {
        let mut other = json.clone();
        other.as_object_mut().unwrap().insert(field.into(), value);
        assert!(
            matches!(Checked::read(other.to_string().as_bytes()), Err(ManifestError::Json(_))),
            "{field}"
        );
    }
    for (list, name) in [("files", "../secret"), ("tables", "more")] {
        let mut other = json.clone();
        let entry = json!({ "bytes": 1, "sha256": "0".repeat(64) });
        other[list].as_object_mut().unwrap().insert(name.into(), entry);
        assert!(matches!(Checked::read(other.to_string().as_bytes()), Err(ManifestError::File(_))), "{name}");
    }
    let mut other = json;
    for (found, expected) in [(3, ManifestError::Newer { found: 3 }), (1, ManifestError::Older { found: 1 })]
    {
        other["format_version"] = json!(found);
        assert_eq!(Checked::read(other.to_string().as_bytes()), Err(expected));
    }
    let mut random = SplitMix::new(2);
    for _ in 0..2000 {
        let mut bytes = tables.json().to_vec();
        for _ in 0..random.below(4) + 1 {
            let at = random.below(bytes.len());
            bytes[at] = random.bits() as u8;
        }
        bytes.truncate(random.below(bytes.len() * 4));
        let _ = Checked::read(&bytes);
    }
}

#[test]
fn messages_that_are_not_for_these_tables_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (_, tables) = tables(dir.path(), 100);
    let head = |kind: u8, set: u8, count: u16, version: &[u8; 32]| {
        [b"DPRP".as_slice(), &[kind, set], &count.to_le_bytes(), version].concat()
    };
    let version = &tables.checked().version;
    let (rank, fetch) = (tables.checked().rank.question_bytes(), tables.checked().fetch.question_bytes());
    let message = |head: Vec<u8>, bytes: usize| [head, vec![0xff; bytes]].concat();
    assert!(tables.read_rank(&message(head(1, 1, 48, version), rank), 0).is_ok());
    assert!(tables.read_fetch(&message(head(2, 16, 2, version), 2 * fetch)).is_ok());
    // Numbers above the modulus are taken as what they are modulo it.
    let answers = tables.rank(&[tables.read_rank(&message(head(1, 1, 48, version), rank), 0).unwrap()]);
    assert_eq!(answers[0].len(), 40 + 8 + 1024);
    for (kind, set, count, bytes) in [
        (1, 1, 48, rank - 1),
        (1, 1, 48, rank + 1),
        (1, 1, 47, rank),
        (1, 2, 48, rank),
        (2, 1, 48, rank),
        (3, 1, 48, rank),
        (1, 1, u16::MAX, rank),
        (1, 1, 48, 0),
    ] {
        let refused = tables.read_rank(&message(head(kind, set, count, version), bytes), 0);
        assert!(matches!(refused, Err(AnswerError::Message(_))), "{kind} {set} {count} {bytes}");
    }
    for (kind, set, count, bytes) in [
        (2, 16, 0, 0),
        (2, 16, 11, 11 * fetch),
        (2, 16, 2, fetch),
        (2, 16, 2, 2 * fetch + 1),
        (2, 1, 1, fetch),
        (1, 16, 1, fetch),
        (2, 16, u16::MAX, fetch),
    ] {
        let refused = tables.read_fetch(&message(head(kind, set, count, version), bytes));
        assert!(matches!(refused, Err(AnswerError::Message(_))), "{kind} {set} {count} {bytes}");
    }
    let refused = tables.read_rank(&message(head(1, 1, 48, &[9; 32]), rank), 0);
    assert!(matches!(refused, Err(AnswerError::Version { .. })));
    for bytes in 0..40 {
        assert!(tables.read_rank(&vec![0; bytes], 0).is_err() && tables.read_fetch(&vec![1; bytes]).is_err());
    }
}

#[test]
fn damaged_tables_are_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let (index, tables) = tables(dir.path(), 100);
    drop(tables);
    let tables = dir_of_version(dir.path(), 1);
    let names: Vec<_> = fs_err::read_dir(&tables).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names.len(), 8);
    for path in names {
        let whole = fs_err::read(&path).unwrap();
        for wrong in 0..3 {
            let mut bytes = whole.clone();
            match wrong {
                0 => bytes[whole.len() / 2] ^= 1,
                1 => bytes.truncate(whole.len() - 1),
                _ => bytes.clear(),
            }
            fs_err::remove_file(&path).unwrap();
            fs_err::write(&path, &bytes).unwrap();
            let opened = Tables::open(dir.path(), 1, index.version());
            assert!(opened.is_err(), "{} {wrong}", path.display());
        }
        fs_err::remove_file(&path).unwrap();
        assert!(Tables::open(dir.path(), 1, index.version()).is_err(), "without {}", path.display());
        fs_err::write(&path, &whole).unwrap();
    }
    Tables::open(dir.path(), 1, index.version()).unwrap();
}
