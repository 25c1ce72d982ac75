//! Faults for requests to come.

use std::collections::VecDeque;
use std::sync::Mutex;

use super::Faults;
use crate::sync::lock;

/// Faults for the next requests.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultRule {
    /// What goes wrong.
    pub faults: Faults,
    /// The path it is for; `None`: the generation paths.
    pub path: Option<String>,
    /// For how many requests; `None`: until cleared.
    pub times: Option<u32>,
}

impl Default for FaultRule {
    fn default() -> Self {
        Self { faults: Faults::default(), path: None, times: Some(1) }
    }
}

impl From<Faults> for FaultRule {
    fn from(faults: Faults) -> Self {
        Self { faults, ..Self::default() }
    }
}

impl FaultRule {
    /// These faults for every request from now on.
    #[must_use]
    pub fn always(faults: Faults) -> Self {
        Self { faults, path: None, times: None }
    }

    /// The same rule, for one path only.
    #[must_use]
    pub fn on_path(self, path: &str) -> Self {
        Self { path: Some(path.to_owned()), ..self }
    }

    fn matches(&self, path: &str, generation: bool) -> bool {
        self.path.as_deref().map_or(generation, |p| p == path)
    }
}

/// Rules in the order they were set. The first that matches is used; a used-up rule goes.
#[derive(Debug, Default)]
pub(crate) struct FaultQueue(Mutex<VecDeque<FaultRule>>);

impl FaultQueue {
    pub(crate) fn push(&self, rule: FaultRule) {
        lock(&self.0).push_back(rule);
    }

    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }

    pub(crate) fn take(&self, path: &str, generation: bool) -> Option<Faults> {
        let mut rules = lock(&self.0);
        let at = rules.iter().position(|r| r.matches(path, generation))?;
        use_up(&mut rules, at)
    }

    /// If the first rule for any generation path is a refusal, uses it for a connection.
    pub(crate) fn take_refusal(&self) -> Option<Faults> {
        let mut rules = lock(&self.0);
        let at = rules.iter().position(|r| r.path.is_none())?;
        rules[at].faults.refuse.then(|| use_up(&mut rules, at)).flatten()
    }
}

fn use_up(rules: &mut VecDeque<FaultRule>, at: usize) -> Option<Faults> {
    let rule = rules.get_mut(at)?;
    let faults = rule.faults.clone();
    if let Some(times) = &mut rule.times {
        *times = times.saturating_sub(1);
        if *times == 0 {
            rules.remove(at);
        }
    }
    Some(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16) -> FaultRule {
        Faults { status: Some(code), ..Faults::default() }.into()
    }

    fn taken(queue: &FaultQueue, path: &str, generation: bool) -> Option<u16> {
        queue.take(path, generation).and_then(|f| f.status)
    }

    #[test]
    fn rules_are_used_in_order_and_as_often_as_they_say() {
        let queue = FaultQueue::default();
        queue.push(FaultRule { times: Some(2), ..status(500) });
        queue.push(status(502));
        queue.push(FaultRule { times: None, ..status(503) }.on_path("/health"));
        let next = || taken(&queue, "/v1/completions", true);
        assert_eq!([next(), next(), next(), next()], [Some(500), Some(500), Some(502), None]);
        for _ in 0..3 {
            assert_eq!(taken(&queue, "/health", false), Some(503));
        }
        assert_eq!(taken(&queue, "/version", false), None);
        queue.clear();
        assert_eq!(taken(&queue, "/health", false), None);
    }

    #[test]
    fn only_a_refusal_at_the_front_meets_a_connection() {
        let queue = FaultQueue::default();
        queue.push(status(500));
        queue.push(Faults { refuse: true, ..Faults::default() }.into());
        assert_eq!(queue.take_refusal(), None);
        assert_eq!(taken(&queue, "/x", true), Some(500));
        assert!(queue.take_refusal().is_some_and(|f| f.refuse));
        assert_eq!(queue.take_refusal(), None);
    }
}
