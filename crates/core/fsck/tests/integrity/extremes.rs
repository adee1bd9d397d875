//! Numbers at the end of their range, with right checksums: nothing overflows, memory
//! stays bounded, and unrelated files are unchanged.

use crate::check::mutations::survives;
use crate::patient::patient;
use crate::salvage::{assert_same, salvage, wipe};
use crate::surgeon::Surgeon;
use crate::tree::Tree;
use crate::volume::{Volume, mount_options, pattern};
use std::sync::Arc;
use varve_device::VirtualClock;
use varve_fs::{Caller, InodeNo, SetAttr};
use varve_lfs::format::checkpoint::checkpoint_flags;
use varve_lfs::format::ifile::ImapState;
use varve_lfs::format::summary::{
    self, FileEntry, HEADER_BYTES, RecordEntry, entry_kind, summary_flags,
};
use varve_lfs::format::{LogPosition, SECTOR, SummaryHeader};
use varve_lfs::{Lfs, RecoveryReport};
use zerocopy::{FromZeros, IntoBytes};

#[test]
fn counts_of_blocks_that_no_file_has() {
    let (mut surgeon, files) = patient();
    // Two files share a block: repair stores it again and corrects the counts.
    let shared = surgeon.pointer(files["large"], 0, 7);
    surgeon.edit_pointer(files["file15"], 0, 0, &mut |_, _| shared);
    for name in ["file15", "large", "labelled", "home"] {
        surgeon.edit_inode(files[name], |image| {
            image.inode.blocks = u64::MAX;
            image.inode.sectors = u64::MAX;
        });
    }
    survives(&surgeon);
    let clock = Arc::new(VirtualClock::new(0, 1000));
    let volume = Volume::mount(surgeon.device(), clock, 5);
    let caller = Caller::root();
    for name in ["file15", "large", "labelled"] {
        let ino = files[name];
        volume.write(ino, 5000, &pattern(1, 9000));
        volume.set_attribute(ino, "user.more", &[1; 3000]);
        let size = SetAttr {
            size: Some(100),
            ..SetAttr::default()
        };
        volume.system.setattr(&caller, ino, &size).unwrap();
    }
    volume.unlink(files["home"], "labelled");
    volume.system.sync().unwrap();
    volume.unmount();
}

#[test]
fn a_lost_and_found_that_counts_too_many_directories() {
    let volume = Volume::new(8 << 20);
    let orphan = volume.directory(InodeNo::ROOT, "orphan");
    let home = volume.directory(InodeNo::ROOT, "lost+found");
    volume.unmount();
    let mut surgeon = Surgeon::new(&volume.device);
    surgeon.edit_name(InodeNo::ROOT, "orphan", 9999, None);
    surgeon.edit_inode(home, |image| image.inode.nlink = u32::MAX);
    assert!(orphan < home, "the orphan is taken in first");
    survives(&surgeon);
}

#[test]
fn a_free_list_that_leads_back_beyond_every_number() {
    let volume = Volume::new(8 << 20);
    let gone = volume.file(InodeNo::ROOT, "gone");
    volume.system.checkpoint().unwrap();
    volume.unlink(InodeNo::ROOT, "gone");
    volume.unmount();
    let mut surgeon = Surgeon::new(&volume.device);
    assert!(matches!(surgeon.imap(gone), ImapState::Free { .. }));
    surgeon.edit_imap(gone, &|_| ImapState::Free {
        next_version: 3,
        previous: u64::MAX,
        next: 0,
    });
    survives(&surgeon);
}

