//! What the configuration grants a tenant, validated. Policies are immutable; a reload replaces
//! them while the counts they govern stay where they are.

use super::ids::{ModelName, PoolId, TenantId};
use std::time::Duration;

/// One tenant's rights and limits.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantPolicy {
    pub id: TenantId,
    /// Requests of this tenant that may run at engines at once, over all replicas; at least 1.
    pub max_in_flight: u32,
    /// The configuration this is from: higher for a newer one.
    pub revision: Revision,
    pub on_limit: OnLimit,
    pub models: ModelSet,
    /// The only pool this tenant is served by, if it is pinned to one.
    pub pool: Option<PoolId>,
    pub mode: Mode,
    /// Whether the tenant may choose the upstream gateway's `routing-strategy` by header.
    pub may_route: bool,
}

/// Which configuration a value is from: the higher number is the newer one. It says when, not
/// what: **any two are equal**, so that configurations and policies that differ in nothing else
/// compare equal and a reload of the same text changes nothing.
///
/// The number is a moment in ms on a clock of this machine that nobody sets (it begins long before
/// the machine started, so that older files have a number too), or a small number for a
/// configuration without a date. Another machine's numbers say something only
/// [on a clock that both know](Self::on_clock_of).
#[derive(Clone, Copy, Debug, Eq)]
pub struct Revision(u64);

impl Revision {
    /// The revision of a configuration that was not read from a file.
    pub const FIRST: Self = Self(1);

    /// ms: 317 years, more than the age of any file.
    const BEFORE_BOOT: u64 = 10_000_000_000_000;
    /// Dated numbers begin here.
    const DATED: u64 = 1_000_000_000_000;

    /// The revision `number`; 0 counts as 1.
    pub const fn new(number: u64) -> Self {
        Self(if number == 0 { 1 } else { number })
    }

    /// That of a configuration which came to its place `age` before `now`, the time since this
    /// machine started.
    pub fn dated(now: Duration, age: Duration) -> Self {
        let moment = ms(now).saturating_add(Self::BEFORE_BOOT).saturating_sub(ms(age));
        Self(moment.max(Self::DATED))
    }

    /// Its number, at least 1.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Its number for a store whose clock showed `theirs` (the time since its epoch) when it was
    /// `ours` since this machine started; at least 1. What has no date keeps its number. A file
    /// that came to its place at one moment has about the same number from every machine, whatever
    /// their wall clocks show.
    pub fn on_clock_of(self, theirs: Duration, ours: Duration) -> u64 {
        if self.0 < Self::DATED {
            return self.0;
        }
        // It may be from before or after that moment.
        let ours = ms(ours).saturating_add(Self::BEFORE_BOOT);
        ms(theirs).saturating_add(self.0).saturating_sub(ours).max(1)
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl PartialEq for Revision {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A pool's cap over all tenants, as one configuration says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolCap {
    /// Requests of the pool that may run at once, over all replicas; `None`: no cap.
    pub max_in_flight: Option<u32>,
    /// The configuration this is from.
    pub revision: Revision,
}

/// What happens to a request above the cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLimit {
    /// Refused at once with `tenant_in_flight`.
    Reject,
    /// Waits in the tenant's queue: at most `max_depth` waiters, each at most `max_wait`.
    Queue { max_depth: u32, max_wait: Duration },
}

/// Whether decisions are enforced or only counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Enforce,
    /// Decide, count and log, never refuse.
    Shadow,
}

/// The models a tenant may use or a pool serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSet {
    /// `"*"`.
    Any,
    Only(Vec<ModelName>),
}

impl ModelSet {
    /// Whether `model` is in the set.
    pub fn contains(&self, model: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(names) => names.iter().any(|name| name.as_str() == model),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn machines_that_started_at_different_times_date_alike() {
        // The store shows 1000 days when one machine has run for 50 days and another for a minute.
        let (old, young) = (50 * DAY, 60 * SECOND);
        let number = |up, age| Revision::dated(up, age).on_clock_of(1000 * DAY, up);
        assert_eq!(number(old, 2 * DAY), number(young, 2 * DAY), "older than the young machine");
        assert_eq!(number(young, SECOND), 86_399_999_000);
        assert!(number(old, SECOND) > number(young, 2 * SECOND));
    }

    #[test]
    fn a_file_that_comes_after_the_clocks_were_compared_is_dated_by_them() {
        let later = Revision::dated(70 * SECOND, Duration::ZERO);
        assert_eq!(later.on_clock_of(1000 * SECOND, 60 * SECOND), 1_010_000);
        let before = Revision::dated(50 * SECOND, Duration::ZERO);
        assert_eq!(before.on_clock_of(1000 * SECOND, 60 * SECOND), 990_000);
    }

    #[test]
    fn what_has_no_date_is_older_than_what_has_one() {
        assert_eq!(Revision::FIRST.on_clock_of(DAY, SECOND), 1);
        assert_eq!(Revision::new(7).on_clock_of(DAY, SECOND), 7);
        let ancient = Revision::dated(SECOND, Duration::MAX);
        assert!(ancient.number() > Revision::new(7).number());
        assert_eq!(ancient.on_clock_of(DAY, SECOND), 1, "from before the store's epoch");
    }
}
