//! What only several values together can tell.
//!
//! Every rule reports with [`Report::contradiction`](super::errors::Report::contradiction),
//! naming all values it looked at, so that it stays silent where one of them is already in error.

mod identity;
mod keys;
mod limits;
mod listen;
mod pools;
mod quota;
mod serving;
mod tenants;
mod timing;

use super::errors::Report;
use super::raw::RawConfig;

/// Check everything.
pub(super) fn check(raw: &RawConfig, report: &Report<'_>) {
    listen::check(raw, report);
    pools::check(raw, report);
    tenants::check(raw, report);
    keys::check(raw, report);
    serving::check(raw, report);
    identity::check(raw, report);
    timing::check(raw, report);
    limits::check(raw, report);
    quota::check(raw, report);
}
