//! What the configuration names but does not hold.

use crate::config::errors::Report;
use crate::config::model::TlsFiles;
use crate::config::outside::Outside;
use crate::config::secret::Secret;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;

/// Reads files and variables, and reports under the key that named them.
pub(super) struct Files<'r> {
    pub report: &'r Report<'r>,
    pub outside: &'r dyn Outside,
}

impl Files<'_> {
    /// The secret in a file.
    pub fn secret(&self, key: &str, path: &Path) -> Option<Secret> {
        let bytes = self.read(key, path)?;
        let text = String::from_utf8(bytes).unwrap_or_default();
        self.credential(key, &text, "the file holds")
    }

    /// The secret in an environment variable.
    pub fn variable(&self, key: &str, name: &str) -> Option<Secret> {
        if !self.outside.is_here() {
            return None;
        }
        let Some(text) = self.outside.variable(name) else {
            let problem = format!("the environment variable {name} is not set");
            self.wrong(key, problem, "set it for this process, or remove the key");
            return None;
        };
        self.credential(key, &text, "the variable holds")
    }

    /// Both files parse and belong together.
    pub fn tls(&self, tls: &TlsFiles) {
        if !self.outside.is_here() {
            return;
        }
        const CERT: &str = "listen.tls.cert";
        const KEY: &str = "listen.tls.key";
        let chain = self.read(CERT, &tls.cert).and_then(|pem| {
            let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem).flatten().collect();
            if chain.is_empty() {
                self.wrong(CERT, "no certificate in it", "name a PEM file with the chain");
            }
            (!chain.is_empty()).then_some(chain)
        });
        let key = self.read(KEY, &tls.key).and_then(|pem| {
            let key = PrivateKeyDer::from_pem_slice(&pem).ok();
            let key = key.and_then(|key| any_supported_type(&key).ok());
            if key.is_none() {
                let remedy = "name a PEM file with an RSA, ECDSA or Ed25519 key";
                self.wrong(KEY, "no usable private key in it", remedy);
            }
            key
        });
        if let (Some(chain), Some(key)) = (chain, key)
            && CertifiedKey::new(chain, key).keys_match().is_err()
        {
            let problem = "not the key of the certificate in listen.tls.cert";
            self.wrong(KEY, problem, "name the two files of one pair");
        }
    }

    /// The text of a PEM file with at least one certificate.
    pub fn certificates(&self, key: &str, path: &Path) -> Option<Secret> {
        let pem = self.read(key, path)?;
        let some = CertificateDer::pem_slice_iter(&pem).flatten().next().is_some();
        if !some {
            self.wrong(key, "no certificate in it", "name a PEM file with certificates");
        }
        some.then(|| Secret::from(String::from_utf8_lossy(&pem)))
    }

    /// The text of a PEM file with a private key.
    pub fn private_key(&self, key: &str, path: &Path) -> Option<Secret> {
        let pem = self.read(key, path)?;
        let found = PrivateKeyDer::from_pem_slice(&pem).ok();
        let usable = found.is_some_and(|found| any_supported_type(&found).is_ok());
        if !usable {
            let remedy = "name a PEM file with an RSA, ECDSA or Ed25519 key";
            self.wrong(key, "no usable private key in it", remedy);
        }
        usable.then(|| Secret::from(String::from_utf8_lossy(&pem)))
    }

    /// A file that will be appended to: its directory exists.
    pub fn writable(&self, key: &str, path: &Path) {
        if !self.outside.is_here() {
            return;
        }
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !self.outside.is_directory(directory) {
            self.wrong(key, "its directory does not exist", "create the directory first");
        } else if self.outside.is_directory(path) {
            self.wrong(key, "a directory", "name a file in it");
        }
    }

    fn read(&self, key: &str, path: &Path) -> Option<Vec<u8>> {
        if self.report.in_error(key) || !self.outside.is_here() {
            return None;
        }
        self.outside
            .file(path)
            .map_err(|error| {
                let problem = format!("cannot read the file: {error}");
                self.wrong(key, problem, "name a file this process can read");
            })
            .ok()
    }

    /// A credential travels in a header: visible ASCII only.
    fn credential(&self, key: &str, text: &str, holder: &str) -> Option<Secret> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let problem = format!("{holder} no usable key");
            self.wrong(key, problem, "store one line of visible ASCII characters");
            return None;
        }
        Some(Secret::from(text))
    }

    fn wrong(&self, key: &str, problem: impl Into<String>, remedy: &str) {
        self.report.contradiction(key, &[], problem, remedy);
    }
}
