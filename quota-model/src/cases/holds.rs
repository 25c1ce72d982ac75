//! The protocol with one scope. Nothing here may be violated.

use super::{Case, Expect, budget, with};
use crate::model::{Budget, Cfg};

pub(super) fn cases() -> Vec<Case> {
    let mut all = ticks();
    all.extend(one_scope());
    all.extend(losses());
    all.extend(policies());
    all.extend(crashes());
    all.extend(failovers());
    all.extend(outages());
    all.extend(three());
    all
}

pub(super) fn holds(name: &'static str, about: &'static str, cfg: Cfg) -> Case {
    Case::new(name, about, Expect::Holds, cfg)
}

/// Small variants with leases of one tick. They cannot express that leases end at different times, so
/// they stand beside those below, not for them.
fn ticks() -> Vec<Case> {
    let one = |cfg: Cfg| {
        with(cfg, |c| {
            c.lease_self = 1;
            c.lease_store = 1;
            c.check_books = true;
        })
    };
    let base = |cap, b: Budget| one(with(Cfg::base(2, cap), |c| c.budget = b));
    let kill = || {
        budget(|b| {
            b.crash = 1;
            b.restart = 1;
        })
    };
    let all = [
        holds("tick-plain", "like plain", with(base(2, Budget::default()), |c| c.leave = true)),
        holds("tick-late", "like late", base(1, budget(|b| b.late = 1))),
        holds("tick-crash", "like crash", base(1, kill())),
        holds("tick-flush", "like flush", base(1, budget(|b| b.flush = 1))),
        holds(
            "tick-delayed",
            "like flush, replies delayed",
            with(base(1, budget(|b| b.flush = 1)), |c| c.delayed = true),
        ),
        holds(
            "tick-watchdog",
            "like pause-watchdog",
            with(base(1, budget(|b| b.pause = 1)), |c| c.watchdog = true),
        ),
        holds(
            "tick-reload",
            "like reload, the cap falls",
            with(base(2, budget(|b| b.reload = 2)), |c| caps(c, &[2, 1])),
        ),
    ];
    all.into_iter().map(Case::quick).collect()
}

fn one_scope() -> Vec<Case> {
    vec![
        holds(
            "plain",
            "two replicas, lost requests and replies, waiters give up",
            with(Cfg::base(2, 2), |c| {
                c.leave = true;
                c.check_refusal = true;
                c.check_books = true;
            }),
        ),
        holds(
            "late",
            "a call times out and is executed later",
            with(Cfg::base(2, 1), |c| {
                c.leave = true;
                c.budget = budget(|b| b.late = 1);
            }),
        ),
        holds(
            "plain-delayed",
            "like plain, replies may be under way for any time",
            with(Cfg::base(2, 2), |c| {
                c.delayed = true;
                c.check_refusal = true;
            }),
        ),
        holds(
            "late-twice",
            "two such calls",
            with(Cfg::base(2, 1), |c| c.budget = budget(|b| b.late = 2)),
        ),
    ]
}

fn crashes() -> Vec<Case> {
    vec![
        holds(
            "crash",
            "a replica is killed and comes back",
            with(Cfg::base(2, 1), |c| {
                c.budget = budget(|b| {
                    b.crash = 1;
                    b.restart = 1;
                });
            }),
        ),
        holds(
            "crash-twice",
            "two kills, two restarts",
            with(Cfg::base(2, 1), |c| {
                c.budget = budget(|b| {
                    b.crash = 2;
                    b.restart = 2;
                });
            }),
        ),
        holds(
            "reload",
            "the cap falls and rises again, each replica learns of it by itself",
            with(Cfg::base(2, 2), |c| {
                caps(c, &[2, 1, 2]);
                c.check_refusal = true;
                c.budget = budget(|b| b.reload = 4);
            }),
        ),
        holds(
            "clocks",
            "the cap falls; replicas' and servers' clocks differ; a copy takes over, a process restarts",
            clocks_apart(),
        )
        .quick_up_to(50_000),
    ]
}

/// One reload after another, a failover to a server whose clock is ahead, a new process. Leases of
/// one tick.
pub(super) fn clocks_apart() -> Cfg {
    with(Cfg::base(2, 2), |c| {
        caps(c, &[2, 1]);
        c.lease_self = 1;
        c.lease_store = 1;
        c.ahead = 3;
        c.server_ahead = 3;
        c.budget = budget(|b| {
            b.reload = 2;
            b.failover = 1;
            b.crash = 1;
            b.restart = 1;
        });
    })
}

/// Revisions that differ in the cap of scope 0 only.
pub(super) fn caps(cfg: &mut Cfg, caps: &[i32]) {
    let first = cfg.revisions[0];
    cfg.revisions = caps
        .iter()
        .map(|cap| {
            let mut revision = first;
            revision[0].0 = *cap;
            revision
        })
        .collect();
}

