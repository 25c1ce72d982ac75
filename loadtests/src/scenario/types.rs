//! A scenario file, as it is written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::span::Span;
use crate::record::Expect;

/// A scenario. All durations are virtual time unless their comment says real.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Short name; also that of the result folder.
    pub name: String,
    /// What it shows.
    pub about: String,
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Times faster than real. Default 1.
    #[serde(default = "one")]
    pub time_scale: f64,
    /// Model named in requests. Default `sim`.
    #[serde(default = "default_model")]
    pub model: String,
    /// Path requests are sent to: chat or completions. Default chat.
    #[serde(default)]
    pub api: Api,
    /// What is good.
    #[serde(default)]
    pub slo: SloSpec,
    /// Largest P99 of the generator's own lag for a valid run. Default 50 ms.
    #[serde(default = "default_lag")]
    pub lag_bound: Span,
    /// The client.
    #[serde(default)]
    pub client: ClientSpec,
    /// Simulated engines; none for a target of one's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engines: Option<EngineSpec>,
    /// What requests are sent to.
    pub target: TargetSpec,
    /// Prompts by name.
    pub prompts: BTreeMap<String, PromptSpec>,
    /// Run one after the other; a phase begins when the one before has ended.
    pub phases: Vec<PhaseSpec>,
    /// Published figures.
    #[serde(default)]
    pub expect: Vec<Expect>,
    /// Scrapes.
    #[serde(default)]
    pub history: HistorySpec,
}

/// The API spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// `/v1/chat/completions`.
    #[default]
    Chat,
    /// `/v1/completions`.
    Completions,
}

/// Bounds of a good request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SloSpec {
    /// Time to first token. Default 2 s.
    pub ttft: Span,
    /// Time per output token. Default 150 ms.
    pub tpot: Span,
    /// End to end. Default 30 s.
    pub e2e: Span,
}

impl Default for SloSpec {
    fn default() -> Self {
        Self { ttft: Span::ms(2000), tpot: Span::ms(150), e2e: Span::ms(30_000) }
    }
}

/// The client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientSpec {
    /// Requests in flight in an open loop; an arrival above it is dropped. 0 is no bound.
    /// Default 48.
    pub max_in_flight: usize,
    /// Silence after which an answer is given up. Default 90 s.
    pub read_timeout: Span,
    /// For a connection. Default 5 s of real time.
    pub connect_timeout: Span,
    /// For a whole exchange; 0 is none. Default none.
    pub total_timeout: Span,
    /// Further request headers, the same for all.
    pub headers: BTreeMap<String, String>,
    /// Further fields of the request body.
    pub body: BTreeMap<String, serde_json::Value>,
    /// Whether a complete answer must have exactly the tokens asked for. Default yes.
    pub exact_tokens: bool,
}

impl Default for ClientSpec {
    fn default() -> Self {
        Self {
            max_in_flight: 48,
            read_timeout: Span::ms(90_000),
            connect_timeout: Span::ms(5000),
            total_timeout: Span::default(),
            headers: BTreeMap::new(),
            body: BTreeMap::new(),
            exact_tokens: true,
        }
    }
}

/// Simulated engines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSpec {
    /// How many serve from the start. They are called A, B, C, …
    pub count: usize,
    /// How tokens come about. Default: the calibrated replica.
    #[serde(default)]
    pub profile: EngineProfile,
}

/// How an engine makes tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EngineProfile {
    /// The step model fitted to the studies.
    #[default]
    Calibrated,
    /// Fixed times.
    Instant {
        /// To the first token.
        first_token: Span,
        /// Between tokens.
        token_interval: Span,
    },
}

/// What requests are sent to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TargetSpec {
    /// The engines, through a router in this process that does what AIBrix v0.7.0 does.
    Direct(DirectSpec),
    /// A server that runs already.
    Url(UrlSpec),
    /// The real Streamgate in front of the engines.
    Streamgate(StreamgateSpec),
}

/// The router in this process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DirectSpec {
    /// How it chooses; a phase may set another.
    pub policy: Policy,
    /// Requests in flight by tenant; above it 429.
    pub caps: BTreeMap<String, usize>,
    /// Seed of its draws; default: the run's.
    pub seed: Option<u64>,
}

/// How a router chooses a replica.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Any.
    Random,
    /// Fewest in flight.
    #[default]
    LeastRequest,
    /// A replica that has had the prefix, unless it is too loaded.
    PrefixCache,
    /// Smallest estimate of the time to the first token (Streamgate only).
    ExpectedTtft,
}

/// A server that runs already.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UrlSpec {
    /// `http://host:port`, with a path prefix if there is one.
    pub base: String,
    /// API key by tenant. A value `env:NAME` is read from the environment.
    #[serde(default)]
    pub keys: BTreeMap<String, String>,
    /// Prometheus endpoints to scrape.
    #[serde(default)]
    pub metrics: Vec<String>,
}

/// The real Streamgate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StreamgateSpec {
    /// The program; default: `--streamgate`, `$STREAMGATE_BIN`, or beside this program.
    pub binary: Option<String>,
    /// How it chooses; a phase may set another.
    pub strategy: Policy,
    /// Tenants, in the shape of the configuration, without keys: those are made up.
    pub tenants: Vec<serde_json::Map<String, serde_json::Value>>,
    /// Further keys of the configuration, merged over the generated ones. Durations in it, and in
    /// `tenants` and `pool`, are virtual; those of `quota` are real.
    pub config: serde_json::Map<String, serde_json::Value>,
    /// Further keys of the pool.
    pub pool: serde_json::Map<String, serde_json::Value>,
    /// Replicas of Streamgate; above 1 they share a Redis that the run starts. Default 1.
    pub replicas: Option<usize>,
    /// Start a Redis for it even for one replica.
    pub redis: bool,
}

