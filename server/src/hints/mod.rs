//! Advice on errors: what to type, which only the command line knows.
//!
//! Libraries say what was given, what is allowed and what is wrong; this table adds the command or the flag that helps.

mod model;
mod private;
#[cfg(feature = "train")]
mod training;

use std::error::Error;
use std::path::Path;

use dpr_index::search::{SearchError, ServiceError};
use dpr_index::sparse::SparseError;
use dpr_index::vectors::VectorsError;
use dpr_index::{BuildError, FileError, MatrixError, OpenError, QueryError, TuneError};
#[cfg(feature = "milvus")]
use dpr_milvus::MilvusError;
#[cfg(feature = "postgres")]
use dpr_postgres::PostgresError;
use dpr_private::site::SITE_MANIFEST;
use dpr_serve::server::ListenError;

/// Returns what helps against an error or the first of its causes for which something does.
pub fn hint(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(advice) = of(error) {
            return Some(advice);
        }
        next = within(error).or_else(|| error.source());
    }
    None
}

/// Returns the error that a transparent error stands for: its own `source` passes that one over.
fn within<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    #[cfg(feature = "train")]
    if let Some(error) = training::within(error) {
        return Some(error);
    }
    #[cfg(feature = "eval")]
    match error.downcast_ref() {
        Some(dpr_eval::privacy::PrivacyError::Search(error)) => return Some(error),
        Some(dpr_eval::privacy::PrivacyError::Site(error)) => return Some(error),
        _ => {}
    }
    private::within(error).or_else(|| model::within(error))
}

fn of(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<VectorsError>() {
        return of_vectors(error);
    }
    if let Some(OpenError::HasUpdates { path, .. }) = error.downcast_ref() {
        return Some(format!("put them in with `dpr index compact --index {}`", path.display()));
    }
    if let Some(OpenError::NotAnIndex { path }) = error.downcast_ref() {
        if is_site(path) {
            return Some("it is a static site: search it with `dpr search --privacy local`".to_owned());
        }
        return Some(format!(
            "build one with `dpr index --vectors VECTORS --out {}`, or of words alone with `dpr index --passages FILE \
             --sparse english`",
            path.display()
        ));
    }
    if let Some(advice) = private::of(error) {
        return Some(advice);
    }
    if let Some(SparseError::OtherAnalyzer { expected, .. }) = error.downcast_ref() {
        let (language, keep) = (expected.without_stop_words(), *expected != expected.without_stop_words());
        let keep = if keep { " --keep-stop-words" } else { "" };
        return Some(format!("build it again with `dpr index --sparse {language}{keep}`"));
    }
    if let Some(SparseError::UnknownAnalyzer { .. }) = error.downcast_ref() {
        return Some("update dpr, or build the index again with an analyzer that this one has".to_owned());
    }
    #[cfg(feature = "eval")]
    if let Some(dpr_eval::EvalError::OtherCorpus { .. }) = error.downcast_ref() {
        return Some("--by answer".to_owned());
    }
    #[cfg(feature = "train")]
    if let Some(advice) = training::of(error) {
        return Some(advice);
    }
    if let Some(error) = error.downcast_ref() {
        return of_service(error);
    }
    #[cfg(feature = "milvus")]
    if let Some(error) = error.downcast_ref() {
        return of_milvus(error).map(str::to_owned);
    }
    #[cfg(feature = "postgres")]
    if let Some(error) = error.downcast_ref() {
        return of_postgres(error);
    }
    let advice = model::of(error)
        .or_else(|| error.downcast_ref().and_then(of_listen))
        .or_else(|| error.downcast_ref().and_then(of_open))
        .or_else(|| error.downcast_ref().and_then(of_build))
        .or_else(|| error.downcast_ref().and_then(of_tune))
        .or_else(|| error.downcast_ref().and_then(of_search))
        .or_else(|| error.downcast_ref().and_then(of_query))
        .or_else(|| error.downcast_ref().and_then(of_matrix))
        .or_else(|| error.downcast_ref().and_then(of_file));
    advice.map(str::to_owned)
}

/// Returns whether a path is that of a static site, its folder or its manifest.
fn is_site(path: &Path) -> bool {
    path.join(SITE_MANIFEST).is_file() || (path.ends_with(SITE_MANIFEST) && path.is_file())
}

