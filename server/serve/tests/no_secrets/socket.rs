//! Connections to a server, with TLS and without.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A socket with or without TLS.
pub(crate) trait Socket:
    tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static
{
}
impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static> Socket for S {}

pub(crate) async fn connect(address: SocketAddr, pem: Option<&str>, protocol: &str) -> Box<dyn Socket> {
    let socket = TcpStream::connect(address).await.unwrap();
    let Some(pem) = pem else { return Box::new(socket) };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    Box::new(TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap())
}
