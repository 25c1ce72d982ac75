//! The real Streamgate in front of the simulated engines.

mod admin;
mod config;
pub(crate) mod process;
mod redis;
mod replica;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex as SyncMutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use futures::future::{BoxFuture, FutureExt};
use tokio::sync::Mutex;

use super::{Ask, Counted, Route, Routed, Target};
use crate::history::parse;
use crate::scenario::{PhaseSpec, Policy, Scenario, StreamgateSpec};
use crate::sync::lock;
use admin::Admin;
use config::{Ports, Wanted, key};
use redis::Redis;
use replica::Replica;

/// Real time for a replica to end after its drain's own times.
const SPARE: Duration = Duration::from_secs(10);

/// One or more replicas, and the Redis they share.
pub struct Streamgate {
    scenario: Scenario,
    spec: StreamgateSpec,
    program: PathBuf,
    folder: PathBuf,
    admin: Admin,
    state: Mutex<State>,
    /// Where new requests go; kept apart from `state`, for they must not wait.
    serving: SyncMutex<Vec<Ports>>,
    next: AtomicUsize,
}

struct State {
    engines: Vec<(String, SocketAddr)>,
    strategy: Policy,
    replicas: Vec<Replica>,
    redis: Option<Redis>,
    started: usize,
    before: Counted,
}

impl Streamgate {
    /// Starts everything.
    ///
    /// # Errors
    /// When a process cannot be started or does not become ready.
    pub async fn start(
        scenario: &Scenario,
        spec: &StreamgateSpec,
        program: Option<&Path>,
        folder: &Path,
        engines: Vec<(String, SocketAddr)>,
    ) -> anyhow::Result<Self> {
        let program =
            program.map(Path::to_path_buf).or_else(|| spec.binary.as_ref().map(Into::into));
        let program = program.or_else(beside).context(
            "the streamgate program is not known: give --streamgate PATH or set STREAMGATE_BIN",
        )?;
        let folder = folder.join("streamgate");
        std::fs::create_dir_all(&folder)?;
        let shared = spec.redis || spec.replicas.unwrap_or(1) > 1;
        let redis = if shared { Some(Redis::start(&folder).await?) } else { None };
        let state = State {
            engines,
            strategy: spec.strategy,
            replicas: Vec::new(),
            redis,
            started: 0,
            before: Counted::new(),
        };
        let target = Self {
            scenario: scenario.clone(),
            spec: spec.clone(),
            program,
            folder,
            admin: Admin::new()?,
            state: Mutex::new(state),
            serving: SyncMutex::default(),
            next: AtomicUsize::new(0),
        };
        target.start_all(&mut *target.state.lock().await).await?;
        Ok(target)
    }

    async fn start_all(&self, state: &mut State) -> anyhow::Result<()> {
        for _ in 0..self.spec.replicas.unwrap_or(1).max(1) {
            let replica = self.start_one(state).await?;
            state.replicas.push(replica);
        }
        self.publish(state);
        Ok(())
    }

    async fn start_one(&self, state: &mut State) -> anyhow::Result<Replica> {
        state.started += 1;
        let name = format!("streamgate-{}", state.started);
        let endpoints: Vec<SocketAddr> = state.engines.iter().map(|(_, addr)| *addr).collect();
        let wanted = self.wanted(state, &endpoints);
        Replica::start(&self.program, &self.folder, &name, &wanted, &self.admin).await
    }

    fn wanted<'a>(&'a self, state: &State, endpoints: &'a [SocketAddr]) -> Wanted<'a> {
        Wanted {
            scenario: &self.scenario,
            spec: &self.spec,
            strategy: state.strategy,
            endpoints,
            redis: state.redis.as_ref().map(|r| r.addr),
        }
    }

    fn publish(&self, state: &State) {
        *lock(&self.serving) = state.replicas.iter().map(|r| r.ports).collect();
    }

    /// How long a replica may take to drain and end.
    fn patience(&self) -> Duration {
        Duration::from_secs(150).div_f64(self.scenario.time_scale) + SPARE
    }

    /// New processes in place of the old: nothing learnt is left.
    async fn restart(&self, state: &mut State) -> anyhow::Result<()> {
        for replica in state.replicas.drain(..) {
            replica.stop(self.patience()).await;
        }
        self.start_all(state).await
    }

    /// Tells all replicas of other endpoints, and waits until the metrics show them.
    async fn reload(&self, state: &State) -> anyhow::Result<()> {
        let endpoints: Vec<SocketAddr> = state.engines.iter().map(|(_, addr)| *addr).collect();
        let wanted = self.wanted(state, &endpoints);
        state.replicas.iter().try_for_each(|replica| replica.reload(&wanted))
    }

    async fn counted(&self, state: &State) -> Counted {
        let mut all = Counted::new();
        for replica in &state.replicas {
            let page = self.admin.metrics(replica.ports.admin).await.unwrap_or_default();
            let kept = parse(&page).into_iter().filter(|(name, _)| is_evidence(name));
            all.insert(replica.name.clone(), kept.map(|(n, v)| (n, v as u64)).collect());
        }
        all
    }
}

/// The program beside this one.
fn beside() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.parent()?.join("streamgate");
    path.is_file().then_some(path)
}

fn is_evidence(name: &str) -> bool {
    let families = [
        "streamgate_arrivals_total",
        "streamgate_requests_total",
        "streamgate_rejections_total",
        "streamgate_routing_selections_total",
        "streamgate_streams_cut_total",
        "streamgate_client_retries_total",
    ];
    families.iter().any(|family| name.starts_with(family))
}

