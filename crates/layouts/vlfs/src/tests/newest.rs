//! The newest transaction: recovery compares the blocks that it wrote, and it must
//! count once its flush has returned.

use super::super::format::Place;
use super::*;
use std::time::Duration;

/// A file system whose pending changes are appended, but not made durable, when time
/// passes.
pub(super) struct Waiting {
    clock: Arc<VirtualClock>,
    pub system: System,
}

impl Waiting {
    pub fn on(medium: &Arc<dyn Medium>) -> Self {
        made(medium, 0).layout().unmount().unwrap();
        let clock = Arc::new(VirtualClock::new(1_600_000_000_000_000_000, 0));
        let mount = VlfsMountOptions {
            // Tracks are filled, so that released space is soon taken again.
            policy: varve_vlog::eager::Policy::default(),
            ..VlfsMountOptions::default()
        };
        let layout = Vlfs::mount(Arc::clone(medium), super::clock(), mount).unwrap();
        let layout = Arc::new(layout);
        let system = FileSystem::mount(layout, clock.clone(), options()).unwrap();
        Waiting { clock, system }
    }

    pub fn append(&self, file: InodeNo, block: u64, byte: u8) -> Place {
        write(&self.system, file, block * 4096, &[byte; 4096]).unwrap();
        self.clock.advance(Duration::from_secs(60));
        assert!(self.system.write_back().unwrap());
        let layout = self.system.layout();
        layout.map(View::Live, file, block, 1).unwrap()[0].pointer
    }
}

#[test]
fn a_block_replaced_before_its_commit_does_not_vouch_for_the_transaction() {
    let medium = drive();
    let waiting = Waiting::on(&medium);
    let system = &waiting.system;
    let (file, other) = (create(system, "file"), create(system, "other"));
    system.sync().unwrap();
    let first = waiting.append(file, 0, 1);
    let second = waiting.append(file, 0, 2);
    assert_ne!(first, second);
    system.fsync(file, false).unwrap();
    let synced = system.layout().statistics().transactions;
    // The first place is free now, and near.
    let reused = (0..1000).any(|block| waiting.append(other, block, 3).sector == first.sector);
    assert!(reused, "the room was to be taken");
    let now = system.layout().statistics().transactions;
    assert_eq!(now, synced, "nothing was to be committed meanwhile");
    drop(waiting);
    sound(&medium);
    let system = again(&medium);
    assert!(read(&system, file, 0, 4096) == [2; 4096], "what was synced");
}

#[test]
fn what_a_checkpoint_reflects_is_not_in_doubt() {
    for medium in [memory(16 << 20, 4096), drive()] {
        let system = made(&medium, 0);
        let (file, other) = (create(&system, "file"), create(&system, "other"));
        write(&system, other, 0, &[1; 4096]).unwrap();
        write(&system, file, 0, &[2; 4096]).unwrap();
        system.sync().unwrap();
        system.checkpoint().unwrap();
        let at = system.layout().map(View::Live, other, 0, 1).unwrap()[0].pointer;
        drop(system);
        let decayed = [9; 4096];
        medium
            .write(at.sector * 512, &[std::io::IoSlice::new(&decayed)])
            .unwrap();
        let system = again(&medium);
        assert!(read(&system, file, 0, 4096) == [2; 4096], "what was synced");
        let mut bytes = [0; 4096];
        assert!(system.read(other, 0, &mut bytes).is_err());
    }
}

#[test]
fn a_piece_of_which_nothing_is_left_is_not_the_checkpoints() {
    use varve_fs::{Cause, Group, Item};
    let medium = memory(8 << 20, 512);
    let system = made(&medium, 512);
    let files = (0..40).map(|nth| create(&system, &format!("f{nth}")));
    let last: Vec<InodeNo> = files.filter(|ino| ino.0 >= 30).collect();
    system.checkpoint().unwrap();
    let layout = system.layout();
    // The versions wrap around, so that entries are zeros.
    let freed = last.iter().map(|&ino| Item::Freed {
        ino,
        next_version: 0,
    });
    let mut usage = system.usage();
    usage.inodes -= last.len() as u64;
    let group = Group {
        items: freed.collect(),
        usage,
        cause: Cause::Sync,
    };
    let position = layout.append(group).unwrap();
    layout.commit(position).unwrap();
    drop(system);
    let map = mounted(&medium).inode_map();
    let found = |ino: &InodeNo| map.get(ino.0 as usize).and_then(|(entry, _)| entry.unit());
    assert!(last.len() > 3 && last.iter().all(|ino| found(ino).is_none()));
}
