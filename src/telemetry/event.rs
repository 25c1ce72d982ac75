//! The one account of an ended request. Log line, metrics and record are all made from it, so
//! they cannot disagree.

use crate::core::api::Api;
use crate::core::ids::{EndpointId, ModelName, RequestId, TenantId};
use crate::core::outcome::Outcome;
use crate::core::reason::Reason;
use crate::core::slo::Latencies;
use serde::{Serialize, Serializer};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

/// Most finish reasons kept of one request; an engine sends one a choice.
const MAX_FINISH_REASONS: usize = 8;
/// Longest finish reason kept, in bytes; longer ones are not in any API.
const MAX_FINISH_REASON: usize = 32;

/// How one request went. Made by [`Arrival::event`](super::Arrival::event), which fills in who
/// it belongs to; the rest is public. Serialised, it is one line of `records.path`
/// (`docs/records.md`): every key is always present.
#[derive(Clone, Debug, Serialize)]
pub struct RequestEvent {
    /// Wall clock at the end of the request.
    #[serde(rename = "time", serialize_with = "rfc3339")]
    pub(super) ended: SystemTime,
    pub(super) request_id: RequestId,
    /// A configured tenant, or `unknown`.
    pub(super) tenant: TenantId,
    /// As the client sent it; replaced by its bounded label (`other` unless configured) before
    /// anything leaves this process.
    pub model: Option<ModelName>,
    /// The name of the request's [`Api`].
    pub api: &'static str,
    /// The client asked for a stream.
    pub stream: bool,
    pub outcome: Outcome,
    /// The `x-streamgate-reason` of the answer, if it was ours.
    pub reason: Option<Reason>,
    /// Status sent to the client; `None` if it got none.
    pub status: Option<u16>,
    /// Last status an engine answered with.
    pub upstream_status: Option<u16>,
    /// The last endpoint asked.
    pub endpoint: Option<EndpointId>,
    /// Endpoints asked, retries included; 0 for a refusal.
    pub attempts: u32,
    /// Arrival to admission decision; `None` if none was asked for.
    #[serde(rename = "queue_wait_seconds", serialize_with = "seconds")]
    pub queue_wait: Option<Duration>,
    /// Arrival to first content.
    #[serde(rename = "ttft_seconds", serialize_with = "seconds")]
    pub ttft: Option<Duration>,
    /// `(last content − first content) / (output tokens − 1)`.
    #[serde(rename = "tpot_seconds", serialize_with = "seconds")]
    pub tpot: Option<Duration>,
    /// Arrival to end; measured by the arrival itself if left empty.
    #[serde(rename = "duration_seconds", serialize_with = "seconds")]
    pub e2e: Option<Duration>,
    #[serde(flatten)]
    pub tokens: Tokens,
    /// Distinct finish reasons of the choices.
    pub finish_reasons: Vec<String>,
    /// Within the service level; `None` if this kind of request is not judged.
    pub good: Option<bool>,
    /// Body bytes received from the client.
    pub bytes_received: u64,
    /// Body bytes sent to the client.
    pub bytes_sent: u64,
    /// The client's address, without its port.
    pub client: Option<IpAddr>,
    /// What went wrong, from a closed vocabulary; never text of a client or an engine.
    pub error: Option<&'static str>,
}

/// Token counts of one request, as the engine's usage gives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tokens {
    #[serde(rename = "prompt_tokens")]
    pub prompt: Option<u64>,
    #[serde(rename = "completion_tokens")]
    pub completion: Option<u64>,
    /// The part of `prompt` that was found in the engine's prefix cache.
    #[serde(rename = "cached_tokens")]
    pub cached: Option<u64>,
    /// The answer ended before its usage: `completion` is the last report and one for each event
    /// with content after it.
    #[serde(rename = "tokens_estimated")]
    pub estimated: bool,
}

impl RequestEvent {
    pub(super) fn new(request_id: RequestId, tenant: TenantId, outcome: Outcome) -> Self {
        Self {
            ended: SystemTime::UNIX_EPOCH,
            request_id,
            tenant,
            model: None,
            api: Api::Plain.as_str(),
            stream: false,
            outcome,
            reason: None,
            status: None,
            upstream_status: None,
            endpoint: None,
            attempts: 0,
            queue_wait: None,
            ttft: None,
            tpot: None,
            e2e: None,
            tokens: Tokens::default(),
            finish_reasons: Vec::new(),
            good: None,
            bytes_received: 0,
            bytes_sent: 0,
            client: None,
            error: None,
        }
    }

