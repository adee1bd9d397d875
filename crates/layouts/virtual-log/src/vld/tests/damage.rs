//! Lost and stale tails, damaged checkpoints and records, failing media.

use std::io::IoSlice;
use std::sync::Arc;

use varve_device::{Device, Fault, FaultDevice, FaultKind, MemoryDevice, Repeat};

use super::bench::{Draw, Shared, block, memory, options, reopened, versions};
use crate::error::VldError;
use crate::medium::InOrder;
use crate::vld::{Options, Source, Vld};

pub const BLOCK: u32 = 4096;

pub type Memory = Shared<MemoryDevice>;

/// Returns a volume with some writes, and with checkpoints after some of them.
fn used(checkpoints: &[u64]) -> Vld<Memory> {
    let medium = Arc::new(InOrder(memory(4 << 20, 512)));
    Vld::format(&medium, options(BLOCK, None)).unwrap();
    let (vld, _) = Vld::open(medium, Options::default()).unwrap();
    let mut draw = Draw(21);
    for nth in 0..200 {
        let at = draw.below(vld.layout().logical_blocks) * u64::from(BLOCK);
        vld.write(at, &[IoSlice::new(&block(nth, BLOCK))]).unwrap();
        vld.flush().unwrap();
        if checkpoints.contains(&nth) {
            vld.checkpoint().unwrap();
        }
    }
    vld
}

pub fn wipe(vld: &Vld<Memory>, block: u64) {
    let at = vld.layout().block_byte(block);
    vld.medium()
        .0
        .apply_write(at, &[0x5a; BLOCK as usize])
        .unwrap();
}

/// V10: recovery by the tail, by a checkpoint and the tail, and by a search give the
/// same map.
#[test]
fn all_ways_of_recovery_give_one_map() {
    for checkpoints in [&[][..], &[120], &[60, 150], &[60, 150, 199]] {
        let vld = used(checkpoints);
        let map = vld.map();
        // Two checkpoints truncate the log at the older one.
        let cut = vld.state.read().log.floor() > 0;
        assert_eq!(cut, checkpoints.len() >= 2);
        let (by_scan, recovery) = reopened(&vld);
        assert_eq!(recovery.source, Source::Scan);
        assert_eq!(by_scan.map(), map);
        vld.park().unwrap();
        let (by_tail, recovery) = reopened(&vld);
        assert_eq!(recovery.source, Source::Tail);
        assert_eq!(by_tail.map(), map);
        assert_eq!(recovery.checkpoint_seq > 0, !checkpoints.is_empty());
        // The newest checkpoint decays: the older one and the log still give the same
        // map.
        let newest = usize::from(checkpoints.len() % 2 == 0);
        wipe(&vld, vld.layout().checkpoint_block(newest) + 1);
        wipe(&vld, vld.layout().checkpoint_block(newest));
        let (without, recovery) = reopened(&vld);
        assert_eq!(recovery.checkpoints_damaged, 1);
        assert_eq!(without.map(), map, "{checkpoints:?}");
        // The tail decays, too.
        wipe(&vld, vld.layout().tail_block());
        let (without, recovery) = reopened(&vld);
        assert_eq!((recovery.source, without.map()), (Source::Scan, map));
    }
}

#[test]
fn a_parked_volume_takes_no_writes_and_its_tail_is_used_once() {
    let vld = used(&[]);
    vld.park().unwrap();
    let error = vld.write(0, &[IoSlice::new(&[0; 512])]).unwrap_err();
    assert!(error.to_string().contains("parked"), "{error}");
    let (vld, recovery) = Vld::open(vld.medium().clone(), Options::default()).unwrap();
    assert_eq!(recovery.source, Source::Tail);
    vld.write(0, &[IoSlice::new(&block(777, BLOCK))]).unwrap();
    vld.flush().unwrap();
    let (again, recovery) = reopened(&vld);
    assert_eq!(
        recovery.source,
        Source::Scan,
        "a stale tail would lose this write"
    );
    assert_eq!(versions(&again, 1, BLOCK), [777]);
}

#[test]
fn a_tail_that_is_not_true_is_not_believed() {
    let vld = used(&[]);
    let map = vld.map();
    vld.park().unwrap();
    // The record that the tail names is gone; the tail of another volume; a tail beyond
    // the end.
    let root = vld.state.read().log.root().unwrap();
    let at = vld.layout().unit_byte(root.unit.get());
    let mut kept = [0; 512];
    vld.medium().0.read(at, &mut kept).unwrap();
    vld.medium().0.apply_write(at, &[0; 512]).unwrap();
    let (older, recovery) = reopened(&vld);
    assert_eq!(recovery.source, Source::Scan);
    assert_ne!(
        older.map(),
        map,
        "the last transaction cannot be told from one in doubt"
    );
    vld.medium().0.apply_write(at, &kept).unwrap();
    assert_eq!(reopened(&vld).0.map(), map);
}

