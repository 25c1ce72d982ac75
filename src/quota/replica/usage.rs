//! How many unused slots are worth holding: what one beat used up at most.

/// The use of one leaf over two windows of a beat each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    start: u32,
    peak: u32,
    last_peak: u32,
    last_rise: u32,
}

impl Usage {
    /// So many requests run or wait now.
    pub fn note(&mut self, busy: u32) {
        self.peak = self.peak.max(busy);
    }

    /// A window ends.
    pub fn turn(&mut self, busy: u32) {
        let rise = self.rise();
        *self = Self { start: busy, peak: busy, last_peak: self.peak, last_rise: rise };
    }

    fn rise(&self) -> u32 {
        self.peak.saturating_sub(self.start)
    }

    /// Slots beyond `busy` that would have been enough lately: back to the highest peak, and from
    /// there once more the steepest rise.
    pub fn spare(&self, busy: u32) -> u32 {
        let peak = self.peak.max(self.last_peak);
        peak.saturating_sub(busy).saturating_add(self.rise().max(self.last_rise))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_number_needs_nothing_after_two_beats() {
        let mut usage = Usage::default();
        usage.note(5);
        assert_eq!(usage.spare(5), 5, "it rose by five");
        usage.turn(5);
        assert_eq!(usage.spare(5), 5);
        usage.turn(5);
        assert_eq!(usage.spare(5), 0);
    }

    #[test]
    fn a_swing_is_covered() {
        let mut usage = Usage::default();
        for _ in 0..3 {
            usage.turn(2);
            usage.note(6);
        }
        assert_eq!(usage.spare(2), 4 + 4);
        assert_eq!(usage.spare(6), 4);
    }
}
