//! The state of the whole system.
//!
//! Timers are relative (ticks left) and versions, incarnations, generations and identities are
//! rank-compressed, so the state space is finite without a bound on time; only faults are budgeted.
//! A partition or a frozen server needs no state: any message may wait for ever.

use super::config::{Budget, LEAVES};
use crate::store::{Class, Code, IncId, Store};

/// What a message asks, or answered, for one leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// Whether the leaf is mentioned.
    pub on: bool,
    /// SET: need; JOIN and BEAT: n.
    pub n: u8,
    /// SET: want; JOIN and BEAT: idle.
    pub more: u8,
    /// BEAT: version.
    pub v: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    #[default]
    Set,
    Beat,
    Join,
}

/// A command in the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mail {
    pub kind: Kind,
    pub server: u8,
    pub life: u8,
    pub known: u16,
    /// JOIN: the generation it would found.
    pub nonce: u16,
    pub v: u16,
    pub fv: u16,
    /// Ticks since it was sent (JOIN and BEAT).
    pub age: u8,
    /// Revision of the configuration it carries (SET), and the number it is given.
    pub revision: u8,
    pub rev: u8,
    /// Ghost: it was sent before a field was edited, so it cannot know.
    pub unaware: bool,
    pub force: bool,
    pub items: [Item; LEAVES],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    Ok,
    Stale,
    NewGen,
    NoLease,
}

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answer {
    pub status: Status,
    pub gen_: u16,
    pub n: [u8; LEAVES],
    pub code: [Code; LEAVES],
    /// Whether a scope of the leaf is under pressure.
    pub pressed: [bool; LEAVES],
}

/// A place in the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Post {
    #[default]
    None,
    Request(Mail),
    Reply(Mail, Answer),
}

impl Post {
    /// The command, asked or answered.
    pub fn mail(&self) -> Option<&Mail> {
        match self {
            Self::None => None,
            Self::Request(mail) | Self::Reply(mail, _) => Some(mail),
        }
    }

    /// The command, asked or answered.
    pub fn mail_mut(&mut self) -> Option<&mut Mail> {
        match self {
            Self::None => None,
            Self::Request(mail) | Self::Reply(mail, _) => Some(mail),
        }
    }

    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// A replica's view of one leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeafState {
    pub held: u8,
    pub used: u8,
    /// Waiters that the outstanding call covers, and newer ones.
    pub covered: u8,
    pub fresh: u8,
    /// Ghost: the scopes were seen full since they came.
    pub saw_covered: bool,
    pub saw_fresh: bool,
    /// The last version sent for it that is not answered; 0: none.
    pub asked: u16,
    /// n and v of the last counted reply (kept only if beats carry the table).
    pub sure_n: u8,
    pub sure_v: u16,
    pub dirty: bool,
    pub pressed: bool,
    /// What the store was told to be unused.
    pub told: u8,
}

/// Where a message of a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The call of a leaf; JOIN and a SET for all leaves use the first.
    Call(usize),
    Beat,
    /// A call its sender gave up.
    Late,
}

/// One holder of slots.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Agent {
    pub class: Class,
    pub up: bool,
    pub paused: bool,
    pub server: u8,
    pub life: u8,
    /// The generation known; 0: a JOIN is owed.
    pub gen_: u16,
    /// Ticks to the own deadline; 0: fenced.
    pub lease: u8,
    pub v: u16,
    pub revision: u8,
    /// What the store's clock showed when the last JOIN was answered; 0: none was.
    pub clock: u8,
    pub leaves: [LeafState; LEAVES],
    pub calls: [Post; LEAVES],
    pub beat: Post,
    pub late: Post,
}

impl Agent {
    pub fn post(&self, place: Place) -> &Post {
        match place {
            Place::Call(leaf) => &self.calls[leaf],
            Place::Beat => &self.beat,
            Place::Late => &self.late,
        }
    }

    pub fn post_mut(&mut self, place: Place) -> &mut Post {
        match place {
            Place::Call(leaf) => &mut self.calls[leaf],
            Place::Beat => &mut self.beat,
            Place::Late => &mut self.late,
        }
    }

