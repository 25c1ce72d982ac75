//! A client that leaves is noticed in every phase, its engine's work ends, and only then is its
//! slot given away.

use crate::support::scripted::{CHAT_END, STREAM_HEAD, Scripted, chat_event};
use crate::support::wire::{Ending, Wire};
use crate::support::{Api, Call, Gate, Leave, OwnEngine, Proto, Setup, bounded};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::{Duration, Instant};
use streamgate_loadtests::engine::{Engine, EngineConfig};
use tokio::net::TcpStream;

/// More tokens than any test waits for.
const LONG: u32 = 100_000;
/// Far below any timeout in force, far above what is measured (and printed).
const SOON: Duration = Duration::from_secs(1);
/// How long the proxy waits for an engine's close before it gives the slot away.
const CONFIRM: Duration = Duration::from_millis(300);

async fn slow_engine() -> Engine {
    Engine::start(EngineConfig::instant(Duration::from_millis(5))).await.unwrap()
}

async fn gate(engine: std::net::SocketAddr, cap: u32) -> Gate {
    let tenant =
        format!("max_in_flight: {cap}\non_limit: queue\nqueue: {{max_depth: 8, max_wait: 1m}}");
    Gate::start(Setup::new(&[engine]).tenant("a", &tenant)).await
}

/// Leaves a request at an engine in every way; the engine sees each within [`SOON`].
async fn leave_while(phase: &str, request: crate::support::request::Request, began: &str) {
    let engine = slow_engine().await;
    let gate = gate(engine.addr(), 1).await;
    for how in Leave::ALL {
        let mut call = Call::start(how.proto(), gate.proxy, &request).await;
        let busy = engine.wait_stats(|stats| stats.in_flight == 1, Duration::from_secs(20)).await;
        busy.unwrap();
        if !began.is_empty() {
            assert_eq!(call.head().await.unwrap().0, 200);
            call.until(began).await;
        }
        let before = Instant::now();
        let left = call.leave(how).await;
        engine.wait_stats(|stats| stats.in_flight == 0, SOON).await.unwrap();
        let seen = engine.aborts().last().unwrap().seen.saturating_duration_since(before);
        println!("{phase}, {how:?}: the engine heard it after {seen:?}");
        gate.settled().await;
        drop(left);
    }
    let metrics = gate.settled().await;
    assert_eq!(metrics.outcome("client_cancelled"), 5.0);
    assert_eq!((engine.stats().max_in_flight, engine.stats().aborts), (1, 5));
    assert_eq!(gate.answer(&Api::Chat.stream(2)).await.ending, Ending::Whole);
}

#[tokio::test]
async fn in_the_first_byte_wait() {
    leave_while("first byte", Api::Chat.stream(5).fault("delay-head=5m"), "").await;
}

#[tokio::test]
async fn with_the_head_held() {
    let silent = Api::Messages.stream(5).fault("opening-silence=forever");
    leave_while("held head", silent, "").await;
}

#[tokio::test]
async fn while_streaming() {
    leave_while("streaming", Api::Responses.stream(LONG), Api::Responses.content_mark()).await;
}

#[tokio::test]
async fn waiting_for_a_plain_answer() {
    leave_while("plain answer", Api::Completions.plain(LONG), "").await;
}

#[tokio::test]
async fn waiting_for_what_is_not_understood() {
    let engine = Scripted::start().await;
    let gate = gate(engine.addr, 1).await;
    let mut engine = engine;
    for how in Leave::ALL {
        let request = crate::support::request::Request::get("/v1/other", "a");
        let call = Call::start(how.proto(), gate.proxy, &request).await;
        let mut taken = engine.next().await;
        taken.write("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").await;
        let left = call.leave(how).await;
        taken.closed().await;
        drop(taken);
        gate.settled().await;
        drop(left);
    }
    assert_eq!(gate.settled().await.outcome("client_cancelled"), 5.0);
}

