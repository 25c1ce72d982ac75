//! The protocol with one rule removed: each necessary rule must give a counterexample.

use super::holds::{caps, clocks_apart};
use super::{Case, Expect, budget, with};
use crate::model::{Cfg, NO_FALSE_REFUSAL, SAFETY};

pub(super) fn cases() -> Vec<Case> {
    let mut all = versions_and_leases();
    all.extend(losses());
    all.extend(deadlines_and_caps());
    all.extend(dates());
    all.extend(identities());
    all.extend(policies());
    all.extend(refusals());
    all
}

fn bare(cap: i32) -> Cfg {
    with(Cfg::base(2, cap), |c| {
        c.symmetry = false;
        c.only_safety = true;
    })
}

/// Shorter leases, where they are not what the case is about.
pub(super) fn one_tick(cfg: &mut Cfg) {
    cfg.lease_self = 1;
    cfg.lease_store = 1;
}

pub(super) fn breaks(name: &'static str, about: &'static str, cfg: Cfg) -> Case {
    Case::new(name, about, Expect::Violates(SAFETY), cfg).quick()
}

fn versions_and_leases() -> Vec<Case> {
    let late = || budget(|b| b.late = 1);
    vec![
        breaks(
            "no-version",
            "the store ignores versions",
            with(bare(2), |c| {
                c.store.naive_no_version = true;
                c.budget = late();
            }),
        ),
        breaks(
            "any-reply",
            "the number of an older reply is taken",
            with(bare(2), |c| {
                c.replica.naive_accept_any_reply = true;
                one_tick(c);
                c.delayed = true;
                c.leave = true;
                c.budget = late();
            }),
        )
        .quick_up_to(600_000),
        breaks(
            "lower-on-reply",
            "slots asked back are used until the answer",
            with(bare(2), |c| {
                c.replica.naive_lower_on_reply = true;
            }),
        ),
        breaks(
            "timeout-is-grant",
            "a call without an answer counts as granted",
            with(bare(1), |c| {
                c.replica.naive_raise_optimistic = true;
            }),
        ),
    ]
}

fn deadlines_and_caps() -> Vec<Case> {
    vec![
        breaks(
            "no-fence",
            "no deadline of its own",
            with(bare(1), |c| {
                c.replica.naive_no_fence = true;
            }),
        ),
        breaks(
            "deadline-from-receipt",
            "the deadline counts from the answer",
            with(bare(1), |c| {
                c.replica.naive_deadline_from_receipt = true;
                c.delayed = true;
            }),
        )
        .quick_up_to(400_000),
        breaks(
            "reply-unfences",
            "an answer revives after the deadline",
            with(bare(1), |c| {
                c.replica.naive_reply_unfences = true;
                c.delayed = true;
            }),
        ),
        breaks(
            "shrink-on-lower-cap",
            "a lower cap takes slots away",
            with(bare(2), |c| {
                c.store.naive_shrink = true;
                one_tick(c);
                caps(c, &[2, 1, 2]);
                c.budget = budget(|b| b.reload = 3);
            }),
        ),
        breaks(
            "last-config-wins",
            "the last caller's cap counts, not the newest",
            with(bare(2), |c| {
                c.store.naive_last_config_wins = true;
                caps(c, &[2, 1]);
                c.budget = budget(|b| b.reload = 2);
            }),
        ),
    ]
}

fn dates() -> Vec<Case> {
    vec![
        breaks(
            "own-dates",
            "a configuration is dated by its replica's own clock, and one is ahead",
            with(bare(2), |c| {
                c.replica.naive_own_dates = true;
                c.ahead = 3;
                caps(c, &[2, 1]);
                c.budget = budget(|b| b.reload = 2);
            }),
        ),
        breaks(
            "first-clock",
            "a configuration is dated by the clock of the server before the failover",
            with(clocks_apart(), |c| {
                c.reliable = true;
                c.only_safety = true;
                c.budget.reload = 1;
                c.replica.naive_first_clock = true;
            }),
        )
        .quick_up_to(400_000),
    ]
}