    /// The places of all its messages.
    pub fn places() -> impl Iterator<Item = Place> {
        (0..LEAVES).map(Place::Call).chain([Place::Beat, Place::Late])
    }

    /// Whether no call is outstanding.
    pub fn quiet(&self) -> bool {
        self.calls.iter().all(Post::is_none)
    }

    pub fn inc(&self, owner: usize, life: u8) -> IncId {
        IncId { owner: u8::try_from(owner).unwrap_or(u8::MAX), life, class: self.class }
    }

    /// May send SETs and BEATs.
    pub fn joined(&self) -> bool {
        self.gen_ != 0 && self.lease > 0
    }
}

/// One Redis process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub alive: bool,
    /// Its replication id; never in the data.
    pub ident: u16,
    pub store: Store,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub agents: Vec<Agent>,
    pub servers: [Process; 2],
    pub current: u8,
    /// What the copy that could be promoted has.
    pub snapshot: Store,
    /// Streams of each leaf that still run at engines though their client is gone.
    pub linger: [u8; LEAVES],
    pub budget: Budget,
    /// Nobody can reach the server.
    pub outage: bool,
    /// Ghost: a waiter was refused though its scopes were never seen full.
    pub bad_refusal: bool,
    /// Ghost: a grant went beyond the cap in force.
    pub bad_growth: bool,
    /// Ghost: a script took for damage what the scripts themselves had written.
    pub bad_damage: bool,
    /// Ghost: the newest revision a SET of this generation carried.
    pub newest: u8,
    /// Ghost: agents (bits) that have sent no beat since a field was edited which was executed, and
    /// have not joined.
    pub unhealed: u8,
    /// Ghost: a field was edited so that caps could be exceeded.
    pub tainted: bool,
}

/// Hashing is what an exploration does most; small fields are hashed a word at a time.
mod hash {
    use super::{Answer, Item, LeafState, Mail};
    use std::hash::{Hash, Hasher};

    /// Eight bytes as a word.
    fn word(bytes: [u8; 8]) -> u64 {
        u64::from_le_bytes(bytes)
    }

    /// Ranks are small; the few bits of the nonce's that do not fit would only cost a collision.
    fn low(v: u16) -> u8 {
        v.to_le_bytes()[0]
    }

    impl Hash for Item {
        fn hash<H: Hasher>(&self, to: &mut H) {
            let Self { on, n, more, v } = *self;
            to.write_u64(word([u8::from(on), n, more, low(v), 0, 0, 0, 0]));
        }
    }

    impl Hash for Mail {
        fn hash<H: Hasher>(&self, to: &mut H) {
            let Self { kind, server, life, known, nonce, v, fv, .. } = *self;
            let Self { age, revision, rev, unaware, force, items, .. } = *self;
            let flags = (kind as u8) << 1 | u8::from(force) | low(nonce) << 3;
            to.write_u64(word([flags, server, life, low(known), low(v), low(fv), age, revision]));
            to.write_u8(rev | u8::from(unaware) << 7);
            items.hash(to);
        }
    }

    impl Hash for Answer {
        fn hash<H: Hasher>(&self, to: &mut H) {
            let Self { status, gen_, n, code, pressed } = *self;
            let codes = [code[0] as u8, code[1] as u8];
            let pressed = u8::from(pressed[0]) << 1 | u8::from(pressed[1]);
            let status = status as u8;
            to.write_u64(word([status, low(gen_), n[0], n[1], codes[0], codes[1], pressed, 0]));
        }
    }

    impl Hash for LeafState {
        fn hash<H: Hasher>(&self, to: &mut H) {
            let Self { held, used, covered, fresh, asked, sure_n, sure_v, .. } = *self;
            let flags = u8::from(self.saw_covered)
                | u8::from(self.saw_fresh) << 1
                | u8::from(self.dirty) << 2
                | u8::from(self.pressed) << 3
                | self.told << 4;
            to.write_u64(word([
                held,
                used,
                covered,
                fresh,
                low(asked),
                sure_n,
                low(sure_v),
                flags,
            ]));
        }
    }
}
