//! An engine's pod.

use super::{Moment, PROPAGATION, Rule, TEARDOWN, Violation, timeline};
use std::time::Duration;

/// A call that stops new requests to the engine fleet-wide and returns when none is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainCall {
    /// The deadline it carries.
    pub wait: Duration,
    /// After this long its caller hangs up; `None`: it waits for the answer.
    pub gives_up: Option<Duration>,
}

/// What a preStop hook takes at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hook {
    /// What it surely waits.
    pub sleeps: Duration,
    /// What it may wait besides, such as after a call that failed.
    pub perhaps: Duration,
    pub call: Option<DrainCall>,
}

impl Hook {
    /// Until SIGTERM at the latest.
    pub fn longest(&self) -> Duration {
        let call = self.call.map(|call| call.gives_up.unwrap_or(call.wait));
        self.waits().saturating_add(call.unwrap_or_default())
    }

    /// What it waits at most, without its call.
    pub fn waits(&self) -> Duration {
        self.sleeps.saturating_add(self.perhaps)
    }

    /// What surely passes before SIGTERM if anything runs on the engine.
    fn least(&self) -> Duration {
        let call = self.call.map(|call| call.gives_up.map_or(call.wait, |end| end.min(call.wait)));
        self.sleeps.saturating_add(call.unwrap_or_default())
    }

    /// From the moment the last new request may come in to SIGTERM, both counted from the
    /// deletion.
    fn window(&self) -> (Duration, Duration) {
        match self.call {
            // It returns early only when nothing runs.
            // What may be waited may as well come before the call.
            Some(_) => (self.waits(), self.least().saturating_add(self.perhaps)),
            // Until the last proxy has heard of the deletion.
            None => (PROPAGATION, self.sleeps),
        }
    }
}

/// The times of an engine's pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineBudget {
    /// `terminationGracePeriodSeconds`.
    pub grace: Duration,
    pub hook: Hook,
    /// vLLM's `--shutdown-timeout`: how long it lets streams run on after SIGTERM.
    pub shutdown_timeout: Duration,
    /// How long after SIGTERM the ingress cuts what still runs; `None`: never, or not known.
    pub cut: Option<Duration>,
}

const HOOK: &str = "preStop";
const TIMEOUT: &str = "--shutdown-timeout";
const GRACE: &str = "terminationGracePeriodSeconds";

impl EngineBudget {
    /// Every inequality that does not hold.
    pub fn violations(&self) -> Vec<Violation> {
        let call = self.hook.call;
        [
            Violation::unless(
                Rule::EngineAborts,
                &[("the least that lets a stream end", Duration::ZERO)],
                (TIMEOUT, self.shutdown_timeout),
            ),
            Violation::unless(
                Rule::EngineGrace,
                &[
                    (HOOK, self.hook.longest()),
                    (TIMEOUT, self.shutdown_timeout),
                    ("teardown", TEARDOWN),
                ],
                (GRACE, self.grace),
            ),
            // A call that stops new requests needs time for that as well.
            Violation::unless(
                Rule::EnginePropagation,
                &[("propagation", PROPAGATION)],
                (HOOK, self.hook.least()),
            ),
            call.and_then(|call| {
                let end = call.gives_up?;
                let wait = [("wait of the drain call", call.wait)];
                Violation::unless(Rule::EngineDrainWait, &wait, ("the caller's own timeout", end))
            }),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The longest stream that surely completes, whenever the pod is deleted.
    pub fn longest_stream(&self) -> Duration {
        let (last, term) = self.hook.window();
        let granted = self.cut.map_or(self.shutdown_timeout, |cut| cut.min(self.shutdown_timeout));
        let end = term.saturating_add(granted).min(self.grace);
        end.saturating_sub(last)
    }

    /// Whether the longest stream that the ingress admits is one of those.
    pub fn stream(&self, total: Duration) -> Option<Violation> {
        let longest = ("longest stream that this engine surely completes", self.longest_stream());
        Violation::unless(Rule::EngineStream, &[("timeouts.total", total)], longest)
    }

    /// Whether the ingress gives up an idle connection before the engine closes it.
    pub fn keep_alive(upstream_idle: Duration, engine: Duration) -> Option<Violation> {
        let idle = [("timeouts.upstream_idle", upstream_idle)];
        Violation::unless(Rule::KeepAlive, &idle, ("the engine's keep-alive", engine))
    }

    /// What happens when.
    pub fn timeline(&self) -> Vec<Moment> {
        let term = self.hook.longest();
        let given_up = term.saturating_add(self.shutdown_timeout);
        let begin = match self.hook {
            Hook { call: Some(_), .. } => {
                "deleted; preStop asks for no new requests and waits for the running ones"
            }
            hook if hook.longest().is_zero() => "deleted; no preStop",
            Hook { .. } => "deleted; preStop waits, new requests still arrive at first",
        };
        let stop = match self.shutdown_timeout {
            Duration::ZERO => "SIGTERM; vLLM aborts what runs",
            _ => "SIGTERM at the latest; vLLM lets running streams end",
        };
        let mut moments =
            vec![Moment { at: Duration::ZERO, event: begin }, Moment { at: term, event: stop }];
        if self.shutdown_timeout > Duration::ZERO {
            moments.push(Moment { at: given_up, event: "vLLM gives up what still runs" });
        }
        if let Some(cut) = self.cut {
            let at = self.hook.window().1.saturating_add(cut);
            moments
                .push(Moment { at, event: "Streamgate ends what still runs, with an error event" });
        }
        let end = given_up.saturating_add(TEARDOWN);
        moments.push(Moment { at: end, event: "vLLM has exited" });
        timeline(moments, self.grace)
    }
}