/// Removing a number from the list, and adding one, must not change an entry to which the
/// list leads and that is not part of it.
#[test]
fn a_free_list_that_leads_to_a_file() {
    let volume = Volume::new(8 << 20);
    let [kept, gone] = ["kept", "gone"].map(|name| volume.file(InodeNo::ROOT, name));
    let content = pattern(1, 9000);
    volume.write(kept, 0, &content);
    volume.system.checkpoint().unwrap();
    volume.unlink(InodeNo::ROOT, "gone");
    volume.unmount();
    let mut surgeon = Surgeon::new(&volume.device);
    surgeon.edit_imap(gone, &|_| ImapState::Free {
        next_version: 3,
        previous: kept.0,
        next: kept.0,
    });
    survives(&surgeon);
    let clock = Arc::new(VirtualClock::new(0, 1000));
    let volume = Volume::mount(surgeon.device(), clock, 5);
    assert_eq!(volume.file(InodeNo::ROOT, "new"), gone, "a number again");
    volume.system.checkpoint().unwrap();
    volume.unlink(InodeNo::ROOT, "new");
    volume.system.checkpoint().unwrap();
    volume.system.drop_caches();
    assert_eq!(volume.lookup(InodeNo::ROOT, "kept"), kept);
    let mut read = vec![0; content.len()];
    let length = volume.system.read(kept, 0, &mut read).unwrap();
    assert_eq!((length, read), (content.len(), content));
    volume.unmount();
}

/// Returns a partial segment of one write unit. `sectors` makes it claim another length.
fn partial(
    surgeon: &Surgeon,
    place: u64,
    entries: &[u8],
    edit: impl FnOnce(&mut SummaryHeader),
) -> Vec<u8> {
    let mut header = SummaryHeader::new_zeroed();
    header.magic = summary::MAGIC.into();
    header.volume_tag = surgeon.superblock.volume_tag().into();
    header.sector = (place / SECTOR).into();
    header.entry_bytes = (entries.len() as u32).into();
    let bytes = (HEADER_BYTES + entries.len()).next_multiple_of(4096);
    header.sectors = (bytes as u32 / SECTOR as u32).into();
    header.members = 1.into();
    edit(&mut header);
    header.crc = header.computed_crc(entries).into();
    let mut whole = [header.as_bytes(), entries].concat();
    whole.resize(bytes, 0);
    whole
}

pub fn put(surgeon: &mut Surgeon, place: u64, bytes: &[u8]) {
    surgeon.bytes[place as usize..][..bytes.len()].copy_from_slice(bytes);
}

/// Valid summaries with false content at otherwise unused places.
#[test]
fn salvage_meets_the_last_serial_and_the_longest_partial() {
    let volume = Volume::new(16 << 20);
    crate::tree::populate(&volume);
    volume.unmount();
    let before = Tree::of(&volume.device);
    let mut surgeon = Surgeon::new(&volume.device);
    let last = surgeon.geometry.segment_count - 1;
    let start = surgeon.geometry.byte(last, 0);
    for nth in 1..5 {
        let place = start + nth * 8192;
        let bytes = partial(&surgeon, place, &[], |header| {
            header.serial = u64::MAX.into();
            header.sectors = if nth < 3 { 8 } else { u32::MAX }.into();
            header.next_segment = u32::MAX.into();
        });
        put(&mut surgeon, place, &bytes);
    }
    let damaged = wipe(&surgeon.device(), true, false);
    let (_, _, after) = salvage(&damaged);
    assert_same(&before, &after, "with lying summaries");
}

/// Returns a volume that was not unmounted, and the position at which its log continues.
pub fn open_ended() -> (Surgeon, LogPosition) {
    let volume = Volume::new(8 << 20);
    volume.unmount();
    let mut surgeon = Surgeon::new(&volume.device);
    surgeon.edit_record(|header| header.flags &= !checkpoint_flags::CLEAN);
    let position = surgeon.record.header.position;
    (surgeon, position)
}

/// Writes the partial that follows `position`. Returns the position behind it.
fn following(
    surgeon: &mut Surgeon,
    position: LogPosition,
    entries: &[u8],
    edit: impl FnOnce(&mut SummaryHeader),
) -> LogPosition {
    let (segment, offset, enters) = surgeon.geometry.successor(&position);
    assert!(!enters, "the segment has room");
    let place = surgeon.geometry.byte(segment, offset);
    let serial = position.serial.get() + 1;
    let bytes = partial(surgeon, place, entries, |header| {
        header.serial = serial.into();
        header.predecessor = position.predecessor;
        header.incarnation = (position.incarnation.get() + 1).into();
        header.next_segment = position.next_segment;
        header.segment_incarnation = position.segment_incarnation;
        edit(header);
    });
    put(surgeon, place, &bytes);
    let (header, _) = zerocopy::FromBytes::read_from_prefix(&bytes).unwrap();
    let header: SummaryHeader = header;
    LogPosition {
        serial: serial.into(),
        offset: (offset + bytes.len() as u32).into(),
        predecessor: header.chain_crc().into(),
        incarnation: header.incarnation,
        ..position
    }
}

