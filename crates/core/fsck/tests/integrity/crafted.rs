//! Checkpoint records and partial segments that no writer produces, with right checksums:
//! each is refused for the right reason, and recovery continues from the state before it.

use crate::check::mutations::survives;
use crate::extremes::{open_ended, put, recovered};
use crate::surgeon::Surgeon;
use crate::volume::{Volume, mount_options, pattern};
use std::sync::Arc;
use varve_device::VirtualClock;
use varve_fs::InodeNo;
use varve_lfs::Lfs;
use varve_lfs::format::checkpoint::CheckpointHeader;
use varve_lfs::format::inode::InodeImage;
use varve_lfs::format::summary::{
    self, BlockEntry, FileEntry, HEADER_BYTES, InodeEntry, RecordEntry, entry_flags, entry_kind,
    summary_flags,
};
use varve_lfs::format::{LogPosition, SECTOR, SummaryHeader, crc32c};
use zerocopy::{FromZeros, IntoBytes};

/// A block number beyond every file.
const BEYOND: u64 = 1 << 48;

type Edit = fn(&mut CheckpointHeader);

/// Returns an unmounted volume with two checkpoints.
fn two_records() -> Surgeon {
    let volume = Volume::new(8 << 20);
    let file = volume.file(InodeNo::ROOT, "file");
    volume.write(file, 0, &pattern(1, 9000));
    volume.system.checkpoint().unwrap();
    volume.file(InodeNo::ROOT, "other");
    volume.unmount();
    Surgeon::new(&volume.device)
}

/// The newest record must be refused, and the older one used.
#[track_caller]
fn falls_back(surgeon: &Surgeon, why: &str) {
    let serial = surgeon.record.header.serial.get();
    let report = recovered(surgeon);
    assert_ne!(report.checkpoint, serial, "{why}: was believed");
    let told = report.refused_records.join("; ");
    assert!(told.contains(why), "{told:?} does not say {why:?}");
    assert_eq!(report.damage, [""; 0], "{why}");
    let volume = Volume::mount(surgeon.device(), Arc::new(VirtualClock::new(0, 1000)), 5);
    volume.lookup(InodeNo::ROOT, "file");
    volume.lookup(InodeNo::ROOT, "other");
}

#[test]
fn records_with_impossible_positions_and_counts() {
    let position: &[Edit] = &[
        |h| h.position.segment = u32::MAX.into(),
        |h| h.position.next_segment = u32::MAX.into(),
        |h| h.position.next_segment = h.position.segment,
        |h| h.position.offset = u32::MAX.into(),
        |h| h.position.offset = (h.position.offset.get() + 512).into(),
        |h| h.position.serial = (1 << 62).into(),
        |h| {
            // A copy of the superblock is stored there.
            h.position.segment = 0.into();
            h.position.next_segment = 1.into();
            h.position.offset = 0.into();
        },
    ];
    let counts: &[Edit] = &[
        |h| h.next_ino = u64::MAX.into(),
        |h| h.free_head = h.next_ino,
        |h| h.free_count = (h.next_ino.get() + 1).into(),
        |h| h.unfinished_count = u64::MAX.into(),
        |h| h.inodes_used = (h.next_ino.get() + 1).into(),
        |h| h.metadata_bytes = u64::MAX.into(),
        |h| h.sectors_used = u64::MAX.into(),
        |h| h.blocks_used = u64::MAX.into(),
    ];
    let short: &[Edit] = &[|h| h.unfinished_count = 700.into()];
    for (edits, why) in [
        (position, "its log position is impossible"),
        (counts, "its counts are impossible"),
        (short, "the list of unfinished inodes is cut short"),
    ] {
        for edit in edits {
            let mut surgeon = two_records();
            surgeon.edit_record(edit);
            falls_back(&surgeon, why);
            survives(&surgeon);
        }
    }
}

/// A serial above all others makes a record the newest, but not a valid one.
#[test]
fn a_record_with_the_last_serial() {
    let mut surgeon = two_records();
    surgeon.edit_record(|header| header.serial = (1 << 62).into());
    falls_back(&surgeon, "its counts are impossible");
    survives(&surgeon);
}

#[test]
fn records_with_an_ifile_that_is_none() {
    let mut surgeon = two_records();
    surgeon.record.ifile.resize(512, 0);
    surgeon.edit_record(|header| header.inode_bytes = 512.into());
    falls_back(&surgeon, "the ifile's inode has a wrong size");

    let mut surgeon = two_records();
    let mut image = InodeImage::decode(&surgeon.record.ifile, InodeNo::IFILE).unwrap();
    image.root = None;
    image.encode(&mut surgeon.record.ifile);
    surgeon.edit_record(|_| {});
    falls_back(&surgeon, "the ifile's inode has no root");
    survives(&surgeon);

    let mut surgeon = two_records();
    surgeon.record.ifile.fill(0);
    surgeon.edit_record(|_| {});
    falls_back(&surgeon, "no inode here");
}

