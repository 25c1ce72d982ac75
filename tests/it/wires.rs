//! The wires: HTTP/1.1, HTTP/1.0, h2c, TLS with ALPN; keep-alive, pipelining, heads.

use crate::support::h2::H2;
use crate::support::request::Request;
use crate::support::scripted::{STREAM_HEAD, Scripted, chat_event};
use crate::support::tls::Identity;
use crate::support::wire::{Ending, Wire};
use crate::support::{
    Api, BOUND, Call, Gate, Leave, Metrics, Proto, Setup, ask, bounded, eventually,
};
use socket2::SockRef;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use streamgate_loadtests::engine::{Engine, EngineConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

async fn rig(tenant: &str, extra: &str) -> (Engine, Gate) {
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(2))).await.unwrap();
    let gate = Gate::start(Setup::new(&[engine.addr()]).tenant("a", tenant).with(extra)).await;
    (engine, gate)
}

/// One connection serves answers of every kind one after another.
#[tokio::test]
async fn keep_alive_survives_every_answer() {
    let (engine, gate) = rig("max_in_flight: 1", "limits: {body: 4KiB}").await;
    let mut running = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(100_000)).await;
    assert_eq!(running.head().await.unwrap().0, 200);
    let mut wire = Wire::connect(gate.proxy).await;
    for _ in 0..3 {
        assert_eq!(wire.call(&Api::Chat.stream(3)).await.status, 429);
    }
    drop(running);
    gate.settled().await;
    for _ in 0..3 {
        let answers = [
            (Api::Chat.stream(3), 200),
            (Api::Messages.plain(3), 200),
            (Request::get("/v1/models", "a"), 200),
            (Request::get("/v1/nothing", "a"), 404),
            (Request::post(Api::Chat.path(), "a", "{"), 400),
            (Request::get("/v1/models", "nobody"), 401),
            (Api::Responses.stream(3).fault("status=503"), 503),
            (Api::Responses.plain(3).fault("abort-after=0&status=500"), 500),
        ];
        for (request, status) in answers {
            let answer = wire.call(&request).await;
            assert_eq!((answer.status, answer.ending), (status, Ending::Whole), "{request:?}");
            assert_eq!(answer.headers["connection"], "keep-alive", "{request:?}");
        }
    }
    let answer = wire.call(&Api::Chat.stream(3).header("connection", "close")).await;
    assert_eq!(answer.headers["connection"], "close");
    assert!(wire.closed().await);
    assert!(engine.stats().connections < 20, "{}", engine.stats().connections);
}

/// HTTP/1.0: the body ends with the connection, never in chunks.
#[tokio::test]
async fn an_old_client_reads_to_the_end() {
    let (_engine, gate) = rig("max_in_flight: 4", "").await;
    for api in Api::ALL {
        for request in [api.stream(4).http10(), api.plain(4).http10()] {
            let mut wire = Wire::connect(gate.proxy).await;
            wire.send(&request.bytes()).await;
            let answer = wire.answer().await;
            assert_eq!((answer.status, answer.ending), (200, Ending::Whole));
            assert!(!answer.headers.contains_key("transfer-encoding"), "{:?}", answer.headers);
            assert!(wire.closed().await);
        }
        let mut wire = Wire::connect(gate.proxy).await;
        wire.send(&api.stream(4).http10().bytes()).await;
        assert!(api.has_terminal(&wire.answer().await.text()));
    }
    // It may keep a connection whose answers have lengths.
    let mut wire = Wire::connect(gate.proxy).await;
    for _ in 0..3 {
        let kept = Api::Chat.plain(4).http10().header("connection", "keep-alive");
        let answer = wire.call(&kept).await;
        assert_eq!((answer.status, answer.ending), (200, Ending::Whole));
    }
    assert_eq!(gate.settled().await.outcome("complete"), 15.0);
}

