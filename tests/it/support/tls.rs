//! A certificate of our own, and clients that trust it.

use super::bounded;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::net::SocketAddr;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub struct Identity {
    directory: TempDir,
    roots: RootCertStore,
}

impl Identity {
    pub fn new() -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["gate".to_owned()]).unwrap();
        let directory = TempDir::new().unwrap();
        std::fs::write(directory.path().join("tls.crt"), cert.pem()).unwrap();
        std::fs::write(directory.path().join("tls.key"), signing_key.serialize_pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        Self { directory, roots }
    }

    /// The lines of `listen` for a gate.
    pub fn listen(&self) -> String {
        let at = self.directory.path().display();
        format!("tls: {{cert: \"{at}/tls.crt\", key: \"{at}/tls.key\"}}")
    }

    /// A connection that offers these protocols, and the one that was agreed.
    pub async fn connect(
        &self,
        to: SocketAddr,
        offer: &[&str],
    ) -> (TlsStream<TcpStream>, Option<String>) {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let mut config = builder.with_root_certificates(self.roots.clone()).with_no_client_auth();
        config.alpn_protocols = offer.iter().map(|name| name.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(to).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let name = ServerName::try_from("gate").unwrap();
        let connect = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let stream = bounded("a TLS handshake", connect).await.unwrap();
        let agreed = stream.get_ref().1.alpn_protocol();
        let agreed = agreed.map(|name| String::from_utf8(name.to_vec()).unwrap());
        (stream, agreed)
    }
}
