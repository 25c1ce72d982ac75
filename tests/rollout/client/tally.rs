//! What came of requests.

use std::collections::BTreeMap;

/// What came of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Complete,
    /// The service has no endpoint.
    NoEndpoint,
    /// Nobody listens where the service led.
    ConnectionRefused(String),
    /// A status other than 200, with its reason.
    Answered(u16, String),
    /// 200, and not complete; whether an error event said so.
    Broken {
        told: bool,
        how: String,
    },
    /// Sent, and the connection ended before an answer.
    Lost(String),
}

impl Fate {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::NoEndpoint => "no endpoint",
            Self::ConnectionRefused(_) => "connection refused",
            Self::Answered(..) => "refused",
            Self::Broken { told: true, .. } => "broken, told",
            Self::Broken { told: false, .. } => "broken, silent",
            Self::Lost(_) => "lost",
        }
    }
}

/// Everything that clients saw.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    counts: BTreeMap<&'static str, u64>,
    /// The first faults.
    examples: Vec<Fate>,
}

impl Tally {
    pub fn add(&mut self, fate: Fate) {
        *self.counts.entry(fate.kind()).or_default() += 1;
        if fate != Fate::Complete && self.examples.len() < 5 {
            self.examples.push(fate);
        }
    }

    pub fn count(&self, kind: &str) -> u64 {
        self.counts.get(kind).copied().unwrap_or(0)
    }

    pub fn all(&self) -> u64 {
        self.counts.values().sum()
    }

    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// Every request was complete; how many there were.
    pub fn assert_complete(&self) -> u64 {
        assert_eq!(self.count("complete"), self.all(), "{:?}: {:#?}", self.counts, self.examples);
        self.all()
    }

    /// Every fate is one of these kinds.
    pub fn assert_only(&self, kinds: &[&str]) {
        let strange = self.counts.keys().any(|kind| !kinds.contains(kind));
        assert!(!strange, "{:?}: {:#?}", self.counts, self.examples);
    }
}
