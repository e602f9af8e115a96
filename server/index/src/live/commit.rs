//! Group commit: the changes of requests that arrive together are checked, written to the log with one sync, and
//! applied.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use dpr_files::lock;

use super::state::{Resolved, State};
use super::{DeltaLimit, LiveIndex};
use crate::wal::record::{self, Change};
use crate::wal::writer::WalWriter;
use crate::{ChangeError, FileError, LoadedIndex, UpdateError};

/// The result of putting passages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// Passages whose ids were new.
    pub added: usize,
    /// Passages that took the place of others.
    pub replaced: usize,
}

/// The state and the log, which one thread at a time changes.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) state: State,
    pub(super) log: WalWriter,
    pub(super) limit: DeltaLimit,
}

/// The changes of one request.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) changes: Vec<Resolved>,
    /// The version in which their ids were looked up.
    pub(super) base: Arc<LoadedIndex>,
    pub(super) outcome: Arc<Mutex<Option<Result<Put, UpdateError>>>>,
}

/// Changes by the requests of a group before this one.
#[derive(Default)]
struct Before {
    /// Ids that they put (`true`) or delete.
    ids: HashMap<String, bool>,
    /// Rows that they add, and their bytes.
    rows: usize,
    bytes: u64,
}

impl Inner {
    /// Writes the changes of a group, syncs once, and answers each request.
    pub(super) fn commit(&mut self, group: Vec<Waiting>, live: &LiveIndex) {
        // Read before the log is written: what is in the log must be applied.
        if let Err(error) = self.state.base().sparse() {
            return refuse(group, &error);
        }
        let (mut frames, mut accepted, mut count) = (Vec::new(), Vec::new(), 0);
        let mut before = Before::default();
        for Waiting { mut changes, base, outcome } in group {
            // A compaction came in between: what was looked up is of the version before.
            let looked_up = match Arc::ptr_eq(&base, self.state.base()) {
                true => Ok(()),
                false => changes.iter_mut().try_for_each(|change| change.look_up(self.state.base())),
            };
            let prepared = looked_up
                .map_err(UpdateError::from)
                .and_then(|()| self.prepare(&changes, &before, &mut frames));
            match prepared {
                Err(error) => answer(&outcome, Err(error)),
                Ok(put) => {
                    before.add(&changes);
                    count += changes.len() as u64;
                    accepted.push((changes, outcome, put));
                }
            }
        }
        if accepted.is_empty() {
            return;
        }
        let appended = self.log.append(&frames, count);
        self.record_health(live);
        if let Err(error) = appended {
            for (_, outcome, _) in &accepted {
                answer(outcome, Err(error.clone()));
            }
            return;
        }
        let mut failed = None;
        let mut answers = Vec::with_capacity(accepted.len());
        for (changes, outcome, put) in accepted {
            // It was checked, so that this does not fail; if it did, memory and disk would differ.
            if let Err(error) = self.state.apply_resolved(changes) {
                failed = Some(self.log.give_up(&error));
            }
            answers.push((outcome, put));
        }
        self.record_health(live);
        live.set(self.state.snapshot());
        for (outcome, put) in answers {
            answer(&outcome, failed.as_ref().map_or(Ok(put), |error| Err(error.clone())));
        }
    }

    /// Records the state of the log for [`LiveIndex::health`].
    pub(super) fn record_health(&self, live: &LiveIndex) {
        live.health.set_log_broken(self.log.broken().map(str::to_owned));
        live.health.set_log_bytes(self.log.position().0);
    }

    /// Checks the changes of a request against what is there, and appends their frame.
    fn prepare(
        &self,
        changes: &[Resolved],
        before: &Before,
        frames: &mut Vec<u8>,
    ) -> Result<Put, UpdateError> {
        let is_there = |change: &Resolved| {
            let known = before.ids.get(change.id()).copied();
            known.unwrap_or_else(|| self.state.contains(change))
        };
        let (mut unknown, mut added, mut replaced) = (Vec::new(), 0, 0);
        for change in changes {
            match (&change.change, is_there(change)) {
                (Change::Delete(id), false) => unknown.push(id.clone()),
                (Change::Delete(_), true) => {}
                (Change::Put(_), false) => added += 1,
                (Change::Put(_), true) => replaced += 1,
            }
        }
        if !unknown.is_empty() {
            return Err(ChangeError::UnknownIds { ids: unknown }.into());
        }
        let max = u32::MAX as usize - before.ids.len();
        if changes.len() >= max.saturating_sub(self.state.rows()) {
            return Err(UpdateError::TooMany { rows: self.state.rows() + changes.len(), max });
        }
        let (rows, bytes) =
            (self.state.delta().rows() + before.rows, self.state.delta().bytes() + before.bytes);
        let (DeltaLimit { rows: max_rows, bytes: max_bytes }, new) = (self.limit, added + replaced);
        // Twice as much once no passage is left: no new version can be built before there is one again.
        let (max_rows, max_bytes) = match self.state.is_empty() {
            true => (max_rows.saturating_mul(2), max_bytes.saturating_mul(2)),
            false => (max_rows, max_bytes),
        };
        if new > 0 && (rows + new > max_rows || bytes + size(changes) > max_bytes) {
            return Err(UpdateError::Full { rows, bytes, max_rows, max_bytes });
        }
        if !record::encode(changes.iter().map(|change| &change.change), frames) {
            return Err(UpdateError::TooLarge);
        }
        Ok(Put { added, replaced })
    }
}

impl Before {
    fn add(&mut self, changes: &[Resolved]) {
        let is_put = |change: &Resolved| matches!(change.change, Change::Put(_));
        self.ids.extend(changes.iter().map(|change| (change.id().to_owned(), is_put(change))));
        self.rows += changes.iter().filter(|change| is_put(change)).count();
        self.bytes += size(changes);
    }
}

/// Returns the bytes that changes add to the delta.
fn size(changes: &[Resolved]) -> u64 {
    let of = |change: &Resolved| match &change.change {
        Change::Put(new) => new.bytes(),
        Change::Delete(_) => 0,
    };
    changes.iter().map(of).sum()
}

/// Answers all requests of a group with an error.
pub(super) fn refuse(group: Vec<Waiting>, error: &FileError) {
    for Waiting { outcome, .. } in group {
        answer(&outcome, Err(error.clone().into()));
    }
}

fn answer(outcome: &Mutex<Option<Result<Put, UpdateError>>>, with: Result<Put, UpdateError>) {
    *lock(outcome) = Some(with);
}
