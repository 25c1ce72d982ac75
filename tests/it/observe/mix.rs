//! A scripted mix of everything that can happen to a request, and what is told of it.

use super::{admin, queued, stand, standing};
use crate::support::request::{Request, chat};
use crate::support::{Api, Call, Gate, Leave, Metrics, OwnEngine, Proto, Setup};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use streamgate_loadtests::engine::EngineConfig;

const OUTCOMES: [&str; 8] = [
    "complete",
    "truncated",
    "upstream_error",
    "client_cancelled",
    "timed_out",
    "drain_cut",
    "rejected",
    "failed",
];

/// Every metric of the contract that a gate with the memory store has.
const METRICS: [&str; 27] = [
    "arrivals_total",
    "requests_total",
    "rejections_total",
    "in_flight",
    "in_flight_limit",
    "fleet_in_flight",
    "queued",
    "queue_wait_seconds_count",
    "time_to_first_token_seconds_count",
    "time_per_output_token_seconds_count",
    "request_duration_seconds_count",
    "slo_good_requests_total",
    "tokens_total",
    "pool_demand",
    "endpoint_in_flight",
    "endpoint_state",
    "routing_selections_total",
    "drain_state",
    "streams_cut_total",
    "quota_store_up",
    "quota_fenced",
    "quota_learning",
    "quota_escrow",
    "client_retries_total",
    "shadow_rejections_total",
    "config_reload_failed",
    "build_info",
];

struct Mix {
    engine: OwnEngine,
    gate: Gate,
    /// Ended requests so far, by tenant and outcome.
    told: BTreeMap<(&'static str, &'static str), f64>,
}

impl Mix {
    async fn start(records: &Path) -> Self {
        let engine = OwnEngine::start(EngineConfig::instant(Duration::from_millis(1))).await;
        let setup = Setup::new(&[engine.addr()])
            .model("sim")
            .tenant("a", "max_in_flight: 2")
            .tenant(
                "q",
                "max_in_flight: 1\non_limit: queue\nqueue: {max_depth: 1, max_wait: 300ms}",
            )
            .tenant("s", "max_in_flight: 1\nmode: shadow")
            .tenant("idle", "max_in_flight: 7")
            .with(&format!("records: {{path: {records:?}}}"))
            .with("timeouts: {stream_idle: 2s}");
        Self { engine, gate: Gate::start(setup).await, told: BTreeMap::new() }
    }

    fn tell(&mut self, tenant: &'static str, outcome: &'static str, count: u32) {
        *self.told.entry((tenant, outcome)).or_default() += f64::from(count);
    }

    /// One request of tenant `a` to its end; its status.
    async fn a(&mut self, request: Request, outcome: &'static str) -> u16 {
        self.tell("a", outcome, 1);
        self.gate.answer(&request).await.status
    }

