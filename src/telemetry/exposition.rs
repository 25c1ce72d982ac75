//! The scrape: counts out of the tenants' books, gauges out of their owners, at the moment of
//! asking. Each tenant's arrivals, outcomes, in-flight and queued are read under one lock, so
//! `arrivals = Σ outcomes + in_flight + queued` holds in every scrape.

use super::Telemetry;
use super::counts::{Counts, TOKEN_KINDS};
use super::family::Family;
use super::labels::Table;
use super::names::{self, Metric};
use crate::core::observe::{DrainPhase, EndpointPhase, Observe, TenantState};
use crate::core::outcome::Outcome;
use crate::core::reason::Reason;
use prometheus::proto::MetricFamily;
use prometheus::{Encoder, TextEncoder};
use std::time::UNIX_EPOCH;

/// `Content-Type` of [`Telemetry::exposition`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Every metric in Prometheus' text format.
pub fn render(telemetry: &Telemetry, observe: &dyn Observe) -> String {
    // The books first: a request is told to the instruments before its books close, so whatever
    // the books count as ended is in the histograms of the same scrape.
    let books = books(&telemetry.table.load());
    let mut families = telemetry.instruments.gather();
    let own = books
        .into_iter()
        .chain(limits(&observe.tenants()))
        .chain(pools(observe))
        .chain(process(telemetry, observe));
    families.extend(own.filter_map(Family::build));
    families.sort_by(|a, b| a.name().cmp(b.name()));
    encode(&families)
}

fn encode(families: &[MetricFamily]) -> String {
    let mut text = Vec::new();
    if let Err(error) = TextEncoder::new().encode(families, &mut text) {
        tracing::error!(%error, "the metrics cannot be encoded");
        text.clear();
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn books(table: &Table) -> Vec<Family> {
    let mut tenants = TenantFamilies::default();
    for book in table.books() {
        tenants.add(table, book.tenant().as_str(), &book.snapshot());
    }
    tenants.all.into()
}

/// The families of [`Counts`], in the order of [`TenantFamilies::METRICS`].
struct TenantFamilies {
    all: [Family; Self::METRICS.len()],
}

impl Default for TenantFamilies {
    fn default() -> Self {
        Self { all: Self::METRICS.map(Family::new) }
    }
}

impl TenantFamilies {
    const METRICS: [&'static Metric; 9] = [
        &names::ARRIVALS,
        &names::QUEUED,
        &names::IN_FLIGHT,
        &names::REQUESTS,
        &names::REJECTIONS,
        &names::SHADOW_REJECTIONS,
        &names::SLO_GOOD,
        &names::TOKENS,
        &names::CLIENT_RETRIES,
    ];

    fn add(&mut self, table: &Table, tenant: &str, counts: &Counts) {
        let [arrivals, queued, in_flight, requests, rejections, shadow, good, tokens, retries] =
            &mut self.all;
        arrivals.add([tenant], float(counts.ledger.arrivals()));
        queued.add([tenant], float(counts.ledger.queued()));
        in_flight.add([tenant], float(counts.ledger.in_flight()));
        retries.add([tenant], float(counts.client_retries));
        for reason in Reason::ALL {
            let index = reason as usize;
            rejections.add([tenant, reason.as_str()], float(counts.rejections[index]));
            shadow.add([tenant, reason.as_str()], float(counts.shadow_rejections[index]));
        }
        for (index, model) in &counts.models {
            let name = table.model_name(*index).as_str();
            for outcome in Outcome::ALL {
                let ended = float(model.outcomes[outcome.index()]);
                requests.add([tenant, name, outcome.as_str()], ended);
            }
            good.add([tenant, name], float(model.good));
            for (kind, count) in TOKEN_KINDS.into_iter().zip(model.tokens) {
                tokens.add([tenant, name, kind], float(count));
            }
        }
    }
}

fn limits(tenants: &[TenantState]) -> [Family; 2] {
    let mut limit = Family::new(&names::IN_FLIGHT_LIMIT);
    let mut fleet = Family::new(&names::FLEET_IN_FLIGHT);
    for state in tenants {
        limit.add([state.tenant.as_str()], f64::from(state.limit));
        fleet.add([state.tenant.as_str()], float(state.fleet_in_flight));
    }
    [limit, fleet]
}

fn pools(observe: &dyn Observe) -> [Family; 3] {
    let mut demand = Family::new(&names::POOL_DEMAND);
    let mut in_flight = Family::new(&names::ENDPOINT_IN_FLIGHT);
    let mut states = Family::new(&names::ENDPOINT_STATE);
    for pool in observe.pools() {
        let name = pool.pool.as_str();
        demand.add([name], float(pool.demand));
        for endpoint in &pool.endpoints {
            let address = endpoint.endpoint.as_str();
            in_flight.add([name, address], float(endpoint.in_flight));
            for phase in EndpointPhase::ALL {
                let is = f64::from(u8::from(phase == endpoint.state));
                states.add([name, address, phase.as_str()], is);
            }
        }
    }
    [demand, in_flight, states]
}

fn process(telemetry: &Telemetry, observe: &dyn Observe) -> Vec<Family> {
    let mut drain = Family::new(&names::DRAIN_STATE);
    let phase = observe.drain().state;
    for state in DrainPhase::ALL {
        drain.add([state.as_str()], f64::from(u8::from(state == phase)));
    }
    let mut build = Family::new(&names::BUILD_INFO);
    build.add([telemetry.version], 1.0);
    let store = observe.store();
    let flag = |metric, is: bool| Family::single(metric, f64::from(u8::from(is)));
    let started = telemetry.started.duration_since(UNIX_EPOCH).unwrap_or_default();
    vec![
        drain,
        build,
        flag(&names::QUOTA_STORE_UP, store.up),
        flag(&names::QUOTA_FENCED, store.fenced),
        flag(&names::QUOTA_LEARNING, store.learning),
        Family::single(&names::QUOTA_ESCROW, float(store.escrow)),
        Family::single(&names::QUOTA_HELD, float(store.held)),
        Family::single(&names::QUOTA_SPARE, float(store.spare)),
        Family::single(&names::QUOTA_UNFENCED, float(store.unfenced)),
        Family::single(&names::QUOTA_REPLICAS, float(store.replicas)),
        flag(&names::CONFIG_RELOAD_FAILED, telemetry.reload_failed()),
        Family::single(&names::RECORDS_DROPPED, float(telemetry.records_dropped())),
        Family::single(&names::START_TIME, started.as_secs_f64()),
    ]
}

/// Prometheus' values are floats; counts are exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
const fn float(count: u64) -> f64 {
    count as f64
}