fn of_vectors(error: &VectorsError) -> Option<String> {
    Some(match error {
        VectorsError::OtherSpec { .. } => "give another --out, or --force to discard them".to_owned(),
        VectorsError::Unfinished { path } => {
            format!("run `dpr encode --out {}` (it continues where it stopped)", path.display())
        }
        VectorsError::Missing { path } => {
            format!("`dpr encode --model MODEL --passages FILE --out {}` writes one", path.display())
        }
        VectorsError::NotVectors { .. } => "give a directory that `dpr encode --out` wrote".to_owned(),
        VectorsError::NotWritten { .. } => "make room and run the same command again".to_owned(),
        VectorsError::File(
            FileError::Missing { .. }
            | FileError::Size { .. }
            | FileError::Checksum { .. }
            | FileError::Corrupt { .. },
        ) => "encode again with --force".to_owned(),
        VectorsError::File(FileError::Foreign { .. }) => "give another --out".to_owned(),
        VectorsError::File(FileError::Busy { .. }) => "wait for it or give another --out".to_owned(),
        VectorsError::File(error) => return of_file(error).map(str::to_owned),
        _ => return None,
    })
}

fn of_listen(error: &ListenError) -> Option<&'static str> {
    Some(match error {
        ListenError::InUse { .. } | ListenError::NotPermitted { .. } => "--listen ADDRESS:PORT chooses it",
        ListenError::Other { .. } => "--listen takes it",
    })
}

fn of_open(error: &OpenError) -> Option<&'static str> {
    Some(match error {
        OpenError::NoVectors { .. } => {
            "build one with `dpr index --vectors`, or search by words (bm25, tfidf)"
        }
        OpenError::WordsAlone { .. } => {
            "build it again of all passages with `dpr index --passages`, or one that can be with `dpr index --vectors`"
        }
        OpenError::NoSparse { .. } => "build it with `dpr index --sparse english` (or another language)",
        OpenError::FileName { .. } => "build the index with `dpr index`, or restore a snapshot of your own",
        OpenError::Count { .. } => "rebuild the index with `dpr index`",
        OpenError::CommitMark { .. } => "`dpr index compact` repairs it",
        _ => return None,
    })
}

const DAMAGED_INDEX: &str = "copy the index again or rebuild it with `dpr index`";

fn of_build(error: &BuildError) -> Option<&'static str> {
    Some(match error {
        BuildError::Write { .. } => "make room or give another --out",
        BuildError::Graph { .. } => "build with --kind exact and report this",
        _ => return None,
    })
}

fn of_tune(error: &TuneError) -> Option<&'static str> {
    Some(match error {
        TuneError::NoGraph { .. } => "build it with `dpr index --kind hnsw`",
        TuneError::Recall { .. } => "build the graph anew with a greater --ef-construction or --m",
        _ => return None,
    })
}

fn of_search(error: &SearchError) -> Option<&'static str> {
    Some(match error {
        SearchError::WrongModel { .. } => {
            "use the model the index was built by, or encode and index the passages with this one (dpr encode, dpr index)"
        }
        SearchError::NoSparse => {
            "build it with `dpr index --vectors ... --sparse english` (or another language), or search by vectors alone"
        }
        SearchError::NoVectors => {
            "build it with `dpr encode` and `dpr index --vectors ...`, or search by words alone"
        }
        SearchError::NothingAllowed => {
            "a search without the filter and with --json prints ids, titles and metadata as the passages have them"
        }
        _ => return None,
    })
}

fn of_query(error: &QueryError) -> Option<&'static str> {
    Some(match error {
        QueryError::Gpu { .. } => "search with --device cpu",
        QueryError::Damaged { .. } => DAMAGED_INDEX,
        _ => return None,
    })
}

fn of_matrix(error: &MatrixError) -> Option<&'static str> {
    Some(match error {
        MatrixError::Empty => "give a corpus with at least one passage to `dpr encode`",
        MatrixError::NotFinite { .. } => "encode the passages again",
        _ => return None,
    })
}

fn of_file(error: &FileError) -> Option<&'static str> {
    Some(match error {
        FileError::Missing { .. }
        | FileError::Size { .. }
        | FileError::Checksum { .. }
        | FileError::Corrupt { .. } => DAMAGED_INDEX,
        FileError::NewerFormat { .. } => "update dpr",
        FileError::Foreign { .. } => "give another --out",
        FileError::Busy { .. } => {
            "wait for it, or, where it is a server, send updates to its /v1/passages; what is built may go to another --out"
        }
        _ => return None,
    })
}

