//! `/sim/…`: the tester's own endpoints.
//!
//! | request | effect |
//! |---|---|
//! | `GET /sim/stats` | the figures as JSON |
//! | `GET /sim/requests` | the last 1,000 requests as JSON |
//! | `POST /sim/reset[?cache=1]` | forget figures, requests and queued faults (and the prefix cache) |
//! | `POST /sim/next?…` | queue a fault (see the table of faults) |
//! | `POST /sim/warm?for=/v1/completions` | put the prompt of the request in the body into the prefix cache |
//! | `POST /sim/shutdown?timeout=30s` | as SIGTERM with that `--shutdown-timeout` |
//! | `POST /sim/engine-death` | the engine process dies, the server lives on for a moment |
//! | `POST /sim/close-listener?for=2s` | refuse connects for that long |

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::connection::After;
use super::reply;
use crate::engine::faults::{FaultRule, Faults, duration, pairs};
use crate::engine::phase::{begin_shutdown, engine_dies, sleep};
use crate::engine::shared::Shared;
use crate::http1::{Answer, CloseBy, Head, Io, read_body};

/// Answers a control request.
pub(super) async fn answer(io: &mut Io, shared: &Arc<Shared>, head: &Head) -> After {
    let Ok(body) = read_body(io, head, shared.config.body_limit).await else {
        return After::Close(CloseBy::Fin);
    };
    let answer = act(shared, head, &body);
    let none = Faults::default();
    reply::send(io, shared, head, &none, answer).await.unwrap_or(After::Close(CloseBy::Fin))
}

fn act(shared: &Arc<Shared>, head: &Head, body: &[u8]) -> Answer {
    match (head.method.as_str(), head.path.as_str()) {
        ("GET", "/sim/stats") => json(&shared.stats()),
        ("GET", "/sim/requests") => json(&shared.recorder.requests()),
        ("POST", "/sim/reset") => {
            shared.faults.clear();
            shared.reset(flag(head, "cache"));
            ok()
        }
        ("POST", "/sim/next") => match FaultRule::parse(&head.query) {
            Ok(rule) => {
                shared.faults.push(rule);
                ok()
            }
            Err(mistake) => bad(&mistake.to_string()),
        },
        ("POST", "/sim/warm") => {
            let path = value(head, "for").unwrap_or_else(|| "/v1/completions".into());
            match shared.warm(&path, body) {
                Ok(blocks) => json(&serde_json::json!({ "blocks": blocks })),
                Err(mistake) => bad(&mistake),
            }
        }
        ("POST", "/sim/shutdown") => with_time(head, "timeout", |timeout| {
            begin_shutdown(shared, timeout);
        }),
        ("POST", "/sim/engine-death") => {
            engine_dies(shared);
            ok()
        }
        ("POST", "/sim/close-listener") => with_time(head, "for", |time| {
            shared.listening.send_replace(false);
            let shared = Arc::clone(shared);
            tokio::spawn(async move {
                sleep(&shared, time).await;
                shared.listening.send_replace(true);
            });
        }),
        _ => Answer::json(404, r#"{"detail":"Not Found"}"#),
    }
}

fn value(head: &Head, key: &str) -> Option<String> {
    pairs(&head.query).find(|(k, _)| k == key).map(|(_, v)| v)
}

fn flag(head: &Head, key: &str) -> bool {
    value(head, key).is_some_and(|v| v != "0")
}

fn with_time(head: &Head, key: &str, act: impl FnOnce(Duration)) -> Answer {
    match value(head, key).as_deref().map(duration) {
        Some(Ok(time)) => {
            act(time);
            ok()
        }
        _ => bad(&format!("{key}: give a duration with a unit, as 150ms or 2s")),
    }
}

fn json(value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(body) => Answer::json(200, body),
        Err(error) => Answer::json(500, serde_json::Value::from(error.to_string()).to_string()),
    }
}

fn ok() -> Answer {
    Answer::json(200, "{}")
}

fn bad(message: &str) -> Answer {
    Answer::json(400, serde_json::json!({ "error": message }).to_string())
}
