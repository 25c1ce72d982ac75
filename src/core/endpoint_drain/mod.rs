//! The drain of an engine endpoint, agreed by all replicas: pure.
//!
//! ```text
//!              order, engine's drain answer                  every live replica confirmed,
//!                                                            nothing runs there
//!   Serving ──────────────────────────────────▶ Draining ─────────────────────────▶ Drained
//!      ▲                                           │ ▲                                 │
//!      │                                deadline,  │ │ (what is cut ends)              │
//!      │                                something  ▼ │                                 │
//!      │                                runs      Cut ─────────────────────────────────┤
//!      └───────────────────────────────────────────────────────────────────────────────┘
//!         Restored (an operator), or Replaced (a new process at the same address)
//! ```
//!
//! What is agreed is one *word* an endpoint: drain, or serve. Words lie on a *board* that all
//! replicas share. Each word has a version, and names the highest version that whoever said it had
//! seen on the board (its *base*). The board takes a word only if its version is higher than that
//! of the word it has, and its base is not lower. So a word that arrives twice or late changes
//! nothing, and nobody overrides what he has not heard.
//!
//! * A word that is said here is acted on at once and gets the next version after the highest
//!   known here. Until the board is seen to have it, it is sent again, unchanged.
//! * An endpoint that drains nowhere, as far as is known here, is restored only after the board was
//!   asked, and above the word that it then has. While it cannot be asked, the restoration is said
//!   all the same, and ends what was ordered before it.
//! * The board has a word above the base, or another one under the same version: it is followed,
//!   unless the own word is not yet on the board and was said later. Then the own one is said
//!   again above it.
//! * The board has a word below the base, or lacks one that drains: it lost its memory, or has not
//!   heard yet; the own word is put there. After a loss the highest version that anybody knows
//!   wins, not what was said last: a message from before the loss may still be on its way.
//! * Clocks differ, so words travel with their age. One that the board executes late, after a
//!   freeze, therefore counts as said by so much later.
//! * A replica *confirms* an order by reporting, under the order's version, how many requests it
//!   has there. It does so after it stopped choosing the endpoint, so the number can only fall.
//! * *Drained*: every replica with a live lease confirmed this version, and all numbers are zero.
//!   A replica that died counts until its lease is over. While the board cannot be asked, or does
//!   not know who lives, nothing is ever called drained.
//! * *Replaced*: health saw the process go and another one come, and nothing runs there any more.
//!   The order was for the old process.
//! * *The endpoint's deadline*: an engine that was told to stop ends by its own shutdown timeout,
//!   and vLLM then neither ends its streams nor closes them. So what runs there is cut by us
//!   `margin` before: at `wait + shutdown timeout − margin` after an order, at
//!   `shutdown timeout − margin` after the engine itself said that it shuts down.
//! * A second order for an endpoint that drains joins the first; it can put the endpoint's
//!   deadline off, never forward. An order for an engine that has said itself that it shuts down
//!   changes nothing of its deadline.

mod board;
mod desk;
mod word;

#[cfg(test)]
mod tests;

pub use board::Board;
pub use desk::{Action, Desk};
pub use word::{Stance, Word};

use super::ids::{EndpointId, ReplicaId};
use super::observe::EndpointPhase;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// A word on its way to or from the board. Clocks differ, so it carries its age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub endpoint: EndpointId,
    /// From 1.
    pub version: u64,
    /// The highest version that whoever said it knew to be, or have been, on the board.
    pub base: u64,
    /// Which saying of which process this is; tells the own word from another of the same version.
    pub by: Arc<str>,
    pub stance: Stance,
    pub age: Duration,
    /// How long the order lets the engine's streams run before the engine is told to stop.
    pub wait: Duration,
}

/// What one replica has at an endpoint that it does not choose any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub endpoint: EndpointId,
    /// The order that this confirms.
    pub version: u64,
    pub in_flight: u64,
}

/// What the board is told: the words it may lack, and **all** shares of this replica under words
/// that the board has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dispatch {
    pub entries: Vec<Entry>,
    pub shares: Vec<Share>,
}

/// What the board says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// This replica, as the board knows it; `None` while it has no lease.
    pub me: Option<ReplicaId>,
    /// Replicas with a live lease; `None`: not known at the moment.
    pub live: Option<Vec<ReplicaId>>,
    pub entries: Vec<Entry>,
    pub shares: Vec<(ReplicaId, Share)>,
}

/// An endpoint as this process knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// `None`: it is no endpoint of any pool here.
    pub phase: Option<EndpointPhase>,
    /// It may be a pod behind a gateway that chooses by itself.
    pub pod: bool,
    /// Requests of this replica there.
    pub in_flight: u64,
    /// The engine's own shutdown timeout; `None`: streams are never cut at its deadline.
    pub shutdown_timeout: Option<Duration>,
}

/// Where a drain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Not chosen; requests run there, or not every replica has confirmed.
    Draining,
    /// Every live replica confirmed, and nothing runs there.
    Drained,
    /// The endpoint's deadline passed and this replica cut what it had there.
    Cut,
    /// An operator put it back in service.
    Restored,
    /// A new process serves at its address.
    Replaced,
}

impl Stage {
    /// The name in answers and in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::Drained => "drained",
            Self::Cut => "cut",
            Self::Restored => "restored",
            Self::Replaced => "replaced",
        }
    }
}

/// One replica's part in a drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplicaShare {
    pub replica: ReplicaId,
    /// The replica that says this.
    pub here: bool,
    /// It does not choose the endpoint any more.
    pub confirmed: bool,
    /// Its requests there, as last reported.
    pub in_flight: u64,
}

/// The drain of one endpoint as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndpointDrainState {
    pub endpoint: EndpointId,
    pub state: Stage,
    /// `ordered`, or `answered`: the engine itself said that it shuts down.
    pub cause: &'static str,
    /// Milliseconds since the last word on it.
    pub since_ms: u64,
    /// What is known to run there, over all replicas.
    pub in_flight: u64,
    /// Whether what is known is all there is: the board is in reach and knows who lives.
    pub fleet_known: bool,
    /// Whether the board has the word.
    pub posted: bool,
    pub replicas: Vec<ReplicaShare>,
    /// Milliseconds until what runs there is cut; `None`: never, or it was.
    pub cut_in_ms: Option<u64>,
}

impl EndpointDrainState {
    /// Whether the endpoint may not be chosen.
    pub const fn drains(&self) -> bool {
        matches!(self.state, Stage::Draining | Stage::Drained | Stage::Cut)
    }

    /// Replicas that confirmed.
    pub fn confirmed(&self) -> usize {
        self.replicas.iter().filter(|share| share.confirmed).count()
    }
}