fn losses() -> Vec<Case> {
    let flush = || budget(|b| b.flush = 1);
    vec![
        breaks(
            "no-learning",
            "a loss is not followed by learning",
            with(bare(1), |c| {
                c.store.naive_learning = Some(0);
                c.budget = flush();
            }),
        ),
        breaks(
            "short-learning",
            "learning shorter than the lease",
            with(bare(1), |c| {
                c.store.naive_learning = Some(1);
                c.budget = flush();
            }),
        ),
        breaks(
            "learning-grants",
            "free room is granted while learning",
            with(bare(1), |c| {
                c.store.naive_learning_grants = true;
                c.budget = flush();
            }),
        ),
        breaks(
            "learning-without-linger",
            "learning without the engines' abort time",
            with(bare(1), |c| {
                c.linger = true;
                c.lease_store = 3;
                c.store.naive_learning = Some(2);
                c.budget = flush();
            }),
        )
        .quick_up_to(400_000),
    ]
}

fn identities() -> Vec<Case> {
    let flush = || budget(|b| b.flush = 1);
    let failover = || {
        budget(|b| {
            b.failover = 1;
            b.snapshot = 1;
        })
    };
    vec![
        breaks(
            "no-identity",
            "the founder's identity is not compared",
            with(bare(1), |c| {
                c.store.naive_no_ident = true;
                c.budget = failover();
            }),
        ),
        breaks(
            "set-no-identity",
            "SET does not compare it",
            with(bare(1), |c| {
                c.store.naive_set_no_ident = true;
                c.budget = failover();
            }),
        ),
        breaks(
            "beat-gen-blind",
            "BEAT renews whatever the generation",
            with(bare(1), |c| {
                c.store.naive_beat_gen_blind = true;
                c.budget = flush();
            }),
        )
        .quick_up_to(800_000),
        breaks(
            "claim-used-only",
            "JOIN claims what runs, unused slots stay",
            with(bare(1), |c| {
                c.symmetry = true;
                c.reliable = true;
                c.replica.naive_claim_used_only = true;
                c.budget = flush();
            }),
        ),
    ]
}

fn policies() -> Vec<Case> {
    let flush = || budget(|b| b.flush = 1);
    vec![
        breaks(
            "keep-without-stall",
            "on_fence: keep without the stall rule",
            with(bare(1), |c| {
                c.keep = true;
                c.no_lapse = true;
                c.lease_self = 3;
                c.lease_store = 3;
                c.budget = budget(|b| b.outage = 1);
            }),
        ),
        Case::new(
            "reassert-any-time",
            "JOIN believes claims outside learning too: redundant",
            Expect::Holds,
            with(bare(1), |c| {
                c.symmetry = true;
                c.store.naive_reassert_any_time = true;
                c.budget = flush();
            }),
        ),
        Case::new(
            "no-lease-check",
            "SET serves an incarnation without a lease: redundant",
            Expect::Holds,
            with(bare(1), |c| {
                c.symmetry = true;
                c.store.naive_no_lease_check = true;
                c.budget = budget(|b| {
                    b.crash = 1;
                    b.late = 1;
                });
            }),
        ),
    ]
}

fn refusals() -> Vec<Case> {
    let refusal =
        |name, about, cfg| Case::new(name, about, Expect::Violates(NO_FALSE_REFUSAL), cfg).quick();
    let seen = |cap| {
        with(Cfg::base(2, cap), |c| {
            c.symmetry = false;
            c.check_refusal = true;
        })
    };
    vec![
        refusal(
            "stale-refusal",
            "waiters are refused by a call that left before them",
            with(seen(2), |c| {
                c.waiters = 2;
                c.delayed = true;
                c.replica.naive_stale_refusal = true;
            }),
        ),
        refusal(
            "refuse-on-spare",
            "SPARE refuses",
            with(seen(2), |c| {
                c.spare = 1;
                c.replica.naive_refuse_on_spare = true;
            }),
        ),
        refusal(
            "full-despite-spare",
            "the store says FULL though slots are unused",
            with(seen(2), |c| {
                c.spare = 1;
                c.store.naive_full_despite_spare = true;
            }),
        ),
        refusal(
            "refuse-on-learning",
            "LEARNING refuses",
            with(seen(1), |c| {
                c.replica.naive_refuse_on_learning = true;
                c.budget = budget(|b| b.flush = 1);
            }),
        ),
    ]
}
