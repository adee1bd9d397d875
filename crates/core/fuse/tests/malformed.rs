//! Requests are input: whatever their bytes, the answer is an error and never
//! a panic. Needs no kernel.

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use varve_fuse::{Adapter, Errno, MountOptions, Outcome, Reply};

const OPCODES: u32 = 56;
const HEADER_BYTES: usize = 40;

fn adapter(initialised: bool) -> Adapter<varve_fs::MemoryLayout> {
    let fs = crate::support::file_system(Default::default(), Default::default());
    let adapter = Adapter::new(fs, &MountOptions::default());
    if initialised {
        let mut body = [7u32, 45, 131_072, 1 << 30].map(u32::to_ne_bytes).concat();
        body.extend([0xff; 48]);
        let init = request(26, 1, &body);
        assert!(matches!(
            adapter.handle(&init, &mut Reply::new()),
            (9, Outcome::Reply)
        ));
        assert!(adapter.is_initialised());
    }
    adapter
}

/// A request numbered 9 with a truthful header.
fn request(opcode: u32, nodeid: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    bytes.extend(opcode.to_ne_bytes());
    bytes.extend(9u64.to_ne_bytes());
    bytes.extend(nodeid.to_ne_bytes());
    bytes.extend([0; 16]);
    bytes.extend(body);
    bytes
}

fn is_invalid(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Error(Errno::INVALID))
}

#[test]
fn short_bodies_are_invalid() {
    let adapter = adapter(true);
    // Every kind that has a fixed part, one byte short of it.
    let fixed = [
        (3, 16),
        (4, 88),
        (8, 16),
        (9, 8),
        (12, 8),
        (13, 8),
        (15, 40),
        (16, 40),
        (20, 16),
        (21, 8),
        (22, 8),
        (23, 8),
        (28, 40),
        (30, 16),
        (35, 16),
        (39, 32),
        (43, 32),
        (44, 40),
        (45, 16),
        (46, 24),
        (47, 56),
        (51, 16),
        (52, 24),
        (53, 56),
    ];
    for (opcode, bytes) in fixed {
        let (unique, outcome) =
            adapter.handle(&request(opcode, 1, &vec![0; bytes - 1]), &mut Reply::new());
        assert!(
            unique == 9 && is_invalid(&outcome),
            "opcode {opcode}: {outcome:?}"
        );
    }
}

#[test]
fn names_without_end_and_lengths_that_lie_are_invalid() {
    let adapter = adapter(true);
    let mut reply = Reply::new();
    let unterminated = [
        (1, &b"name"[..]),
        (10, b"name"),
        (11, b""),
        (24, b"user.a"),
        (6, b"s\0t"),
    ];
    for (opcode, body) in unterminated {
        assert!(
            is_invalid(&adapter.handle(&request(opcode, 1, body), &mut reply).1),
            "{opcode}"
        );
    }
    let with_u32 = |bytes: usize, at: usize, value: u32| {
        let mut body = vec![0; bytes];
        body[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        body
    };
    // A write of more than it brings, a read and a listing of more than
    // fits, an attribute longer than its request, an ioctl likewise.
    for (opcode, bytes, at) in [
        (16, 44, 16),
        (15, 40, 16),
        (28, 40, 16),
        (44, 40, 16),
        (39, 32, 24),
    ] {
        let body = with_u32(bytes, at, u32::MAX);
        assert!(
            is_invalid(&adapter.handle(&request(opcode, 1, &body), &mut reply).1),
            "{opcode}"
        );
    }
    let mut attribute = with_u32(8, 0, 100);
    attribute.extend(b"user.a\0short");
    assert!(is_invalid(
        &adapter.handle(&request(21, 1, &attribute), &mut reply).1
    ));
    // A header that promises another length.
    let mut long = request(3, 1, &[]);
    long.push(0);
    assert!(is_invalid(&adapter.handle(&long, &mut reply).1));
    assert!(matches!(
        adapter.handle(&[0; 39], &mut reply),
        (0, Outcome::Silent)
    ));
}

#[test]
fn nothing_is_served_before_the_handshake_and_there_is_only_one() {
    let mut reply = Reply::new();
    let early = adapter(false).handle(&request(3, 1, &[]), &mut reply).1;
    assert!(matches!(early, Outcome::Error(Errno(libc::EIO))));
    let init = [7u32, 45, 131_072, 0].map(u32::to_ne_bytes).concat();
    let again = adapter(true).handle(&request(26, 1, &init), &mut reply).1;
    assert!(matches!(again, Outcome::Error(Errno(libc::EIO))));
}

#[test]
fn random_requests_never_panic() {
    let seed = std::env::var("VARVE_SEED").map_or_else(|_| rand::random(), |s| s.parse().unwrap());
    eprintln!(
        "reproduce: VARVE_SEED={seed} cargo test -p varve-fuse --test mounts malformed::random"
    );
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let adapter = adapter(true);
    let mut reply = Reply::new();
    for _ in 0..20_000 {
        let mut body = vec![0; rng.random_range(0..200)];
        rng.fill_bytes(&mut body);
        // Mostly small numbers and short names: they reach further.
        for byte in &mut body {
            if rng.random_bool(0.7) {
                *byte = *[0, 0, 0, 0, 1, 4, b'a', b'b']
                    .get(rng.random_range(0..8))
                    .unwrap();
            }
        }
        let opcode = rng.random_range(0..OPCODES);
        // FORGET is the kernel's own accounting, and trusted.
        if [2, 42].contains(&opcode) {
            continue;
        }
        let mut bytes = request(opcode, rng.random_range(0..6), &body);
        if rng.random_bool(0.05) {
            let at = rng.random_range(0..HEADER_BYTES);
            bytes[at] ^= 1 << rng.random_range(0..8);
        }
        let forget = u32::from_ne_bytes(bytes[4..8].try_into().unwrap());
        if ![2, 42].contains(&forget) {
            adapter.handle(&bytes, &mut reply);
        }
    }
}
