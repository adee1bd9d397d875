//! What can go wrong, when, and how often it did.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use crate::device::Operation;
use crate::random::Random;

/// The kinds of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// A read fails with EIO.
    ReadError,
    /// A read delivers a prefix and fails. Argument: the prefix's bytes.
    ShortRead,
    /// A read succeeds with what was there before the last write.
    StaleRead,
    /// A read succeeds with one bit wrong; the next read is right.
    BitFlipOnRead,
    /// A read succeeds with the bytes of another address. Argument: bytes on.
    MisdirectedRead,
    /// A write fails with EIO and changes nothing.
    WriteError,
    /// A write fails with ENOSPC and changes nothing.
    NoSpace,
    /// A write fails with EIO after a prefix. Argument: the prefix's bytes.
    TornWrite,
    /// A write is acknowledged after a prefix. Argument: the prefix's bytes.
    SilentTornWrite,
    /// A write is acknowledged and never applied.
    LostWrite,
    /// A write is applied at another address. Argument: bytes on.
    MisdirectedWrite,
    /// One bit of what is written is wrong on the medium from then on.
    BitFlipAtRest,
    /// One logical block of what is written is zeros on the medium.
    ZeroedSector,
    /// One logical block of what is written is garbage on the medium.
    GarbageSector,
    /// A flush fails with EIO; a later one may yet make the writes durable.
    FlushFails,
    /// A flush fails with EIO; of the writes since the last good one a random
    /// part is durable and the rest is gone, for reads too.
    FlushFailsLosing,
    /// A flush succeeds and does nothing.
    FlushLies,
    /// A discard fails with EIO.
    DiscardError,
    /// Any request takes longer. Argument: nanoseconds, 0 for 100 ms.
    Latency,
    /// Every request from then on fails with EIO.
    DeadDevice,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [FaultKind; 20] = [
        FaultKind::ReadError,
        FaultKind::ShortRead,
        FaultKind::StaleRead,
        FaultKind::BitFlipOnRead,
        FaultKind::MisdirectedRead,
        FaultKind::WriteError,
        FaultKind::NoSpace,
        FaultKind::TornWrite,
        FaultKind::SilentTornWrite,
        FaultKind::LostWrite,
        FaultKind::MisdirectedWrite,
        FaultKind::BitFlipAtRest,
        FaultKind::ZeroedSector,
        FaultKind::GarbageSector,
        FaultKind::FlushFails,
        FaultKind::FlushFailsLosing,
        FaultKind::FlushLies,
        FaultKind::DiscardError,
        FaultKind::Latency,
        FaultKind::DeadDevice,
    ];

    /// The requests it strikes; `None` for all of them.
    pub fn operation(self) -> Option<Operation> {
        use FaultKind as K;
        match self {
            K::ReadError | K::ShortRead | K::StaleRead | K::BitFlipOnRead | K::MisdirectedRead => {
                Some(Operation::Read)
            }
            K::WriteError
            | K::NoSpace
            | K::TornWrite
            | K::SilentTornWrite
            | K::LostWrite
            | K::MisdirectedWrite
            | K::BitFlipAtRest
            | K::ZeroedSector
            | K::GarbageSector => Some(Operation::Write),
            K::FlushFails | K::FlushFailsLosing | K::FlushLies => Some(Operation::Flush),
            K::DiscardError => Some(Operation::Discard),
            K::Latency | K::DeadDevice => None,
        }
    }

    /// Returns true if the affected request reports the fault. Faults of the other
    /// kinds can be found only by checksums, or not at all.
    pub fn is_reported(self) -> bool {
        use FaultKind as K;
        match self {
            K::ReadError
            | K::ShortRead
            | K::WriteError
            | K::NoSpace
            | K::TornWrite
            | K::FlushFails
            | K::FlushFailsLosing
            | K::DiscardError
            | K::DeadDevice => true,
            K::StaleRead
            | K::BitFlipOnRead
            | K::MisdirectedRead
            | K::SilentTornWrite
            | K::LostWrite
            | K::MisdirectedWrite
            | K::BitFlipAtRest
            | K::ZeroedSector
            | K::GarbageSector
            | K::FlushLies
            | K::Latency => false,
        }
    }
}

