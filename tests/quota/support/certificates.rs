//! A private authority and a pair for 127.0.0.1, which serves as a client's too.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// PEM texts, and the same in files.
pub struct Certificates {
    pub ca: String,
    pub cert: String,
    pub key: String,
    dir: tempfile::TempDir,
}

impl Certificates {
    /// The path of `ca`, `cert` or `key`.
    pub fn file(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }
}

/// With a name of its own: OpenSSL takes a certificate whose subject is its issuer for self-signed, and
/// refuses it.
fn named(name: &str, hosts: Vec<String>) -> CertificateParams {
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A new authority and what it signed.
pub fn certificates() -> Certificates {
    let ca_key = KeyPair::generate().unwrap();
    let mut params = named("authority", Vec::new());
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&ca_key).unwrap();
    let issuer = Issuer::from_params(&params, &ca_key);
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let cert = named("pair", names).signed_by(&key, &issuer).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let texts = [("ca", authority.pem()), ("cert", cert.pem()), ("key", key.serialize_pem())];
    for (name, text) in &texts {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let [(_, ca), (_, cert), (_, key)] = texts;
    Certificates { ca, cert, key, dir }
}
