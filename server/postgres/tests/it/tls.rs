//! Encryption, with a server that does nothing but begin it: the real one's package is built without.

use std::path::Path;
use std::sync::Arc;

use dpr_index::search::ServiceError;
use dpr_postgres::{PostgresError, PostgresIndex};
use rcgen::CertifiedKey;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

/// The message by which a client asks for encryption: its length, 8, and a number.
const REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// An error of the protocol: `FATAL`, SQLSTATE 28000, `it is encrypted`.
const ANSWER: &[u8] = b"E\0\0\0\x29SFATAL\0C28000\0Mit is encrypted here\0\0";

/// Starts a server on a free port of this machine; without a certificate it declines to encrypt.
fn serve(runtime: &tokio::runtime::Runtime, certified: Option<&CertifiedKey<rcgen::KeyPair>>) -> u16 {
    let acceptor = certified.map(|certified| {
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key.into())
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    });
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    runtime.spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(answer(socket, acceptor.clone()));
        }
    });
    port
}

async fn answer(mut socket: TcpStream, acceptor: Option<TlsAcceptor>) -> std::io::Result<()> {
    let mut request = [0; 8];
    socket.read_exact(&mut request).await?;
    assert_eq!(request, REQUEST, "it begins without encryption");
    let Some(acceptor) = acceptor else {
        socket.write_all(b"N").await?;
        let mut more = Vec::new();
        socket.read_to_end(&mut more).await?;
        assert!(more.is_empty(), "it goes on without encryption");
        return Ok(());
    };
    socket.write_all(b"S").await?;
    let mut socket = acceptor.accept(socket).await?;
    let mut startup = [0; 256];
    let _ = socket.read(&mut startup).await?;
    socket.write_all(ANSWER).await?;
    socket.shutdown().await
}

fn open(port: u16, host: &str, options: &str) -> String {
    let address = format!("postgres://u:secret@{host}:{port}/d?{options}").parse().unwrap();
    let error = PostgresIndex::open(&address).unwrap_err();
    assert!(matches!(error, PostgresError::Service(ServiceError::Refused { .. })), "{error:?}");
    error.to_string()
}

#[test]
fn a_server_is_encrypted_with_and_checked_as_the_address_says() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let made = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (right, other) = (made(), made());
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, certified: &CertifiedKey<rcgen::KeyPair>| {
        let file = dir.path().join(name);
        std::fs::write(&file, certified.cert.pem()).unwrap();
        verify(&file)
    };
    let (right_root, other_root) = (write("right.pem", &right), write("other.pem", &other));
    let port = serve(&runtime, Some(&right));
    assert!(open(port, "localhost", &right_root).contains("it is encrypted here"));
    assert!(open(port, "127.0.0.1", "sslmode=require").contains("it is encrypted here"));
    for (host, options) in [("127.0.0.1", &right_root), ("localhost", &other_root)] {
        let error = open(port, host, options);
        assert!(error.contains("certificate") && !error.contains("encrypted here"), "{error}");
    }
    let port = serve(&runtime, None);
    for options in ["sslmode=require", &right_root] {
        let error = open(port, "localhost", options);
        assert!(error.contains("TLS") && !error.contains("secret"), "{error}");
    }
}

fn verify(root: &Path) -> String {
    format!("sslmode=verify-full&sslrootcert={}", root.display())
}
