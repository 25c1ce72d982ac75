//! `streamgate status` and `streamgate drain` against a real admin port.

use crate::server::Server;
use std::net::Ipv4Addr;
use std::time::Duration;
use streamgate::admin::access::Access;
use streamgate::admin::client::{AdminClient, ClientError};
use streamgate::admin::status::{self, StatusOptions};
use streamgate::core::drain_port::DrainWait;
use streamgate::core::observe::DrainPhase;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

fn client(server: &Server) -> AdminClient {
    AdminClient::new(&server.url(""), None).expect("a URL")
}

async fn shown(client: &AdminClient, options: StatusOptions) -> Result<String, ClientError> {
    let mut out = Vec::new();
    status::run(client, options, &mut out, std::future::pending()).await?;
    Ok(String::from_utf8(out).expect("text"))
}

#[tokio::test]
async fn status_is_a_table_or_json() {
    let server = Server::start().await;
    let table = shown(&client(&server), StatusOptions::default()).await.expect("an answer");
    for row in ["streamgate 1.2.3", "TENANT", "127.0.0.1:8002  draining"] {
        assert!(table.contains(row), "{row} is not in\n{table}");
    }
    assert!(!table.contains('\x1b'));
    let terminal = StatusOptions { terminal: true, ..StatusOptions::default() };
    assert!(shown(&client(&server), terminal).await.expect("an answer").contains("\x1b[32m"));
    let json = StatusOptions { json: true, ..StatusOptions::default() };
    let json = shown(&client(&server), json).await.expect("an answer");
    let value: serde_json::Value = serde_json::from_str(&json).expect("one line of JSON");
    assert_eq!((value["version"].as_str(), json.lines().count()), (Some("1.2.3"), 1));
}

/// Collects output and says when it has seen enough.
struct Screens {
    shown: Vec<u8>,
    enough: Option<tokio::sync::oneshot::Sender<()>>,
}

impl std::io::Write for Screens {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.shown.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.shown.windows(4).filter(|bytes| bytes == b"\x1b[H\x1b").count() >= 2 {
            self.enough.take().map(|enough| enough.send(()));
        }
        Ok(())
    }
}

#[tokio::test]
async fn watching_redraws_until_stopped_and_survives_a_lost_replica() {
    for lost in [false, true] {
        let server = Server::start().await;
        let client = client(&server);
        if lost {
            server.stop().await;
        }
        let (enough, stop) = tokio::sync::oneshot::channel();
        let mut screens = Screens { shown: Vec::new(), enough: Some(enough) };
        let options = StatusOptions { watch: true, json: false, terminal: true };
        let stop = async { stop.await.unwrap_or_default() };
        let watching = status::run(&client, options, &mut screens, stop);
        tokio::time::timeout(Duration::from_secs(10), watching)
            .await
            .expect("ends")
            .expect("works");
        let text = String::from_utf8(screens.shown).expect("text");
        assert_eq!(text.contains("no admin port answers"), lost, "{text}");
    }
}

#[tokio::test]
async fn a_drain_reports_its_end() {
    let server = Server::start().await;
    let report = client(&server).drain(Duration::from_millis(20)).await.expect("a report");
    assert_eq!((report.exit_code(), report.in_flight, report.left.len()), (2, 2, 2));
    server.drain.finish(DrainWait::Drained, DrainPhase::Drained);
    let report = client(&server).drain(Duration::from_secs(30)).await.expect("a report");
    assert_eq!((report.exit_code(), report.state.as_str(), report.in_flight), (0, "drained", 0));
}

#[tokio::test]
async fn the_token_is_sent() {
    let server = Server::with(Access::new(Some("t0ken"), false)).await;
    let with = AdminClient::new(&server.url(""), Some("t0ken\n".into())).expect("a URL");
    with.drain(Duration::from_millis(1)).await.expect("allowed");
}

#[tokio::test]
async fn errors_say_what_happened() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let client = AdminClient::new(&url, None).expect("a URL");
    let answers = [
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello",
        "HTTP/1.1 403 Forbidden\r\ncontent-length: 38\r\n\r\n{\"error\":\"forbidden\",\"message\":\"why\"}  ",
        "",
    ];
    let serving = tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut head = [0; 1_000];
            tokio::io::AsyncReadExt::read(&mut stream, &mut head).await.expect("a head");
            stream.write_all(answer.as_bytes()).await.expect("sent");
        }
    });
    let mut errors = Vec::new();
    for _ in answers {
        errors.push(client.state().await.expect_err("no state"));
    }
    serving.await.expect("no panic");
    errors.push(client.state().await.expect_err("nobody listens"));
    assert!(matches!(errors[0], ClientError::Unlike { .. }), "{errors:?}");
    assert!(matches!(errors[1], ClientError::Broken { .. }), "{errors:?}");
    assert!(
        matches!(&errors[2], ClientError::Refused { status: 403, message, .. } if message == "why")
    );
    assert!(matches!(errors[3], ClientError::Broken { .. }), "{errors:?}");
    assert!(matches!(errors[4], ClientError::Connect { .. }), "{errors:?}");
    for error in errors {
        assert!(error.to_string().contains(client.address()), "{error}");
    }
}
