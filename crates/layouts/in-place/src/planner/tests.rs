//! The planner's count of a file's blocks.

use super::*;
use crate::format::Metadata;
use crate::tests::{System, create, made_with, memory, slot, write};
use crate::{Ffs, FfsFormatOptions};
use varve_fs::{Caller, Cause, Layout, Timestamp};

/// Returns the planner's count of a file's blocks after a change. Nothing is appended.
fn held_after(volume: &Ffs, item: impl Fn(InodeNo, Version) -> Item, ino: InodeNo) -> u64 {
    let Slot::Used(image) = slot(volume, ino) else {
        panic!("{ino} has no file");
    };
    let mut held = 0;
    let mut writer = volume.writer.lock();
    let group = Group {
        items: vec![item(ino, image.inode.version)],
        usage: writer.usage,
        cause: Cause::WriteBack,
    };
    let plan = |planner: &mut Planner<'_, '_>| {
        planner.group(&group, &|_| true)?;
        held = planner.held;
        Err(Error::Full)
    };
    let appended = volume.append_planned(&mut writer, plan, Default::default);
    assert!(matches!(appended, Err(Error::Full)), "{appended:?}");
    held
}

/// Makes a volume with a file of forty blocks and a directory of several, both in
/// place.
fn volume(metadata: Metadata) -> (System, InodeNo, InodeNo) {
    let options = FfsFormatOptions {
        metadata,
        ..FfsFormatOptions::default()
    };
    let system = made_with(&memory(16 << 20, 512), &options);
    let file = create(&system, "file");
    write(&system, file, 0, &[1; 40 * 4096]).unwrap();
    let root = Caller::root();
    let directory = system.mkdir(&root, InodeNo::ROOT, b"directory", 0o755);
    let directory = directory.unwrap().ino;
    for nth in 0..200 {
        let name = format!("{nth:0100}");
        let linked = system.link(&root, file, directory, name.as_bytes());
        linked.unwrap();
    }
    system.sync().unwrap();
    system.layout().checkpoint().unwrap();
    (system, file, directory)
}

#[test]
fn indirect_blocks_are_no_blocks_of_the_file() {
    for metadata in [Metadata::Journal, Metadata::Synchronous] {
        let cut = |from_block, to_block| {
            let (system, file, _) = volume(metadata);
            let cut = |ino, version| Item::Punched {
                ino,
                version,
                from_block,
                to_block,
            };
            held_after(system.layout(), cut, file)
        };
        assert_eq!(cut(0, 4), 36);
        // The indirect block is copied, or given up.
        assert_eq!(cut(20, 30), 30, "{}", metadata.name());
        assert_eq!(cut(5, 40), 5, "{}", metadata.name());
    }
}

#[test]
fn a_block_that_moves_is_counted_once() {
    let block = |ino, version| Item::Block {
        ino,
        version,
        block: 1,
        data: Arc::new(vec![7; 4096].into()),
        written: Timestamp::from_ns(0),
    };
    for metadata in [Metadata::Journal, Metadata::Synchronous] {
        let (system, file, directory) = volume(metadata);
        let Slot::Used(image) = slot(system.layout(), directory) else {
            panic!("the directory is gone");
        };
        assert!(image.inode.blocks > 2);
        let held = held_after(system.layout(), block, directory);
        assert_eq!(held, image.inode.blocks, "{}", metadata.name());
        assert_eq!(held_after(system.layout(), block, file), 40);
    }
}
