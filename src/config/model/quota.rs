//! Where slots are counted, and what happens when that place is away.

use crate::config::{RedisForm, RedisHost, RedisUrl, Secret};
use std::time::Duration;

/// The quota store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    pub store: StoreKind,
    pub redis: Redis,
    /// How long the store believes in a replica it hears nothing from.
    pub replica_lease: Duration,
    /// Longest wait for one answer of the store; at most a quarter of `replica_lease`.
    pub operation_timeout: Duration,
    pub when_unavailable: WhenUnavailable,
    pub on_fence: OnFence,
    pub strict_failover: StrictFailover,
    pub floors: QuotaFloors,
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            store: StoreKind::Memory,
            redis: Redis::default(),
            replica_lease: Duration::from_secs(3),
            operation_timeout: Duration::from_millis(50),
            when_unavailable: WhenUnavailable::Escrow,
            on_fence: OnFence::Keep,
            strict_failover: StrictFailover::Off,
            floors: QuotaFloors::default(),
        }
    }
}

/// How to reach the Redis, and what belongs to us there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redis {
    /// With the password of `password_env` or `password_file`, if one of them is given.
    pub url: RedisUrl,
    /// The keys and channels used begin with it: 1 to 64 of `A-Z a-z 0-9 . _ : -`.
    pub key_prefix: String,
    pub tls: RedisTls,
    /// Copies that must confirm a write, with [`StrictFailover::Wait`]; 1 to 10.
    pub copies: u32,
}

impl Default for Redis {
    fn default() -> Self {
        let local = RedisHost { host: "127.0.0.1".to_owned(), port: 6379 };
        Self {
            url: RedisUrl {
                form: RedisForm::Single,
                tls: false,
                hosts: vec![local],
                user: None,
                password: None,
                database: 0,
            },
            key_prefix: "sg".to_owned(),
            tls: RedisTls::default(),
            copies: 1,
        }
    }
}

/// PEM texts for `rediss` addresses, read from their files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisTls {
    /// The authorities to trust instead of those of the system.
    pub ca: Option<Secret>,
    /// This process's certificate chain and its key, if the server asks for one.
    pub client: Option<(Secret, Secret)>,
}

/// Who counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// This process alone.
    Memory,
    /// All replicas together.
    Redis,
}

/// What is admitted while the store is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenUnavailable {
    /// As much as this replica was granted to hold on its own.
    Escrow,
    /// Nothing.
    Closed,
    /// Everything the local count allows; the cap may be exceeded.
    Open,
}

/// What happens to running streams when this replica's lease ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFence {
    Keep,
    Cut,
}

/// Whether a write to the store waits for its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrictFailover {
    Off,
    Wait,
}

/// Slots set aside for the time the store is away, with [`WhenUnavailable::Escrow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaFloors {
    /// Of each cap, the most that all replicas together may set aside; 0 to 100. 0: none.
    pub percent: u32,
    /// Slots of each tenant in each pool that one replica sets aside; 1 to 1000.
    pub per_replica: u32,
    /// How long floors are believed in without a word from their holder.
    pub lease: Duration,
}

impl Default for QuotaFloors {
    fn default() -> Self {
        Self { percent: 0, per_replica: 1, lease: Duration::from_secs(60) }
    }
}
