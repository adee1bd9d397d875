//! The ballast: a file that takes the space that fillings need not take.

use super::hands::{Attempt, Hands};
use super::{Ballast, Cycle, Life, Wrong};
use crate::random::Random;
use varve_fs::{InodeNo, Result};

/// Largest number of bytes that are written; the rest of a large volume is reserved.
const WRITTEN_MAX: u64 = 64 << 20;
/// Bytes of each write.
const PIECE: u64 = 1 << 20;

/// Creates the file that leaves about as many bytes as `cycle` states.
pub fn load(life: &mut Life<'_>, cycle: &Cycle) -> std::result::Result<(), Wrong> {
    life.ballast = None;
    if cycle.ballast == Ballast::None {
        return Ok(());
    }
    let block_bytes = u64::from(life.served().block_bytes());
    let free = life.tree().statfs().free * block_bytes;
    let Some(most) = free.checked_sub(cycle.left_bytes).filter(|&most| most > 0) else {
        return Ok(());
    };
    let mut hands = Hands::new(life, Random::new(0));
    let Attempt::Done(ino) = hands.file()? else {
        return Err("a new volume takes no file".to_owned());
    };
    let written = match cycle.ballast {
        Ballast::None | Ballast::Loose | Ballast::Reserved => 0,
        Ballast::Written | Ballast::Holed(_) => most.min(WRITTEN_MAX),
    };
    let mut end = 0;
    while end < written {
        let bytes = PIECE.min(written - end) as usize;
        if !hands.write(ino, end, bytes)?.is_done() {
            break;
        }
        end += bytes as u64;
    }
    reserve(&mut hands, ino, end, most)?;
    if let Ballast::Holed(one_in) = cycle.ballast {
        let holed = punch(life, ino, end / block_bytes, one_in);
        holed.map_err(|error| format!("holes in the ballast: {error}"))?;
    }
    life.ballast = (cycle.ballast != Ballast::Loose).then_some(ino);
    Ok(())
}

/// Reserves the range from `from`, or most of it.
fn reserve(
    hands: &mut Hands<'_>,
    ino: InodeNo,
    from: u64,
    to: u64,
) -> std::result::Result<(), Wrong> {
    let mut bytes = to - from;
    while bytes > 0 {
        let reserved = hands.tree().fallocate(ino, 0, from, bytes);
        if hands.judge("the reservation", reserved)?.is_done() {
            break;
        }
        bytes = bytes / 8 * 7;
    }
    Ok(())
}

fn punch(life: &Life<'_>, ino: InodeNo, blocks: u64, one_in: u64) -> Result<()> {
    let (tree, block_bytes) = (life.tree(), u64::from(life.served().block_bytes()));
    tree.sync()?;
    let punch_hole_and_keep_size = 3;
    (0..blocks).step_by(one_in as usize).try_for_each(|block| {
        let at = block * block_bytes;
        tree.fallocate(ino, punch_hole_and_keep_size, at, block_bytes)
    })
}
