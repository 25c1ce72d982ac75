//! Where to connect to, in the client library's terms.

use super::hints::Hear;
use crate::config::{Redis, RedisForm, RedisHost, RedisTls, Secret};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::io::tcp::TcpSettings;
use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
    RedisConnectionInfo, RedisResult, TlsCertificates,
};
use std::time::Duration;

/// A silent peer is given up by the kernel after about this long.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// How often one command follows its slot; the operation timeout ends it anyway.
const REDIRECTIONS: u32 = 3;

/// A place to connect to. Its `Debug` and `Display` show neither user nor password.
#[derive(Clone, Debug)]
pub(in crate::quota::redis) struct Target {
    settings: Redis,
}

impl Target {
    /// A place that the configuration names.
    pub fn new(settings: Redis) -> Self {
        if settings.url.tls {
            // Fails if somebody else chose first, which is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        Self { settings }
    }

    /// Whether a cluster stands behind it.
    pub fn form(&self) -> &RedisForm {
        &self.settings.url.form
    }

    /// One server.
    pub fn server(&self) -> RedisResult<Client> {
        let host = self.settings.url.hosts.first();
        self.at(host.ok_or((redis::ErrorKind::InvalidClientConfig, "no host"))?)
    }

    /// The server at this place.
    pub(super) fn at(&self, host: &RedisHost) -> RedisResult<Client> {
        self.client(self.info(host)?)
    }

    /// The sentinels; empty if there are none.
    pub(super) fn sentinels(&self) -> RedisResult<Vec<Client>> {
        let url = &self.settings.url;
        let RedisForm::Sentinel { user, password, .. } = &url.form else { return Ok(Vec::new()) };
        let client = |host| {
            let mut redis = RedisConnectionInfo::default();
            if let Some(user) = user {
                redis = redis.set_username(user);
            }
            if let Some(password) = password {
                redis = redis.set_password(password.expose());
            }
            let info = self.address(host).into_connection_info()?;
            self.client(info.set_redis_settings(redis).set_tcp_settings(tcp()))
        };
        url.hosts.iter().map(client).collect()
    }

    fn client(&self, info: ConnectionInfo) -> RedisResult<Client> {
        match self.certificates() {
            Some(certificates) => Client::build_with_tls(info, certificates),
            None => Client::open(info),
        }
    }

    /// A cluster. The client follows the slot when it moves.
    pub(super) fn cluster(&self, patience: Duration, hear: Hear) -> RedisResult<ClusterClient> {
        let nodes = self.settings.url.hosts.iter().map(|host| self.info(host));
        let nodes = nodes.collect::<RedisResult<Vec<_>>>()?;
        let mut builder = ClusterClientBuilder::new(nodes)
            .use_protocol(ProtocolVersion::RESP3)
            .tcp_settings(tcp())
            .connection_timeout(patience)
            .response_timeout(patience)
            .retries(REDIRECTIONS)
            .push_sender(hear);
        if let Some(certificates) = self.certificates() {
            builder = builder.certs(certificates);
        }
        builder.build()
    }

    fn address(&self, host: &RedisHost) -> ConnectionAddr {
        let (host, port) = (host.host.clone(), host.port);
        if self.settings.url.tls {
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
        } else {
            ConnectionAddr::Tcp(host, port)
        }
    }

    fn info(&self, host: &RedisHost) -> RedisResult<ConnectionInfo> {
        let url = &self.settings.url;
        let mut redis = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP3)
            .set_db(i64::from(url.database));
        if let Some(user) = &url.user {
            redis = redis.set_username(user);
        }
        if let Some(password) = &url.password {
            redis = redis.set_password(password.expose());
        }
        let info = self.address(host).into_connection_info()?;
        Ok(info.set_redis_settings(redis).set_tcp_settings(tcp()))
    }

    /// `None`: those of the system.
    fn certificates(&self) -> Option<TlsCertificates> {
        let RedisTls { ca, client } = &self.settings.tls;
        if !self.settings.url.tls || (ca.is_none() && client.is_none()) {
            return None;
        }
        let bytes = |secret: &Secret| secret.expose().as_bytes().to_vec();
        Some(TlsCertificates {
            client_tls: client.as_ref().map(|(cert, key)| ClientTlsConfig {
                client_cert: bytes(cert),
                client_key: bytes(key),
            }),
            root_cert: ca.as_ref().map(bytes),
        })
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.settings.url.fmt(f)
    }
}

fn tcp() -> TcpSettings {
    let keepalive = redis::io::tcp::socket2::TcpKeepalive::new().with_time(KEEPALIVE);
    TcpSettings::default().set_nodelay(true).set_keepalive(keepalive)
}
