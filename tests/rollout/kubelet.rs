//! The end of a pod, as the kubelet brings it about.

use crate::engine::EngineProcess;
use crate::support::Gate;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// What the kubelet grants once more if preStop has used up the whole grace period.
const LAST: Duration = Duration::from_secs(2);

/// The process of a pod.
pub trait Process {
    /// Send a signal by its name.
    fn signal(&self, name: &str);

    /// Wait for its end; the exit code, unless a signal ended it.
    async fn ended(&mut self) -> Option<i32>;
}

/// How a pod ended.
#[derive(Debug)]
pub struct Death {
    /// The exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// It did not end within its grace period.
    pub killed: bool,
    /// The preStop hook ended before the grace period.
    pub hook_ended: bool,
    /// From the deletion to the end.
    pub took: Duration,
}

impl Death {
    /// It ended by itself, in time, with code 0.
    pub fn assert_orderly(&self, who: &str) {
        let orderly = self.hook_ended && !self.killed && self.code == Some(0);
        assert!(orderly, "{who}: {self:?}");
    }
}

/// End a pod: its preStop hook, then SIGTERM, and SIGKILL when the grace period is over, which
/// began before the hook.
pub async fn delete(
    pod: &mut impl Process,
    pre_stop: impl Future<Output = ()>,
    grace: Duration,
) -> Death {
    let began = Instant::now();
    let end = began + grace;
    let hook_ended = timeout_at(end, pre_stop).await.is_ok();
    pod.signal("TERM");
    let end = if hook_ended { end } else { Instant::now() + LAST };
    let code = timeout_at(end, pod.ended()).await;
    let killed = code.is_err();
    if killed {
        pod.signal("KILL");
        pod.ended().await;
    }
    Death { code: code.ok().flatten(), killed, hook_ended, took: began.elapsed() }
}

impl Process for Gate {
    fn signal(&self, name: &str) {
        Self::signal(self, name);
    }

    async fn ended(&mut self) -> Option<i32> {
        Self::ended(self).await
    }
}

impl Process for EngineProcess {
    fn signal(&self, name: &str) {
        Self::signal(self, name);
    }

    async fn ended(&mut self) -> Option<i32> {
        Self::ended(self).await
    }
}
