//! Compares the tables of `docs/spec/stream.md` with the structures of the stream.

use std::mem::{offset_of, size_of};
use varve_fs::{SendHeader, SendItem};
use varve_lfs::shipping::{StreamHeader, StreamItem, StreamRecord, record_flags, record_kind};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/spec/stream.md");

/// Offset, bytes and name of each field in the table below a heading.
fn documented(text: &str, name: &str, bytes: usize) -> Vec<(usize, usize, String)> {
    let heading = format!("### {name}: {bytes} bytes");
    let (_, below) = text.split_once(&heading).expect(&heading);
    let section = below.split("\n#").next().expect("it ends");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(" | ").collect();
        let offset = cells.first()?.trim_start_matches("| ").parse().ok()?;
        let bytes = cells.get(1)?.parse().ok()?;
        Some((offset, bytes, cells.get(2)?.trim_matches('`').to_owned()))
    };
    section.lines().filter_map(row).collect()
}

macro_rules! compare {
    ($text:expr, $name:ident: $($field:ident),+) => {{
        let starts = [$((offset_of!($name, $field), stringify!($field))),+];
        let ends = starts.iter().skip(1).map(|start| start.0).chain([size_of::<$name>()]);
        let declared: Vec<(usize, usize, String)> = starts
            .iter()
            .zip(ends)
            .map(|(&(offset, name), end)| (offset, end - offset, name.to_owned()))
            .collect();
        let found = documented($text, stringify!($name), size_of::<$name>());
        assert_eq!(found, declared, stringify!($name));
    }};
}

#[test]
fn the_stream_is_as_documented() {
    let text = std::fs::read_to_string(PATH).expect("docs/spec/stream.md is there");
    compare!(&text, StreamHeader: crc, magic, version, spare, volume_tag, serial, check,
        block_bytes, inode_bytes, spare_2);
    compare!(&text, StreamRecord: crc, magic, kind, flags, spare, payload_bytes, serial, check,
        predecessor, written_ns, inodes_used, blocks_used, sectors_used);
    compare!(&text, StreamItem: kind, spare, version, ino, from, to, bytes, spare_2);
    compare!(&text, SendHeader: sum, magic, version, name_bytes, spare, origin, number, base, taken,
        base_taken, first, items, bytes, bytes_left);
    compare!(&text, SendItem: sum, magic, kind, spare, number, ino, version, other_version, other,
        at, payload_bytes, spare_2);
    let numbers = (record_kind::GROUP, record_kind::OTHER, record_kind::END);
    assert_eq!(
        (numbers, record_flags::FIRST, record_flags::LAST),
        ((1, 2, 3), 1, 2)
    );
}
