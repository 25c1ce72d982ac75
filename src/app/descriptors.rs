//! How the file descriptors of this process are shared out, so that a crowd at one door does not
//! lock another: clients cannot take those for engines, neither can take those for the admin port
//! and for this process itself.

use crate::admin::MAX_CONNECTIONS as ADMIN;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More is not asked for: Linux allows no process more by default (`fs.nr_open`).
const ENOUGH: u64 = 1 << 20;
/// Listeners, the runtime, log and record files, the quota store, the files of a reload.
const OWN: usize = 32;
/// Idle engine connections kept over all engines.
const IDLE: usize = 1024;

/// Connections of each kind that may be open at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptors {
    /// What is shared out.
    pub limit: usize,
    pub clients: usize,
    /// Engine connections at work; one for each request that runs.
    pub engines: usize,
    /// Engine connections kept idle.
    pub idle: usize,
    pub admin: usize,
}

impl Descriptors {
    /// Raise the soft limit of this process to its hard limit, and share it out. `endpoints`: how
    /// many are probed, each on a connection of its own.
    pub fn of_process(endpoints: usize) -> Self {
        let limit = usize::try_from(raised()).unwrap_or(usize::MAX);
        Self::share(limit, endpoints)
    }

    /// Of what is left, four parts in nine for clients, as many for engines, since each client may
    /// have a request there, and one for idle engine connections.
    fn share(limit: usize, endpoints: usize) -> Self {
        let admin = (limit / 16).clamp(4, ADMIN);
        let own = OWN.saturating_add(endpoints).min(limit / 4);
        let rest = limit.saturating_sub(admin + own);
        let clients = (rest / 9 * 4).max(1);
        let idle = (rest / 9).min(IDLE);
        let engines = rest.saturating_sub(clients + idle).max(1);
        Self { limit, clients, engines, idle, admin }
    }
}

/// The soft limit, after it was raised as far as it goes.
fn raised() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let (current, most) = (current.unwrap_or(ENOUGH), maximum.unwrap_or(ENOUGH).min(ENOUGH));
    if current >= most {
        return current.min(ENOUGH);
    }
    let more = Rlimit { current: Some(most), maximum };
    if setrlimit(Resource::Nofile, more).is_ok() { most } else { current }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_share_and_the_sum_fits() {
        for limit in [16, 64, 256, 1024, 20_000, 1 << 20] {
            for endpoints in [1, 100] {
                let shares = Descriptors::share(limit, endpoints);
                let Descriptors { clients, engines, idle, admin, .. } = shares;
                assert!(clients > 0 && engines >= clients && admin > 0, "{shares:?}");
                let sum = clients + engines + idle + admin;
                assert!(sum + (OWN + endpoints).min(limit / 4) <= limit, "{shares:?}");
            }
        }
        let usual = Descriptors::share(1024, 2);
        assert_eq!((usual.clients, usual.engines, usual.idle, usual.admin), (408, 416, 102, 64));
    }

    #[test]
    fn the_limit_is_raised_to_what_is_allowed() {
        let shares = Descriptors::of_process(1);
        let Rlimit { current, .. } = getrlimit(Resource::Nofile);
        assert_eq!(shares.limit as u64, current.unwrap().min(ENOUGH));
    }
}
