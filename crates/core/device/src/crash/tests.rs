//! Small traces whose crash states can be counted by hand.

use std::collections::HashSet;
use std::convert::Infallible;

use super::*;
use crate::{Device, MemoryDevice, RecordingDevice};

const KIB: u64 = 1024;

fn write(offset: u64, byte: u8, length: usize) -> Event {
    Event::Write {
        offset,
        data: vec![byte; length].into(),
    }
}

fn empty() -> MemoryImage {
    MemoryDevice::new(1 << 20).snapshot()
}

/// Returns the byte at each address, in every state at `stop`.
fn states(
    trace: &[Event],
    stop: usize,
    limits: Limits,
    seed: u64,
    addresses: &[u64],
) -> Vec<Vec<u8>> {
    let base = empty();
    let mut explorer = CrashExplorer::new(&base, trace, 512, limits);
    let mut found = Vec::new();
    let flow = explorer.for_each::<Infallible>(stop, seed, |image, _| {
        let byte = |&address: &u64| {
            let mut byte = [0];
            image.read(address, &mut byte);
            byte[0]
        };
        found.push(addresses.iter().map(byte).collect());
        ControlFlow::Continue(())
    });
    assert!(flow.is_continue());
    found
}

#[test]
fn flushed_writes_are_in_every_state() {
    let trace = [
        write(0, 1, 512),
        Event::Flush { covers: 1 },
        write(KIB, 2, 512),
        write(2 * KIB, 3, 512),
    ];
    let whole = Limits::whole_writes();
    let at = [0, KIB, 2 * KIB];
    assert_eq!(states(&trace, 0, whole, 1, &at), [[0, 0, 0]]);
    assert_eq!(states(&trace, 1, whole, 1, &at), [[0, 0, 0], [1, 0, 0]]);
    assert_eq!(states(&trace, 2, whole, 1, &at), [[1, 0, 0]]);
    let last = states(&trace, 4, whole, 1, &at);
    assert_eq!(last, [[1, 0, 0], [1, 2, 0], [1, 0, 3], [1, 2, 3]]);
}

#[test]
fn a_flush_covers_only_what_preceded_its_start() {
    let trace = [
        write(0, 1, 512),
        write(KIB, 2, 512),
        Event::Flush { covers: 1 },
    ];
    let found = states(&trace, 3, Limits::whole_writes(), 1, &[0, KIB]);
    assert_eq!(found, [[1, 0], [1, 2]]);
}

#[test]
fn equal_states_are_visited_once() {
    // The second write repeats the first, the third overwrites both.
    let trace = [write(0, 1, 512), write(0, 1, 512), write(0, 2, 512)];
    let found = states(&trace, 3, Limits::whole_writes(), 1, &[0]);
    assert_eq!(found, [[0], [1], [2]]);
    // A write of bytes that the medium already has changes nothing.
    let trace = [write(0, 0, 4096), write(4096, 1, 512)];
    let found = states(&trace, 2, Limits::whole_writes(), 1, &[4096]);
    assert_eq!(found, [[0], [1]]);
}

#[test]
fn stops_within_an_epoch_add_only_what_is_new() {
    let trace = [
        write(0, 1, 512),
        write(KIB, 2, 512),
        Event::Mark(7),
        write(2 * KIB, 3, 512),
        Event::Flush { covers: 4 },
        Event::Mark(8),
    ];
    let base = empty();
    let mut explorer = CrashExplorer::new(&base, &trace, 512, Limits::whole_writes());
    let stops: Vec<usize> = explorer.stops().collect();
    assert_eq!(stops, [0, 1, 3, 4, 6]);
    assert_eq!(explorer.marks(5).collect::<Vec<_>>(), [7]);
    let mut visited = Vec::new();
    for stop in stops {
        let before = explorer.counts().visited;
        let flow = explorer.for_each::<()>(stop, 1, |_, _| ControlFlow::Continue(()));
        assert!(flow.is_continue());
        visited.push(explorer.counts().visited - before);
    }
    // After a mark the obligations are more, so that every state counts again.
    assert_eq!(visited, [1, 1, 4, 4, 1]);
}

#[test]
fn discards_may_or_may_not_have_happened() {
    let trace = [
        write(0, 1, 8192),
        Event::Flush { covers: 1 },
        Event::Discard {
            offset: 0,
            length: 4096,
        },
        write(512, 2, 512),
    ];
    let found = states(&trace, 4, Limits::whole_writes(), 1, &[0, 512, 4096]);
    assert_eq!(found, [[1, 1, 1], [0, 0, 1], [1, 2, 1], [0, 2, 1]]);
    let all = states(&trace, 4, Limits::default(), 1, &[4096]);
    assert!(all.iter().all(|state| state == &[1]));
}

#[test]
fn torn_writes_tear_between_units() {
    let trace = [write(0, 9, 4 * 512)];
    let limits = Limits {
        torn_writes: 1,
        torn_variants: 100,
        scattered: 0,
        ..Limits::default()
    };
    let at = [0, 511, 512, 1023, 1024, 1535, 1536, 2047];
    let found = states(&trace, 1, limits, 5, &at);
    let old_or_new: HashSet<_> = found
        .iter()
        .filter(|state| state.iter().all(|&byte| byte == 0 || byte == 9))
        .cloned()
        .collect();
    assert_eq!(old_or_new.len(), 16);
    assert!(old_or_new.iter().all(|s| s.chunks(2).all(|u| u[0] == u[1])));
    // In addition, 15 sets of units with garbage in the other units.
    assert_eq!(found.len(), 16 + 15);
}

