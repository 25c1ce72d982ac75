//! What an answer brings.

use memchr::memmem::Finder;
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads the body of an answer as it comes: counts events, and takes from each how long ago the
/// engine made it.
#[derive(Debug)]
pub struct Answer {
    carry: Vec<u8>,
    end: Finder<'static>,
    content: Finder<'static>,
    pub events: u64,
    /// Nanoseconds from the engine's stamp to the arrival here, one for each event with content.
    pub delays: Vec<u64>,
}

impl Answer {
    pub fn new() -> Self {
        Self {
            carry: Vec::new(),
            end: Finder::new(b"\n\n"),
            content: Finder::new(br#""content":""#),
            events: 0,
            delays: Vec::new(),
        }
    }

    /// Bytes of the body that have just arrived.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let now = unix_nanos();
        self.carry.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(length) = self.end.find(&self.carry[at..]) {
            self.events += 1;
            if let Some(stamp) = self.stamp(&self.carry[at..at + length]) {
                self.delays.push(now.saturating_sub(stamp));
            }
            at += length + 2;
        }
        self.carry.drain(..at);
    }

    /// The answer has ended; forget what is not an event.
    pub fn end(&mut self) {
        self.carry.clear();
    }

    fn stamp(&self, event: &[u8]) -> Option<u64> {
        let start = self.content.find(event)? + self.content.needle().len();
        let digits = event[start..].iter().take_while(|byte| byte.is_ascii_digit());
        let (stamp, length) =
            digits.fold((0, 0), |(stamp, n), byte| (stamp * 10 + u64::from(byte - b'0'), n + 1));
        (length == 19).then_some(stamp)
    }
}

/// The clock of the engine's stamps.
fn unix_nanos() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
