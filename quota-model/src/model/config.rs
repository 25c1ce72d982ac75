//! What one exploration is about: sizes, leases, faults, and the rules removed.

use crate::store::{Class, Leaf, StoreRules, Time, UNLIMITED};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Leaves a configuration may have.
pub const LEAVES: usize = 2;

/// Faults that may happen, how often each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    pub crash: u8,
    pub restart: u8,
    pub pause: u8,
    /// The key is gone (FLUSHALL, DEL, a restart without persistence).
    pub flush: u8,
    /// The copy that could be promoted catches up.
    pub snapshot: u8,
    /// The old primary dies, a copy takes over.
    pub failover: u8,
    /// A copy takes over while the old primary still serves somebody.
    pub split: u8,
    /// A call times out at its sender but stays in the network.
    pub late: u8,
    /// The same of a beat.
    pub late_beat: u8,
    /// A call is executed twice: something below the replica sent it again.
    pub duplicate: u8,
    /// A replica takes up the next revision of the configuration.
    pub reload: u8,
    /// The server's clock is set forward by a tick.
    pub clock: u8,
    /// The server answers nobody for a while.
    pub outage: u8,
    /// Somebody edits a field by hand.
    pub edit: u8,
}

/// One revision of the configuration: cap and sum of floors for each scope.
pub type Revision = [(i32, i32); 4];

/// Rules of the replica that the model removes one at a time. Every one is false in the protocol.
#[derive(Clone, Debug, Default)]
pub struct ReplicaRules {
    /// Takes the number of an older reply.
    pub naive_accept_any_reply: bool,
    /// Never fences.
    pub naive_no_fence: bool,
    /// Counts its deadline from the arrival of the reply.
    pub naive_deadline_from_receipt: bool,
    /// Counts a call that timed out as granted.
    pub naive_raise_optimistic: bool,
    /// Keeps what it held when it asks for less, until the answer.
    pub naive_lower_on_reply: bool,
    /// Refuses waiters that came after the call left.
    pub naive_stale_refusal: bool,
    /// Refuses on SPARE as on FULL.
    pub naive_refuse_on_spare: bool,
    /// Refuses on LEARNING as on FULL.
    pub naive_refuse_on_learning: bool,
    /// A beat's answer revives a replica whose deadline passed.
    pub naive_reply_unfences: bool,
    /// Keeps its spare while others wait.
    pub naive_keep_spare: bool,
    /// Does not tell that what it called unused is used by now, though somebody waits for it.
    pub naive_keep_silent: bool,
    /// A BEAT has the number of the command before it.
    pub naive_unnumbered_beats: bool,
    /// JOIN claims only what runs, but what is held stays.
    pub naive_claim_used_only: bool,
    /// States what its own wall clock says of its configuration.
    pub naive_own_dates: bool,
    /// States it on the clock of the first server it joined, whatever server it joins later.
    pub naive_first_clock: bool,
    /// Admits on a floor as soon as it is configured, before the store granted it.
    pub naive_floor_from_config: bool,
}

