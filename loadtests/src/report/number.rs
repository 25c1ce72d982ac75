//! Numbers as reports show them.

use std::fmt;

/// A number with so many decimals, or "no data".
#[derive(Debug, Clone, Copy)]
pub struct Shown(Option<f64>, usize);

/// Shows a number with `decimals` digits after the point.
#[must_use]
pub fn shown(value: Option<f64>, decimals: usize) -> Shown {
    Shown(value, decimals)
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => write!(f, "{value:.*}", self.1),
            None => f.write_str("no data"),
        }
    }
}

/// Decimals that suit a figure.
pub(super) fn decimals(figure: &str) -> usize {
    match figure {
        f if f.ends_with("_ms") || f.ends_with("percent") => 1,
        f if f.starts_with("ttft") => 3,
        f if f.starts_with("e2e") || f.starts_with("broken_e2e") => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_no_data() {
        assert_eq!(shown(None, 1).to_string(), "no data");
        assert_eq!(shown(Some(0.0), 1).to_string(), "0.0");
        assert_eq!(shown(Some(40.3814), decimals("ttft_p95")).to_string(), "40.381");
    }
}
