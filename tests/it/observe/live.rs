//! What is seen while requests run.

use super::{admin, stand};
use crate::support::call::{Call, Leave, Proto, ask};
use crate::support::request::{Request, chat};
use crate::support::{Api, Gate, OwnEngine, Setup, eventually};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use streamgate_loadtests::engine::EngineConfig;

const TENANTS: [&str; 3] = ["a", "q", "s"];

async fn start() -> (OwnEngine, Gate) {
    let engine = OwnEngine::start(EngineConfig::instant(Duration::from_millis(3))).await;
    let setup = Setup::new(&[engine.addr()])
        .tenant("a", "max_in_flight: 2")
        .tenant("q", "max_in_flight: 2\non_limit: queue\nqueue: {max_depth: 3, max_wait: 40ms}")
        .tenant("s", "max_in_flight: 1\nmode: shadow");
    (engine, Gate::start(setup).await)
}

/// One request that ends in some way. `false`: its client left so early that it may not have
/// arrived.
async fn anything(to: SocketAddr, random: &mut StdRng) -> bool {
    let tenant = TENANTS[random.random_range(0..3)];
    let api = Api::ALL[random.random_range(0..4)];
    let proto = Proto::ALL[random.random_range(0..2)];
    let request = Request::post(Api::Chat.path(), tenant, chat(random.random_range(1..20), true));
    let request = match random.random_range(0..10) {
        0 => request.without_key(),
        1 => Request::post(api.path(), tenant, "{"),
        2 => request.fault("cut=events:5"),
        3 => request.fault("error-after=4"),
        4 => request.fault("status=503"),
        _ => request,
    };
    if random.random_range(0..4) > 0 {
        ask(proto, to, &request).await;
        return true;
    }
    let mut call = Call::start(proto, to, &request).await;
    let waits = random.random();
    if waits {
        let _ = call.head().await;
    }
    let leave = if proto == Proto::H1 { Leave::Reset } else { Leave::StreamReset };
    call.leave(leave).await;
    waits
}

/// `arrivals = Σ outcomes + in flight + queued` for each tenant.
async fn balanced(gate: &Gate) -> f64 {
    let metrics = gate.metrics().await;
    for tenant in ["a", "q", "s", "unknown"] {
        let sum = |name: &str| metrics.sum_where(name, &[("tenant", tenant)]);
        let arrivals = sum("streamgate_arrivals_total");
        let rest = sum("streamgate_requests_total")
            + sum("streamgate_in_flight")
            + sum("streamgate_queued");
        assert_eq!(arrivals, rest, "{tenant}");
    }
    let state = admin(gate, "/api/v1/state").await;
    for tenant in state["tenants"].as_array().unwrap() {
        let number = |value: &Value| value.as_f64().unwrap();
        let outcomes: f64 = tenant["outcomes"].as_object().unwrap().values().map(number).sum();
        let rest = outcomes + number(&tenant["in_flight"]) + number(&tenant["queued"]);
        assert_eq!(number(&tenant["arrivals"]), rest, "{tenant}");
    }
    metrics.sum("streamgate_in_flight")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_books_agree_in_every_scrape() {
    const LANES: u64 = 8;
    const REQUESTS: u64 = 60;
    let (_engine, gate) = start().await;
    let (to, busy) = (gate.proxy, Arc::new(AtomicBool::new(true)));
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| {
            tokio::spawn(async move {
                let mut random = StdRng::seed_from_u64(lane);
                let mut certain = 0;
                for _ in 0..REQUESTS {
                    certain += u64::from(anything(to, &mut random).await);
                }
                certain
            })
        })
        .collect();
    let flag = busy.clone();
    let load = tokio::spawn(async move {
        let mut certain = 0;
        for lane in lanes {
            certain += lane.await.unwrap();
        }
        flag.store(false, Ordering::Relaxed);
        certain
    });
    let (mut scrapes, mut under_load) = (0, 0);
    while busy.load(Ordering::Relaxed) {
        scrapes += 1;
        under_load += u32::from(balanced(&gate).await > 0.0);
    }
    let certain = load.await.unwrap() as f64;
    assert!(scrapes >= 20 && under_load >= 5, "{under_load} of {scrapes} scrapes saw load");
    println!("{scrapes} scrapes, {under_load} of them with requests in flight");
    let metrics = gate.settled().await;
    balanced(&gate).await;
    let arrivals = metrics.sum("streamgate_arrivals_total");
    assert!((certain..=(LANES * REQUESTS) as f64).contains(&arrivals), "{arrivals}, {certain}");
    assert_eq!(metrics.outcome("failed"), 0.0);
    assert_eq!(metrics.sum("streamgate_fleet_in_flight"), 0.0);
}

