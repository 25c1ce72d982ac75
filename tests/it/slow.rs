//! Slow and silent connections: each ends at its deadline, none holds a slot, and others are served
//! meanwhile.

use crate::support::h2::H2;
use crate::support::request::Request;
use crate::support::wire::{Ending, Wire};
use crate::support::{Api, Call, Gate, Proto, Setup};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use streamgate_loadtests::engine::{Engine, EngineConfig};

const CONNECTIONS: usize = 1000;
const DEADLINE: Duration = Duration::from_secs(2);
/// Room for a loaded machine; without a deadline nothing would ever be closed.
const LATEST: Duration = Duration::from_secs(30);

/// What a slow client sends, and with which status it is told to go, if it is told.
fn dawdler(n: usize) -> (Vec<u8>, Option<&'static str>) {
    let request = Api::Chat.stream(3);
    let whole = request.bytes();
    let body = whole.len() - request.body().len();
    match n % 8 {
        0 => (Vec::new(), None),
        1 => (b"P".to_vec(), None),
        2 => (b"PRI * HTTP/2.0\r\n".to_vec(), None),
        3 => (b"PO".to_vec(), None),
        4 => (whole[..20].to_vec(), Some("408")),
        5 => (whole[..body - 4].to_vec(), Some("408")),
        6 => (whole[..body].to_vec(), Some("408")),
        _ => (whole[..whole.len() - 1].to_vec(), Some("408")),
    }
}

