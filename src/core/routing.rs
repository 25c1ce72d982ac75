//! The choice of an endpoint: least in flight, ties at random.

use super::reason::Reason;

/// Whether an endpoint may be chosen now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In service.
    Ready,
    /// Only suspected to be down: chosen when nothing is ready.
    LastResort,
    /// Not chosen.
    Out,
}

/// One endpoint as the choice sees it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub standing: Standing,
    pub in_flight: u64,
}

/// Nothing could be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoChoice {
    #[error("no endpoint is in service")]
    NoEndpoint,
    #[error("every endpoint in service is at its limit")]
    Saturated,
}

impl NoChoice {
    /// What the client is told.
    pub const fn reason(self) -> Reason {
        match self {
            Self::NoEndpoint => Reason::NoEndpoint,
            Self::Saturated => Reason::PoolSaturated,
        }
    }
}

/// The candidate with the fewest requests in flight, below `limit` if there is one; `tie` (a
/// random number) decides between equals. Last resorts count only if no candidate is ready.
///
/// # Errors
/// [`NoChoice::Saturated`] if endpoints are in service but all at `limit`.
pub fn least_in_flight(
    candidates: &[Candidate],
    limit: Option<u64>,
    tie: u64,
) -> Result<usize, NoChoice> {
    let any_ready = candidates.iter().any(|candidate| candidate.standing == Standing::Ready);
    let wanted = if any_ready { Standing::Ready } else { Standing::LastResort };
    let eligible =
        || candidates.iter().enumerate().filter(|(_, candidate)| candidate.standing == wanted);
    let below_limit = || {
        eligible().filter(|(_, candidate)| limit.is_none_or(|limit| candidate.in_flight < limit))
    };
    let Some(least) = below_limit().map(|(_, candidate)| candidate.in_flight).min() else {
        let none = eligible().next().is_none();
        return Err(if none { NoChoice::NoEndpoint } else { NoChoice::Saturated });
    };
    let equals = || below_limit().filter(|(_, candidate)| candidate.in_flight == least);
    let nth = tie % (equals().count().max(1) as u64);
    equals()
        .nth(usize::try_from(nth).unwrap_or(0))
        .map(|(index, _)| index)
        .ok_or(NoChoice::NoEndpoint)
}

#[cfg(test)]
mod tests {
    use super::Standing::{LastResort, Out, Ready};
    use super::*;
    use proptest::prelude::*;

    fn candidates(of: &[(Standing, u64)]) -> Vec<Candidate> {
        of.iter().map(|&(standing, in_flight)| Candidate { standing, in_flight }).collect()
    }

    #[test]
    fn the_least_loaded_ready_endpoint_is_chosen() {
        let all = candidates(&[(Ready, 3), (Ready, 1), (Out, 0), (LastResort, 0)]);
        assert_eq!(least_in_flight(&all, None, 9), Ok(1));
    }

    #[test]
    fn ties_fall_to_every_equal() {
        let all = candidates(&[(Ready, 1), (Ready, 2), (Ready, 1)]);
        let chosen: Vec<_> = (0..4).map(|tie| least_in_flight(&all, None, tie)).collect();
        assert_eq!(chosen, [Ok(0), Ok(2), Ok(0), Ok(2)]);
    }

    #[test]
    fn a_last_resort_is_used_only_when_nothing_is_ready() {
        assert_eq!(least_in_flight(&candidates(&[(Out, 0), (LastResort, 9)]), None, 0), Ok(1));
        // A ready endpoint at its limit is saturation, not a reason to try a suspect.
        let full = candidates(&[(Ready, 2), (LastResort, 0)]);
        assert_eq!(least_in_flight(&full, Some(2), 0), Err(NoChoice::Saturated));
    }

    #[test]
    fn nothing_in_service_is_no_endpoint() {
        assert_eq!(least_in_flight(&[], None, 0), Err(NoChoice::NoEndpoint));
        assert_eq!(least_in_flight(&candidates(&[(Out, 0)]), None, 0), Err(NoChoice::NoEndpoint));
    }

    proptest! {
        #[test]
        fn the_choice_is_ready_below_the_limit_and_least(
            of in prop::collection::vec((0..3u8, 0..5u64), 0..6),
            limit in prop::option::of(1..5u64),
            tie in any::<u64>(),
        ) {
            let all: Vec<_> = of.iter().map(|&(standing, in_flight)| Candidate {
                standing: [Ready, LastResort, Out][usize::from(standing)],
                in_flight,
            }).collect();
            let wanted = if all.iter().any(|c| c.standing == Ready) { Ready } else { LastResort };
            let fits = |c: &&Candidate| {
                c.standing == wanted && limit.is_none_or(|limit| c.in_flight < limit)
            };
            match least_in_flight(&all, limit, tie) {
                Ok(index) => {
                    prop_assert!(fits(&&all[index]));
                    let least = all.iter().filter(fits).map(|c| c.in_flight).min();
                    prop_assert_eq!(Some(all[index].in_flight), least);
                }
                Err(error) => {
                    prop_assert_eq!(all.iter().filter(fits).count(), 0);
                    let in_service = all.iter().any(|c| c.standing == wanted);
                    prop_assert_eq!(error == NoChoice::Saturated, in_service);
                }
            }
        }
    }
}
