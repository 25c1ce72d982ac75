//! One planned request, from its time to its record.

use std::net::SocketAddr;
use std::time::Instant;

use super::context::PhaseContext;
use super::live::InFlight;
use crate::client::{Call, Ended, Exchange};
use crate::plan::body_mark;
use crate::record::{Arrival, Line, Outcome};
use crate::scenario::Api;
use crate::target::{Ask, Route, Routed};

/// When which request is due.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    pub(super) index: u64,
    /// Virtual time since the start of the run.
    pub(super) at: u64,
    pub(super) lane: Option<u32>,
}

/// Sends a request and records what became of it.
pub(super) async fn send(phase: PhaseContext, due: Due, place: InFlight) {
    let start = Instant::now();
    let mut arrival = planned(&phase, due);
    started(&phase, &mut arrival, start);
    let ask = Ask { tenant: &arrival.tenant.clone(), group: arrival.group };
    match phase.context.target.route(&ask) {
        Routed::Refused { status, reason } => {
            arrival.status = Some(status);
            arrival.outcome = Outcome::Refused;
            arrival.reason = Some(reason.to_owned());
            arrival.end_us = Some(phase.context.clock.now());
        }
        Routed::To(route) => exchange(&phase, &route, &mut arrival).await,
    }
    drop(place);
    record(&phase, arrival);
}

async fn exchange(phase: &PhaseContext, route: &Route, arrival: &mut Arrival) {
    let context = &phase.context;
    let body = phase.plan.body(&context.scenario, arrival.index);
    arrival.body_sha256 = Some(body_mark(&body));
    arrival.target.clone_from(&route.target);
    arrival.selection = route.selection.map(str::to_owned);
    arrival.match_percent = route.match_percent;
    let path = path(route, context.scenario.api);
    let headers = headers(phase, route);
    let tokens = context.scenario.client.exact_tokens.then_some(arrival.max_tokens);
    let call = Call {
        addr: route.addr,
        host: &route.host,
        path: &path,
        headers: &headers,
        body: &body,
        tokens,
    };
    tokio::select! {
        biased;
        seen = context.client.exchange(&call) => finish(phase, arrival, seen),
        () = context.stop.cancelled() => {
            arrival.outcome = Outcome::Interrupted;
            arrival.reason = Some("stopped".into());
            arrival.end_us = Some(context.clock.now());
        }
    }
}

fn path(route: &Route, api: Api) -> String {
    let path = match api {
        Api::Chat => "/v1/chat/completions",
        Api::Completions => "/v1/completions",
    };
    format!("{}{path}", route.prefix)
}

fn headers(phase: &PhaseContext, route: &Route) -> Vec<(String, String)> {
    let own = phase.context.scenario.client.headers.iter();
    own.map(|(n, v)| (n.clone(), v.clone())).chain(route.headers.iter().cloned()).collect()
}

fn finish(phase: &PhaseContext, arrival: &mut Arrival, seen: Exchange) {
    let clock = &phase.context.clock;
    // The POST begins here: building the body before it is the generator's own time.
    started(phase, arrival, seen.start);
    arrival.head_us = seen.head.map(|at| clock.at(at));
    arrival.first_us = seen.first.map(|at| clock.at(at));
    arrival.last_us = seen.last.map(|at| clock.at(at));
    arrival.end_us = Some(clock.at(seen.end));
    arrival.status = seen.status;
    arrival.outcome = outcome(&seen);
    arrival.reason = match (seen.ended, seen.reason) {
        (Ended::Complete, _) => None,
        (Ended::Refused, Some(reason)) => Some(reason),
        (ended, Some(detail)) => Some(format!("{} ({detail})", ended.as_str())),
        (ended, None) => Some(ended.as_str().to_owned()),
    };
    arrival.retry_after_s = seen.retry_after;
    arrival.prompt_tokens = seen.usage.map(|u| u.prompt);
    arrival.output_tokens = seen.usage.map(|u| u.completion);
    arrival.cached_tokens = seen.usage.and_then(|u| u.cached);
    arrival.request_id = seen.request_id;
    if arrival.target.is_none() {
        arrival.target = seen.target;
    }
}

fn outcome(seen: &Exchange) -> Outcome {
    match (seen.ended, seen.status) {
        (Ended::Complete, _) => Outcome::Complete,
        (Ended::Refused, _) => Outcome::Refused,
        (_, Some(_)) => Outcome::Broken,
        (_, None) => Outcome::Failed,
    }
}

/// Records an arrival that was never sent.
pub(super) fn unsent(phase: &PhaseContext, due: Due, outcome: Outcome, why: &str) {
    let mut arrival = planned(phase, due);
    if outcome == Outcome::DroppedArrival {
        arrival.lag_us = Some(lag(phase, due.at, Instant::now()));
    }
    arrival.outcome = outcome;
    arrival.reason = Some(why.to_owned());
    record(phase, arrival);
}

fn started(phase: &PhaseContext, arrival: &mut Arrival, start: Instant) {
    arrival.start_us = Some(phase.context.clock.at(start));
    arrival.lag_us = Some(lag(phase, arrival.schedule_us, start));
}

/// Real microseconds from its time to `now`.
fn lag(phase: &PhaseContext, due: u64, now: Instant) -> u64 {
    let late = now.saturating_duration_since(phase.context.clock.real(due));
    crate::clock::micros(late)
}

fn record(phase: &PhaseContext, arrival: Arrival) {
    phase.context.live.record(&arrival, &phase.context.slo());
    phase.context.write(Line::Arrival(Box::new(arrival)));
}

/// Records a warm-up request.
pub(super) async fn warm_up(
    phase: &PhaseContext,
    (engine, addr): (&str, SocketAddr),
    group: u32,
    route: Route,
) -> anyhow::Result<()> {
    let context = &phase.context;
    let body = phase.plan.warm_body(&context.scenario, group);
    let now = context.clock.now();
    let mut arrival = planned(phase, Due { index: u64::from(group), at: now, lane: None });
    arrival.warm_up = true;
    arrival.group = Some(group);
    arrival.max_tokens = 1;
    arrival.target = Some(engine.to_owned());
    let path = path(&route, context.scenario.api);
    let headers = headers(phase, &route);
    let call = Call {
        addr: route.addr,
        host: &route.host,
        path: &path,
        headers: &headers,
        body: &body,
        tokens: None,
    };
    finish(phase, &mut arrival, context.client.exchange(&call).await);
    let (outcome, reason) = (arrival.outcome, arrival.reason.clone().unwrap_or_default());
    record(phase, arrival);
    anyhow::ensure!(
        outcome == Outcome::Complete,
        "the warm-up of engine {engine} ({addr}) with group {group} ended {}: {reason}",
        outcome.as_str()
    );
    Ok(())
}

fn planned(phase: &PhaseContext, due: Due) -> Arrival {
    let request = phase.plan.request(due.index);
    Arrival {
        seed: phase.context.seed,
        phase: phase.spec.name.clone(),
        index: due.index,
        warm_up: false,
        tenant: request.spec.tenant.clone(),
        prompt: request.spec.prompt.clone(),
        group: request.group,
        lane: due.lane,
        max_tokens: request.spec.max_tokens,
        schedule_us: due.at,
        start_us: None,
        lag_us: None,
        head_us: None,
        first_us: None,
        last_us: None,
        end_us: None,
        outcome: Outcome::Interrupted,
        reason: None,
        status: None,
        retry_after_s: None,
        prompt_tokens: None,
        output_tokens: None,
        cached_tokens: None,
        target: None,
        selection: None,
        match_percent: None,
        request_id: None,
        body_sha256: None,
    }
}
