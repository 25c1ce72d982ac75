//! The shutdown budget: what must fit into what when Kubernetes takes a pod away.
//!
//! ```text
//!  deleted                  SIGTERM                                     SIGKILL
//!     │◀────── preStop ──────▶│◀── shutdown-timeout ──▶│◀ teardown ▶│      │
//!     │◀──────────────── terminationGracePeriodSeconds ────────────────────▶│
//! ```
//!
//! The grace period runs from the deletion, preStop included; what is not over at its end is
//! killed without a word. Every rule here is an inequality over durations: nothing is read,
//! parsed or printed. Sums saturate, so no input can overflow.

mod cut;
mod engine;
mod ingress;
mod rollout;
#[cfg(test)]
mod tests;

pub use cut::{Disagreement, IngressCut};
pub use engine::{DrainCall, EngineBudget, Hook};
pub use ingress::IngressBudget;
pub use rollout::{Amount, Disruption, Rollout};

use std::fmt;
use std::time::Duration;

/// What Kubernetes grants if `terminationGracePeriodSeconds` is not written.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// From a vLLM process that has nothing left to do, or has given up, to its exit. Measured:
/// 5 to 19 s after the last stream.
pub const TEARDOWN: Duration = Duration::from_secs(20);

/// How long requests may still be sent to a pod that was deleted: about a second inside a
/// cluster for the EndpointSlice to change and every node to follow, a few more under load or
/// for proxies that poll. Load balancers of clouds need 10 to 40 s; `drain.propagation` is what
/// an operator sets for those.
pub const PROPAGATION: Duration = Duration::from_secs(5);

/// After this long without a request vLLM's HTTP server closes a connection, unless
/// `VLLM_HTTP_TIMEOUT_KEEP_ALIVE` says otherwise.
pub const ENGINE_KEEP_ALIVE: Duration = Duration::from_secs(5);

/// The inequalities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// 0 < shutdown-timeout: with 0 the engine aborts at SIGTERM whatever runs.
    EngineAborts,
    /// preStop + shutdown-timeout + teardown ≤ grace.
    EngineGrace,
    /// Propagation ≤ preStop: the engine must not stop while requests are on their way to it.
    EnginePropagation,
    /// Wait of the drain call ≤ the time its caller gives it.
    EngineDrainWait,
    /// Longest admitted stream ≤ what an engine surely finishes.
    EngineStream,
    /// Idle time of the ingress' connections < idle time after which the engine closes them.
    KeepAlive,
    /// propagation + deadline + margin ≤ grace.
    IngressGrace,
    /// Propagation of a cluster ≤ `drain.propagation`.
    IngressPropagation,
    /// propagation + longest admitted stream + margin ≤ deadline.
    IngressStream,
}

impl Rule {
    /// Whether equality breaks it too.
    pub const fn is_strict(self) -> bool {
        matches!(self, Self::EngineAborts | Self::KeepAlive)
    }
}

/// A named duration of an inequality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    pub name: &'static str,
    pub value: Duration,
}

/// An inequality that does not hold: the sum of `left` is not at most (or not below) `right`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: Rule,
    /// Never empty.
    pub left: Vec<Term>,
    pub right: Term,
}

impl Violation {
    /// `Some` exactly if the inequality does not hold.
    fn unless(
        rule: Rule,
        left: &[(&'static str, Duration)],
        right: (&'static str, Duration),
    ) -> Option<Self> {
        let term = |&(name, value)| Term { name, value };
        let violation = Self { rule, left: left.iter().map(term).collect(), right: term(&right) };
        let sum = violation.sum();
        let holds = if rule.is_strict() { sum < right.1 } else { sum <= right.1 };
        (!holds).then_some(violation)
    }

    /// The left side.
    pub fn sum(&self) -> Duration {
        self.left.iter().fold(Duration::ZERO, |sum, term| sum.saturating_add(term.value))
    }

    /// By how much the right side is too small.
    pub fn lacks(&self) -> Duration {
        self.sum().saturating_sub(self.right.value)
    }
}

/// `preStop 10s + --shutdown-timeout 90s = 100s, more than grace 60s`
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, term) in self.left.iter().enumerate() {
            let plus = if n == 0 { "" } else { " + " };
            write!(f, "{plus}{} {}", term.name, Seconds(term.value))?;
        }
        if self.left.len() > 1 {
            write!(f, " = {}", Seconds(self.sum()))?;
        }
        let relation = if self.rule.is_strict() { "not less than" } else { "more than" };
        write!(f, ", {relation} {} {}", self.right.name, Seconds(self.right.value))
    }
}

/// A duration in seconds, as manifests write them: `90s`, `0.5s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, millis) = (self.0.as_secs(), self.0.subsec_millis());
        if millis == 0 {
            return write!(f, "{whole}s");
        }
        let fraction = format!("{millis:03}");
        write!(f, "{whole}.{}s", fraction.trim_end_matches('0'))
    }
}

/// What happens when, counted from the deletion of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    pub at: Duration,
    pub event: &'static str,
}

/// The moments in order of time, closed by the kill.
fn timeline(mut moments: Vec<Moment>, grace: Duration) -> Vec<Moment> {
    moments.push(Moment { at: grace, event: "SIGKILL, if the container still runs" });
    moments.sort_by_key(|moment| moment.at);
    moments
}
