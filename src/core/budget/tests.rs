//! The published case, the borders of every inequality, and an independent replay.

use super::*;
use proptest::prelude::*;

const fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn engine(grace: u64, sleeps: u64, timeout: u64) -> EngineBudget {
    let hook = Hook { sleeps: s(sleeps), ..Hook::default() };
    EngineBudget { grace: s(grace), hook, shutdown_timeout: s(timeout), cut: None }
}

fn rules(violations: &[Violation]) -> Vec<Rule> {
    violations.iter().map(|violation| violation.rule).collect()
}

#[test]
fn the_published_case_is_told_apart() {
    // No hook, no shutdown timeout, 180 s of grace: streams broke.
    let broken = engine(180, 0, 0);
    assert_eq!(rules(&broken.violations()), [Rule::EngineAborts, Rule::EnginePropagation]);
    assert_eq!(broken.longest_stream(), s(0));
    // preStop 10 s, shutdown timeout 90 s, 180 s of grace: none did.
    let whole = engine(180, 10, 90);
    assert_eq!(whole.violations(), []);
    assert_eq!(whole.longest_stream(), s(95));
}

#[test]
fn the_engine_fits_exactly_or_not() {
    assert_eq!(engine(120, 10, 90).violations(), []);
    let [violation] = &engine(119, 10, 90).violations()[..] else { panic!("one violation") };
    assert_eq!(
        violation.to_string(),
        "preStop 10s + --shutdown-timeout 90s + teardown 20s = 120s, \
         more than terminationGracePeriodSeconds 119s"
    );
    assert_eq!(violation.lacks(), s(1));
}

#[test]
fn a_drain_call_has_its_own_bounds() {
    let call = |gives_up| EngineBudget {
        hook: Hook { call: Some(DrainCall { wait: s(80), gives_up }), ..Hook::default() },
        ..engine(200, 0, 90)
    };
    assert_eq!(call(None).violations(), []);
    assert_eq!(call(None).longest_stream(), s(170));
    assert_eq!(call(Some(s(80))).violations(), []);
    let early = call(Some(s(30)));
    assert_eq!(rules(&early.violations()), [Rule::EngineDrainWait]);
    assert_eq!(early.longest_stream(), s(120));
    // A caller that waits longer than it asked for costs that time.
    assert_eq!(rules(&call(Some(s(91))).violations()), [Rule::EngineGrace]);
}

#[test]
fn the_ingress_and_the_engine_agree_or_not() {
    let cut = |believed: u64| IngressCut {
        believed: Some(s(believed)).filter(|believed| !believed.is_zero()),
        margin: s(5),
    };
    let told = [0, 60, 89, 90, 91, 94, 95, 120].map(|believed| cut(believed).disagreement(s(90)));
    use Disagreement::{Narrow, Never, TooEarly, TooLate};
    let (early, narrow, late) = (Some(TooEarly), Some(Narrow), Some(TooLate));
    assert_eq!(told, [Some(Never), early, early, None, narrow, narrow, late, late]);
    assert_eq!((cut(0).after_sigterm(), cut(90).after_sigterm()), (None, Some(s(85))));
    for kind in [Never, TooLate, TooEarly] {
        assert!(kind.breaks(None, s(95)) && kind.breaks(Some(s(96)), s(95)), "{kind:?}");
        assert!(!kind.breaks(Some(s(95)), s(95)), "{kind:?}");
    }
    assert!(!Narrow.breaks(None, s(95)));
}

#[test]
fn what_the_ingress_cuts_does_not_complete() {
    let cut = |cut| EngineBudget { cut: Some(s(cut)), ..engine(180, 10, 90) };
    assert_eq!([85, 90, 115].map(|at| cut(at).longest_stream()), [s(90), s(95), s(95)]);
    let moment = cut(85).timeline().into_iter().find(|moment| moment.at == s(95)).unwrap();
    assert_eq!(moment.event, "Streamgate ends what still runs, with an error event");
}

#[test]
fn idle_connections_go_before_the_engine_closes_them() {
    assert!(EngineBudget::keep_alive(s(4), s(5)).is_none());
    assert!(EngineBudget::keep_alive(s(5), s(5)).is_some());
}

#[test]
fn the_ingress_fits_exactly_or_not() {
    let budget = IngressBudget {
        grace: s(165),
        before: s(0),
        propagation: s(10),
        deadline: s(150),
        cut_margin: s(5),
        total: Some(s(135)),
    };
    assert_eq!(budget.violations(), []);
    assert_eq!(budget.longest_stream(), s(135));
    let short = IngressBudget { grace: s(164), ..budget };
    assert_eq!(rules(&short.violations()), [Rule::IngressGrace]);
    let late = IngressBudget { before: s(1), ..budget };
    assert_eq!(rules(&late.violations()), [Rule::IngressGrace]);
    let long = IngressBudget { total: Some(s(136)), ..budget };
    assert_eq!(rules(&long.violations()), [Rule::IngressStream]);
    let sudden = IngressBudget { propagation: s(4), ..budget };
    assert_eq!(rules(&sudden.violations()), [Rule::IngressPropagation]);
}

