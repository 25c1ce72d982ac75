//! The books, the metrics and their exposition.

use crate::exposition::Exposition;
use crate::fake::{self, Fake};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use streamgate::core::cause::{CutCause, Selection};
use streamgate::core::ids::{ModelName, PoolId, RequestId, TenantId};
use streamgate::core::outcome::Outcome;
use streamgate::core::policy::ModelSet;
use streamgate::core::reason::Reason;
use streamgate::telemetry::{Arrival, Labels, Telemetry, Tokens, names};

fn arrive(telemetry: &Arc<Telemetry>, tenant: &str) -> Arrival {
    telemetry.arrive(&TenantId::from(tenant), RequestId::from("r"))
}

/// A complete request with every measurement.
fn complete(telemetry: &Arc<Telemetry>, tenant: &str, model: &str) {
    let mut arrival = arrive(telemetry, tenant);
    arrival.admitted();
    let mut event = arrival.event(Outcome::Complete);
    event.model = Some(ModelName::from(model));
    event.queue_wait = Some(Duration::from_millis(3));
    event.ttft = Some(Duration::from_millis(260));
    event.tpot = Some(Duration::from_millis(52));
    event.e2e = Some(Duration::from_secs(7));
    event.tokens =
        Tokens { prompt: Some(517), completion: Some(128), cached: Some(500), estimated: false };
    event.good = Some(fake::SLO.good(event.outcome, &event.latencies()));
    arrival.finish(event);
}

fn scrape(telemetry: &Arc<Telemetry>) -> Exposition {
    let observe = Fake::new(Arc::clone(telemetry));
    Exposition::parse(&telemetry.exposition(&*observe))
}

#[test]
fn an_arrival_is_in_one_place_at_a_time() {
    let telemetry = fake::telemetry();
    let place = |telemetry: &Telemetry| {
        let ledger = telemetry.ledger(&TenantId::from("a"));
        assert!(ledger.balanced());
        (ledger.queued(), ledger.in_flight(), ledger.ended(Outcome::Complete))
    };
    let mut arrival = arrive(&telemetry, "a");
    assert_eq!(place(&telemetry), (1, 0, 0));
    arrival.admitted();
    arrival.admitted();
    assert_eq!(place(&telemetry), (0, 1, 0));
    let event = arrival.event(Outcome::Complete);
    arrival.finish(event);
    assert_eq!(place(&telemetry), (0, 0, 1));
}

#[test]
fn a_dropped_arrival_ends_as_failed_or_as_its_fallback() {
    let telemetry = fake::telemetry();
    drop(arrive(&telemetry, "a"));
    let mut cancelled = arrive(&telemetry, "a");
    cancelled.admitted();
    cancelled.set_fallback(Outcome::ClientCancelled);
    drop(cancelled);
    let ledger = telemetry.ledger(&TenantId::from("a"));
    assert!(ledger.balanced());
    assert_eq!(ledger.ended(Outcome::Failed), 1);
    assert_eq!(ledger.ended(Outcome::ClientCancelled), 1);
    assert_eq!((ledger.queued(), ledger.in_flight()), (0, 0));
}

#[test]
fn a_panic_counts_its_request_as_failed_and_no_other() {
    let telemetry = fake::telemetry();
    let mut other = arrive(&telemetry, "a");
    other.admitted();
    let inside = Arc::clone(&telemetry);
    let panicked = std::thread::spawn(move || {
        let mut arrival = arrive(&inside, "a");
        arrival.admitted();
        std::panic::resume_unwind(Box::new(()));
    });
    panicked.join().expect_err("it panicked");
    let ledger = telemetry.ledger(&TenantId::from("a"));
    assert_eq!((ledger.ended(Outcome::Failed), ledger.in_flight()), (1, 1));
    assert!(ledger.balanced());
    let event = other.event(Outcome::Complete);
    other.finish(event);
}

#[test]
fn every_scrape_balances_while_requests_come_and_go() {
    let telemetry = fake::telemetry();
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..3)
        .map(|worker| {
            let (telemetry, stop) = (Arc::clone(&telemetry), Arc::clone(&stop));
            std::thread::spawn(move || churn(&telemetry, &stop, worker))
        })
        .collect();
    let mut last = 0.0;
    while last < 5_000.0 {
        let scrape = scrape(&telemetry);
        for tenant in ["a", "b", "unknown"] {
            assert!(scrape.imbalance(tenant).abs() < 0.5, "{tenant}: {}", scrape.imbalance(tenant));
        }
        last = scrape.sum("streamgate_arrivals_total", &[]);
    }
    stop.store(true, Ordering::Relaxed);
    let begun: u64 = workers.into_iter().map(|worker| worker.join().expect("no panic")).sum();
    let total = telemetry.total();
    assert!(total.balanced());
    assert_eq!((total.arrivals(), total.queued(), total.in_flight()), (begun, 0, 0));
}