fn losses() -> Vec<Case> {
    let base = |cap, b: Budget| with(Cfg::base(2, cap), |c| c.budget = b);
    vec![
        holds("flush", "the key is deleted", base(1, budget(|b| b.flush = 1))),
        holds(
            "flush-delayed",
            "like flush, replies may be under way for any time",
            with(base(1, budget(|b| b.flush = 1)), |c| c.delayed = true),
        ),
        holds("flush-cap-2", "the same with two slots", base(2, budget(|b| b.flush = 1))),
        holds("flush-twice", "the key is deleted twice", base(1, budget(|b| b.flush = 2))),
        holds(
            "flush-late",
            "a loss and a late call",
            base(
                1,
                budget(|b| {
                    b.flush = 1;
                    b.late = 1;
                }),
            ),
        ),
        holds(
            "crash-flush",
            "a loss and a kill",
            base(
                1,
                budget(|b| {
                    b.flush = 1;
                    b.crash = 1;
                    b.restart = 1;
                }),
            ),
        ),
    ]
}

fn failovers() -> Vec<Case> {
    let base = |cap, b: Budget| with(Cfg::base(2, cap), |c| c.budget = b);
    vec![
        holds(
            "failover",
            "a copy takes over: up to date, stale or empty",
            base(
                1,
                budget(|b| {
                    b.failover = 1;
                    b.snapshot = 1;
                }),
            ),
        ),
        holds(
            "failover-cap-2",
            "the same with two slots",
            base(
                2,
                budget(|b| {
                    b.failover = 1;
                    b.snapshot = 1;
                }),
            ),
        ),
        holds(
            "failover-twice",
            "two failovers",
            base(
                1,
                budget(|b| {
                    b.failover = 2;
                    b.snapshot = 1;
                }),
            ),
        ),
        holds(
            "failover-late",
            "a failover and a late call",
            base(
                1,
                budget(|b| {
                    b.failover = 1;
                    b.snapshot = 1;
                    b.late = 1;
                }),
            ),
        ),
    ]
}

fn policies() -> Vec<Case> {
    let base = || Cfg::base(2, 1);
    vec![
        holds(
            "linger",
            "engines need a tick to notice a closed connection; crash and loss",
            with(base(), |c| {
                c.linger = true;
                c.lease_store = 3;
                c.budget = budget(|b| {
                    b.crash = 1;
                    b.restart = 1;
                    b.flush = 1;
                });
            }),
        ),
        holds(
            "pause-watchdog",
            "a process freezes, a watchdog kills it at its deadline",
            with(base(), |c| {
                c.watchdog = true;
                c.budget = budget(|b| b.pause = 1);
            }),
        ),
        holds(
            "pause-watchdog-flush",
            "the same with a loss",
            with(base(), |c| {
                c.watchdog = true;
                c.budget = budget(|b| {
                    b.pause = 1;
                    b.flush = 1;
                });
            }),
        ),
        holds(
            "split-wait-all",
            "split brain; JOIN, BEAT and SET confirmed by WAIT",
            with(base(), |c| {
                c.wait_on_lease = true;
                c.wait_on_grant = true;
                c.budget = budget(|b| {
                    b.split = 1;
                    b.snapshot = 1;
                });
            }),
        ),
    ]
}

fn outages() -> Vec<Case> {
    let base = || Cfg::base(2, 1);
    vec![
        holds(
            "keep-outage",
            "on_fence: keep, the whole store away for any time",
            with(base(), |c| {
                c.keep = true;
                c.no_lapse = true;
                c.lease_self = 3;
                c.lease_store = 3;
                c.stall = 1;
                c.only_safety = true;
                c.budget = budget(|b| b.outage = 1);
            }),
        ),
        holds(
            "stall-cut",
            "the stall rule with on_fence: cut, an outage and a loss",
            with(base(), |c| {
                c.stall = 1;
                c.budget = budget(|b| {
                    b.outage = 1;
                    b.flush = 1;
                });
            }),
        ),
    ]
}

fn three() -> Vec<Case> {
    let one_tick = |cap| {
        with(Cfg::base(3, cap), |c| {
            c.lease_self = 1;
            c.lease_store = 1;
        })
    };
    vec![
        holds("3-plain", "three replicas, two slots, leases of one tick", one_tick(2)),
        holds(
            "3-flush",
            "three replicas and a loss, leases of one tick",
            with(one_tick(1), |c| c.budget = budget(|b| b.flush = 1)),
        ),
        holds(
            "3-crash",
            "three replicas and a kill, leases of one tick",
            with(one_tick(1), |c| {
                c.budget = budget(|b| {
                    b.crash = 1;
                    b.restart = 1;
                });
            }),
        ),
        holds(
            "3-flush-lease-2",
            "three replicas and a loss",
            with(Cfg::base(3, 1), |c| {
                c.only_safety = true;
                c.budget = budget(|b| b.flush = 1);
            }),
        ),
    ]
}
