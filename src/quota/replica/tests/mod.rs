//! The machine alone, and fleets of machines over the pure semantics of the store.

mod fleet;
mod late;
mod limits;
mod queue;
mod random;
mod rules;
mod wire;

use super::*;
use crate::config::{OnFence, WhenUnavailable};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn params(when_unavailable: WhenUnavailable, on_fence: OnFence) -> Params {
    Params {
        times: Times::of(Duration::from_secs(3)),
        operation_timeout: 50 * MS,
        when_unavailable,
        on_fence,
        floors: None,
    }
}

fn with_floors(percent: u32, per_replica: u32) -> Params {
    let times = Times::of(Duration::from_secs(12));
    let floors = Some(Floors { percent, per_replica, times });
    Params { floors, ..params(WhenUnavailable::Escrow, OnFence::Cut) }
}
