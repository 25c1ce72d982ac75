//! The simulated engines of a run.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Counted;
use crate::engine::{Engine, EngineConfig, InstantProfile, Profile};
use crate::scenario::{EngineProfile, EngineSpec};
use crate::sync::lock;

/// Engines by name: A, B, C, …
pub struct Fleet {
    config: EngineConfig,
    engines: Mutex<Vec<Member>>,
}

#[derive(Clone)]
struct Member {
    name: String,
    engine: Arc<Engine>,
    /// An endpoint: takes part in evidence and preparation.
    serving: bool,
}

impl Fleet {
    /// Starts the engines that serve from the start.
    ///
    /// # Errors
    /// When one cannot be started.
    pub async fn start(spec: &EngineSpec, model: &str, scale: f64) -> anyhow::Result<Self> {
        let base = match spec.profile {
            EngineProfile::Calibrated => EngineConfig::calibrated(scale),
            EngineProfile::Instant { first_token, token_interval } => EngineConfig {
                profile: Profile::Instant(InstantProfile {
                    first_token: first_token.0,
                    token_interval: token_interval.0,
                    ..InstantProfile::default()
                }),
                time_scale: scale,
                ..EngineConfig::default()
            },
        };
        let config = EngineConfig { model: model.to_owned(), ..base };
        let fleet = Self { config, engines: Mutex::default() };
        for _ in 0..spec.count {
            fleet.add().await?;
        }
        Ok(fleet)
    }

    /// Starts one more engine.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn add(&self) -> anyhow::Result<(String, SocketAddr)> {
        let engine = Arc::new(Engine::start(self.config.clone()).await?);
        let addr = engine.addr();
        let mut engines = lock(&self.engines);
        let letter = u8::try_from(engines.len()).ok().and_then(|n| b'A'.checked_add(n));
        let name = char::from(letter.unwrap_or(b'?')).to_string();
        engines.push(Member { name: name.clone(), engine, serving: true });
        Ok((name, addr))
    }

    /// Names and addresses of the engines that serve.
    #[must_use]
    pub fn serving(&self) -> Vec<(String, SocketAddr)> {
        self.members()
            .into_iter()
            .filter(|m| m.serving)
            .map(|m| (m.name, m.engine.addr()))
            .collect()
    }

    /// Names and addresses of all engines that were ever started.
    #[must_use]
    pub fn all(&self) -> Vec<(String, SocketAddr)> {
        self.members().into_iter().map(|m| (m.name, m.engine.addr())).collect()
    }

    fn members(&self) -> Vec<Member> {
        lock(&self.engines).clone()
    }

    /// An engine by name.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn engine(&self, name: &str) -> anyhow::Result<Arc<Engine>> {
        let member = self.members().into_iter().find(|m| m.name == name);
        member.map(|m| m.engine).ok_or_else(|| anyhow::anyhow!("there is no engine {name:?}"))
    }

    /// Counts an engine as gone.
    pub fn retire(&self, name: &str) {
        if let Some(member) = lock(&self.engines).iter_mut().find(|m| m.name == name) {
            member.serving = false;
        }
    }

    /// Empties the prefix cache of one engine, or of all.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn reset_cache(&self, name: Option<&str>) -> anyhow::Result<()> {
        match name {
            Some(name) => self.engine(name)?.reset_cache(),
            None => self.members().iter().for_each(|m| m.engine.reset_cache()),
        }
        Ok(())
    }

    /// Counts afresh.
    pub fn reset_stats(&self) {
        self.members().iter().for_each(|m| m.engine.reset_stats());
    }

    /// Requests running in each engine that serves.
    #[must_use]
    pub fn running(&self) -> Vec<usize> {
        let serving = self.members().into_iter().filter(|m| m.serving);
        serving.map(|m| m.engine.stats().running).collect()
    }

    /// Waits until no engine that serves has a request in flight, at most so long (real).
    pub async fn idle(&self, bound: Duration) -> bool {
        for member in self.members().into_iter().filter(|m| m.serving) {
            if member.engine.wait_stats(|s| s.in_flight == 0, bound).await.is_err() {
                return false;
            }
        }
        true
    }

    /// What each engine counted since the last reset.
    #[must_use]
    pub fn evidence(&self) -> Counted {
        let counts = |m: &Member| {
            let stats = m.engine.stats();
            let counts = [
                ("requests", stats.requests),
                ("completed", stats.completed),
                ("aborts", stats.aborts),
                ("max_in_flight", stats.max_in_flight as u64),
                ("waiting_peak", stats.waiting_peak as u64),
                ("prefix_hits", stats.prefix_hits),
                ("prefix_queries", stats.prefix_queries),
                ("tokens_generated", stats.tokens_generated),
            ];
            counts.into_iter().map(|(name, n)| (name.to_owned(), n)).collect()
        };
        self.members().iter().map(|m| (format!("engine {}", m.name), counts(m))).collect()
    }
}
