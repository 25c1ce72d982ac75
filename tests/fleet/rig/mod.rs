//! Replicas, their relays, their Redis and their engine.

mod books;
mod load;
mod plan;

pub use books::{Ledger, Status};
pub use load::{Load, Tally, ask, stream};
pub use plan::Plan;

use crate::relay::Relay;
use crate::server::RedisServer;
use crate::support::{Call, Gate, OwnEngine, Proto, eventually};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use streamgate_loadtests::engine::EngineConfig;

/// Short, but long enough for a machine that is busy with other tests.
pub const LEASE: Duration = Duration::from_secs(2);
/// Within a lease and this, slots of the dead and of a forgotten memory are granted again.
pub const SECOND: Duration = Duration::from_secs(1);
pub const MS: Duration = Duration::from_millis(1);
/// What a busy machine may add to a measured time.
pub const SLACK: Duration = Duration::from_millis(750);
/// More tokens than any test waits for.
pub const LONG: u32 = 100_000;

/// Everything of one test. Replica `i` reaches the Redis through relay `i`.
pub struct Fleet {
    /// Shared, where two fleets have one.
    pub redis: Arc<RedisServer>,
    pub relays: Vec<Relay>,
    pub gates: Vec<Gate>,
    pub engine: OwnEngine,
    pub plan: Plan,
}

impl Fleet {
    /// Three replicas with their lease, after the learning period of a new memory.
    pub async fn start(plan: Plan) -> Self {
        Self::over(RedisServer::start(&[]), plan).await
    }

    /// The same over this server.
    pub async fn over(redis: impl Into<Arc<RedisServer>>, plan: Plan) -> Self {
        let fleet = Self::unready(redis, plan).await;
        for gate in &fleet.gates {
            gate.calm().await;
        }
        fleet
    }

    /// The same, whether or not the server lets them in.
    pub async fn unready(redis: impl Into<Arc<RedisServer>>, plan: Plan) -> Self {
        let engine = OwnEngine::start(EngineConfig::instant(20 * MS)).await;
        let redis = redis.into();
        let mut fleet = Self { redis, relays: Vec::new(), gates: Vec::new(), engine, plan };
        for _ in 0..fleet.plan.replicas {
            fleet.join().await;
        }
        fleet
    }

    /// One more replica, ready or not.
    pub async fn join(&mut self) {
        let relay = Relay::start(self.redis.port()).await;
        let url = self.plan.url.clone().unwrap_or_else(|| relay.url());
        let setup = self.plan.setup(self.engine.addr(), &url);
        self.gates.push(Gate::start(setup).await);
        self.relays.push(relay);
    }

    /// Where the replicas listen.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.gates.iter().map(|gate| gate.proxy).collect()
    }

    /// A stream of tenant `a` at this replica that runs until it is dropped; its answer has begun.
    pub async fn hold(&self, replica: usize) -> Call {
        self.hold_for("a", replica).await
    }

    /// The same of another tenant. A store that is late on a busy machine is asked again.
    pub async fn hold_for(&self, tenant: &str, replica: usize) -> Call {
        let gate = &self.gates[replica];
        eventually("a stream begins", || async {
            let mut call = Call::start(Proto::H1, gate.proxy, &stream(tenant, LONG)).await;
            match call.head().await {
                Some((200, _)) => Some(call),
                Some((503, _)) => None,
                other => panic!("{other:?}; {}", gate.status().await),
            }
        })
        .await
    }

    /// The server, of which this fleet must be the only owner.
    pub fn redis_mut(&mut self) -> &mut RedisServer {
        Arc::get_mut(&mut self.redis).expect("nobody else has it")
    }

    /// The most requests of tenant `a` that ever ran at once, as the engine saw it.
    pub fn most(&self) -> usize {
        self.most_of("a")
    }

    pub fn most_of(&self, tenant: &str) -> usize {
        self.engine.stats().tenants.get(tenant).map_or(0, |stats| stats.max_in_flight)
    }

    /// Requests of tenant `a` that run now.
    pub fn running(&self) -> usize {
        self.engine.stats().tenants.get("a").map_or(0, |stats| stats.in_flight)
    }

    /// Wait until so many requests of tenant `a` run.
    pub async fn runs(&self, count: usize) {
        eventually(&format!("{count} run"), || async { (self.running() == count).then_some(()) })
            .await;
    }

    /// The engine never saw more than the cap, and did see it.
    pub fn assert_exact(&self, what: &str) {
        let (most, cap) = (self.most(), self.plan.cap);
        println!("{what}: most at the engine {most}, cap {cap}");
        self.assert_most(cap);
        assert!(most >= cap.min(4), "{what}: the cap of {cap} is used, not just {most}");
    }

    /// The engine never saw more of tenant `a`.
    pub fn assert_most(&self, cap: usize) {
        assert!(self.most() <= cap, "{} at once, cap {cap}", self.most());
    }

    /// Nothing runs, nothing is counted on any replica that lives, nothing is held in the Redis.
    pub async fn all_back(&self) {
        self.runs(0).await;
        for gate in &self.gates {
            gate.settled().await;
        }
        let ledger = Ledger::of(self.redis.port());
        eventually("nothing is held in the Redis", || async {
            (ledger.held("t:a").ok()? == (0, 0)).then_some(())
        })
        .await;
    }
}
