//! Compares `docs/spec/log.md` with the code: every field of every structure,
//! the numbers behind names, and the hexadecimal dump of a real volume.
//!
//! Structures that cannot be taken apart from outside (private fields,
//! directory nodes, attribute blobs) are made with values that tell fields
//! apart, and looked for at the documented places.

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::sync::Arc;
use varve_device::{Block, Clock, Device, MemoryDevice, VirtualClock};
use varve_fs::directory::{self, DirectoryBlocks, Key};
use varve_fs::{Caller, FileKind, FileSystem, InodeNo, Options};
use varve_lfs::format::checkpoint::HeadPlace;
use varve_lfs::format::checkpoint::{CheckpointHeader, checkpoint_flags};
use varve_lfs::format::ifile::{ImapState, InodePlace, usage_flags};
use varve_lfs::format::inode::inode_flags;
use varve_lfs::format::node::node_form;
use varve_lfs::format::pointer::pointer_flags;
use varve_lfs::format::summary::{
    BlockEntry, FileEntry, InodeEntry, PlacedEntry, RecordEntry, entry_flags, entry_kind,
    summary_flags,
};
use varve_lfs::format::{
    DiskInode, ImapEntry, LogPosition, NodeHeader, PackedHeader, Pointer, SummaryHeader,
    Superblock, UsageDelta, UsageEntry, history, ifile, inode, map, node, owner, pointer, summary,
    superblock,
};
use varve_lfs::{FormatOptions, Lfs, MountOptions};
use zerocopy::IntoBytes;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/spec/log.md");

fn document() -> String {
    std::fs::read_to_string(PATH).expect("docs/spec/log.md is there")
}

/// A field: offset, bytes, name.
type Field = (usize, usize, String);

/// The cells of a table's row, if the line is one.
fn cells(line: &str) -> Option<Vec<&str>> {
    let row = line.strip_prefix("| ")?.strip_suffix(" |")?;
    Some(row.split(" | ").map(str::trim).collect())
}

/// Headings of the form `### Name: N bytes`, with the fields below them.
fn structures(text: &str) -> BTreeMap<String, (usize, Vec<Field>)> {
    let mut found = BTreeMap::new();
    let mut current: Option<String> = None;
    for line in text.lines() {
        if line.starts_with('#') {
            current = line.strip_prefix("### ").and_then(|heading| {
                let (name, size) = heading.split_once(": ")?;
                let size = size.strip_suffix(" bytes")?.parse().ok()?;
                found.insert(name.to_owned(), (size, Vec::new()));
                Some(name.to_owned())
            });
        }
        if let (Some(name), Some(cells)) = (&current, cells(line))
            && let [offset, bytes, field, ..] = cells[..]
            && let (Ok(offset), Ok(bytes)) = (offset.parse(), bytes.parse())
        {
            let fields = &mut found.get_mut(name).expect("inserted above").1;
            fields.push((offset, bytes, field.trim_matches('`').to_owned()));
        }
    }
    found
}

/// Fields of a structure in the code; sizes follow from the offsets.
fn declared(size: usize, starts: &[(usize, &str)]) -> (usize, Vec<Field>) {
    let ends = starts.iter().skip(1).map(|start| start.0).chain([size]);
    let fields = starts
        .iter()
        .zip(ends)
        .map(|(&(offset, name), end)| (offset, end - offset, name.to_owned()))
        .collect();
    (size, fields)
}

macro_rules! structure {
    ($type:ty: $($field:ident),+ $(,)?) => {
        (
            stringify!($type),
            declared(size_of::<$type>(), &[$((offset_of!($type, $field), stringify!($field))),+]),
        )
    };
}

