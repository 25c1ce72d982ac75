//! What each captured stream is, stated once.

use streamgate::core::api::Api;
use streamgate::core::stream::{Usage, Verdict};

/// The event that decides the outcome of a capture, by its literal bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decides {
    /// The terminal event: complete.
    Terminal(&'static str),
    /// The engine's error: nothing from here on is for the client.
    Error(&'static str),
    /// The engine's abort: nothing from here on is for the client.
    Abort(&'static str),
    /// The capture ends in the middle.
    Nothing,
}

pub struct Case {
    pub file: &'static str,
    pub api: Api,
    pub decides: Decides,
    pub verdict: Verdict,
    /// Prompt, completion, cached.
    pub usage: [Option<u64>; 3],
    pub usage_missing: bool,
    pub finish: &'static [(u64, &'static str)],
    pub events: u64,
    pub content: u64,
    /// Status and type of the engine's error.
    pub error: Option<(Option<u16>, &'static str)>,
}

impl Case {
    pub fn usage(&self) -> Usage {
        let [prompt, completion, cached] = self.usage;
        Usage { prompt, completion, cached }
    }
}

const DONE: Decides = Decides::Terminal("data: [DONE]\n\n");
const NONE: [Option<u64>; 3] = [None; 3];
const LENGTH: &[(u64, &str)] = &[(0, "length")];

const fn complete(file: &'static str, api: Api, events: u64, content: u64) -> Case {
    Case {
        file,
        api,
        decides: DONE,
        verdict: Verdict::Complete,
        usage: NONE,
        usage_missing: true,
        finish: LENGTH,
        events,
        content,
        error: None,
    }
}

const fn with_usage(case: Case, prompt: u64, completion: u64) -> Case {
    Case { usage: [Some(prompt), Some(completion), None], usage_missing: false, ..case }
}

const fn broken(case: Case, decides: Decides, verdict: Verdict) -> Case {
    Case { decides, verdict, finish: &[], usage_missing: false, ..case }
}

pub const CASES: &[Case] = &[
    complete("chat_stream.raw", Api::Chat, 6, 4),
    complete("chat_stream_connclose.raw", Api::Chat, 6, 4),
    complete("chat_stream_http10.raw", Api::Chat, 6, 4),
    complete("chat_stream_reqid.raw", Api::Chat, 6, 4),
    with_usage(complete("chat_stream_usage.raw", Api::Chat, 7, 4), 24, 4),
    with_usage(complete("chat_stream_continuous_usage.raw", Api::Chat, 7, 4), 24, 4),
    Case {
        finish: &[(0, "length"), (1, "length")],
        ..with_usage(complete("chat_stream_n2.raw", Api::Chat, 12, 8), 24, 8)
    },
    complete("completions_stream.raw", Api::Completions, 5, 4),
    complete("completions_stream_sse_keep_alive_queued.raw", Api::Completions, 4, 3),
    with_usage(complete("completions_stream_usage.raw", Api::Completions, 6, 4), 5, 4),
    with_usage(complete("completions_stream_continuous_usage.raw", Api::Completions, 6, 4), 5, 4),
    Case {
        finish: &[(0, "length"), (1, "length")],
        ..with_usage(complete("completions_stream_n2.raw", Api::Completions, 10, 8), 5, 8)
    },
    Case {
        decides: Decides::Terminal("event: response.completed\n"),
        usage: [Some(24), Some(4), Some(0)],
        finish: &[(0, "max_output_tokens")],
        ..with_usage(complete("responses_stream.raw", Api::Responses, 10, 2), 24, 4)
    },
    Case {
        decides: Decides::Terminal("event: message_stop\n"),
        finish: &[(0, "max_tokens")],
        ..with_usage(complete("messages_stream.raw", Api::Messages, 9, 4), 24, 4)
    },
    // The abort chunk carries the last token, which the client does not get: 398 of 399.
    Case {
        usage: [Some(5), Some(399), None],
        finish: &[(0, "abort")],
        ..broken(
            complete("abort_midstream_completions_sigterm_default.raw", Api::Completions, 401, 398),
            Decides::Abort("\"finish_reason\":\"abort\""),
            Verdict::Truncated,
        )
    },
    broken(
        complete("cut_midstream_completions_timeout_expired.raw", Api::Completions, 1031, 1031),
        Decides::Nothing,
        Verdict::Truncated,
    ),
    broken(
        complete("cut_midstream_responses_stream.raw", Api::Responses, 682, 678),
        Decides::Nothing,
        Verdict::Truncated,
    ),
    Case {
        error: Some((Some(500), "InternalServerError")),
        usage_missing: true,
        ..broken(
            complete("error_midstream_chat_stream_engine_dead.raw", Api::Chat, 682, 679),
            Decides::Error("data: {\"error\": "),
            Verdict::UpstreamError,
        )
    },
    // Only `message_start` reported usage: no completion token then.
    Case {
        usage: [Some(24), Some(0), None],
        error: Some((None, "internal_error")),
        ..broken(
            complete("error_midstream_messages_stream_engine_dead.raw", Api::Messages, 681, 678),
            Decides::Error("event: error\n"),
            Verdict::UpstreamError,
        )
    },
];
