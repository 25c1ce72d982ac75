//! Numbers, durations, sizes: everything with a range.

use super::Wrong;
use crate::config::yaml::Value;
use humantime::{format_duration, parse_duration};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A whole number within `range`.
pub(in crate::config) fn whole<T>(range: RangeInclusive<T>) -> impl Fn(&Value) -> Result<T, Wrong>
where
    T: TryFrom<i128> + PartialOrd + Display,
{
    move |value| {
        let remedy = format!("write a whole number from {} to {}", range.start(), range.end());
        let number = match value {
            Value::Int(number) => number,
            Value::Float(_) => return Err(Wrong::new("not a whole number", remedy)),
            other => {
                return Err(Wrong::new(format!("expected a number, got {}", other.kind()), remedy));
            }
        };
        match T::try_from(*number) {
            Ok(number) if range.contains(&number) => Ok(number),
            _ => Err(Wrong::new("out of range", remedy)),
        }
    }
}

/// A duration such as `150ms`, `2s` or `1m 30s` within `range`.
pub(in crate::config) fn duration(
    range: RangeInclusive<Duration>,
) -> impl Fn(&Value) -> Result<Duration, Wrong> {
    move |value| {
        let (least, most) = (format_duration(*range.start()), format_duration(*range.end()));
        let remedy = format!("write a duration with its unit, from {least} to {most}");
        match value {
            Value::Text(text) => match parse_duration(text) {
                Ok(duration) if range.contains(&duration) => Ok(duration),
                Ok(_) => Err(Wrong::new("out of range", remedy)),
                Err(_) => Err(Wrong::new("not a duration", remedy)),
            },
            Value::Int(0) if range.start().is_zero() => Ok(Duration::ZERO),
            Value::Int(0) => Err(Wrong::new("out of range", remedy)),
            Value::Int(_) | Value::Float(_) => Err(Wrong::new("a duration without unit", remedy)),
            other => Err(Wrong::new(format!("expected a duration, got {}", other.kind()), remedy)),
        }
    }
}

/// Units of a size; the binary ones first, so that a size is shown in them.
const UNITS: [(&str, usize); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// A size such as `64KiB`, `16MiB` or a plain number of bytes, within `range`.
pub(in crate::config) fn size(
    range: RangeInclusive<usize>,
) -> impl Fn(&Value) -> Result<usize, Wrong> {
    move |value| {
        let (least, most) = (show_size(*range.start()), show_size(*range.end()));
        let remedy =
            format!("write a size from {least} to {most}; units: B, KB, KiB, MB, MiB, GB, GiB");
        let bytes = match value {
            Value::Int(bytes) => usize::try_from(*bytes).ok(),
            Value::Text(text) => match parse_size(text) {
                Ok(bytes) => bytes,
                Err(()) => return Err(Wrong::new("not a size", remedy)),
            },
            other => {
                return Err(Wrong::new(format!("expected a size, got {}", other.kind()), remedy));
            }
        };
        bytes
            .filter(|bytes| range.contains(bytes))
            .ok_or_else(|| Wrong::new("out of range", remedy))
    }
}

/// `Err`: not a size; `Ok(None)`: one that no number here can hold.
fn parse_size(text: &str) -> Result<Option<usize>, ()> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = (&text[..digits], text[digits..].trim());
    if number.is_empty() {
        return Err(());
    }
    let scale = match unit {
        "" => 1,
        unit => UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or(())?.1,
    };
    Ok(number.parse::<usize>().ok().and_then(|number| number.checked_mul(scale)))
}

fn show_size(bytes: usize) -> String {
    let exact =
        UNITS[..3].iter().find(|(_, scale)| bytes >= *scale && bytes.is_multiple_of(*scale));
    match exact {
        Some((unit, scale)) => format!("{}{unit}", bytes / scale),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn problem<T: std::fmt::Debug>(result: Result<T, Wrong>) -> String {
        result.unwrap_err().problem
    }

    #[test]
    fn whole_numbers_stay_in_their_range() {
        let read = whole(1..=5_u32);
        assert_eq!(read(&Value::Int(1)), Ok(1));
        assert_eq!(read(&Value::Int(5)), Ok(5));
        assert_eq!(problem(read(&Value::Int(0))), "out of range");
        assert_eq!(problem(read(&Value::Int(-1))), "out of range");
        assert_eq!(problem(read(&Value::Int(1 << 40))), "out of range");
        assert_eq!(problem(read(&Value::Float(2.0))), "not a whole number");
        assert_eq!(problem(read(&text("3"))), "expected a number, got text");
    }

    #[test]
    fn durations_need_a_unit_and_a_range() {
        let read = duration(Duration::from_millis(10)..=Duration::from_secs(60));
        assert_eq!(read(&text("150ms")), Ok(Duration::from_millis(150)));
        assert_eq!(read(&text("1m")), Ok(Duration::from_secs(60)));
        assert_eq!(problem(read(&text("61s"))), "out of range");
        assert_eq!(problem(read(&text("0s"))), "out of range");
        assert_eq!(problem(read(&Value::Int(5))), "a duration without unit");
        assert_eq!(problem(read(&text("soon"))), "not a duration");
        let zero_allowed = duration(Duration::ZERO..=Duration::from_secs(1));
        assert_eq!(zero_allowed(&Value::Int(0)), Ok(Duration::ZERO));
        assert_eq!(zero_allowed(&text("0s")), Ok(Duration::ZERO));
    }

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        let read = size(1..=1 << 30);
        assert_eq!(read(&text("16MiB")), Ok(16 << 20));
        assert_eq!(read(&text("64 KiB")), Ok(64 << 10));
        assert_eq!(read(&text("5kb")), Ok(5000));
        assert_eq!(read(&Value::Int(4096)), Ok(4096));
        assert_eq!(problem(read(&text("0MiB"))), "out of range");
        assert_eq!(problem(read(&text("99999999999999999999GiB"))), "out of range");
        assert_eq!(problem(read(&text("MiB"))), "not a size");
        assert_eq!(problem(read(&text("1 parsec"))), "not a size");
        assert_eq!(problem(read(&Value::Bool(true))), "expected a size, got a boolean");
    }

    #[test]
    fn sizes_are_shown_in_the_largest_exact_unit() {
        assert_eq!(show_size(1 << 30), "1GiB");
        assert_eq!(show_size(1536), "1536B");
        assert_eq!(show_size(3 << 10), "3KiB");
    }
}