#[test]
fn every_field_is_where_the_document_says() {
    use history::{DisplacedBlock, HistoryHeader, ImageHeader, RunRow, SnapshotRow};
    use map::{MapEntry, MapHeader};
    use owner::OwnerRecord;
    let documented = structures(&document());
    let code = [
        structure!(Superblock: magic, crc, version, checksum_kind, options, compat,
            read_only_compat, incompat, uuid, label, hash_seed, block_bytes, write_unit,
            segment_bytes, inode_bytes, segment_count, record_bytes, record_count, copy_stride,
            first_segment, owner_offset, ring_offset, device_bytes, created_ns, generation,
            sector, reserve_segments, spare, tag, spare_2),
        structure!(OwnerRecord: magic, crc, volume_tag, mount_id, pid, mounted, since_ns, boot_id,
            host, spare),
        structure!(CheckpointHeader: serial, crc, magic, volume_tag, position, written_ns, flags,
            segments_opened, next_ino, free_head, free_count, unfinished_count, inodes_used,
            blocks_used, sectors_used, metadata_bytes, durable_through, inode_bytes, delta_count,
            further_heads, first_version, heads),
        structure!(HeadPlace: offset, segment, next_segment, segment_incarnation),
        structure!(LogPosition: serial, offset, segment, next_segment, predecessor, incarnation,
            segment_incarnation),
        structure!(UsageDelta: segment, incarnation, bytes),
        structure!(SummaryHeader: crc, magic, volume_tag, serial, sector, durable_through,
            mount_id, predecessor, incarnation, next_segment, segment_incarnation, entry_bytes,
            sectors, flags, members, entry_count, written_ns, inodes_used, blocks_used,
            sectors_used, head, replays,
            replayed_check, replayed_serial, spare),
        structure!(FileEntry: kind, spare, version, ino),
        structure!(BlockEntry: kind, sectors, flags, height, crc, block, birth, written_ns,
            source),
        structure!(InodeEntry: kind, flags, source_slot, spare, crc, birth, source),
        structure!(RecordEntry: kind, spare, from, to),
        structure!(PlacedEntry: kind, sectors, count, incarnation, block, birth, sector,
            written_ns),
        structure!(MapHeader: crc, magic, volume_tag, sector, serial, segment, incarnation, page,
            pages, entry_count, mount, spare),
        structure!(MapEntry: ino, block, birth, written_ns, crc, version, sector, sectors, xattrs,
            spare),
        structure!(DiskInode: magic, version, ino, mode, uid, gid, nlink, size, blocks, sectors,
            special, seconds, nanos, flags, project, height, spare, inline_bytes, xattr_bytes,
            xattrs),
        structure!(NodeHeader: magic, version, ino, index, height, form, spare, bitmap),
        structure!(PackedHeader: address_base, birth_base, incarnation_base, sectors_base,
            flags_base, address_shift, address_bits, sectors_bits, flags_bits, birth_bits,
            incarnation_bits),
        structure!(HistoryHeader: magic, snapshots, runs, newest, bytes, kept_bytes, blocks_left,
            images_left, spare),
        structure!(RunRow: first_block, blocks, images, oldest, newest, written, spare),
        structure!(SnapshotRow: number, flags, name_bytes, position, taken_ns, checkpoint),
        structure!(DisplacedBlock: ino, block, version, last, xattrs, spare, pointer),
        structure!(ImageHeader: ino, version, after, last, spare),
        structure!(UsageEntry: live_bytes, incarnation, flags, spare, newest_ns, empty_since),
    ];
    for (name, expected) in &code {
        assert_eq!(documented.get(*name), Some(expected), "{name}");
    }
    let probed = [
        "Pointer",
        "ImapEntry",
        "DirectoryNode",
        "DirectoryRoot",
        "DirectoryEntry",
        "DirectoryChild",
        "XattrHeader",
    ];
    assert_eq!(size_of::<Pointer>(), documented["Pointer"].0);
    assert_eq!(size_of::<ImapEntry>(), documented["ImapEntry"].0);
    assert_eq!(documented.len(), code.len() + probed.len());
    for (name, (size, fields)) in &documented {
        let mut end = 0;
        for (offset, bytes, field) in fields {
            assert_eq!(*offset, end, "{name}: {field} leaves a gap or overlaps");
            end += bytes;
        }
        assert_eq!(end, *size, "{name} ends elsewhere");
    }
}

