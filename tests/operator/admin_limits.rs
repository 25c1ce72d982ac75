//! What bad clients, defects and a stop can do to the admin port.

use crate::server::{Server, json};
use reqwest::StatusCode;
use std::time::Duration;
use streamgate::admin::MAX_CONNECTIONS;
use streamgate::admin::access::Access;
use streamgate::core::drain_port::DrainWait;
use streamgate::core::observe::DrainPhase;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// More than the port serves at once.
const MANY: usize = 300;

/// Everything the server says until it hangs up.
async fn until_closed(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    stream.read_to_end(&mut said).await.ok();
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test(start_paused = true)]
async fn a_head_that_never_ends_is_given_up() {
    let server = Server::start().await;
    for begun in ["", "GET /livez HTTP/1.1\r\nhost: x\r\n", "GET /livez HTTP/1.1\r\nx: "] {
        let mut stream = TcpStream::connect(server.address).await.expect("connected");
        stream.write_all(begun.as_bytes()).await.expect("sent");
        let began = Instant::now();
        let said = until_closed(&mut stream).await;
        assert!(began.elapsed() >= Duration::from_secs(4), "{begun:?}");
        assert!(began.elapsed() <= Duration::from_secs(10), "{begun:?}");
        assert!(!said.contains(" 200 "), "{said}");
    }
}

/// Far below the time after which an idle connection is dropped.
const AT_ONCE: Duration = Duration::from_secs(3);

async fn probes_answer(server: &Server) {
    for path in ["/livez", "/readyz", "/metrics"] {
        let answer = tokio::time::timeout(AT_ONCE, server.get(path)).await;
        assert_ne!(answer.expect("at once").status(), StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn idle_connections_do_not_keep_the_probe_out() {
    let server = Server::start().await;
    let mut idle = Vec::new();
    for n in 0..MANY {
        let mut stream = TcpStream::connect(server.address).await.expect("connected");
        if n % 2 == 0 {
            stream.write_all(b"GET /livez HTTP/1.1\r\n").await.expect("sent");
        }
        idle.push(stream);
    }
    probes_answer(&server).await;
    // The oldest gave way, the youngest are still there.
    assert_eq!(tokio::time::timeout(AT_ONCE, until_closed(&mut idle[0])).await.as_deref(), Ok(""));
}

/// Clients that ask for much and read nothing.
#[tokio::test]
async fn clients_that_do_not_read_do_not_keep_the_probe_out() {
    let server = Server::of(Access::new(None, false), 8).await;
    let template = server.seen.with(|values| values.holders[0].clone());
    server.seen.with(|values| values.holders = vec![template; 40_000]);
    let mut deaf = Vec::new();
    for _ in 0..8 {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("set");
        let mut stream = socket.connect(server.address).await.expect("connected");
        let request = "GET /api/v1/holders HTTP/1.1\r\nhost: x\r\n\r\n";
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut first = [0];
        stream.read_exact(&mut first).await.expect("the answer begins");
        deaf.push(stream);
    }
    probes_answer(&server).await;
}

#[tokio::test]
async fn blocked_calls_do_not_keep_the_probe_out_and_one_too_many_is_told() {
    let server = Server::start().await;
    let mut calls = Vec::new();
    for n in 0..MAX_CONNECTIONS / 2 {
        let mut stream = TcpStream::connect(server.address).await.expect("connected");
        let (method, path) = [("GET", "/prestop"), ("POST", "/api/v1/drain")][n % 2];
        let head = format!("{method} {path}?wait=30s HTTP/1.1\r\nhost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).await.expect("sent");
        calls.push(stream);
    }
    server.drain.waiters(MAX_CONNECTIONS / 2).await;
    probes_answer(&server).await;
    let more = server.request("GET", "/prestop?wait=30s").send().await.expect("an answer");
    assert_eq!(more.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(json(more).await["error"], "too_many_wait");
    // Idle clients by the hundred do not push them out either.
    let mut idle = Vec::new();
    for _ in 0..MANY {
        idle.push(TcpStream::connect(server.address).await.expect("connected"));
    }
    probes_answer(&server).await;
    server.drain.finish(DrainWait::Drained, DrainPhase::Drained);
    for mut call in calls {
        assert!(until_closed(&mut call).await.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn a_connection_serves_one_request() {
    let server = Server::start().await;
    let mut stream = TcpStream::connect(server.address).await.expect("connected");
    let request = "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(request.repeat(2).as_bytes()).await.expect("sent");
    let said = until_closed(&mut stream).await;
    assert_eq!(said.matches("HTTP/1.1 200").count(), 1, "{said}");
    assert!(said.to_lowercase().contains("connection: close"), "{said}");
}

#[tokio::test]
async fn heads_are_bounded() {
    let server = Server::start().await;
    let long = server.request("GET", "/livez").header("x-long", "x".repeat(40_000));
    let many = (0..100)
        .fold(server.request("GET", "/livez"), |request, n| request.header(format!("x-{n}"), "x"));
    for request in [long, many] {
        // The answer may be lost with a connection that is closed on a client still sending.
        if let Ok(answer) = request.send().await {
            assert_eq!(answer.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        }
    }
    assert_eq!(server.get("/livez").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_body_is_not_waited_for() {
    let server = Server::start().await;
    let mut stream = TcpStream::connect(server.address).await.expect("connected");
    let head = "POST /api/v1/drain?wait=1ms HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("sent");
    let said = tokio::time::timeout(Duration::from_secs(5), until_closed(&mut stream)).await;
    assert!(said.expect("answered without the body").starts_with("HTTP/1.1 504"));
}

#[tokio::test]
async fn a_defect_in_one_answer_is_contained() {
    let server = Server::start().await;
    server.seen.with(|values| values.broken = true);
    for _ in 0..3 {
        let answer = server.get("/api/v1/holders").await;
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(json(answer).await["error"], "internal");
    }
    assert_eq!(server.get("/livez").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn stopping_answers_the_drain_call_that_ended_with_it() {
    let server = Server::start().await;
    let request = server.request("GET", "/prestop?wait=30s");
    let call = tokio::spawn(async { request.send().await.expect("an answer") });
    server.drain.waiters(1).await;
    let drain = std::sync::Arc::clone(&server.drain);
    let address = server.address;
    let stopping = tokio::spawn(server.stop());
    drain.finish(DrainWait::Drained, DrainPhase::Drained);
    assert_eq!(call.await.expect("no panic").status(), StatusCode::OK);
    stopping.await.expect("it stopped");
    TcpStream::connect(address).await.expect_err("nobody listens");
}
