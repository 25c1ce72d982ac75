//! Series that plots are made of, from records.

use crate::clock::seconds;
use crate::record::{Arrival, Outcome};

/// Points of a line.
pub(super) type Points = Vec<(f64, f64)>;

/// Arrivals a second, in bins of `bin` seconds.
pub(super) fn arrival_rate(arrivals: &[&Arrival], bin: f64) -> Points {
    let last = arrivals.iter().map(|a| seconds(a.schedule_us)).fold(0.0, f64::max);
    let mut bins = vec![0.0; (last / bin) as usize + 1];
    for arrival in arrivals {
        bins[(seconds(arrival.schedule_us) / bin) as usize] += 1.0 / bin;
    }
    let step = |(i, rate): (usize, f64)| [(i as f64 * bin, rate), ((i + 1) as f64 * bin, rate)];
    bins.into_iter().enumerate().flat_map(step).collect()
}

/// Requests in flight over time, stepwise.
pub(super) fn in_flight(arrivals: &[&Arrival]) -> Points {
    let mut events: Vec<(f64, f64)> = Vec::new();
    for (start, end) in arrivals.iter().filter_map(|a| Some((a.start_us?, a.end_us?))) {
        events.push((seconds(start), 1.0));
        events.push((seconds(end), -1.0));
    }
    events.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (mut level, mut points) = (0.0, Vec::with_capacity(events.len() * 2));
    for (at, change) in events {
        points.push((at, level));
        level += change;
        points.push((at, level));
    }
    points
}

/// TTFT of complete streams by their start.
pub(super) fn ttft(arrivals: &[&Arrival]) -> Points {
    let complete = arrivals.iter().filter(|a| a.outcome == Outcome::Complete);
    complete.filter_map(|a| Some((seconds(a.start_us?), a.ttft()?))).collect()
}

/// The share of values at or below each value, stepwise.
pub(super) fn cdf(mut values: Vec<f64>) -> Points {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len() as f64;
    let step = |(i, v): (usize, f64)| [(v, i as f64 / n), (v, (i + 1) as f64 / n)];
    values.into_iter().enumerate().flat_map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cdf_ends_at_one() {
        let points = cdf(vec![3.0, 1.0]);
        assert_eq!(points, [(1.0, 0.0), (1.0, 0.5), (3.0, 0.5), (3.0, 1.0)]);
    }
}