#[test]
fn amounts_round_as_kubernetes_does() {
    let default = Rollout::default();
    assert_eq!((default.spare(2), default.away(2)), (1, 0));
    assert_eq!((default.spare(10), default.away(10)), (3, 2));
    let rollout = |surge, unavailable| Rollout { surge, unavailable };
    assert!(rollout(Amount::Count(0), Amount::Percent(0)).is_stuck());
    assert_eq!(rollout(Amount::Count(0), Amount::Percent(25)).away(2), 1);
    assert!(rollout(Amount::Count(0), Amount::Percent(100)).leaves_none(2));
    assert!(!rollout(Amount::Count(0), Amount::Count(1)).leaves_none(2));
    assert!(Disruption::MinAvailable(Amount::Percent(51)).blocks(2));
    assert!(!Disruption::MinAvailable(Amount::Percent(50)).blocks(2));
    assert!(Disruption::MaxUnavailable(Amount::Count(0)).blocks(3));
    assert!(!Disruption::MaxUnavailable(Amount::Percent(1)).blocks(3));
}

#[test]
fn seconds_read_as_manifests_write_them() {
    assert_eq!(Seconds(s(90)).to_string(), "90s");
    assert_eq!(Seconds(Duration::from_millis(1_050)).to_string(), "1.05s");
}

/// What the kubelet and vLLM do, second by second, to a stream that begins at `begins` and needs
/// `needs`: whether it completes.
fn replay(budget: &EngineBudget, begins: u64, needs: u64) -> bool {
    let term = budget.hook.longest().as_secs();
    let mut left = needs;
    for now in 0.. {
        if now >= budget.grace.as_secs() {
            return left == 0;
        }
        if left == 0 {
            return true;
        }
        if now >= term && now - term >= budget.shutdown_timeout.as_secs() {
            return false;
        }
        if now >= begins {
            left -= 1;
        }
    }
    false
}

proptest! {
    #[test]
    fn a_stream_of_the_promised_length_completes(
        grace in 0u64..400, sleeps in 0u64..200, timeout in 0u64..200, begins in 0u64..=5,
    ) {
        let budget = engine(grace, sleeps, timeout);
        let longest = budget.longest_stream().as_secs();
        if budget.violations().is_empty() {
            prop_assert!(longest > 0);
        }
        prop_assert!(longest == 0 || replay(&budget, begins, longest));
        // The promise is exact: one second more and the last one to come breaks.
        prop_assert!(!replay(&budget, 5, longest + 1) || longest == 0);
    }

    #[test]
    fn a_violation_is_told_exactly_when_the_sum_is_too_large(
        grace in 0u64..400, sleeps in 0u64..200, timeout in 1u64..200,
    ) {
        let violations = engine(grace, sleeps, timeout).violations();
        let told = violations.iter().find(|v| v.rule == Rule::EngineGrace);
        prop_assert_eq!(told.is_some(), sleeps + timeout + 20 > grace);
        if let Some(told) = told {
            prop_assert_eq!(told.lacks().as_secs(), sleeps + timeout + 20 - grace);
        }
    }

    #[test]
    fn more_grace_never_adds_a_violation(
        grace in 0u64..400, more in 0u64..400, sleeps in 0u64..100, timeout in 0u64..200,
        propagation in 0u64..60, deadline in 0u64..300, cut_margin in 0u64..60, total in 0u64..300,
    ) {
        let engines = [grace, grace + more].map(|grace| rules(&engine(grace, sleeps, timeout).violations()));
        prop_assert!(engines[1].iter().all(|rule| engines[0].contains(rule)));
        let ingress = [grace, grace + more].map(|grace| rules(&IngressBudget {
            grace: s(grace), before: s(0), propagation: s(propagation), deadline: s(deadline),
            cut_margin: s(cut_margin), total: Some(s(total)),
        }.violations()));
        prop_assert!(ingress[1].iter().all(|rule| ingress[0].contains(rule)));
    }

    #[test]
    fn nothing_overflows(values in prop::array::uniform7(any::<u64>()), percent in any::<u32>(), replicas in any::<u32>()) {
        let [a, b, c, d, e, f, g] = values.map(Duration::from_secs);
        let call = Some(DrainCall { wait: d, gives_up: Some(e) });
        let budget = EngineBudget { grace: a, hook: Hook { sleeps: b, perhaps: g, call }, shutdown_timeout: c, cut: Some(f) };
        for violation in budget.violations() {
            prop_assert!(!violation.to_string().is_empty());
        }
        prop_assert_eq!(budget.timeline().len(), 6 - usize::from(c.is_zero()));
        prop_assert!(budget.timeline().is_sorted_by_key(|moment| moment.at));
        let ingress = IngressBudget { grace: a, before: b, propagation: c, deadline: d, cut_margin: e, total: Some(f) };
        prop_assert!(ingress.timeline().is_sorted_by_key(|moment| moment.at));
        prop_assert!(ingress.longest_stream() <= a);
        let amount = Amount::Percent(percent);
        prop_assert!(Disruption::MaxUnavailable(amount).allowed(replicas) <= replicas);
        let rollout = Rollout { surge: amount, unavailable: amount };
        prop_assert!(rollout.is_stuck() == (percent == 0));
        prop_assert!(rollout.away(replicas) > 0 || rollout.spare(replicas) > 0);
    }

    #[test]
    fn the_timeline_is_in_order(grace in 0u64..400, sleeps in 0u64..100, timeout in 0u64..200) {
        prop_assert!(engine(grace, sleeps, timeout).timeline().is_sorted_by_key(|moment| moment.at));
    }
}
