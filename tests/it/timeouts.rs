//! Every deadline, with short values: what the client is told, and how it counts.

use crate::cancel::deaf;
use crate::support::request::Request;
use crate::support::scripted::{CHAT_END, STREAM_HEAD, Scripted, Taken, chat_event};
use crate::support::tls::Identity;
use crate::support::wire::{Ending, Wire, chat};
use crate::support::{Api, Call, Gate, Proto, Setup, ask, bounded};
use socket2::SockRef;
use std::time::{Duration, Instant};
use streamgate_loadtests::engine::{Engine, EngineConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

async fn rig(timeouts: &str) -> (Engine, Gate) {
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(5))).await.unwrap();
    let setup = Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 8");
    (engine, Gate::start(setup.with(&format!("timeouts: {timeouts}"))).await)
}

#[tokio::test]
async fn connect() {
    let (addr, _fill, _socket) = deaf().await;
    let setup = Setup::new(&[addr]).tenant("a", "max_in_flight: 1");
    let setup = setup.pool("health: {interval: 1h, timeout: 1m}\nretries: {max_attempts: 1}");
    let gate = Gate::start(setup.with("timeouts: {connect: 200ms}")).await;
    for proto in Proto::ALL {
        let answer = ask(proto, gate.proxy, &Api::Chat.stream(2)).await;
        assert_eq!(answer.status, 502, "{}", answer.text());
        assert_eq!(answer.reason(), Some("upstream_unreachable"));
    }
    let metrics = gate.settled().await;
    assert_eq!(metrics.outcome("upstream_error"), 2.0);
}

#[tokio::test]
async fn first_byte() {
    let (engine, gate) = rig("{first_byte: 300ms}").await;
    let faults = ["delay-head=5m", "opening-silence=forever", "delay-first=5m"];
    for (n, fault) in faults.into_iter().enumerate() {
        for proto in Proto::ALL {
            for request in [Api::Messages.stream(5), Api::Chat.plain(5)] {
                // A plain answer has no openings.
                let request = request.fault(if n == 1 { "stall-after=0" } else { fault });
                let answer = ask(proto, gate.proxy, &request).await;
                assert_eq!((answer.status, answer.ending), (504, Ending::Whole));
                assert_eq!(answer.reason(), Some("upstream_timeout"), "{}", answer.text());
            }
        }
    }
    let metrics = gate.settled().await;
    assert_eq!(metrics.outcome("timed_out"), 12.0);
    engine.wait_stats(|stats| stats.in_flight == 0, Duration::from_secs(5)).await.unwrap();
}

/// The deadline counts from the request sent, however long the client took to send it.
#[tokio::test]
async fn first_byte_does_not_count_a_slow_upload() {
    let (_engine, gate) = rig("{first_byte: 2500ms, head_hold: 100ms}").await;
    let request = Api::Chat.stream(3).fault("opening-silence=300ms");
    let bytes = request.bytes();
    let (start, end) = bytes.split_at(bytes.len() - 10);
    let mut wire = Wire::connect(gate.proxy).await;
    wire.send(start).await;
    tokio::time::sleep(Duration::from_millis(2600)).await;
    wire.send(end).await;
    let answer = wire.answer().await;
    assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{}", answer.text());
}

#[tokio::test]
async fn stream_idle_in_a_plain_answer() {
    let mut engine = Scripted::start().await;
    let setup = Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 8");
    let gate = Gate::start(setup.with("timeouts: {stream_idle: 300ms}")).await;
    for proto in Proto::ALL {
        let mut call = Call::start(proto, gate.proxy, &Request::get("/v1/other", "a")).await;
        let mut taken = engine.next().await;
        taken.write("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").await;
        let answer = call.answer().await;
        assert_ne!(answer.ending, Ending::Whole);
        taken.closed().await;
    }
    assert_eq!(gate.settled().await.outcome("timed_out"), 2.0);
}

/// A client that stops reading loses its slot; the engine is told.
#[tokio::test]
async fn write_stall() {
    let mut engine = Scripted::start().await;
    let setup = Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 1");
    let gate = Gate::start(setup.with("timeouts: {write_stall: 400ms}")).await;
    for proto in Proto::ALL {
        let id = format!("{proto:?}");
        let call = Call::start(proto, gate.proxy, &Api::Chat.stream(9).id(&id)).await;
        let mut taken = engine.next().await;
        taken.write(STREAM_HEAD).await;
        let mut event = chat_event(&"x".repeat(60_000));
        event = format!("{:x}\r\n{event}\r\n", event.len());
        bounded("the proxy closes", async { while taken.try_write(&event).await.is_ok() {} }).await;
        let line = gate.line_of(&id).await;
        assert_eq!(
            (&line["outcome"], &line["error"]),
            (&"timed_out".into(), &"write_stall".into())
        );
        gate.settled().await;
        drop(call);
    }
    assert_eq!(gate.settled().await.outcome("timed_out"), 2.0);
}

