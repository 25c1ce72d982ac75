//! Durations as people write them: `60s`, `150ms`, `1m 30s`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::clock::{Micros, micros};

/// A duration of virtual time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    /// That many milliseconds.
    #[must_use]
    pub const fn ms(ms: u64) -> Self {
        Self(Duration::from_millis(ms))
    }

    /// In microseconds.
    #[must_use]
    pub fn micros(self) -> Micros {
        micros(self.0)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", humantime::format_duration(self.0))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let parsed = humantime::parse_duration(text.trim());
        parsed.map(Self).map_err(|e| {
            serde::de::Error::custom(format!("{text:?} is no duration (as 150ms, 30s, 2m): {e}"))
        })
    }
}