#[test]
fn a_unit_of_4096_bytes_is_not_torn() {
    let mut base = empty();
    base.write(0, &[1; 16384]);
    let trace = [write(2048, 9, 4096)];
    let limits = Limits {
        torn_variants: 9,
        ..Limits::default()
    };
    let mut explorer = CrashExplorer::new(&base, &trace, 4096, limits);
    let mut found = HashSet::new();
    let flow = explorer.for_each::<()>(1, 1, |image, description| {
        let mut bytes = vec![0; 16384];
        image.read(0, &mut bytes);
        assert_eq!(bytes[8192..], [1; 8192], "{description}");
        if bytes.iter().all(|byte| [1, 9].contains(byte)) {
            let same = |range: std::ops::Range<usize>| {
                assert!(
                    bytes[range.clone()]
                        .iter()
                        .all(|b| *b == bytes[range.start])
                );
                bytes[range.start]
            };
            found.insert((same(2048..4096), same(4096..6144)));
        }
        ControlFlow::Continue(())
    });
    assert!(flow.is_continue());
    assert_eq!(found, HashSet::from([(1, 1), (1, 9), (9, 1), (9, 9)]));
}

#[test]
fn seeds_decide_the_states() {
    let trace: Vec<Event> = (0..30)
        .map(|i| write(i * 2048, i as u8 + 1, 1536))
        .collect();
    let at: Vec<u64> = (0..120).map(|sector| sector * 512).collect();
    let limits = Limits::default();
    let first = states(&trace, 30, limits, 1, &at);
    assert_eq!(first, states(&trace, 30, limits, 1, &at));
    assert_ne!(first, states(&trace, 30, limits, 2, &at));
    assert!(first.len() > 31 + 2 * 28 + 256);
}

#[test]
fn going_back_starts_over() {
    let trace = [write(0, 1, 512), Event::Flush { covers: 1 }];
    let base = empty();
    let mut explorer = CrashExplorer::new(&base, &trace, 512, Limits::default());
    explorer.advance(2);
    assert_ne!(*explorer.durable(), base);
    explorer.advance(1);
    assert_eq!(*explorer.durable(), base);
    assert_eq!(explorer.unflushed(), 1);
}

#[test]
fn a_visitor_can_stop() {
    let trace = [write(0, 1, 512), write(KIB, 1, 512)];
    let base = empty();
    let mut explorer = CrashExplorer::new(&base, &trace, 512, Limits::default());
    let flow = explorer.for_each(2, 1, |_, description| {
        ControlFlow::Break(description.to_string())
    });
    let ControlFlow::Break(text) = flow else {
        panic!("it went on");
    };
    assert_eq!(
        text,
        "crash after 2 events, 2 unflushed, subset 0b0, whole: []"
    );
    assert_eq!(explorer.counts().visited, 1);
}

#[test]
fn byte_prefixes_cut_anywhere() {
    let trace = [write(0, 1, 512), write(512, 2, 512)];
    let base = empty();
    let mut explorer = CrashExplorer::new(&base, &trace, 512, Limits::default());
    let image = explorer.byte_prefix(2, 1, 100).unwrap();
    let mut bytes = [9; 1024];
    image.read(0, &mut bytes);
    assert_eq!(bytes[..512], [1; 512]);
    assert_eq!(bytes[512..612], [2; 100]);
    assert_eq!(bytes[612..], [0; 412]);
    assert!(explorer.byte_prefix(2, 5, 0).is_none());
}

#[test]
fn a_recorded_device_replays_to_its_own_image() {
    let recorder = RecordingDevice::new(MemoryDevice::new(1 << 20));
    let base = recorder.inner().snapshot();
    for i in 0..50u64 {
        let bytes = vec![i as u8; 512 * (1 + i as usize % 20)];
        let offset = i * 7919 % 1000 * 512;
        recorder
            .write(offset, &[std::io::IoSlice::new(&bytes)])
            .unwrap();
        if i % 7 == 0 {
            recorder.flush().unwrap();
            recorder.discard(i * 4096, 12_288).unwrap();
        }
    }
    recorder.flush().unwrap();
    let trace = recorder.take_trace();
    let mut explorer = CrashExplorer::new(&base, &trace, 512, Limits::default());
    explorer.advance(trace.len());
    assert_eq!(*explorer.durable(), recorder.inner().snapshot());
    assert_eq!(explorer.unflushed(), 0);
}

#[test]
fn explorations_have_fingerprints() {
    let base = empty();
    let trace = [write(0, 1, 512)];
    let print = |unit, limits| CrashExplorer::new(&base, &trace, unit, limits).fingerprint();
    let first = print(512, Limits::default());
    assert_eq!(first, print(512, Limits::default()));
    assert_ne!(first, print(4096, Limits::default()));
    assert_ne!(first, print(512, Limits::whole_writes()));
}
