//! L3: what can be proven before anything runs. [`configuration`] validates a file and reports
//! everything that is wrong with it, for people or as JSON.
//!
//! The JSON is one object; `errors` is empty exactly if `ok` is true, `summary` is null exactly
//! if it is false, and unknown parts of an error are null:
//!
//! ```json
//! {
//!   "ok": false,
//!   "file": "streamgate.yaml",
//!   "errors": [
//!     {
//!       "path": "tenants[1].max_in_flight",
//!       "line": 12,
//!       "value": "0",
//!       "problem": "out of range",
//!       "remedy": "write a whole number from 1 to 1000000"
//!     }
//!   ],
//!   "summary": {"tenants": 2, "pools": 1, "endpoints": 2}
//! }
//! ```
//!
//! Secrets are never shown; a `value` that may be one is `***`.

mod report;

pub use report::{Report, Summary};

use crate::config::Config;
use std::path::Path;

/// Validate the configuration in `file`. Reads it and the files it names; starts nothing.
pub fn configuration(file: &Path) -> Report {
    let outcome = Config::load(file).map(|config| Summary::of(&config));
    Report::new(file, outcome)
}
