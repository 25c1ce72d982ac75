//! How many replicas a rollout or an eviction may take at once.

/// `maxSurge`, `maxUnavailable`, `minAvailable`: a number, or a share of the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    Count(u32),
    /// 0 to 100 where it makes sense; larger values are taken as they are.
    Percent(u32),
}

impl Amount {
    fn up(self, replicas: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => {
                let share = (u64::from(percent) * u64::from(replicas)).div_ceil(100);
                u32::try_from(share).unwrap_or(u32::MAX)
            }
        }
    }

    fn down(self, replicas: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => {
                let share = u64::from(percent) * u64::from(replicas) / 100;
                u32::try_from(share).unwrap_or(u32::MAX)
            }
        }
    }
}

/// A rolling update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// Rounded up.
    pub surge: Amount,
    /// Rounded down, but 1 if both come to nothing.
    pub unavailable: Amount,
}

impl Default for Rollout {
    /// What a Deployment does if nothing is written.
    fn default() -> Self {
        Self { surge: Amount::Percent(25), unavailable: Amount::Percent(25) }
    }
}

impl Rollout {
    /// Pods beyond `replicas`, each with what it needs, such as a GPU.
    pub fn spare(&self, replicas: u32) -> u32 {
        self.surge.up(replicas)
    }

    /// Replicas that may be away at once.
    pub fn away(&self, replicas: u32) -> u32 {
        match (self.surge.up(replicas), self.unavailable.down(replicas)) {
            (0, 0) => 1,
            (_, away) => away,
        }
    }

    /// Nothing may be added and nothing may go: Kubernetes refuses it when both are written 0.
    pub fn is_stuck(&self) -> bool {
        let zero = |amount| matches!(amount, Amount::Count(0) | Amount::Percent(0));
        zero(self.surge) && zero(self.unavailable)
    }

    /// No replica may be left at some moment.
    pub fn leaves_none(&self, replicas: u32) -> bool {
        replicas > 0 && self.away(replicas) >= replicas
    }
}

/// What a PodDisruptionBudget allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disruption {
    MinAvailable(Amount),
    MaxUnavailable(Amount),
}

impl Disruption {
    /// Replicas that may be evicted while all `replicas` are healthy. Both forms round up.
    pub fn allowed(self, replicas: u32) -> u32 {
        match self {
            Self::MinAvailable(least) => replicas.saturating_sub(least.up(replicas)),
            Self::MaxUnavailable(most) => most.up(replicas).min(replicas),
        }
    }

    /// No eviction is ever allowed, so a node of these pods can never be emptied.
    pub fn blocks(self, replicas: u32) -> bool {
        replicas > 0 && self.allowed(replicas) == 0
    }
}
