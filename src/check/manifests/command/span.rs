//! Durations as command lines write them.

use std::time::Duration;

/// The longest that is taken for meant: a year.
pub(super) const LONGEST: u64 = 366 * 24 * 3600;

/// `10`, `2.5`, `10s`, `2m`, `1h`, `1d`, `80s`, `1m30s`, `250ms`.
pub(super) fn span(text: &str) -> Option<Duration> {
    let span = match text.parse::<f64>() {
        Ok(number) => Duration::try_from_secs_f64(number).ok()?,
        Err(_) => match humantime::parse_duration(text) {
            Ok(span) => span,
            // `sleep 1.5m`
            Err(_) => {
                let end = text.len().checked_sub(1).filter(|&end| text.is_char_boundary(end))?;
                let unit = match &text[end..] {
                    "s" => 1.0,
                    "m" => 60.0,
                    "h" => 3600.0,
                    "d" => 86400.0,
                    _ => return None,
                };
                Duration::try_from_secs_f64(text[..end].parse::<f64>().ok()? * unit).ok()?
            }
        },
    };
    (span.as_secs() <= LONGEST).then_some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_form_is_read() {
        for (text, millis) in [
            ("10", 10_000),
            ("2.5", 2_500),
            ("80s", 80_000),
            ("1m30s", 90_000),
            ("1.5m", 90_000),
            ("250ms", 250),
        ] {
            assert_eq!(span(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "-1", "x", "nan", "inf", "1e300", "é", "999999999"] {
            assert_eq!(span(text), None, "{text}");
        }
    }
}
