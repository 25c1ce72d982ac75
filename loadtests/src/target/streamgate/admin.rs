//! The admin port of a replica, as a client.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::Client;

/// Talks to admin ports.
#[derive(Debug, Clone)]
pub(super) struct Admin(Client);

impl Admin {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self(Client::builder().no_proxy().build()?))
    }

    /// Whether a replica serves.
    pub(super) async fn ready(&self, addr: SocketAddr) -> bool {
        let answer = self.0.get(format!("http://{addr}/readyz")).send().await;
        answer.is_ok_and(|a| a.status().is_success())
    }

    /// The page of metrics.
    pub(super) async fn metrics(&self, addr: SocketAddr) -> anyhow::Result<String> {
        let url = format!("http://{addr}/metrics");
        Ok(self.0.get(url).send().await?.error_for_status()?.text().await?)
    }

    /// Drains an endpoint, waiting so long (real time). `true`: drained.
    pub(super) async fn drain_endpoint(
        &self,
        addr: SocketAddr,
        endpoint: SocketAddr,
        wait: Duration,
    ) -> anyhow::Result<bool> {
        let wait = format!("{}ms", wait.as_millis());
        let url = format!("http://{addr}/api/v1/endpoints/{endpoint}/drain?wait={wait}");
        let status = self.0.post(url).send().await?.status();
        anyhow::ensure!(
            status.is_success() || status.as_u16() == 504,
            "the drain of {endpoint} was answered {status}"
        );
        Ok(status.is_success())
    }

    /// Puts an endpoint back into service.
    pub(super) async fn undrain_endpoint(
        &self,
        addr: SocketAddr,
        endpoint: SocketAddr,
    ) -> anyhow::Result<()> {
        let url = format!("http://{addr}/api/v1/endpoints/{endpoint}/drain");
        self.0.delete(url).send().await?.error_for_status()?;
        Ok(())
    }
}
