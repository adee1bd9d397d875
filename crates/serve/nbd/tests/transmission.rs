//! Requests and replies, one by one.

use crate::support::Running;
use std::io::IoSlice;
use std::sync::Arc;
use varve_device::{Device, Fault, FaultDevice, FaultKind, MemoryDevice};
use varve_nbd::protocol::command::*;
use varve_nbd::{ExportOptions, Limits};

const SIZE: u64 = 16 << 20;

fn pattern(length: usize, salt: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at / 511 + at * 7 + salt) as u8)
        .collect()
}

#[test]
fn bytes_of_every_length_come_back_in_both_forms() {
    let server = Running::new(Arc::new(MemoryDevice::new(SIZE)));
    for structured in [false, true] {
        let mut client = server.client().go(structured, false);
        assert_eq!(client.size, SIZE);
        for (salt, length) in [512, 4096, 65_536, 262_144, 262_656, 2 << 20, 5 << 20]
            .into_iter()
            .enumerate()
        {
            let data = pattern(length, salt);
            client.write(1024, &data);
            assert!(client.read(1024, length as u32) == data, "{length}");
        }
        // An empty request is valid.
        client.write(0, &[]);
        assert!(client.read(SIZE, 0).is_empty());
        assert_eq!(client.call(TRIM, 0, 0, 0, &[]).error, 0);
    }
}

#[test]
fn refusals_leave_the_connection_in_step() {
    let server = Running::new(Arc::new(MemoryDevice::new(SIZE)));
    for structured in [false, true] {
        let mut client = server.client().go(structured, false);
        for (kind, flags, offset, length, error) in [
            (READ, 0, 1, 512, 22),
            (READ, 0, SIZE, 512, 22),
            (READ, 0, u64::MAX - 511, 512, 22),
            (READ, 1 << 8, 0, 512, 22),
            (WRITE, 0, SIZE - 512, 1024, 28),
            (WRITE, 0, 0, 513, 22),
            (WRITE, FLAG_REQ_ONE, 0, 512, 22),
            (WRITE_ZEROES, 0, SIZE, 4096, 28),
            (BLOCK_STATUS, 0, 0, 4096, 22),
            (FLUSH, 0, 0, 1, 22),
            (5, 0, 0, 512, 22),
            (99, 0, 0, 512, 22),
        ] {
            let data = if kind == WRITE {
                pattern(length as usize, 3)
            } else {
                vec![]
            };
            let reply = client.call(kind, flags, offset, length, &data);
            assert_eq!(reply.error, error, "{kind} {flags} {offset} {length}");
        }
        assert_eq!(client.read(0, 512), [0; 512], "nothing was written");
    }
}

