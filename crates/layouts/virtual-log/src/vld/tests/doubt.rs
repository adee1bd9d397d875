//! The newest transaction that counts, where some have decayed.

use std::io::IoSlice;
use std::sync::Arc;

use varve_device::Device;

use super::bench::{block, memory, options, reopened, versions};
use super::damage::{BLOCK, Memory, wipe};
use crate::medium::InOrder;
use crate::vld::{Options, Vld};

/// Returns a volume with the given commits, each a list of (logical block, version).
fn written(commits: &[&[(u64, u64)]]) -> Vld<Memory> {
    let medium = Arc::new(InOrder(memory(2 << 20, 512)));
    Vld::format(&medium, options(BLOCK, None)).unwrap();
    let (vld, _) = Vld::open(medium, Options::default()).unwrap();
    for commit in commits {
        for &(at, version) in *commit {
            let bytes = block(version, BLOCK);
            vld.write(at * u64::from(BLOCK), &[IoSlice::new(&bytes)])
                .unwrap();
        }
        vld.flush().unwrap();
    }
    vld
}

/// Returns the unit of a record that is dead and still on the medium.
fn dead_record(vld: &Vld<Memory>, seq: u64) -> u64 {
    let layout = vld.layout();
    let each = u64::from(layout.units_per_block());
    let mut units = layout.eager_start() * each..layout.last_block() * each;
    let is_it = |&unit: &u64| {
        let mut bytes = [0; 512];
        vld.medium()
            .0
            .read(layout.unit_byte(unit), &mut bytes)
            .unwrap();
        let found = crate::format::MapRecord::parse(&bytes, unit, layout);
        found.is_ok_and(|found| found.header.seq.get() == seq)
    };
    units.find(is_it).unwrap()
}

fn reuse(vld: &Vld<Memory>, unit: u64) {
    let at = vld.layout().unit_byte(unit);
    vld.medium().0.apply_write(at, &[9; 512]).unwrap();
}

/// Transactions 1, 2 and 3 were durable. The space of 2 is reused, and a block of 3
/// decays: 1 is still visible, but is not the one before 3.
#[test]
fn an_older_transaction_is_not_taken_for_the_one_before() {
    let vld = written(&[&[(100, 1)], &[(0, 2)], &[(1, 3)]]);
    reuse(&vld, dead_record(&vld, 2));
    wipe(&vld, u64::from(vld.map().get(1).place));
    let (again, recovery) = Vld::open(vld.medium().clone(), Options::default()).unwrap();
    assert_eq!((recovery.tail_seq, recovery.records_discarded), (3, 0));
    assert_eq!(versions(&again, 1, BLOCK), [2]);
    let error = again.read(u64::from(BLOCK), &mut [0; 512]).unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
}

#[test]
fn the_newest_transaction_counts_if_the_one_before_is_partly_reused() {
    let vld = written(&[&[(200, 9)], &[(0, 1), (100, 2)], &[(1, 3)]]);
    reuse(&vld, dead_record(&vld, 2));
    wipe(&vld, u64::from(vld.map().get(1).place));
    let (again, recovery) = reopened(&vld);
    assert_eq!(recovery.tail_seq, 4);
    assert_eq!(versions(&again, 1, BLOCK), [1]);
    // The records of the newest are gone too, so there is no evidence left.
    let vld = written(&[&[(200, 9)], &[(0, 1), (100, 2)], &[(1, 3), (101, 4)]]);
    reuse(&vld, dead_record(&vld, 2));
    reuse(&vld, vld.state.read().log.unit_of(0).unwrap());
    let error = Vld::open(vld.medium().clone(), Options::default()).unwrap_err();
    assert!(error.to_string().contains("incomplete"), "{error}");
}

/// The transaction before is complete, but leads to missing records: space that it
/// needed was reused, because its successor was durable.
#[test]
fn the_newest_transaction_counts_if_the_one_before_leads_to_holes() {
    let vld = written(&[&[(0, 1)], &[(100, 2)], &[(1, 3)]]);
    reuse(&vld, dead_record(&vld, 1));
    wipe(&vld, u64::from(vld.map().get(1).place));
    let (again, recovery) = reopened(&vld);
    assert_eq!(recovery.tail_seq, 3);
    assert_eq!(versions(&again, 1, BLOCK), [1]);
}