pub fn recovered(surgeon: &Surgeon) -> RecoveryReport {
    let clock = Arc::new(VirtualClock::new(0, 1000));
    let lfs = Lfs::mount(surgeon.device(), clock, mount_options(9)).unwrap();
    lfs.recovery_report().clone()
}

/// The memory of replay is bounded over a whole group, which is accepted only with its
/// last partial.
#[test]
fn reservations_are_counted_before_their_group_is_whole() {
    let (mut surgeon, mut position) = open_ended();
    let geometry = surgeon.geometry;
    let blocks = u64::from(geometry.segment_count) * u64::from(geometry.segment_bytes)
        / u64::from(geometry.block_bytes);
    let mut file = FileEntry::new_zeroed();
    file.kind = entry_kind::FILE;
    file.version = 1.into();
    file.ino = InodeNo::FIRST.0.into();
    for nth in 0..4 {
        let mut entries = file.as_bytes().to_vec();
        for record in 0..40 {
            let mut reserved = RecordEntry::new_zeroed();
            reserved.kind = entry_kind::RESERVED;
            reserved.from = ((nth * 40 + record) * blocks).into();
            reserved.to = ((nth * 40 + record + 1) * blocks).into();
            entries.extend_from_slice(reserved.as_bytes());
        }
        let flags = if nth == 0 { summary_flags::FIRST } else { 0 };
        position = following(&mut surgeon, position, &entries, |header| {
            header.flags = flags.into();
        });
    }
    let report = recovered(&surgeon);
    assert!(report.end.contains("reserves more"), "{}", report.end);
    assert_eq!(report.partials, 1);
    survives(&surgeon);
}

#[test]
fn totals_that_no_volume_has() {
    let (mut surgeon, position) = open_ended();
    following(&mut surgeon, position, &[], |header| {
        header.flags = (summary_flags::FIRST | summary_flags::LAST).into();
        header.inodes_used = u64::MAX.into();
        header.blocks_used = u64::MAX.into();
        header.sectors_used = u64::MAX.into();
    });
    assert_eq!(recovered(&surgeon).groups, 1);
    survives(&surgeon);
    let volume = Volume::mount(surgeon.device(), Arc::new(VirtualClock::new(0, 1000)), 5);
    let caller = Caller::root();
    drop(
        volume
            .system
            .mknod(&caller, InodeNo::ROOT, b"one", 0o600, 0),
    );
    let _ = volume.system.statfs();
    volume.unmount();
}

/// Entries contain bytes that a writer chose, such as names of files: a summary among
/// them proves nothing about the log.
#[test]
fn a_summary_inside_the_entries_of_another_proves_nothing() {
    let (mut surgeon, position) = open_ended();
    let (segment, offset, _) = surgeon.geometry.successor(&position);
    let claim = |surgeon: &Surgeon, place, entries: &[u8], durable: u64| {
        partial(surgeon, place, entries, |header| {
            header.serial = (position.serial.get() + 9).into();
            header.incarnation = (position.incarnation.get() + 1).into();
            header.durable_through = durable.into();
            header.next_segment = position.next_segment;
        })
    };
    // The place where the log continues is empty. A valid summary follows behind it.
    let place = surgeon.geometry.byte(segment, offset) + 4096;
    let lie = claim(&surgeon, place + 4096, &[], u64::MAX);
    let mut entries = vec![0; 4096 - HEADER_BYTES];
    entries.extend_from_slice(&lie);
    let outer = claim(&surgeon, place, &entries, 0);
    put(&mut surgeon, place, &outer);
    assert_eq!(recovered(&surgeon).damage, [""; 0]);
    // Outside of another partial the summary is accepted.
    put(&mut surgeon, place, &[0; 4096]);
    let damage = recovered(&surgeon).damage;
    assert!(
        damage[0].contains("acknowledged data is lost"),
        "{damage:?}"
    );
}