#[test]
fn zeros_holes_and_their_status() {
    let server = Running::new(Arc::new(MemoryDevice::new(SIZE)));
    let mut client = server.client().go(true, true);
    let status = |client: &mut crate::support::Client, flags, offset, length| {
        let reply = client.call(BLOCK_STATUS, flags, offset, length, &[]);
        assert_eq!((reply.error, &reply.bytes[..4]), (0, &[0, 0, 0, 1][..]));
        let numbers: Vec<u32> = reply.bytes[4..]
            .chunks(4)
            .map(|bytes| u32::from_be_bytes(bytes.try_into().unwrap()))
            .collect();
        numbers
            .chunks(2)
            .map(|pair| (pair[0], pair[1]))
            .collect::<Vec<_>>()
    };
    assert_eq!(status(&mut client, 0, 0, SIZE as u32), [(SIZE as u32, 3)]);
    client.write(8192, &pattern(16_384, 1));
    let all = [(8192, 3), (16_384, 0), (SIZE as u32 - 24_576, 3)];
    assert_eq!(status(&mut client, 0, 0, SIZE as u32), all);
    assert_eq!(status(&mut client, FLAG_REQ_ONE, 512, 1 << 20), [(7680, 3)]);
    assert_eq!(status(&mut client, 0, 9216, 512), [(512, 0)]);

    // This is fast where whole blocks can be discarded; the rest is written.
    let zero = |client: &mut crate::support::Client, flags, offset, length| {
        client.call(WRITE_ZEROES, flags, offset, length, &[]).error
    };
    assert_eq!(zero(&mut client, FLAG_FAST_ZERO, 11_776, 5120), 0);
    assert_eq!(client.read(11_776, 5120), [0; 5120]);
    assert_eq!(client.read(8192, 3584), pattern(16_384, 1)[..3584]);
    assert_eq!(client.read(16_896, 512), pattern(16_384, 1)[8704..9216]);
    assert_eq!(status(&mut client, 0, 12_288, 4096), [(4096, 3)]);
    let before = client.read(8192, 1024);
    assert_eq!(
        zero(&mut client, FLAG_FAST_ZERO, 8192, 1024),
        95,
        "no whole block"
    );
    assert_eq!(
        zero(&mut client, FLAG_FAST_ZERO | FLAG_NO_HOLE, 8192, 8192),
        95
    );
    assert_eq!(client.read(8192, 1024), before, "a refusal changes nothing");
    assert_eq!(zero(&mut client, FLAG_NO_HOLE | FLAG_FUA, 8192, 16_384), 0);
    assert_eq!(
        status(&mut client, 0, 8192, 16_384),
        [(16_384, 0)],
        "stored"
    );
    assert_eq!(client.read(8192, 16_384), [0; 16_384]);
    // The range is longer than any buffer.
    client.write(0, &pattern(SIZE as usize, 9));
    assert_eq!(zero(&mut client, 0, 512, SIZE as u32 - 1024), 0);
    let mut expected = vec![0; SIZE as usize];
    expected[..512].copy_from_slice(&pattern(512, 9));
    expected[SIZE as usize - 512..]
        .copy_from_slice(&pattern(SIZE as usize, 9)[SIZE as usize - 512..]);
    assert!(client.read(0, SIZE as u32) == expected);
    assert_eq!(client.call(TRIM, FLAG_FUA, 0, 4096, &[]).error, 0);

    assert_eq!(client.call(READ, FLAG_DF, 0, 65_536, &[]).error, 0);
    assert_eq!(client.call(READ, FLAG_DF, 0, 1 << 20, &[]).error, 75);
}

#[test]
fn a_read_only_export_is_read() {
    let device = MemoryDevice::new(SIZE);
    device.write(0, &[IoSlice::new(&[5; 4096])]).unwrap();
    let options = ExportOptions {
        read_only: true,
        ..ExportOptions::default()
    };
    let server = Running::with(Arc::new(device), options, Limits::default());
    let mut client = server.client().go(true, false);
    assert_eq!(client.flags & 2, 2);
    for (kind, length) in [(WRITE, 4096), (TRIM, 4096), (WRITE_ZEROES, 4096)] {
        let data = vec![1; if kind == WRITE { 4096 } else { 0 }];
        assert_eq!(client.call(kind, 0, 0, length, &data).error, 1);
    }
    client.flush();
    assert_eq!(client.read(0, 4096), [5; 4096]);
}

#[test]
fn what_was_asked_before_a_goodbye_is_answered() {
    let server = Running::new(Arc::new(MemoryDevice::new(SIZE)));
    let mut client = server.client().go(true, false);
    let count = 200;
    for nth in 0..count {
        client.send(WRITE, 0, nth * 4096, 4096, &pattern(4096, nth as usize));
    }
    client.send(WRITE_ZEROES, FLAG_NO_HOLE, 8 << 20, 8 << 20, &[]);
    client.send(DISC, 0, 0, 0, &[]);
    let mut seen = vec![false; count as usize + 2];
    for _ in 0..=count {
        let reply = client.reply(|_| 0);
        assert_eq!(reply.error, 0);
        assert!(!std::mem::replace(&mut seen[reply.cookie as usize], true));
    }
    assert!(client.is_closed());
    let mut again = server.client().go(false, false);
    for nth in 0..count {
        assert!(again.read(nth * 4096, 4096) == pattern(4096, nth as usize));
    }
}

