//! Virtual time: real time since the start, multiplied by the time scale.
//!
//! Deadlines are absolute (`start + virtual / scale`), so a late wake-up delays one event and
//! never the ones after it.

use crate::clock::TimeScale;
use std::time::{Duration, Instant};

/// Nanoseconds of virtual time since the engine started.
pub type Virtual = u64;

/// Maps between real and virtual time.
#[derive(Debug, Clone, Copy)]
pub struct Clock(TimeScale);

impl Clock {
    /// Virtual time 0 is `origin`; it then runs `scale` times as fast as real time.
    /// A scale below 1 or not a number counts as 1.
    #[must_use]
    pub fn new(origin: Instant, scale: f64) -> Self {
        Self(TimeScale::new(origin, if scale.is_finite() && scale >= 1.0 { scale } else { 1.0 }))
    }

    /// The virtual time of a moment; 0 before the start.
    #[must_use]
    pub fn at(&self, moment: Instant) -> Virtual {
        to_nanos(self.0.seconds(moment))
    }

    /// The virtual time now.
    #[must_use]
    pub fn now(&self) -> Virtual {
        self.at(Instant::now())
    }

    /// The real moment of a virtual time.
    #[must_use]
    pub fn real(&self, at: Virtual) -> Instant {
        self.0.moment(at as f64 / 1e9)
    }

    /// How long a virtual duration takes in real time.
    #[must_use]
    pub fn real_duration(&self, length: Duration) -> Duration {
        self.0.real_duration(length)
    }
}

/// Seconds to nanoseconds, rounded; negative counts as 0.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a float saturates"
)]
pub fn to_nanos(seconds: f64) -> Virtual {
    (seconds * 1e9).round() as Virtual
}

/// A duration as virtual nanoseconds; saturates after 584 years.
#[must_use]
pub fn nanos(length: Duration) -> Virtual {
    Virtual::try_from(length.as_nanos()).unwrap_or(Virtual::MAX)
}
