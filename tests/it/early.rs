//! Engines that answer before they have read the request: heard at once, and never asked for more
//! on that connection.

use crate::support::request::Request;
use crate::support::scripted::{CHAT_END, STREAM_HEAD, Scripted, Taken, chat_event};
use crate::support::wire::{Answer, Ending, Wire};
use crate::support::{Call, Gate, Proto, Setup};
use std::time::{Duration, Instant};

/// More than the sockets on the way can hold.
const LARGE: usize = 8 << 20;
/// Far below `timeouts.first_byte`.
const SOON: Duration = Duration::from_secs(5);
const STATUSES: [&str; 4] = ["413 Too Large", "400 Bad", "500 Broken", "200 OK"];
const ANSWER: &str = r#"{"early":1}"#;

async fn rig() -> (Scripted, Gate) {
    let engine = Scripted::start_unread().await;
    let setup = Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 1");
    (engine, Gate::start(setup.pool("health: {interval: 1h}")).await)
}

fn upload(path: &str, stream: bool, size: usize) -> Request {
    let input = "x".repeat(size);
    Request::post(path, "a", format!(r#"{{"model":"sim","stream":{stream},"input":"{input}"}}"#))
}

/// An answer in each framing, with interim answers before it.
fn answers(status: &str) -> [String; 3] {
    let length = ANSWER.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\n");
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
    [
        format!("{head}content-length: {length}\r\n\r\n{ANSWER}"),
        format!("{head}transfer-encoding: chunked\r\n\r\n{length:x}\r\n{ANSWER}\r\n0\r\n\r\n"),
        format!("{interim}{head}content-length: {length}\r\n\r\n{ANSWER}"),
    ]
}

/// Ask, let the engine act, and take the answer.
async fn ask(
    gate: &Gate,
    engine: &mut Scripted,
    request: &Request,
    proto: Proto,
) -> (Taken, Call, Instant) {
    let call = Call::start(proto, gate.proxy, request).await;
    let taken = engine.next().await;
    (taken, call, Instant::now())
}

fn assert_passed(answer: &Answer, status: &str, at: &str) {
    assert!(status.starts_with(&answer.status.to_string()), "{at}: {}", answer.status);
    assert_eq!((answer.text().as_str(), answer.ending), (ANSWER, Ending::Whole), "{at}");
    assert_eq!(answer.reason(), None, "{at}");
}

#[tokio::test]
async fn an_early_answer_of_an_engine_that_does_not_read_on_is_heard_at_once() {
    let (mut engine, gate) = rig().await;
    for path in ["/v1/embeddings", "/v1/responses"] {
        for status in STATUSES {
            for bytes in answers(status) {
                let request = upload(path, false, LARGE);
                let (mut taken, mut call, asked) =
                    ask(&gate, &mut engine, &request, Proto::H1).await;
                taken.write(&bytes).await;
                let answer = call.answer().await;
                assert_passed(&answer, status, &bytes);
                assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
                // Half a request is on that connection: it is not used again.
                taken.drained().await;
            }
        }
    }
    let metrics = gate.settled().await;
    assert_eq!((metrics.outcome("complete"), metrics.outcome("upstream_error")), (6.0, 18.0));
}

#[tokio::test]
async fn an_early_answer_that_is_followed_by_the_close_is_delivered() {
    let (mut engine, gate) = rig().await;
    for round in 0..8 {
        for status in STATUSES {
            for bytes in answers(status) {
                let request = upload("/v1/embeddings", false, LARGE >> (round % 4));
                let proto = Proto::ALL[round % 2];
                let (mut taken, mut call, _) = ask(&gate, &mut engine, &request, proto).await;
                taken.write(&bytes).await;
                // Unread bytes make this a reset.
                drop(taken);
                assert_passed(&call.answer().await, status, &bytes);
                assert!(engine.try_next().is_none(), "asked once");
            }
        }
    }
    gate.settled().await;
}

/// Interim answers end nothing: the request goes on.
#[tokio::test]
async fn an_upload_goes_on_after_interim_answers() {
    let (mut engine, gate) = rig().await;
    let request = upload("/v1/embeddings", false, LARGE);
    let (mut taken, mut call, _) = ask(&gate, &mut engine, &request, Proto::H1).await;
    taken.write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 10").await;
    let mut length = taken.body.len();
    while length < request.body().len() {
        length += taken.read_some().await;
    }
    assert_eq!(length, request.body().len());
    taken.write(&format!("3 Early\r\n\r\n{}", answers("200 OK")[0])).await;
    assert_passed(&call.answer().await, "200", "after the whole request");
    gate.settled().await;
}

/// A stream may begin before its request was read.
#[tokio::test]
async fn an_early_stream_is_a_stream() {
    let (mut engine, gate) = rig().await;
    let prompt = "x".repeat(LARGE);
    let request = Request::post(
        "/v1/chat/completions",
        "a",
        format!(
            r#"{{"model":"sim","stream":true,"messages":[{{"role":"user","content":"{prompt}"}}]}}"#
        ),
    );
    let (mut taken, mut call, _) = ask(&gate, &mut engine, &request, Proto::H1).await;
    taken.write(STREAM_HEAD).await;
    taken.chunk(chat_event("one")).await;
    assert_eq!(call.head().await.unwrap().0, 200);
    call.until("one").await;
    taken.chunk(CHAT_END).await;
    taken.end().await;
    assert_eq!(call.rest().await.1, Ending::Whole);
    taken.drained().await;
    assert_eq!(gate.settled().await.outcome("complete"), 1.0);
}

/// An engine that closes without a word while the request is sent: an honest error, soon.
#[tokio::test]
async fn a_close_in_the_middle_of_an_upload_is_seen_at_once() {
    let (mut engine, gate) = rig().await;
    let mut wire = Wire::connect(gate.proxy).await;
    wire.send(&upload("/v1/embeddings", false, LARGE).bytes()).await;
    let mut taken = engine.next().await;
    // Its writing side only: without reading, nothing else tells.
    taken.half_close().await;
    let asked = Instant::now();
    let answer = wire.answer().await;
    assert_eq!((answer.status, answer.reason()), (502, Some("upstream_unreachable")));
    assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
    assert!(engine.try_next().is_none(), "asked once");
    gate.settled().await;
}

/// One use of a connection to `engine` that leaves it in the pool.
async fn warm(gate: &Gate, engine: &mut Scripted) -> Taken {
    let mut call = Call::start(Proto::H1, gate.proxy, &Request::get("/v1/x", "a")).await;
    let mut taken = engine.next().await;
    taken.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    assert_eq!(call.answer().await.body, b"ok");
    taken
}

/// A plain request that an engine has taken is not done twice, whatever connection it came on.
#[tokio::test]
async fn what_a_reused_connection_may_have_begun_is_not_done_twice() {
    let mut engine = Scripted::start().await;
    let setup = Setup::new(&[engine.addr]).tenant("a", "max_in_flight: 1");
    let gate = Gate::start(setup.pool("health: {interval: 1h}\nretries: {max_attempts: 3}")).await;
    let half = "HTTP/1.1 200 OK\r\ncontent-le";
    let interim = "HTTP/1.1 100 Continue\r\n\r\n";
    let ways = [("", false), (interim, false), (interim, true), (half, false), (half, true)];
    for path in ["/v1/other", "/v1/chat/completions"] {
        for (said, reset) in ways {
            let taken = warm(&gate, &mut engine).await;
            let request = Request::post(path, "a", r#"{"model":"sim","messages":[]}"#);
            let mut call = Call::start(Proto::H1, gate.proxy, &request).await;
            let mut again = taken.again().await.expect("the connection is used again");
            again.write(said).await;
            if reset {
                // What was said is read before the reset comes.
                tokio::time::sleep(Duration::from_millis(20)).await;
                again.reset();
            }
            drop(again);
            let answer = call.answer().await;
            let at = format!("{path}, {said:?}, {reset}");
            assert_eq!(answer.reason(), Some("upstream_unreachable"), "{at}");
            assert_eq!(answer.status, 502, "{at}");
            assert!(engine.try_next().is_none(), "{at}: asked twice");
        }
    }
    let metrics = gate.settled().await;
    assert_eq!((metrics.outcome("complete"), metrics.outcome("upstream_error")), (10.0, 10.0));
}
