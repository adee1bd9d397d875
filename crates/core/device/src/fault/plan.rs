//! The kinds of fault, their plan, and the counts of those that struck.

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
    /// A read delivers a prefix and fails. Argument: bytes of the prefix.
    ShortRead,
    /// A read succeeds with the bytes before the last write.
    StaleRead,
    /// A read succeeds with one bit wrong; the next read is right.
    BitFlipOnRead,
    /// A read succeeds with the bytes of another address. Argument: bytes further.
    MisdirectedRead,
    /// A write fails with EIO and changes nothing.
    WriteError,
    /// A write fails with ENOSPC and changes nothing.
    NoSpace,
    /// A write fails with EIO after a prefix. Argument: bytes of the prefix.
    TornWrite,
    /// A write is acknowledged after a prefix. Argument: bytes of the prefix.
    SilentTornWrite,
    /// A write is acknowledged and never applied.
    LostWrite,
    /// A write is applied at another address. Argument: bytes further.
    MisdirectedWrite,
    /// One bit of a write is wrong on the medium from then on.
    BitFlipAtRest,
    /// One logical block of a write is zeros on the medium.
    ZeroedSector,
    /// One logical block of a write is garbage on the medium.
    GarbageSector,
    /// A flush fails with EIO; a later one may yet make the writes durable.
    FlushFails,
    /// A flush fails with EIO. Of the writes since the last good flush a random part is
    /// durable and the rest is lost, for reads too.
    FlushFailsLosing,
    /// A flush succeeds and does nothing.
    FlushLies,
    /// A discard fails with EIO.
    DiscardError,
    /// A request takes longer. Argument: nanoseconds, 0 for 100 ms.
    Latency,
    /// Every request from then on fails with EIO.
    DeadDevice,
}

impl FaultKind {
    /// All kinds of fault.
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

    /// Returns the kind of request that the fault strikes, or `None` if it strikes all.
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

/// The number of times that a fault strikes once it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// The fault strikes the given number of matching requests.
    Times(u64),
    /// The fault strikes every matching request, without end.
    Sticky,
    /// The fault strikes every request that touches the first logical block struck, until
    /// that block is written: a bad sector that the device replaces.
    UntilWritten,
}

/// One entry of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// Number of matching requests that pass before the fault is due.
    pub skip: u64,
    /// Byte addresses that a request must touch to match; `None` for any. A flush has
    /// no address and always matches.
    pub range: Option<Range<u64>>,
    /// The number of times that the fault strikes.
    pub repeat: Repeat,
    /// The argument described at the kind; 0 lets the seed decide.
    pub argument: u64,
}

impl Fault {
    /// Creates a fault that strikes the next matching request, and no other.
    pub fn once(kind: FaultKind) -> Self {
        Fault {
            kind,
            skip: 0,
            range: None,
            repeat: Repeat::Times(1),
            argument: 0,
        }
    }

    /// Creates a fault that strikes every matching request.
    pub fn sticky(kind: FaultKind) -> Self {
        Fault {
            repeat: Repeat::Sticky,
            ..Fault::once(kind)
        }
    }

    /// Lets `skip` matching requests pass first: `after(n - 1)` strikes the `n`th.
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

    /// Sets the argument that is described at the kind.
    pub fn argument(self, argument: u64) -> Self {
        Fault { argument, ..self }
    }

    /// Returns the time by which a struck request is delayed.
    pub(super) fn latency(&self) -> Duration {
        match self.argument {
            0 => Duration::from_millis(100),
            nanoseconds => Duration::from_nanos(nanoseconds),
        }
    }
}

/// Returns `count` faults of the given kinds, each due within `horizon` matching
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

/// Counts how often each kind of fault has struck.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultReport {
    counts: [u64; FaultKind::ALL.len()],
}

impl FaultReport {
    pub(super) fn count_one(&mut self, kind: FaultKind) {
        self.counts[kind as usize] += 1;
    }

    /// Returns how often one kind has struck.
    pub fn injected(&self, kind: FaultKind) -> u64 {
        self.counts[kind as usize]
    }

    /// Returns how often faults of any kind have struck.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns every kind with its count.
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
