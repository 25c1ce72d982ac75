//! `streamgate drain --endpoint`.

use super::*;
use crate::support::Leave;
use std::process::Output;
use tokio::process::Command;

async fn drain_endpoint(gate: &Gate, endpoint: &str, wait: &str) -> Output {
    let admin = format!("http://{}", gate.admin);
    let arguments = ["drain", "--admin", &admin, "--endpoint", endpoint, "--wait", wait];
    Command::new(env!("CARGO_BIN_EXE_streamgate")).args(arguments).output().await.unwrap()
}

#[tokio::test]
async fn exit_codes_say_how_it_ended() {
    let leaving = engine().await;
    let gate = Gate::start(setup(&[leaving.addr()])).await;
    let endpoint = leaving.addr().to_string();
    let running = streaming_on(&gate, &leaving, LONG).await;
    let late = drain_endpoint(&gate, &endpoint, "200ms").await;
    let said = String::from_utf8_lossy(&late.stdout).into_owned();
    assert_eq!(late.status.code(), Some(2), "{said}");
    assert!(said.contains("1 in flight") && said.contains("1 of 1 replicas"), "{said}");
    running.leave(Leave::Close).await;
    let done = drain_endpoint(&gate, &endpoint, "20s").await;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(said.starts_with(&format!("{endpoint} drained")), "{said}");

    let wrong = drain_endpoint(&gate, "10.9.9.9:1", "1s").await;
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert_eq!(wrong.status.code(), Some(1), "{said}");
    assert!(said.contains(&endpoint), "{said}");
}
