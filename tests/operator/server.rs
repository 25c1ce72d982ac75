//! An admin port on loopback over fakes; gone when dropped.

use crate::fake::{self, Fake, FakeDrain};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use streamgate::admin::Admin;
use streamgate::admin::access::Access;
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
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Server {
    pub async fn start() -> Self {
        Self::with(Access::new(None, false)).await
    }

    pub async fn with(access: Access) -> Self {
        let telemetry = fake::telemetry();
        let seen = Fake::new(Arc::clone(&telemetry));
        let drain = FakeDrain::new(Arc::clone(&seen));
        let admin = Admin {
            observe: Arc::clone(&seen) as _,
            telemetry: Arc::clone(&telemetry),
            drain: Arc::clone(&drain) as _,
            access,
            version: "1.2.3",
            default_wait: DEFAULT_WAIT,
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(Arc::new(admin).serve(listener, async {
            stopped.await.ok();
        }));
        Self { address, telemetry, seen, drain, stop: Some(stop), task }
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

    /// Tell it to stop; resolves when it has.
    pub async fn stop(mut self) {
        self.stop.take().map(|stop| stop.send(()));
        let ended = tokio::time::timeout(Duration::from_secs(10), &mut self.task);
        ended.await.expect("in time").expect("no panic");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub async fn json(response: reqwest::Response) -> serde_json::Value {
    response.json().await.expect("a JSON body")
}