#[test]
fn a_server_that_stops_answers_what_it_has_taken() {
    let device = Arc::new(MemoryDevice::new(SIZE));
    let mut server = Running::new(device.clone());
    let mut client = server.client().go(true, false);
    let mut idle = server.client().go(true, false);
    let mut handshaking = server.client();
    // The server has accepted this client; a stop may reset one that is not yet
    // accepted.
    let _greeting: [u8; 18] = handshaking.take();
    let count = 300u64;
    for nth in 0..count {
        client.send(WRITE, 0, nth * 4096, 4096, &pattern(4096, nth as usize));
    }
    assert_eq!(client.reply(|_| 0).error, 0);
    server.stop();
    assert!(idle.is_closed());
    assert!(handshaking.is_closed());
    // Whole replies are followed by the end, and each of them is for a write that is
    // present.
    let mut rest = Vec::new();
    let _ = client.stream.read_to_end(&mut rest);
    assert_eq!(rest.len() % 16, 0);
    for reply in rest.chunks(16) {
        assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
        let nth = u64::from_be_bytes(reply[8..].try_into().unwrap()) - 1;
        let mut bytes = vec![0; 4096];
        device.read(nth * 4096, &mut bytes).unwrap();
        assert!(bytes == pattern(4096, nth as usize), "write {nth}");
    }
    assert!(std::os::unix::net::UnixStream::connect(&server.socket).is_err());
}

#[test]
fn failures_of_the_device_are_told_and_a_failed_flush_ends_writing() {
    let device = Arc::new(FaultDevice::new(MemoryDevice::new(SIZE), 1));
    let server = Running::new(device.clone());
    for structured in [false, true] {
        let mut client = server.client().go(structured, false);
        client.write(0, &[1; 4096]);
        device.inject(Fault::once(FaultKind::ReadError));
        assert_eq!(client.call(READ, 0, 0, 4096, &[]).error, 5);
        device.inject(Fault::once(FaultKind::NoSpace));
        assert_eq!(client.call(WRITE, 0, 0, 4096, &[2; 4096]).error, 28);
        device.inject(Fault::once(FaultKind::WriteError).after(2));
        let long = vec![3; 1 << 20];
        assert_eq!(client.call(WRITE, 0, 1 << 20, 1 << 20, &long).error, 5);
        assert_eq!(client.read(0, 4096), [1; 4096], "it goes on");
        if structured {
            // The fault is in the fourth of eight chunks.
            device.inject(Fault::once(FaultKind::ReadError).after(3));
            assert_eq!(client.call(READ, 0, 0, 2 << 20, &[]).error, 5);
            assert_eq!(client.read(0, 4096), [1; 4096]);
        }
    }
    device.clear_faults();
    // A failure after the first bytes of a long simple reply can be reported only by
    // the end of the connection.
    let mut client = server.client().go(false, false);
    device.inject(Fault::once(FaultKind::ReadError).after(3));
    client.send(READ, 0, 0, 4 << 20, &[]);
    let mut got = Vec::new();
    let _ = client.stream.read_to_end(&mut got);
    assert!(got.len() < 4 << 20);

    let (mut first, mut second) = (
        server.client().go(true, false),
        server.client().go(true, false),
    );
    device.clear_faults();
    first.write(0, &[4; 4096]);
    device.inject(Fault::once(FaultKind::FlushFails));
    assert_eq!(second.call(FLUSH, 0, 0, 0, &[]).error, 5);
    for client in [&mut first, &mut second] {
        assert_eq!(
            client.call(FLUSH, 0, 0, 0, &[]).error,
            5,
            "no later one succeeds"
        );
        assert_eq!(client.call(WRITE, 0, 0, 4096, &[5; 4096]).error, 5);
        assert_eq!(client.call(WRITE_ZEROES, 0, 0, 4096, &[]).error, 5);
        assert_eq!(client.call(TRIM, 0, 0, 4096, &[]).error, 5);
        assert_eq!(client.read(0, 4096), [4; 4096], "reading goes on");
    }
}

#[test]
fn over_the_network_as_well() {
    let (address, stopper, thread) = crate::support::tcp(Arc::new(MemoryDevice::new(SIZE)));
    let stream = std::net::TcpStream::connect(address).unwrap();
    let mut client = crate::support::Client::new(stream).go(true, true);
    client.write(4096, &pattern(1 << 20, 5));
    client.flush();
    assert!(client.read(4096, 1 << 20) == pattern(1 << 20, 5));
    stopper.stop(crate::support::PATIENCE);
    thread.join().unwrap().unwrap();
    assert!(client.is_closed());
}
