//! Rules of the store that the model removes one at a time. Every `naive_*` is false in the protocol.

use super::domain::Time;

/// Which rules the scripts follow.
#[derive(Clone, Debug, Default)]
pub struct StoreRules {
    /// Versions are ignored.
    pub naive_no_version: bool,
    /// The founder's identity is not compared: a failover or restart is not noticed.
    pub naive_no_ident: bool,
    /// SET does not compare the identity (BEAT and JOIN do).
    pub naive_set_no_ident: bool,
    /// The learning period, if it is not the lease.
    pub naive_learning: Option<Time>,
    /// Free room is granted while learning.
    pub naive_learning_grants: bool,
    /// A lower cap takes slots away from their holder.
    pub naive_shrink: bool,
    /// BEAT renews a lease whatever the generation.
    pub naive_beat_gen_blind: bool,
    /// SET serves an incarnation without a lease.
    pub naive_no_lease_check: bool,
    /// JOIN believes claims outside learning too.
    pub naive_reassert_any_time: bool,
    /// Only the first scope of a path is checked and charged.
    pub naive_first_scope_only: bool,
    /// Every scope of the path is checked, but only the first is charged.
    pub naive_charge_first_only: bool,
    /// A path is charged with the whole number instead of the difference to what the leaf held.
    pub naive_charge_absolute: bool,
    /// A BEAT that finds books that do not agree writes them anew from its table.
    pub naive_repair_in_place: bool,
    /// An empty entry is forgotten, and so is which versions are settled.
    pub naive_forget_unsettled: bool,
    /// An empty, settled entry is dropped although its holder does not know yet that it is empty.
    pub naive_drop_unknown: bool,
    /// JOIN leaves `fv` alone: older commands still count.
    pub naive_join_keeps_floor_version: bool,
    /// After a loss nothing is kept back for floors not asserted again.
    pub naive_no_floor_reserve: bool,
    /// Floors are granted without regard to the configured sum.
    pub naive_floor_unlimited: bool,
    /// Floors learn only as long as ordinary slots do.
    pub naive_floor_learning_short: bool,
    /// Floors are granted while floors are being learned.
    pub naive_floor_learning_grants: bool,
    /// A scope without room is FULL although unused slots are held.
    pub naive_full_despite_spare: bool,
    /// Nobody is told that somebody waits.
    pub naive_no_pressure: bool,
    /// A field that does not parse counts as absent.
    pub naive_damage_is_absent: bool,
    /// The configuration of the last caller counts, not the newest.
    pub naive_last_config_wins: bool,
}

impl StoreRules {
    /// Whether a removed rule lets sums and entries disagree, so that the check that would notice
    /// must be off for its consequence to show.
    pub(super) fn lossy_sums(&self) -> bool {
        self.naive_first_scope_only
            || self.naive_charge_first_only
            || self.naive_charge_absolute
            || self.naive_damage_is_absent
    }
}
