//! What a volume is filled with, and how that goes.

use crate::random::Random;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

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

/// One file that is there before anything else. It is not thinned out, and goes last
/// unless the order is that of the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ballast {
    /// There is none.
    None,
    /// It is a reservation, and is removed like anything else.
    Loose,
    /// It is a reservation: the log stays as clean as it was.
    Reserved,
    /// It is written, up to 64 MiB of it: it stands in the cleaner's way.
    Written,
    /// The same, and one block in so many of it is a hole: what is dead lies
    /// everywhere.
    Holed(u64),
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
    /// What takes most of the room, so that large volumes are filled as soon as
    /// small ones.
    pub ballast: Ballast,
    /// Bytes that it leaves.
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

impl Cycle {
    /// Of a volume of any size.
    pub(super) fn draw(random: &mut Random) -> Self {
        Cycle {
            fillings: draw_fillings(random, &[1, 1, 2, 3, 5]),
            thin_one_in: *random.pick(&[0, 0, 2, 3, 10]),
            ballast: match random.once_in(5) {
                true => Ballast::Loose,
                false => draw_ballast(random, 3),
            },
            left_bytes: *random.pick(&[MIB, MIB, 2 * MIB, 5 * MIB]),
            order: draw_order(random),
            pause_one_in: *random.pick(&[4, 20, 100, 1 << 40]),
            turns: random.below(4),
            detour_one_in: *random.pick(&[0, 2, 10]),
        }
    }

    /// One that is soon over, of a volume that is small; or of one that is so small that
    /// names alone fill it.
    pub(super) fn small(random: &mut Random, is_least: bool) -> Self {
        let mut fillings = draw_fillings(random, &[1, 1, 2, 3]);
        if is_least {
            let names = [
                Filling::Directories,
                Filling::Directories,
                Filling::HardLinks,
            ];
            fillings = vec![*random.pick(&names)];
        }
        Cycle {
            fillings,
            thin_one_in: *random.pick(&[0, 0, 2, 10]),
            ballast: match is_least {
                true => Ballast::None,
                false => draw_ballast(random, 12),
            },
            left_bytes: *random.pick(&[64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB]),
            order: draw_order(random),
            pause_one_in: *random.pick(&[20, 100, 1 << 40]),
            turns: random.below(3),
            detour_one_in: *random.pick(&[0, 2, 10]),
        }
    }
}

fn draw_fillings(random: &mut Random, counts: &[u64]) -> Vec<Filling> {
    let kinds = *random.pick(counts);
    let mut fillings: Vec<_> = (0..kinds).map(|_| *random.pick(&Filling::ALL)).collect();
    if !fillings.iter().any(|filling| filling.grows()) {
        let growing = Filling::ALL.into_iter().filter(|filling| filling.grows());
        let growing: Vec<_> = growing.collect();
        fillings.insert(0, *random.pick(&growing));
    }
    fillings
}

/// If there are holes in it, of one block in at least so many.
fn draw_ballast(random: &mut Random, one_in: u64) -> Ballast {
    let one_in = one_in + random.below(5 * one_in);
    *random.pick(&[
        Ballast::Reserved,
        Ballast::Written,
        Ballast::Written,
        Ballast::Holed(one_in),
        Ballast::Holed(one_in),
    ])
}

fn draw_order(random: &mut Random) -> Order {
    *random.pick(&[
        Order::Listing,
        Order::Creation,
        Order::Reverse,
        Order::Random,
        Order::Random,
    ])
}
