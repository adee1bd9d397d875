//! The array compared with plain memory, and the errors when a member fails.

use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;

use super::*;
use crate::random::Random;
use crate::{Event, Fault, FaultDevice, FaultKind, MemoryDevice, RecordingDevice};

const UNIT: u64 = 8192;

fn array(members: usize) -> StripedDevice<Arc<RecordingDevice<MemoryDevice>>> {
    let member = |_| Arc::new(RecordingDevice::new(MemoryDevice::new(1 << 20)));
    StripedDevice::new((0..members).map(member).collect(), UNIT).unwrap()
}

#[test]
fn random_requests_give_the_bytes_of_plain_memory() {
    let seed = 0x57_21;
    eprintln!("seed {seed:#x}");
    let mut random = Random::new(seed);
    for members in [1, 2, 3, 5] {
        let array = array(members);
        let plain = MemoryDevice::new(array.geometry().size);
        assert_eq!(plain.geometry().size, members as u64 * (1 << 20));
        for _ in 0..300 {
            let sectors = plain.geometry().size / 512;
            let first = random.below(sectors);
            let count = 1 + random.below((sectors - first).min(200));
            let (offset, length) = (first * 512, count as usize * 512);
            match random.below(5) {
                0 => {
                    array.discard(offset, length as u64).unwrap();
                    plain.discard(offset, length as u64).unwrap();
                }
                1 | 2 => {
                    let mut bytes = vec![0; length];
                    random.fill(&mut bytes);
                    let (head, tail) = bytes.split_at(random.below(length as u64) as usize);
                    let both = [IoSlice::new(head), IoSlice::new(&[]), IoSlice::new(tail)];
                    array.write(offset, &both).unwrap();
                    plain.write(offset, &both).unwrap();
                }
                _ => {
                    let (mut mine, mut theirs) = (vec![1; length], vec![2; length]);
                    array.read(offset, &mut mine).unwrap();
                    plain.read(offset, &mut theirs).unwrap();
                    assert_eq!(
                        mine, theirs,
                        "{members} members, {length} bytes at {offset}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_member_gets_one_request() {
    let array = array(3);
    let bytes = vec![7; 10 * UNIT as usize];
    array.write(UNIT / 2, &[IoSlice::new(&bytes)]).unwrap();
    array.flush().unwrap();
    for member in array.members() {
        let trace = member.take_trace();
        assert!(matches!(
            trace[..],
            [Event::Write { .. }, Event::Flush { covers: 1 }]
        ));
    }
    array.read(0, &mut vec![0; 9 * UNIT as usize]).unwrap();
    for member in array.members() {
        assert_eq!(member.inner().counters().snapshot().reads, 1);
    }
}

#[test]
fn runs_cover_what_pieces_cover() {
    let mut random = Random::new(11);
    for members in [1, 2, 4, 7] {
        let stripes = Stripes::new(members, 4096).unwrap();
        for _ in 0..200 {
            let (offset, length) = (random.below(1 << 18), random.below(1 << 18));
            let mut sums = vec![(u64::MAX, 0); members];
            for piece in stripes.pieces(offset, length) {
                let (first, sum) = &mut sums[piece.member];
                *first = piece.offset.min(*first);
                *sum += piece.length;
            }
            let mut runs = vec![(u64::MAX, 0); members];
            for run in stripes.runs(offset, length) {
                runs[run.member] = (run.offset, run.length);
            }
            assert_eq!(runs, sums, "{length} bytes at {offset} over {members}");
        }
    }
}

#[test]
fn a_failing_member_is_named_and_the_others_are_written() {
    let member = |_| FaultDevice::new(MemoryDevice::new(1 << 20), 1);
    let array = StripedDevice::new((0..3).map(member).collect(), UNIT).unwrap();
    array.members()[1].inject(Fault::once(FaultKind::WriteError));
    let bytes = vec![9; 3 * UNIT as usize];
    let error = array.write(0, &[IoSlice::new(&bytes)]).unwrap_err();
    assert!(error.device.contains("member 1, "), "{error}");
    assert_eq!(error.operation, Operation::Write);
    let mut read = vec![0; UNIT as usize];
    for offset in [0, 2 * UNIT] {
        array.read(offset, &mut read).unwrap();
        assert_eq!(read, bytes[..UNIT as usize]);
    }
    array.members()[2].inject(Fault::once(FaultKind::FlushFails));
    let error = array.flush().unwrap_err();
    assert!(error.device.contains("member 2, "), "{error}");
}

#[test]
fn bad_arrays_and_requests_are_refused() {
    let memory = |bytes| MemoryDevice::new(bytes);
    let none = StripedDevice::<MemoryDevice>::new(vec![], UNIT);
    assert_eq!(none.unwrap_err(), StripeError::NoMembers);
    let unit = StripedDevice::new(vec![memory(1 << 20)], 512).unwrap_err();
    assert!(matches!(unit, StripeError::Unit { member: 0, .. }));
    assert!(StripedDevice::new(vec![memory(1 << 20)], 0).is_err());
    let small = StripedDevice::new(vec![memory(1 << 20), memory(4096)], UNIT).unwrap_err();
    assert!(matches!(small, StripeError::TooSmall { member: 1, .. }));

    let array = StripedDevice::new(vec![memory(1 << 20), memory((1 << 20) - 512)], UNIT).unwrap();
    let size = array.geometry().size;
    assert_eq!(size, 2 * ((1 << 20) - UNIT));
    let error = array.read(size, &mut [0; 512]).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::InvalidInput);
    assert!(array.discard(512, u64::MAX - 511).is_err());
    assert!(array.read(size, &mut []).is_ok());
}
