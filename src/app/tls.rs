//! TLS on the proxy port: one certificate, HTTP/1.1 and h2 by ALPN (RFC 7301).

use crate::proxy::{ClientSocket, Protocol};
use pingora_core::listeners::tls::{Acceptor, TlsSettings};
use pingora_core::protocols::tls::server::handshake;
use pingora_core::protocols::{ALPN, Ssl, Stream};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// A certificate or key that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {path}: {problem}")]
pub struct TlsError {
    /// The configuration key that names the file.
    pub key: &'static str,
    pub path: PathBuf,
    pub problem: String,
}

/// Accepts TLS connections with one certificate.
pub struct TlsAcceptor(Acceptor);

impl TlsAcceptor {
    /// Load certificate chain and key (PEM) and check that they belong together.
    ///
    /// # Errors
    /// [`TlsError`] names the file and what is wrong with it.
    pub fn load(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        let certificate = OneCertificate(Arc::new(certified_key(cert, key)?));
        let mut settings = TlsSettings::intermediate("", "").map_err(|error| TlsError {
            key: "listen.tls",
            path: cert.into(),
            problem: error.to_string(),
        })?;
        settings.set_cert_resolver(Arc::new(certificate));
        settings.set_alpn(ALPN::H2H1);
        Ok(Self(settings.build()))
    }

    /// Shake hands within `within`; `None`: the client failed to.
    pub async fn accept(&self, io: ClientSocket, within: Duration) -> Option<(Stream, Protocol)> {
        let stream = timeout(within, handshake(&self.0, io)).await.ok()?.ok()?;
        let protocol = match stream.selected_alpn_proto() {
            Some(ALPN::H2) => Protocol::Http2,
            _ => Protocol::Http1,
        };
        Some((Box::new(stream), protocol))
    }
}

fn certified_key(cert: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let bad_cert =
        |problem: String| TlsError { key: "listen.tls.cert", path: cert.into(), problem };
    let bad_key = |problem: String| TlsError { key: "listen.tls.key", path: key.into(), problem };
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| bad_cert(format!("not a readable PEM certificate chain: {error}")))?;
    if chain.is_empty() {
        return Err(bad_cert("holds no PEM certificate".into()));
    }
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| bad_key(format!("not a readable PEM private key: {error}")))?;
    let signer = any_supported_type(&private)
        .map_err(|error| bad_key(format!("not a usable private key: {error}")))?;
    let certified = CertifiedKey::new(chain, signer);
    certified
        .keys_match()
        .map_err(|error| bad_key(format!("does not belong to listen.tls.cert: {error}")))?;
    Ok(certified)
}

#[derive(Debug)]
struct OneCertificate(Arc<CertifiedKey>);

impl ResolvesServerCert for OneCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}
