//! The log line and the record of one request, and logging of a whole process.

use crate::fake;
use serde_json::{Map, Value};
use std::io;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use streamgate::core::ids::{EndpointId, ModelName, RequestId, TenantId};
use streamgate::core::outcome::Outcome;
use streamgate::telemetry::logging::{self, LogFormat, LogParams};
use streamgate::telemetry::{Params, Telemetry, Tokens};
use tracing::Level;
use tracing_subscriber::layer::SubscriberExt;

const PARAMS: LogParams = LogParams { format: LogFormat::Json, level: Level::INFO };

#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One request with everything known, and one without anything.
fn two_requests(telemetry: &Arc<Telemetry>) {
    let mut arrival = telemetry.arrive(&TenantId::from("a"), RequestId::from("r-1"));
    arrival.admitted();
    let mut event = arrival.event(Outcome::Complete);
    event.model = Some(ModelName::from("big"));
    event.api = "chat";
    event.stream = true;
    event.status = Some(200);
    event.upstream_status = Some(200);
    event.endpoint = Some(EndpointId::from("127.0.0.1:8001"));
    event.attempts = 1;
    event.queue_wait = Some(Duration::from_micros(130));
    event.ttft = Some(Duration::from_millis(261));
    event.tpot = Some(Duration::from_micros(52_250));
    event.tokens =
        Tokens { prompt: Some(517), completion: Some(128), cached: None, estimated: false };
    event.finish_reasons = vec!["stop".into()];
    event.good = Some(true);
    event.bytes_received = 3_000;
    event.bytes_sent = 40_000;
    event.client = Some([127, 0, 0, 1].into());
    arrival.finish(event);
    drop(telemetry.arrive(&TenantId::from("a"), RequestId::from("r-2")));
}

fn objects(text: &str) -> Vec<Map<String, Value>> {
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
    text.lines().map(parse).collect()
}

#[test]
fn log_line_and_record_agree() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("records.jsonl");
    let output = Output::default();
    let sink = output.clone();
    let layer = logging::layer(&PARAMS, None, move || sink.clone()).expect("valid");
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        let params = Params {
            labels: fake::labels(),
            slo: fake::SLO,
            records: Some(path.clone()),
            version: "1.2.3",
        };
        let telemetry = Telemetry::new(&params).expect("a writable directory");
        two_requests(&telemetry);
        assert!(telemetry.close(Duration::from_secs(10)));
    });
    let records = objects(&std::fs::read_to_string(&path).expect("written"));
    let logged = String::from_utf8(output.0.lock().expect("not poisoned").clone()).expect("text");
    let logged = objects(&logged);
    assert_eq!((records.len(), logged.len()), (2, 2));
    for (record, line) in records.iter().zip(&logged) {
        assert_eq!(line["target"], "streamgate::request");
        for (key, value) in record {
            let expected = match value {
                Value::Array(reasons) if reasons.is_empty() => &Value::Null,
                Value::Array(reasons) => &reasons[0],
                other => other,
            };
            let said = line.get(key).unwrap_or(&Value::Null);
            if key != "time" {
                assert_eq!(said, expected, "{key}");
            }
        }
    }
    assert_eq!(records[0]["outcome"], "complete");
    assert_eq!(records[0]["ttft_seconds"], 0.261);
    assert_eq!(records[1]["outcome"], "failed");
    assert_eq!(records[1]["request_id"], "r-2");
}

#[test]
fn every_documented_key_is_written_and_no_other() {
    let document = include_str!("../../docs/records.md");
    let rows = document.lines().filter(|line| line.starts_with("| `"));
    let mut documented: Vec<&str> = rows
        .filter_map(|line| line.split('|').nth(1))
        .flat_map(|cell| cell.split(','))
        .map(|key| key.trim().trim_matches('`'))
        .collect();
    documented.sort_unstable();
    let arrival = fake::telemetry().arrive(&TenantId::from("a"), RequestId::from("r"));
    let value = serde_json::to_value(arrival.event(Outcome::Complete)).expect("serialises");
    let mut written: Vec<_> = value.as_object().expect("an object").keys().collect();
    written.sort_unstable();
    assert_eq!(written, documented);
}

/// Runs in a process of its own, started by the test below.
#[test]
#[ignore = "the child of logging_of_a_whole_process"]
fn logging_child() {
    let _log = logging::init(&PARAMS).expect("first in this process");
    logging::init(&PARAMS).expect_err("only once");
    tracing::info!(target: "streamgate::app", "own line");
    tracing_log::log::warn!(target: "pingora_core::services", "bridged line");
    tracing_log::log::info!(target: "pingora_core::services", "too much detail");
    tracing_log::log::error!(target: "pingora_core::apps::http_app", "buf: Bearer secret-key");
    let quoted = "secret prompt".to_owned();
    std::thread::spawn(move || assert!(quoted.is_empty(), "was {quoted}")).join().unwrap_err();
}

#[test]
fn logging_of_a_whole_process() {
    let mut child = Command::new(std::env::current_exe().expect("this test"));
    child.args(["--ignored", "--exact", "records::logging_child", "--nocapture"]);
    let output = child.env_remove(logging::LOG_VARIABLE).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<_> = text
        .lines()
        .filter_map(|line| line.find('{').map(|start| &line[start..]))
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .collect();
    let said: Vec<_> = lines.iter().map(|line| line["message"].as_str().unwrap_or("")).collect();
    assert_eq!(said, ["own line", "bridged line", "panicked: a defect of this program"], "{text}");
    assert_eq!(lines[1]["level"], "WARN");
    let place = lines[2]["place"].as_str().expect("a place");
    assert!(place.contains("records.rs"), "{place}");
    let whole = text + &String::from_utf8_lossy(&output.stderr);
    assert!(!whole.contains("secret"), "{whole}");
}