/// Read an answer of `size` bytes steadily, a little at a time, over a window as small as that of a
/// client far away. The result is what was read in the end.
async fn read_slowly(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &Request,
    size: usize,
) -> usize {
    const RATE: usize = 600_000;
    stream.write_all(&request.bytes()).await.unwrap();
    let (began, mut count) = (Instant::now(), 0);
    let mut some = vec![0; RATE / 50];
    while count < size {
        match stream.read(&mut some).await {
            Ok(0) | Err(_) => break,
            Ok(read) => count += read,
        }
        let due = Duration::from_millis((count * 1000 / RATE) as u64);
        tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
    }
    count
}

/// A full send buffer takes nothing more until megabytes of it have drained; a client that takes
/// bytes meanwhile has not stalled, however long that lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_stall_spares_a_slow_but_steady_reader() {
    const SIZE: usize = 5_000_000;
    const WINDOW: usize = 64 * 1024;
    let mut engine = Scripted::start().await;
    let identity = Identity::new();
    let setup = Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 1");
    for tls in [false, true] {
        let setup = setup.clone();
        let setup = if tls { setup.listen(&identity.listen()) } else { setup };
        let gate = Gate::start(setup.with("timeouts: {write_stall: 600ms}")).await;
        let request = Request::get("/v1/other", "a").id("slow");
        let reader = async {
            if tls {
                let (stream, _) = identity.connect(gate.proxy, &[]).await;
                SockRef::from(stream.get_ref().0).set_recv_buffer_size(WINDOW).unwrap();
                read_slowly(stream, &request, SIZE).await
            } else {
                let stream = Wire::connect(gate.proxy).await.stream;
                SockRef::from(&stream).set_recv_buffer_size(WINDOW).unwrap();
                read_slowly(stream, &request, SIZE).await
            }
        };
        let answer = async {
            let mut taken = engine.next().await;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n");
            taken.write(head).await;
            // The proxy closes early if it cuts its client.
            let _ = taken.try_write(&"x".repeat(SIZE)).await;
            taken
        };
        let (read, _taken) = tokio::join!(reader, answer);
        let line = gate.line_of("slow").await;
        assert_eq!(line["outcome"], "complete", "tls: {tls}, {read} read: {line}");
        assert!(read >= SIZE, "tls: {tls}, {read} read");
    }
}

/// Send events until the proxy takes no more: its client does not read.
async fn fill(taken: &mut Taken) {
    let event = chat_event(&"x".repeat(60_000));
    let piece = format!("{:x}\r\n{event}\r\n", event.len());
    // It may also have closed meanwhile, at a deadline.
    while let Ok(Ok(())) = timeout(Duration::from_millis(500), taken.try_write(&piece)).await {}
}

/// A client that does not read can still be cut by an operator, and by the total deadline; its
/// engine is told and its slot comes back.
async fn a_stalled_client_does_not_hold_up(total: &str, error: &str) {
    let mut engine = Scripted::start().await;
    let setup = Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 1");
    let gate =
        Gate::start(setup.with(&format!("timeouts: {{write_stall: 1h, total: {total}}}"))).await;
    for proto in Proto::ALL {
        for path in [Api::Chat.path(), "/v1/other"] {
            let id = format!("{proto:?}{}", path.len());
            let request = Request::post(path, "a", chat(9, true)).id(&id);
            let call = Call::start(proto, gate.proxy, &request).await;
            let mut taken = engine.next().await;
            taken.write(STREAM_HEAD).await;
            fill(&mut taken).await;
            if error == "cut_by_operator" {
                let url = gate.admin_url(&format!("/api/v1/holders/{id}"));
                let cut = reqwest::Client::new().delete(url).send().await.unwrap();
                assert!(cut.status().is_success(), "{}", cut.status());
            }
            taken.closed().await;
            drop(taken);
            assert_eq!(gate.line_of(&id).await["error"], error);
            gate.settled().await;
            drop(call);
        }
    }
}

#[tokio::test]
async fn a_stalled_client_does_not_hold_up_a_cut() {
    a_stalled_client_does_not_hold_up("0s", "cut_by_operator").await;
}

#[tokio::test]
async fn a_stalled_client_does_not_hold_up_the_total_deadline() {
    a_stalled_client_does_not_hold_up("2s", "total_timeout").await;
}

