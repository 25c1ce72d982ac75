//! The protocol with what the product adds: spare slots, several scopes, tables, floors. Nothing here
//! may be violated.

use super::holds::{caps, holds};
use super::{Case, budget, with};
use crate::model::Cfg;
use crate::store::{Class, Leaf, UNLIMITED};

/// Two tenants (scopes 0 and 1) in one pool (scope 2).
pub(super) const TENANTS: [Leaf; 2] = [Leaf(0b101), Leaf(0b110)];
/// One tenant (scope 0) in two pools (scopes 1 and 2).
pub(super) const POOLS: [Leaf; 2] = [Leaf(0b011), Leaf(0b101)];

pub(super) fn cases() -> Vec<Case> {
    let mut all = spare();
    all.extend(scopes());
    all.extend(healing());
    all.extend(duplicates());
    all.extend(floors());
    all
}

fn spare() -> Vec<Case> {
    let base = |cap| {
        with(Cfg::base(2, cap), |c| {
            c.spare = 1;
            c.check_refusal = true;
            c.check_books = true;
            c.lease_self = 1;
            c.lease_store = 1;
        })
    };
    vec![
        holds("spare", "replicas hold a slot more than they use", base(2)).quick(),
        holds(
            "spare-lease-2",
            "the same, leases of two ticks",
            with(base(2), |c| {
                c.lease_self = 2;
                c.lease_store = 2;
            }),
        ),
        holds(
            "spare-flush",
            "spare slots and a loss",
            with(base(2), |c| c.budget = budget(|b| b.flush = 1)),
        ),
        holds(
            "spare-crash",
            "spare slots and a kill",
            with(base(2), |c| {
                c.budget = budget(|b| {
                    b.crash = 1;
                    b.restart = 1;
                });
            }),
        ),
        holds(
            "spare-reload",
            "spare slots while the cap falls",
            with(base(2), |c| {
                caps(c, &[2, 1]);
                c.budget = budget(|b| b.reload = 2);
            }),
        ),
    ]
}

/// Caps of two tenants and their pool, or of a tenant and its two pools; leases of one tick.
pub(super) fn two_leaves(leaves: [Leaf; 2], caps: [i32; 3]) -> Cfg {
    with(Cfg::base(2, 0), |c| {
        c.leaves = leaves.to_vec();
        c.revisions = vec![[(caps[0], 0), (caps[1], 0), (caps[2], 0), (UNLIMITED, 0)]];
        c.lease_self = 1;
        c.lease_store = 1;
        c.check_books = true;
    })
}

fn scopes() -> Vec<Case> {
    vec![
        holds(
            "tenants-in-pool",
            "two tenants share a pool with one slot; one SET for both",
            with(two_leaves(TENANTS, [1, 1, 1]), |c| c.check_refusal = true),
        )
        .quick_up_to(50_000),
        holds(
            "tenant-in-pools",
            "a tenant with one slot and two pools",
            with(two_leaves(POOLS, [1, 1, 1]), |c| c.check_refusal = true),
        ),
        holds(
            "tenants-two-calls",
            "a SET for each leaf, under way at the same time",
            with(two_leaves(TENANTS, [1, 1, 1]), |c| c.batch = false),
        )
        .quick_up_to(50_000),
        holds(
            "tenants-late",
            "a late call for a shared pool",
            with(two_leaves(TENANTS, [1, 1, 1]), |c| c.budget = budget(|b| b.late = 1)),
        ),
        holds(
            "tenants-flush",
            "a loss with two leaves",
            with(two_leaves(TENANTS, [1, 1, 1]), |c| c.budget = budget(|b| b.flush = 1)),
        ),
        holds(
            "tenants-spare",
            "spare slots of one tenant, wanted by the other",
            with(two_leaves(TENANTS, [1, 1, 1]), |c| {
                c.spare = 1;
                c.check_refusal = true;
            }),
        ),
    ]
}

/// One slot, beats with tables, leases of one tick.
fn one() -> Cfg {
    with(Cfg::base(2, 1), |c| {
        c.heal = true;
        c.check_books = true;
        c.lease_self = 1;
        c.lease_store = 1;
    })
}

fn duplicates() -> Vec<Case> {
    vec![
        holds(
            "duplicate",
            "the JOIN that founded is executed again after a loss; beats carry the table",
            with(one(), |c| {
                c.copy = true;
                c.reliable = true; // as limit-duplicate-join, to get beyond its depth
                twice(c);
                c.budget = budget(|b| b.flush = 1);
            }),
        )
        .quick_up_to(50_000),
        holds(
            "duplicate-any",
            "any call is executed twice, around a loss",
            with(one(), |c| {
                twice(c);
                c.budget = budget(|b| {
                    b.duplicate = 1;
                    b.flush = 1;
                });
            }),
        ),
    ]
}

fn healing() -> Vec<Case> {
    vec![
        holds("heal", "beats carry the table and find nothing", one()).quick_up_to(50_000),
        holds(
            "heal-late",
            "tables and late calls",
            with(one(), |c| c.budget = budget(|b| b.late = 1)),
        ),
        holds(
            "heal-late-beat",
            "tables, and a beat that is executed after a newer one",
            with(one(), |c| c.budget = budget(|b| b.late_beat = 1)),
        )
        .quick_up_to(50_000),
        holds(
            "heal-two-calls",
            "tables and a SET for each of two leaves",
            with(two_leaves(TENANTS, [1, 1, 1]), |c| {
                c.agents.pop();
                c.heal = true;
                c.batch = false;
            }),
        ),
        holds(
            "edit",
            "any one field is edited by hand",
            with(one(), |c| c.budget = budget(|b| b.edit = 1)),
        )
        .quick_up_to(50_000),
        holds("edit-twice", "two edits", with(one(), |c| c.budget = budget(|b| b.edit = 2))),
        holds(
            "edit-spare",
            "an edit while replicas hold spare slots",
            with(one(), |c| {
                c.spare = 1;
                caps(c, &[2]);
                c.budget = budget(|b| b.edit = 1);
            }),
        ),
    ]
}

/// Books that a copy of a call made wrong are so until the next beat; leases that outlast learning.
fn twice(cfg: &mut Cfg) {
    cfg.check_books = false;
    cfg.lease_self = 2;
    cfg.lease_store = 2;
}

/// A replica, and a floor.
pub(super) fn floor(cap: i32, sum: i32) -> Cfg {
    with(Cfg::base(1, cap), |c| {
        c.agents.push(Class::Floor);
        c.revisions = vec![[(cap, sum), (UNLIMITED, 0), (UNLIMITED, 0), (UNLIMITED, 0)]];
        c.floor_share = 1;
        c.lease_self = 1;
        c.lease_store = 1;
        c.floor_self = 2;
        c.floor_store = 2;
    })
}

fn floors() -> Vec<Case> {
    vec![
        holds("floor", "a floor, a replica, two slots", floor(2, 1)),
        holds(
            "floor-flush",
            "a floor that is not asserted again stays reserved",
            with(floor(1, 1), |c| c.budget = budget(|b| b.flush = 1)),
        )
        .quick_up_to(50_000),
        holds(
            "floor-crash",
            "the owner of a floor is killed",
            with(floor(1, 1), |c| {
                c.budget = budget(|b| {
                    b.crash = 1;
                    b.restart = 1;
                });
            }),
        ),
        holds(
            "floors-two",
            "two floors, one slot for them, a loss",
            with(floor(2, 1), |c| {
                c.agents = vec![Class::Ordinary, Class::Floor, Class::Floor];
                c.budget = budget(|b| b.flush = 1);
            }),
        ),
    ]
}