/// One configuration of the model.
#[derive(Clone, Debug)]
pub struct Cfg {
    /// Holders: their class. A floor's owner is a holder of its own; that a process owns both an
    /// ordinary and a floor incarnation adds no rule.
    pub agents: Vec<Class>,
    pub leaves: Vec<Leaf>,
    pub revisions: Vec<Revision>,
    /// Most waiters of one leaf at one replica.
    pub waiters: u8,
    /// Slots wished beyond the need.
    pub spare: u8,
    /// Requests a floor's owner wants to hold slots for.
    pub floor_share: u8,
    /// Ticks of the replica's deadline, and of the store's lease.
    pub lease_self: u8,
    pub lease_store: Time,
    pub floor_self: u8,
    pub floor_store: Time,
    /// Ticks after which silence counts as a loss; `Time::MAX`: the rule is off.
    pub stall: Time,
    /// An engine needs until the next tick to notice that its client is gone.
    pub linger: bool,
    pub budget: Budget,
    /// By how many revisions the dates of the first replica's configurations are too late, for its
    /// wall clock is ahead.
    pub ahead: u8,
    /// By how many the clock of the second server is ahead of the first's.
    pub server_ahead: u8,
    /// A copy of the JOIN with which the first holder founded the generation is still under way.
    pub copy: bool,
    /// Replies may be under way for any time. Otherwise they arrive when the command is executed, or
    /// never. A reduction: what a replica does on a reply that counts, it could have done at once, and
    /// one that does not count is as good as lost (the cases named `…-delayed` do without it).
    pub delayed: bool,
    /// No message is lost. For counterexamples that need no loss: the others may lose any.
    pub reliable: bool,
    /// Waiters may give up.
    pub leave: bool,
    /// One SET for all leaves; otherwise one for each.
    pub batch: bool,
    /// Beats carry the table.
    pub heal: bool,
    /// An outside watchdog kills a paused process at its deadline.
    pub watchdog: bool,
    /// The clock of a paused machine stands still.
    pub pause_stops_clock: bool,
    /// `on_fence: keep`.
    pub keep: bool,
    /// Environment of `keep`: no live lease ever lapses but through an outage of the whole store.
    pub no_lapse: bool,
    /// JOIN and BEAT are confirmed by WAIT.
    pub wait_on_lease: bool,
    /// So is every SET.
    pub wait_on_grant: bool,
    /// Carry the ghost of property 2; with `strict_refusal` it means that the engines were full.
    pub check_refusal: bool,
    pub strict_refusal: bool,
    /// Check that the books agree with what replicas believe.
    pub check_books: bool,
    /// Only property 1.
    pub only_safety: bool,
    pub symmetry: bool,
    /// Set from outside when the exploration shall end: no state has successors any more.
    pub stop: Arc<AtomicBool>,
    pub store: StoreRules,
    pub replica: ReplicaRules,
}

impl Cfg {
    /// `n` replicas, one leaf of one scope with this cap.
    pub fn base(n: usize, cap: i32) -> Self {
        Self {
            agents: vec![Class::Ordinary; n],
            leaves: vec![Leaf(1)],
            revisions: vec![[(cap, 0), (UNLIMITED, 0), (UNLIMITED, 0), (UNLIMITED, 0)]],
            waiters: 1,
            spare: 0,
            floor_share: 0,
            lease_self: 2,
            lease_store: 2,
            floor_self: 0,
            floor_store: 0,
            stall: Time::MAX,
            linger: false,
            budget: Budget::default(),
            ahead: 0,
            server_ahead: 0,
            copy: false,
            delayed: false,
            reliable: false,
            leave: false,
            batch: true,
            heal: false,
            watchdog: false,
            pause_stops_clock: false,
            keep: false,
            no_lapse: false,
            wait_on_lease: false,
            wait_on_grant: false,
            check_refusal: false,
            strict_refusal: false,
            check_books: false,
            only_safety: false,
            symmetry: true,
            stop: Arc::default(),
            store: StoreRules::default(),
            replica: ReplicaRules::default(),
        }
    }

    /// The cap of a scope under a revision.
    pub fn cap(&self, revision: u8, scope: u8) -> i32 {
        self.revisions[usize::from(revision)][usize::from(scope)].0
    }

    /// What a server's clock shows, in revisions.
    pub fn clock(&self, server: u8) -> u8 {
        1 + server * self.server_ahead
    }

    /// Ticks of a class's own deadline.
    pub fn self_lease(&self, class: Class) -> u8 {
        match class {
            Class::Ordinary => self.lease_self,
            Class::Floor => self.floor_self,
        }
    }

    /// Most slots of a leaf that make sense to ask for: no revision allows more.
    pub fn most(&self, leaf: usize) -> u8 {
        let path = self.leaves[leaf].path();
        let caps = path.flat_map(|s| (0..self.revisions.len()).map(move |r| (r, s)));
        let caps = caps.map(|(r, s)| self.revisions[r][usize::from(s)].0);
        let most = caps.filter(|cap| *cap != UNLIMITED).max().unwrap_or(2);
        u8::try_from(most).unwrap_or(u8::MAX)
    }
}
