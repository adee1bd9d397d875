//! The content with which a volume is filled, and the order of its removal.

use crate::random::Random;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The content with which a volume is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling {
    /// Directories, nested up to a depth.
    Directories,
    /// Files that are empty or stored in the inode.
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
    /// Existing content is overwritten in small pieces and random order.
    Overwrites,
    /// Names that move among many directories.
    Renames,
    /// One file, as long as possible.
    OneBigFile,
    /// Reservations.
    Reserved,
    /// Modes and times of existing files.
    Modes,
}

impl Filling {
    /// All fillings.
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

    /// Returns true if it ends with a refusal, and not after a number of changes.
    pub(super) fn grows(self) -> bool {
        !matches!(
            self,
            Filling::Overwrites | Filling::Modes | Filling::Renames
        )
    }
}

/// One file that exists before everything else. It is not thinned out, and is removed
/// last unless the order is that of the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ballast {
    /// There is none.
    None,
    /// It is a reservation, and is removed like any other file.
    Loose,
    /// It is a reservation, so the log remains clean.
    Reserved,
    /// It is written, up to 64 MiB of it, so the cleaner must deal with it.
    Written,
    /// It is written, and one block in this number is a hole, so dead blocks are
    /// everywhere.
    Holed(u64),
}

/// Order of removal; a directory is removed once it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The order of the listings, as in `rm -r`.
    Listing,
    /// The oldest name first.
    Creation,
    /// The newest name first.
    Reverse,
    /// A random order.
    Random,
}

/// A volume is filled and emptied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Fillings, one after the other, until none of them fits.
    pub fillings: Vec<Filling>,
    /// One name in this number is removed between two fillings; 0 for none.
    pub thin_one_in: u64,
    /// The file that takes most of the space, so that large volumes are filled as fast as
    /// small ones.
    pub ballast: Ballast,
    /// Bytes that it leaves.
    pub left_bytes: u64,
    /// Order of removal.
    pub order: Order,
    /// One removal in this number is followed by a sync, a checkpoint, cleaning or a
    /// similar step.
    pub pause_one_in: u64,
    /// Number of kills and remounts during removal.
    pub turns: u64,
    /// One removal in this number truncates, empties or replaces first, or removes an
    /// open file; 0 for none.
    pub detour_one_in: u64,
}

impl Cycle {
    /// Draws a cycle for a volume of any size.
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

    /// Draws a short cycle for a small volume, or for one so small that names alone fill
    /// it.
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

/// Draws a ballast. If it has holes, it has one in `one_in` blocks or fewer.
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