#[tokio::test]
async fn total_in_every_phase() {
    let (engine, gate) = rig("{total: 600ms}").await;
    for proto in Proto::ALL {
        let before = [Api::Chat.stream(5).fault("delay-head=5m"), Api::Chat.plain(100_000)];
        for request in before {
            let answer = ask(proto, gate.proxy, &request).await;
            assert_eq!(answer.status, 504, "{}", answer.text());
            assert_eq!(answer.reason(), Some("upstream_timeout"));
        }
        let answer = ask(proto, gate.proxy, &Api::Responses.stream(100_000)).await;
        assert_eq!(answer.status, 200);
        assert_ne!(answer.ending, Ending::Whole);
        assert_eq!(Api::Responses.error_event(&answer.text())["code"], "total_timeout");
    }
    assert_eq!(gate.settled().await.outcome("timed_out"), 6.0);
    engine.wait_stats(|stats| stats.in_flight == 0, Duration::from_secs(5)).await.unwrap();
}

#[tokio::test]
async fn total_counts_the_queue() {
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(5))).await.unwrap();
    let queue = "max_in_flight: 1\non_limit: queue\nqueue: {max_depth: 8, max_wait: 1m}";
    let setup = Setup::new(&[engine.addr()]).tenant("a", queue);
    let gate = Gate::start(setup.with("timeouts: {total: 1s}")).await;
    let mut running = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(100_000)).await;
    assert_eq!(running.head().await.unwrap().0, 200);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let queued = ask(Proto::H2c, gate.proxy, &Api::Chat.plain(100_000).id("queued")).await;
    // It may have had the slot for the rest of its time.
    assert_eq!(queued.reason(), Some("upstream_timeout"), "{}", queued.text());
    assert_eq!(gate.line_of("queued").await["outcome"], "timed_out");
    assert_ne!(running.rest().await.1, Ending::Whole);
}

/// The head goes out when it was held long enough, with the openings; then comments; then content.
#[tokio::test]
async fn an_expired_hold_gives_head_openings_and_keep_alives() {
    let (_engine, gate) = rig("{first_byte: 30s, head_hold: 200ms}").await;
    let api = Api::Messages;
    let request = api.stream(3).fault("opening-silence=15s");
    let mut calls = Vec::new();
    for proto in Proto::ALL {
        calls.push(Call::start(proto, gate.proxy, &request).await);
    }
    for mut call in calls {
        assert_eq!(call.head().await.unwrap().0, 200);
        let opening = call.until("content_block_start").await;
        assert!(opening.starts_with("event: message_start\ndata: "), "{opening}");
        assert!(!opening.contains(api.content_mark()), "the openings come before any content");
        let comment = call.until("\n\n").await;
        assert_eq!(comment, ": keep-alive\n\n");
        let (rest, ending) = call.rest().await;
        assert_eq!(ending, Ending::Whole);
        assert!(rest.starts_with("event: content_block_delta"), "{rest}");
        assert!(
            rest.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"),
            "{rest}"
        );
    }
    assert_eq!(gate.settled().await.outcome("complete"), 2.0);
}

/// After an expired hold a failure can only be an error event.
#[tokio::test]
async fn an_expired_hold_that_ends_in_an_error() {
    let (_engine, gate) = rig("{first_byte: 3s, head_hold: 100ms}").await;
    let mut calls = Vec::new();
    for proto in Proto::ALL {
        for api in [Api::Responses, Api::Messages] {
            let silent = api.stream(3).fault("opening-silence=forever");
            calls.push((api, Call::start(proto, gate.proxy, &silent).await));
        }
    }
    for (api, mut call) in calls {
        let answer = call.answer().await;
        assert_eq!(answer.status, 200);
        assert_ne!(answer.ending, Ending::Whole);
        let data = api.error_event(&answer.text());
        match api.error_code(&data) {
            Some(code) => assert_eq!(code, "first_byte_timeout"),
            None => assert_eq!(data["error"]["type"], "timeout_error"),
        }
    }
    assert_eq!(gate.settled().await.outcome("timed_out"), 4.0);
}

/// The head goes out alone if the engine sent nothing but its head.
#[tokio::test]
async fn an_expired_hold_without_any_event() {
    let mut engine = Scripted::start().await;
    let setup = Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 8");
    let gate = Gate::start(setup.with("timeouts: {head_hold: 100ms}")).await;
    for proto in Proto::ALL {
        let mut call = Call::start(proto, gate.proxy, &Api::Chat.stream(3)).await;
        let mut taken = engine.next().await;
        taken.write(STREAM_HEAD).await;
        assert_eq!(call.head().await.unwrap().0, 200);
        taken.chunk(chat_event("one")).await;
        call.until("one").await;
        taken.chunk(CHAT_END).await;
        taken.end().await;
        assert_eq!(call.rest().await.1, Ending::Whole);
    }
}
