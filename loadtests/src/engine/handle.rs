//! The engine in a process: start it, look at it, break it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use super::config::EngineConfig;
use super::faults::{FaultQueue, FaultRule};
use super::phase::{self, Phase};
use super::serve::listen;
use super::shared::Shared;
use super::stats::{AbortRecord, RecordedRequest, Recorder, StatsSnapshot};

/// Longest time between two looks at the figures while waiting for them.
const RECHECK: Duration = Duration::from_millis(20);

/// A running engine. Dropping it stops it: the listener closes and every connection is reset.
pub struct Engine {
    shared: Arc<Shared>,
    addr: SocketAddr,
}

/// A condition did not come true in time.
#[derive(Debug, thiserror::Error)]
#[error("the condition was not met within {bound:?}; last figures: {last:?}")]
pub struct WaitError {
    /// How long it was waited for.
    pub bound: Duration,
    /// The figures at the end.
    pub last: Box<StatsSnapshot>,
}

impl Engine {
    /// Binds and serves on the current tokio runtime.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn start(config: EngineConfig) -> std::io::Result<Self> {
        let recorder = Arc::new(Recorder::new());
        Self::start_with(config, recorder, Arc::default()).await
    }

    async fn start_with(
        config: EngineConfig,
        recorder: Arc<Recorder>,
        faults: Arc<FaultQueue>,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(config.listen).await?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared::new(config, recorder, faults));
        tokio::spawn(listen(Arc::clone(&shared), listener, addr));
        Ok(Self { shared, addr })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://host:port`, followed by `path`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// The figures now.
    #[must_use]
    pub fn stats(&self) -> StatsSnapshot {
        self.shared.stats()
    }

    /// The last 1,000 requests, `/sim/…` excepted.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.recorder.requests()
    }

    /// The last 1,000 aborts.
    #[must_use]
    pub fn aborts(&self) -> Vec<AbortRecord> {
        self.shared.recorder.aborts()
    }

    /// The phase of its life.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.shared.phase()
    }

    /// Queues a fault for requests to come.
    pub fn set_fault(&self, rule: impl Into<FaultRule>) {
        self.shared.faults.push(rule.into());
    }

    /// Forgets all queued faults.
    pub fn clear_faults(&self) {
        self.shared.faults.clear();
    }

    /// Forgets the figures, requests and aborts; what is in flight stays counted.
    pub fn reset_stats(&self) {
        self.shared.reset(false);
    }

    /// Puts the prompt of a request into the prefix cache, as if it had been processed; returns
    /// its whole blocks (all zero in the instant profile, which has no cache).
    ///
    /// # Errors
    /// The path is no generation path, or the body no request the engine would accept.
    pub fn warm(&self, path: &str, body: &str) -> Result<usize, String> {
        self.shared.warm(path, body.as_bytes())
    }

    /// Empties the prefix cache.
    pub fn reset_cache(&self) {
        self.shared.backend.reset_cache();
    }

    /// As SIGTERM with vLLM's `--shutdown-timeout` (virtual time). `false` if a shutdown had
    /// begun before: a second signal is ignored.
    pub fn begin_shutdown(&self, timeout: Duration) -> bool {
        phase::begin_shutdown(&self.shared, timeout)
    }

    /// The engine process dies under its server: streams get an error, `/health` 503.
    /// `false` if it was not serving.
    pub fn engine_death(&self) -> bool {
        phase::engine_dies(&self.shared)
    }

    /// As `kill -9`, with every connection reset. Statistics stay readable.
    pub fn kill(&self) {
        self.shared.kill();
    }

    /// Closes or opens the listener; connections stay. Returns before it is done.
    pub fn set_listening(&self, on: bool) {
        self.shared.listening.send_replace(on);
    }

    /// Starts again on the same address, after [`Engine::kill`] or an exit; a running engine is
    /// killed first. Statistics and queued faults are kept, the cache is empty.
    ///
    /// # Errors
    /// The address is not free within a second.
    pub async fn restart(&mut self) -> std::io::Result<()> {
        self.kill();
        let config = EngineConfig { listen: self.addr, ..self.shared.config.clone() };
        let mut tries = 0;
        let next = loop {
            let (recorder, faults) =
                (Arc::clone(&self.shared.recorder), Arc::clone(&self.shared.faults));
            match Self::start_with(config.clone(), recorder, faults).await {
                // The old listener closes when its task next runs.
                Err(e) if e.kind() == std::io::ErrorKind::AddrInUse && tries < 100 => {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                result => break result?,
            }
        };
        *self = next;
        Ok(())
    }

    /// Waits until the server has exited.
    pub async fn wait_exit(&self) {
        self.shared.stop.cancelled().await;
    }

    /// Waits until the figures meet a condition, at most for `bound` (real time).
    ///
    /// # Errors
    /// They did not; the error has the last figures.
    pub async fn wait_stats(
        &self,
        condition: impl Fn(&StatsSnapshot) -> bool,
        bound: Duration,
    ) -> Result<StatsSnapshot, WaitError> {
        let mut changes = self.shared.recorder.changes();
        let wait = async {
            loop {
                changes.mark_unchanged();
                let stats = self.stats();
                if condition(&stats) {
                    return stats;
                }
                // What depends on time alone, as a sequence that becomes ready, is no change.
                let _ = tokio::time::timeout(RECHECK, changes.changed()).await;
            }
        };
        tokio::time::timeout(bound, wait)
            .await
            .map_err(|_| WaitError { bound, last: Box::new(self.stats()) })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.kill();
    }
}
