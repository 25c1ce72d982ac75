use super::*;
use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn head() -> RequestHeader {
    let mut head = RequestHeader::build(Method::POST, b"/v1/other", None).unwrap();
    head.insert_header("host", "engine").unwrap();
    head.insert_header("content-length", "2").unwrap();
    head
}

async fn taken(engine: &mut TcpStream) {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n{}") {
        assert!(engine.read_buf(&mut bytes).await.unwrap() > 0);
    }
}

/// A call on a connection that has served one before, and the engine's end of it.
async fn reused_call() -> (Engines, Box<EngineCall>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let timeouts =
        EngineTimeouts { connect: Duration::from_secs(5), pool_idle: Duration::from_secs(60) };
    let engines = Engines::new(timeouts, 8);
    let body = [Bytes::from_static(b"{}")];
    let mut call = Some(engines.connect(address).await.unwrap());
    let mut engine = listener.accept().await.unwrap().0;
    let first = call.as_mut().unwrap();
    let answer = async {
        taken(&mut engine).await;
        engine.write_all(OK).await.unwrap();
    };
    tokio::join!(async { first.ask(head(), &body).await.unwrap() }, answer);
    while let Some(_piece) = first.read().await.unwrap() {}
    engines.end(&mut call).await;
    let call = engines.connect(address).await.unwrap();
    assert!(call.reused.is_some(), "from the pool");
    (engines, call, engine)
}

/// Ask while the engine does what `act` says, and how far the request can have come.
async fn asked<F: Future<Output = ()>>(act: impl FnOnce(TcpStream) -> F) -> Unanswered {
    let (_engines, mut call, engine) = reused_call().await;
    let body = [Bytes::from_static(b"{}")];
    let (asked, ()) = tokio::join!(call.ask(head(), &body), act(engine));
    asked.unwrap_err();
    call.unanswered()
}

#[tokio::test]
async fn a_connection_that_was_closed_before_has_taken_nothing() {
    for reset in [false, true] {
        let (_engines, mut call, engine) = reused_call().await;
        if reset {
            engine.set_zero_linger().unwrap();
        }
        drop(engine);
        call.ask(head(), &[Bytes::from_static(b"{}")]).await.unwrap_err();
        assert_eq!(call.unanswered(), Unanswered::Untaken, "reset: {reset}");
    }
}

#[tokio::test]
async fn a_close_after_the_request_was_read_is_told_apart() {
    let closed = asked(async |mut engine| taken(&mut engine).await).await;
    assert_eq!(closed, Unanswered::ReusedClosed);
}

#[tokio::test]
async fn a_byte_of_an_answer_is_no_silence() {
    for said in ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early\r\nx", "HTTP/1.1 200 O", "H"]
    {
        let heard = asked(async |mut engine| {
            taken(&mut engine).await;
            engine.write_all(said.as_bytes()).await.unwrap();
        });
        assert_eq!(heard.await, Unanswered::Lost, "{said:?}");
    }
}
