//! Runs one configuration to exhaustion or to a bound.

use crate::model::{Action, Cfg};
use stateright::{Checker, HasDiscoveries, Model};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Where an exploration ends that is not exhausted before.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub time: Duration,
    pub states: usize,
    /// Resident memory of the process, bytes.
    pub memory: u64,
    pub threads: usize,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Found {
    pub states: usize,
    pub depth: usize,
    pub took: Duration,
    /// Every reachable state was seen (or a violation ended the search).
    pub exhausted: bool,
    /// The property that does not hold, and the steps that show it.
    pub violation: Option<(&'static str, Vec<Action>)>,
}

/// How often the bounds are looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Explores breadth first, so that a violation is shown by a shortest path (with one thread).
///
/// The bounds are watched from outside: when one is reached, the model stops having successors and
/// the checker runs dry. (The checker's own timeout is not looked at while a single thread has work.)
pub fn explore(cfg: &Cfg, bounds: &Bounds) -> Found {
    let mut cfg = cfg.clone();
    cfg.stop = std::sync::Arc::default();
    let stop = cfg.stop.clone();
    let start = Instant::now();
    let checker =
        cfg.checker().threads(bounds.threads).finish_when(HasDiscoveries::AnyFailures).spawn_bfs();
    while !checker.is_done() {
        let full = checker.unique_state_count() >= bounds.states;
        if full || start.elapsed() >= bounds.time || resident() >= bounds.memory {
            stop.store(true, Ordering::Relaxed);
        }
        pause();
    }
    let checker = checker.join();
    let bounded = stop.swap(false, Ordering::Relaxed); // paths are replayed with the model itself
    let violation = checker
        .discoveries()
        .into_iter()
        .next()
        .map(|(property, path)| (property, path.into_actions()));
    Found {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took: start.elapsed(),
        exhausted: violation.is_none() && !bounded,
        violation,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "no runtime here: the main thread watches the bounds"
)]
fn pause() {
    std::thread::sleep(LOOK);
}

/// Resident memory of this process; 0 where the system does not tell.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    pages * 4096
}