/// What an HTTP/1.0 client hears, and whether the connection was reset.
async fn heard_by_an_old_client(
    gate: &Gate,
    tls: Option<&Identity>,
    bytes: &[u8],
) -> (String, bool) {
    async fn hear(mut stream: impl AsyncRead + AsyncWrite + Unpin, bytes: &[u8]) -> (String, bool) {
        stream.write_all(bytes).await.unwrap();
        let mut heard = Vec::new();
        let end = bounded("the end", stream.read_to_end(&mut heard)).await;
        let reset = end.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset);
        (String::from_utf8(heard).unwrap(), reset)
    }
    match tls {
        Some(identity) => hear(identity.connect(gate.proxy, &[]).await.0, bytes).await,
        None => hear(TcpStream::connect(gate.proxy).await.unwrap(), bytes).await,
    }
}

/// HTTP/1.0 has no mark of the end but the close, so a body that is not whole must not end with an
/// orderly one.
#[tokio::test]
async fn an_old_client_can_tell_a_broken_answer() {
    let mut engine = Scripted::start().await;
    let identity = Identity::new();
    let json = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    let event = chat_event("one");
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    for tls in [None, Some(&identity)] {
        let setup = Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 1");
        let setup = setup.pool("health: {interval: 1h}");
        let gate = Gate::start(match tls {
            Some(identity) => setup.listen(&identity.listen()),
            None => setup,
        })
        .await;
        let embed = Request::post("/v1/embeddings", "a", "{}");
        let cases = [
            (embed.clone(), format!("{json}transfer-encoding: chunked\r\n\r\n5\r\n{{\"dat\r\n")),
            (embed, format!("{json}content-length: 100\r\n\r\n{{\"dat")),
            (Api::Chat.stream(3), format!("{STREAM_HEAD}{chunk}")),
        ];
        for (request, bytes) in cases {
            let request = request.http10().bytes();
            let cut = async {
                let mut taken = engine.next().await;
                taken.write(&bytes).await;
                // What came is out before the rest is missed.
                tokio::time::sleep(Duration::from_millis(50)).await;
            };
            let (heard, ()) = tokio::join!(heard_by_an_old_client(&gate, tls, &request), cut);
            assert!(heard.0.contains("{\"dat") || heard.0.contains("event: error"), "{heard:?}");
            assert!(heard.1, "an orderly end, tls: {}: {}", tls.is_some(), heard.0);
        }
        assert_eq!(gate.settled().await.outcome("truncated"), 3.0);
    }
}

