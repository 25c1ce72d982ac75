//! The figures as Markdown.

use crate::figures::{Middle, Round, middle};
use crate::memory::STREAMS;
use crate::run::{Measured, Memory};
use std::fmt::Write as _;

/// Medians over the rounds; in parentheses the middle half of the rounds.
pub fn overhead(measured: &[Measured]) -> String {
    let mut text = String::from(
        "| case | CPU bare, µs | CPU Streamgate, µs | ratio | added p50 bare, µs | added p50 \
         Streamgate, µs | added p99 bare, µs | added p99 Streamgate, µs | rate, bare = 1 |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for case in measured {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", row(case));
    }
    text.push_str(
        "\nCPU: of the proxy's process, for each request or each event. Added: to the same round's \
         direct path. Medians over the rounds, in parentheses the middle half of them.\n",
    );
    text
}

fn row(measured: &Measured) -> String {
    let Measured { case, direct, bare, gate } = measured;
    let ratio = |of: fn(&Round) -> f64| middle(pairs(gate, bare, |g, b| of(g) / of(b)));
    let added = |path: &[Round], of: fn(&Round) -> f64| {
        if case.is_paced() {
            figure(middle(pairs(path, direct, |p, d| of(p) - of(d))), 0)
        } else {
            "–".into()
        }
    };
    let unit = if case.is_stream() { "event" } else { "request" };
    let cpu = |path: &[Round]| figure(middle(path.iter().map(|round| round.cpu)), 1);
    let rate = if case.is_stream() && case.is_paced() {
        "–".to_owned()
    } else {
        figure(ratio(|round| round.rate), 2)
    };
    [
        format!("| {} (each {unit})", case.name),
        cpu(bare),
        cpu(gate),
        format!("**{}**", figure(ratio(|round| round.cpu), 2)),
        added(bare, |round| round.p50),
        added(gate, |round| round.p50),
        added(bare, |round| round.p99),
        added(gate, |round| round.p99),
        format!("{rate} |"),
    ]
    .join(" | ")
}

fn pairs<'a>(
    a: &'a [Round],
    b: &'a [Round],
    of: impl Fn(&Round, &Round) -> f64 + 'a,
) -> impl Iterator<Item = f64> + 'a {
    a.iter().zip(b).map(move |(a, b)| of(a, b))
}

/// Resident memory of each idle stream.
pub fn memory(memory: &Memory) -> String {
    let kib = |bytes: &[f64]| figure(middle(bytes.iter().map(|bytes| bytes / 1024.0)), 1);
    let ratio = middle(memory.gate.iter().zip(&memory.bare).map(|(gate, bare)| gate / bare));
    format!(
        "| memory | bare, KiB | Streamgate, KiB | ratio |\n|---|--:|--:|--:|\n\
         | each of {STREAMS} idle streams (HTTP/1.1) | {} | {} | **{}** |\n",
        kib(&memory.bare),
        kib(&memory.gate),
        figure(ratio, 2),
    )
}

fn figure(middle: Middle, digits: usize) -> String {
    let Middle { median, low, high } = middle;
    format!("{median:.digits$} ({low:.digits$}–{high:.digits$})")
}