    /// The latencies a service level is judged by.
    pub fn latencies(&self) -> Latencies {
        Latencies { ttft: self.ttft, tpot: self.tpot, e2e: self.e2e }
    }

    /// Bound what comes from outside: the model becomes its label, finish reasons are few, short
    /// and distinct.
    pub(super) fn seal(&mut self, model: ModelName, ended: SystemTime, elapsed: Duration) {
        self.model = Some(model);
        self.ended = ended;
        self.e2e.get_or_insert(elapsed);
        self.finish_reasons.retain(|reason| reason.len() <= MAX_FINISH_REASON);
        self.finish_reasons.sort_unstable();
        self.finish_reasons.dedup();
        self.finish_reasons.truncate(MAX_FINISH_REASONS);
    }

    /// The log line: target `streamgate::request`, level `info`, the keys of the record.
    pub(super) fn log(&self) {
        let label = |value: Option<Duration>| value.map(rounded);
        tracing::info!(
            target: "streamgate::request",
            request_id = self.request_id.as_str(),
            tenant = self.tenant.as_str(),
            model = self.model.as_ref().map(ModelName::as_str),
            api = self.api,
            stream = self.stream,
            outcome = self.outcome.as_str(),
            reason = self.reason.map(Reason::as_str),
            status = self.status,
            upstream_status = self.upstream_status,
            endpoint = self.endpoint.as_ref().map(EndpointId::as_str),
            attempts = self.attempts,
            queue_wait_seconds = label(self.queue_wait),
            ttft_seconds = label(self.ttft),
            tpot_seconds = label(self.tpot),
            duration_seconds = label(self.e2e),
            prompt_tokens = self.tokens.prompt,
            completion_tokens = self.tokens.completion,
            cached_tokens = self.tokens.cached,
            tokens_estimated = self.tokens.estimated,
            finish_reasons = (!self.finish_reasons.is_empty())
                .then(|| tracing::field::display(self.finish_reasons.join(","))),
            good = self.good,
            bytes_received = self.bytes_received,
            bytes_sent = self.bytes_sent,
            client = self.client.map(tracing::field::display),
            error = self.error,
            "request ended"
        );
    }
}

/// Seconds, to the microsecond.
fn rounded(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e6
}

#[expect(clippy::ref_option, reason = "the signature serde calls")]
fn seconds<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    value.map(rounded).serialize(serializer)
}

fn rfc3339<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_rfc3339_millis(*time))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> RequestEvent {
        RequestEvent::new(RequestId::from("r-1"), TenantId::from("a"), Outcome::Complete)
    }

    #[test]
    fn sealing_bounds_what_comes_from_outside() {
        let mut event = event();
        event.finish_reasons = vec!["stop".into(), "length".into(), "stop".into(), "x".repeat(33)];
        event.finish_reasons.extend((0..20).map(|n| format!("z{n:02}")));
        event.seal(ModelName::from("other"), SystemTime::UNIX_EPOCH, Duration::from_secs(3));
        assert_eq!(event.finish_reasons.len(), MAX_FINISH_REASONS);
        assert_eq!(event.finish_reasons[..3], ["length", "stop", "z00"]);
        assert_eq!(event.e2e, Some(Duration::from_secs(3)));
    }

    #[test]
    fn sealing_keeps_a_measured_duration() {
        let mut event = event();
        event.e2e = Some(Duration::from_secs(1));
        event.seal(ModelName::from("m"), SystemTime::UNIX_EPOCH, Duration::from_secs(3));
        assert_eq!(event.e2e, Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_record_has_every_key_and_microseconds() {
        let mut event = event();
        event.ttft = Some(Duration::from_nanos(1_234_567_891));
        let value = serde_json::to_value(&event).expect("an event serialises");
        assert_eq!(value["ttft_seconds"], 1.234_568);
        assert_eq!(value["time"], "1970-01-01T00:00:00.000Z");
        assert_eq!(value["reason"], serde_json::Value::Null);
        assert_eq!(value["tokens_estimated"], false);
        assert_eq!(value.as_object().expect("an object").len(), 26);
    }
}
