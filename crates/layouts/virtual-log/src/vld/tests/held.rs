//! An update and its record as one request, where records are as long as blocks.

use std::io::IoSlice;
use std::sync::Arc;

use varve_device::{Device, Fault, FaultDevice, FaultKind, Geometry, MemoryDevice, Repeat, Result};

use super::bench::{Draw, Shared, block, memory, options, reopened, versions};
use crate::medium::InOrder;
use crate::vld::{Options, Vld};

const BLOCK: u32 = 4096;

type Failing = Vld<Shared<FaultDevice<MemoryDevice>>>;

/// Returns a volume on which the next update's record will be stored behind its data.
fn failing() -> Failing {
    after_updates(2)
}

/// Returns a volume on which block 0 was written with version 1, `updates` times.
fn after_updates(updates: u64) -> Failing {
    let medium = Arc::new(InOrder(FaultDevice::new(memory(2 << 20, BLOCK), 1)));
    Vld::format(&medium, options(BLOCK, None)).unwrap();
    let (vld, _) = Vld::open(medium, Options::default()).unwrap();
    for _ in 0..updates {
        put(&vld, 0, 1);
        vld.flush().unwrap();
    }
    vld
}

/// Returns two volumes, each with the places of the next block and its record: the
/// record behind the block on one, before it on the other.
fn both_orders() -> [(Failing, u32, u32); 2] {
    let behind = failing();
    let place = next_place(&behind);
    let before = after_updates(3);
    let other = next_place(&before);
    [(behind, place, place + 1), (before, other + 1, other)]
}

fn put(vld: &Failing, at: u64, version: u64) {
    let bytes = block(version, BLOCK);
    let at = at * u64::from(BLOCK);
    vld.write(at, &[IoSlice::new(&bytes)]).unwrap();
}

/// Returns a fault by which every request to these blocks fails.
fn broken(blocks: std::ops::Range<u32>) -> Fault {
    let byte = |block: u32| u64::from(block) * u64::from(BLOCK);
    Fault {
        range: Some(byte(blocks.start)..byte(blocks.end)),
        ..Fault::sticky(FaultKind::WriteError)
    }
}

/// Returns the place of the next write.
fn next_place<D: Device>(vld: &Vld<Shared<D>>) -> u32 {
    let (mut state, avoid) = (vld.state.read().eager.clone(), Default::default());
    let want = crate::eager::Want::Block;
    let unit = state.choose(&vld.state.read().free, None, want, avoid);
    unit.unwrap() as u32
}

/// Takes all free blocks except these.
fn leave_free<D: Device>(vld: &Vld<Shared<D>>, which: impl Fn(u32) -> bool) {
    let mut state = vld.state.write();
    for block in (0..vld.layout.physical_blocks as u32).filter(|block| !which(*block)) {
        if state.free.mask(block) == 0 {
            state.free.take_block(block);
        }
    }
}

#[test]
fn an_update_and_its_record_are_one_request() {
    let vld = failing();
    let writes = |vld: &Failing| vld.medium().0.inner().counters().snapshot().writes;
    let before = writes(&vld);
    for nth in 0..10 {
        put(&vld, nth * 7, nth);
        vld.flush().unwrap();
    }
    assert_eq!(writes(&vld) - before, 10);
    // Several updates before one flush are one request, too, and reads see them
    // meanwhile.
    let before = writes(&vld);
    for nth in 0..4 {
        put(&vld, nth * 7, 100 + nth);
        let found = versions(&vld, 1 + nth * 7, BLOCK);
        assert_eq!(found[nth as usize * 7], 100 + nth);
    }
    assert_eq!(writes(&vld), before);
    vld.flush().unwrap();
    assert_eq!(writes(&vld), before + 1);
    assert_eq!(versions(&reopened(&vld).0, 64, BLOCK)[21], 103);
}