/// Begins and ends requests of all kinds until told to stop; returns how many.
fn churn(telemetry: &Arc<Telemetry>, stop: &AtomicBool, seed: usize) -> u64 {
    let mut open = Vec::new();
    let mut begun = 0;
    for step in seed.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let mut arrival = arrive(telemetry, ["a", "b", "nobody"][step % 3]);
        begun += 1;
        if !step.is_multiple_of(5) {
            arrival.admitted();
        }
        open.push(arrival);
        if open.len() > 7 {
            let ended = open.remove(step % open.len());
            let mut event = ended.event(Outcome::ALL[step % Outcome::ALL.len()]);
            event.model = Some(ModelName::from(["big", "small", "huge"][step % 3]));
            if step.is_multiple_of(11) { drop(ended) } else { ended.finish(event) }
        }
    }
    begun
}

#[test]
fn series_of_configured_tenants_exist_from_the_start() {
    let telemetry = fake::telemetry();
    let scrape = scrape(&telemetry);
    let zero = |name: &str, labels: &[(&str, &str)]| {
        assert!(scrape.value(name, labels).abs() < f64::EPSILON, "{name} {labels:?}");
    };
    for (tenant, models) in
        [("a", &["other", "big", "small"][..]), ("b", &["other", "small"]), ("unknown", &["other"])]
    {
        zero("streamgate_arrivals_total", &[("tenant", tenant)]);
        zero("streamgate_client_retries_total", &[("tenant", tenant)]);
        zero("streamgate_queue_wait_seconds_count", &[("tenant", tenant)]);
        for reason in Reason::ALL {
            let labels = [("tenant", tenant), ("reason", reason.as_str())];
            zero("streamgate_rejections_total", &labels);
            zero("streamgate_shadow_rejections_total", &labels);
        }
        for model in models {
            let pair = [("tenant", tenant), ("model", *model)];
            zero("streamgate_slo_good_requests_total", &pair);
            zero("streamgate_request_duration_seconds_count", &pair);
            for outcome in Outcome::ALL {
                let labels = [pair[0], pair[1], ("outcome", outcome.as_str())];
                zero("streamgate_requests_total", &labels);
            }
        }
    }
    for cause in CutCause::ALL {
        zero("streamgate_streams_cut_total", &[("cause", cause.as_str())]);
    }
    let labels = [("tenant", "b"), ("model", "big"), ("outcome", "complete")];
    assert_eq!(scrape.get("streamgate_requests_total", &labels), None, "b may not use big");
}

#[test]
fn one_event_counts_everywhere() {
    let telemetry = fake::telemetry();
    complete(&telemetry, "a", "big");
    let rejected = arrive(&telemetry, "a");
    let mut event = rejected.event(Outcome::Rejected);
    event.model = Some(ModelName::from("big"));
    event.reason = Some(Reason::TenantInFlight);
    event.queue_wait = Some(Duration::ZERO);
    event.good = Some(false);
    rejected.finish(event);
    let scrape = scrape(&telemetry);
    let pair = [("tenant", "a"), ("model", "big")];
    let check = |name: &str, labels: &[(&str, &str)], expected: f64| {
        let value = scrape.value(name, labels);
        assert!((value - expected).abs() < 1e-9, "{name} {labels:?}: {value}, not {expected}");
    };
    check("streamgate_requests_total", &[pair[0], pair[1], ("outcome", "complete")], 1.0);
    check("streamgate_requests_total", &[pair[0], pair[1], ("outcome", "rejected")], 1.0);
    check("streamgate_rejections_total", &[pair[0], ("reason", "tenant_in_flight")], 1.0);
    check("streamgate_slo_good_requests_total", &pair, 1.0);
    for (kind, count) in [("prompt", 517.0), ("completion", 128.0), ("cached", 500.0)] {
        check("streamgate_tokens_total", &[pair[0], pair[1], ("kind", kind)], count);
    }
    check("streamgate_time_to_first_token_seconds_sum", &pair, 0.26);
    check("streamgate_time_per_output_token_seconds_sum", &pair, 0.052);
    check("streamgate_request_duration_seconds_sum", &pair, 7.0);
    check("streamgate_request_duration_seconds_count", &pair, 1.0);
    check("streamgate_queue_wait_seconds_count", &pair[..1], 2.0);
}

