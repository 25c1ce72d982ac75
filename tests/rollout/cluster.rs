//! What clients and supervisors share: the endpoints of a service, and one rollout at a time.

use crate::support::eventually;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::MutexGuard;

/// Rollouts under load would only slow each other down.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Wait for the turn of a test; it has it until the guard is dropped.
pub async fn turn() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().await
}

/// The endpoints of a service, as kube-proxy has them: a new connection goes to one of the list,
/// an established one never moves.
#[derive(Clone, Debug, Default)]
pub struct Service(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    endpoints: Vec<SocketAddr>,
    turn: usize,
}

impl Service {
    pub fn add(&self, endpoint: SocketAddr) {
        self.0.lock().unwrap().endpoints.push(endpoint);
    }

    pub fn remove(&self, endpoint: SocketAddr) {
        self.0.lock().unwrap().endpoints.retain(|one| *one != endpoint);
    }

    /// Where the next connection goes; `None` if there is no endpoint.
    pub fn pick(&self) -> Option<SocketAddr> {
        let mut state = self.0.lock().unwrap();
        state.turn += 1;
        state.endpoints.get(state.turn % state.endpoints.len().max(1)).copied()
    }
}

/// Wait until an admin port or an engine answers this path with 200.
pub async fn ready(at: SocketAddr, path: &str) {
    let url = format!("http://{at}{path}");
    eventually("ready", || async {
        let answer = reqwest::get(&url).await.ok()?;
        (answer.status() == 200).then_some(())
    })
    .await;
}