    /// Requests that run by themselves.
    async fn simple(&mut self) {
        for api in Api::ALL {
            assert_eq!(self.a(api.stream(5), "complete").await, 200);
            assert_eq!(self.a(api.plain(5), "complete").await, 200);
        }
        assert_eq!(self.a(Request::get("/v1/models", "a"), "complete").await, 200);
        let broken = Api::Chat.stream(9).fault("cut=events:4");
        assert_eq!(self.a(broken, "truncated").await, 200);
        let error = Api::Completions.stream(9).fault("error-after=4");
        assert_eq!(self.a(error, "upstream_error").await, 200);
        assert_eq!(self.a(Api::Chat.plain(1).fault("status=400"), "upstream_error").await, 400);
        let unknown = Request::post("/v1/chat/completions", "a", r#"{"model":"nope"}"#);
        assert_eq!(self.a(unknown, "rejected").await, 404);
        let bad = Request::post("/v1/chat/completions", "a", "{");
        assert_eq!(self.a(bad.header("x-stainless-retry-count", "1"), "rejected").await, 400);
        self.tell("unknown", "rejected", 1);
        assert_eq!(self.gate.answer(&Api::Chat.plain(1).without_key()).await.status, 401);
    }

    /// Requests that stand in each other's way.
    async fn standing(&mut self) {
        let first = stand(&self.gate, "a", "a-1").await;
        let mut second = stand(&self.gate, "a", "a-2").await;
        assert_eq!(self.a(Api::Chat.stream(1), "rejected").await, 429);
        let demand = |metrics: &Metrics| metrics.sum("streamgate_pool_demand") == 2.0;
        self.while_two_stand(&self.gate.metrics_when("the refused one has gone", demand).await);

        first.leave(Leave::Close).await;
        self.tell("a", "client_cancelled", 1);
        // Nobody helps the other one: it ends by itself.
        let (text, _) = second.rest().await;
        Api::Chat.error_event(&text);
        self.tell("a", "timed_out", 1);

        let mut cut = stand(&self.gate, "a", "a-3").await;
        let client = reqwest::Client::new();
        let answer =
            client.delete(self.gate.admin_url("/api/v1/holders/a-3")).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        Api::Chat.error_event(&cut.rest().await.0);
        self.tell("a", "truncated", 1);
    }

    fn while_two_stand(&self, metrics: &Metrics) {
        let a = [("tenant", "a")];
        assert_eq!(metrics.sum_where("streamgate_in_flight", &a), 2.0);
        assert_eq!(metrics.sum_where("streamgate_fleet_in_flight", &a), 2.0);
        assert_eq!(metrics.sum_where("streamgate_in_flight_limit", &a), 2.0);
        assert_eq!(metrics.sum_where("streamgate_pool_demand", &[("pool", "p")]), 2.0);
        let endpoint = self.engine.addr().to_string();
        let endpoint = [("pool", "p"), ("endpoint", endpoint.as_str())];
        assert_eq!(metrics.sum_where("streamgate_endpoint_in_flight", &endpoint), 2.0);
    }

    /// A queue of one place behind a slot of one.
    async fn queue(&mut self) {
        let holder = stand(&self.gate, "q", "q-1").await;
        let mut waiter = Call::start(Proto::H1, self.gate.proxy, &standing("q", "q-2")).await;
        queued(&self.gate, "q", 1.0).await;
        let full = self.gate.answer(&standing("q", "q-3")).await;
        assert_eq!((full.status, full.reason()), (429, Some("queue_full")));
        let late = waiter.answer().await;
        assert_eq!((late.status, late.reason()), (429, Some("queue_timeout")));
        self.tell("q", "rejected", 2);
        holder.leave(Leave::Reset).await;
        self.tell("q", "client_cancelled", 1);
    }

    /// Shadow: decided, counted, never refused.
    async fn shadow(&mut self) {
        let holder = stand(&self.gate, "s", "s-1").await;
        for _ in 0..3 {
            let request = Request::post("/v1/chat/completions", "s", chat(5, true));
            assert_eq!(self.gate.answer(&request).await.status, 200);
        }
        self.tell("s", "complete", 3);
        holder.leave(Leave::Close).await;
        self.tell("s", "client_cancelled", 1);
    }

    fn total(&self) -> f64 {
        self.told.values().sum()
    }
}

fn check_outcomes(mix: &Mix, metrics: &Metrics) {
    for tenant in ["a", "q", "s", "idle", "unknown"] {
        let mut sum = 0.0;
        for outcome in OUTCOMES {
            let told = mix.told.get(&(tenant, outcome)).copied().unwrap_or_default();
            let labels = [("tenant", tenant), ("outcome", outcome)];
            let counted = metrics.sum_where("streamgate_requests_total", &labels);
            assert_eq!(counted, told, "{tenant} {outcome}");
            sum += told;
        }
        let arrivals = metrics.sum_where("streamgate_arrivals_total", &[("tenant", tenant)]);
        assert_eq!(arrivals, sum, "{tenant}");
    }
}

fn check_values(mix: &Mix, metrics: &Metrics) {
    let sum = |name: &str, labels: &[(&str, &str)]| {
        metrics.sum_where(&format!("streamgate_{name}"), labels)
    };
    for (tenant, reason, count) in [
        ("a", "tenant_in_flight", 1.0),
        ("a", "unknown_model", 1.0),
        ("a", "bad_request", 1.0),
        ("q", "queue_full", 1.0),
        ("q", "queue_timeout", 1.0),
        ("unknown", "unauthenticated", 1.0),
    ] {
        let labels = [("tenant", tenant), ("reason", reason)];
        assert_eq!(sum("rejections_total", &labels), count, "{reason}");
    }
    assert_eq!(sum("rejections_total", &[]), 6.0);
    let shadow = [("tenant", "s"), ("reason", "tenant_in_flight")];
    assert_eq!(sum("shadow_rejections_total", &shadow), 3.0);
    assert_eq!(sum("shadow_rejections_total", &[]), 3.0);
    assert_eq!(sum("client_retries_total", &[("tenant", "a")]), 1.0);
    assert_eq!(sum("in_flight_limit", &[("tenant", "idle")]), 7.0);
    for gauge in ["in_flight", "fleet_in_flight", "queued", "pool_demand", "endpoint_in_flight"] {
        assert_eq!(sum(gauge, &[]), 0.0, "{gauge}");
    }
    assert_eq!(sum("endpoint_state", &[("state", "ready")]), 1.0);
    assert_eq!(sum("endpoint_state", &[]), 1.0);
    assert_eq!(sum("drain_state", &[("state", "serving")]), 1.0);
    assert_eq!(sum("drain_state", &[]), 1.0);
    assert_eq!(sum("quota_store_up", &[]), 1.0);
    for zero in ["quota_fenced", "quota_learning", "quota_escrow", "config_reload_failed"] {
        assert_eq!(sum(zero, &[]), 0.0, "{zero}");
    }
    assert_eq!(sum("streams_cut_total", &[("cause", "operator")]), 1.0);
    assert_eq!(sum("streams_cut_total", &[]), 1.0);
    // What reached the engine was chosen for it once.
    let asked = mix.engine.requests().iter().filter(|seen| seen.path != "/health").count();
    assert_eq!(sum("routing_selections_total", &[("pool", "p")]), asked as f64);
    check_latencies(mix, metrics);
}

fn check_latencies(mix: &Mix, metrics: &Metrics) {
    let count = |name: &str, tenant: &str| {
        let name = format!("streamgate_{name}_seconds_count");
        metrics.sum_where(&name, &[("tenant", tenant)])
    };
    let not_rejected = |tenant: &str| -> f64 {
        let ended = mix
            .told
            .iter()
            .filter(|((whose, outcome), _)| *whose == tenant && *outcome != "rejected");
        ended.map(|(_, count)| count).sum()
    };
    for tenant in ["a", "q", "s"] {
        assert_eq!(count("request_duration", tenant), not_rejected(tenant), "{tenant}");
    }
    // Streams that showed content: four complete, two broken, three standing.
    assert_eq!(count("time_to_first_token", "a"), 9.0);
    assert_eq!(count("time_to_first_token", "s"), 4.0);
    // Only where the engine told how many tokens there were.
    assert_eq!(count("time_per_output_token", "a"), 4.0);
    assert_eq!(count("time_per_output_token", "s"), 3.0);
    let good = metrics.sum_where("streamgate_slo_good_requests_total", &[("tenant", "a")]);
    assert_eq!(good, 8.0, "the complete requests of understood APIs");
    let complete = 8.0 * 5.0 + 3.0 * 5.0;
    let tokens = metrics.sum_where("streamgate_tokens_total", &[("kind", "completion")]);
    assert!(tokens > complete && tokens < complete + 20.0, "{tokens}: broken ones are charged too");
    let models = [("tenant", "a"), ("model", "sim"), ("outcome", "complete")];
    assert_eq!(metrics.sum_where("streamgate_requests_total", &models), 8.0);
}

const KEYS: [&str; 26] = [
    "time",
    "request_id",
    "tenant",
    "model",
    "api",
    "stream",
    "outcome",
    "reason",
    "status",
    "upstream_status",
    "endpoint",
    "attempts",
    "queue_wait_seconds",
    "ttft_seconds",
    "tpot_seconds",
    "duration_seconds",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "tokens_estimated",
    "finish_reasons",
    "good",
    "bytes_received",
    "bytes_sent",
    "client",
    "error",
];

/// One line for each arrival, every key in it, and the same as in log and metrics.
fn check_records(mix: &Mix, path: &Path) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'));
    let records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(records.len() as f64, mix.total());
    let logged: BTreeMap<String, Value> = mix
        .gate
        .request_lines()
        .into_iter()
        .map(|line| (line["request_id"].as_str().unwrap().to_owned(), line))
        .collect();
    assert_eq!(logged.len(), records.len());
    let mut counted = BTreeMap::<_, f64>::new();
    for record in &records {
        let object = record.as_object().unwrap();
        assert!(KEYS.iter().all(|key| object.contains_key(*key)), "{record}");
        let text = |key: &str| record[key].as_str().unwrap().to_owned();
        *counted.entry((text("tenant"), text("outcome"))).or_default() += 1.0;
        assert!(record["duration_seconds"].as_f64().is_some_and(|time| time >= 0.0), "{record}");
        assert_eq!(record["client"], "127.0.0.1", "{record}");
        let line = &logged[&text("request_id")];
        for key in ["outcome", "status", "completion_tokens", "bytes_sent", "error", "reason"] {
            assert_eq!(line[key], record[key], "{key}: {record}");
        }
    }
    let told: BTreeMap<_, _> =
        mix.told.iter().map(|((t, o), n)| (((*t).to_owned(), (*o).to_owned()), *n)).collect();
    assert_eq!(counted, told);
}

