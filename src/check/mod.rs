//! L3: what can be proven before anything runs. [`configuration`] validates a file and reports
//! everything that is wrong with it, for people or as JSON; [`manifests`] does the same for the
//! Kubernetes manifests it will run with, and proves their shutdown budget.
//!
//! The JSON is one object; `errors` is empty exactly if the file is valid, `summary` is null
//! exactly if it is not (or none was named), and unknown parts of an error are null. `manifests`
//! is there exactly if manifests were checked:
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
//!   "summary": {"tenants": 2, "pools": 1, "endpoints": 2},
//!   "manifests": {
//!     "ok": true,
//!     "workloads": [{
//!       "document": "vllm.yaml", "object": "StatefulSet llm/vllm", "container": "vllm",
//!       "key": "spec.template.spec.terminationGracePeriodSeconds",
//!       "role": "vLLM", "grace_seconds": 180.0, "longest_stream_seconds": 95.0,
//!       "timeline": [{"at_seconds": 0.0, "event": "…"}]
//!     }],
//!     "findings": [{
//!       "level": "warning", "code": "pdb-missing",
//!       "document": "vllm.yaml", "object": "StatefulSet llm/vllm", "container": null, "key": "",
//!       "problem": "…", "remedy": "…"
//!     }],
//!     "unreadable": [{"document": "other.yaml", "problem": "…"}]
//!   }
//! }
//! ```
//!
//! Secrets are never shown; a `value` that may be one is `***`.

mod manifests;
mod report;

pub use manifests::{Finding, Level, ManifestReport, Place, Timeline, Unreadable};
pub use report::{Report, Summary};

use crate::config::Config;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Validate the configuration in `file`. Reads it and the files it names; starts nothing.
pub fn configuration(file: &Path) -> Report {
    let outcome = Config::load(file).map(|config| Summary::of(&config));
    Report::new(file, outcome)
}

/// Check manifests: files, folders, and `stdin` where a path is `-`. `config`, if named, is
/// validated too, and used for replicas whose ConfigMap is not among the manifests; with
/// manifests it describes a process elsewhere, so the files it names are not read.
pub fn manifests(config: Option<&Path>, paths: &[PathBuf], stdin: &mut dyn Read) -> Report {
    let loaded = config.map(|file| (file, Config::load_elsewhere(file)));
    let valid = loaded.as_ref().and_then(|(_, config)| config.as_ref().ok());
    let found = manifests::check(paths, stdin, valid);
    let report = match loaded {
        Some((file, outcome)) => Report::new(file, outcome.map(|config| Summary::of(&config))),
        None => Report::of_none(),
    };
    report.with(found)
}