#[tokio::test]
async fn in_the_queue() {
    let engine = slow_engine().await;
    let gate = gate(engine.addr(), 1).await;
    let mut running = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(LONG)).await;
    running.head().await.unwrap();
    for how in Leave::ALL {
        let call = Call::start(how.proto(), gate.proxy, &Api::Chat.stream(2)).await;
        gate.metrics_when("one queued", |metrics| metrics.sum("streamgate_queued") == 1.0).await;
        let before = Instant::now();
        let left = call.leave(how).await;
        gate.metrics_when("none queued", |metrics| metrics.sum("streamgate_queued") == 0.0).await;
        println!("queue, {how:?}: gone after {:?}", before.elapsed());
        assert!(before.elapsed() < SOON);
        drop(left);
    }
    drop(running);
    assert_eq!(gate.settled().await.outcome("client_cancelled"), 6.0);
    assert_eq!(engine.stats().requests, 1, "no queued request reached the engine");
}

/// A listener that takes no further connection: connects neither succeed nor fail.
pub async fn deaf() -> (std::net::SocketAddr, Vec<TcpStream>, socket2::Socket) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&any.into()).unwrap();
    socket.listen(0).unwrap();
    let addr = socket.local_addr().unwrap().as_socket().unwrap();
    let mut fill = Vec::new();
    while let Ok(stream) =
        tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(addr)).await
    {
        fill.push(stream.unwrap());
    }
    (addr, fill, socket)
}

#[tokio::test]
async fn while_connecting() {
    let (addr, _fill, _socket) = deaf().await;
    let setup = Setup::new(&[addr]).tenant("a", "max_in_flight: 1");
    let setup = setup.with("timeouts: {connect: 1m}").pool("health: {interval: 1h, timeout: 1m}");
    let gate = Gate::start(setup).await;
    for how in Leave::ALL {
        let call = Call::start(how.proto(), gate.proxy, &Api::Chat.stream(2)).await;
        let busy = |metrics: &crate::support::Metrics| metrics.sum("streamgate_in_flight") == 1.0;
        gate.metrics_when("one connecting", busy).await;
        let before = Instant::now();
        let left = call.leave(how).await;
        gate.settled().await;
        println!("connecting, {how:?}: gone after {:?}", before.elapsed());
        assert!(before.elapsed() < SOON);
        drop(left);
    }
    assert_eq!(gate.settled().await.outcome("client_cancelled"), 5.0);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Closes {
    AtOnce,
    Late,
    Never,
}

/// A second request waits for the slot of one whose client has left.
async fn the_slot_waits(closes: Closes) {
    let mut engine = Scripted::start().await;
    let gate = gate(engine.addr, 1).await;
    let mut first = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(9)).await;
    let mut taken = engine.next().await;
    taken.write(STREAM_HEAD).await;
    taken.chunk(chat_event("one")).await;
    assert_eq!(first.head().await.unwrap().0, 200);
    first.until("one").await;
    let mut second = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(9)).await;
    gate.metrics_when("one queued", |metrics| metrics.sum("streamgate_queued") == 1.0).await;

    let left = Instant::now();
    first.leave(Leave::Close).await;
    taken.closed().await;
    if closes == Closes::Late {
        tokio::time::sleep(CONFIRM / 2).await;
        let early = engine.try_next().is_some();
        assert!(!early || left.elapsed() >= CONFIRM, "the engine was still at work");
    }
    let kept = (closes == Closes::Never).then_some(taken);
    let mut next = engine.next().await;
    println!("{closes:?}: the slot was given away after {:?}", left.elapsed());
    if let Some(mut stubborn) = kept {
        assert!(left.elapsed() >= CONFIRM, "after {:?}", left.elapsed());
        // What it still sends meets a closed connection.
        bounded("a reset", async { while stubborn.try_chunk("x").await.is_ok() {} }).await;
    }
    next.write(STREAM_HEAD).await;
    next.chunk(chat_event("two")).await;
    next.chunk(CHAT_END).await;
    next.end().await;
    let answer = second.answer().await;
    assert_eq!((answer.status, answer.ending), (200, Ending::Whole));
    assert_eq!(gate.settled().await.outcome("complete"), 1.0);
}