#[tokio::test]
async fn everything_that_happens_is_told_once_everywhere() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("records.jsonl");
    let mut mix = Mix::start(&path).await;
    let fresh = mix.gate.metrics().await;
    for name in METRICS {
        // Counters of what has not happened may still be away.
        let later = ["routing_selections_total", "streams_cut_total", "_rejections", "_seconds"];
        let due = !later.iter().any(|part| name.contains(part)) && !name.contains("rejections");
        assert!(
            !due || fresh.has(&format!("streamgate_{name}")),
            "{name} from the first scrape on"
        );
    }
    mix.simple().await;
    mix.standing().await;
    mix.queue().await;
    mix.shadow().await;
    let metrics = mix.gate.settled().await;
    for name in METRICS {
        assert!(metrics.has(&format!("streamgate_{name}")), "{name}");
    }
    check_outcomes(&mix, &metrics);
    check_values(&mix, &metrics);
    let state = admin(&mix.gate, "/api/v1/state").await;
    for tenant in state["tenants"].as_array().unwrap() {
        let name = tenant["tenant"].as_str().unwrap();
        for outcome in OUTCOMES {
            let labels = [("tenant", name), ("outcome", outcome)];
            let counted = metrics.sum_where("streamgate_requests_total", &labels);
            assert_eq!(tenant["outcomes"][outcome].as_f64(), Some(counted), "{name} {outcome}");
        }
    }
    // The writer has everything on disk before the process ends.
    mix.gate.signal("TERM");
    mix.gate.signal("TERM");
    assert!(mix.gate.exit_code().await.is_some());
    check_records(&mix, &path);
}
