//! TLS: a certificate and its private key in PEM files, which are read again when they change.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};

use dpr_files::{lock, read_lock, write_lock};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::watched::Watched;

/// A certificate and its private key that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file that cannot be opened.
    #[error("cannot read a file for TLS: {0}")]
    Read(#[from] std::io::Error),
    /// A file that holds no certificate.
    #[error("{path} holds no certificate in PEM (BEGIN CERTIFICATE)")]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// A file that holds no private key. What it does hold is not told.
    #[error(
        "{path} holds no private key in PEM (BEGIN PRIVATE KEY), or an encrypted one, which is not supported"
    )]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// Two files that do not belong together, or hold what TLS has no use for.
    #[error("the certificate in {certificate} and the key in {key} cannot be used: {reason}")]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The fault that was found.
        reason: String,
    },
}

/// A certificate and its private key, as they could be used last.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    config: RwLock<Arc<ServerConfig>>,
    watched: Mutex<Watched>,
}

impl Tls {
    /// Reads a certificate, with those between it and its root, and its private key.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        // Before the files are read, so that a change in between is seen.
        let watched = Mutex::new(Watched::new([certificate.to_owned(), key.to_owned()]));
        let config = RwLock::new(read(certificate, key)?);
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), config, watched })
    }

    /// Reads both files again if one has changed and neither is being written. Connections that are accepted from
    /// then on see the new certificate; when it cannot be used, the old one. Returns whether there is a new one.
    ///
    /// # Errors
    /// [`TlsError`], once for each state of the files.
    pub(super) fn reload(&self) -> Result<bool, TlsError> {
        if !lock(&self.watched).has_changed() {
            return Ok(false);
        }
        let config = read(&self.certificate, &self.key)?;
        *write_lock(&self.config) = config;
        Ok(true)
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&read_lock(&self.config)))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Protocol of a connection over TLS that is not HTTP/1.1, as the two ends agree on it (ALPN).
pub(super) const HTTP_2: &[u8] = b"h2";

fn read(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&fs_err::read(certificate)?).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain.ok_or_else(|| TlsError::NoCertificate { path: certificate.to_owned() })?;
    let private = PrivateKeyDer::from_pem_slice(&fs_err::read(key)?);
    let private = private.map_err(|_| TlsError::NoKey { path: key.to_owned() })?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private));
    let mut config = config.map_err(|error| TlsError::Pair {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        reason: error.to_string(),
    })?;
    config.alpn_protocols = vec![HTTP_2.to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate for `localhost` that signed itself, and its key.
    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_pair_is_replaced_when_both_files_are_and_stays_when_they_do_not_fit() {
        let dir = tempfile::tempdir().unwrap();
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| dir.path().join(name));
        let [old, new] = [pair(), pair()];
        fs_err::write(&certificate, &old.0).unwrap();
        fs_err::write(&key, &old.1).unwrap();
        let tls = Tls::open(&certificate, &key).unwrap();
        let before = Arc::as_ptr(&tls.config.read().unwrap());
        let is_old = |tls: &Tls| Arc::as_ptr(&tls.config.read().unwrap()) == before;
        assert!(!tls.reload().unwrap());
        // Clocks of file systems tick every few milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(20));
        // The certificate alone: its key has yet to come.
        fs_err::write(&certificate, &new.0).unwrap();
        assert!(!tls.reload().unwrap(), "it may still be written");
        let error = tls.reload().unwrap_err().to_string();
        assert!(error.contains("cert.pem") && error.contains("key.pem"), "{error}");
        assert!(is_old(&tls) && !tls.reload().unwrap(), "told once, and the old pair stays");
        fs_err::write(&key, &new.1).unwrap();
        assert!(!tls.reload().unwrap() && tls.reload().unwrap() && !is_old(&tls));
    }

    #[test]
    fn files_of_something_else_are_named_and_not_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let (certificate, key) = pair();
        fs_err::write(path("cert.pem"), &certificate).unwrap();
        fs_err::write(path("key.pem"), &key).unwrap();
        fs_err::write(path("odd.pem"), "-----BEGIN SECRET-----\nbWFya2Vk\n-----END SECRET-----\n").unwrap();
        fs_err::write(path("empty.pem"), "").unwrap();
        for (certificate, key, says) in [
            ("absent.pem", "key.pem", "absent.pem"),
            ("cert.pem", "absent.pem", "absent.pem"),
            ("odd.pem", "key.pem", "odd.pem holds no certificate"),
            ("empty.pem", "key.pem", "empty.pem holds no certificate"),
            ("cert.pem", "odd.pem", "odd.pem holds no private key"),
            ("cert.pem", "cert.pem", "cert.pem holds no private key"),
        ] {
            let error = Tls::open(&path(certificate), &path(key)).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("bWFya2Vk"), "{error}");
        }
    }
}