#[test]
fn a_lost_map_record_is_reported_and_not_passed_over() {
    let vld = used(&[]);
    let units: Vec<u64> = vld.state.read().log.units().collect();
    let root = vld.state.read().log.root().unwrap().unit.get();
    let mut reported = 0;
    for unit in units.into_iter().filter(|&unit| unit != root) {
        let at = vld.layout().unit_byte(unit);
        let mut kept = [0; 512];
        vld.medium().0.read(at, &mut kept).unwrap();
        vld.medium().0.apply_write(at, &[0; 512]).unwrap();
        match Vld::open(
            vld.medium().clone(),
            Options {
                read_only: true,
                ..Options::default()
            },
        ) {
            Err(VldError::Damaged { what, .. }) => {
                assert!(what.contains("live map records"), "{what}");
                reported += 1;
            }
            Err(error) => panic!("{error}"),
            // The record was dead, and no live record depended on it any more.
            Ok((other, _)) => assert_eq!(other.map(), vld.map()),
        }
        vld.medium().0.apply_write(at, &kept).unwrap();
    }
    assert!(reported > 10, "{reported}");
}

#[test]
fn decayed_data_is_an_error_and_never_data() {
    let vld = used(&[]);
    let (logical, entry) = vld.map().mapped().nth(40).unwrap();
    wipe(&vld, u64::from(entry.place));
    let at = u64::from(logical) * u64::from(BLOCK);
    let mut bytes = vec![0; 512];
    let error = vld.read(at, &mut bytes).unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
    vld.write(at + 512, &[IoSlice::new(&[1; 512])]).unwrap_err();
    // After a whole write the block is intact again.
    vld.write(at, &[IoSlice::new(&block(5, BLOCK))]).unwrap();
    vld.read(at, &mut bytes).unwrap();
}

#[test]
fn either_superblock_will_do() {
    for first in [true, false] {
        let vld = used(&[]);
        let last = vld.layout().last_block();
        wipe(&vld, if first { 0 } else { last });
        assert_eq!(reopened(&vld).0.map(), vld.map());
        wipe(&vld, 0);
        wipe(&vld, last);
        let error = Vld::open(vld.medium().clone(), Options::default()).unwrap_err();
        assert!(matches!(error, VldError::NoVolume { .. }), "{error}");
    }
    let tiny = Arc::new(InOrder(memory(8192, 512)));
    assert!(Vld::format(&tiny, options(BLOCK, None)).is_err());
    assert!(Vld::open(tiny, Options::default()).is_err());
}

fn failing(seed: u64) -> Vld<Shared<FaultDevice<MemoryDevice>>> {
    let medium = Arc::new(InOrder(FaultDevice::new(memory(2 << 20, 512), seed)));
    Vld::format(&medium, options(BLOCK, None)).unwrap();
    let (vld, _) = Vld::open(medium, Options::default()).unwrap();
    vld.write(0, &[IoSlice::new(&block(1, BLOCK))]).unwrap();
    vld.flush().unwrap();
    vld
}

#[test]
fn a_map_record_that_cannot_be_written_goes_elsewhere() {
    let vld = failing(1);
    vld.write(0, &[IoSlice::new(&block(2, BLOCK))]).unwrap();
    vld.medium().0.inject(Fault::once(FaultKind::WriteError));
    vld.flush().unwrap();
    assert_eq!(vld.statistics().records_retried, 1);
    let (again, _) = reopened(&vld);
    assert_eq!(versions(&again, 1, BLOCK), [2]);
}

#[test]
fn a_data_write_that_fails_changes_nothing() {
    let vld = failing(2);
    vld.medium().0.inject(Fault {
        repeat: Repeat::Sticky,
        ..Fault::once(FaultKind::WriteError)
    });
    vld.write(0, &[IoSlice::new(&block(2, BLOCK))]).unwrap_err();
    vld.medium().0.clear_faults();
    assert_eq!(versions(&vld, 1, BLOCK), [1]);
    vld.write(0, &[IoSlice::new(&block(3, BLOCK))]).unwrap();
    vld.flush().unwrap();
    assert_eq!(versions(&reopened(&vld).0, 1, BLOCK), [3]);
}