/// The order on the medium is data, record, record, data: when both records are dead,
/// their space is used for the next two.
#[test]
fn records_lie_beside_records() {
    let vld = failing();
    let first = next_place(&vld);
    let nth_place = |nth: u32| first + 2 * nth + nth % 2;
    let writes = || vld.medium().0.inner().counters().snapshot().writes;
    let before = writes();
    for nth in 0..20 {
        put(&vld, u64::from(nth), 5);
        vld.flush().unwrap();
        assert_eq!(vld.map().get(nth).place, nth_place(nth));
        assert_eq!(writes() - before, u64::from(nth) + 1);
    }
    let state = vld.state.read();
    assert!((1..8).all(|nth| state.free.mask(first + 4 * nth + 1) == 0));
    assert!((1..8).all(|nth| state.free.mask(first + 4 * nth + 2) == 0));
    drop(state);
    assert_eq!(versions(&reopened(&vld).0, 20, BLOCK), [5; 20]);
}

/// Unflushed data may be lost with the server process, but a part of the buffer must
/// not be found.
#[test]
fn what_is_held_is_forgotten_with_the_volume() {
    let vld = failing();
    put(&vld, 0, 2);
    let (again, _) = Vld::open(vld.medium().clone(), Options::default()).unwrap();
    assert_eq!(versions(&again, 1, BLOCK), [1]);
}

#[test]
fn held_data_goes_elsewhere_if_its_place_fails() {
    for (vld, place, _) in both_orders() {
        vld.medium().0.inject(broken(place..place + 1));
        put(&vld, 0, 2);
        put(&vld, 5, 3);
        vld.flush().unwrap();
        let counts = vld.statistics();
        assert_eq!((counts.writes_retried, counts.records_retried), (1, 1));
        assert_eq!(versions(&vld, 6, BLOCK), [2, 0, 0, 0, 0, 3]);
        assert_eq!(versions(&reopened(&vld).0, 6, BLOCK), [2, 0, 0, 0, 0, 3]);
        assert_ne!(vld.map().get(0).place, place);
        // The record contains everything, and the place stays taken.
        vld.flush().unwrap();
        assert_eq!(vld.records_written(), counts.records_written);
        (0..2000).for_each(|nth| put(&vld, nth % 50, nth));
        vld.flush().unwrap();
        assert_eq!(vld.statistics().writes_retried, 1);
    }
}

#[test]
fn a_place_that_fails_does_not_matter_if_nobody_wants_its_block() {
    let vld = failing();
    let place = next_place(&vld);
    vld.medium().0.inject(broken(place..place + 1));
    put(&vld, 0, 2);
    put(&vld, 0, 3);
    vld.flush().unwrap();
    assert_eq!(vld.statistics().writes_retried, 0);
    assert_eq!(versions(&reopened(&vld).0, 1, BLOCK), [3]);
}

/// A device that carries out requests backwards where it may choose the order.
#[derive(Debug)]
struct Backwards<D>(D);

impl<D: Device> Device for Backwards<D> {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        self.0.write(offset, buffers)
    }

    fn write_many(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        let backwards: Vec<_> = writes.iter().rev().copied().collect();
        self.0.write_many(&backwards)
    }

    fn flush(&self) -> Result<()> {
        self.0.flush()
    }

    fn name(&self) -> String {
        self.0.name()
    }
}

