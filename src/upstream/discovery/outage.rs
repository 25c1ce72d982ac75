//! An outage of a source in the log: one line when it begins, or changes its nature, and one when
//! it ends.

use crate::core::ids::PoolId;

/// What the log knows.
#[derive(Debug)]
pub(super) struct Outage {
    pool: PoolId,
    /// What was logged last; `None`: all is well.
    told: Option<String>,
}

impl Outage {
    pub(super) fn new(pool: PoolId) -> Self {
        Self { pool, told: None }
    }

    /// The source cannot be asked. `remedy`: what an operator can do, if that is known.
    pub(super) fn goes_on(&mut self, error: &str, remedy: &str) {
        if self.told.as_deref() != Some(error) {
            tracing::warn!(
                pool = %self.pool, error, remedy,
                "cannot discover endpoints; those known before stay in use"
            );
            self.told = Some(error.to_owned());
        }
    }

    /// The source has answered.
    pub(super) fn is_over(&mut self) {
        if self.told.take().is_some() {
            tracing::info!(pool = %self.pool, "endpoints are discovered again");
        }
    }
}