/// Looks for values at the places the document gives for a structure's fields.
fn probe(name: &str, bytes: &[u8], values: &[(&str, &[u8])]) {
    let documented = structures(&document());
    let (_, fields) = documented.get(name).expect("a heading for it");
    let names: Vec<&str> = fields.iter().map(|field| field.2.as_str()).collect();
    let expected: Vec<&str> = values.iter().map(|value| value.0).collect();
    assert_eq!(names, expected, "{name}");
    for ((offset, length, field), (_, value)) in fields.iter().zip(values) {
        assert_eq!(&bytes[*offset..offset + length], *value, "{name}: {field}");
    }
}

fn le(value: u64, bytes: usize) -> Vec<u8> {
    value.to_le_bytes()[..bytes].to_vec()
}

#[test]
fn pointers_and_map_entries_are_as_documented() {
    let pointer = Pointer::new(0x1234, 5, 0xaabb_ccdd, 77, 99);
    let place = 0x1234 | 5 << 48;
    probe(
        "Pointer",
        pointer.as_bytes(),
        &[
            ("place", &le(place, 8)),
            ("birth", &le(77, 8)),
            ("crc", &le(0xaabb_ccdd, 4)),
            ("incarnation", &le(99, 4)),
            ("tag", &[0; 8]),
        ],
    );
    let unwritten = Pointer::unwritten_block(8, 3);
    assert_eq!(unwritten.as_bytes()[..8], le(8 << 48 | 1 << 56, 8));
    let place = InodePlace {
        sector: 0x1234,
        slot: 1,
        birth: 77,
        crc: 0xaabb_ccdd,
        incarnation: 99,
    };
    let used = ImapEntry::new(ImapState::Used {
        version: 6,
        place,
        epoch: 7,
    });
    let free = ImapEntry::new(ImapState::Free {
        next_version: 6,
        previous: 77,
        next: 0x1234,
    });
    for (entry, place, crc, incarnation, epoch) in [
        (used, 0x1234 | 1 << 48, 0xaabb_ccdd, 99, 7),
        (free, 0x1234 | 1 << 56, 0, 0, 0),
    ] {
        probe(
            "ImapEntry",
            entry.as_bytes(),
            &[
                ("place", &le(place, 8)),
                ("birth", &le(77, 8)),
                ("crc", &le(crc, 4)),
                ("version", &le(6, 4)),
                ("incarnation", &le(incarnation, 4)),
                ("epoch", &le(epoch, 4)),
            ],
        );
    }
}

#[derive(Default)]
struct Blocks(BTreeMap<u64, Arc<Block>>);

impl DirectoryBlocks for Blocks {
    fn read(&mut self, block: u64) -> varve_fs::Result<Arc<Block>> {
        Ok(Arc::clone(&self.0[&block]))
    }

    fn write(&mut self, block: u64, data: Vec<u8>) {
        self.0.insert(block, Arc::new(data.into()));
    }

    fn free(&mut self, block: u64) {
        self.0.remove(&block);
    }

    fn exists(&mut self, block: u64) -> varve_fs::Result<bool> {
        Ok(self.0.contains_key(&block))
    }
}

fn node_header(block: u64, bytes: &[u8], kind: u8, level: u8, count: u64, used: u64) {
    probe(
        "DirectoryNode",
        bytes,
        &[
            ("magic", b"VDir"),
            ("kind", &[kind]),
            ("level", &[level]),
            ("count", &le(count, 2)),
            ("used_bytes", &le(used, 2)),
            ("reserved", &[0; 2]),
            ("version", &le(0x0403_0201, 4)),
            ("ino", &le(0x1122_3344, 8)),
            ("block", &le(block, 8)),
        ],
    );
}

