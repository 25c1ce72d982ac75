//! What the kernel says about a process.

use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;

/// Processor time of all live threads of `pid` so far, user and system, in nanoseconds
/// (`/proc/PID/task/TID/schedstat`, first field). The tick-based figures of `/proc/PID/stat` are
/// the same sum rounded to 10 ms, too coarse for a block of half a second.
pub fn cpu(pid: u32) -> Result<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).context("the process is gone")? {
        let path = thread?.path().join("schedstat");
        // A thread may end between the listing and this.
        let Ok(line) = fs::read_to_string(&path) else { continue };
        let first = line.split_whitespace().next().context("schedstat is empty")?;
        nanos += first.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
}

/// Resident memory of `pid` in bytes (`VmRSS`).
pub fn resident(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).context("no VmRSS")?;
    Ok(kib.parse::<u64>()? * 1024)
}
