//! When requests are due, and for which prefix group.

use super::random::Random;
use crate::clock::Micros;
use crate::scenario::{GroupSpec, OpenSpec, Spacing};

/// The group that is hot where one is.
pub const HOT: u32 = 4;

/// The moments of an open loop since the start of its phase, in order.
///
/// A segment has `round(length × rate)` arrivals: at equal distances from its start on, or drawn
/// uniformly, which is a Poisson process given its number of arrivals.
#[must_use]
pub fn schedule(open: &OpenSpec, seed: u64) -> Vec<Micros> {
    let mut random = Random::new(seed);
    let (mut all, mut start) = (Vec::new(), 0.0);
    for segment in &open.segments {
        let length = segment.length.0.as_secs_f64();
        let count = (length * segment.rate).round() as usize;
        let mut moments: Vec<f64> = match open.spacing {
            Spacing::Even => (0..count).map(|i| start + i as f64 / segment.rate).collect(),
            Spacing::Poisson => (0..count).map(|_| start + random.unit() * length).collect(),
        };
        moments.sort_unstable_by(f64::total_cmp);
        all.extend(moments.into_iter().map(|s| (s * 1e6).round() as Micros));
        start += length;
    }
    all
}

/// The length of an open loop's schedule.
#[must_use]
pub fn length(open: &OpenSpec) -> Micros {
    open.segments.iter().map(|s| s.length.micros()).sum()
}

/// The prefix group of each of `arrivals` requests. Groups alike have the same number each (the
/// first ones one more, if it does not divide); a hot group has its number, the rest is spread
/// over the others. Then the order is drawn.
#[must_use]
pub fn groups(spec: &GroupSpec, arrivals: usize, seed: u64) -> Vec<u32> {
    let mut order = match spec.hot {
        None => spread(&(0..spec.count).collect::<Vec<_>>(), arrivals),
        Some(hot) => {
            let hot = (hot as usize).min(arrivals);
            // Which group gets one more of the rest, as the studies had it.
            let others: [u32; 7] =
                if hot == 48 { [0, 1, 2, 5, 6, 7, 3] } else { [0, 1, 5, 2, 3, 6, 7] };
            let mut order = vec![HOT; hot];
            order.extend(spread(&others, arrivals - hot));
            order
        }
    };
    Random::new(spec.order_seed.unwrap_or(seed)).shuffle(&mut order);
    order
}

fn spread(groups: &[u32], arrivals: usize) -> Vec<u32> {
    let (each, more) = (arrivals / groups.len(), arrivals % groups.len());
    let share = |(i, g): (usize, &u32)| vec![*g; each + usize::from(i < more)];
    groups.iter().enumerate().flat_map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Segment, Span};

    fn wave(spacing: Spacing) -> OpenSpec {
        let segment = |s: u64, rate| Segment { length: Span::ms(s * 1000), rate };
        OpenSpec { segments: vec![segment(60, 0.2), segment(240, 1.6), segment(90, 0.2)], spacing }
    }

    #[test]
    fn the_published_wave_has_414_arrivals() {
        let even = schedule(&wave(Spacing::Even), 1);
        assert_eq!(even.len(), 414);
        assert_eq!(even[..2], [0, 5_000_000]);
        assert_eq!(even[12..14], [60_000_000, 60_625_000]);
        let drawn = schedule(&wave(Spacing::Poisson), 7);
        assert_eq!(drawn.len(), 414);
        assert!(drawn.is_sorted());
        // As the reference model draws with that seed.
        assert_eq!(drawn[0] / 100, 22_497);
        assert_eq!(schedule(&wave(Spacing::Poisson), 7), drawn);
        assert_ne!(schedule(&wave(Spacing::Poisson), 8), drawn);
        assert_eq!(length(&wave(Spacing::Even)), 390_000_000);
    }

    fn spec(hot: Option<u32>, seed: u64) -> GroupSpec {
        GroupSpec { count: 8, hot, order_seed: Some(seed) }
    }

    #[test]
    fn group_orders_are_those_of_the_reference_model() {
        let uniform = groups(&spec(None, 102), 96, 0);
        assert_eq!(uniform[..16], [6, 5, 4, 0, 0, 4, 4, 2, 4, 0, 1, 0, 3, 0, 2, 0]);
        let hot = groups(&spec(Some(48), 103), 96, 0);
        assert_eq!(hot[..16], [6, 5, 4, 3, 1, 2, 4, 4, 4, 4, 4, 4, 4, 2, 0, 4]);
        let very_hot = groups(&spec(Some(86), 102), 96, 0);
        assert_eq!(very_hot.iter().filter(|g| **g == HOT).count(), 86);
        assert_eq!(very_hot[..20], [HOT; 20]);
    }
}
