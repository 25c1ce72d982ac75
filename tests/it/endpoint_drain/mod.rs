//! The drain of an engine endpoint: orders, restorations, deadlines, new processes; alone and by
//! several replicas over one Redis.

mod alone;
mod cli;
mod fleet;
mod gateway;
mod passive;
mod restore;

use crate::support::{Api, Call, Gate, Proto, Setup, eventually};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use streamgate_loadtests::engine::{Engine, EngineConfig, StatsSnapshot};
use tokio::task::JoinHandle;

/// Slow enough that a test can act between two events.
const SLOW: Duration = Duration::from_millis(20);
/// More than any test waits for.
const LONG: u32 = 100_000;

async fn engine() -> Engine {
    Engine::start(EngineConfig::instant(SLOW)).await.unwrap()
}

/// A gate over these engines that looks at them often.
fn setup(engines: &[SocketAddr]) -> Setup {
    Setup::new(engines)
        .tenant("a", "max_in_flight: 16")
        .pool("health: {interval: 100ms}")
        .with("drain: {propagation: 0s, deadline: 60s, cut_margin: 500ms}")
}

/// A stream of which the first content has come.
async fn streaming(gate: &Gate, tokens: u32) -> Call {
    let mut call = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(tokens)).await;
    let head = call.head().await;
    assert_eq!(head.map(|(status, _)| status), Some(200));
    call.until("content").await;
    call
}

/// A stream on this very engine, the only ready one.
async fn streaming_on(gate: &Gate, engine: &Engine, tokens: u32) -> Call {
    let before = engine.stats().in_flight;
    let call = streaming(gate, tokens).await;
    assert_eq!(engine.stats().in_flight, before + 1, "it runs there");
    call
}

/// An answer of the admin port.
#[derive(Debug)]
struct Reply {
    status: u16,
    body: Value,
}

fn path(endpoint: impl std::fmt::Display) -> String {
    format!("/api/v1/endpoints/{endpoint}/drain")
}

async fn call(method: reqwest::Method, url: String) -> Reply {
    let answer = reqwest::Client::new().request(method, url).send().await.unwrap();
    Reply { status: answer.status().as_u16(), body: answer.json().await.unwrap() }
}

/// Order a drain and wait for its answer.
async fn drain(gate: &Gate, endpoint: SocketAddr, wait: &str) -> Reply {
    let url = gate.admin_url(&format!("{}?wait={wait}", path(endpoint)));
    call(reqwest::Method::POST, url).await
}

/// Order a drain; its answer comes later. The order has been heard when this returns.
async fn draining(gate: &Gate, endpoint: SocketAddr, wait: &str) -> JoinHandle<Reply> {
    let url = gate.admin_url(&format!("{}?wait={wait}", path(endpoint)));
    let waiting = tokio::spawn(call(reqwest::Method::POST, url));
    state_is(gate, endpoint, "draining").await;
    waiting
}

async fn restore(gate: &Gate, endpoint: SocketAddr) -> Reply {
    call(reqwest::Method::DELETE, gate.admin_url(&path(endpoint))).await
}

/// Wait until this replica has the endpoint in this state.
async fn state_is(gate: &Gate, endpoint: SocketAddr, wanted: &str) {
    eventually(&format!("{endpoint} is {wanted}"), || async {
        (endpoint_state(gate, endpoint).await == wanted).then_some(())
    })
    .await;
}

async fn endpoint_state(gate: &Gate, endpoint: SocketAddr) -> String {
    let state = gate.state().await;
    let pools = state["pools"].as_array().unwrap().clone();
    let mut endpoints = pools.iter().flat_map(|pool| pool["endpoints"].as_array().unwrap());
    let found = endpoints.find(|one| one["endpoint"] == endpoint.to_string());
    found.expect("an endpoint")["state"].as_str().unwrap().to_owned()
}

/// What this replica knows of the drain of `endpoint`; null if there is none.
async fn order(gate: &Gate, endpoint: impl ToString) -> Value {
    let state = gate.state().await;
    let orders = state["endpoint_drains"].as_array().unwrap().clone();
    let name = endpoint.to_string();
    orders.into_iter().find(|one| one["endpoint"] == name.as_str()).unwrap_or(Value::Null)
}

/// Wait until what this replica knows of the drain holds.
async fn order_when(
    gate: &Gate,
    endpoint: impl ToString,
    what: &str,
    holds: impl Fn(&Value) -> bool,
) -> Value {
    let name = endpoint.to_string();
    eventually(what, || async {
        let order = order(gate, &name).await;
        holds(&order).then_some(order)
    })
    .await
}

/// Requests sent now go to `engine` and nowhere else.
async fn served_by(gate: &Gate, engine: &Engine) {
    let before = engine.stats().requests;
    for n in 1..=4 {
        let answer = gate.answer(&Api::Chat.stream(2)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(engine.stats().requests, before + n, "all go there");
    }
}

async fn runs(engine: &Engine, count: usize) {
    let some = |stats: &StatsSnapshot| stats.in_flight == count;
    engine.wait_stats(some, crate::support::BOUND).await.expect("so many run");
}
