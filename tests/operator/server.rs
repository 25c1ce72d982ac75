//! An admin port on loopback over fakes; gone when dropped.

use crate::fake::{self, Fake, FakeDrain, NoEndpoints};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use streamgate::admin::access::Access;
use streamgate::admin::{Admin, MAX_CONNECTIONS};
use streamgate::telemetry::Telemetry;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// `wait` of drain calls that name none.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(150);

pub struct Server {
    pub address: SocketAddr,
    pub telemetry: Arc<Telemetry>,
    pub seen: Arc<Fake>,
    pub drain: Arc<FakeDrain>,
    admin: Arc<Admin>,
    serving: Option<Serving>,
}

/// A running port; gone when dropped.
struct Serving {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Server {
    pub async fn start() -> Self {
        Self::with(Access::new(None, false)).await
    }

    pub async fn with(access: Access) -> Self {
        Self::of(access, MAX_CONNECTIONS).await
    }

    /// Serves so many connections at once.
    pub async fn of(access: Access, max_connections: usize) -> Self {
        let telemetry = fake::telemetry();
        let seen = Fake::new(Arc::clone(&telemetry));
        let drain = FakeDrain::new(Arc::clone(&seen));
        let admin = Arc::new(Admin {
            observe: Arc::clone(&seen) as _,
            telemetry: Arc::clone(&telemetry),
            drain: Arc::clone(&drain) as _,
            endpoints: Arc::new(NoEndpoints(Arc::clone(&seen))),
            access,
            version: "1.2.3",
            default_wait: DEFAULT_WAIT,
            max_connections,
        });
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        let mut server = Self { address, telemetry, seen, drain, admin, serving: None };
        server.resume().await;
        server
    }

    /// Serve, at the same address as before.
    pub async fn resume(&mut self) {
        let listener = TcpListener::bind(self.address).await.expect("a port");
        self.address = listener.local_addr().expect("bound");
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(Arc::clone(&self.admin).serve(listener, async {
            stopped.await.ok();
        }));
        self.serving = Some(Serving { stop, task });
    }

    /// Tell it to stop; resolves when it has.
    pub async fn pause(&mut self) {
        let Some(serving) = self.serving.take() else { return };
        serving.stop.send(()).ok();
        let ended = tokio::time::timeout(Duration::from_secs(10), serving.task);
        ended.await.expect("in time").expect("no panic");
    }

    /// Stop for good.
    pub async fn stop(mut self) {
        self.pause().await;
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub async fn get(&self, path: &str) -> reqwest::Response {
        reqwest::get(self.url(path)).await.expect("an answer")
    }

    pub fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = method.parse().expect("a method");
        reqwest::Client::new().request(method, self.url(path))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(serving) = &self.serving {
            serving.task.abort();
        }
    }
}

pub async fn json(response: reqwest::Response) -> serde_json::Value {
    response.json().await.expect("a JSON body")
}
