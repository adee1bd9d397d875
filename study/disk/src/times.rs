//! Where time went.

use std::ops::{Add, AddAssign, Sub};

/// Nanoseconds by what they were spent on. The parts of a request add up to
/// what it took, exactly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Handling of the command before anything moves.
    pub overhead_ns: u64,
    /// The arm between cylinders, settling included.
    pub seek_ns: u64,
    /// From one head of a cylinder to another.
    pub head_switch_ns: u64,
    /// Waiting for a sector to come under the head.
    pub rotation_ns: u64,
    /// Moving bytes: medium and bus, and waiting for either.
    pub transfer_ns: u64,
}

impl Times {
    /// All of it.
    pub fn total_ns(&self) -> u64 {
        self.overhead_ns + self.locate_ns() + self.transfer_ns
    }

    /// What it took to get to the sectors: seek, head switch, rotation.
    pub fn locate_ns(&self) -> u64 {
        self.seek_ns + self.head_switch_ns + self.rotation_ns
    }

    /// The same parts, cut to what happened within the last `elapsed_ns`; what
    /// they leave of it becomes transfer. For parts that began earlier, under
    /// the request before.
    pub(crate) fn within(self, elapsed_ns: u64) -> Times {
        let mut rest = elapsed_ns;
        let mut take = |part: u64| {
            let taken = part.min(rest);
            rest -= taken;
            taken
        };
        Times {
            overhead_ns: take(self.overhead_ns),
            seek_ns: take(self.seek_ns),
            head_switch_ns: take(self.head_switch_ns),
            rotation_ns: take(self.rotation_ns),
            transfer_ns: rest,
        }
    }

    fn zip(self, other: Times, with: impl Fn(u64, u64) -> u64) -> Times {
        Times {
            overhead_ns: with(self.overhead_ns, other.overhead_ns),
            seek_ns: with(self.seek_ns, other.seek_ns),
            head_switch_ns: with(self.head_switch_ns, other.head_switch_ns),
            rotation_ns: with(self.rotation_ns, other.rotation_ns),
            transfer_ns: with(self.transfer_ns, other.transfer_ns),
        }
    }
}

impl Add for Times {
    type Output = Times;

    fn add(self, other: Times) -> Times {
        self.zip(other, |mine, theirs| mine + theirs)
    }
}

impl AddAssign for Times {
    fn add_assign(&mut self, other: Times) {
        *self = *self + other;
    }
}

impl Sub for Times {
    type Output = Times;

    /// What was spent since an earlier reading of the same counters.
    fn sub(self, earlier: Times) -> Times {
        self.zip(earlier, |later, earlier| later - earlier)
    }
}
