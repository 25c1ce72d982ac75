//! Builds metric families out of values that other owners keep.

use super::names::{Kind, Metric};
use prometheus::proto::{Counter, Gauge, LabelPair, MetricFamily, MetricType};

/// One family under construction.
#[derive(Debug)]
pub struct Family {
    metric: &'static Metric,
    samples: Vec<prometheus::proto::Metric>,
}

impl Family {
    /// A counter or gauge family without samples.
    pub const fn new(metric: &'static Metric) -> Self {
        Self { metric, samples: Vec::new() }
    }

    /// A family with a single sample that has no labels.
    pub fn single(metric: &'static Metric, value: f64) -> Self {
        let mut family = Self::new(metric);
        family.add([], value);
        family
    }

    /// One sample; `labels` are the values of the metric's labels, in its order.
    pub fn add<const N: usize>(&mut self, labels: [&str; N], value: f64) {
        debug_assert_eq!(N, self.metric.labels.len(), "{}", self.metric.name);
        let pairs = self.metric.labels.iter().zip(labels).map(|(name, value)| pair(name, value));
        let mut sample = prometheus::proto::Metric::from_label(pairs.collect());
        match self.metric.kind {
            Kind::Counter => {
                let mut counter = Counter::default();
                counter.set_value(value);
                sample.set_counter(counter);
            }
            Kind::Gauge | Kind::Histogram => {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                sample.set_gauge(gauge);
            }
        }
        self.samples.push(sample);
    }

    /// The family for the encoder; `None` if it has no samples.
    pub fn build(self) -> Option<MetricFamily> {
        if self.samples.is_empty() {
            return None;
        }
        let mut family = MetricFamily::default();
        family.set_name(self.metric.name.to_owned());
        family.set_help(self.metric.help.to_owned());
        family.set_field_type(match self.metric.kind {
            Kind::Counter => MetricType::COUNTER,
            Kind::Gauge => MetricType::GAUGE,
            Kind::Histogram => MetricType::HISTOGRAM,
        });
        family.set_metric(self.samples);
        Some(family)
    }
}

fn pair(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}
