//! Taking in files of keys and certificates that change while the server runs.

use std::sync::Arc;
use std::time::Duration;

use dpr_files::Background;

use super::refusals::Reloaded;
use super::state::AppState;
use super::tls::Tls;

impl AppState {
    /// Looks every so often whether the file of keys or one of the certificate has changed, and takes in what can be
    /// used; what cannot is logged and counted, and the old stays in use. `None` when there is no such file.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn reload_files(
        &self,
        tls: Option<Arc<Tls>>,
        every: Duration,
    ) -> std::io::Result<Option<Background>> {
        if tls.is_none() && self.access().file().is_none() {
            return Ok(None);
        }
        let state = self.clone();
        Background::every("reload", every, move |_| state.reload(tls.as_deref())).map(Some)
    }

    /// Looks once.
    pub(super) fn reload(&self, tls: Option<&Tls>) {
        match self.access().reload() {
            Ok(None) => {}
            Ok(Some(keys)) => tracing::info!(target: "dpr_audit", keys, "the file of keys was read again"),
            Err(error) => self.failed(Reloaded::Keys, &error),
        }
        match tls.map_or(Ok(false), Tls::reload) {
            Ok(false) => {}
            Ok(true) => tracing::info!(target: "dpr_audit", "the certificate was read again"),
            Err(error) => self.failed(Reloaded::Certificate, &error),
        }
    }

    fn failed(&self, file: Reloaded, error: &dyn std::error::Error) {
        self.metrics().refusals().reload_failed(file);
        tracing::error!("{error}; what was in use before stays in use");
    }
}
