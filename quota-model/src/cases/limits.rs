//! The stated limits: what no protocol on an asynchronous store removes. Each is provoked.

use super::broken::one_tick;
use super::{Case, Expect, budget, with};
use crate::model::{Cfg, NO_FALSE_REFUSAL, SAFETY};

fn one() -> Cfg {
    with(Cfg::base(2, 1), |c| {
        c.symmetry = false;
        c.only_safety = true;
    })
}

fn breaks(name: &'static str, about: &'static str, cfg: Cfg) -> Case {
    Case::new(name, about, Expect::Violates(SAFETY), cfg).quick()
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = frozen_and_split();
    all.extend(others());
    all
}

fn frozen_and_split() -> Vec<Case> {
    let split = |c: &mut Cfg| {
        c.budget = budget(|b| {
            b.split = 1;
            b.snapshot = 1;
        });
    };
    vec![
        breaks(
            "limit-pause",
            "a process frozen past its lease, no watchdog",
            with(one(), |c| c.budget = budget(|b| b.pause = 1)),
        ),
        breaks(
            "limit-clock-stops",
            "a machine suspended while its clock stands still, with a watchdog",
            with(one(), |c| {
                c.watchdog = true;
                c.pause_stops_clock = true;
                c.budget = budget(|b| b.pause = 1);
            }),
        ),
        breaks(
            "limit-split",
            "split brain without WAIT",
            with(one(), |c| {
                one_tick(c);
                split(c);
            }),
        ),
        breaks(
            "limit-split-wait-leases",
            "split brain, only JOIN and BEAT confirmed by WAIT",
            with(one(), |c| {
                c.wait_on_lease = true;
                split(c);
            }),
        )
        .long(),
    ]
}

fn others() -> Vec<Case> {
    vec![
        breaks(
            "limit-clock-step",
            "the server's clock jumps by less than the stall rule notices",
            with(one(), |c| c.budget = budget(|b| b.clock = 1)),
        ),
        breaks(
            "limit-duplicate-join",
            "the JOIN that founded is executed again after a loss, and beats do not carry the table",
            with(one(), |c| {
                c.copy = true;
                c.reliable = true;
                c.budget = budget(|b| b.flush = 1);
            }),
        ),
        breaks(
            "limit-keep-partition",
            "on_fence: keep, one replica cut off from the store",
            with(one(), |c| c.keep = true),
        ),
        breaks(
            "limit-linger",
            "engines slower to abort than the lease allows for, a kill",
            with(one(), |c| {
                c.linger = true;
                c.budget = budget(|b| b.crash = 1);
            }),
        ),
        Case::new(
            "limit-refusal-engines",
            "property 2 read as: the engines were full (slots given back but not yet told)",
            Expect::Violates(NO_FALSE_REFUSAL),
            with(one(), |c| {
                c.only_safety = false;
                c.check_refusal = true;
                c.strict_refusal = true;
            }),
        )
        .quick(),
    ]
}