/// How often a fault strikes once it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// The next so many requests that match.
    Times(u64),
    /// Every request that matches, for ever.
    Sticky,
    /// Every request that touches the first logical block struck, until that
    /// is written: a bad sector that the device replaces.
    UntilWritten,
}

/// One entry of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// Matching requests that pass before it is due.
    pub skip: u64,
    /// Byte addresses that a request must touch to match; `None` for any. A
    /// flush has no address and matches always.
    pub range: Option<Range<u64>>,
    /// How often.
    pub repeat: Repeat,
    /// As the kind says; 0 leaves it to the seed.
    pub argument: u64,
}

impl Fault {
    /// Strikes the next request it applies to, and no other.
    pub fn once(kind: FaultKind) -> Self {
        Fault {
            kind,
            skip: 0,
            range: None,
            repeat: Repeat::Times(1),
            argument: 0,
        }
    }

    /// Strikes every request it applies to.
    pub fn sticky(kind: FaultKind) -> Self {
        Fault {
            repeat: Repeat::Sticky,
            ..Fault::once(kind)
        }
    }

    /// Lets `skip` matching requests pass first: `after(n - 1)` strikes the
    /// `n`th.
    pub fn after(self, skip: u64) -> Self {
        Fault { skip, ..self }
    }

    /// Strikes only requests that touch these byte addresses.
    pub fn within(self, range: Range<u64>) -> Self {
        Fault {
            range: Some(range),
            ..self
        }
    }

    /// Strikes as often as `repeat` says.
    pub fn repeat(self, repeat: Repeat) -> Self {
        Fault { repeat, ..self }
    }

    /// With the argument that the kind describes.
    pub fn argument(self, argument: u64) -> Self {
        Fault { argument, ..self }
    }

    /// How much later a struck request is.
    pub(super) fn latency(&self) -> Duration {
        match self.argument {
            0 => Duration::from_millis(100),
            nanoseconds => Duration::from_nanos(nanoseconds),
        }
    }
}

/// `count` faults of the given kinds, each due within `horizon` matching
/// requests, one in four of them sticky. The same seed gives the same plan.
///
/// # Panics
/// If no kind is given, or the horizon is 0.
pub fn random_faults(seed: u64, kinds: &[FaultKind], count: usize, horizon: u64) -> Vec<Fault> {
    let mut random = Random::stream(seed, 0xfa);
    let mut draw = || Fault {
        kind: kinds[random.below(kinds.len() as u64) as usize],
        skip: random.below(horizon),
        range: None,
        repeat: match random.below(4) {
            0 => Repeat::Sticky,
            _ => Repeat::Times(1),
        },
        argument: 0,
    };
    std::iter::repeat_with(&mut draw).take(count).collect()
}

/// How often each kind of fault has struck.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultReport {
    counts: [u64; FaultKind::ALL.len()],
}

impl FaultReport {
    pub(super) fn count_one(&mut self, kind: FaultKind) {
        self.counts[kind as usize] += 1;
    }

    /// How often one kind has struck.
    pub fn injected(&self, kind: FaultKind) -> u64 {
        self.counts[kind as usize]
    }

    /// How often any has.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Every kind with its count.
    pub fn iter(&self) -> impl Iterator<Item = (FaultKind, u64)> {
        FaultKind::ALL.into_iter().zip(self.counts)
    }

    /// Adds another run's counts.
    pub fn add(&mut self, other: &FaultReport) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine += theirs;
        }
    }
}

impl fmt::Display for FaultReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, count) in self.iter().filter(|(_, count)| *count > 0) {
            writeln!(f, "{:<18} {count:>8}", format!("{kind:?}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_listed_in_the_order_they_are_counted() {
        for (index, kind) in FaultKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
        }
    }

    #[test]
    fn random_plans_repeat() {
        let plan = |seed| random_faults(seed, &FaultKind::ALL, 50, 10);
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
        assert!(plan(1).iter().all(|fault| fault.skip < 10));
    }

    #[test]
    fn reports_add_up() {
        let mut report = FaultReport::default();
        report.count_one(FaultKind::LostWrite);
        report.add(&report.clone());
        assert_eq!(report.injected(FaultKind::LostWrite), 2);
        assert_eq!(report.total(), 2);
        assert_eq!(report.to_string(), "LostWrite                 2\n");
    }
}
