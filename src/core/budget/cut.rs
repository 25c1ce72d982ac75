//! Where an ingress and an engine must agree: when a stream ends that outlives the engine.
//!
//! vLLM gives up such a stream without a word, keeps it open, and does not exit before its client
//! leaves. The ingress is what ends it: `engine_shutdown_timeout − cut_margin` after SIGTERM.

use std::time::Duration;

/// When the ingress cuts what still runs on an engine that stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngressCut {
    /// What it believes the engine's `--shutdown-timeout` to be; `None`: it never cuts.
    pub believed: Option<Duration>,
    /// `drain.cut_margin`.
    pub margin: Duration,
}

/// How it differs from the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disagreement {
    /// It never cuts: what outlives the engine hangs until its client leaves.
    Never,
    /// It cuts when the engine has already given up: what outlives the engine hangs until then.
    TooLate,
    /// It cuts in time, but with less than its margin left.
    Narrow,
    /// It cuts what the engine would let end.
    TooEarly,
}

impl IngressCut {
    /// After SIGTERM; `None`: never.
    pub fn after_sigterm(&self) -> Option<Duration> {
        self.believed.map(|believed| believed.saturating_sub(self.margin))
    }

    /// Whether it differs from an engine that lets streams run on for `timeout` (not zero).
    pub fn disagreement(&self, timeout: Duration) -> Option<Disagreement> {
        let Some(believed) = self.believed else { return Some(Disagreement::Never) };
        match believed {
            _ if believed < timeout => Some(Disagreement::TooEarly),
            _ if believed == timeout => None,
            _ if believed.saturating_sub(self.margin) < timeout => Some(Disagreement::Narrow),
            _ => Some(Disagreement::TooLate),
        }
    }
}

impl Disagreement {
    /// Whether a stream breaks by it, if the longest that is admitted is `total` long (`None`: no
    /// bound) and one of up to `completes` surely completes.
    pub fn breaks(self, total: Option<Duration>, completes: Duration) -> bool {
        self != Self::Narrow && total.is_none_or(|total| total > completes)
    }
}