#[test]
fn after_a_failed_flush_nothing_is_written() {
    for kind in [FaultKind::FlushFails, FaultKind::FlushFailsLosing] {
        let vld = failing(3);
        vld.medium().0.inject(Fault::once(kind));
        vld.write(0, &[IoSlice::new(&block(2, BLOCK))]).unwrap();
        vld.flush().unwrap_err();
        for refused in [
            vld.flush(),
            vld.write(0, &[IoSlice::new(&block(3, BLOCK))]),
            vld.discard(0, u64::from(BLOCK)),
            vld.checkpoint(),
            vld.park(),
        ] {
            let error = refused.unwrap_err();
            assert!(error.to_string().contains("a flush failed"), "{error}");
        }
        vld.medium().0.clear_faults();
        let found = versions(&reopened(&vld).0, 1, BLOCK)[0];
        assert!(found == 1 || found == 2, "{found}");
    }
}

#[test]
fn a_medium_that_takes_no_records_stops_the_volume() {
    let vld = failing(4);
    vld.write(0, &[IoSlice::new(&block(2, BLOCK))]).unwrap();
    vld.medium().0.inject(Fault {
        repeat: Repeat::Sticky,
        ..Fault::once(FaultKind::WriteError)
    });
    vld.flush().unwrap_err();
    vld.medium().0.clear_faults();
    vld.flush().unwrap_err();
    assert_eq!(versions(&reopened(&vld).0, 1, BLOCK), [1]);
}

/// The tail record may be in the medium's cache, and become durable with the next
/// flush. If the volume took writes after that, the tail would hide them.
#[test]
fn a_park_that_fails_stops_the_volume() {
    for kind in [FaultKind::FlushFails, FaultKind::WriteError] {
        let vld = failing(5);
        vld.medium().0.inject(Fault::once(kind));
        vld.park().unwrap_err();
        let refused = vld.write(0, &[IoSlice::new(&block(2, BLOCK))]);
        assert!(refused.unwrap_err().to_string().contains("parked"));
        vld.flush().unwrap_err();
        assert_eq!(versions(&reopened(&vld).0, 1, BLOCK), [1]);
    }
}

#[test]
fn data_goes_elsewhere_if_a_place_fails() {
    let vld = failing(6);
    vld.medium().0.inject(Fault::once(FaultKind::WriteError));
    vld.write(0, &[IoSlice::new(&block(2, BLOCK))]).unwrap();
    assert_eq!(vld.statistics().writes_retried, 1);
    // Of a run, only the block whose own write fails loses its place.
    let free = vld.statistics().blocks_free;
    vld.medium().0.inject(Fault::once(FaultKind::WriteError));
    let run: Vec<u8> = (3..7).flat_map(|version| block(version, BLOCK)).collect();
    vld.write(u64::from(BLOCK), &[IoSlice::new(&run)]).unwrap();
    assert_eq!(vld.statistics().writes_retried, 1);
    assert_eq!(vld.statistics().blocks_free, free - 4);
    vld.flush().unwrap();
    assert_eq!(versions(&reopened(&vld).0, 5, BLOCK), [2, 3, 4, 5, 6]);
}

#[test]
fn the_compactor_leaves_what_it_cannot_read() {
    let medium = Arc::new(InOrder(memory(4 << 20, 512)));
    Vld::format(&medium, options(BLOCK, Some(2 << 20))).unwrap();
    let (vld, _) = Vld::open(medium, Options::default()).unwrap();
    let byte = |at: u64| at * u64::from(BLOCK);
    for at in 0..400 {
        vld.write(byte(at), &[IoSlice::new(&block(at, BLOCK))])
            .unwrap();
    }
    for at in (0..400).filter(|at| at % 3 != 0) {
        vld.discard(byte(at), u64::from(BLOCK)).unwrap();
    }
    vld.flush().unwrap();
    // About one block in every track decays.
    let map = vld.map();
    for (_, entry) in map.mapped().step_by(10) {
        wipe(&vld, u64::from(entry.place));
    }
    for _ in 0..8 {
        vld.compact(0, crate::vld::Granularity::Track).unwrap();
    }
    assert!(vld.statistics().blocks_moved > 20);
    let (again, _) = reopened(&vld);
    for (nth, (logical, _)) in map.mapped().enumerate() {
        let read = again.read(byte(u64::from(logical)), &mut [0; 512]);
        assert_eq!(read.is_err(), nth % 10 == 0, "{read:?}");
    }
}

