//! Durations as command lines write them.

use std::time::Duration;

/// The longest that is taken for meant: a year.
pub(super) const LONGEST: u64 = 366 * 24 * 3600;

/// `10`, `2.5`, `10s`, `1.5m`, `1h`, `1d`: what `sleep` and `timeout` take. Nothing else is a
/// duration to them.
pub(super) fn span(text: &str) -> Option<Duration> {
    let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)];
    let unit = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)));
    let (number, unit) = unit.unwrap_or((text, 1.0));
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let seconds = number.parse::<f64>().ok().filter(|_| plain)? * unit;
    Duration::try_from_secs_f64(seconds).ok().filter(|span| span.as_secs() <= LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_form_is_read() {
        for (text, millis) in
            [("10", 10_000), ("2.5", 2_500), ("80s", 80_000), ("1.5m", 90_000), (".25", 250)]
        {
            assert_eq!(span(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "s",
            "1m30s",
            "250ms",
            "10sec",
            "10 s",
            "-1",
            "x",
            "nan",
            "inf",
            "1e300",
            "é",
            "999999999",
        ] {
            assert_eq!(span(text), None, "{text}");
        }
    }
}
