//! What counting, logging and scraping cost.

use divan::Bencher;
use std::sync::Arc;
use std::time::Duration;
use streamgate::core::ids::TenantId;
use streamgate::core::observe::{
    DrainPhase, DrainState, EndpointPhase, EndpointState, HolderState, Observe, PoolState,
    TenantState,
};
use streamgate::core::outcome::Outcome;
use streamgate::core::policy::{Mode, ModelSet};
use streamgate::core::quota::StoreStatus;
use streamgate::core::slo::Slo;
use streamgate::telemetry::logging::{LogFormat, LogParams, layer};
use streamgate::telemetry::{Labels, Params, Telemetry, Tokens};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

/// One request's life in the books, its latencies in the histograms; no log line.
#[divan::bench]
fn arrive_to_finish(bencher: Bencher<'_, '_>) {
    let telemetry = telemetry(2);
    bencher.bench_local(|| request(&telemetry));
}

/// The same with its JSON log line, which is thrown away.
#[divan::bench]
fn arrive_to_finish_logged(bencher: Bencher<'_, '_>) {
    let telemetry = telemetry(2);
    let params = LogParams { format: LogFormat::Json, level: tracing::Level::INFO };
    let layer = layer(&params, None, std::io::sink).expect("no directives");
    tracing::subscriber::with_default(Registry::default().with(layer), || {
        bencher.bench_local(|| request(&telemetry));
    });
}

/// One scrape of a replica with 50 tenants and 5 models.
#[divan::bench]
fn scrape_50_tenants(bencher: Bencher<'_, '_>) {
    let telemetry = telemetry(50);
    let operator = Operator { tenants: 50 };
    bencher.bench_local(|| telemetry.exposition(&operator));
}

fn request(telemetry: &Arc<Telemetry>) {
    let id = "0123456789abcdef0123456789abcdef".into();
    let mut arrival = telemetry.arrive(&tenant(1), id);
    arrival.admitted();
    let mut event = arrival.event(Outcome::Complete);
    event.model = Some("m1".into());
    event.api = "chat";
    event.stream = true;
    event.status = Some(200);
    event.upstream_status = Some(200);
    event.endpoint = Some("127.0.0.1:8001".into());
    event.attempts = 1;
    event.queue_wait = Some(Duration::from_micros(20));
    event.ttft = Some(Duration::from_millis(310));
    event.tpot = Some(Duration::from_millis(52));
    event.e2e = Some(Duration::from_secs(12));
    event.tokens =
        Tokens { prompt: Some(812), completion: Some(231), cached: Some(768), estimated: false };
    event.finish_reasons = vec!["stop".to_owned()];
    event.good = Some(true);
    event.bytes_received = 4_096;
    event.bytes_sent = 51_234;
    event.client = Some(std::net::Ipv4Addr::LOCALHOST.into());
    arrival.finish(event);
}

fn tenant(number: usize) -> TenantId {
    format!("tenant-{number}").into()
}

fn telemetry(tenants: usize) -> Arc<Telemetry> {
    let second = Duration::from_secs(1);
    let params = Params {
        labels: Labels {
            tenants: (0..tenants).map(|number| (tenant(number), ModelSet::Any)).collect(),
            models: (0..5).map(|number| format!("m{number}").into()).collect(),
        },
        slo: Slo { ttft: 2 * second, tpot: second / 6, e2e: 30 * second },
        records: None,
        version: "bench",
    };
    Telemetry::new(&params).expect("valid metrics")
}

/// A replica that serves, as far as a scrape asks.
struct Operator {
    tenants: usize,
}

impl Observe for Operator {
    fn tenants(&self) -> Vec<TenantState> {
        let state = |number| TenantState {
            tenant: tenant(number),
            limit: 4,
            mode: Mode::Enforce,
            in_flight: 1,
            fleet_in_flight: 2,
            queued: 0,
            arrivals: 1,
            outcomes: Outcome::ALL.map(|outcome| (outcome.as_str(), 0)).into(),
        };
        (0..self.tenants).map(state).collect()
    }

    fn pools(&self) -> Vec<PoolState> {
        let endpoint = |number| EndpointState {
            endpoint: format!("127.0.0.1:{}", 8001 + number).into(),
            state: EndpointPhase::Ready,
            in_flight: 3,
        };
        vec![PoolState {
            pool: "p".into(),
            kind: "engines",
            models: vec!["*".to_owned()],
            max_in_flight: 0,
            demand: 9,
            endpoints: (0..8).map(endpoint).collect(),
        }]
    }

    fn holders(&self) -> Vec<HolderState> {
        Vec::new()
    }

    fn store(&self) -> StoreStatus {
        StoreStatus { kind: "memory", up: true, ..StoreStatus::default() }
    }

    fn drain(&self) -> DrainState {
        DrainState { state: DrainPhase::Serving, in_flight: 9, queued: 0, since_seconds: None }
    }

    fn uptime_seconds(&self) -> f64 {
        60.0
    }

    fn cut_holder(&self, _request: &str) -> bool {
        false
    }
}
