//! Builds of an index: from vectors and passages to a published version.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::options::IndexOptions;
use super::writing::{CREATED_BY, Writing, check_count, of_sparse};
use crate::sparse::{STEP, SparseOptions, SparseWriter};
use crate::vectors::VectorSet;
use crate::{
    BuildError, GraphBuilder, INDEX_FORMAT, IndexDir, IndexKind, IndexManifest, Matrix, Storage, limits,
};
use dpr_data::Passage;
use dpr_files::progress::Progress;

/// Builds an index of `vectors` and publishes it as the newest version in `out`.
///
/// The index that was there answers until the new one is whole and on disk, and stays when anything fails. Its
/// version is kept beside the new one until the build after.
///
/// # Errors
/// [`BuildError`]: no vectors, duplicate passage ids, passages longer than [`limits`] allow, numbers that are not
/// finite, parameters out of range, an unwritable or foreign `out`, a full disk, another build in `out`, or
/// [`BuildError::Interrupted`].
pub fn build_index(
    vectors: &VectorSet,
    out: &Path,
    options: &IndexOptions,
    progress: &dyn Progress,
) -> Result<IndexManifest, BuildError> {
    let passages = &vectors.passages;
    check(passages)?;
    match options.kind {
        IndexKind::Exact => {}
        IndexKind::Hnsw => options.hnsw.check()?,
        IndexKind::Sparse => return Err(BuildError::SparseOfVectors),
    }
    let id_of = |row: usize| passages[row].id.as_str();
    let matrix = Arc::new(Matrix::new(vectors.rows.clone(), passages.len(), vectors.dim, id_of)?);

    let mut draft = Writing::new(IndexDir::new(out).publisher()?, out, options)?;
    draft.write_vectors(matrix.rows())?;
    let passages = passages.as_slice();
    draft.complete(&vectors.model_fingerprint, &matrix, &passages, options, progress)?.publish(out)
}

/// Builds an index without vectors, for BM25 and TF-IDF alone, and publishes it as [`build_index`] does.
///
/// # Errors
/// As [`build_index`], without what concerns vectors.
pub fn build_sparse_index(
    passages: &[Passage],
    out: &Path,
    sparse: SparseOptions,
    stop: &Arc<AtomicBool>,
    progress: &dyn Progress,
) -> Result<IndexManifest, BuildError> {
    check(passages)?;
    build_sparse_index_of(passages.iter().map(Ok::<_, BuildError>), out, sparse, stop, progress)
}

/// Builds an index without vectors as [`build_sparse_index`] does, of passages that come one at a time, so that it
/// takes the memory of their ids and not of their texts. Ends at the first error, and nothing is published then.
///
/// # Errors
/// As [`build_sparse_index`], and what `passages` gives.
pub fn build_sparse_index_of<P: Borrow<Passage>, E: From<BuildError>>(
    passages: impl Iterator<Item = Result<P, E>>,
    out: &Path,
    sparse: SparseOptions,
    stop: &Arc<AtomicBool>,
    progress: &dyn Progress,
) -> Result<IndexManifest, E> {
    let options = IndexOptions { kind: IndexKind::Sparse, stop: Arc::clone(stop), ..IndexOptions::default() };
    let publisher = IndexDir::new(out).publisher().map_err(BuildError::from)?;
    let mut draft = Writing::new(publisher, out, &options)?;
    let dir = draft.make_sparse_dir()?;
    let mut words = SparseWriter::new(&dir, sparse).map_err(|error| of_sparse(error, out))?;
    progress.start("indexing terms", "passages", passages.size_hint().0 as u64);
    let checked = passages.map(|passage| {
        let passage = passage?;
        limits::check(passage.borrow()).map_err(BuildError::from)?;
        Ok::<P, E>(passage)
    });
    let mut told = 0;
    let count = draft.write_passages(checked, &mut |passage| {
        words.add(passage)?;
        if words.rows().is_multiple_of(STEP as u64) {
            progress.advance(STEP as u64);
            told += STEP as u64;
        }
        Ok(())
    })?;
    progress.advance(count as u64 - told);
    let written = words.finish().map_err(|error| of_sparse(error, out));
    progress.finish();
    written?;
    let sparse = Some(draft.add_sparse_files(&dir, sparse)?);
    let draft = draft.finish(IndexManifest {
        format_version: INDEX_FORMAT,
        model_fingerprint: String::new(),
        dim: 0,
        metric: IndexManifest::INNER_PRODUCT.to_owned(),
        kind: IndexKind::Sparse,
        storage: Storage::F32,
        count,
        max_squared_norm: 0.0,
        sparse,
        hnsw: None,
        builder: GraphBuilder::default(),
        created_by: CREATED_BY.to_owned(),
        files: BTreeMap::new(),
        crc32: BTreeMap::new(),
    })?;
    Ok(draft.publish(out)?)
}

fn check(passages: &[Passage]) -> Result<(), BuildError> {
    check_count(passages.len())?;
    passages.iter().try_for_each(limits::check)?;
    check_ids(passages)
}

