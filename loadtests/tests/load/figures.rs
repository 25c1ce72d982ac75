//! Figures from arrivals made by hand: rates, percentiles, validity.

use streamgate_loadtests::figures::Figures;
use streamgate_loadtests::record::{Arrival, Outcome, Records, Slo};

fn arrival(index: u64, outcome: Outcome, ttft_ms: u64) -> Arrival {
    let json = serde_json::json!({
        "seed": 1, "phase": "p", "index": index, "tenant": if index.is_multiple_of(2) { "a" } else { "b" },
        "prompt": "x", "max_tokens": 11, "schedule_us": 0, "start_us": 1000, "lag_us": 1000,
        "head_us": null, "first_us": 1000 + ttft_ms * 1000, "last_us": 1000 + ttft_ms * 1000 + 1_000_000,
        "end_us": 3_000_000, "outcome": outcome, "reason": null, "status": 200,
        "prompt_tokens": 10, "output_tokens": 11, "target": null,
    });
    serde_json::from_value(json).unwrap()
}

fn records(arrivals: Vec<Arrival>) -> Records {
    Records { arrivals, ..Records::default() }
}

#[test]
fn dropped_refused_and_broken_stay_in_the_denominator() {
    let outcomes = [
        Outcome::Complete,
        Outcome::DroppedArrival,
        Outcome::Refused,
        Outcome::Broken,
        Outcome::Failed,
        Outcome::Interrupted,
    ];
    let arrivals = outcomes.iter().enumerate().map(|(i, o)| arrival(i as u64, *o, 100)).collect();
    let figures = Figures::of(&records(arrivals));
    let all = &figures.groups[0];
    assert_eq!((all.planned, all.interrupted, all.good), (5, 1, 1));
    assert_eq!((all.dropped, all.refused, all.broken, all.failed), (1, 1, 1, 1));
    assert_eq!(all.good_rate, Some(0.2));
    let tenants: Vec<_> = figures.groups.iter().map(|g| (g.tenant.as_deref(), g.planned)).collect();
    assert_eq!(tenants, [(None, 5), (Some("a"), 3), (Some("b"), 2)]);
}

#[test]
fn all_three_bounds_must_hold() {
    let slo = Slo { ttft_us: 100_000, tpot_us: 100_000, e2e_us: 2_999_000 };
    let a = arrival(0, Outcome::Complete, 100);
    assert!(a.good(&slo), "each bound itself is good");
    assert!(!a.good(&Slo { ttft_us: 99_999, ..slo }));
    assert!(!a.good(&Slo { tpot_us: 99_999, ..slo }));
    assert!(!a.good(&Slo { e2e_us: 2_998_999, ..slo }));
}

#[test]
fn percentiles_come_from_complete_streams_alone() {
    let mut arrivals: Vec<Arrival> =
        (0..20).map(|i| arrival(i, Outcome::Complete, 100 * (i + 1))).collect();
    arrivals.push(arrival(20, Outcome::Broken, 90_000));
    let mut warm = arrival(21, Outcome::Complete, 50_000);
    warm.warm_up = true;
    arrivals.push(warm);
    let figures = Figures::of(&records(arrivals));
    let ttft = figures.groups[0].ttft.unwrap();
    assert_eq!(ttft.count, 20);
    assert!((ttft.p95 - 1.905).abs() < 1e-9, "{ttft:?}");
    assert_eq!(figures.groups[0].planned, 21);
}

#[test]
fn nothing_is_no_data() {
    let figures = Figures::of(&records(vec![arrival(0, Outcome::Interrupted, 1)]));
    let group = &figures.groups[0];
    assert_eq!((group.planned, group.good_rate, group.ttft), (0, None, None));
}

#[test]
fn a_late_generator_is_no_valid_run() {
    let header = serde_json::json!({
        "format": 1, "scenario": "s", "about": "", "seeds": [1], "time_scale": 10.0,
        "slo": {"ttft_us": 2_000_000, "tpot_us": 150_000, "e2e_us": 30_000_000},
        "lag_bound_us": 9_000, "target": "", "started": "", "command": "", "version": "",
    });
    let mut records = records(vec![arrival(0, Outcome::Complete, 1)]);
    records.header = Some(serde_json::from_value(header).unwrap());
    let late = Figures::of(&records).validity;
    assert_eq!(late.lag_p99_virtual_ms, Some(10.0), "1 ms of real time at ten times the speed");
    assert!(late.reasons.iter().any(|r| r.contains("late")), "{late:?}");
    records.header.as_mut().unwrap().lag_bound_us = 10_000;
    let in_time = Figures::of(&records).validity;
    assert!(!in_time.reasons.iter().any(|r| r.contains("late")), "{in_time:?}");
}
