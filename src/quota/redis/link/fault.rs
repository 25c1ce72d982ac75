//! What an error of the client library or of the server means.

use crate::core::quota::StoreFault;
use redis::{ErrorKind, RedisError};
use std::error::Error;
use std::io;
use std::sync::Arc;

/// Why an operation has no answer.
#[derive(Clone, Debug)]
pub(in crate::quota::redis) struct Fault {
    pub fault: StoreFault,
    /// For the log.
    pub text: String,
}

impl Fault {
    pub fn new(fault: StoreFault, text: impl Into<String>) -> Self {
        Self { fault, text: text.into() }
    }

    /// Whether another connection may do better: this one is broken, or leads to a server that is
    /// not the one we need.
    pub fn ends_connection(&self) -> bool {
        match self.fault {
            StoreFault::Unreachable
            | StoreFault::Tls
            | StoreFault::Authentication
            | StoreFault::ReadOnly
            | StoreFault::Unsupported => true,
            StoreFault::Timeout
            | StoreFault::Permission
            | StoreFault::Busy
            | StoreFault::OutOfMemory
            | StoreFault::Cluster
            | StoreFault::ForeignData
            | StoreFault::OtherLayout
            | StoreFault::NotReplicated
            | StoreFault::Protocol => false,
        }
    }

    /// What an operator can do about it.
    pub fn remedy(&self) -> &'static str {
        match self.fault {
            StoreFault::Timeout => "check the load of the server and the network to it",
            StoreFault::Unreachable => "check quota.redis.url, and that the server runs",
            StoreFault::Tls => {
                "check quota.redis.tls: the authority that signed the server's certificate, and a \
                 client certificate that the server trusts if it asks for one"
            }
            StoreFault::Authentication => "check the user and the password of quota.redis.url",
            StoreFault::Permission => {
                "grant the user what docs/quota.md lists, on its keys and channels"
            }
            StoreFault::ReadOnly => {
                "let quota.redis.url name the primary, or sentinels that know it"
            }
            StoreFault::Busy => "wait for the server, or find out what keeps it busy",
            StoreFault::OutOfMemory => "raise maxmemory; its policy must be noeviction",
            StoreFault::Cluster => "wait for the cluster to serve all its slots again",
            StoreFault::ForeignData | StoreFault::OtherLayout => {
                "choose another quota.redis.key_prefix, or remove what is under this key"
            }
            StoreFault::Unsupported => "use Redis 6.2 or later, or Valkey",
            StoreFault::NotReplicated => {
                "check the copies of the primary; nothing grows until they confirm"
            }
            StoreFault::Protocol => "run the same version of this program on all replicas",
        }
    }
}

impl From<RedisError> for Fault {
    fn from(error: RedisError) -> Self {
        Self { fault: classify(&error), text: error.to_string() }
    }
}

fn classify(error: &RedisError) -> StoreFault {
    match error.code() {
        Some("NOAUTH" | "WRONGPASS") => return StoreFault::Authentication,
        Some("NOPERM") => return StoreFault::Permission,
        Some("READONLY") => return StoreFault::ReadOnly,
        Some("LOADING" | "BUSY" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS") => {
            return StoreFault::Busy;
        }
        Some("OOM") => return StoreFault::OutOfMemory,
        Some("MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "CROSSSLOT") => {
            return StoreFault::Cluster;
        }
        Some("SGTYPE" | "WRONGTYPE") => return StoreFault::ForeignData,
        Some("SGLAYOUT") => return StoreFault::OtherLayout,
        Some("SGIDENT") => return StoreFault::Unsupported,
        Some("ERR") => return by_text(error.detail().unwrap_or_default()),
        _ => {}
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed => StoreFault::Authentication,
        ErrorKind::RESP3NotSupported => StoreFault::Unsupported,
        ErrorKind::ClusterConnectionNotFound => StoreFault::Cluster,
        ErrorKind::Io if is_tls(error) => StoreFault::Tls,
        ErrorKind::Io
        | ErrorKind::MasterNameNotFoundBySentinel
        | ErrorKind::NoValidReplicasFoundBySentinel
        | ErrorKind::EmptySentinelList
        | ErrorKind::InvalidClientConfig
        | ErrorKind::Client => StoreFault::Unreachable,
        _ => StoreFault::Protocol,
    }
}

/// The handshake failed, or the other side ended it with an alert.
fn is_tls(error: &RedisError) -> bool {
    let shared = error.source().and_then(<dyn Error>::downcast_ref::<Arc<dyn Error + Send + Sync>>);
    let inner = shared.and_then(|shared| shared.downcast_ref::<io::Error>()?.get_ref());
    inner.is_some_and(|inner| inner.is::<rustls::Error>())
}

/// Errors that servers give without a code of their own.
fn by_text(text: &str) -> StoreFault {
    let text = text.to_ascii_lowercase();
    if text.contains("acl failure") || text.contains("can't run this command") {
        StoreFault::Permission
    } else if text.contains("unknown command") || text.contains("not allowed from script") {
        StoreFault::Unsupported
    } else if text.contains("invalid password") || text.contains("without any password") {
        StoreFault::Authentication
    } else {
        StoreFault::Protocol
    }
}
