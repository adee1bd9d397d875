//! The count of blocks of extended attributes that take more than a unit; volumes of
//! programs that did not count them, and that left no margin.

use super::full::ends_sound;
use super::overwritten::{counted, ready, set};
use super::*;
use crate::checkpoint::{read_head, write_head};
use varve_fs::Error;

/// Changes the count in both checkpoints.
fn say(medium: &Arc<dyn Medium>, long_xattrs: u64) {
    let system = mounted(medium);
    for region in [0, 1] {
        let mut head = read_head(&system.store, region).expect("two checkpoints");
        head.long_xattrs = long_xattrs.into();
        write_head(&**medium, system.measures(), region, &head).unwrap();
    }
}

/// Creates files with attributes of one to four units, in two checkpoints. Returns how
/// many take more than one unit.
fn with_attributes(medium: &Arc<dyn Medium>) -> (System, u64) {
    let system = ready(medium);
    for nth in 0..40 {
        let file = create(&system, &format!("file{nth}"));
        set(&system, file, 512 * (nth % 4) + 300, 1).unwrap();
    }
    for _ in 0..2 {
        system.checkpoint().unwrap();
    }
    (system, 30)
}

fn leave(system: System) {
    system.unmount().unwrap();
    system.layout().unmount().unwrap();
}

#[test]
fn a_count_that_no_checkpoint_has_is_made_by_the_mount() {
    let medium = memory(6 << 20, 512);
    let (system, long) = with_attributes(&medium);
    leave(system);
    say(&medium, 0);
    let system = again(&medium);
    assert_eq!(counted(&system), long);
    // The count is known from then on, including changes since the checkpoint.
    let file = create(&system, "another");
    set(&system, file, 2000, 1).unwrap();
    system.fsync(file, false).unwrap();
    system.layout().checkpoint().unwrap();
    set(&system, file, 20, 1).unwrap();
    system.fsync(file, false).unwrap();
    drop(system);
    let system = mounted(&medium);
    let known = [0, 1].map(|region| read_head(&system.store, region).unwrap().long_xattrs());
    assert!(known.contains(&Some(long + 1)), "{known:?}");
    drop(system);
    let system = again(&medium);
    assert_eq!(counted(&system), long);
    ends_sound(system, &medium);
}

#[test]
fn a_count_that_is_wrong_is_told_by_the_check() {
    let medium = memory(6 << 20, 512);
    let (system, long) = with_attributes(&medium);
    leave(system);
    sound(&medium);
    say(&medium, long);
    let found = check(Arc::clone(&medium), clock(), false).unwrap().problems;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("30 blocks of extended attributes are longer than a unit, 29 are"));
    // The count exceeds the possible number of files, so the head is invalid.
    say(&medium, u64::MAX);
    assert!(mounted(&medium).recovery_report().walked);
}

/// Fills a volume as an earlier program did: without a margin, and with attributes
/// counted as the units that they take at the moment.
fn filled_from_before(medium: &Arc<dyn Medium>) -> Vec<String> {
    drop(ready(medium));
    let options = VlfsMountOptions::default();
    let mut layout = Vlfs::mount(Arc::clone(medium), clock(), options).unwrap();
    let margin = layout.prices.margin(layout.measures());
    layout.store.measures.reserve_blocks -= margin;
    let layout = Arc::new(layout);
    let system = FileSystem::mount(Arc::clone(&layout), clock(), self::options()).unwrap();
    let mut names = Vec::new();
    let filler = create(&system, "filler");
    loop {
        layout.writer.lock().long_xattrs = 0;
        let (name, root) = (format!("file{}", names.len()), Caller::root());
        let bytes = name.as_bytes();
        let made = system.mknod(&root, InodeNo::ROOT, bytes, 0o100644, 0);
        match made.and_then(|made| set(&system, made.ino, 1300, 1)) {
            Ok(()) => names.push(name),
            Err(Error::NoSpace) => break,
            Err(error) => panic!("{error}"),
        }
    }
    let mut at = 0;
    while write(&system, filler, at, &[1; 4096]).is_ok() {
        layout.writer.lock().long_xattrs = 0;
        at += 4096;
    }
    system.unmount().unwrap();
    for _ in 0..2 {
        layout.writer.lock().long_xattrs = 0;
        layout.checkpoint().unwrap();
    }
    layout.unmount().unwrap();
    say(medium, 0);
    names
}

#[test]
fn a_volume_that_was_filled_without_a_margin_can_be_emptied() {
    for medium in [memory(6 << 20, 512), drive_of(3)] {
        let names = filled_from_before(&medium);
        let system = again(&medium);
        let (root, live) = (Caller::root(), system.layout().statistics().blocks_live);
        assert!(counted(&system) > 300);
        let measures = *system.layout().measures();
        let full = measures.capacity_blocks() - measures.reserve_blocks;
        assert!(live + 16 > full, "{live} of {full} blocks live");
        let comes_to = system.layout().lives(&system.layout().writer.lock());
        assert!(comes_to > full + measures.reserve_blocks / 2, "{comes_to}");
        assert_eq!(system.statfs().free, 0);
        for (nth, name) in names.iter().enumerate() {
            let gone = system.unlink(&root, InodeNo::ROOT, name.as_bytes());
            gone.unwrap_or_else(|error| panic!("{nth} of {}: {error}", names.len()));
        }
        ends_sound(system, &medium);
    }
}
