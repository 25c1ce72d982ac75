//! The configurations that are explored: the protocol under faults, and the protocol with one rule
//! removed at a time.

mod broken;
mod broken_product;
mod holds;
mod limits;
mod product;

use crate::model::{Budget, Cfg};

/// What an exploration must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Every property holds.
    Holds,
    /// This property does not.
    Violates(&'static str),
}

/// One configuration.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: &'static str,
    /// What it is about, for the table of results.
    pub about: &'static str,
    pub expect: Expect,
    /// A rule was removed.
    pub broken: bool,
    /// Explored by `cargo test`, up to so many states.
    pub quick: Option<usize>,
    pub cfg: Cfg,
}

impl Case {
    fn new(name: &'static str, about: &'static str, expect: Expect, cfg: Cfg) -> Self {
        Self { name, about, expect, broken: false, quick: None, cfg }
    }

    /// `cargo test` explores it to the end.
    fn quick(self) -> Self {
        self.quick_up_to(150_000)
    }

    /// `cargo test` explores its first states.
    fn quick_up_to(mut self, states: usize) -> Self {
        self.quick = Some(states);
        self
    }

    /// Too large for `cargo test`.
    fn long(mut self) -> Self {
        self.quick = None;
        self
    }
}

/// Every case: first what holds, then the documented limits, then the removed rules.
pub fn all() -> Vec<Case> {
    let mut all = holds::cases();
    all.extend(product::cases());
    all.extend(limits::cases());
    let broken = broken::cases().into_iter().chain(broken_product::cases());
    all.extend(broken.map(|case| Case { broken: true, ..case }));
    all
}

fn with(mut cfg: Cfg, edit: impl FnOnce(&mut Cfg)) -> Cfg {
    edit(&mut cfg);
    cfg
}

fn budget(edit: impl FnOnce(&mut Budget)) -> Budget {
    let mut budget = Budget::default();
    edit(&mut budget);
    budget
}
