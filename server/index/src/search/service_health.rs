//! The health of a backend that keeps its passages in a service.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use dpr_files::{BackgroundState, lock};

use crate::Health;

/// The health of a service: since when it does not answer, and the thread that asks it.
#[derive(Debug, Default)]
pub struct ServiceHealth(Mutex<Record>);

#[derive(Debug, Default)]
struct Record {
    away_since: Option<Instant>,
    watching: Option<Arc<BackgroundState>>,
}

impl ServiceHealth {
    fn record(&self) -> MutexGuard<'_, Record> {
        lock(&self.0)
    }

    /// Records whether the service answered, and returns the result as it is.
    ///
    /// # Errors
    /// That of `result`.
    pub fn answered<T, E>(&self, result: Result<T, E>) -> Result<T, E> {
        let mut record = self.record();
        match &result {
            Ok(_) => record.away_since = None,
            Err(_) => drop(record.away_since.get_or_insert_with(Instant::now)),
        }
        drop(record);
        result
    }

    /// Records the thread that asks the service every so often ([`watch`](super::watch)).
    pub fn watched_by(&self, state: &Arc<BackgroundState>) {
        self.record().watching = Some(Arc::clone(state));
    }

    /// Returns the health at this moment.
    pub fn now(&self) -> Health {
        let record = self.record();
        Health {
            away_for: record.away_since.map(|since| since.elapsed()),
            background_alive: record.watching.as_ref().is_none_or(|state| state.is_alive()),
            ..Health::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_away_from_its_first_failure_to_its_next_answer() {
        let health = ServiceHealth::default();
        assert_eq!(health.now(), Health::default());
        assert_eq!(health.answered::<(), _>(Err("away")), Err("away"));
        let first = health.now().away_for.unwrap();
        let _ = health.answered::<(), _>(Err("away"));
        assert!(health.now().away_for.unwrap() >= first, "counted from the first failure");
        assert_eq!(health.answered::<_, ()>(Ok(7)), Ok(7));
        assert_eq!(health.now().away_for, None);
    }
}