/// The volume is so full that places are reused at once, and a record is placed where a
/// block is buffered that is not needed any more.
#[test]
fn short_and_long_runs_keep_their_order() {
    for seed in 0..10 {
        let medium = Arc::new(InOrder(Backwards(memory(1 << 20, BLOCK))));
        Vld::format(&medium, options(BLOCK, Some(140 * u64::from(BLOCK)))).unwrap();
        let (vld, _) = Vld::open(medium, Options::default()).unwrap();
        let mut model = vec![0; 140];
        let mut draw = Draw(seed);
        for nth in 1..600 {
            let most = [1, 3, 40][draw.below(3) as usize];
            let (count, at) = (1 + draw.below(most) as usize, draw.below(100) as usize);
            let run: Vec<u8> = (0..count as u64)
                .flat_map(|each| block(nth * 100 + each, BLOCK))
                .collect();
            let byte = at as u64 * u64::from(BLOCK);
            let forget = draw.below(5) == 0;
            match forget {
                true => vld.discard(byte, run.len() as u64).unwrap(),
                false => vld.write(byte, &[IoSlice::new(&run)]).unwrap(),
            }
            for (each, version) in (0..).zip(&mut model[at..at + count]) {
                *version = if forget { 0 } else { nth * 100 + each };
            }
            let mut bytes = vec![0; 140 * BLOCK as usize];
            vld.read(0, &mut bytes).unwrap();
            let first = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
            let found: Vec<u64> = bytes.chunks(BLOCK as usize).map(first).collect();
            assert_eq!(found, model, "seed {seed}, step {nth}");
            if draw.below(6) == 0 {
                vld.flush().unwrap();
                assert_eq!(versions(&reopened(&vld).0, 140, BLOCK), model);
            }
        }
    }
}

/// A place fails on a volume so full that its buffered block is written to a place for
/// which a later block is buffered that is not needed any more.
#[test]
fn what_goes_elsewhere_is_not_written_over_by_what_was_held_there() {
    let vld = failing();
    let first = next_place(&vld);
    leave_free(&vld, |block| (first..first + 4).contains(&block));
    vld.medium().0.inject(broken(first..first + 1));
    put(&vld, 0, 2);
    (3..6).for_each(|version| put(&vld, 1, version));
    assert_eq!(versions(&vld, 2, BLOCK), [2, 5]);
    vld.flush().unwrap();
    assert_eq!(versions(&vld, 2, BLOCK), [2, 5]);
    assert_eq!(versions(&reopened(&vld).0, 2, BLOCK), [2, 5]);
    let place = vld.map().get(0).place;
    assert!((first + 1..first + 3).contains(&place), "{place}");
}

/// Data and record are written in parallel; if one fails, each is written by itself.
#[test]
fn a_record_that_does_not_follow_its_data_is_written_with_it() {
    for broken_at in [None, Some(0), Some(4)] {
        let vld = failing();
        let place = next_place(&vld);
        leave_free(&vld, |block| {
            block >= place && (block - place).is_multiple_of(4)
        });
        if let Some(nth) = broken_at {
            let broken = broken(place + nth..place + nth + 1);
            vld.medium().0.inject(broken);
        }
        put(&vld, 0, 2);
        vld.flush().unwrap();
        let counts = vld.statistics();
        let retried = (counts.writes_retried, counts.records_retried);
        let wanted = match broken_at {
            None => (0, 0),
            Some(0) => (1, 1),
            Some(_) => (0, 1),
        };
        assert_eq!(retried, wanted, "{broken_at:?}");
        assert_eq!(versions(&reopened(&vld).0, 1, BLOCK), [2]);
    }
}

/// The record's data fails once, when the record is already on the medium. If the
/// record were written elsewhere as well, the next record of the transaction would name
/// that copy, and recovery might find only the first one.
#[test]
fn a_record_that_came_before_its_data_stays_where_it_is() {
    let medium = FaultDevice::new(memory(4 << 20, BLOCK), 1);
    let medium = Arc::new(InOrder(Backwards(medium)));
    Vld::format(&medium, options(BLOCK, None)).unwrap();
    let (vld, _) = Vld::open(medium, Options::default()).unwrap();
    let place = next_place(&vld);
    leave_free(&vld, |block| {
        block >= place && (block - place).is_multiple_of(4)
    });
    vld.medium().0.0.inject(Fault {
        repeat: Repeat::Times(1),
        ..broken(place..place + 1)
    });
    let bytes = block(2, BLOCK);
    vld.write(0, &[IoSlice::new(&bytes)]).unwrap();
    vld.flush().unwrap();
    let counts = vld.statistics();
    assert_eq!((counts.writes_retried, counts.records_retried), (0, 0));
    assert_eq!(counts.records_written, 1);
    assert_eq!(vld.map().get(0).place, place);
    assert_eq!(versions(&reopened(&vld).0, 1, BLOCK), [2]);
}

