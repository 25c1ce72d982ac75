//! Answers that broke after their head was sent: what the client is told, and how it counts.

use super::End;
use super::work::Work;
use crate::core::answer::error_event_at;
use crate::core::api::Api;
use crate::core::cause::CutCause;
use crate::core::outcome::Outcome;
use crate::proxy::client::{Client, Lost};
use crate::proxy::engine::Engines;

/// Why a begun answer does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Break {
    Client(Lost),
    /// The engine's connection broke, or its stream ended without the terminal event.
    Truncated,
    /// The engine gave the request up (`finish_reason: "abort"`).
    Abort,
    /// The engine wrote an error into the stream.
    EngineError,
    /// No progress within `timeouts.first_byte`, after the head had to go out.
    NoFirstToken,
    /// Silence for `timeouts.stream_idle`.
    Idle,
    /// `timeouts.total`.
    Total,
    Cut(CutCause),
}

/// The end of an event stream so far, between two events.
pub(super) struct Place {
    pub api: Api,
    /// The number of the next event, where the API has them.
    pub sequence: u64,
}

impl Break {
    fn outcome(self) -> Outcome {
        match self {
            Self::Client(Lost::Gone) => Outcome::ClientCancelled,
            Self::Truncated | Self::Abort => Outcome::Truncated,
            Self::EngineError => Outcome::UpstreamError,
            Self::Client(Lost::Stalled) | Self::NoFirstToken | Self::Idle | Self::Total => {
                Outcome::TimedOut
            }
            Self::Cut(cause) => cut_outcome(cause),
        }
    }

    /// The `code` of the error event, and the `error` of the log line.
    fn code(self) -> &'static str {
        match self {
            Self::Client(Lost::Gone) => "client_gone",
            Self::Client(Lost::Stalled) => "write_stall",
            Self::Truncated => "upstream_truncated",
            Self::Abort => "upstream_abort",
            Self::EngineError => "upstream_error",
            Self::NoFirstToken => "first_byte_timeout",
            Self::Idle => "stream_idle_timeout",
            Self::Total => "total_timeout",
            Self::Cut(CutCause::Operator) => "cut_by_operator",
            Self::Cut(CutCause::Fence) => "quota_fence",
            Self::Cut(CutCause::Drain | CutCause::EndpointDrain) => "draining",
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::Client(_) => "The client stopped reading.",
            Self::Truncated => "The engine's stream ended before it was complete.",
            Self::Abort => "The engine gave the request up before it was complete.",
            Self::EngineError => "The engine reported an error before the stream was complete.",
            Self::NoFirstToken => "The engine produced nothing in time.",
            Self::Idle => "The engine fell silent before the stream was complete.",
            Self::Total => "The request took longer than is allowed.",
            Self::Cut(CutCause::Operator) => "The stream was ended by an operator.",
            Self::Cut(CutCause::Fence) => "The stream was cut: this replica lost its quota lease.",
            Self::Cut(CutCause::Drain | CutCause::EndpointDrain) => {
                "The stream was cut by a shutdown before it was complete."
            }
        }
    }

    /// Close the engine's connection, tell the client if it is there, and say how it ended.
    /// `place`: where in an event stream, if the answer is one and an event can be added to it.
    pub async fn end(
        self,
        client: &mut Client,
        work: Work,
        engines: &Engines,
        place: Option<Place>,
    ) -> End {
        let told = match (self, place) {
            (Self::Client(_), _) | (_, None) => None,
            (_, Some(Place { api, sequence })) => {
                Some(error_event_at(api, self.code(), self.message(), sequence))
            }
        };
        // Side by side: the client need not wait for the engine, nor the slot for a client that
        // takes its time over the last event.
        tokio::join!(work.end(engines), client.abort(told));
        End::broken(self.outcome(), self.code())
    }

    /// The cause if we ended the stream, for the metric and the log line of each cut stream.
    pub fn cut(self) -> Option<CutCause> {
        match self {
            Self::Cut(cause) => Some(cause),
            _ => None,
        }
    }
}

/// A cut stream ended without its terminal event; `drain_cut` is kept for drains.
pub(super) fn cut_outcome(cause: CutCause) -> Outcome {
    match cause {
        CutCause::Drain | CutCause::EndpointDrain => Outcome::DrainCut,
        CutCause::Operator | CutCause::Fence => Outcome::Truncated,
    }
}
