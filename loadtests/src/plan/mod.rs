//! What a phase asks, worked out before it starts and the same on every run with its seed.

mod arrivals;
mod prompt;
mod random;

pub use arrivals::{HOT, groups, length, schedule};
pub use prompt::{PromptKey, SENTENCE, hex, text};
pub use random::Random;

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::clock::Micros;
use crate::scenario::{Api, PhaseSpec, RequestSpec, Scenario};

/// The plan of one phase.
#[derive(Debug, Clone)]
pub struct PhasePlan {
    /// Moments of an open loop since the start of the phase; empty for a closed one.
    pub schedule: Vec<Micros>,
    seed: u64,
    phase: String,
    /// The entries of `requests`, each as often as it says.
    turns: Vec<RequestSpec>,
    groups: Vec<u32>,
}

/// One request of a plan.
#[derive(Debug, Clone, Copy)]
pub struct Planned<'a> {
    /// Index in the phase.
    pub index: u64,
    /// What is asked.
    pub spec: &'a RequestSpec,
    /// Prefix group.
    pub group: Option<u32>,
}

/// Groups that a closed loop walks through, over and over.
const CLOSED_ORDER: usize = 96;

impl PhasePlan {
    /// The plan of a phase under a run's seed.
    #[must_use]
    pub fn of(phase: &PhaseSpec, run_seed: u64) -> Self {
        let seed = phase.seed.unwrap_or(run_seed);
        let schedule = phase.open.as_ref().map(|open| schedule(open, seed)).unwrap_or_default();
        let repeat = |r: &RequestSpec| vec![r.clone(); r.times.max(1) as usize];
        let turns = phase.requests.iter().flat_map(repeat).collect();
        let arrivals = if schedule.is_empty() { CLOSED_ORDER } else { schedule.len() };
        let groups = phase.groups.map(|g| groups(&g, arrivals, seed)).unwrap_or_default();
        Self { schedule, seed, phase: phase.name.clone(), turns, groups }
    }

    /// The request with that index.
    #[must_use]
    pub fn request(&self, index: u64) -> Planned<'_> {
        let turn = |len: usize| (index % len.max(1) as u64) as usize;
        let spec = &self.turns[turn(self.turns.len())];
        let group = self.groups.get(turn(self.groups.len())).copied();
        Planned { index, spec, group }
    }

    /// The request body with that index.
    #[must_use]
    pub fn body(&self, scenario: &Scenario, index: u64) -> Vec<u8> {
        let planned = self.request(index);
        self.body_of(scenario, planned.spec, index, planned.group.unwrap_or(0))
    }

    /// The body of a request that warms a prefix group up: one output token.
    #[must_use]
    pub fn warm_body(&self, scenario: &Scenario, group: u32) -> Vec<u8> {
        let spec = RequestSpec { max_tokens: 1, ..self.turns[0].clone() };
        self.body_of(scenario, &spec, WARM_INDEX, group)
    }

    fn body_of(&self, scenario: &Scenario, spec: &RequestSpec, index: u64, group: u32) -> Vec<u8> {
        let key = PromptKey { seed: self.seed, phase: &self.phase, index, group };
        let prompt = &scenario.prompts[&spec.prompt];
        let text = text(prompt, scenario.api, &key);
        let mut body = json!({
            "model": scenario.model,
            "max_tokens": spec.max_tokens,
            "temperature": 0,
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        match scenario.api {
            Api::Chat => body["messages"] = json!([{"role": "user", "content": text}]),
            Api::Completions => body["prompt"] = text.into(),
        }
        for (name, value) in &scenario.client.body {
            body[name] = value.clone();
        }
        body.to_string().into_bytes()
    }
}

/// Index in the texts of warm-up requests, far from any arrival's.
const WARM_INDEX: u64 = 999_999;

/// The mark of a body in records: 16 hexadecimal digits of its SHA-256.
#[must_use]
pub fn body_mark(body: &[u8]) -> String {
    hex(&Sha256::digest(body)[..8])
}
