use super::*;
use serde_json::Value;
use std::io;
use std::sync::{Arc, Mutex};

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

/// What `act` writes under the given settings.
fn written(
    format: LogFormat,
    level: Level,
    directives: Option<&str>,
    act: impl FnOnce(),
) -> String {
    let output = Output::default();
    let sink = output.clone();
    let layer = layer(&LogParams { format, level }, directives, move || sink.clone());
    let subscriber = Registry::default().with(layer.expect("valid directives"));
    tracing::subscriber::with_default(subscriber, act);
    let bytes = output.0.lock().expect("not poisoned").clone();
    String::from_utf8(bytes).expect("text")
}

fn lines(format: LogFormat, level: Level, directives: Option<&str>) -> Vec<String> {
    let text = written(format, level, directives, || {
        tracing::debug!("own debug");
        tracing::info!(answer = 42, "own info");
        tracing::info!(target: "streamgateway", "foreign info");
        tracing::debug!(target: "hyper::proto", "foreign debug");
        tracing::warn!(target: "pingora_core::services", "foreign warn");
        tracing::error!(target: "pingora_core::apps::http_app", "buf: authorization: Bearer k");
    });
    text.lines().map(str::to_owned).collect()
}

#[test]
fn json_lines_are_flat_objects() {
    let lines = lines(LogFormat::Json, Level::INFO, None);
    assert_eq!(lines.len(), 2, "{lines:?}");
    let first: Value = serde_json::from_str(&lines[0]).expect("JSON");
    assert_eq!((&first["message"], &first["answer"]), (&"own info".into(), &42.into()));
    assert_eq!(first["level"], "INFO");
    assert!(first["timestamp"].is_string() && first["target"].is_string());
    assert!(lines[1].contains("foreign warn"));
}

#[test]
fn text_lines_have_no_colour_without_a_terminal() {
    let lines = lines(LogFormat::Text, Level::INFO, None);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("own info") && lines[0].contains("answer=42"), "{lines:?}");
}

#[test]
fn no_directive_makes_libraries_talk_about_requests() {
    let lines = lines(LogFormat::Json, Level::ERROR, Some("trace"));
    let heard = lines.iter().map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line["message"].as_str().expect("a message").to_owned()
    });
    assert_eq!(heard.collect::<Vec<_>>(), ["own debug", "own info", "foreign warn"]);
}

#[test]
fn directives_select_modules() {
    let asked = Some("error,streamgate::telemetry=debug");
    let lines = lines(LogFormat::Json, Level::INFO, asked);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("own debug") && lines[1].contains("own info"));
}

#[test]
fn directives_that_are_not_understood_are_named() {
    let params = LogParams { format: LogFormat::Json, level: Level::INFO };
    let Err(error) = layer::<Registry, _>(&params, Some("streamgate=loud"), io::sink) else {
        panic!("it was accepted");
    };
    assert!(error.to_string().contains(LOG_VARIABLE), "{error}");
}

#[test]
fn a_panic_text_is_told_only_if_it_is_a_literal() {
    assert_eq!(harmless(&"queue is empty" as &(dyn Any + Send)), "queue is empty");
    let quoted: Box<dyn Any + Send> = Box::new(String::from("not a boundary of `secret`"));
    assert!(!harmless(&*quoted).contains("secret"));
}
