//! One file, every way to change it, compared with a plain array.
//!
//! Source: the idea of `fsx`, Apple 1991.

use crate::support::can_mount;
use crate::support::map::SharedMap;
use crate::support::server::{Server, digest};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::process::Signal;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

const SIZE_MAX: usize = 300_000;
const STEPS: usize = 3000;
const PAGE: usize = 4096;

struct Exerciser<'a> {
    server: &'a Server,
    rng: Xoshiro256PlusPlus,
    cached: File,
    direct: File,
    want: Vec<u8>,
    /// What was done last, for a failure's message.
    last: String,
}

impl<'a> Exerciser<'a> {
    fn new(server: &'a Server, seed: u64) -> Self {
        let open = |flags: i32| {
            let mut options = File::options();
            options
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .custom_flags(flags);
            options.open(server.path("f")).unwrap()
        };
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (cached, direct) = (open(0), open(OFlags::DIRECT.bits() as i32));
        Exerciser {
            server,
            rng,
            cached,
            direct,
            want: Vec::new(),
            last: String::new(),
        }
    }

    fn range(&mut self, align: usize) -> (usize, usize) {
        let start = self.rng.random_range(0..SIZE_MAX - 70_000) / align * align;
        let len = self.rng.random_range(1..=65_536usize).div_ceil(align) * align;
        (start, len)
    }

    fn data(&mut self, len: usize) -> Vec<u8> {
        let byte = self.rng.random_range(1..=255u8);
        (0..len)
            .map(|i| byte.wrapping_add((i / 512) as u8) | 1)
            .collect()
    }

    fn expect(&mut self, start: usize, data: &[u8]) {
        let end = start + data.len();
        if self.want.len() < end {
            self.want.resize(end, 0);
        }
        self.want[start..end].copy_from_slice(data);
    }

    fn step(&mut self) {
        let kind = self.rng.random_range(0..13);
        let align = if matches!(kind, 2 | 3) { PAGE } else { 1 };
        let (start, len) = self.range(align);
        self.last = format!(
            "operation {kind} at {start}, {len} bytes, size {}",
            self.want.len()
        );
        match kind {
            0 | 1 => self.write(start, len),
            2 => self.write_directly(start, len),
            3 => self.read(start, len, true),
            4 | 5 => self.read(start, len, false),
            6 => self.write_through_map(start, len),
            7 => {
                self.cached.set_len(start as u64).unwrap();
                self.want.resize(start, 0);
            }
            8 => self.clear(
                start,
                len,
                FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            ),
            9 => self.clear(
                start,
                len,
                FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
            ),
            10 => self.copy(start, len),
            11 => self.holes_are_zeros(start),
            _ => self.sync_or_reopen(),
        }
        let size = self.cached.metadata().unwrap().len();
        assert_eq!(size, self.want.len() as u64, "{}", self.last);
    }

    fn write(&mut self, start: usize, len: usize) {
        let data = self.data(len);
        self.cached.write_all_at(&data, start as u64).unwrap();
        self.expect(start, &data);
    }

    fn write_directly(&mut self, start: usize, len: usize) {
        let data = self.data(len);
        self.direct.write_all_at(&data, start as u64).unwrap();
        self.expect(start, &data);
    }

    fn read(&mut self, start: usize, len: usize, directly: bool) {
        let mut got = vec![0xee; len];
        let file = if directly { &self.direct } else { &self.cached };
        let read = file.read_at(&mut got, start as u64).unwrap();
        let end = (start + len).min(self.want.len()).max(start);
        assert_eq!(read, end - start, "{}", self.last);
        let want = self.want.get(start..end).unwrap_or(&[]);
        assert!(got[..read] == *want, "{}", self.last);
    }

    fn write_through_map(&mut self, start: usize, len: usize) {
        let end = (start + len).min(self.want.len());
        if start >= end {
            return;
        }
        let map = SharedMap::new(&self.cached, self.want.len());
        for at in (start..end).step_by(701) {
            assert_eq!(map.get(at), self.want[at], "{} at {at}", self.last);
            map.set(at, 0x55);
            self.want[at] = 0x55;
        }
    }

    fn clear(&mut self, start: usize, len: usize, how: FallocateFlags) {
        fallocate(&self.cached, how, start as u64, len as u64).unwrap();
        let end = (start + len).min(self.want.len());
        if start < end {
            self.want[start..end].fill(0);
        }
    }