/// A prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptSpec {
    /// How it is built.
    pub kind: PromptKind,
    /// How often the sentence is said.
    pub sentences: usize,
    /// Tokens of the whole prompt in the simulated engine: it is filled up to them before its end.
    /// Default: not filled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<usize>,
}

/// How a prompt is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptKind {
    /// A nonce first: nothing is shared.
    Unique,
    /// The nonce last: all but the end is shared by all.
    Shared,
    /// A salt for each group first: all but the end is shared in a group.
    Grouped,
}

/// A phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseSpec {
    /// Name; unique.
    pub name: String,
    /// Seed of the phase, in place of the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The router's policy from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// State of the engines and the router before it.
    #[serde(default)]
    pub prepare: Prepare,
    /// Arrivals by schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenSpec>,
    /// Or lanes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<ClosedSpec>,
    /// What is asked, taken in turn.
    pub requests: Vec<RequestSpec>,
    /// The prefix groups of the arrivals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<GroupSpec>,
    /// Things done at a time.
    #[serde(default)]
    pub actions: Vec<ActionSpec>,
    /// Adds and removes engines by load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscale: Option<AutoscaleSpec>,
}

/// State before a phase. Everything sent for it is a warm-up and in no figure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prepare {
    /// Empty the engines' caches and the router's index.
    pub reset: bool,
    /// Prefix groups to put into each engine's cache, by engine.
    pub cached: BTreeMap<String, Vec<u32>>,
    /// Prefix groups that the router knows on each engine; default: as `cached`.
    pub index: Option<BTreeMap<String, Vec<u32>>>,
    /// A prompt of the phase, sent to every engine once (to a url target: once).
    pub warm: bool,
}

/// Arrivals by schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenSpec {
    /// One after the other.
    pub segments: Vec<Segment>,
    /// How arrivals lie in a segment. Default even.
    #[serde(default)]
    pub spacing: Spacing,
}

/// A stretch of constant rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// How long.
    pub length: Span,
    /// Arrivals a second of virtual time.
    pub rate: f64,
}

/// How arrivals lie in a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spacing {
    /// At equal distances, the first at the start.
    #[default]
    Even,
    /// A Poisson process given its number of arrivals: so many moments drawn uniformly.
    Poisson,
}

/// Lanes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedSpec {
    /// Requests in flight.
    pub lanes: u32,
    /// A lane starts no request after this.
    pub length: Span,
    /// A lane starts no more than this many; 0 is no bound.
    #[serde(default)]
    pub per_lane: u64,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    /// By whom.
    pub tenant: String,
    /// Name of a prompt.
    pub prompt: String,
    /// Output tokens.
    pub max_tokens: u32,
    /// Follows the entry before it this many times over. Default 1.
    #[serde(default = "once")]
    pub times: u32,
}

/// The order of prefix groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSpec {
    /// Number of groups. Default 8.
    #[serde(default = "eight")]
    pub count: u32,
    /// Arrivals of the hot group (number 4); absent: all groups alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot: Option<u32>,
    /// Seed of the order; default: the phase's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_seed: Option<u64>,
}

/// Something done at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionSpec {
    /// Since the start of the phase.
    pub at: Span,
    /// What.
    #[serde(rename = "do")]
    pub what: Action,
}

/// What can be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// Deletes an engine's pod: out of the endpoints at once, preStop, then SIGTERM.
    DeletePod {
        /// Name.
        engine: String,
        /// From the deletion to SIGTERM.
        #[serde(default)]
        pre_stop: Span,
        /// vLLM's `--shutdown-timeout`.
        #[serde(default)]
        shutdown_timeout: Span,
        /// Streams in flight fall silent instead of ending: what the studies saw with
        /// timeout 0.
        #[serde(default)]
        silent: bool,
    },
    /// Kills an engine's process.
    Kill {
        /// Name.
        engine: String,
    },
    /// Asks the router to drain an engine, waiting for its streams.
    Drain {
        /// Name.
        engine: String,
        /// How long to wait.
        wait: Span,
    },
    /// Starts engines that serve after a start-up time.
    ScaleUp {
        /// How many.
        engines: usize,
        /// Until they serve.
        startup: Span,
    },
    /// Empties an engine's prefix cache.
    ResetCache {
        /// Name; absent: all.
        #[serde(default)]
        engine: Option<String>,
    },
    /// Stops the run's Redis from answering.
    FreezeRedis {
        /// How long.
        length: Span,
    },
    /// Replaces the Streamgate replicas one by one, each drained first.
    RollStreamgate {},
}

/// A small horizontal autoscaler: every `interval`,
/// `wanted = ceil(wanted × mean running per ready engine / target)`, within the bounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutoscaleSpec {
    /// Running requests an engine aimed at.
    pub target_running: f64,
    /// Least engines.
    pub min: usize,
    /// Most engines.
    pub max: usize,
    /// Between decisions. Default 15 s.
    #[serde(default = "fifteen_seconds")]
    pub interval: Span,
    /// From the decision until an engine serves.
    pub startup: Span,
}

/// Scrapes of Prometheus text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HistorySpec {
    /// Between scrapes; 0 is none. Default 5 s.
    pub interval: Span,
}

impl Default for HistorySpec {
    fn default() -> Self {
        Self { interval: Span::ms(5000) }
    }
}

fn one() -> f64 {
    1.0
}

fn once() -> u32 {
    1
}

fn eight() -> u32 {
    8
}

fn default_model() -> String {
    "sim".into()
}

fn default_lag() -> Span {
    Span::ms(50)
}

fn fifteen_seconds() -> Span {
    Span::ms(15_000)
}