#[tokio::test]
async fn holders_are_listed_and_can_be_cut_one_by_one() {
    let (engine, gate) = start().await;
    assert_eq!(admin(&gate, "/api/v1/holders").await, Value::Array(vec![]));
    let mut first = stand(&gate, "a", "first").await;
    let second = stand(&gate, "a", "second").await;
    let listed = eventually("both tokens are counted", || async {
        let holders = admin(&gate, "/api/v1/holders").await;
        let counted = |holder: &Value| holder["tokens"].as_u64().is_some_and(|tokens| tokens > 0);
        let all = holders.as_array()?;
        (all.len() == 2 && all.iter().all(counted)).then_some(holders)
    })
    .await;
    for holder in listed.as_array().unwrap() {
        assert_eq!(holder["tenant"], "a");
        assert_eq!(holder["model"], "sim");
        assert_eq!(holder["endpoint"], engine.addr().to_string());
        assert!(holder["age_seconds"].as_f64().is_some_and(|age| age > 0.0));
        assert!(["first", "second"].contains(&holder["request_id"].as_str().unwrap()));
    }
    let full = gate.answer(&Api::Chat.stream(1)).await;
    assert_eq!((full.status, full.reason()), (429, Some("tenant_in_flight")));

    let client = reqwest::Client::new();
    let delete = |id: &str| client.delete(gate.admin_url(&format!("/api/v1/holders/{id}"))).send();
    assert_eq!(delete("nobody").await.unwrap().status(), 404);
    assert_eq!(delete("first").await.unwrap().status(), 200);
    let (text, ending) = first.rest().await;
    assert_ne!(ending, crate::support::wire::Ending::Whole);
    let event = Api::Chat.error_event(&text);
    assert_eq!(Api::Chat.error_code(&event), Some("cut_by_operator"));
    // The slot is back, the other one still held.
    let again = eventually("the slot is back", || async {
        let answer = gate.answer(&Api::Chat.stream(1)).await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert!(again.text().ends_with("data: [DONE]\n\n"));
    let left = admin(&gate, "/api/v1/holders").await;
    assert_eq!(left.as_array().unwrap().len(), 1, "{left}");
    assert_eq!(left[0]["request_id"], "second");
    let line = gate.line_of("first").await;
    assert_eq!(
        (&line["outcome"], &line["error"]),
        (&"truncated".into(), &"cut_by_operator".into())
    );
    assert_eq!(delete("first").await.unwrap().status(), 404, "it is gone");
    second.leave(Leave::Close).await;
    gate.settled().await;
}

/// A request that waits for its first token is cut with an honest status.
#[tokio::test]
async fn a_holder_without_a_word_is_cut_too() {
    let (_engine, gate) = start().await;
    let request = Api::Chat.stream(5).id("silent").fault("delay-head=5m");
    let mut call = Call::start(Proto::H1, gate.proxy, &request).await;
    eventually("it is listed", || async {
        let holders = admin(&gate, "/api/v1/holders").await;
        (holders.as_array()?.len() == 1).then_some(())
    })
    .await;
    let client = reqwest::Client::new();
    let url = gate.admin_url("/api/v1/holders/silent");
    assert_eq!(client.delete(url).send().await.unwrap().status(), 200);
    let answer = call.answer().await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    let metrics = gate.settled().await;
    assert_eq!(metrics.outcome("truncated"), 1.0);
}

/// Shadow never refuses, whatever else the tenant does.
#[tokio::test]
async fn a_shadow_tenant_is_counted_and_never_refused() {
    let (_engine, gate) = start().await;
    let mut standing = Vec::new();
    for number in 0..5 {
        standing.push(stand(&gate, "s", &format!("s-{number}")).await);
    }
    let metrics = gate.metrics().await;
    let shadow = [("tenant", "s"), ("reason", "tenant_in_flight")];
    assert_eq!(metrics.sum_where("streamgate_shadow_rejections_total", &shadow), 4.0);
    assert_eq!(metrics.sum_where("streamgate_in_flight", &[("tenant", "s")]), 5.0);
    assert_eq!(metrics.sum("streamgate_rejections_total"), 0.0);
    let state = admin(&gate, "/api/v1/state").await;
    let of_s = |tenant: &&Value| tenant["tenant"] == "s";
    let tenants = state["tenants"].as_array().unwrap();
    assert_eq!(tenants.iter().find(of_s).unwrap()["mode"], "shadow");
    for call in standing {
        call.leave(Leave::Close).await;
    }
    let metrics = gate.settled().await;
    assert_eq!(metrics.sum("streamgate_fleet_in_flight"), 0.0);
}
