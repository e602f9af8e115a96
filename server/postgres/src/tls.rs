//! Encryption of connections.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::address::Tls;
use crate::{PostgresAddress, PostgresError};

/// Returns what encrypts connections to an address; `None` where they are not encrypted.
pub(crate) fn connector(address: &PostgresAddress) -> Result<Option<MakeRustlsConnect>, PostgresError> {
    let provider = Arc::new(ring::default_provider());
    let refused = |place: &str, why: String| PostgresError::Certificates { place: place.to_owned(), why };
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| refused("TLS", error.to_string()))?;
    let config = match address.tls {
        Tls::Disable => return Ok(None),
        Tls::Require => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unchecked(provider)))
            .with_no_client_auth(),
        Tls::VerifyFull => builder.with_root_certificates(roots(address)?).with_no_client_auth(),
    };
    Ok(Some(MakeRustlsConnect::new(config)))
}

fn roots(address: &PostgresAddress) -> Result<RootCertStore, PostgresError> {
    let mut roots = RootCertStore::empty();
    let place = match &address.root {
        Some(file) => {
            let place = file.display().to_string();
            let refused =
                |why: String| PostgresError::Certificates { place: file.display().to_string(), why };
            for certificate in
                CertificateDer::pem_file_iter(file).map_err(|error| refused(error.to_string()))?
            {
                let certificate = certificate.map_err(|error| refused(error.to_string()))?;
                roots.add(certificate).map_err(|error| refused(error.to_string()))?;
            }
            place
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            "this system".to_owned()
        }
    };
    match roots.is_empty() {
        true => Err(PostgresError::Certificates { place, why: "there are none".into() }),
        false => Ok(roots),
    }
}

/// Takes every certificate: `sslmode=require` encrypts, and does not ask who answers.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: &str) -> Result<bool, String> {
        connector(&address.parse().unwrap()).map(|tls| tls.is_some()).map_err(|error| error.to_string())
    }

    #[test]
    fn certificates_are_read_when_they_are_to_be_checked() {
        assert_eq!(of("postgres://u@localhost/d"), Ok(false));
        assert_eq!(of("postgres://u@db/d?sslmode=require"), Ok(true));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("root.pem");
        let address = format!("postgres://u@db/d?sslrootcert={}", file.display());
        assert!(of(&address).unwrap_err().contains("root.pem"));
        std::fs::write(&file, "no certificate").unwrap();
        assert!(of(&address).unwrap_err().contains("there are none"));
        std::fs::write(&file, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
        assert!(of(&address).unwrap_err().contains("root.pem"));
    }
}
