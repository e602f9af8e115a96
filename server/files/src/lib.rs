//! Files that appear whole or not at all, and what goes with them: directory locks, checksums, memory maps, and the
//! small traits of long work.
//!
//! ```
//! use std::io::Write as _;
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("manifest.json");
//! // Written beside the target, synced to the disk, then renamed: a reader sees the old file or the new one.
//! dpr_files::atomic::write_file(&path, |out| out.write_all(b"{}"))?;
//! let entry = dpr_files::digest::of_file(&path)?;
//! assert_eq!(entry.bytes, 2);
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod atomic;
mod background;
pub mod digest;
mod error;
pub mod faults;
mod foreign;
mod identity;
mod job;
mod lock;
mod mapped;
mod open_files;
pub mod plain;
mod poison;
pub mod progress;
pub mod relative;
pub mod threads;

pub use background::{Background, BackgroundState};
pub use error::Error;
pub use foreign::refuse_foreign;
pub use job::Job;
pub use lock::DirLock;
pub use mapped::Mapped;
pub use open_files::raise_open_files;
pub use poison::{lock, read_lock, write_lock};