/// Corrections must refer to existing segments, and no count may become negative.
#[test]
fn records_that_correct_what_is_not_there() {
    let mut surgeon = two_records();
    let mut delta = surgeon.record.deltas[0];
    delta.segment = u32::MAX.into();
    surgeon.record.deltas.push(delta);
    delta.segment = 3.into();
    delta.bytes = i64::MIN.into();
    surgeon.record.deltas.push(delta);
    delta.segment = 4.into();
    delta.bytes = i64::MAX.into();
    surgeon.record.deltas.push(delta);
    let count = surgeon.record.deltas.len() as u32;
    surgeon.edit_record(|header| header.delta_count = count.into());
    assert_eq!(
        recovered(&surgeon).checkpoint,
        surgeon.record.header.serial.get()
    );
    assert!(!surgeon.check(false).errors.is_empty());
    survives(&surgeon);
}

/// No record is usable: the error of the mount names the fault of the newest one.
#[test]
fn without_a_usable_record_there_is_no_mount() {
    let mut surgeon = two_records();
    surgeon.edit_record(|header| header.next_ino = u64::MAX.into());
    let record = surgeon.record.clone();
    let length = surgeon.superblock.record_bytes.get() as usize;
    // The same fault in both slots.
    for slot in 0..surgeon.superblock.record_count.get() as usize {
        let mut record = record.clone();
        record.header.serial = (record.header.serial.get() - slot as u64).into();
        let at = surgeon.superblock.ring_offset.get() as usize + slot * length;
        surgeon.bytes[at..at + length].copy_from_slice(&record.encode(length));
    }
    let clock = Arc::new(VirtualClock::new(0, 1000));
    let refused = Lfs::mount(surgeon.device(), clock, mount_options(9));
    let error = refused.err().expect("it was mounted").to_string();
    assert!(error.contains("its counts are impossible"), "{error}");
    survives(&surgeon);
}

/// A partial under construction.
#[derive(Default)]
struct Forged {
    entries: Vec<u8>,
    payload: Vec<u8>,
}

impl Forged {
    fn file(ino: u64) -> Forged {
        let mut file = FileEntry::new_zeroed();
        file.kind = entry_kind::FILE;
        file.version = 1.into();
        file.ino = ino.into();
        Forged {
            entries: file.as_bytes().to_vec(),
            payload: Vec::new(),
        }
    }

    fn record(mut self, kind: u8, from: u64, to: u64) -> Forged {
        let mut record = RecordEntry::new_zeroed();
        record.kind = kind;
        record.from = from.into();
        record.to = to.into();
        self.entries.extend_from_slice(record.as_bytes());
        self
    }

    /// Adds a sector of content with its checksum, changed by `edit`.
    fn block(mut self, block: u64, edit: impl FnOnce(&mut BlockEntry)) -> Forged {
        let content = [block as u8; SECTOR as usize];
        let mut entry = BlockEntry::new_zeroed();
        entry.kind = entry_kind::BLOCK;
        entry.sectors = 1;
        entry.crc = crc32c(&content).into();
        entry.block = block.into();
        edit(&mut entry);
        self.entries.extend_from_slice(entry.as_bytes());
        self.payload.extend_from_slice(&content);
        self
    }

    fn inode(mut self, image: &InodeImage, edit: impl FnOnce(&mut InodeEntry)) -> Forged {
        let mut bytes = vec![0; 256];
        image.encode(&mut bytes);
        let mut entry = InodeEntry::new_zeroed();
        entry.kind = entry_kind::INODE;
        entry.crc = crc32c(&bytes).into();
        edit(&mut entry);
        self.entries.extend_from_slice(entry.as_bytes());
        self.payload.extend_from_slice(&bytes);
        self
    }

