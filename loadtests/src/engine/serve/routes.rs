//! Paths and methods.

use std::sync::Arc;

use super::connection::After;
use super::{control, generation, reply};
use crate::engine::faults::Faults;
use crate::engine::metrics::expose;
use crate::engine::phase::Phase;
use crate::engine::shared::Shared;
use crate::engine::stats::{RecordedRequest, RequestId};
use crate::engine::wire::errors::ApiError;
use crate::engine::wire::{Api, hex_id};
use crate::http1::{Answer, BodyError, CloseBy, Head, Io, read_body};

const METRICS_TYPE: &str = "text/plain; version=1.0.0; charset=utf-8";

/// Answers one request.
pub(super) async fn answer(
    io: &mut Io,
    shared: &Arc<Shared>,
    head: &Head,
    connection: u64,
) -> After {
    if head.path.starts_with("/sim/") {
        return control::answer(io, shared, head).await;
    }
    let id = record(shared, head, connection);
    if let (Some(api), "POST") = (Api::of_path(&head.path), head.method.as_str()) {
        return generation::answer(io, shared, head, id, api).await;
    }
    let faults = shared.faults.take(&head.path, false).unwrap_or_default();
    if faults.refuse {
        return After::Close(faults.cut_by);
    }
    match read_body(io, head, shared.config.body_limit).await {
        Ok(_) => {}
        Err(BodyError::TooLarge) => return After::Close(CloseBy::Fin),
        Err(BodyError::Closed | BodyError::Invalid) => return After::Close(CloseBy::Fin),
    }
    let answer = simple(shared, head, &faults);
    shared.recorder.status(id, answer.status, false);
    shared.metrics.http(&head.path, &head.method, answer.status);
    reply::send(io, shared, head, &faults, answer).await.unwrap_or(After::Close(CloseBy::Fin))
}

fn record(shared: &Shared, head: &Head, connection: u64) -> RequestId {
    shared.recorder.request(RecordedRequest {
        connection,
        at_ms: shared.started.elapsed().as_secs_f64() * 1e3,
        method: head.method.clone(),
        path: head.path.clone(),
        query: head.query.clone(),
        headers: head.headers.clone(),
        ..RecordedRequest::default()
    })
}

fn simple(shared: &Shared, head: &Head, faults: &Faults) -> Answer {
    if let Some(status) = faults.status {
        return ApiError::of_status(status).answer(None);
    }
    let allowed = match head.path.as_str() {
        "/health" | "/version" | "/v1/models" | "/metrics" | "/load" => "GET",
        "/ping" => "GET, POST",
        "/reset_prefix_cache" => "POST",
        path if Api::of_path(path).is_some() => "POST",
        _ => return Answer::json(404, r#"{"detail":"Not Found"}"#),
    };
    if !allowed.split(", ").any(|m| m == head.method) {
        let mut answer = Answer::json(405, r#"{"detail":"Method Not Allowed"}"#);
        answer.fields.allow = Some(allowed);
        answer.omit_body = head.method == "HEAD";
        return answer;
    }
    match head.path.as_str() {
        "/version" => Answer::json(200, r#"{"version":"0.32.0"}"#),
        "/v1/models" => Answer::json(200, models(shared)),
        "/load" => Answer::json(200, format!(r#"{{"server_load":{}}}"#, shared.active.get())),
        "/metrics" => {
            let load = shared.backend.load();
            let model = &shared.config.model;
            let page = expose(&shared.metrics, load, model, shared.backend.block());
            Answer::with_type(200, METRICS_TYPE, page)
        }
        "/reset_prefix_cache" => {
            shared.backend.reset_cache();
            Answer::empty(200)
        }
        _ if shared.phase() == Phase::EngineDead => Answer::empty(503),
        _ => Answer::empty(200),
    }
}

fn models(shared: &Shared) -> String {
    let model = serde_json::Value::from(shared.config.model.as_str());
    let created = shared.metrics.created_seconds();
    let permission = hex_id();
    format!(
        r#"{{"object":"list","data":[{{"id":{model},"object":"model","created":{created},"owned_by":"vllm","root":{model},"parent":null,"max_model_len":{},"permission":[{{"id":"modelperm-{permission}","object":"model_permission","created":{created},"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}}]}}]}}"#,
        shared.config.max_model_len
    )
}