#[test]
fn gauges_are_their_owners_values() {
    let telemetry = fake::telemetry();
    let mut running = arrive(&telemetry, "a");
    running.admitted();
    let _waiting = arrive(&telemetry, "b");
    telemetry.selected(&PoolId::from("l20"), Selection::LeastRequest);
    telemetry.stream_cut(CutCause::Operator);
    telemetry.client_retry(&TenantId::from("b"));
    telemetry.shadow_rejection(&TenantId::from("b"), Reason::QueueFull);
    telemetry.reload_refused();
    let seen = scrape(&telemetry);
    let endpoint = [("pool", "l20"), ("endpoint", "127.0.0.1:8002")];
    for (name, labels, expected) in [
        ("in_flight", &[("tenant", "a")][..], 1.0),
        ("queued", &[("tenant", "b")], 1.0),
        ("in_flight_limit", &[("tenant", "a")], 4.0),
        ("fleet_in_flight", &[("tenant", "a")], 2.0),
        ("pool_demand", &[("pool", "l20")], 3.0),
        ("endpoint_in_flight", &endpoint, 1.0),
        ("endpoint_state", &[endpoint[0], endpoint[1], ("state", "draining")], 1.0),
        ("endpoint_state", &[endpoint[0], endpoint[1], ("state", "ready")], 0.0),
        ("drain_state", &[("state", "serving")], 1.0),
        ("drain_state", &[("state", "drained")], 0.0),
        ("quota_store_up", &[], 1.0),
        ("quota_fenced", &[], 0.0),
        ("routing_selections_total", &[("pool", "l20"), ("selection", "least_request")], 1.0),
        ("streams_cut_total", &[("cause", "operator")], 1.0),
        ("client_retries_total", &[("tenant", "b")], 1.0),
        ("shadow_rejections_total", &[("tenant", "b"), ("reason", "queue_full")], 1.0),
        ("config_reload_failed", &[], 1.0),
        ("build_info", &[("version", "1.2.3")], 1.0),
    ] {
        let value = seen.value(&format!("streamgate_{name}"), labels);
        assert!((value - expected).abs() < f64::EPSILON, "{name} {labels:?}: {value}");
    }
    telemetry.reload(&fake::labels());
    assert!(scrape(&telemetry).value("streamgate_config_reload_failed", &[]) < 0.5);
}

#[test]
fn the_exposition_is_the_closed_list() {
    let telemetry = fake::telemetry();
    complete(&telemetry, "a", "big");
    telemetry.selected(&PoolId::from("l20"), Selection::Random);
    let scrape = scrape(&telemetry);
    let own = |name: &&String| name.starts_with("streamgate_");
    let seen: BTreeSet<_> = scrape.0.keys().filter(own).map(String::as_str).collect();
    let listed: BTreeSet<_> = names::ALL.iter().map(|metric| metric.name).collect();
    assert_eq!(seen, listed);
    for metric in names::ALL {
        let family = &scrape.0[metric.name];
        assert_eq!(family.kind, format!("{:?}", metric.kind).to_lowercase(), "{}", metric.name);
        for (_, labels) in family.samples.keys() {
            let keys: BTreeSet<_> =
                labels.keys().map(String::as_str).filter(|key| *key != "le").collect();
            let expected: BTreeSet<_> = metric.labels.iter().copied().collect();
            assert_eq!(keys, expected, "{}", metric.name);
        }
    }
    let foreign = scrape.0.keys().filter(|name| !own(name));
    assert!(foreign.clone().all(|name| name.starts_with("process_")), "{foreign:?}");
}

#[test]
fn labels_are_bounded_by_the_configuration() {
    let telemetry = fake::telemetry();
    let before = telemetry.exposition(&*Fake::new(Arc::clone(&telemetry))).lines().count();
    for n in 0..50 {
        complete(&telemetry, &format!("tenant-{n}"), &format!("model-{n}"));
        complete(&telemetry, "a", &format!("model-{n}"));
    }
    let after = telemetry.exposition(&*Fake::new(Arc::clone(&telemetry))).lines().count();
    assert_eq!(before, after);
    assert_eq!(telemetry.ledger(&TenantId::unknown()).ended(Outcome::Complete), 50);
}

#[test]
fn a_reload_adds_tenants_and_keeps_counts() {
    let telemetry = fake::telemetry();
    complete(&telemetry, "a", "big");
    let open = arrive(&telemetry, "a");
    telemetry.reload(&Labels {
        tenants: vec![(TenantId::from("c"), ModelSet::Any)],
        models: vec![ModelName::from("new")],
    });
    complete(&telemetry, "c", "new");
    drop(open);
    let scrape = scrape(&telemetry);
    for (tenant, model, outcome) in
        [("a", "big", "complete"), ("c", "new", "complete"), ("a", "other", "failed")]
    {
        let labels = [("tenant", tenant), ("model", model), ("outcome", outcome)];
        assert!((scrape.value("streamgate_requests_total", &labels) - 1.0).abs() < f64::EPSILON);
    }
}

#[test]
fn promtool_accepts_the_exposition() {
    let telemetry = fake::telemetry();
    complete(&telemetry, "a", "big");
    let text = telemetry.exposition(&*Fake::new(Arc::clone(&telemetry)));
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut promtool = match command.stderr(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("promtool is not installed; the structural tests stand alone");
            return;
        }
        Err(error) => panic!("promtool does not start: {error}"),
    };
    promtool.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
    let output = promtool.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}
