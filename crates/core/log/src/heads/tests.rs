//! Tests of positions and places.

use super::*;

fn geometry() -> Geometry {
    Geometry {
        block_bytes: 4096,
        write_unit: 4096,
        segment_bytes: 1 << 17,
        inode_bytes: 256,
        segment_count: 31,
        first_segment: 1 << 16,
        copy_stride: 4,
        reserve_segments: 12,
        aligned: true,
        packed: true,
        long_xattrs: true,
        spills: true,
        snapshots: true,
        shrunk: false,
    }
}

fn first() -> LogPosition {
    LogPosition {
        serial: 9.into(),
        offset: 8192.into(),
        segment: 3.into(),
        next_segment: 4.into(),
        predecessor: 77.into(),
        incarnation: 2.into(),
        segment_incarnation: 5.into(),
    }
}

#[test]
fn each_head_goes_on_where_its_last_partial_was_and_all_share_the_chain() {
    let geometry = geometry();
    let mut end = LogEnd::from(first());
    end.open(6, &geometry);
    assert_eq!(end.heads(), 2);
    assert_eq!(geometry.successor(&end.at(0)), (3, 8192, false));
    assert_eq!(geometry.successor(&end.at(1)), (6, 0, true));
    assert!(end.check(&geometry).is_ok());
    assert!(end.stands_in(3) && !end.stands_in(6) && !end.stands_in(4));
    let behind = LogPosition {
        serial: 10.into(),
        offset: 4096.into(),
        segment: 6.into(),
        next_segment: 7.into(),
        predecessor: 78.into(),
        incarnation: 3.into(),
        segment_incarnation: 8.into(),
    };
    end.advance(1, behind);
    assert_eq!(end.at(1), behind);
    assert_eq!(end.serial(), 10);
    assert_eq!(end.at(0).predecessor.get(), 78);
    assert_eq!(geometry.successor(&end.at(0)), (3, 8192, false));
    assert!(end.stands_in(6));
    end.leave(6, &geometry);
    assert_eq!(geometry.successor(&end.at(1)), (7, 0, true));
    assert_eq!(end.close().map(|p| p.next_segment.get()), Some(7));
    assert_eq!((end.heads(), end.close()), (1, None));
}

#[test]
fn a_record_keeps_all_heads_and_says_that_there_are_several() {
    let mut end = LogEnd::from(first());
    let mut header: CheckpointHeader = zerocopy::FromZeros::new_zeroed();
    end.store(&mut header);
    assert_eq!(header.magic.get(), ONE_HEAD_MAGIC);
    assert_eq!(LogEnd::from(&header), end);
    for next in 6..12 {
        end.open(next, &geometry());
    }
    assert_eq!(end.heads(), MAX_HEADS);
    end.store(&mut header);
    assert_eq!(header.magic.get(), HEADS_MAGIC);
    assert_eq!(LogEnd::from(&header), end);
}

#[test]
fn two_heads_never_share_a_segment() {
    let geometry = geometry();
    for (segment, next) in [(3, 9), (4, 9), (9, 3), (9, 4), (9, 31), (31, 9)] {
        let mut end = LogEnd::from(first());
        end.open(8, &geometry);
        let mut place = place_of(&end.at(1));
        (place.segment, place.next_segment) = (u32::into(segment), u32::into(next));
        (place.offset, place.segment_incarnation) = (4096.into(), 3.into());
        end.set_place(1, place);
        assert!(end.check(&geometry).is_err(), "{segment}, then {next}");
    }
    for next in [3, 4] {
        let mut end = LogEnd::from(first());
        end.open(next, &geometry);
        assert!(end.check(&geometry).is_err(), "unentered {next}");
    }
}
