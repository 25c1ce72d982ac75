//! The store: what one domain key holds, and what each script does to it.
//!
//! [`exec`] is the semantics of `src/quota/redis/lua/*.lua` as a pure function of the state, the
//! server's clock and identity, and one command. The model explores it; `tests/lua.rs` drives the
//! real scripts in a real Redis beside it and compares every answer and the whole state.
//!
//! Names are small numbers here: a scope is a bit, a leaf is the set of its scopes' bits. Times are
//! in whatever unit the caller uses (milliseconds in the test, ticks in the model).

mod beat;
mod command;
mod domain;
mod join;
mod memory;
mod rules;
mod scope;
mod set;

pub use beat::Beat;
pub use command::{
    Ask, Claim, Code, Command, Config, Grant, Hint, Known, Op, Reply, Shown, Tabled,
};
pub use domain::{Class, Domain, Entry, IncId, Leaf, Lease, ScopeId, Store, Time};
pub use join::Join;
pub use memory::FAR;
pub use rules::StoreRules;
pub use scope::{Row, Scope};
pub use set::Set;

/// A cap that limits nothing.
pub const UNLIMITED: i32 = -1;

/// The server that executes: its clock, and its replication id (never 0, never part of the data).
#[derive(Clone, Copy, Debug)]
pub struct Server {
    pub now: Time,
    pub ident: u16,
}

/// What a script did besides changing the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub reply: Reply,
    /// What it published, in order.
    pub hints: Vec<Hint>,
}

impl From<Reply> for Outcome {
    fn from(reply: Reply) -> Self {
        Self { reply, hints: Vec::new() }
    }
}

/// Executes one script. A refusal leaves the state as it was, except that a damaged field marks the
/// whole domain as damaged.
pub fn exec(rules: &StoreRules, store: &mut Store, server: Server, command: &Command) -> Outcome {
    if matches!(store, Store::WrongType) {
        return Reply::Foreign.into();
    }
    match &command.op {
        Op::Join(join) => join::exec(rules, store, server, command, join).into(),
        Op::Beat(beat) => match memory::open(rules, store, server, command) {
            Ok(()) => beat::exec(rules, store, server, command, beat).into(),
            Err(reply) => reply.into(),
        },
        Op::Set(set) => match memory::open(rules, store, server, command) {
            Ok(()) => set::exec(rules, store, server, command, set),
            Err(reply) => reply.into(),
        },
    }
}