#[tokio::test]
async fn an_engine_that_closes_at_once_frees_the_slot() {
    the_slot_waits(Closes::AtOnce).await;
}

#[tokio::test]
async fn an_engine_that_closes_late_keeps_the_slot_until_then() {
    the_slot_waits(Closes::Late).await;
}

#[tokio::test]
async fn an_engine_that_never_closes_is_cut_off() {
    the_slot_waits(Closes::Never).await;
}

#[tokio::test]
async fn an_engine_that_does_not_read_cannot_keep_a_slot() {
    // The whole request does not fit into the socket, so the proxy is still sending.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let setup = Setup::new(&[listener.local_addr().unwrap()]).tenant("a", "max_in_flight: 1");
    let gate = Gate::start(setup.pool("health: {interval: 1h}")).await;
    let body = format!(r#"{{"model":"sim","stream":true,"prompt":"{}"}}"#, "x".repeat(12 << 20));
    for how in Leave::ALL {
        let request = crate::support::request::Request::post("/v1/completions", "a", &*body);
        let call = Call::start(how.proto(), gate.proxy, &request).await;
        let busy = |metrics: &crate::support::Metrics| metrics.sum("streamgate_in_flight") == 1.0;
        gate.metrics_when("one at the engine", busy).await;
        let _accepted = bounded("a connection", listener.accept()).await.unwrap();
        let left = call.leave(how).await;
        gate.settled().await;
        drop(left);
    }
    assert_eq!(gate.settled().await.outcome("client_cancelled"), 5.0);
}

#[tokio::test]
async fn the_engine_never_sees_a_half_close_while_a_request_lives() {
    let mut engine = Scripted::start().await;
    let gate = gate(engine.addr, 1).await;
    let mut call = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(9)).await;
    let mut taken = engine.next().await;
    taken.write(STREAM_HEAD).await;
    taken.chunk(chat_event("one")).await;
    call.head().await.unwrap();
    call.until("one").await;
    let mut byte = [0];
    let early = tokio::time::timeout(CONFIRM, taken.stream.peek(&mut byte)).await;
    assert!(early.is_err(), "{early:?}");
    taken.chunk(CHAT_END).await;
    taken.end().await;
    assert_eq!(call.rest().await.1, Ending::Whole);
}

/// Clients that cancel and come back at once; the engine's own count decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_in_a_tight_loop_never_exceeds_the_cap() {
    const CAP: usize = 3;
    let engine = OwnEngine::start(EngineConfig::instant(Duration::from_millis(2))).await;
    let tenant = format!("max_in_flight: {CAP}");
    let gate = Gate::start(Setup::new(&[engine.addr()]).tenant("a", &tenant)).await;
    let to = gate.proxy;
    let clients = (0..12_u64).map(|seed| {
        tokio::spawn(async move {
            let mut random = StdRng::seed_from_u64(seed);
            for round in 0..30 {
                let api = Api::ALL[round % 4];
                let request = if random.random() { api.stream(LONG) } else { api.plain(LONG) };
                let mut wire = Wire::connect(to).await;
                wire.send(&request.bytes()).await;
                let patience = Duration::from_micros(random.random_range(0..20_000));
                let _ = tokio::time::timeout(patience, wire.head()).await;
                if random.random() {
                    wire.reset();
                }
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    let metrics = gate.settled().await;
    let stats = engine.stats();
    println!("{} at the engine, {} aborted", stats.requests, stats.aborts);
    assert!(stats.max_in_flight <= CAP, "{stats:?}");
    assert_eq!(stats.in_flight, 0);
    assert_eq!(metrics.outcome("failed"), 0.0);
    gate.all_slots_free(CAP, &engine).await;
}
