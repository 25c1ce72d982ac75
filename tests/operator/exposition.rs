//! A strict reader of Prometheus' text format, for the tests' own use.

use std::collections::{BTreeMap, BTreeSet};

/// One family of an exposition.
#[derive(Debug, Default)]
pub struct Family {
    pub kind: String,
    /// Sample name and sorted labels to value.
    pub samples: BTreeMap<(String, BTreeMap<String, String>), f64>,
}

/// A whole exposition by family name.
pub struct Exposition(pub BTreeMap<String, Family>);

impl Exposition {
    /// Parse `text`, panicking on anything a scraper could stumble over.
    pub fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line is not ended");
        let mut families: BTreeMap<String, Family> = BTreeMap::new();
        let mut current = String::new();
        let mut helped = BTreeSet::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a help text");
                assert!(!help.trim().is_empty(), "{line}");
                assert!(helped.insert(name.to_owned()), "HELP twice: {line}");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a type");
                assert!(helped.contains(name), "TYPE without HELP: {line}");
                let family = Family { kind: kind.to_owned(), ..Family::default() };
                assert!(families.insert(name.to_owned(), family).is_none(), "twice: {line}");
                name.clone_into(&mut current);
            } else {
                let (name, labels, value) = sample(line);
                assert!(belongs(&name, &current, &families[&current].kind), "{line} in {current}");
                let family = families.get_mut(&current).expect("TYPE comes first");
                assert!(family.samples.insert((name, labels), value).is_none(), "twice: {line}");
            }
        }
        Self(families)
    }

    /// The value of one sample; panics if there is none.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.get(name, labels).unwrap_or_else(|| panic!("no sample {name} {labels:?}"))
    }

    /// The value of one sample, if it is there.
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels: BTreeMap<_, _> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let key = (name.to_owned(), labels);
        self.0.values().find_map(|family| family.samples.get(&key)).copied()
    }

    /// Sum over all samples of a family that carry `labels`.
    pub fn sum(&self, family: &str, labels: &[(&str, &str)]) -> f64 {
        let family = self.0.get(family).unwrap_or_else(|| panic!("no family {family}"));
        let carries = |all: &BTreeMap<String, String>| {
            labels.iter().all(|(key, value)| all.get(*key).is_some_and(|have| have == value))
        };
        family
            .samples
            .iter()
            .filter(|((_, all), _)| carries(all))
            .map(|(_, value)| value)
            .fold(0.0, |sum, value| sum + value)
    }

    /// `arrivals − Σ outcomes − in_flight − queued` of a tenant; 0 in every sane scrape.
    pub fn imbalance(&self, tenant: &str) -> f64 {
        let tenant = [("tenant", tenant)];
        self.value("streamgate_arrivals_total", &tenant)
            - self.sum("streamgate_requests_total", &tenant)
            - self.value("streamgate_in_flight", &tenant)
            - self.value("streamgate_queued", &tenant)
    }
}

fn belongs(sample: &str, family: &str, kind: &str) -> bool {
    match sample.strip_prefix(family) {
        Some("") => kind != "histogram",
        Some("_bucket" | "_sum" | "_count") => kind == "histogram",
        _ => false,
    }
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let (series, value) = line.rsplit_once(' ').expect("a value");
    let value = value.parse().unwrap_or_else(|_| panic!("not a number: {line}"));
    let Some((name, rest)) = series.split_once('{') else {
        return (series.to_owned(), BTreeMap::new(), value);
    };
    let rest = rest.strip_suffix('}').expect("labels are closed");
    let mut labels = BTreeMap::new();
    for pair in rest.split(',') {
        let (key, quoted) = pair.split_once('=').expect("key=value");
        let text = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        let text = text.unwrap_or_else(|| panic!("not quoted: {line}"));
        assert!(labels.insert(key.to_owned(), text.to_owned()).is_none(), "label twice: {line}");
    }
    (name.to_owned(), labels, value)
}
