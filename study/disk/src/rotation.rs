//! The platter's phase as a function of time.
//!
//! A track of `n` sectors has `n` slots; slot `k` begins `floor(k R / n)` ns
//! after the index mark passes, `R` being a revolution in whole nanoseconds.
//! The only other rounding is that of `R` itself: half a nanosecond in
//! several million, far below what drives hold their speed to (0.1 to 0.5 %).

/// A platter that turns at a constant speed; its index mark passes at 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    revolution_ns: u64,
}

impl Rotation {
    /// A platter of so many revolutions a minute.
    ///
    /// # Panics
    /// If `rpm` is zero.
    pub fn of_rpm(rpm: u32) -> Self {
        let rpm = u64::from(rpm);
        Rotation {
            revolution_ns: (60_000_000_000 + rpm / 2) / rpm,
        }
    }

    /// Nanoseconds in a revolution.
    pub fn revolution_ns(self) -> u64 {
        self.revolution_ns
    }

    /// From the index mark to the edge of slot `slot` of `slots`; `slot` may
    /// be up to twice `slots`.
    pub fn edge_ns(self, slot: u32, slots: u32) -> u64 {
        u64::from(slot) * self.revolution_ns / u64::from(slots)
    }

    /// From `at_ns` until `slot` begins.
    pub fn wait_ns(self, at_ns: u64, slot: u32, slots: u32) -> u64 {
        let phase = at_ns % self.revolution_ns;
        let edge = self.edge_ns(slot, slots);
        if edge >= phase {
            edge - phase
        } else {
            edge + self.revolution_ns - phase
        }
    }

    /// How long `count` slots take from the edge of `slot`; `count` is at most
    /// `slots`.
    pub fn pass_ns(self, slot: u32, count: u32, slots: u32) -> u64 {
        self.edge_ns(slot + count, slots) - self.edge_ns(slot, slots)
    }

    /// The slot whose beginning comes first, at `at_ns` or later.
    pub fn next_slot(self, at_ns: u64, slots: u32) -> u32 {
        let phase = at_ns % self.revolution_ns;
        let slot = (phase * u64::from(slots)).div_ceil(self.revolution_ns) as u32;
        if slot == slots { 0 } else { slot }
    }

    /// How many whole slots pass in `elapsed_ns` from the edge of `slot`, at
    /// most `slots`.
    pub fn passed(self, slot: u32, elapsed_ns: u64, slots: u32) -> u32 {
        if elapsed_ns >= self.revolution_ns {
            return slots;
        }
        let phase = self.edge_ns(slot, slots) + elapsed_ns;
        // The last edge at or before `phase`: floor(k R / n) <= phase exactly
        // when k R < (phase + 1) n.
        let edge = ((phase + 1) * u64::from(slots) - 1) / self.revolution_ns;
        edge as u32 - slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_tile_every_revolution() {
        for (rpm, slots) in [(4002, 72), (10_000, 256), (7200, 4063), (3600, 67)] {
            let rotation = Rotation::of_rpm(rpm);
            let mut at = 5 * rotation.revolution_ns();
            for slot in 0..2 * slots {
                let slot = slot % slots;
                assert_eq!(rotation.wait_ns(at, slot, slots), 0);
                assert_eq!(rotation.next_slot(at, slots), slot);
                at += rotation.pass_ns(slot, 1, slots);
            }
            assert_eq!(at, 7 * rotation.revolution_ns());
        }
    }

    #[test]
    fn the_next_slot_is_the_one_with_the_shortest_wait() {
        let rotation = Rotation::of_rpm(10_000);
        for at in (0..2 * rotation.revolution_ns()).step_by(9973) {
            let nearest = (0..72).min_by_key(|&slot| rotation.wait_ns(at, slot, 72));
            assert_eq!(Some(rotation.next_slot(at, 72)), nearest);
        }
    }

    #[test]
    fn slots_passed_are_those_whose_end_has_come() {
        let rotation = Rotation::of_rpm(4002);
        for slot in [0, 1, 40, 71] {
            for count in 1..=72 {
                let end = rotation.pass_ns(slot, count, 72);
                assert_eq!(rotation.passed(slot, end, 72), count);
                assert_eq!(rotation.passed(slot, end - 1, 72), count - 1);
            }
            assert_eq!(rotation.passed(slot, u64::MAX, 72), 72);
        }
    }

    #[test]
    fn a_revolution_is_rounded_once() {
        assert_eq!(Rotation::of_rpm(4002).revolution_ns(), 14_992_504);
        assert_eq!(Rotation::of_rpm(10_000).revolution_ns(), 6_000_000);
        assert_eq!(Rotation::of_rpm(3600).revolution_ns(), 16_666_667);
    }
}
