//! What is learned of a request on its way, for the one event at its end.

use super::End;
use crate::core::api::{Api, Dialect};
use crate::core::headers::client_request_id;
use crate::core::ids::{EndpointId, ModelName, RequestId, TenantId};
use crate::core::slo::Slo;
use crate::core::stream::{StreamTracker, Usage};
use crate::core::timing::Timing;
use crate::proxy::client::Client;
use crate::telemetry::{RequestEvent, Tokens};
use rand::Rng;
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::Instant;

/// The account of one request.
pub(super) struct Account {
    /// When its head had been read. TTFT and E2E count from here.
    pub started: Instant,
    pub request_id: RequestId,
    pub tenant: TenantId,
    pub model: Option<ModelName>,
    pub api: Api,
    /// The family whose error shapes the client expects.
    pub dialect: Dialect,
    pub wants_stream: bool,
    pub queue_wait: Option<Duration>,
    pub attempts: u32,
    pub endpoint: Option<EndpointId>,
    pub upstream_status: Option<u16>,
    /// The status sent to the client.
    pub status: Option<u16>,
    pub bytes_received: u64,
    pub bytes_sent: u64,
    answer: AnswerFacts,
    client: IpAddr,
}

/// What the answer said of itself.
#[derive(Default)]
struct AnswerFacts {
    first_content: Option<std::time::Instant>,
    last_content: Option<std::time::Instant>,
    usage: Usage,
    /// Output tokens as far as the events tell: the last report and what came after it.
    delivered: u64,
    finish_reasons: Vec<String>,
}

impl Account {
    /// The request's head has just been read.
    pub fn open(client: &Client) -> Self {
        let head = client.head();
        Self {
            started: Instant::now(),
            request_id: client_request_id(&head.headers).unwrap_or_else(new_request_id),
            tenant: TenantId::unknown(),
            model: None,
            api: Api::Plain,
            dialect: Dialect::OpenAi,
            wants_stream: false,
            queue_wait: None,
            attempts: 0,
            endpoint: None,
            upstream_status: None,
            status: None,
            bytes_received: 0,
            bytes_sent: 0,
            answer: AnswerFacts::default(),
            client: client.address(),
        }
    }

    /// Learn from a streamed answer that has ended or broken.
    pub fn streamed(&mut self, tracker: &StreamTracker) {
        self.answer = AnswerFacts {
            first_content: tracker.first_content(),
            last_content: tracker.last_content(),
            usage: tracker.usage(),
            delivered: tracker.tokens_at_least(),
            finish_reasons: tracker
                .finish_reasons()
                .iter()
                .map(|finish| finish.reason.to_string())
                .collect(),
        };
    }

    /// Learn from a plain answer that has come whole.
    pub fn answered(&mut self, usage: Usage) {
        self.answer.usage = usage;
    }

    /// The event of this request.
    pub fn close(self, mut event: RequestEvent, end: &End, slo: &Slo) -> RequestEvent {
        let tokens = self.tokens();
        event.model = self.model;
        event.api = self.api.as_str();
        event.stream = self.wants_stream;
        event.reason = end.reason;
        event.error = end.error;
        event.status = self.status;
        event.upstream_status = self.upstream_status;
        event.endpoint = self.endpoint;
        event.attempts = self.attempts;
        event.queue_wait = self.queue_wait;
        let timing = Timing {
            start: self.started.into_std(),
            first_content: self.answer.first_content,
            last_content: self.answer.last_content,
            end: std::time::Instant::now(),
            output_tokens: tokens.completion.filter(|_| !tokens.estimated),
        };
        event.ttft = timing.ttft();
        event.tpot = timing.tpot();
        event.e2e = Some(timing.e2e());
        event.tokens = tokens;
        event.finish_reasons = self.answer.finish_reasons;
        event.bytes_received = self.bytes_received;
        event.bytes_sent = self.bytes_sent;
        event.client = Some(self.client);
        if self.api != Api::Plain {
            event.good = Some(slo.good(event.outcome, &event.latencies()));
        }
        event
    }

    /// What the engine reported; tokens that were delivered after its last report, of a stream
    /// that was cancelled or broke, count too.
    fn tokens(&self) -> Tokens {
        let AnswerFacts { usage, delivered, .. } = &self.answer;
        let estimated = *delivered > usage.completion.unwrap_or(0);
        Tokens {
            prompt: usage.prompt,
            completion: if estimated { Some(*delivered) } else { usage.completion },
            cached: usage.cached,
            estimated,
        }
    }
}

/// 128 random bits: unique without asking anybody.
pub(super) fn new_request_id() -> RequestId {
    RequestId::from(format!("{:032x}", rand::rng().random::<u128>()))
}