fn of_service(error: &ServiceError) -> Option<String> {
    Some(match error {
        ServiceError::Address { got, why, .. } if got.starts_with("milvus") && why.contains("password") => {
            "put user:password into DPR_MILVUS_TOKEN".to_owned()
        }
        ServiceError::Refused { address, reason, .. }
            if address.starts_with("postgres") && reason.contains("password missing") =>
        {
            "put it into PGPASSWORD or ~/.pgpass, which PGPASSFILE names elsewhere".to_owned()
        }
        ServiceError::Missing { address, .. } => {
            format!("fill it with `dpr index --vectors ... --out '{address}'`")
        }
        ServiceError::Unavailable { .. } => {
            "start it, or see whether the address is right; a load goes on from there with the same command"
                .to_owned()
        }
        ServiceError::Lost { .. } | ServiceError::Interrupted => {
            "the same command goes on from there".to_owned()
        }
        _ => return None,
    })
}

#[cfg(feature = "milvus")]
fn of_milvus(error: &MilvusError) -> Option<&'static str> {
    Some(match error {
        MilvusError::Foreign { .. } => "give another collection, which `dpr index --out` makes",
        _ => return None,
    })
}

#[cfg(feature = "postgres")]
fn of_postgres(error: &PostgresError) -> Option<String> {
    Some(match error {
        PostgresError::NoModel { .. } => {
            "`dpr index --vectors ... --out ADDRESS` writes vectors and the comment, where there is none"
                .to_owned()
        }
        PostgresError::Parameter { name, .. } => format!("give another --{}", name.replace('_', "-")),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_error_that_knows_more_gives_the_advice() {
        let corrupt = || FileError::corrupt("x".as_ref(), "it is short");
        let of = |error: &(dyn Error + 'static)| hint(error).unwrap_or_default();
        assert!(of(&OpenError::from(corrupt())).contains("rebuild it"));
        assert!(of(&BuildError::from(OpenError::from(corrupt()))).contains("rebuild it"));
        assert!(of(&VectorsError::from(corrupt())).contains("--force"));
        assert!(of(&SearchError::from(QueryError::Gpu { reason: String::new() })).contains("--device"));
        assert!(of(&SearchError::NothingAllowed).contains("without the filter and with --json"));
        assert_eq!(hint(&QueryError::K), None);
        let refused = |reason: &str| {
            let (address, reason) = ("postgres://web@db:5432/shop?table=a".to_owned(), reason.to_owned());
            hint(&ServiceError::Refused { address, what: "opening the table", reason })
        };
        let missing = refused("invalid configuration: password missing").unwrap_or_default();
        assert!(missing.contains("PGPASSWORD") && missing.contains("~/.pgpass"), "{missing}");
        assert_eq!(refused("permission denied for table a (SQLSTATE 42501)"), None);
    }

    #[test]
    fn a_service_that_does_not_answer_is_to_be_started_and_a_load_that_stopped_to_be_run_again() {
        let address = || "postgres://web@db:5432/shop?table=a".to_owned();
        let (what, reason) = ("opening the table", "Connection refused".to_owned());
        let away = hint(&ServiceError::Unavailable { address: address(), what, seconds: 5, reason });
        let away = away.unwrap_or_default();
        assert!(away.starts_with("start it, or see whether the address is right"), "{away}");
        for stopped in
            [ServiceError::Interrupted, ServiceError::Lost { address: address(), expected: 2, got: 1 }]
        {
            assert_eq!(hint(&stopped).as_deref(), Some("the same command goes on from there"));
        }
    }

    #[test]
    fn only_an_encoding_that_was_begun_is_to_be_continued() {
        let of = |error: VectorsError| hint(&error).unwrap_or_default();
        let path = || Path::new("wrong").to_path_buf();
        assert!(of(VectorsError::Unfinished { path: path() }).contains("it continues where it stopped"));
        assert!(of(VectorsError::Missing { path: path() }).contains("--out wrong` writes one"));
        assert!(of(VectorsError::NotVectors { path: path() }).contains("that `dpr encode --out` wrote"));
    }
}