#[test]
fn directory_nodes_are_as_documented() {
    let key = Key {
        hash_seed: 5,
        case_fold: false,
        ino: InodeNo(0x1122_3344),
        version: 0x0403_0201,
    };
    let mut blocks = Blocks::default();
    let insert = |blocks: &mut Blocks, name: &[u8]| {
        let (ino, kind) = (InodeNo(0x5566), FileKind::Symlink);
        directory::insert(&key, blocks, name, ino, kind).expect("room");
    };
    insert(&mut blocks, b"first");
    let mut cookie = 0;
    let mut emit = |_: &[u8], _: InodeNo, _: FileKind, at: u64| {
        cookie = at;
        true
    };
    directory::list(&key, &mut blocks, 0, &mut emit).expect("sound");
    let leaf = blocks.0[&0].clone();
    node_header(0, &leaf, 1, 0, 1, 32 + 18 + 5);
    probe(
        "DirectoryEntry",
        &leaf[32..],
        &[
            ("cookie", &le(cookie, 8)),
            ("ino", &le(0x5566, 8)),
            ("kind", &[10]),
            ("name_len", &[5]),
        ],
    );
    assert_eq!(&leaf[32 + 18..], b"first");
    assert_eq!(cookie & 0xff, 0, "the first of its hash");

    for n in 0..200 {
        insert(&mut blocks, format!("name-{n:03}").as_bytes());
    }
    let root = blocks.0[&0].clone();
    let children = blocks.0.len() as u64 - 1;
    node_header(0, &root, 2, 1, children, 32 + 144 + 16 * children);
    probe(
        "DirectoryRoot",
        &root[32..],
        &[
            ("next_block", &le(children + 1, 8)),
            ("free_count", &[0; 2]),
            ("reserved", &[0; 6]),
            ("free", &[0; 128]),
        ],
    );
    let second = &root[32 + 144 + 16..];
    let block = u64::from_le_bytes(second[8..16].try_into().expect("8"));
    let first_cookie = &blocks.0[&block][32..40];
    probe(
        "DirectoryChild",
        second,
        &[("first_cookie", first_cookie), ("block", &le(block, 8))],
    );
}

#[test]
fn attribute_blobs_are_as_documented() {
    let blob = varve_fs::fuzzing::xattr_blob(b"", b"user.b", Some(b"xyz")).expect("room");
    probe(
        "XattrHeader",
        &blob,
        &[("name_bytes", &[6]), ("value_bytes", &le(3, 4))],
    );
    assert_eq!(&blob[5..], b"user.bxyz");
}

/// Rows with a name like `group.NAME` and a number.
fn numbers(text: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for cells in text.lines().filter_map(cells) {
        if let [name, value, ..] = cells[..]
            && let Some(name) = name.strip_prefix('`').and_then(|n| n.strip_suffix('`'))
            && let Ok(value) = value.parse()
        {
            found.insert(name.to_owned(), value);
        }
    }
    found
}

