//! Durations whose order matters. A default never contradicts a value that was written: only
//! written values do, except in the drain, whose sum must fit whatever it is made of.

use crate::config::errors::Report;
use crate::config::raw::RawConfig;
use humantime::format_duration;
use std::time::Duration;

pub(super) fn check(raw: &RawConfig, report: &Report<'_>) {
    let t = &raw.timeouts;
    let first_byte = ("timeouts.first_byte", t.first_byte);
    at_most(("timeouts.head_hold", t.head_hold), first_byte, report);
    at_most(("timeouts.connect", t.connect), first_byte, report);
    if let Some(total) = t.total {
        at_most(first_byte, ("timeouts.total", total), report);
        at_most(("timeouts.stream_idle", t.stream_idle), ("timeouts.total", total), report);
    }
    let slo = &raw.slo;
    at_most(("slo.ttft", slo.ttft), ("slo.e2e", slo.e2e), report);
    drain(raw, report);
}

/// Report `shorter` if it is longer than `longer` and both are written.
fn at_most(shorter: (&str, Duration), longer: (&str, Duration), report: &Report<'_>) {
    if shorter.1 > longer.1 && report.written(shorter.0) && report.written(longer.0) {
        let most = format_duration(longer.1);
        report.contradiction(
            shorter.0,
            &[longer.0],
            format!("longer than {} ({most}), so it would never take effect", longer.0),
            format!("write at most {most}, or raise {}", longer.0),
        );
    }
}

fn drain(raw: &RawConfig, report: &Report<'_>) {
    let drain = &raw.drain;
    let spent = drain.propagation + drain.cut_margin;
    if drain.deadline <= spent {
        report.contradiction(
            "drain.deadline",
            &["drain.propagation", "drain.cut_margin"],
            format!(
                "no time to drain: {} are over after propagation {} and cut_margin {}",
                format_duration(drain.deadline),
                format_duration(drain.propagation),
                format_duration(drain.cut_margin)
            ),
            format!("write more than {}", format_duration(spent)),
        );
    }
}
