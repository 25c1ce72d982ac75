//! The rules for several scopes, tables and floors, removed one at a time.

use super::broken::breaks;
use super::product::{POOLS, TENANTS, floor, two_leaves};
use super::{Case, Expect, budget, with};
use crate::model::{Cfg, NO_FALSE_DAMAGE};
use crate::store::Class;

pub(super) fn cases() -> Vec<Case> {
    let mut all = scopes();
    all.extend(healing());
    all.extend(floors());
    all
}

fn scopes() -> Vec<Case> {
    let bare = |leaves, caps| {
        with(two_leaves(leaves, caps), |c| {
            c.symmetry = false;
            c.only_safety = true;
        })
    };
    vec![
        breaks(
            "first-scope-only",
            "only the tenant is checked and charged",
            with(bare(TENANTS, [1, 1, 1]), |c| {
                c.store.naive_first_scope_only = true;
            }),
        ),
        breaks(
            "charge-first-only",
            "all scopes are checked, one is charged",
            with(bare(TENANTS, [1, 1, 1]), |c| {
                c.store.naive_charge_first_only = true;
            }),
        ),
        breaks(
            "charge-absolute",
            "a path is charged with the number instead of the difference",
            with(bare(POOLS, [1, 1, 1]), |c| c.store.naive_charge_absolute = true),
        ),
    ]
}

fn healing() -> Vec<Case> {
    let one = |cap| {
        with(Cfg::base(2, cap), |c| {
            c.symmetry = false;
            c.heal = true;
            c.only_safety = true;
        })
    };
    vec![
        breaks(
            "repair-in-place",
            "a beat that finds books in disorder writes them anew from its table",
            with(one(1), |c| {
                c.store.naive_repair_in_place = true;
                c.budget = budget(|b| b.edit = 1);
            }),
        ),
        breaks(
            "damage-is-absent",
            "a scope that does not parse counts as new",
            with(one(1), |c| {
                c.store.naive_damage_is_absent = true;
                c.budget = budget(|b| b.edit = 1);
            }),
        ),
        Case::new(
            "drop-unknown",
            "an empty entry is dropped before its holder knows that it is empty",
            Expect::Violates(NO_FALSE_DAMAGE),
            with(one(1), |c| {
                c.only_safety = false;
                c.store.naive_drop_unknown = true;
            }),
        )
        .quick(),
        Case::new(
            "unnumbered-beats",
            "a late beat cannot be told from the newest",
            Expect::Violates(NO_FALSE_DAMAGE),
            with(one(1), |c| {
                c.only_safety = false;
                c.replica.naive_unnumbered_beats = true;
                c.budget = budget(|b| b.late_beat = 1);
            }),
        )
        .quick_up_to(400_000),
        Case::new(
            "forget-unsettled",
            "an empty entry is dropped, and with it which versions are settled",
            Expect::Violates(NO_FALSE_DAMAGE),
            with(one(1), |c| {
                c.only_safety = false;
                c.store.naive_forget_unsettled = true;
                c.budget = budget(|b| b.late = 1);
            }),
        )
        .quick_up_to(200_000),
    ]
}

fn floors() -> Vec<Case> {
    let bare = |cap, sum| {
        with(floor(cap, sum), |c| {
            c.symmetry = false;
            c.only_safety = true;
        })
    };
    let flush = || budget(|b| b.flush = 1);
    vec![
        breaks(
            "no-floor-reserve",
            "after a loss nothing is kept for floors",
            with(bare(1, 1), |c| {
                c.store.naive_no_floor_reserve = true;
                c.budget = flush();
            }),
        ),
        breaks(
            "floor-learning-short",
            "floors learn only a short lease",
            with(bare(1, 1), |c| {
                c.store.naive_floor_learning_short = true;
                c.budget = flush();
            }),
        ),
        breaks(
            "floor-from-config",
            "a floor is used before the store granted it",
            with(bare(1, 1), |c| {
                c.replica.naive_floor_from_config = true;
            }),
        ),
        breaks(
            "floor-unlimited",
            "floors are granted beyond their sum",
            with(bare(2, 1), |c| {
                c.symmetry = true;
                c.reliable = true;
                c.agents = vec![Class::Ordinary, Class::Floor, Class::Floor];
                c.store.naive_floor_unlimited = true;
                c.budget = flush();
            }),
        )
        .quick_up_to(400_000),
        breaks(
            "floor-learning-grants",
            "floors are granted while floors are learned",
            with(bare(1, 1), |c| {
                c.agents = vec![Class::Floor, Class::Floor];
                c.store.naive_floor_learning_grants = true;
                c.budget = flush();
            }),
        ),
    ]
}
