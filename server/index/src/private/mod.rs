//! Blurred search: what an index directory, a cluster or a table is searched with for a question that was projected and
//! blurred, and what goes back to be re-ranked.
//!
//! A *blur directory* holds the [projection](dpr_core::private::projection) of one model's passages and the number of
//! candidates that each [level](Level) needs on one index. [`BlurDir::open`] checks it; [`Candidate`]s are found
//! through any [`Backend`](crate::search::Backend). [`principal_directions`] and [`calibrate`] make the directory's
//! contents.

mod calibrate;
mod candidates;
mod directions;
mod directory;

pub use calibrate::{CANDIDATES, Calibration, calibrate};
pub use candidates::{Candidate, candidates};
pub use directions::{DirectionsError, SAMPLE, principal_directions};
pub use directory::{BLUR_FORMAT, BlurDir, BlurManifest, LevelEntry, PROJECTION};
pub use dpr_core::private::blur::Level;
