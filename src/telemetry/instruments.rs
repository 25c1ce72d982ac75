//! What the `prometheus` crate counts for us: the latency histograms, counters that belong to no
//! tenant, and the standard process metrics.

use super::event::RequestEvent;
use super::names::{self, Metric};
use crate::core::cause::{CutCause, Selection};
use crate::core::ids::PoolId;
use crate::core::outcome::Outcome;
use crate::core::quota::{StoreFault, StoreOp};
use crate::core::slo::Slo;
use prometheus::proto::MetricFamily;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};
use std::time::Duration;

/// An uncontended decision takes well under a millisecond; a queue waits seconds (`max_wait`
/// is 10 s by default).
const QUEUE_WAIT: &[f64] =
    &[0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0];
/// Dense from 0.1 to 3 s, where a warm prefix (0.3 s), a cold one (about 2 s) and one place in
/// the engine's queue are told apart; reaches to overload (40 s on the reference load) and the
/// first-byte timeout.
const TTFT: &[f64] = &[
    0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0, 120.0,
];
/// Steps of 5 to 10 ms between 50 and 100 ms, where the reference engines go from one running
/// sequence (52 ms) to eight (61 ms) to prefill interference (106 ms).
const TPOT: &[f64] = &[
    0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.055, 0.06, 0.065, 0.07, 0.08, 0.09, 0.1, 0.125, 0.15,
    0.2, 0.3, 0.5, 1.0,
];
/// From a refused plain request to streams of many minutes.
const DURATION: &[f64] = &[
    0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0,
    180.0, 300.0, 600.0, 1_800.0,
];

/// From a hash in the memory of a server nearby to an operation timeout of seconds; dense around
/// the default timeout of 50 ms.
const STORE: &[f64] = &[
    0.000_25, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0,
    2.5,
];

/// Owner of everything counted outside the tenants' books.
#[derive(Debug)]
pub struct Instruments {
    registry: Registry,
    queue_wait: HistogramVec,
    ttft: HistogramVec,
    tpot: HistogramVec,
    duration: HistogramVec,
    streams_cut: IntCounterVec,
    selections: IntCounterVec,
    store: HistogramVec,
    store_faults: IntCounterVec,
}

impl Instruments {
    /// The limits of `slo` become bucket bounds, so that each latency's share within its limit
    /// can be read exactly.
    pub fn new(slo: &Slo) -> Result<Self, prometheus::Error> {
        let instruments = Self {
            registry: Registry::new(),
            queue_wait: histogram(&names::QUEUE_WAIT, QUEUE_WAIT, None)?,
            ttft: histogram(&names::TIME_TO_FIRST_TOKEN, TTFT, Some(slo.ttft))?,
            tpot: histogram(&names::TIME_PER_OUTPUT_TOKEN, TPOT, Some(slo.tpot))?,
            duration: histogram(&names::REQUEST_DURATION, DURATION, Some(slo.e2e))?,
            streams_cut: counter(&names::STREAMS_CUT)?,
            selections: counter(&names::ROUTING_SELECTIONS)?,
            store: histogram(&names::QUOTA_STORE_SECONDS, STORE, None)?,
            store_faults: counter(&names::QUOTA_STORE_FAULTS)?,
        };
        for cause in CutCause::ALL {
            instruments.streams_cut.with_label_values(&[cause.as_str()]);
        }
        for op in StoreOp::ALL {
            instruments.store.with_label_values(&[op.as_str()]);
        }
        for fault in StoreFault::ALL {
            instruments.store_faults.with_label_values(&[fault.as_str()]);
        }
        instruments.register()?;
        Ok(instruments)
    }

    fn register(&self) -> Result<(), prometheus::Error> {
        for vec in [&self.queue_wait, &self.ttft, &self.tpot, &self.duration, &self.store] {
            self.registry.register(Box::new(vec.clone()))?;
        }
        for vec in [&self.streams_cut, &self.selections, &self.store_faults] {
            self.registry.register(Box::new(vec.clone()))?;
        }
        #[cfg(target_os = "linux")]
        self.registry
            .register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        Ok(())
    }

    /// Show a tenant's latency series from now on, so that their first increase is seen.
    pub fn show(&self, tenant: &str, models: impl IntoIterator<Item = impl AsRef<str>>) {
        self.queue_wait.with_label_values(&[tenant]);
        for model in models {
            for vec in [&self.ttft, &self.tpot, &self.duration] {
                vec.with_label_values(&[tenant, model.as_ref()]);
            }
        }
    }

    /// Latencies of one ended request. A refusal has no duration: its microseconds would hide
    /// how long served requests take.
    pub fn observe(&self, event: &RequestEvent, tenant: &str, model: &str) {
        let observe = |vec: &HistogramVec, labels: &[&str], value: Option<Duration>| {
            if let Some(value) = value {
                vec.with_label_values(labels).observe(value.as_secs_f64());
            }
        };
        observe(&self.queue_wait, &[tenant], event.queue_wait);
        if event.outcome != Outcome::Rejected {
            observe(&self.ttft, &[tenant, model], event.ttft);
            observe(&self.tpot, &[tenant, model], event.tpot);
            observe(&self.duration, &[tenant, model], event.e2e);
        }
    }

    pub fn stream_cut(&self, cause: CutCause) {
        self.streams_cut.with_label_values(&[cause.as_str()]).inc();
    }

    pub fn selected(&self, pool: &PoolId, selection: Selection) {
        self.selections.with_label_values(&[pool.as_str(), selection.as_str()]).inc();
    }

    pub fn store_operation(&self, op: StoreOp, took: Duration, fault: Option<StoreFault>) {
        self.store.with_label_values(&[op.as_str()]).observe(took.as_secs_f64());
        if let Some(fault) = fault {
            self.store_faults.with_label_values(&[fault.as_str()]).inc();
        }
    }

    pub fn gather(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }
}

fn histogram(
    metric: &Metric,
    bounds: &[f64],
    limit: Option<Duration>,
) -> Result<HistogramVec, prometheus::Error> {
    let mut buckets = bounds.to_vec();
    buckets.extend(limit.map(|limit| limit.as_secs_f64()).filter(|limit| *limit > 0.0));
    buckets.sort_by(f64::total_cmp);
    buckets.dedup();
    HistogramVec::new(HistogramOpts::new(metric.name, metric.help).buckets(buckets), metric.labels)
}

fn counter(metric: &Metric) -> Result<IntCounterVec, prometheus::Error> {
    IntCounterVec::new(Opts::new(metric.name, metric.help), metric.labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(slo: &Slo) -> Vec<f64> {
        let instruments = Instruments::new(slo).expect("valid metrics");
        instruments.show("a", ["m"]);
        let families = instruments.gather();
        let family = families
            .iter()
            .find(|family| family.name() == names::TIME_TO_FIRST_TOKEN.name)
            .expect("shown");
        let buckets = family.get_metric()[0].get_histogram().get_bucket();
        buckets.iter().map(prometheus::proto::Bucket::upper_bound).collect()
    }

    #[test]
    fn the_service_level_is_a_bucket_bound() {
        let second = Duration::from_secs(1);
        let slo = |ttft| Slo { ttft, tpot: second, e2e: second };
        let odd = bounds(&slo(Duration::from_millis(1_234)));
        assert!(odd.contains(&1.234));
        assert_eq!(odd.len(), TTFT.len() + 1);
        assert!(odd.is_sorted());
        assert_eq!(bounds(&slo(second)).len(), TTFT.len(), "a bound is not doubled");
        assert_eq!(bounds(&slo(Duration::ZERO)).len(), TTFT.len());
    }
}