impl Target for Streamgate {
    fn describe(&self) -> String {
        let replicas = self.spec.replicas.unwrap_or(1).max(1);
        format!(
            "simulated engines behind Streamgate ({replicas} replica(s), {:?})",
            self.spec.strategy
        )
    }

    fn route(&self, ask: &Ask<'_>) -> Routed {
        let serving = lock(&self.serving);
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % serving.len().max(1);
        let Some(ports) = serving.get(turn) else {
            return Routed::Refused { status: 503, reason: "no_replica" };
        };
        let bearer = format!("Bearer {}", key(ask.tenant));
        Routed::To(Route {
            headers: vec![("authorization".into(), bearer)],
            ..Route::to(ports.proxy)
        })
    }

    fn begin_phase(&self, phase: &PhaseSpec, _seed: u64) -> BoxFuture<'_, anyhow::Result<()>> {
        let strategy = phase.policy.unwrap_or(self.spec.strategy);
        let fresh = phase.prepare.reset;
        async move {
            let state = &mut *self.state.lock().await;
            if strategy != state.strategy || fresh {
                state.strategy = strategy;
                self.restart(state).await?;
            }
            state.before = self.counted(state).await;
            Ok(())
        }
        .boxed()
    }

    fn set_index(&self, _: &BTreeMap<String, Vec<u32>>) -> bool {
        false
    }

    fn only(&self, engine: Option<&str>) -> BoxFuture<'_, anyhow::Result<()>> {
        let engine = engine.map(str::to_owned);
        async move {
            let state = self.state.lock().await;
            for replica in &state.replicas {
                let admin = replica.ports.admin;
                for (name, addr) in &state.engines {
                    if engine.as_ref().is_some_and(|only| only != name) {
                        self.admin.drain_endpoint(admin, *addr, SPARE).await?;
                    } else {
                        self.admin.undrain_endpoint(admin, *addr).await?;
                    }
                }
            }
            Ok(())
        }
        .boxed()
    }

    fn engine_ready(&self, name: &str, addr: SocketAddr) -> BoxFuture<'_, anyhow::Result<()>> {
        let name = name.to_owned();
        async move {
            let mut state = self.state.lock().await;
            state.engines.push((name, addr));
            self.reload(&state).await
        }
        .boxed()
    }

    fn engine_gone(&self, name: &str, _addr: SocketAddr) -> BoxFuture<'_, anyhow::Result<()>> {
        let name = name.to_owned();
        async move {
            let mut state = self.state.lock().await;
            state.engines.retain(|(n, _)| *n != name);
            self.reload(&state).await
        }
        .boxed()
    }

    fn drain_engine(
        &self,
        _name: &str,
        addr: SocketAddr,
        wait: Duration,
    ) -> BoxFuture<'_, anyhow::Result<String>> {
        async move {
            let admins: Vec<SocketAddr> =
                self.state.lock().await.replicas.iter().map(|r| r.ports.admin).collect();
            let first = admins.first().context("there is no replica")?;
            let wait = wait.div_f64(self.scenario.time_scale);
            let drained = self.admin.drain_endpoint(*first, addr, wait).await?;
            Ok(if drained { "drained".into() } else { "not drained in time".into() })
        }
        .boxed()
    }

    fn freeze_store(&self, length: Duration) -> BoxFuture<'_, anyhow::Result<String>> {
        async move {
            let real = length.div_f64(self.scenario.time_scale);
            let state = self.state.lock().await;
            // Answers again also if this is cancelled.
            let frozen = state.redis.as_ref().context("there is no Redis")?.freeze()?;
            drop(state);
            tokio::time::sleep(real).await;
            drop(frozen);
            Ok(format!("frozen for {real:?} of real time"))
        }
        .boxed()
    }

    fn roll(&self) -> BoxFuture<'_, anyhow::Result<String>> {
        async move {
            let state = &mut *self.state.lock().await;
            let mut ends = Vec::new();
            for at in 0..state.replicas.len() {
                let new = self.start_one(state).await?;
                let old = std::mem::replace(&mut state.replicas[at], new);
                self.publish(state);
                ends.push(old.stop(self.patience()).await);
            }
            Ok(ends.join("; "))
        }
        .boxed()
    }

    fn metrics(&self) -> Vec<(String, String)> {
        let serving = lock(&self.serving).clone();
        let each = serving.iter().enumerate();
        each.map(|(i, p)| (format!("streamgate {i}"), format!("http://{}/metrics", p.admin)))
            .collect()
    }

    fn evidence(&self) -> BoxFuture<'_, Counted> {
        async move {
            let state = self.state.lock().await;
            let mut now = self.counted(&state).await;
            for (source, counts) in &mut now {
                let before = state.before.get(source);
                for (name, count) in counts.iter_mut() {
                    let old = before.and_then(|b| b.get(name)).copied().unwrap_or(0);
                    *count = count.saturating_sub(old);
                }
            }
            now
        }
        .boxed()
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        async move {
            let state = &mut *self.state.lock().await;
            lock(&self.serving).clear();
            let all = state.replicas.drain(..).map(|r| r.stop(self.patience()));
            futures::future::join_all(all).await;
            if let Some(redis) = state.redis.take() {
                redis.stop().await;
            }
        }
        .boxed()
    }
}
