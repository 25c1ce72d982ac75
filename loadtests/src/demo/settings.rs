//! What the demo must know of the configuration: addresses, tenants, and the keys that stand in
//! the file's comments.

use std::net::SocketAddr;
use std::path::Path;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::plan::hex;

/// The demo's view of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where clients connect.
    pub proxy: SocketAddr,
    /// The admin port.
    pub admin: SocketAddr,
    /// Where the engines listen.
    pub endpoints: Vec<SocketAddr>,
    /// Tenants with a known key.
    pub tenants: Vec<Tenant>,
}

/// A tenant of the demo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// Its id.
    pub id: String,
    /// Its key, in plain text.
    pub key: String,
    /// Its cap.
    pub limit: u32,
}

/// A configuration that the demo cannot use.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// It cannot be read.
    #[error("cannot read {0}: {1}")]
    Read(String, std::io::Error),
    /// It has not the shape of a configuration.
    #[error("{0}: {1}")]
    Shape(String, String),
    /// No comment gives a key with the hash of a tenant.
    #[error(
        "{0}: no comment gives the key of tenant {1:?}; a line `#  {1}  KEY` whose SHA-256 is in \
         its api_keys is needed"
    )]
    NoKey(String, String),
}

#[derive(Deserialize)]
struct Raw {
    listen: RawListen,
    pools: Vec<RawPool>,
    tenants: Vec<RawTenant>,
}

#[derive(Deserialize)]
struct RawListen {
    proxy: SocketAddr,
    admin: SocketAddr,
}

#[derive(Deserialize)]
struct RawPool {
    endpoints: Vec<SocketAddr>,
}

#[derive(Deserialize)]
struct RawTenant {
    id: String,
    #[serde(default)]
    api_keys: Vec<String>,
    max_in_flight: u32,
}

impl Settings {
    /// Reads a file.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let name = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|e| SettingsError::Read(name.clone(), e))?;
        Self::parse(&name, &text)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn parse(name: &str, text: &str) -> Result<Self, SettingsError> {
        let raw: Raw = serde_saphyr::from_str(text)
            .map_err(|e| SettingsError::Shape(name.to_owned(), e.to_string()))?;
        let tenant = |t: RawTenant| match key(text, &t) {
            Some(key) => Ok(Tenant { id: t.id, key, limit: t.max_in_flight }),
            None => Err(SettingsError::NoKey(name.to_owned(), t.id)),
        };
        Ok(Self {
            proxy: raw.listen.proxy,
            admin: raw.listen.admin,
            endpoints: raw.pools.into_iter().flat_map(|p| p.endpoints).collect(),
            tenants: raw.tenants.into_iter().map(tenant).collect::<Result<_, _>>()?,
        })
    }
}

/// The word of a comment whose hash is one of the tenant's.
fn key(text: &str, tenant: &RawTenant) -> Option<String> {
    let comments = text.lines().filter_map(|line| line.trim().strip_prefix('#'));
    let mut words = comments.flat_map(str::split_whitespace);
    let fits = |word: &&str| {
        let hash = format!("sha256:{}", hex(&Sha256::digest(word)));
        tenant.api_keys.contains(&hash)
    };
    words.find(fits).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_demo_can_be_used() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/demo.yaml");
        let settings = Settings::read(&path).unwrap();
        assert_eq!(settings.endpoints.len(), 2);
        let ids: Vec<&str> = settings.tenants.iter().map(|t| t.id.as_str()).collect();
        assert_eq!(ids, ["interactive", "batch"]);
        assert_eq!(settings.tenants[0].limit, 4);
    }

    #[test]
    fn a_tenant_without_a_known_key_is_told() {
        let text = "listen: {proxy: '127.0.0.1:1', admin: '127.0.0.1:2'}\n\
                    pools: [{endpoints: ['127.0.0.1:3']}]\n\
                    tenants: [{id: a, api_keys: ['sha256:00'], max_in_flight: 1}]\n";
        let error = Settings::parse("x.yaml", text).unwrap_err().to_string();
        assert!(error.contains("tenant \"a\""), "{error}");
    }
}
