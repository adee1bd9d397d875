//! Clients that break the rules or attack: each loses its connection, and the server
//! and its other clients are not affected.

use crate::support::{PATIENCE, Running, request};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use varve_device::MemoryDevice;
use varve_nbd::protocol::command::*;
use varve_nbd::{ExportOptions, Limits};
use zerocopy::IntoBytes;

const SIZE: u64 = 16 << 20;

fn impatient() -> Running {
    let limits = Limits {
        connections: 8,
        in_flight: 4,
        handshake: Duration::from_millis(300),
        stall: Duration::from_millis(300),
    };
    let device = Arc::new(MemoryDevice::new(SIZE));
    Running::with(device, ExportOptions::default(), limits)
}

/// Returns true if the server has closed this connection. Earlier bytes are dropped.
fn is_ended(stream: &mut dyn crate::support::Stream) -> bool {
    let begun = Instant::now();
    let mut away = [0; 4096];
    loop {
        match stream.read(&mut away) {
            Ok(0) => return true,
            Ok(_) => assert!(begun.elapsed() < PATIENCE),
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

fn is_well(server: &Running) {
    server.settle();
    let mut client = server.client().go(true, true);
    client.write(0, &[9; 4096]);
    client.flush();
    assert_eq!(client.read(0, 4096), [9; 4096]);
}

#[test]
fn silence_and_dribble_end_in_time() {
    let server = impatient();
    // One client sends nothing, one a part of the flags, one options without end.
    let mut silent = server.client();
    let mut partial = server.client();
    partial.stream.write_all(&[0, 0]).unwrap();
    let mut endless = UnixStream::connect(&server.socket).unwrap();
    endless.write_all(&[0, 0, 0, 3]).unwrap();
    let mut written = endless.try_clone().unwrap();
    let dribble = std::thread::spawn(move || {
        let begun = Instant::now();
        while written.write_all(b"IHAVEOPT\0\0\x09\x09\0\0\0\0").is_ok() {
            assert!(begun.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    assert!(is_ended(&mut *silent.stream) && is_ended(&mut *partial.stream));
    assert!(is_ended(&mut endless));
    dribble.join().unwrap();
    // In transmission, one sends half a header, and one half of a write's bytes.
    let mut halves = [
        server.client().go(true, false),
        server.client().go(true, false),
    ];
    let header = request(WRITE, 0, 1, 0, 1 << 20);
    halves[0]
        .stream
        .write_all(&header.as_bytes()[..10])
        .unwrap();
    halves[1].stream.write_all(header.as_bytes()).unwrap();
    halves[1].stream.write_all(&[1; 5000]).unwrap();
    for half in &mut halves {
        assert!(is_ended(&mut *half.stream));
    }
    // Silence between requests is allowed.
    let mut quiet = server.client().go(true, false);
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(quiet.read(0, 512), [0; 512]);
    drop(quiet);
    is_well(&server);
    assert_eq!(server.count("connections_broken"), 5);
}

#[test]
fn a_client_that_takes_no_replies_is_cut_off() {
    let server = impatient();
    let mut greedy = server.client().go(true, false);
    let begun = Instant::now();
    let header = request(READ, 0, 1, 0, 1 << 20);
    while greedy.stream.write_all(header.as_bytes()).is_ok() {
        assert!(begun.elapsed() < PATIENCE, "it is served for ever");
    }
    is_well(&server);
    assert_eq!(server.count("connections_broken"), 1);
}

#[test]
fn nonsense_and_giant_lengths_end_the_connection() {
    let server = impatient();
    let mut wrong = request(READ, 0, 1, 0, 512);
    wrong.magic = 0x1234.into();
    for header in [
        request(WRITE, 0, 1, 0, u32::MAX),
        request(WRITE, 0, 1, u64::MAX, (32 << 20) + 1),
        wrong,
    ] {
        let mut client = server.client().go(true, false);
        client.stream.write_all(header.as_bytes()).unwrap();
        assert!(is_ended(&mut *client.stream));
    }
    // Requests with large lengths are refused, and the connection continues.
    let mut client = server.client().go(true, true);
    assert_eq!(client.call(READ, 0, 0, !511, &[]).error, 22);
    assert_eq!(client.call(WRITE_ZEROES, 0, 0, !511, &[]).error, 28);
    assert_eq!(client.call(TRIM, 0, 0, !511, &[]).error, 22);
    assert_eq!(client.call(BLOCK_STATUS, 0, 0, !511, &[]).error, 22);
    drop(client);
    is_well(&server);
    assert_eq!(server.count("connections_broken"), 3);
}

#[test]
fn who_leaves_in_the_middle_of_a_write_has_written_nothing_of_a_piece() {
    let server = impatient();
    for sent in [0, 1, 511, 4096, 262_143] {
        let mut client = server.client().go(true, false);
        let header = request(WRITE, 0, 1, 0, 262_144);
        client.stream.write_all(header.as_bytes()).unwrap();
        client.stream.write_all(&vec![7; sent]).unwrap();
        drop(client);
    }
    server.settle();
    let mut client = server.client().go(true, false);
    assert!(client.read(0, 262_144).iter().all(|&byte| byte == 0));
    drop(client);
    is_well(&server);
    assert_eq!(server.count("connections_broken"), 5);
}

#[test]
fn a_thousand_connections_are_too_many_and_no_harm() {
    let server = impatient();
    let mut kept = server.client().go(true, false);
    let mut crowd = Vec::new();
    for nth in 0..1000 {
        match UnixStream::connect(&server.socket) {
            Ok(stream) => crowd.push(stream),
            Err(error) => panic!("connection {nth}: {error}"),
        }
    }
    kept.write(4096, &[3; 4096]);
    assert_eq!(kept.read(4096, 4096), [3; 4096]);
    for mut stream in crowd {
        assert!(is_ended(&mut stream));
    }
    drop(kept);
    is_well(&server);
    // Nearly all were refused, except those that connected, timed out, and left a free
    // place.
    assert!(server.count("connections_refused") > 500);
}

#[test]
fn floods_of_random_bytes_change_nothing() {
    use rand::{Rng, RngExt, SeedableRng};
    let seed =
        std::env::var("VARVE_SEED").map_or_else(|_| rand::random(), |text| text.parse().unwrap());
    eprintln!("reproduce: VARVE_SEED={seed} cargo test -p varve-nbd floods");
    let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed);
    let server = impatient();
    for round in 0..60 {
        let mut bytes = vec![0; random.random_range(1..5000)];
        random.fill_bytes(&mut bytes);
        let mut stream: Box<dyn crate::support::Stream> = match round % 3 {
            0 => Box::new(UnixStream::connect(&server.socket).unwrap()),
            1 => {
                let mut client = server.client();
                client.greet(3);
                client.stream
            }
            _ => {
                // These headers are valid except for length, kind and flags.
                for header in bytes.chunks_exact_mut(28) {
                    header[..4].copy_from_slice(&0x2560_9513u32.to_be_bytes());
                    header[16..22].fill(0);
                }
                server.client().go(true, true).stream
            }
        };
        // The server may close the connection at any moment.
        let _ = stream.write_all(&bytes);
    }
    is_well(&server);
}