#[test]
fn every_number_is_what_the_document_says() {
    let code: &[(&str, u64)] = &[
        ("checkpoint.CLEAN", checkpoint_flags::CLEAN.into()),
        ("summary.FIRST", summary_flags::FIRST.into()),
        ("summary.LAST", summary_flags::LAST.into()),
        ("summary.CHECKPOINT", summary_flags::CHECKPOINT.into()),
        ("summary.CLEANER", summary_flags::CLEANER.into()),
        ("summary.ALIGNED", summary_flags::ALIGNED.into()),
        ("summary.SPILLED", summary_flags::SPILLED.into()),
        ("entry.FILE", entry_kind::FILE.into()),
        ("entry.BLOCK", entry_kind::BLOCK.into()),
        ("entry.XATTRS", entry_kind::XATTRS.into()),
        ("entry.NODE", entry_kind::NODE.into()),
        ("entry.INODE", entry_kind::INODE.into()),
        ("entry.MAP", entry_kind::MAP.into()),
        ("entry.PLACED", entry_kind::PLACED.into()),
        ("entry.FREED", entry_kind::FREED.into()),
        ("entry.TRUNCATED", entry_kind::TRUNCATED.into()),
        ("entry.PUNCHED", entry_kind::PUNCHED.into()),
        ("entry.RESERVED", entry_kind::RESERVED.into()),
        ("entry.MOVED", entry_flags::MOVED.into()),
        ("entry.PLUG", entry_flags::PLUG.into()),
        ("pointer.UNWRITTEN", pointer_flags::UNWRITTEN.into()),
        ("pointer.SHARED", pointer_flags::SHARED.into()),
        ("pointer.COMPRESSED", pointer_flags::COMPRESSED.into()),
        ("pointer.ENCRYPTED", pointer_flags::ENCRYPTED.into()),
        ("inode.INLINE", varve_fs::flags::INLINE.into()),
        ("inode.TRUNCATING", varve_fs::flags::TRUNCATING.into()),
        ("inode.IMMUTABLE", varve_fs::flags::IMMUTABLE.into()),
        ("inode.APPEND_ONLY", varve_fs::flags::APPEND_ONLY.into()),
        ("inode.NO_ATIME", varve_fs::flags::NO_ATIME.into()),
        ("inode.NO_DUMP", varve_fs::flags::NO_DUMP.into()),
        ("inode.SYNC", varve_fs::flags::SYNC.into()),
        ("inode.DIR_SYNC", varve_fs::flags::DIR_SYNC.into()),
        (
            "inode.PROJECT_INHERIT",
            varve_fs::flags::PROJECT_INHERIT.into(),
        ),
        ("inode.GUARDED", varve_fs::flags::GUARDED.into()),
        ("inode.PROTECTED", varve_fs::flags::PROTECTED.into()),
        ("inode.ROOT", inode_flags::ROOT.into()),
        ("usage.SUSPECT", usage_flags::SUSPECT.into()),
        ("usage.DATA_ONLY", usage_flags::DATA_ONLY.into()),
        ("usage.PLUGGED", usage_flags::PLUGGED.into()),
        ("usage.PLUGGED_LATELY", usage_flags::PLUGGED_LATELY.into()),
        ("imap.FREE", 1),
        ("superblock.VERSION", superblock::VERSION.into()),
        (
            "superblock.REPLAYED",
            superblock::read_only_compat_flags::REPLAYED,
        ),
        ("superblock.ALIGNED", superblock::incompat_flags::ALIGNED),
        ("superblock.PACKED", superblock::incompat_flags::PACKED),
        (
            "superblock.LONG_XATTRS",
            superblock::incompat_flags::LONG_XATTRS,
        ),
        ("superblock.OWN_TAG", superblock::incompat_flags::OWN_TAG),
        ("superblock.SHRUNK", superblock::incompat_flags::SHRUNK),
        ("superblock.SPILLS", superblock::incompat_flags::SPILLS),
        (
            "superblock.SNAPSHOTS",
            superblock::incompat_flags::SNAPSHOTS,
        ),
        ("entry.KEPT", entry_flags::KEPT.into()),
        ("snapshot.DELETED", history::snapshot_flags::DELETED.into()),
        ("history.RUNS_FROM", history::RUNS_FROM),
        ("history.MAX_NAME_BYTES", history::MAX_NAME_BYTES as u64),
        ("node.PLAIN", node_form::PLAIN.into()),
        ("node.PACKED", node_form::PACKED.into()),
        ("node.PACKED_SECTORS", node::PACKED_SECTORS),
        ("SECTOR", varve_lfs::format::SECTOR),
        ("pointer.MAX_SECTOR", pointer::MAX_SECTOR),
        ("ifile.MAX_INO", ifile::MAX_INO),
        ("node.FANOUT", node::FANOUT),
        ("inode.MAX_XATTR_BYTES", inode::MAX_XATTR_BYTES as u64),
        ("inode.MAX_HEIGHT", inode::MAX_HEIGHT.into()),
        ("summary.HEADER_BYTES", summary::HEADER_BYTES as u64),
        ("inode.HEADER_BYTES", inode::HEADER_BYTES as u64),
        ("ifile.ENTRY_BYTES", ifile::ENTRY_BYTES as u64),
        ("ifile.UNFINISHED_OFFSET", ifile::UNFINISHED_OFFSET),
        ("ifile.IMAP_OFFSET", ifile::IMAP_OFFSET),
        ("ifile.NOT_EMPTY", ifile::NOT_EMPTY),
        ("directory.NODE_BYTES", directory::NODE_BYTES as u64),
        ("directory.MAX_NAME_BYTES", directory::MAX_NAME_BYTES as u64),
    ];
    let code: BTreeMap<String, u64> = code.iter().map(|&(n, v)| (n.to_owned(), v)).collect();
    assert_eq!(numbers(&document()), code);
    assert_eq!(summary_flags::KNOWN, 63);
    assert_eq!(pointer_flags::KNOWN, pointer_flags::UNWRITTEN);
    assert_eq!(varve_lfs::format::crc32c(b"123456789"), 0xe306_9283);
}