/// Whether it was closed as it should be, and after how long.
async fn dawdle(to: std::net::SocketAddr, n: usize) -> Duration {
    let (bytes, told) = dawdler(n);
    let began = Instant::now();
    let mut wire = Wire::connect(to).await;
    wire.send(&bytes).await;
    let rest = tokio::time::timeout(LATEST, wire.raw_rest());
    let (answer, ending) = rest.await.expect("closed at its deadline");
    let answer = String::from_utf8(answer).unwrap();
    match told {
        Some(status) => {
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{n}: {answer}");
        }
        None => assert_eq!(answer, "", "{n}"),
    }
    assert_eq!(ending, Ending::Cut, "{n}: {answer}");
    assert!(began.elapsed() >= DEADLINE, "{n}: closed after {:?}", began.elapsed());
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_dawdlers_bother_nobody() {
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(1))).await.unwrap();
    let setup = Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 1");
    let timeouts =
        format!("timeouts: {{client_header: {0}ms, client_body: {0}ms}}", DEADLINE.as_millis());
    let gate = Gate::start(setup.with(&timeouts)).await;
    let to = gate.proxy;
    let dawdlers: Vec<_> =
        (0..CONNECTIONS).map(|n| tokio::spawn(async move { dawdle(to, n).await })).collect();

    // One client with one slot, all the while.
    let over = Arc::new(AtomicBool::new(false));
    let served = Arc::new(AtomicU32::new(0));
    let (stop, count) = (over.clone(), served.clone());
    let busy = tokio::spawn(async move {
        let mut wire = Wire::connect(to).await;
        while !stop.load(Ordering::Relaxed) {
            let answer = wire.call(&Api::Chat.stream(3)).await;
            assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{}", answer.text());
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut longest = Duration::ZERO;
    for dawdler in dawdlers {
        longest = longest.max(dawdler.await.unwrap());
    }
    over.store(true, Ordering::Relaxed);
    busy.await.unwrap();
    let served = served.load(Ordering::Relaxed);
    println!("{served} requests served meanwhile; the last dawdler closed after {longest:?}");
    assert!(served > 10, "{served}");
    let metrics = gate.settled().await;
    assert_eq!(metrics.outcome("complete"), f64::from(served));
    assert_eq!(metrics.outcome("rejected"), CONNECTIONS as f64 / 2.0, "those that began a request");
    assert_eq!(metrics.outcome("failed"), 0.0);
    gate.all_slots_free(1, &engine).await;
}

/// The same over HTTP/2: a stream whose body does not come is refused, the connection stays.
#[tokio::test]
async fn a_slow_http2_body_has_its_deadline() {
    let engine = Engine::start(EngineConfig::default()).await.unwrap();
    let setup = Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 1");
    let gate = Gate::start(setup.with("timeouts: {client_body: 300ms}")).await;
    let mut connection = H2::connect(gate.proxy).await;
    let request = Api::Chat.stream(3);
    for part in [&b""[..], &request.body()[..10]] {
        let mut call = connection.open(&request, false).await;
        if !part.is_empty() {
            call.write(bytes::Bytes::copy_from_slice(part), false);
        }
        let (status, headers) = call.head().await.unwrap();
        assert_eq!(status, 408);
        assert_eq!(headers["x-streamgate-reason"], "bad_request");
    }
    let mut call = connection.send(&request).await;
    assert_eq!(call.head().await.unwrap().0, 200, "others on the connection are served");
    assert_eq!(engine.stats().requests, 1);
}

/// An HTTP/2 client that begins a connection and never sends a whole request has its deadline too;
/// one with a stream that runs, or that had its request, is left alone.
#[tokio::test]
async fn an_http2_connection_without_a_request_has_its_deadline() {
    const HEAD: Duration = Duration::from_secs(1);
    const GOAWAY: &[u8] = b"\x00\x00\x08\x07\x00\x00\x00\x00\x00";
    const SETTINGS: &[u8] = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00";
    const UNFINISHED: &[u8] = b"\x00\x00\x02\x01\x00\x00\x00\x00\x01\x83\x86";
    const PING: &[u8] = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00abcdefgh";
    let engine = Engine::start(EngineConfig::default()).await.unwrap();
    let setup = Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 2");
    let gate = Gate::start(setup.with("timeouts: {client_header: 1s}")).await;
    let mut idle = H2::connect(gate.proxy).await;
    let mut call = idle.send(&Api::Chat.stream(3)).await;
    assert_eq!(call.head().await.unwrap().0, 200);
    while call.piece().await.unwrap().is_some() {}
    let mut busy = H2::connect(gate.proxy).await;
    let mut running = busy.send(&Api::Chat.stream(100_000)).await;
    assert_eq!(running.head().await.unwrap().0, 200);

    let starts: [&[&[u8]]; 5] = [
        &[],
        &[SETTINGS],
        &[SETTINGS, UNFINISHED],
        &[SETTINGS, &UNFINISHED[..6]],
        &[SETTINGS, PING],
    ];
    let hold = starts.map(|frames| async move {
        let began = Instant::now();
        let mut wire = Wire::connect(gate.proxy).await;
        wire.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        wire.send(&frames.concat()).await;
        let rest = tokio::time::timeout(LATEST, wire.raw_rest()).await;
        let (heard, _) = rest.unwrap_or_else(|_| panic!("still open after {frames:?}"));
        assert!(began.elapsed() >= HEAD, "{frames:?}: closed after {:?}", began.elapsed());
        let told = heard.windows(GOAWAY.len()).any(|bytes| bytes == GOAWAY);
        assert!(told || frames.is_empty(), "{frames:?}: {heard:?}");
    });
    futures::future::join_all(hold).await;

    assert!(running.piece().await.expect("a stream that goes on").is_some());
    for connection in [&mut idle, &mut busy] {
        let mut call = connection.send(&Api::Chat.stream(3)).await;
        assert_eq!(call.head().await.unwrap().0, 200);
        while call.piece().await.unwrap().is_some() {}
    }
    running.reset();
    gate.settled().await;
}

/// A byte now and then does not extend a deadline.
#[tokio::test]
async fn a_dripping_client_has_the_same_deadline() {
    let engine = Engine::start(EngineConfig::default()).await.unwrap();
    let setup = Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 1");
    let gate =
        Gate::start(setup.with("timeouts: {client_header: 600ms, client_body: 600ms}")).await;
    let request = Request::post(Api::Chat.path(), "a", "x".repeat(5000));
    let bytes = request.bytes();
    let head = bytes.len() - 5000;
    for start in [10, head] {
        let mut wire = Wire::connect(gate.proxy).await;
        wire.send(&bytes[..start]).await;
        let drip = async {
            for byte in &bytes[start..] {
                wire.send(std::slice::from_ref(byte)).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
                if !wire.silent_for(Duration::from_millis(1)).await {
                    return;
                }
            }
            panic!("it took everything");
        };
        tokio::time::timeout(LATEST, drip).await.expect("an end");
        assert_eq!(wire.answer().await.status, 408);
    }
    assert_eq!(engine.stats().requests, 0);
}

/// A connection may idle between requests for longer than a head may take.
#[tokio::test]
async fn idling_between_requests_is_not_slowness() {
    let engine = Engine::start(EngineConfig::default()).await.unwrap();
    let setup = Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 1");
    let gate = Gate::start(setup.with("timeouts: {client_header: 200ms}")).await;
    let mut wire = Wire::connect(gate.proxy).await;
    for _ in 0..2 {
        assert_eq!(wire.call(&Api::Chat.stream(3)).await.status, 200);
        assert!(wire.silent_for(Duration::from_millis(700)).await);
    }
    assert_eq!(wire.call(&Api::Chat.stream(3)).await.status, 200);
    assert_eq!(gate.settled().await.sum("streamgate_arrivals_total"), 3.0);
}

/// Half a head, then gone: nothing is left behind.
#[tokio::test]
async fn those_who_leave_early_leave_nothing() {
    let engine = Engine::start(EngineConfig::default()).await.unwrap();
    let gate = Gate::start(Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 1")).await;
    for n in 0..64 {
        let mut wire = Wire::connect(gate.proxy).await;
        wire.send(&dawdler(n).0).await;
        if n % 3 == 0 {
            wire.reset();
        }
    }
    gate.settled().await;
    let mut call = Call::start(Proto::H2c, gate.proxy, &Api::Chat.stream(3)).await;
    assert_eq!(call.head().await.unwrap().0, 200);
    let metrics = gate.metrics_when("all ended", |m| m.outcome("complete") == 1.0).await;
    assert_eq!(metrics.outcome("failed"), 0.0);
    assert_eq!(engine.stats().requests, 1);
}
