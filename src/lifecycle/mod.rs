//! TEMPORARY
use crate::admission::{AdmissionController, Holders};
use crate::core::drain_port::{DrainPort, DrainWait};
use crate::core::observe::DrainPhase;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
#[derive(Clone)]
pub struct Lifecycle {
    leaving: watch::Sender<bool>,
    exit: watch::Sender<Option<u8>>,
    holders: Arc<Holders>,
    admission: Arc<AdmissionController>,
}
impl Lifecycle {
    pub fn start(
        _c: &crate::config::Drain,
        holders: &Arc<Holders>,
        admission: &Arc<AdmissionController>,
    ) -> Self {
        Self {
            leaving: watch::Sender::new(false),
            exit: watch::Sender::new(None),
            holders: holders.clone(),
            admission: admission.clone(),
        }
    }
    pub fn phase(&self) -> DrainPhase {
        if *self.leaving.borrow() { DrainPhase::Draining } else { DrainPhase::Serving }
    }
    pub fn since(&self) -> Option<Duration> {
        None
    }
    pub fn leaving(&self) -> watch::Receiver<bool> {
        self.leaving.subscribe()
    }
    pub fn terminate(&self) {
        self.leaving.send_replace(true);
        self.admission.close_queue();
        let s = self.clone();
        tokio::spawn(async move {
            s.holders.wait_idle().await;
            s.exit.send_replace(Some(0));
        });
    }
    pub async fn exit(&self) -> u8 {
        let mut r = self.exit.subscribe();
        r.wait_for(|c| c.is_some()).await.map(|c| c.unwrap_or(0)).unwrap_or(0)
    }
}
impl DrainPort for Lifecycle {
    fn begin(&self) {}
    fn wait(&self, _l: Duration) -> BoxFuture<'static, DrainWait> {
        Box::pin(async { DrainWait::Drained })
    }
    fn phase(&self) -> DrainPhase {
        Lifecycle::phase(self)
    }
}
