use super::*;
use crate::core::api::Api;
use crate::core::reason::Reason;
use crate::core::rejection::{LimitInfo, LimitUnit};
use serde_json::{Value, json};
use std::time::Duration;

const ID: &str = "req-1";

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let mut values = answer.headers.iter().filter(|(n, _)| *n == name).map(|(_, v)| v.as_str());
    let value = values.next();
    assert_eq!(values.next(), None, "{name} once");
    value
}

fn body(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

fn cap(quota: u64) -> LimitInfo {
    LimitInfo {
        name: "tenant_in_flight",
        unit: LimitUnit::ConcurrentRequests,
        quota,
        remaining: 0,
        window: None,
        reset: None,
    }
}

/// The contract, line by line: reason, status, type for OpenAI, type for Anthropic.
const TABLE: [(Reason, u16, &str, &str); 17] = [
    (Reason::TenantInFlight, 429, "requests", "rate_limit_error"),
    (Reason::QueueFull, 429, "requests", "rate_limit_error"),
    (Reason::QueueTimeout, 429, "requests", "rate_limit_error"),
    (Reason::RequestRate, 429, "requests", "rate_limit_error"),
    (Reason::TokenBudget, 429, "tokens", "rate_limit_error"),
    (Reason::PoolSaturated, 503, "server_error", "overloaded_error"),
    (Reason::NoEndpoint, 503, "server_error", "overloaded_error"),
    (Reason::Draining, 503, "server_error", "overloaded_error"),
    (Reason::QuotaUnavailable, 503, "server_error", "overloaded_error"),
    (Reason::Unauthenticated, 401, "authentication_error", "authentication_error"),
    (Reason::ForbiddenModel, 403, "permission_error", "permission_error"),
    (Reason::UnknownModel, 404, "invalid_request_error", "not_found_error"),
    (Reason::BadRequest, 400, "invalid_request_error", "invalid_request_error"),
    (Reason::PayloadTooLarge, 413, "invalid_request_error", "request_too_large"),
    (Reason::UpstreamUnreachable, 502, "server_error", "api_error"),
    (Reason::UpstreamTimeout, 504, "server_error", "timeout_error"),
    (Reason::CutByOperator, 503, "server_error", "overloaded_error"),
];

#[test]
fn every_reason_is_answered_as_the_contract_says() {
    assert_eq!(TABLE.map(|row| row.0), Reason::ALL);
    for (reason, status, kind, anthropic) in TABLE {
        let rejection = Rejection::new(reason, "told \"so\"").param("model");
        let openai = answer(&rejection, Dialect::OpenAi, ID, 0.5);
        assert_eq!(openai.status, status, "{reason}");
        let wanted = json!({"error":
            {"message": "told \"so\"", "type": kind, "code": reason.as_str(), "param": "model"}});
        assert_eq!(body(&openai), wanted);

        let other = answer(&rejection, Dialect::Anthropic, ID, 0.5);
        let wanted = json!({"type": "error", "request_id": ID,
            "error": {"type": anthropic, "message": "told \"so\""}});
        assert_eq!((other.status, body(&other)), (status, wanted));
        assert_eq!((header(&openai, "request-id"), header(&other, "request-id")), (None, Some(ID)));

        for answer in [openai, other] {
            assert_eq!(header(&answer, "x-streamgate-reason"), Some(reason.as_str()));
            assert_eq!(header(&answer, "x-request-id"), Some(ID));
            assert_eq!(header(&answer, "content-type"), Some("application/json"));
            let retryable = reason.retryable();
            assert_eq!(header(&answer, "retry-after").is_some(), retryable, "{reason}");
            assert_eq!(header(&answer, "retry-after-ms").is_some(), retryable, "{reason}");
            let never = (!retryable).then_some("false");
            assert_eq!(header(&answer, "x-should-retry"), never, "{reason}");
            let challenge = (status == 401).then_some("Bearer");
            assert_eq!(header(&answer, "www-authenticate"), challenge);
        }
    }
}

#[test]
fn no_param_is_null() {
    let answer = answer(&Rejection::new(Reason::Draining, "x"), Dialect::OpenAi, ID, 0.0);
    assert_eq!(body(&answer)["error"]["param"], Value::Null);
    assert_eq!(body(&answer)["error"].as_object().unwrap().len(), 4);
}

#[test]
fn the_retry_time_is_the_given_one_upward() {
    let rejection =
        Rejection::new(Reason::TenantInFlight, "x").retry_after(Duration::from_secs(10));
    let times = |jitter| {
        let answer = answer(&rejection, Dialect::OpenAi, ID, jitter);
        let number = |name| header(&answer, name).unwrap().parse::<u64>().unwrap();
        (number("retry-after"), number("retry-after-ms"))
    };
    assert_eq!(times(0.0), (10, 10_000));
    assert_eq!(times(0.5), (13, 12_500));
    assert_eq!(times(1.0), (15, 15_000));
}

#[test]
fn a_cap_is_told_in_ratelimit_fields() {
    let rejection = Rejection::new(Reason::TenantInFlight, "x")
        .retry_after(Duration::from_secs(4))
        .limit(cap(4));
    let answer = answer(&rejection, Dialect::OpenAi, ID, 0.0);
    let policy = r#""tenant_in_flight";q=4;qu="concurrent-requests""#;
    assert_eq!(header(&answer, "ratelimit-policy"), Some(policy));
    assert_eq!(header(&answer, "ratelimit"), Some(r#""tenant_in_flight";r=0;t=4"#));
}

#[test]
fn a_rate_is_told_with_its_window() {
    let limit = |unit, reset| LimitInfo {
        name: "per_minute",
        unit,
        quota: 1000,
        remaining: 12,
        window: Some(Duration::from_secs(60)),
        reset: Some(Duration::from_millis(reset)),
    };
    let fields = |limit| {
        let rejection = Rejection::new(Reason::TokenBudget, "x")
            .retry_after(Duration::from_secs(8))
            .limit(limit);
        let answer = answer(&rejection, Dialect::Anthropic, ID, 0.0);
        ["ratelimit-policy", "ratelimit"].map(|name| header(&answer, name).unwrap().to_owned())
    };
    assert_eq!(
        fields(limit(LimitUnit::Tokens, 2_500)),
        [r#""per_minute";q=1000;qu="tokens";w=60"#, r#""per_minute";r=12;t=3"#]
    );
    // Not later than the time at which the client is told to come back.
    assert_eq!(
        fields(limit(LimitUnit::Requests, 30_000)),
        [r#""per_minute";q=1000;w=60"#, r#""per_minute";r=12;t=8"#]
    );
}

#[test]
fn a_request_that_never_fits_is_a_400_without_rate_fields() {
    let rejection = Rejection::new(Reason::TokenBudget, "x").limit(cap(4)).never_fits();
    let answer = answer(&rejection, Dialect::OpenAi, ID, 0.5);
    assert_eq!(answer.status, 400);
    assert_eq!(header(&answer, "x-should-retry"), Some("false"));
    assert_eq!(header(&answer, "retry-after").or(header(&answer, "ratelimit")), None);
    assert_eq!(body(&answer)["error"]["type"], "invalid_request_error");
    assert_eq!(body(&answer)["error"]["code"], "token_budget");
    assert_eq!(header(&answer, "x-streamgate-reason"), Some("token_budget"));
}

#[test]
fn what_the_http_layer_refuses_has_its_own_status() {
    let with = |status| {
        let rejection = Rejection::new(Reason::BadRequest, "x").with_status(status);
        answer(&rejection, Dialect::OpenAi, ID, 0.5)
    };
    let method = with(405);
    assert_eq!(
        (method.status, header(&method, "allow")),
        (405, Some("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"))
    );
    assert_eq!(header(&with(431), "x-should-retry"), Some("false"));
    assert!(header(&with(408), "retry-after").is_some());
}

#[test]
fn every_header_is_valid() {
    for reason in Reason::ALL {
        for dialect in [Dialect::OpenAi, Dialect::Anthropic] {
            let rejection = Rejection::new(reason, "x\ny").limit(cap(u64::MAX));
            for (name, value) in answer(&rejection, dialect, ID, 0.3).headers {
                assert!(http::HeaderName::from_bytes(name.as_bytes()).is_ok());
                assert!(http::HeaderValue::from_str(&value).is_ok(), "{name}: {value}");
                assert_eq!(name, name.to_lowercase());
            }
        }
    }
}

/// The name and the data of the one event in `bytes`.
fn event(bytes: &[u8]) -> (String, Value) {
    let text = std::str::from_utf8(bytes).unwrap();
    let lines = text.strip_suffix("\n\n").unwrap();
    let (name, data) = lines.split_once('\n').unwrap();
    assert!(!data.contains('\n'), "one data line");
    let name = name.strip_prefix("event: ").unwrap().to_owned();
    (name, serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap())
}

#[test]
fn a_broken_stream_ends_with_an_error_event_of_its_api() {
    let message = "the engine\nended";
    let error =
        json!({"message": message, "type": "server_error", "code": "truncated", "param": null});
    for api in [Api::Completions, Api::Chat, Api::Plain] {
        let event = event(&error_event(api, "truncated", message));
        assert_eq!(event, ("error".into(), json!({"error": error})));
    }
    let messages = event(&error_event(Api::Messages, "truncated", message));
    let wanted = json!({"type": "error", "error": {"type": "api_error", "message": message}});
    assert_eq!(messages, ("error".into(), wanted));
    let responses = event(&error_event_at(Api::Responses, "truncated", message, 7));
    let wanted = json!({"type": "error", "code": "truncated", "message": message, "param": null,
        "sequence_number": 7, "error": error});
    assert_eq!(responses, ("error".into(), wanted));
}

#[test]
fn a_cut_by_time_or_drain_has_its_name_in_the_anthropic_dialect() {
    let kind = |code| event(&error_event(Api::Messages, code, "x")).1["error"]["type"].clone();
    for code in ["timed_out", "upstream_timeout", "stream_idle_timeout", "total_timeout"] {
        assert_eq!(kind(code), "timeout_error");
    }
    assert_eq!(kind("drain_cut"), "overloaded_error");
    assert_eq!(kind("draining"), "overloaded_error");
    assert_eq!(kind("anything"), "api_error");
}