#[test]
fn magics_are_readable() {
    assert_eq!(superblock::MAGIC, *b"VARVEFS\x01");
    let magics = [
        (owner::MAGIC, b"VOWN"),
        (varve_lfs::format::checkpoint::MAGIC, b"VCKP"),
        (varve_lfs::format::checkpoint::HEADS_MAGIC, b"VCKH"),
        (summary::MAGIC, b"VSUM"),
        (map::MAGIC, b"VMAP"),
        (inode::MAGIC, b"VINO"),
        (node::MAGIC, b"VNOD"),
        (history::MAGIC, b"VHIS"),
    ];
    for (magic, bytes) in magics {
        assert_eq!(magic.to_le_bytes(), *bytes);
    }
}

/// The volume of the document's example.
fn example() -> varve_fs::Result<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(4 << 20));
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(1_700_000_000_000_000_000, 0));
    let format = FormatOptions {
        segment_bytes: 128 << 10,
        label: "example".to_owned(),
        seed: Some(1),
        ..FormatOptions::default()
    };
    Lfs::format(&*device, &*clock, &format)?;
    let options = MountOptions {
        seed: Some(2),
        ..MountOptions::default()
    };
    let lfs = Lfs::mount(device.clone(), clock.clone(), options)?;
    FileSystem::format(&lfs, &*clock, (1000, 1000))?;
    let system = FileSystem::mount(Arc::new(lfs), clock, Options::default())?;
    let (caller, top) = (Caller::root(), InodeNo::ROOT);
    for (name, content) in [
        (&b"hello"[..], b"hello, world\n".to_vec()),
        (b"data", (0..=255).cycle().take(600).collect()),
    ] {
        let made = system.mknod(&caller, top, name, 0o100_644, 0)?;
        system.write(&caller, made.ino, 0, &content)?;
    }
    system.sync()?;
    Ok(MemoryDevice::from_image(&device.snapshot()))
}

/// One row of the dump: address, two groups of eight bytes.
fn row(device: &MemoryDevice, address: u64) -> String {
    let mut bytes = [0; 512];
    let sector = address / 512 * 512;
    device.read(sector, &mut bytes).expect("within the device");
    let bytes = &bytes[(address - sector) as usize..][..16];
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "{address:08x}  {}  {}",
        hex[..8].join(" "),
        hex[8..].join(" ")
    )
}

#[test]
fn the_example_is_a_real_volume() {
    let device = example().expect("a sound volume");
    let text = document();
    let mut renewed = String::new();
    let mut rows = 0;
    for line in text.lines() {
        let address = line.get(..8).and_then(|a| u64::from_str_radix(a, 16).ok());
        match (address, line.split_once("  ; ")) {
            (Some(address), Some((_, comment))) => {
                rows += 1;
                renewed += &format!("{}  ; {comment}\n", row(&device, address));
            }
            _ => renewed += &format!("{line}\n"),
        }
    }
    assert!(rows > 10, "the example has only {rows} rows");
    if std::env::var_os("VARVE_BLESS").is_some() {
        std::fs::write(PATH, renewed).expect("docs/spec/log.md can be written");
        tell_what_is_left_out(&device, &text);
        return;
    }
    for (found, expected) in text.lines().zip(renewed.lines()) {
        assert_eq!(found, expected, "renew with VARVE_BLESS=1");
    }
}

/// Prints the rows that are not zero and not in the document, for whoever
/// extends the example.
fn tell_what_is_left_out(device: &MemoryDevice, text: &str) {
    for address in (0..device.geometry().size).step_by(16) {
        let row = row(device, address);
        let means_something = row[8..].chars().any(|c| !matches!(c, ' ' | '0'));
        if means_something && !text.contains(&format!("\n{}", &row[..8])) {
            eprintln!("{row}  ; ");
        }
    }
}