    /// Writes the partial at the place where the log continues behind `position`.
    fn put(
        &self,
        surgeon: &mut Surgeon,
        position: LogPosition,
        edit: impl FnOnce(&mut SummaryHeader),
    ) {
        let (segment, offset, enters) = surgeon.geometry.successor(&position);
        let place = surgeon.geometry.byte(segment, offset);
        let summary = (HEADER_BYTES + self.entries.len()).next_multiple_of(SECTOR as usize);
        let bytes = (summary + self.payload.len()).next_multiple_of(4096);
        let mut header = SummaryHeader::new_zeroed();
        header.magic = summary::MAGIC.into();
        header.volume_tag = surgeon.superblock.volume_tag().into();
        header.sector = (place / SECTOR).into();
        header.entry_bytes = (self.entries.len() as u32).into();
        header.sectors = (bytes as u32 / SECTOR as u32).into();
        header.members = 1.into();
        header.flags = (summary_flags::FIRST | summary_flags::LAST).into();
        header.serial = (position.serial.get() + 1).into();
        header.predecessor = position.predecessor;
        header.incarnation = (position.incarnation.get() + 1).into();
        header.next_segment = match enters {
            false => position.next_segment,
            true => (segment + 1).into(),
        };
        header.segment_incarnation = match enters {
            false => position.segment_incarnation,
            true => (position.segment_incarnation.get() + 1).into(),
        };
        edit(&mut header);
        header.crc = header.computed_crc(&self.entries).into();
        let mut whole = [header.as_bytes(), &self.entries].concat();
        whole.resize(summary, 0);
        whole.extend_from_slice(&self.payload);
        whole.resize(bytes, 0);
        put(surgeon, place, &whole);
    }
}

/// The log must end before the partial, for this reason.
#[track_caller]
fn ends(forged: &Forged, why: &str, edit: impl FnOnce(&mut SummaryHeader)) {
    let (mut surgeon, position) = open_ended();
    forged.put(&mut surgeon, position, edit);
    let report = recovered(&surgeon);
    assert_eq!(report.partials, 0, "{why}: was believed");
    assert!(report.end.contains(why), "{:?}: not {why:?}", report.end);
    survives(&surgeon);
}

const FIRST: u64 = InodeNo::FIRST.0;

#[test]
fn partials_with_impossible_entries_end_the_log() {
    use entry_kind::{BLOCK, FREED, PUNCHED, RESERVED, TRUNCATED};
    let file = || Forged::file(FIRST);
    let mut headless = file().block(0, |_| {});
    headless.entries.drain(..size_of::<FileEntry>());
    let record = |kind, from, to| file().record(kind, from, to);
    let cases = [
        (headless, "an entry before any file"),
        (Forged::file(0).record(FREED, 2, 0), "inode number 0"),
        (Forged::file(u64::MAX).record(FREED, 2, 0), "inode number"),
        (file().block(BEYOND, |_| {}), "a block beyond"),
        (record(TRUNCATED, BEYOND + 1, 0), "an impossible range"),
        (record(PUNCHED, 2, 1), "an impossible range"),
        (record(PUNCHED, 0, BEYOND + 1), "an impossible range"),
        (record(RESERVED, 2, 1), "an impossible range"),
        (record(RESERVED, 0, BEYOND + 1), "an impossible range"),
        (record(RESERVED, 0, 1 << 40), "an impossible range"),
        (record(99, 0, 0), "kind 99"),
        (
            file().block(0, |entry| entry.sectors = 0),
            &*format!("kind {BLOCK}"),
        ),
        (file().block(0, |entry| entry.sectors = 8), "describe more"),
        (
            file().block(0, |entry| entry.crc = 5.into()),
            "has checksum",
        ),
    ];
    for (forged, why) in &cases {
        ends(forged, why, |_| {});
    }
}

#[test]
fn partials_that_do_not_follow_end_the_log() {
    type Edit = fn(&mut SummaryHeader);
    let cases: &[(Edit, &str)] = &[
        (|h| h.serial = 900.into(), "serial 900, want"),
        (|h| h.predecessor = 5.into(), "of a former life"),
        (|h| h.incarnation = 0.into(), "by an earlier mount"),
        (|h| h.next_segment = 9.into(), "about the segment"),
        (|h| h.segment_incarnation = 9.into(), "about the segment"),
        (|h| h.next_segment = u32::MAX.into(), "beyond the volume"),
        (|h| h.sectors = 9.into(), "length 4608 of"),
        (|h| h.sectors = 2048.into(), "length 1048576 of"),
        (|h| h.flags = 64.into(), "unknown flags"),
        (|h| h.sector = 8.into(), "for sector 8"),
    ];
    for (edit, why) in cases {
        ends(&Forged::file(FIRST).block(0, |_| {}), why, edit);
    }
}

/// The first partial of a segment names the segment that follows it.
#[test]
fn a_segment_that_leads_to_itself_ends_the_log() {
    let (mut surgeon, mut position) = open_ended();
    position.offset = surgeon.geometry.segment_bytes.into();
    surgeon.edit_record(|header| header.position = position);
    let forged = Forged::file(FIRST).record(entry_kind::FREED, 2, 0);
    let (segment, ..) = surgeon.geometry.successor(&position);
    assert_eq!(segment, position.next_segment.get());
    forged.put(&mut surgeon, position, |h| h.next_segment = segment.into());
    let end = recovered(&surgeon).end;
    assert!(end.contains("names its own segment"), "{end}");
    survives(&surgeon);
    // With any other segment, the partial is accepted.
    forged.put(&mut surgeon, position, |_| {});
    assert_eq!(recovered(&surgeon).groups, 1);
    survives(&surgeon);
}

