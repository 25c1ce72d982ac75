//! What the replicas of a test are configured with.

use super::LEASE;
use crate::support::Setup;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

/// The configuration of every replica: tenant `a` with a cap, tenant `b` with a large one.
#[derive(Clone, Debug)]
pub struct Plan {
    pub replicas: usize,
    pub cap: usize,
    pub lease: Duration,
    pub timeout: Duration,
    /// Of the Redis; default: the relay of each replica.
    pub url: Option<String>,
    tenant: String,
    pool: String,
    redis: String,
    quota: String,
}

impl Plan {
    pub fn new(cap: usize) -> Self {
        Self {
            replicas: 3,
            cap,
            lease: LEASE,
            timeout: LEASE / 4,
            url: None,
            tenant: String::new(),
            pool: String::new(),
            redis: String::new(),
            quota: String::new(),
        }
    }

    pub fn replicas(self, replicas: usize) -> Self {
        Self { replicas, ..self }
    }

    pub fn url(self, url: &str) -> Self {
        Self { url: Some(url.to_owned()), ..self }
    }

    pub fn lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Waiters instead of refusals.
    pub fn queue(mut self, depth: usize) -> Self {
        let _ =
            write!(self.tenant, "on_limit: queue\nqueue:\n  max_depth: {depth}\n  max_wait: 15s\n");
        self
    }

    /// A further line of the pool.
    pub fn pool(mut self, line: &str) -> Self {
        let _ = writeln!(self.pool, "{line}");
        self
    }

    /// A further line of `quota.redis`.
    pub fn redis(mut self, line: &str) -> Self {
        let _ = writeln!(self.redis, "{line}");
        self
    }

    /// Further lines of `quota`.
    pub fn quota(mut self, lines: &str) -> Self {
        let _ = writeln!(self.quota, "{lines}");
        self
    }

    /// What one replica is started with.
    pub fn setup(&self, engine: SocketAddr, url: &str) -> Setup {
        let tenant = format!("max_in_flight: {}\n{}", self.cap, self.tenant);
        let setup = Setup::new(&[engine]).pool(&self.pool).tenant("a", &tenant);
        setup.tenant("b", "max_in_flight: 1000").with(&self.store(url))
    }

    fn store(&self, url: &str) -> String {
        let (lease, timeout) = (self.lease.as_millis(), self.timeout.as_millis());
        let mut yaml = format!(
            "quota:\n  store: redis\n  replica_lease: {lease}ms\n  operation_timeout: {timeout}ms\n  \
             redis:\n    url: \"{url}\"\n"
        );
        for line in self.redis.lines() {
            let _ = writeln!(yaml, "    {line}");
        }
        for line in self.quota.lines() {
            let _ = writeln!(yaml, "  {line}");
        }
        yaml
    }
}
