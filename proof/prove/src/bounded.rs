//! All short workloads over a small tree.
//!
//! Most known crash bugs need no more than three operations on a small tree (CrashMonkey
//! and ACE, Mohan et al. 2018). The tree is created and synced; then every sequence of a
//! given number of the [`operations`] runs, followed by nothing, an fsync of a file, or a
//! sync.

use crate::operation::{Operation, story};

/// Returns the operations that create the tree.
pub fn setup() -> Vec<Operation> {
    story(
        "mkdir d; create a; write a 0+8192 #1; create d/a; write d/a 0+4096 #2; create e;
         symlink l 20; sync",
    )
}

/// Returns the operations of which sequences consist.
pub fn operations() -> Vec<Operation> {
    story(
        "create b; mkdir b; symlink b 200; fifo b; link a b; link a d/b; link d/a b
         unlink a; unlink d/a; unlink e; unlink l; rmdir d
         rename a b; rename a e; rename a d/a; rename d/a a; rename e a; rename d b; rename l a
         exchange a d/a; exchange d e
         rename-whiteout a b; rename-whiteout a d/a; rename-whiteout d/a e; rename-whiteout d b
         write a 0+4096 #3; write a 8192+4096 #4; write a 1000+100 #5; write a 12288+4096 #6
         write e 0+4096 #7; write e 0+50 #8; write d/a 0+12288 #9
         truncate a 0; truncate a 4096; truncate a 5000; truncate a 16384; truncate e 8192
         punch a 0+4096; punch a 1000+5000; zero a 0+12288; reserve e 0+8192
         reserve-keep a 8192+8192; copy a 0+8192 e 0
         chmod a 600; chown d 1 2; setxattr a p 100 #10; setxattr a p 3000 #11; removexattr a p
         fsync a; fsync d/a; fdatasync e; write-back; layout-checkpoint; clean",
    )
}

/// Returns the possible ends of a sequence.
pub fn endings() -> Vec<Vec<Operation>> {
    vec![
        story("fsync a"),
        story("write-back; fsync e"),
        story("sync"),
    ]
}

/// Returns the number of sequences of `length` operations.
pub fn count(length: u32) -> u64 {
    (operations().len() as u64).pow(length) * endings().len() as u64
}

/// Returns sequence number `index` of `length` operations, including set-up and ending.
///
/// # Panics
/// If `index` is too large.
pub fn sequence(length: u32, index: u64) -> Vec<Operation> {
    assert!(index < count(length), "no sequence {index}");
    let (choices, mut endings) = (operations(), endings());
    let mut workload = setup();
    let mut rest = index / endings.len() as u64;
    let ending = endings.swap_remove((index % endings.len() as u64) as usize);
    for _ in 0..length {
        workload.push(choices[(rest % choices.len() as u64) as usize].clone());
        rest /= choices.len() as u64;
    }
    workload.extend(ending);
    workload
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn sequences_are_all_different() {
        let all: HashSet<Vec<Operation>> = (0..count(1)).map(|index| sequence(1, index)).collect();
        assert_eq!(all.len() as u64, count(1));
        let some = (0..count(2)).step_by(97).map(|index| sequence(2, index));
        assert_eq!(
            some.collect::<HashSet<_>>().len() as u64,
            count(2).div_ceil(97)
        );
    }
}
