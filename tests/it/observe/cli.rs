//! The command line against a running gate.

use super::stand;
use crate::support::{Api, Gate, Setup};
use serde_json::Value;
use std::process::Output;
use std::time::Duration;
use streamgate_loadtests::engine::{Engine, EngineConfig};
use tokio::process::Command;

async fn streamgate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_streamgate")).args(arguments).output().await.unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test]
async fn status_shows_what_runs() {
    let engine = Engine::start(EngineConfig::instant(Duration::from_millis(1))).await.unwrap();
    let setup = Setup::new(&[engine.addr()])
        .tenant("interactive", "max_in_flight: 4")
        .tenant("batch", "max_in_flight: 2");
    let gate = Gate::start(setup).await;
    let admin = format!("http://{}", gate.admin);
    let _held = stand(&gate, "interactive", "held").await;

    let json = stdout(&streamgate(&["status", "--admin", &admin, "--json"]).await);
    let state: Value = serde_json::from_str(&json).unwrap();
    let tenant = &state["tenants"][0];
    let wanted = (&"interactive".into(), &4.into(), &1.into());
    assert_eq!((&tenant["tenant"], &tenant["limit"], &tenant["in_flight"]), wanted, "{state}");
    assert_eq!(state["pools"][0]["endpoints"][0]["state"], "ready");
    assert_eq!(state["drain"]["state"], "serving");

    let table = stdout(&streamgate(&["status", "--admin", &admin]).await);
    let row = table.lines().find(|line| line.contains("interactive")).expect("a row a tenant");
    assert!(row.contains('4') && row.contains('1'), "{row}");
    assert!(table.contains("batch") && table.contains(&engine.addr().to_string()), "{table}");
    assert!(!table.contains('\u{1b}'), "no colour where no terminal is");
}

#[tokio::test]
async fn status_of_nobody_fails_with_a_remedy() {
    // A port that was just free.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = streamgate(&["status", "--admin", &format!("http://{port}")]).await;
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains(&port.to_string()), "{error}");
}

#[tokio::test]
async fn a_new_key_works_and_its_line_does_not_tell_it() {
    let text = stdout(&streamgate(&["key", "new", "fresh"]).await);
    let words = || text.split(|c: char| c.is_whitespace() || "\"[],".contains(c));
    let hash = words().find(|word| word.starts_with("sha256:")).expect("the line for the file");
    assert_eq!(hash.len(), "sha256:".len() + 64);
    let is_key = |word: &&str| word.len() > 40 && !word.contains(':');
    let key = words().find(is_key).unwrap_or_else(|| panic!("the key itself: {text}"));
    assert_eq!(text.matches(key).count(), 1, "printed once");
    let other = stdout(&streamgate(&["key", "new", "fresh"]).await);
    assert!(!other.contains(key) && !other.contains(hash), "each is another");

    let engine = Engine::start(EngineConfig::default()).await.unwrap();
    let setup = Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 1");
    let yaml = setup.yaml().replace(
        "tenants:\n",
        &format!("tenants:\n  - id: fresh\n    api_keys: [\"{hash}\"]\n    max_in_flight: 1\n"),
    );
    let gate = Gate::start_with(yaml).await;
    let request = Api::Chat.plain(1).without_key();
    for request in [
        request.clone().header("authorization", &format!("Bearer {key}")),
        request.clone().header("x-api-key", key),
    ] {
        assert_eq!(gate.answer(&request).await.status, 200);
    }
    assert_eq!(gate.answer(&request.header("x-api-key", hash)).await.status, 401);
    let metrics = gate.settled().await;
    assert_eq!(metrics.sum_where("streamgate_arrivals_total", &[("tenant", "fresh")]), 2.0);
}