fn check_ids(passages: &[Passage]) -> Result<(), BuildError> {
    let mut rows = HashMap::with_capacity(passages.len());
    for (second, passage) in passages.iter().enumerate() {
        if let Some(first) = rows.insert(passage.id.as_str(), second) {
            return Err(BuildError::DuplicateId { id: passage.id.clone(), first, second });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::pointer::{PASSAGES, PASSAGES_TABLE, VECTORS};
    use super::*;
    use crate::vectors::{Shard, VectorsSpec, VectorsWriter};
    use crate::{LoadedIndex, MatrixError};
    use dpr_files::progress::Silent;
    use fs_err as fs;

    /// Writes 20 vectors of four numbers, `first` and those after it.
    fn encode(dir: &Path, first: f32) -> VectorSet {
        let passage = |at| Passage::new(format!("p{at}"), "", "Text.");
        let passages: Vec<Passage> = (0..20).map(passage).collect();
        let spec = VectorsSpec {
            model_fingerprint: "ab".repeat(32),
            dim: 4,
            corpus_sha256: first.to_string(),
            shard: Shard::WHOLE,
            part_size: 7,
            precision: dpr_core::Precision::F32,
        };
        VectorsWriter::clear(dir).unwrap();
        let writer = VectorsWriter::open(dir, spec, &passages).unwrap();
        for part in writer.missing_parts() {
            let rows: Vec<f32> = (part.start * 4..part.end * 4).map(|at| first + at as f32).collect();
            writer.write_part(&part, &rows).unwrap();
        }
        writer.finish().unwrap();
        VectorSet::read(&[dir.to_path_buf()]).unwrap()
    }

    #[test]
    fn vectors_of_one_directory_are_linked_and_stay_when_it_is_written_anew() {
        let root = tempfile::tempdir().unwrap();
        let [vectors, linked, copied] = ["vectors", "linked", "copied"].map(|name| root.path().join(name));
        let set = encode(&vectors, 1.0);
        let in_memory = VectorSet { rows: set.rows.to_vec().into(), ..set.clone() };
        let options = IndexOptions::default();
        let manifests = [(&set, &linked), (&in_memory, &copied)]
            .map(|(set, out)| build_index(set, out, &options, &Silent).unwrap());
        assert_eq!(manifests[0], manifests[1], "a link is vouched for as a copy is");
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            let names = |out: &Path| fs::metadata(out.join("v-1").join(VECTORS)).unwrap().nlink();
            assert_eq!((names(&linked), names(&copied)), (2, 1));
        }

        let other = encode(&vectors, 5.0);
        assert_eq!((set.rows[0], other.rows[0]), (1.0, 5.0));
        let index = LoadedIndex::open(&linked).unwrap();
        assert_eq!(index.matrix().unwrap().as_slice(), &set.rows[..]);
    }

    #[cfg(feature = "sparse")]
    #[test]
    fn passages_that_come_one_at_a_time_make_the_same_index_and_an_error_among_them_makes_none() {
        use crate::LoadedSparse;
        use crate::sparse::{Analyzer, Scoring};
        let dir = tempfile::tempdir().unwrap();
        let sparse = SparseOptions { analyzer: Analyzer::English, threads: 1 };
        let passage =
            |row: usize| Passage::new(format!("p{row}"), "A title", format!("word{} of many", row % 7));
        let passages: Vec<Passage> = (0..3000).map(passage).collect();
        let (at_once, streamed) = (dir.path().join("a"), dir.path().join("b"));
        build_sparse_index(&passages, &at_once, sparse, &Arc::default(), &Silent).unwrap();
        let stream = |passages: Vec<Result<Passage, BuildError>>, out: &Path| {
            build_sparse_index_of(passages.into_iter(), out, sparse, &Arc::default(), &Silent)
        };
        let manifest = stream(passages.iter().cloned().map(Ok).collect(), &streamed).unwrap();
        assert_eq!(manifest.count, 3000);
        for name in [PASSAGES, PASSAGES_TABLE] {
            let of = |out: &Path| fs::read(out.join("v-1").join(name)).unwrap();
            assert_eq!(of(&at_once), of(&streamed), "{name}");
        }
        let find =
            |out: &Path| LoadedSparse::open(out).unwrap().index.search("word3", 50, Scoring::PAPER).unwrap();
        assert_eq!(find(&at_once), find(&streamed));

        let nothing = dir.path().join("c");
        let mut twice: Vec<Result<Passage, BuildError>> = passages.iter().take(9).cloned().map(Ok).collect();
        twice.insert(7, Ok(passage(4)));
        let error = stream(twice, &nothing).unwrap_err();
        assert!(
            matches!(&error, BuildError::DuplicateId { id, first: 4, second: 7 } if id == "p4"),
            "{error}"
        );
        let error = stream(vec![Ok(passage(1)), Err(BuildError::Interrupted)], &nothing).unwrap_err();
        assert!(matches!(error, BuildError::Interrupted), "{error}");
        let error = stream(Vec::new(), &nothing).unwrap_err();
        assert!(matches!(error, BuildError::Matrix(MatrixError::Empty)), "{error}");
        assert!(LoadedSparse::open(&nothing).is_err());
    }
}
