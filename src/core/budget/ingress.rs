//! A replica of the ingress.

use super::{Moment, PROPAGATION, Rule, Violation, timeline};
use std::time::Duration;

/// The times of a replica of the ingress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngressBudget {
    /// `terminationGracePeriodSeconds`.
    pub grace: Duration,
    /// What a preStop hook waits before it (or SIGTERM after it) begins the drain.
    pub before: Duration,
    /// `drain.propagation`.
    pub propagation: Duration,
    /// `drain.deadline`, counted from the start of the drain.
    pub deadline: Duration,
    /// `drain.cut_margin`.
    pub cut_margin: Duration,
    /// `timeouts.total`; `None`: no bound.
    pub total: Option<Duration>,
}

impl IngressBudget {
    /// Every inequality that does not hold.
    ///
    /// `drain.deadline` begins with the drain and so contains the propagation. It is counted once
    /// more against the grace period, whose clock starts with the deletion: the kubelet may be as
    /// late as any other watcher, and the exit itself takes a moment.
    pub fn violations(&self) -> Vec<Violation> {
        let mut parts = vec![
            ("drain.propagation", self.propagation),
            ("drain.deadline", self.deadline),
            ("drain.cut_margin", self.cut_margin),
        ];
        if self.before > Duration::ZERO {
            parts.insert(0, ("preStop", self.before));
        }
        let cluster = [("propagation of a cluster", PROPAGATION)];
        let stream = self.total.and_then(|total| {
            let parts = [
                ("drain.propagation", self.propagation),
                ("timeouts.total", total),
                ("drain.cut_margin", self.cut_margin),
            ];
            Violation::unless(Rule::IngressStream, &parts, ("drain.deadline", self.deadline))
        });
        let grace = ("terminationGracePeriodSeconds", self.grace);
        [
            Violation::unless(Rule::IngressGrace, &parts, grace),
            Violation::unless(
                Rule::IngressPropagation,
                &cluster,
                ("drain.propagation", self.propagation),
            ),
            stream,
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The longest stream that is surely not cut: one that is admitted as the propagation ends.
    pub fn longest_stream(&self) -> Duration {
        let killed = self.grace.saturating_sub(self.before);
        let cut = self.deadline.saturating_sub(self.cut_margin).min(killed);
        cut.saturating_sub(self.propagation)
    }

    /// What happens when.
    pub fn timeline(&self) -> Vec<Moment> {
        let from = |offset: Duration| self.before.saturating_add(offset);
        let mut moments = vec![Moment {
            at: self.before,
            event: "the drain begins: not ready, still serves, answers `Connection: close`",
        }];
        if self.before > Duration::ZERO {
            moments.insert(0, Moment { at: Duration::ZERO, event: "deleted; preStop waits" });
        }
        moments.push(Moment {
            at: from(self.propagation),
            event: "new requests are answered 503 `draining`; running streams go on",
        });
        moments.push(Moment {
            at: from(self.deadline.saturating_sub(self.cut_margin)),
            event: "what still runs is ended with an error event",
        });
        moments.push(Moment { at: from(self.deadline), event: "has exited" });
        timeline(moments, self.grace)
    }
}
