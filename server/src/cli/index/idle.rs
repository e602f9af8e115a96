//! Options of `dpr index` that have no effect on what is built: refused, so that nobody counts on them.

use std::fmt::Display;

use dpr_index::{GraphBuilder, HnswParams, IndexKind, Storage};

use super::BuildArgs;
use crate::cli::CliError;
use crate::location::Location;

/// Channels of a new collection of Milvus, where `--channels` is not given.
pub(super) const CHANNELS: u16 = 1;

/// Batches on their way to a service at once, where `--in-flight` is not given.
pub(super) const IN_FLIGHT: u16 = 4;

/// Seconds that a service may be away, where `--patience` is not given.
pub(super) const PATIENCE: u32 = 300;

/// An option, and whether it was given with another value than its default.
type Given = (&'static str, bool);

impl BuildArgs {
    /// Refuses options that have no effect on an index directory of this kind.
    pub(super) fn check_directory(&self) -> Result<(), CliError> {
        let (storage, [builder, m, ef_construction, ef_search]) = (self.storage_given(), self.graph_given());
        if self.passages.is_some() {
            let of_vectors =
                [("--kind", self.kind.is_some()), storage, builder, m, ef_construction, ef_search];
            refuse(&of_vectors, "with --passages, which indexes words and no vectors: leave it out")?;
        } else if self.kind() == IndexKind::Exact {
            let of_graphs = [builder, m, ef_construction, ef_search];
            refuse(&of_graphs, "with --kind exact: leave it out, or give --kind hnsw")?;
        } else {
            refuse(&[storage], "with --kind hnsw: leave it out, or give --kind exact")?;
        }
        let threads = ("--threads", self.threads != 0 && self.sparse.is_none());
        refuse(
            &[threads],
            "without --sparse, since these threads index words: leave it out, or give --sparse",
        )?;
        refuse(&[self.channels_given()], "on an index directory, since it is for Milvus: leave it out")?;
        let of_services =
            [("--in-flight", self.in_flight != IN_FLIGHT), ("--patience", self.patience != PATIENCE)];
        refuse(&of_services, "on an index directory, since it is for Milvus and PostgreSQL: leave it out")
    }

    /// Refuses options that have no effect on the service at `--out`.
    pub(super) fn check_service(&self) -> Result<(), CliError> {
        let (out, [builder, ..]) = (&self.out, self.graph_given());
        let is_exact = ("--kind exact", self.kind == Some(IndexKind::Exact));
        refuse(&[is_exact], format_args!("on {out}, where a graph is built: leave it out"))?;
        refuse(
            &[self.storage_given()],
            format_args!("on {out}, which stores vectors its own way: leave it out"),
        )?;
        refuse(&[builder], format_args!("on {out}, which builds its graph itself: leave it out"))?;
        let threads = ("--threads", self.threads != 0);
        refuse(&[threads], format_args!("on {out}, since these threads index words: leave it out"))?;
        let (channels, is_given) = self.channels_given();
        let is_idle = is_given && is_postgres(out);
        refuse(&[(channels, is_idle)], format_args!("on {out}, since it is for Milvus: leave it out"))
    }

    /// Returns the kind of index of vectors that is asked for.
    pub(super) fn kind(&self) -> IndexKind {
        self.kind.unwrap_or(IndexKind::Exact)
    }

    fn storage_given(&self) -> Given {
        ("--storage", self.storage != Storage::default())
    }

    fn channels_given(&self) -> Given {
        ("--channels", self.channels != CHANNELS)
    }

    /// Returns the options of graphs.
    fn graph_given(&self) -> [Given; 4] {
        let HnswParams { m, ef_construction, ef_search, .. } = HnswParams::default();
        [
            ("--builder", self.builder != GraphBuilder::default()),
            ("--m", self.m != m),
            ("--ef-construction", self.ef_construction != ef_construction),
            ("--ef-search", self.ef_search != ef_search),
        ]
    }
}

/// Refuses the first option that was given; `why` follows "has no effect" in the error.
fn refuse(options: &[Given], why: impl Display) -> Result<(), CliError> {
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(format!("{option} has no effect {why}").into()),
        None => Ok(()),
    }
}

#[cfg(feature = "postgres")]
fn is_postgres(location: &Location) -> bool {
    matches!(location, Location::Postgres(_))
}

#[cfg(not(feature = "postgres"))]
fn is_postgres(_: &Location) -> bool {
    false
}