#[test]
fn a_record_goes_elsewhere_without_its_data() {
    for (vld, place, record) in both_orders() {
        vld.medium().0.inject(broken(record..record + 1));
        put(&vld, 0, 2);
        vld.flush().unwrap();
        let counts = vld.statistics();
        assert_eq!((counts.writes_retried, counts.records_retried), (0, 1));
        assert_eq!(vld.map().get(0).place, place);
        assert_eq!(versions(&reopened(&vld).0, 1, BLOCK), [2]);
    }
}

/// A request that fails may have been carried out in part. Here the record is on the
/// medium and its data is not; if it stayed there, it would be taken for the one that
/// counts.
#[test]
fn a_record_that_came_without_its_data_is_removed() {
    for (vld, place, record) in both_orders() {
        let eager = vld.state.read().eager.clone();
        put(&vld, 0, 2);
        // The device gets what the failing request leaves behind: the record as it
        // would be written.
        let medium = vld.medium();
        let byte = |block: u32| u64::from(block) * u64::from(BLOCK);
        let zeros = [0; BLOCK as usize];
        let other = Vld::open(medium.clone(), Options::default()).unwrap().0;
        other.state.write().eager = eager;
        put(&other, 0, 2);
        other.flush().unwrap();
        let there = other.map().get(0).place;
        let mut bytes = [0; BLOCK as usize];
        medium.0.read(byte(record), &mut bytes).unwrap();
        assert_eq!((there, &bytes[4..8]), (place, &b"VLDM"[..]));
        medium
            .0
            .write(byte(place), &[IoSlice::new(&zeros)])
            .unwrap();
        medium.0.inject(broken(place..place + 1));
        vld.flush().unwrap();
        assert_ne!(vld.map().get(0).place, place);
        assert_eq!(versions(&reopened(&vld).0, 1, BLOCK), [2]);
        medium.0.read(byte(record), &mut bytes).unwrap();
        assert_eq!(bytes, zeros, "the record is gone");
    }
}

/// An acknowledged write that no place takes: no flush reports it as durable, and
/// nothing more is written.
#[test]
fn held_data_that_no_place_takes_stops_the_volume() {
    let vld = failing();
    put(&vld, 0, 2);
    vld.medium().0.inject(Fault {
        repeat: Repeat::Sticky,
        ..Fault::once(FaultKind::WriteError)
    });
    vld.flush().unwrap_err();
    vld.medium().0.clear_faults();
    let error = vld.flush().unwrap_err();
    assert!(
        error.to_string().contains("could not be written"),
        "{error}"
    );
    vld.write(0, &[IoSlice::new(&block(3, BLOCK))]).unwrap_err();
    assert_eq!(versions(&vld, 1, BLOCK), [2], "from memory");
    assert_eq!(versions(&reopened(&vld).0, 1, BLOCK), [1]);
}

/// Random updates while single requests fail: flushed data is not lost.
#[test]
fn no_single_failure_loses_what_was_flushed() {
    for seed in 0..40 {
        let vld = failing();
        let mut draw = Draw(seed);
        let mut expected = vec![0; 60];
        for nth in 0..120 {
            if draw.below(4) == 0 {
                let kind = match draw.below(2) {
                    0 => FaultKind::WriteError,
                    _ => FaultKind::TornWrite,
                };
                vld.medium().0.clear_faults();
                vld.medium().0.inject(Fault {
                    argument: draw.below(4) * 512,
                    ..Fault::once(kind)
                });
            }
            let at = draw.below(60);
            put(&vld, at, 1000 + nth);
            expected[at as usize] = 1000 + nth;
            if draw.below(3) == 0 {
                vld.flush().unwrap();
                let found = versions(&reopened(&vld).0, 60, BLOCK);
                assert!(found[1..] == expected[1..], "seed {seed}, step {nth}");
            }
            assert_eq!(versions(&vld, 60, BLOCK)[1..], expected[1..]);
        }
    }
}