/// Recovery has the same result wherever two reads fail.
#[test]
fn a_read_that_fails_twice_loses_nothing() {
    for after in 0..12 {
        let vld = failing(7);
        vld.write(0, &[IoSlice::new(&block(2, BLOCK))]).unwrap();
        vld.flush().unwrap();
        let map = vld.map();
        vld.medium().0.inject(Fault {
            skip: after,
            repeat: Repeat::Times(2),
            ..Fault::once(FaultKind::ReadError)
        });
        let (again, _) = Vld::open(vld.medium().clone(), Options::default()).unwrap();
        vld.medium().0.clear_faults();
        assert_eq!(again.map(), map, "read {after}");
        assert_eq!(versions(&again, 1, BLOCK), [2]);
    }
}

#[test]
fn what_cannot_be_read_is_destroyed_only_where_nothing_is() {
    let vld = failing(8);
    vld.write(u64::from(BLOCK), &[IoSlice::new(&block(2, BLOCK))])
        .unwrap();
    vld.flush().unwrap();
    let used: Vec<u64> = vld.state.read().log.units().collect();
    let [live, other] = [0, 1].map(|at| u64::from(vld.map().get(at).place) * 8);
    let layout = *vld.layout();
    let is_free =
        |unit: &u64| !used.contains(unit) && unit / 8 != live / 8 && unit / 8 != other / 8;
    let mut free = (layout.eager_start() * 8..).filter(is_free);
    for unit in [free.next().unwrap(), live] {
        let at = layout.unit_byte(unit);
        vld.medium().0.inner().apply_write(at, &[7; 512]).unwrap();
        vld.medium().0.inject(
            Fault {
                repeat: Repeat::Sticky,
                ..Fault::once(FaultKind::ReadError)
            }
            .within(at..at + 512),
        );
        let last = vld.state.read().log.last_seq();
        let opened = Vld::open(vld.medium().clone(), Options::default());
        vld.medium().0.clear_faults();
        let mut bytes = [0; 512];
        vld.medium().0.read(at, &mut bytes).unwrap();
        assert_eq!(bytes == [0; 512], unit != live);
        if unit != live {
            let skipped = opened.unwrap().0.state.read().log.last_seq();
            assert_eq!(skipped, last + layout.pieces());
        }
    }
}

#[test]
fn a_volume_opens_though_a_damaged_checkpoint_cannot_be_cleared() {
    let vld = failing(9);
    let layout = *vld.layout();
    let head = layout.block_byte(layout.checkpoint_block(0));
    let lower = vld.medium().0.inner();
    lower.apply_write(head, &[7; BLOCK as usize]).unwrap();
    vld.medium().0.inject(
        Fault {
            repeat: Repeat::Sticky,
            ..Fault::once(FaultKind::WriteError)
        }
        .within(head..head + u64::from(BLOCK)),
    );
    let (again, recovery) = Vld::open(vld.medium().clone(), Options::default()).unwrap();
    assert_eq!(recovery.checkpoints_damaged, 1);
    again
        .write(0, &[IoSlice::new(&block(2, BLOCK))])
        .and_then(|()| again.flush())
        .unwrap();
    again.checkpoint().unwrap_err();
    assert_eq!(versions(&reopened(&again).0, 1, BLOCK), [2]);
}

#[test]
fn checkpoints_of_impossible_numbers_are_damaged() {
    let vld = used(&[]);
    let layout = *vld.layout();
    for (serial, seq) in [(1, u64::MAX), (u64::MAX, 0)] {
        for region in 0..2 {
            let head = crate::format::CheckpointHeader {
                crc: 0.into(),
                magic: 0.into(),
                volume: layout.volume.into(),
                serial: serial.into(),
                seq: seq.into(),
                entries: 0.into(),
                body_crc: 0.into(),
                reserved: 0.into(),
            };
            let mut bytes = [0; 512];
            bytes[..48].copy_from_slice(zerocopy::IntoBytes::as_bytes(&head.seal()));
            let at = layout.block_byte(layout.checkpoint_block(region));
            vld.medium().0.apply_write(at, &bytes).unwrap();
        }
        // The log reaches down to the beginning and contains everything.
        let (again, recovery) = reopened(&vld);
        assert_eq!(recovery.checkpoints_damaged, 2);
        assert_eq!(again.map(), vld.map());
    }
}

#[test]
fn units_below_the_physical_block_are_only_read() {
    let vld = used(&[]);
    let coarse = memory(4 << 20, 4096);
    let mut bytes = vec![0; 4 << 20];
    vld.medium().0.read(0, &mut bytes).unwrap();
    coarse.apply_write(0, &bytes).unwrap();
    let coarse = Arc::new(InOrder(coarse));
    let error = Vld::open(coarse.clone(), Options::default()).unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
    let look = Options {
        read_only: true,
        ..Options::default()
    };
    assert_eq!(Vld::open(coarse, look).unwrap().0.map(), vld.map());
}
