//! A small load without end, from every tenant.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hdrhistogram::{CreationError, Histogram};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::settings::{Settings, Tenant};
use crate::client::{Call, Client, Ended, Exchange, Limits};
use crate::clock::{micros, sleep_until};
use crate::plan::SENTENCE;
use crate::sync::lock;

/// Share of its cap that the first tenant asks for: calm.
const CALM: f64 = 0.8;
/// The others ask for more than their cap, so that refusals are seen.
const GREEDY: f64 = 1.6;
/// Seconds an output token takes in the simulated engine.
const TOKEN: f64 = 0.056;
const LIMITS: Limits =
    Limits { connect: Duration::from_secs(2), silence: Duration::from_secs(60), total: None };

/// What one tenant has had so far.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    pub(super) in_flight: u64,
    pub(super) good: u64,
    pub(super) late: u64,
    pub(super) refused: u64,
    pub(super) broken: u64,
    /// Microseconds.
    pub(super) ttft: Histogram<u64>,
}

/// The load.
pub(super) struct Load {
    tasks: TaskTracker,
    tenants: Vec<(String, Arc<Mutex<Figures>>)>,
}

impl Load {
    /// Starts sending.
    ///
    /// # Errors
    /// Never: the bounds of the histogram are fixed.
    pub(super) fn start(
        settings: &Settings,
        stop: CancellationToken,
    ) -> Result<Self, CreationError> {
        let (client, tasks) = (Arc::new(Client::new(LIMITS)), TaskTracker::new());
        let mut tenants = Vec::new();
        for (nth, tenant) in settings.tenants.iter().enumerate() {
            let figures = Arc::new(Mutex::new(Figures::new()?));
            tenants.push((tenant.id.clone(), Arc::clone(&figures)));
            let sender = Sender {
                client: Arc::clone(&client),
                settings: settings.clone(),
                tenant: tenant.clone(),
                // Short answers for the first tenant, long ones for the others.
                tokens: if nth == 0 { 48 } else { 192 },
                demand: if nth == 0 { CALM } else { GREEDY },
                figures,
            };
            tasks.spawn(arrivals(Arc::new(sender), tasks.clone(), stop.clone()));
        }
        tasks.close();
        Ok(Self { tasks, tenants })
    }

    /// Figures by tenant.
    pub(super) fn figures(&self) -> Vec<(String, Figures)> {
        self.tenants.iter().map(|(id, f)| (id.clone(), lock(f).clone())).collect()
    }

    /// Waits until all requests are cancelled.
    pub(super) async fn stop(&self) {
        self.tasks.wait().await;
    }
}

struct Sender {
    client: Arc<Client>,
    settings: Settings,
    tenant: Tenant,
    tokens: u32,
    demand: f64,
    figures: Arc<Mutex<Figures>>,
}

async fn arrivals(sender: Arc<Sender>, tasks: TaskTracker, stop: CancellationToken) {
    let hold = f64::from(sender.tokens) * TOKEN;
    let gap = Duration::from_secs_f64(hold / (sender.demand * f64::from(sender.tenant.limit)));
    let mut due = Instant::now();
    while stop.run_until_cancelled(sleep_until(due)).await.is_some() {
        let sender = Arc::clone(&sender);
        let request = async move { sender.request().await };
        tasks.spawn(stop.clone().run_until_cancelled_owned(request));
        due += gap;
    }
}

/// Counts a request that runs; also when it is cancelled.
struct Running(Arc<Mutex<Figures>>);

impl Running {
    fn new(figures: &Arc<Mutex<Figures>>) -> Self {
        lock(figures).in_flight += 1;
        Self(Arc::clone(figures))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.0).in_flight -= 1;
    }
}

impl Sender {
    async fn request(&self) {
        let running = Running::new(&self.figures);
        let text = SENTENCE.repeat(10);
        let body = json!({
            "model": "sim",
            "stream": true,
            "stream_options": {"include_usage": true},
            "max_tokens": self.tokens,
            "messages": [{"role": "user", "content": text}],
        })
        .to_string();
        let headers = [("authorization".to_owned(), format!("Bearer {}", self.tenant.key))];
        let host = self.settings.proxy.to_string();
        let call = Call {
            addr: self.settings.proxy,
            host: &host,
            path: "/v1/chat/completions",
            headers: &headers,
            body: body.as_bytes(),
            tokens: Some(self.tokens),
        };
        let seen = self.client.exchange(&call).await;
        drop(running);
        lock(&self.figures).count(&seen);
    }
}

impl Figures {
    fn new() -> Result<Self, CreationError> {
        // Longer values count as one minute.
        let ttft = Histogram::new_with_max(60_000_000, 3)?;
        Ok(Self { in_flight: 0, good: 0, late: 0, refused: 0, broken: 0, ttft })
    }

    fn count(&mut self, seen: &Exchange) {
        match seen.ended {
            Ended::Complete => {
                let first = seen.first.map(|at| at.duration_since(seen.start));
                if let Some(first) = first {
                    self.ttft.saturating_record(micros(first));
                }
                let good = first.is_some_and(|f| f <= Duration::from_secs(2));
                *(if good { &mut self.good } else { &mut self.late }) += 1;
            }
            Ended::Refused => self.refused += 1,
            _ => self.broken += 1,
        }
    }
}
