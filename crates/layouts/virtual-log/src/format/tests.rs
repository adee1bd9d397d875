//! Structures are read as they were written, and damage is detected.

use super::*;

fn layout() -> Layout {
    Layout::choose(7, 512, 4096, 4096, None, false).unwrap()
}

fn record(layout: &Layout, piece: u32) -> MapRecord {
    let header = RecordHeader {
        crc: 0.into(),
        magic: 0.into(),
        volume: layout.volume.into(),
        seq: 12.into(),
        first: 11.into(),
        count: 2.into(),
        piece: piece.into(),
        live: 3.into(),
        live_newer: 2.into(),
        unit: 999.into(),
        floor: 4.into(),
        newer: 6.into(),
        previous: 9.into(),
        branches: Default::default(),
    };
    let block = layout.eager_start() as u32;
    let entry = |nth: usize| {
        let entry = Entry {
            place: block + nth as u32,
            crc: 5,
        };
        (entry, nth.is_multiple_of(3))
    };
    let entries = (0..layout.entries_of(piece)).map(entry).collect();
    MapRecord { header, entries }
}

#[test]
fn records_survive_the_round_trip() {
    let layout = layout();
    for piece in [0, layout.pieces() as u32 - 1] {
        let record = record(&layout, piece);
        let bytes = record.encode(512);
        let parsed = MapRecord::parse(&bytes, 999, &layout).unwrap();
        assert_eq!(parsed.entries, record.entries);
        assert_eq!(parsed.encode(512)[..], bytes[..]);
    }
    assert_eq!(layout.piece_entries(), 46);
}

#[test]
fn one_wrong_bit_or_place_is_noticed() {
    let layout = layout();
    let bytes = record(&layout, 0).encode(512);
    for bit in 0..512 * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(
            MapRecord::parse(&damaged, 999, &layout).is_err(),
            "bit {bit}"
        );
    }
    assert!(MapRecord::parse(&bytes, 998, &layout).is_err());
    assert!(MapRecord::parse(&bytes[..511], 999, &layout).is_err());
    let other = Layout {
        volume: 8,
        ..layout
    };
    assert!(MapRecord::parse(&bytes, 999, &other).is_err());
}

#[test]
fn records_that_contradict_themselves_are_refused() {
    let layout = layout();
    type Change = fn(&mut MapRecord);
    let changes: [Change; 13] = [
        |record| record.header.piece = u32::MAX.into(),
        |record| record.header.first = 13.into(),
        |record| record.header.first = 1.into(),
        |record| record.header.first = 0.into(),
        |record| record.header.count = 0.into(),
        |record| record.header.floor = 7.into(),
        |record| record.header.newer = 12.into(),
        |record| record.header.previous = 5.into(),
        |record| record.header.previous = 11.into(),
        |record| record.header.live_newer = 4.into(),
        |record| record.header.branches[3].seq = 12.into(),
        |record| record.header.branches[0].unit = u64::MAX.into(),
        |record| record.entries[0].0.place = 1,
    ];
    for (nth, change) in changes.iter().enumerate() {
        let mut record = record(&layout, 0);
        change(&mut record);
        let parsed = MapRecord::parse(&record.encode(512), 999, &layout);
        assert!(matches!(parsed, Err(FormatError::Field(_))), "change {nth}");
    }
}

#[test]
fn the_other_structures_are_checked() {
    let layout = layout();
    let superblock = layout.superblock();
    let parsed = Superblock::parse(superblock.as_bytes()).unwrap();
    assert_eq!(Layout::of(&parsed).unwrap(), layout);
    for (change, why) in [(1u64 << 40, "too large"), (0, "nothing")] {
        let wrong = Superblock {
            logical_blocks: change.into(),
            ..superblock
        };
        assert!(Superblock::parse(wrong.seal().as_bytes()).is_err(), "{why}");
    }
    assert!(Superblock::parse(&[0; 512]).is_err());
    let tail = TailRecord {
        crc: 0.into(),
        magic: 0.into(),
        volume: 7.into(),
        seq: 1.into(),
        unit: 2.into(),
    };
    assert!(TailRecord::parse(tail.seal().as_bytes(), 7).is_ok());
    assert!(TailRecord::parse(tail.seal().as_bytes(), 6).is_err());
    assert!(TailRecord::parse(tail.as_bytes(), 7).is_err());
}

#[test]
fn a_layout_leaves_room_to_write_a_full_volume() {
    for blocks in [64, 200, 1000, 6144, 1 << 20] {
        for unit_bytes in [512, 1024, 4096] {
            let layout = Layout::choose(1, unit_bytes, 4096, blocks, None, false).unwrap();
            let eager = layout.last_block() - layout.eager_start();
            assert!(eager > layout.logical_blocks + 3 * layout.pieces());
            let more = Some(layout.logical_blocks + 1);
            assert!(Layout::choose(1, unit_bytes, 4096, blocks, more, false).is_err());
        }
    }
    assert!(Layout::choose(1, 512, 4096, 8, None, false).is_err());
    assert!(Layout::choose(1, 100, 4096, 1000, None, false).is_err());
    assert!(Layout::choose(1, 512, 8192, 1000, None, false).is_err());
}

#[test]
fn data_anywhere_has_a_version_and_places_of_its_own() {
    let layout = Layout::choose(7, 512, 4096, 4096, None, true).unwrap();
    assert_eq!(layout.superblock().version.get(), VERSION_ANYWHERE);
    assert_eq!(Layout::of(&layout.superblock()).unwrap(), layout);
    let unknown = Superblock {
        version: 3.into(),
        ..layout.superblock()
    };
    assert!(Superblock::parse(unknown.seal().as_bytes()).is_err());
    // A block has eight places; data at the last of them must end before the last
    // block.
    let (first, end) = (
        layout.eager_start() as u32 * 8,
        layout.last_block() as u32 * 8,
    );
    for (place, may_be) in [
        (first - 1, false),
        (first, true),
        (first + 3, true),
        (end - 8, true),
        (end - 7, false),
        (end, false),
    ] {
        let entry = Entry { place, crc: 5 };
        let parsed = Entry::parse(entry.to_bytes(), &layout);
        assert_eq!(parsed.is_ok(), may_be, "place {place}");
    }
    assert_eq!(
        layout.place_byte(first + 3),
        layout.block_byte(layout.eager_start()) + 1536
    );
    assert!(layout.is_astride(first + 3) && !layout.is_astride(first + 8));
    // Mapped blocks need no more space, and the space that is needed must stay free.
    let spare = layout.astride_max(layout.logical_blocks);
    assert_eq!(layout.astride_max(layout.logical_blocks - 9), spare + 9);
    assert!(spare < 3, "the most that fits is offered");
    let fixed = Layout {
        anywhere: false,
        ..layout
    };
    assert_eq!(fixed.astride_max(0), 0);
    // An entry has 31 bits for a place.
    assert!(Layout::choose(7, 512, 4096, PLACES_MAX, None, false).is_ok());
    assert!(Layout::choose(7, 512, 4096, PLACES_MAX / 4, None, true).is_err());
}