/// A reset discards what the client's side has not taken, so it must wait for that.
#[tokio::test]
async fn an_old_client_gets_everything_before_the_reset() {
    const EVENTS: usize = 1500;
    let mut engine = Scripted::start().await;
    let gate = Gate::start(Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 1")).await;
    let mut client = TcpStream::connect(gate.proxy).await.unwrap();
    SockRef::from(&client).set_recv_buffer_size(4096).unwrap();
    client.write_all(&Api::Chat.stream(3).http10().bytes()).await.unwrap();
    let mut taken = engine.next().await;
    taken.write(STREAM_HEAD).await;
    for n in 0..EVENTS {
        taken.chunk(chat_event(&format!("n{n}."))).await;
    }
    drop(taken);
    // The engine is done with, and most of it is still on our side.
    gate.metrics_when("the engine is let go", |metrics| {
        metrics.sum("streamgate_endpoint_in_flight") == 0.0
    })
    .await;
    let mut heard = Vec::new();
    let end = bounded("the end", client.read_to_end(&mut heard)).await;
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    let heard = String::from_utf8(heard).unwrap();
    assert!(heard.contains(&format!("n{}.", EVENTS - 1)), "{} bytes", heard.len());
    Api::Chat.error_event(&heard);
}

/// Requests that come before their turn are served in their order.
#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let (engine, gate) = rig("max_in_flight: 1", "").await;
    let requests: Vec<_> = (0..6)
        .map(|n| {
            let request = if n % 2 == 0 { Api::Chat.stream(20) } else { Api::Messages.plain(20) };
            request.id(&format!("pipelined-{n}"))
        })
        .collect();
    // All in one packet; each in its own while the one before runs; cut anywhere.
    let together: Vec<u8> = requests.iter().flat_map(Request::bytes).collect();
    let whole = vec![together.clone()];
    let apart = requests.iter().map(Request::bytes).collect();
    let odd = together.chunks(97).map(<[u8]>::to_vec).collect();
    for (way, packets) in [("whole", whole), ("apart", apart), ("odd", odd)] {
        let mut wire = Wire::connect(gate.proxy).await;
        for packet in packets {
            wire.send(&packet).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for n in 0..6 {
            let answer = wire.answer().await;
            assert_eq!((answer.status, answer.ending), (200, Ending::Whole), "{way} {n}");
            assert_eq!(answer.headers["x-request-id"], format!("pipelined-{n}"), "{way}");
        }
    }
    assert_eq!(engine.stats().max_in_flight, 1, "one after another");
    assert_eq!(gate.settled().await.outcome("complete"), 18.0);
}

/// A client that has sent the start of a next request is still watched.
#[tokio::test]
async fn a_pipelining_client_that_leaves_is_noticed() {
    let (engine, gate) = rig("max_in_flight: 1", "").await;
    for next in [&b"\r\n"[..], b"GET /v1/models HTTP/1.1\r\nhost: gate\r\n\r\n"] {
        let mut wire = Wire::connect(gate.proxy).await;
        wire.send(&Api::Chat.plain(100_000).bytes()).await;
        engine.wait_stats(|stats| stats.in_flight == 1, Duration::from_secs(20)).await.unwrap();
        wire.send(next).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(wire);
        engine.wait_stats(|stats| stats.in_flight == 0, Duration::from_secs(5)).await.unwrap();
        gate.settled().await;
    }
}

/// However much it has sent: what does not fit is dropped, not left in the socket before the end.
#[tokio::test]
async fn a_client_that_floods_and_leaves_is_noticed() {
    let tenant = "max_in_flight: 1\non_limit: queue\nqueue: {max_depth: 8, max_wait: 1m}";
    let (engine, gate) = rig(tenant, "").await;
    let long = [
        Api::Chat.plain(100_000),
        Api::Chat.stream(100_000),
        Api::Chat.stream(5).fault("delay-head=5m"),
        Api::Messages.stream(5).fault("opening-silence=forever"),
    ];
    for request in &long {
        for how in [Leave::Close, Leave::Reset, Leave::HalfClose] {
            let mut wire = Wire::connect(gate.proxy).await;
            wire.send(&request.bytes()).await;
            engine.wait_stats(|stats| stats.in_flight == 1, BOUND).await.unwrap();
            bounded("the flood is taken", wire.send(&vec![b'x'; 4 << 20])).await;
            let left = Call::H1(Box::new(wire)).leave(how).await;
            let before = Instant::now();
            let gone = engine.wait_stats(|stats| stats.in_flight == 0, Duration::from_secs(2));
            gone.await.unwrap_or_else(|_| panic!("{how:?} of {request:?}"));
            println!("{how:?}: the engine heard it after {:?}", before.elapsed());
            gate.settled().await;
            drop(left);
        }
    }
    // In the queue.
    let mut running = Call::start(Proto::H1, gate.proxy, &Api::Chat.stream(100_000)).await;
    running.head().await.unwrap();
    let mut wire = Wire::connect(gate.proxy).await;
    wire.send(&Api::Chat.stream(2).bytes()).await;
    let queued = |count: f64| move |m: &Metrics| m.sum("streamgate_queued") == count;
    gate.metrics_when("one queued", queued(1.0)).await;
    bounded("the flood is taken", wire.send(&vec![b'x'; 4 << 20])).await;
    drop(wire);
    gate.metrics_when("none queued", queued(0.0)).await;
    drop(running);
    assert_eq!(gate.settled().await.outcome("client_cancelled"), 14.0);
}

/// What a client sends ahead of its turn is kept up to a limit. Beyond it the present answer still
/// comes whole and says that it is the last.
#[tokio::test]
async fn too_much_sent_ahead_costs_the_connection_and_no_answer() {
    let mut engine = Scripted::start().await;
    let gate = Gate::start(Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 1")).await;
    for _ in 0..3 {
        let request = Request::get("/v1/other", "a");
        let mut wire = Wire::connect(gate.proxy).await;
        wire.send(&request.bytes()).await;
        let mut taken = engine.next().await;
        // More than any socket holds, so most of it has been read when this is done.
        bounded("it is taken", wire.send(&request.bytes().repeat(100_000))).await;
        taken.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        let answer = wire.answer().await;
        assert_eq!((answer.status, answer.ending), (200, Ending::Whole));
        assert_eq!(answer.headers["connection"], "close");
        assert!(wire.closed().await);
        assert!(engine.try_next().is_none(), "a request out of the middle");
        gate.settled().await;
    }
    assert_eq!(gate.settled().await.outcome("complete"), 3.0);
}

/// A broken stream whose client has already sent its next request: the error event arrives.
#[tokio::test]
async fn a_pipelining_client_hears_that_its_stream_broke() {
    let (_engine, gate) = rig("max_in_flight: 1", "").await;
    for _ in 0..20 {
        let mut wire = Wire::connect(gate.proxy).await;
        wire.send(&Api::Chat.stream(100).fault("cut=events:8").bytes()).await;
        assert_eq!(wire.head().await.unwrap().0, 200);
        let mut text = wire.until("content").await;
        wire.send(&Api::Chat.plain(2).bytes()).await;
        loop {
            match wire.chunk().await {
                Ok(Some(chunk)) => text.push_str(&String::from_utf8_lossy(&chunk)),
                Ok(None) => panic!("a clean end"),
                Err(_) => break,
            }
        }
        Api::Chat.error_event(&text);
    }
}

#[tokio::test]
async fn many_streams_share_an_http2_connection() {
    let (engine, gate) = rig("max_in_flight: 100", "").await;
    let mut connection = H2::connect(gate.proxy).await;
    let mut calls = Vec::new();
    for n in 0..100 {
        let api = Api::ALL[n % 4];
        let request = if n % 8 < 4 { api.stream(20) } else { api.plain(20) };
        calls.push((n, connection.send(&request).await));
    }
    for (n, mut call) in calls {
        assert_eq!(call.head().await.unwrap().0, 200, "{n}");
        let mut text = String::new();
        while let Some(piece) = call.piece().await.expect("a clean end") {
            text.push_str(&String::from_utf8_lossy(&piece));
        }
        assert_eq!(Api::ALL[n % 4].has_terminal(&text), n % 8 < 4, "{n}: {text}");
    }
    assert!(engine.stats().max_in_flight > 10, "{}", engine.stats().max_in_flight);
    assert_eq!(gate.settled().await.outcome("complete"), 100.0);
}

/// One stream that is reset, refused or broken leaves the others alone.
#[tokio::test]
async fn http2_streams_do_not_disturb_each_other() {
    let (engine, gate) = rig("max_in_flight: 3", "").await;
    let mut connection = H2::connect(gate.proxy).await;
    let mut steady = connection.send(&Api::Chat.stream(300)).await;
    assert_eq!(steady.head().await.unwrap().0, 200);
    for n in 0..20 {
        let mut reset = connection.send(&Api::Chat.stream(100_000)).await;
        assert_eq!(reset.head().await.unwrap().0, 200);
        let mut broken = connection.send(&Api::Chat.stream(50).fault("cut=events:2")).await;
        assert_eq!(broken.head().await.unwrap().0, 200);
        let refused = connection.send(&Api::Chat.stream(2)).await.head().await.unwrap().0;
        assert!(refused == 429 || refused == 200, "{n}: {refused}");
        reset.reset();
        while broken.piece().await.is_ok() {}
        gate.metrics_when("one is left", |m| m.sum("streamgate_in_flight") <= 1.0).await;
    }
    while let Some(piece) = steady.piece().await.expect("undisturbed") {
        drop(piece);
    }
    let metrics = gate.settled().await;
    // The third of each round may have had a slot; it is dropped at its head.
    assert!(metrics.outcome("client_cancelled") >= 20.0);
    assert_eq!(metrics.outcome("truncated"), 20.0);
    assert!(engine.stats().max_in_flight <= 3);
}

#[tokio::test]
async fn tls_speaks_what_was_agreed() {
    let identity = Identity::new();
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(2))).await.unwrap();
    let setup = Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 4");
    let setup = setup.listen(&identity.listen()).with("timeouts: {client_header: 2s}");
    let gate = Gate::start(setup).await;

    let (stream, agreed) = identity.connect(gate.proxy, &["h2", "http/1.1"]).await;
    assert_eq!(agreed.as_deref(), Some("h2"));
    let mut connection = H2::over(stream).await;
    for api in Api::ALL {
        let mut call = connection.send(&api.stream(4)).await;
        assert_eq!(call.head().await.unwrap().0, 200);
        while let Some(piece) = call.piece().await.expect("a clean end") {
            drop(piece);
        }
    }
    for offered in [&["http/1.1"][..], &[]] {
        let (mut stream, agreed) = identity.connect(gate.proxy, offered).await;
        assert_eq!(agreed.as_deref(), offered.first().copied());
        for n in 0..3 {
            // Longer than a head may take: a connection may idle between requests.
            tokio::time::sleep(Duration::from_millis(if n == 2 { 2500 } else { 0 })).await;
            stream.write_all(&Api::Chat.plain(3).bytes()).await.unwrap();
            let mut head = vec![0; 15];
            stream.read_exact(&mut head).await.unwrap();
            assert_eq!(head, b"HTTP/1.1 200 OK");
            let mut rest = Vec::new();
            while !rest.ends_with(b"}") {
                assert!(stream.read_buf(&mut rest).await.unwrap() > 0);
            }
        }
    }
    // One that never speaks is closed without a word, and is nobody's request.
    let (mut silent, _) = identity.connect(gate.proxy, &[]).await;
    let mut answer = Vec::new();
    let _ = crate::support::bounded("a close", silent.read_to_end(&mut answer)).await;
    assert_eq!(answer, b"");
    // A client that leaves is noticed through TLS too.
    for (alpn, long) in [("h2", Api::Chat.stream(100_000)), ("http/1.1", Api::Chat.plain(100_000))]
    {
        let (mut stream, _) = identity.connect(gate.proxy, &[alpn]).await;
        let busy = |stats: &streamgate_loadtests::engine::StatsSnapshot| stats.in_flight == 1;
        if alpn == "h2" {
            let mut connection = H2::over(stream).await;
            let _call = connection.send(&long).await;
            engine.wait_stats(busy, Duration::from_secs(20)).await.unwrap();
        } else {
            stream.write_all(&long.bytes()).await.unwrap();
            engine.wait_stats(busy, Duration::from_secs(20)).await.unwrap();
            drop(stream);
        }
        engine.wait_stats(|stats| stats.in_flight == 0, Duration::from_secs(5)).await.unwrap();
    }
    let metrics = gate.settled().await;
    assert_eq!((metrics.outcome("complete"), metrics.outcome("client_cancelled")), (10.0, 2.0));
    assert_eq!(metrics.sum("streamgate_arrivals_total"), 12.0);
}