    fn copy(&mut self, start: usize, len: usize) {
        let end = (start + len).min(self.want.len());
        let to = self.rng.random_range(0..SIZE_MAX - 70_000);
        let apart = to >= end || to + len <= start;
        if start >= end || !apart {
            return;
        }
        let (mut from, mut at) = (start as u64, to as u64);
        let mut left = end - start;
        while left > 0 {
            let (from, at) = (Some(&mut from), Some(&mut at));
            let copied =
                rustix::fs::copy_file_range(&self.cached, from, &self.cached, at, left).unwrap();
            assert!(copied > 0, "{}", self.last);
            left -= copied;
        }
        let data = self.want[start..end].to_vec();
        self.expect(to, &data);
    }

    /// Whatever SEEK_DATA skips is zeros.
    fn holes_are_zeros(&mut self, start: usize) {
        let sought = rustix::fs::seek(&self.cached, rustix::fs::SeekFrom::Data(start as u64));
        let data = match sought {
            Ok(at) => at as usize,
            Err(rustix::io::Errno::NXIO) => self.want.len(),
            Err(other) => panic!("{other}: {}", self.last),
        };
        let skipped = self.want.get(start..data).unwrap_or(&[]);
        assert!(
            skipped.iter().all(|&b| b == 0),
            "{} up to {data}",
            self.last
        );
    }

    fn sync_or_reopen(&mut self) {
        match self.rng.random_range(0..4) {
            0 => self.cached.sync_all().unwrap(),
            1 => self.direct.sync_data().unwrap(),
            2 => {
                self.cached.sync_all().unwrap();
                let all = rustix::fs::Advice::DontNeed;
                rustix::fs::fadvise(&self.cached, 0, None, all).unwrap();
            }
            _ => {
                let path = self.server.path("f");
                self.cached = File::options().read(true).write(true).open(path).unwrap();
            }
        }
    }
}

fn exercise(options: &str) {
    if !can_mount() {
        return;
    }
    let mut server = Server::start(options);
    let seed = std::env::var("VARVE_SEED").map_or_else(|_| rand::random(), |s| s.parse().unwrap());
    eprintln!("reproduce: VARVE_SEED={seed} cargo test -p varve-fuse --test mounts exerciser");
    let mut exerciser = Exerciser::new(&server, seed);
    for _ in 0..STEPS {
        exerciser.step();
    }
    let want = std::mem::take(&mut exerciser.want);
    drop(exerciser);
    assert!(fs::read(server.path("f")).unwrap() == want);
    // And what is behind the kernel says the same.
    server.signal(Signal::TERM);
    server.expect(&format!("held {}", digest(&want)));
    server.expect("ended Unmounted");
}

#[test]
fn with_write_back() {
    exercise("");
}

#[test]
fn written_through() {
    exercise("order=strict");
}

#[test]
fn shared_maps_agree_with_reads_and_writes() {
    if !can_mount() {
        return;
    }
    let server = Server::start("");
    let open = |flags: i32| {
        let mut options = File::options();
        options
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .custom_flags(flags);
        options.open(server.path("f")).unwrap()
    };
    let file = open(0);
    file.set_len(1 << 20).unwrap();
    let (map, other) = (
        SharedMap::new(&file, 1 << 20),
        SharedMap::new(&file, 1 << 20),
    );
    map.set(5000, 42);
    assert_eq!(other.get(5000), 42);
    let mut byte = [0];
    file.read_exact_at(&mut byte, 5000).unwrap();
    assert_eq!(byte, [42]);
    file.write_all_at(&[43], 5001).unwrap();
    assert_eq!(map.get(5001), 43);
    map.sync();
    // Direct I/O and maps see each other.
    let direct = open(OFlags::DIRECT.bits() as i32);
    let mut page = Aligned([0; PAGE]);
    direct.read_exact_at(&mut page.0, PAGE as u64).unwrap();
    assert_eq!(page.0[5000 - PAGE..5002 - PAGE], [42, 43]);
    direct
        .write_all_at(&Aligned([7; PAGE]).0, PAGE as u64)
        .unwrap();
    assert_eq!(map.get(5000), 7);
}

#[repr(align(4096))]
struct Aligned([u8; PAGE]);
