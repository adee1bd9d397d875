//! Random requests over several connections, compared with an image in memory.

use crate::support::{Client, Running};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;
use varve_device::{Device, Geometry, MemoryDevice, Result};
use varve_nbd::protocol::command::*;

const SIZE: usize = 4 << 20;

fn seed(test: &str) -> u64 {
    let seed =
        std::env::var("VARVE_SEED").map_or_else(|_| rand::random(), |text| text.parse().unwrap());
    eprintln!("reproduce: VARVE_SEED={seed} cargo test -p varve-nbd {test}");
    seed
}

/// A memory device that is slow now and then, so that requests are handed over to other
/// threads.
#[derive(Debug)]
struct Slow(MemoryDevice);

impl Slow {
    fn wait(&self, offset: u64) {
        if !(offset / 512).is_multiple_of(3) {
            std::thread::sleep(Duration::from_micros(50 + offset / 512 % 100));
        }
    }
}

impl Device for Slow {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.wait(offset);
        self.0.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        self.wait(offset);
        self.0.write(offset, buffers)
    }

    fn flush(&self) -> Result<()> {
        self.wait(512);
        self.0.flush()
    }

    fn name(&self) -> String {
        "slow memory".into()
    }
}

fn device(slow: bool) -> Arc<dyn Device> {
    let memory = MemoryDevice::new(SIZE as u64);
    match slow {
        true => Arc::new(Slow(memory)),
        false => Arc::new(memory),
    }
}

/// Returns a random range of whole sectors.
fn range(
    random: &mut Xoshiro256PlusPlus,
    within: std::ops::Range<usize>,
) -> std::ops::Range<usize> {
    let sectors = within.len() / 512;
    let most = [8, 64, 900][random.random_range(0..3)].min(sectors);
    let length = random.random_range(1..=most);
    let start = random.random_range(0..=sectors - length);
    within.start + start * 512..within.start + (start + length) * 512
}

/// A change by one connection is visible to every other one as soon as it is answered,
/// in either form of replies.
#[test]
fn every_connection_sees_what_any_was_told_is_done() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed("every_connection"));
    for slow in [false, true] {
        let server = Running::new(device(slow));
        let mut clients: Vec<Client> = (0..5)
            .map(|nth| server.client().go(nth % 2 == 0, nth == 0))
            .collect();
        let mut model = vec![0u8; SIZE];
        for step in 0..if slow { 400 } else { 1500 } {
            let client = random.random_range(0..clients.len());
            let client = &mut clients[client];
            let at = range(&mut random, 0..SIZE);
            let (offset, length) = (at.start as u64, at.len() as u32);
            let fua = if random.random_ratio(1, 10) {
                FLAG_FUA
            } else {
                0
            };
            match random.random_range(0..10) {
                0..=3 => {
                    let data: Vec<u8> = (0..length).map(|nth| (nth / 3 + step) as u8).collect();
                    let reply = client.call(WRITE, fua, offset, length, &data);
                    assert_eq!(reply.error, 0);
                    model[at].copy_from_slice(&data);
                }
                4 => {
                    let hole = if random.random() { FLAG_NO_HOLE } else { 0 };
                    let reply = client.call(WRITE_ZEROES, fua | hole, offset, length, &[]);
                    assert_eq!(reply.error, 0);
                    model[at].fill(0);
                }
                5 => {
                    let flags = FLAG_FAST_ZERO | fua;
                    match client.call(WRITE_ZEROES, flags, offset, length, &[]).error {
                        0 => model[at].fill(0),
                        error => assert_eq!(error, 95),
                    }
                }
                6 => client.flush(),
                _ => assert!(client.read(offset, length) == model[at], "step {step}"),
            }
        }
        for client in &mut clients {
            assert!(client.read(0, SIZE as u32) == model);
        }
    }
}

/// Each of four connections has many pending requests, in its own part of the disk and
/// never two at once on the same bytes.
#[test]
fn requests_under_way_at_once_do_not_mix() {
    let seed = seed("requests_under_way");
    for slow in [false, true] {
        let server = Running::new(device(slow));
        let quarter = SIZE / 4;
        let models: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|nth| {
                    let client = server.client().go(nth % 2 == 0, false);
                    let random = Xoshiro256PlusPlus::seed_from_u64(seed ^ nth as u64);
                    let part = nth * quarter..(nth + 1) * quarter;
                    let rounds = if slow { 250 } else { 1500 };
                    scope.spawn(move || pipeline(client, random, part, rounds))
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let mut client = server.client().go(true, false);
        assert!(client.read(0, SIZE as u32) == models.concat());
    }
}

/// Number of bytes of replies that fit in a socket of the usual size.
const OWED_AT_MOST: usize = 32 << 10;

/// Keeps up to sixteen requests pending; returns the final content of the part.
fn pipeline(
    mut client: Client,
    mut random: Xoshiro256PlusPlus,
    part: std::ops::Range<usize>,
    rounds: usize,
) -> Vec<u8> {
    let mut model = vec![0u8; part.len()];
    // The range of each pending request, and the bytes that a read must return.
    let mut under_way: HashMap<u64, (std::ops::Range<usize>, Option<Vec<u8>>)> = HashMap::new();
    let mut sent = 0;
    while sent < rounds || !under_way.is_empty() {
        let at = range(&mut random, part.clone());
        let free = under_way
            .values()
            .all(|(busy, _)| busy.end <= at.start || at.end <= busy.start);
        // A client that sends without receiving replies waits without end once the
        // replies fill the socket, because the server does not store them.
        let owed: usize = under_way
            .values()
            .flat_map(|(_, reply)| reply)
            .map(Vec::len)
            .sum();
        if sent < rounds && free && under_way.len() < 16 && owed <= OWED_AT_MOST {
            let own = at.start - part.start..at.end - part.start;
            let (offset, length) = (at.start as u64, at.len() as u32);
            let (cookie, expected) = match random.random_range(0..5) {
                0 | 1 => {
                    let data: Vec<u8> = (0..at.len()).map(|nth| (nth / 7 + sent) as u8).collect();
                    model[own].copy_from_slice(&data);
                    (client.send(WRITE, 0, offset, length, &data), None)
                }
                2 => {
                    model[own].fill(0);
                    (client.send(WRITE_ZEROES, 0, offset, length, &[]), None)
                }
                _ => {
                    let expected = model[own].to_vec();
                    (client.send(READ, 0, offset, length, &[]), Some(expected))
                }
            };
            under_way.insert(cookie, (at, expected));
            sent += 1;
            continue;
        }
        let reply = client.reply(|cookie| under_way[&cookie].1.as_ref().map_or(0, Vec::len));
        assert_eq!(reply.error, 0);
        let (at, expected) = under_way.remove(&reply.cookie).expect("asked for");
        assert!(
            expected.is_none_or(|expected| expected == reply.bytes),
            "{at:?}"
        );
    }
    model
}
