//! Case 13: a bounded queue stays in its bounds, and no waiter, wake-up or slot is lost.

use crate::support::wire::{Answer, Ending};
use crate::support::{Api, BOUND, Call, Gate, Leave, Proto, Setup, ask, eventually};
use std::collections::BTreeSet;
use std::time::Duration;
use streamgate_loadtests::engine::{Engine, EngineConfig};

const CAP: usize = 4;
const QUEUE: usize = 4;
const CLIENTS: usize = 100;

async fn rig(max_wait: &str) -> (Engine, Gate) {
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(5))).await.unwrap();
    let tenant = format!(
        "max_in_flight: {CAP}\non_limit: queue\nqueue: {{max_depth: {QUEUE}, max_wait: {max_wait}}}"
    );
    let gate = Gate::start(Setup::new(&[engine.addr()]).tenant("a", &tenant)).await;
    (engine, gate)
}

/// `CLIENTS` at once: those that are answered at once, and those that run or wait.
async fn crowd(gate: &Gate) -> (Vec<Answer>, Vec<Call>) {
    let mut waiting = Vec::new();
    for n in 0..CLIENTS {
        let request = Api::ALL[n % 4].stream(100_000).fault("delay-head=5m");
        waiting.push(Call::start(Proto::ALL[n % 2], gate.proxy, &request).await);
    }
    let refused = |metrics: &crate::support::Metrics| metrics.outcome("rejected");
    gate.metrics_when("all are decided", |metrics| {
        refused(metrics) >= (CLIENTS - CAP - QUEUE) as f64
            && metrics.sum("streamgate_in_flight") == CAP as f64
            && metrics.sum("streamgate_queued") == QUEUE as f64
    })
    .await;
    let (mut answers, mut stay) = (Vec::new(), Vec::new());
    for mut call in waiting {
        match tokio::time::timeout(Duration::from_millis(1), call.answer()).await {
            Ok(answer) => answers.push(answer),
            Err(_) => stay.push(call),
        }
    }
    // A refusal that needed longer to be read is still one.
    while answers.len() < CLIENTS - CAP - QUEUE {
        let mut call = stay.remove(0);
        match tokio::time::timeout(Duration::from_millis(50), call.answer()).await {
            Ok(answer) => answers.push(answer),
            Err(_) => stay.push(call),
        }
    }
    (answers, stay)
}

#[tokio::test]
async fn exactly_the_queue_waits_and_every_slot_comes_back() {
    let (engine, gate) = rig("10m").await;
    let (refused, stay) = crowd(&gate).await;
    assert_eq!((refused.len(), stay.len()), (CLIENTS - CAP - QUEUE, CAP + QUEUE));
    let mut waits = BTreeSet::new();
    for answer in &refused {
        assert_eq!((answer.status, answer.reason()), (429, Some("queue_full")));
        let wait: u64 = answer.headers["retry-after"].parse().unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
        waits.insert(answer.headers["retry-after-ms"].clone());
    }
    assert!(waits.len() > 20, "the waits are spread: {}", waits.len());
    engine.wait_stats(|stats| stats.in_flight == CAP, BOUND).await.unwrap();
    assert_eq!(engine.stats().requests, CAP as u64, "those who wait have not asked the engine");

    // Everybody leaves, in every way and in no order: runners and waiters alike.
    let mut left = Vec::new();
    for (n, call) in stay.into_iter().enumerate() {
        let ways: &[Leave] = match &call {
            Call::H1(_) => &[Leave::Close, Leave::Reset, Leave::HalfClose],
            Call::H2(_) => &[Leave::StreamReset, Leave::ConnectionClose],
        };
        left.push(call.leave(ways[n % ways.len()]).await);
    }
    let metrics = gate.settled().await;
    assert_eq!(metrics.outcome("rejected"), (CLIENTS - CAP - QUEUE) as f64);
    assert_eq!(metrics.outcome("client_cancelled"), (CAP + QUEUE) as f64);
    assert_eq!(metrics.outcome("failed"), 0.0);
    gate.all_slots_free(CAP, &engine).await;
    assert_eq!(engine.stats().max_in_flight, CAP);
}