/// What ends at this hop, carries the key or tells of the inside does not pass, either way.
#[tokio::test]
async fn heads_pass_without_what_ends_here() {
    let mut engine = Scripted::start().await;
    let gate = Gate::start(Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 4")).await;
    for proto in Proto::ALL {
        let mut request = Request::post("/v1/other?x=1", "a", "{}")
            .header("x-own", "kept")
            .header("x-tenant", "b")
            .header("target-pod", "1")
            .header("accept-encoding", "gzip")
            .id("mine");
        if proto == Proto::H1 {
            request = request.header("connection", "x-hop, keep-alive").header("x-hop", "1");
        }
        let mut call = Call::start(proto, gate.proxy, &request).await;
        let mut taken = engine.next().await;
        assert!(taken.head.starts_with("POST /v1/other?x=1 HTTP/1.1\r\n"), "{}", taken.head);
        let lines: BTreeSet<_> = taken.head.split("\r\n").filter(|line| !line.is_empty()).collect();
        for kept in ["host: gate", "x-own: kept", "x-request-id: mine", "content-length: 2"] {
            assert!(lines.contains(kept), "{kept}: {}", taken.head);
        }
        assert!(lines.contains("accept-encoding: identity"), "{}", taken.head);
        for gone in ["authorization", "x-tenant", "target-pod", "x-hop", "connection", "transfer-"]
        {
            assert!(!lines.iter().any(|line| line.starts_with(gone)), "{gone}: {}", taken.head);
        }
        assert_eq!(taken.body, b"{}");
        taken
            .write(
                "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\nx-own: kept\r\n\
                 connection: x-hop\r\nx-hop: 1\r\ntarget-pod: 10.0.0.1\r\nkeep-alive: timeout=5\r\n\
                 x-streamgate-reason: forged\r\ncontent-length: 2\r\n\r\nok",
            )
            .await;
        let answer = call.answer().await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok"));
        assert_eq!((&*answer.headers["x-own"], &*answer.headers["x-request-id"]), ("kept", "mine"));
        for gone in ["x-hop", "target-pod", "x-streamgate-reason", "keep-alive", "link"] {
            assert!(!answer.headers.contains_key(gone), "{gone}: {:?}", answer.headers);
        }
    }
}

#[tokio::test]
async fn an_engine_that_speaks_no_http_is_an_honest_error() {
    let mut engine = Scripted::start().await;
    let setup = Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 1");
    let gate =
        Gate::start(setup.pool("retries: {max_attempts: 1}\nhealth: {interval: 100ms}")).await;
    let answers = [
        "SSH-2.0-OpenSSH_9.0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 7\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nhello",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nnonsense\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n",
        "",
    ];
    for (n, bytes) in answers.into_iter().enumerate() {
        for request in [Api::Chat.stream(3), Api::Chat.plain(3)] {
            let mut call = Call::start(Proto::ALL[n % 2], gate.proxy, &request).await;
            let mut taken = engine.next().await;
            taken.write(bytes).await;
            taken.stream.shutdown().await.unwrap();
            let answer = call.answer().await;
            assert_eq!((answer.status, answer.ending), (502, Ending::Whole), "{bytes:?}");
            assert_eq!(answer.reason(), Some("upstream_unreachable"), "{bytes:?}");
            gate.settled().await;
        }
    }
    let metrics = gate.settled().await;
    assert_eq!(metrics.outcome("upstream_error"), 16.0);
}

#[tokio::test]
async fn heads_that_are_none_are_refused() {
    let (engine, gate) = rig("max_in_flight: 4", "limits: {header: 4KiB}").await;
    let long = format!("GET / HTTP/1.1\r\nhost: gate\r\nx: {}\r\n\r\n", "x".repeat(8000));
    let many = format!("GET / HTTP/1.1\r\nhost: gate\r\n{}\r\n", "x: 1\r\n".repeat(300));
    let heads = [
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", "400"),
        ("NONSENSE\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n", "400"),
        (&long, "431"),
        (&many, "431"),
    ];
    for (head, status) in heads {
        let mut wire = Wire::connect(gate.proxy).await;
        wire.send(head.as_bytes()).await;
        let (answer, _) = wire.raw_rest_within(Duration::from_secs(5)).await;
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head:?}: {answer}");
    }
    let mut connection = H2::connect(gate.proxy).await;
    let long = Api::Chat.stream(2).header("x-long", &"x".repeat(8000));
    assert_eq!(connection.send(&long).await.head().await.unwrap().0, 431);
    assert_eq!(connection.send(&Api::Chat.stream(2)).await.head().await.unwrap().0, 200);
    assert_eq!(engine.stats().requests, 1);
    let metrics = gate.settled().await;
    assert_eq!(metrics.outcome("failed"), 0.0);
}

/// A HEAD's answer has a length and no body; the connection goes on.
#[tokio::test]
async fn a_head_request_has_no_body() {
    let (_engine, gate) = rig("max_in_flight: 1", "").await;
    let mut wire = Wire::connect(gate.proxy).await;
    for _ in 0..2 {
        let request = Request::new("HEAD", "/v1/models", "a");
        wire.send(&request.bytes()).await;
        assert_eq!(wire.head().await.unwrap().0, 405);
        let refused = Request::new("HEAD", "/v1/models", "nobody");
        wire.send(&refused.bytes()).await;
        assert_eq!(wire.head().await.unwrap().0, 401);
        let answer = wire.call(&Api::Chat.plain(2)).await;
        assert_eq!((answer.status, answer.ending), (200, Ending::Whole));
    }
    let answer = ask(Proto::H2c, gate.proxy, &Request::new("HEAD", "/v1/models", "a")).await;
    assert_eq!((answer.status, answer.ending, answer.body.len()), (405, Ending::Whole, 0));
    eventually("settled", || async {
        (gate.settled().await.sum("streamgate_arrivals_total") == 7.0).then_some(())
    })
    .await;
}
