//! What is drawn.

use crate::explorer::mix;
use crate::random::Random;
use std::fmt;

const MIB: u64 = 1 << 20;
/// Blocks that a volume has at least.
const BLOCKS_MIN: u64 = 1000;

/// A volume to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of the device; a drive has as many cylinders as come near.
    pub device_bytes: u64,
    /// Bytes in a logical block.
    pub block_bytes: u32,
    /// Bytes that the device writes without touching their neighbours: 512 or
    /// 4096.
    pub unit_bytes: u32,
    /// The device is a simulated drive.
    pub in_drive: bool,
    /// Decides what only one layout has: the size of segments, slots.
    pub variety: u64,
}

/// What a volume is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling {
    /// Directories, one in the other for a while.
    Directories,
    /// Files that hold nothing, or what an inode holds.
    TinyFiles,
    /// Files of up to two blocks.
    SmallFiles,
    /// Files with extended attributes of 1,500 bytes.
    Attributes,
    /// Files with extended attributes, several and of any length.
    ManyAttributes,
    /// Symbolic links, short and long.
    Symlinks,
    /// Many names of few files, in many directories.
    HardLinks,
    /// Blocks far from each other.
    Sparse,
    /// What is there is written over, in little pieces and random order.
    Overwrites,
    /// Names that move among many directories.
    Renames,
    /// One file, as long as may be.
    OneBigFile,
    /// Reservations.
    Reserved,
    /// Modes and times of what is there.
    Modes,
}

impl Filling {
    /// All of them.
    pub const ALL: [Filling; 13] = [
        Filling::Directories,
        Filling::TinyFiles,
        Filling::SmallFiles,
        Filling::Attributes,
        Filling::ManyAttributes,
        Filling::Symlinks,
        Filling::HardLinks,
        Filling::Sparse,
        Filling::Overwrites,
        Filling::Renames,
        Filling::OneBigFile,
        Filling::Reserved,
        Filling::Modes,
    ];

    /// It ends by being refused, not by a number.
    pub(super) fn grows(self) -> bool {
        !matches!(
            self,
            Filling::Overwrites | Filling::Modes | Filling::Renames
        )
    }
}

/// In which order things are removed; directories once they are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As the directories list them, as `rm -r` does.
    Listing,
    /// The oldest name first.
    Creation,
    /// The youngest first.
    Reverse,
    /// Any.
    Random,
}

/// A volume filled and emptied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// One after the other, until nothing of any of them fits.
    pub fillings: Vec<Filling>,
    /// One name in so many goes between two fillings; 0: none.
    pub thin_one_in: u64,
    /// All that the fillings leave of the volume at first is one reservation, but
    /// for so many bytes: large volumes are filled as soon as small ones.
    pub left_bytes: u64,
    /// How things go.
    pub order: Order,
    /// One removal in so many is followed by a sync, a checkpoint, cleaning or
    /// the like.
    pub pause_one_in: u64,
    /// Kills and remounts while things go.
    pub turns: u64,
    /// One removal in so many cuts, empties or replaces first, or removes what
    /// is held open; 0: none.
    pub detour_one_in: u64,
}

/// See the module [`crate::space`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Decides everything.
    pub seed: u64,
    /// The volume.
    pub shape: Shape,
    /// Bytes of padding in names.
    pub name_bytes: usize,
    /// Who fill and remove at once.
    pub threads: u64,
    /// One after the other.
    pub cycles: Vec<Cycle>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl Case {
    /// One case of a row of them: of `seed`, the one of this index.
    pub fn nth(seed: u64, index: u64) -> Self {
        Case::draw(mix(seed, index))
    }

    /// The case of this seed.
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let shape = draw_shape(&mut random);
        let threads = *random.pick(&[1, 1, 1, 1, 2, 12]);
        let cycles = 1 + random.below(3);
        Case {
            seed,
            shape,
            name_bytes: *random.pick(&[0, 0, 30, 200]),
            threads,
            cycles: (0..cycles).map(|_| draw_cycle(&mut random)).collect(),
        }
    }
}

fn draw_shape(random: &mut Random) -> Shape {
    let in_drive = random.once_in(5);
    let mebibytes: &[u64] = match in_drive {
        true => &[16, 16, 24, 64],
        false => &[16, 16, 16, 17, 20, 24, 32, 48, 64, 128, 256],
    };
    let odd = random.below(256) * 4096;
    let device_bytes = random.pick(mebibytes) * MIB + odd;
    let blocks = [4096, 4096, 4096, 4096, 8192, 16384, 65536];
    // A volume of few large blocks is mostly reserve.
    let sensible = blocks
        .iter()
        .filter(|&&bytes| device_bytes / bytes >= BLOCKS_MIN);
    let sensible: Vec<u64> = sensible.copied().collect();
    Shape {
        device_bytes,
        block_bytes: *random.pick(&sensible) as u32,
        unit_bytes: *random.pick(&[512, 4096]),
        in_drive,
        variety: random.word(),
    }
}

fn draw_cycle(random: &mut Random) -> Cycle {
    let kinds = *random.pick(&[1, 1, 2, 3, 5]);
    let mut fillings: Vec<_> = (0..kinds).map(|_| *random.pick(&Filling::ALL)).collect();
    if !fillings.iter().any(|filling| filling.grows()) {
        let growing = Filling::ALL.into_iter().filter(|filling| filling.grows());
        let growing: Vec<_> = growing.collect();
        fillings.insert(0, *random.pick(&growing));
    }
    Cycle {
        fillings,
        thin_one_in: *random.pick(&[0, 0, 2, 3, 10]),
        left_bytes: *random.pick(&[MIB, MIB, 2 * MIB, 5 * MIB]),
        order: *random.pick(&[
            Order::Listing,
            Order::Creation,
            Order::Reverse,
            Order::Random,
            Order::Random,
        ]),
        pause_one_in: *random.pick(&[4, 20, 100, 1 << 40]),
        turns: random.below(4),
        detour_one_in: *random.pick(&[0, 2, 10]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_one_case_and_the_cases_are_of_all_kinds() {
        assert_eq!(Case::draw(7), Case::draw(7));
        let cases: Vec<_> = (0..300).map(Case::draw).collect();
        assert!(cases.iter().any(|case| case.threads == 12));
        assert!(cases.iter().any(|case| case.shape.in_drive));
        for filling in Filling::ALL {
            let has = |cycle: &Cycle| cycle.fillings.contains(&filling);
            assert!(cases.iter().any(|case| case.cycles.iter().any(has)));
        }
        for cycle in cases.iter().flat_map(|case| &case.cycles) {
            assert!(cycle.fillings.iter().any(|filling| filling.grows()));
        }
    }
}