/// Waiters that leave make room for newcomers and take no slot with them.
#[tokio::test]
async fn killed_waiters_lose_nothing() {
    let (engine, gate) = rig("10m").await;
    let silent = Api::Chat.stream(2).fault("delay-head=5m");
    let mut running = Vec::new();
    for _ in 0..CAP {
        running.push(Call::start(Proto::H1, gate.proxy, &silent).await);
    }
    engine.wait_stats(|stats| stats.in_flight == CAP, BOUND).await.unwrap();
    for round in 0..5 {
        let mut waiting = Vec::new();
        for how in [Leave::Close, Leave::Reset, Leave::StreamReset, Leave::ConnectionClose] {
            waiting.push((how, Call::start(how.proto(), gate.proxy, &silent).await));
        }
        let queued = |metrics: &crate::support::Metrics| metrics.sum("streamgate_queued");
        gate.metrics_when("a full queue", |metrics| queued(metrics) == QUEUE as f64).await;
        let full = gate.answer(&silent).await;
        assert_eq!(full.reason(), Some("queue_full"), "round {round}");
        for (how, call) in waiting {
            let _left = call.leave(how).await;
        }
        gate.metrics_when("an empty queue", |metrics| queued(metrics) == 0.0).await;
    }
    assert_eq!(engine.stats().requests, CAP as u64);
    drop(running);
    gate.all_slots_free(CAP, &engine).await;
}

/// Slots that come free go to those who wait, in their order.
#[tokio::test]
async fn waiters_are_served_in_order() {
    let (engine, gate) = rig("10m").await;
    let mut running = Vec::new();
    for n in 0..CAP {
        let request = Api::Chat.stream(100_000).fault("delay-head=5m").id(&format!("runs-{n}"));
        running.push(Call::start(Proto::H1, gate.proxy, &request).await);
    }
    engine.wait_stats(|stats| stats.in_flight == CAP, BOUND).await.unwrap();
    let mut waiting = Vec::new();
    for n in 0..QUEUE {
        let request = Api::Chat.stream(100_000).fault("delay-head=5m").id(&format!("waits-{n}"));
        waiting.push(Call::start(Proto::ALL[n % 2], gate.proxy, &request).await);
        let queued = (n + 1) as f64;
        gate.metrics_when("it waits", |metrics| metrics.sum("streamgate_queued") == queued).await;
    }
    for n in 0..QUEUE {
        running.remove(0).leave(Leave::Close).await;
        let served = CAP + n + 1;
        engine.wait_stats(|stats| stats.requests == served as u64, BOUND).await.unwrap();
    }
    let ids = engine.requests().into_iter().filter_map(|request| {
        request.header("x-request-id").filter(|id| id.starts_with("waits-")).map(str::to_owned)
    });
    let expected: Vec<_> = (0..QUEUE).map(|n| format!("waits-{n}")).collect();
    assert_eq!(ids.collect::<Vec<_>>(), expected);
    assert_eq!(engine.stats().max_in_flight, CAP);
    drop(waiting);
    gate.settled().await;
}

#[tokio::test]
async fn a_wait_has_its_end() {
    let (engine, gate) = rig("300ms").await;
    let mut running = Vec::new();
    for _ in 0..CAP {
        let mut call = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(100_000)).await;
        assert_eq!(call.head().await.unwrap().0, 200);
        running.push(call);
    }
    for proto in Proto::ALL {
        let answer = ask(proto, gate.proxy, &Api::Messages.plain(2)).await;
        assert_eq!((answer.status, answer.reason()), (429, Some("queue_timeout")));
        assert_eq!(answer.json()["error"]["type"], "rate_limit_error");
    }
    drop(running);
    gate.all_slots_free(CAP, &engine).await;
}

/// More clients than slots, all of which come again at once: each is served every time, as nobody
/// who waits is forgotten. A newcomer may meet a queue whose first is about to run.
#[tokio::test]
async fn no_wake_up_is_lost() {
    let (engine, gate) = rig("10m").await;
    let to = gate.proxy;
    let clients: Vec<_> = (0..CAP + QUEUE)
        .map(|n| {
            tokio::spawn(async move {
                let mut served = 0;
                while served < 25 {
                    let api = Api::ALL[(n + served) % 4];
                    let answer = ask(Proto::ALL[n % 2], to, &api.stream(2)).await;
                    assert_eq!(answer.ending, Ending::Whole);
                    match answer.reason() {
                        None => served += 1,
                        reason => assert_eq!(reason, Some("queue_full")),
                    }
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(gate.settled().await.outcome("complete"), (25 * (CAP + QUEUE)) as f64);
    assert!(engine.stats().max_in_flight <= CAP);
    eventually("the engine is idle", || {
        std::future::ready((engine.stats().in_flight == 0).then_some(()))
    })
    .await;
}
