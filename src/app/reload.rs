//! The configuration while the process runs: SIGHUP or a changed file puts a new one in force.
//!
//! The file's content is compared, not its time or inode, so a ConfigMap's symlink swap is noticed
//! like any other change, and a touched file is not. A broken file changes nothing: every error
//! is logged, `streamgate_config_reload_failed` becomes 1, and the old configuration stays. Counts
//! are kept by their owners and survive.

use super::compose::{Process, labels};
use crate::admin::Admin;
use crate::config::{Config, Pool, Secret};
use crate::core::policy::PoolCap;
use crate::proxy::Live;
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::MissedTickBehavior;

/// How often the file is looked at.
const PERIOD: Duration = Duration::from_secs(2);

/// Keeps the configuration in force up to date.
pub(super) struct Reloader {
    path: PathBuf,
    process: Process,
    admin: Arc<Admin>,
    hangup: Signal,
    /// The content that was last looked at, whether or not it was accepted.
    seen: Option<String>,
}

impl Reloader {
    /// Watches the file from now on, once [`run`](Self::run) is polled.
    ///
    /// # Errors
    /// The signal handler cannot be installed.
    pub fn new(path: &Path, process: Process, admin: Arc<Admin>) -> io::Result<Self> {
        let hangup = signal(SignalKind::hangup())?;
        let seen = std::fs::read_to_string(path).ok();
        Ok(Self { path: path.to_owned(), process, admin, hangup, seen })
    }

    /// Reload whenever there is a reason to; never ends.
    pub async fn run(mut self) -> Infallible {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let asked = tokio::select! {
                _ = self.hangup.recv() => true,
                _ = ticks.tick() => false,
            };
            let content = tokio::fs::read_to_string(&self.path).await.ok();
            if asked {
                self.process.telemetry.reopen_records();
            }
            // A file that is away for a moment is being replaced; a signal wants an answer.
            if asked || (content.is_some() && content != self.seen) {
                self.seen = content;
                self.reload().await;
            }
        }
    }

    async fn reload(&mut self) {
        let path = self.path.clone();
        let Ok(loaded) = tokio::task::spawn_blocking(move || Config::load(&path)).await else {
            return;
        };
        match loaded {
            Ok(config) => self.apply(Arc::new(config)),
            Err(errors) => {
                self.process.telemetry.reload_refused();
                for error in errors.errors() {
                    tracing::error!(%error, "the new configuration is refused");
                }
            }
        }
    }

    fn apply(&mut self, config: Arc<Config>) {
        for key in needs_restart(&self.process.config, &config) {
            tracing::warn!(key, "this change takes effect after a restart");
        }
        self.admin.access.set_token(config.admin.token.as_ref().map(Secret::expose));
        self.process.telemetry.reload(&labels(&config));
        self.process.pools.update(config.pools.iter());
        let cap =
            |pool: &Pool| PoolCap { max_in_flight: pool.max_in_flight, revision: config.revision };
        let caps = config.pools.iter().map(|pool| (pool.id.clone(), cap(pool)));
        self.process.admission.apply_pools(caps);
        self.process.admission.apply(config.tenants.iter().map(|tenant| tenant.policy.clone()));
        // Last: a request that sees the new tenants finds their pools and limits in force.
        self.process.gateway.apply(Live::new(config.clone()));
        self.process.config = config;
        tracing::info!("the new configuration is in force");
    }
}

/// Sections that are read once, at the start.
fn needs_restart(old: &Config, new: &Config) -> Vec<&'static str> {
    let changed = [
        ("listen", old.listen != new.listen),
        ("quota", old.quota != new.quota),
        ("drain", old.drain != new.drain),
        ("timeouts.connect", old.timeouts.connect != new.timeouts.connect),
        ("timeouts.upstream_idle", old.timeouts.upstream_idle != new.timeouts.upstream_idle),
        ("records", old.records != new.records),
        ("log", old.log != new.log),
        ("runtime", old.runtime != new.runtime),
    ];
    changed.into_iter().filter(|(_, changed)| *changed).map(|(key, _)| key).collect()
}