/// A partial behind the unfinished beginning of a group belongs to that group unless it
/// begins one itself; without a beginning before it, it belongs to none.
#[test]
fn the_rest_of_a_group_without_its_beginning_changes_nothing() {
    let (mut surgeon, position) = open_ended();
    let forged = Forged::file(FIRST).record(entry_kind::FREED, 2, 0);
    forged.put(&mut surgeon, position, |h| {
        h.flags = summary_flags::LAST.into();
    });
    let report = recovered(&surgeon);
    assert_eq!((report.partials, report.groups), (1, 0));
    survives(&surgeon);
}

/// Returns a volume with one file of some blocks and attributes and an open-ended log,
/// and the file.
fn with_a_file() -> (Surgeon, LogPosition, InodeNo) {
    let volume = Volume::new(8 << 20);
    let file = volume.file(InodeNo::ROOT, "file");
    volume.write(file, 0, &pattern(1, 3 * 4096));
    volume.set_attribute(file, "user.large", &[7; 900]);
    volume.unmount();
    let surgeon = Surgeon::new(&volume.device);
    let position = surgeon.record.header.position;
    (surgeon, position, file)
}

/// Applies the partial as a group of the cleaner. Returns the content of the file
/// afterwards.
fn after(surgeon: &mut Surgeon, position: LogPosition, forged: &Forged, file: InodeNo) -> Vec<u8> {
    forged.put(surgeon, position, |header| {
        header.flags |= summary_flags::CLEANER;
    });
    assert_eq!(recovered(surgeon).groups, 1);
    survives(surgeon);
    let volume = Volume::mount(surgeon.device(), Arc::new(VirtualClock::new(0, 1000)), 5);
    let mut bytes = vec![0; 20_000];
    let read = volume.system.read(file, 0, &mut bytes).unwrap();
    bytes.truncate(read);
    bytes
}

/// Protocol rule 18 at replay: a move whose source is not current is dropped, whatever
/// kind of block it moves.
#[test]
fn moves_from_elsewhere_change_nothing() {
    let (surgeon, position, file) = with_a_file();
    let moved = |entry: &mut BlockEntry| {
        entry.flags = entry_flags::MOVED;
        entry.source = 12345.into();
        entry.birth = 1.into();
    };
    let mut image = surgeon.clone().inode(file);
    image.inode.size = 5;
    let of_file = || {
        let mut forged = Forged::file(file.0);
        let at = std::mem::offset_of!(FileEntry, version);
        let version = image.inode.version.to_le_bytes();
        forged.entries[at..at + 4].copy_from_slice(&version);
        forged
    };
    let cases = [
        of_file().block(1, moved),
        of_file().block(40, moved), // a hole
        of_file().block(0, |entry| {
            moved(entry);
            entry.kind = entry_kind::XATTRS;
        }),
        of_file().inode(&image, |entry| {
            entry.flags = entry_flags::MOVED;
            entry.source = 12345.into();
        }),
        Forged::file(file.0 + 1).block(0, moved), // no such file
        Forged::file(file.0 + 1).block(0, |entry| {
            moved(entry);
            entry.kind = entry_kind::XATTRS;
        }),
    ];
    for (nth, forged) in cases.iter().enumerate() {
        let mut surgeon = surgeon.clone();
        let found = after(&mut surgeon, position, forged, file);
        assert_eq!(found, pattern(1, 3 * 4096), "case {nth}");
    }
    // A move from the current place is accepted.
    let mut surgeon = surgeon.clone();
    let source = surgeon.pointer(file, 0, 1);
    let forged = of_file().block(1, |entry| {
        moved(entry);
        entry.source = source.sector().into();
        entry.birth = source.birth().into();
    });
    let found = after(&mut surgeon, position, &forged, file);
    assert_eq!(found[4096..4096 + 512], [1; 512]);
}

/// An inode must be the one that its entry names.
#[test]
fn inodes_of_other_versions_end_the_log() {
    let (mut surgeon, position, file) = with_a_file();
    let mut image = surgeon.inode(file);
    image.inode.version += 7;
    Forged::file(file.0)
        .inode(&image, |_| {})
        .put(&mut surgeon, position, |_| {});
    let report = recovered(&surgeon);
    assert!(report.end.contains("version differs"), "{}", report.end);
    survives(&surgeon);
    Forged::file(file.0 + 1)
        .inode(&image, |_| {})
        .put(&mut surgeon, position, |_| {});
    let report = recovered(&surgeon);
    assert!(report.end.contains("stands in"), "{}", report.end);
    survives(&surgeon);
}
