//! Random operations on one file beside a model: its bytes, and those it had at the
//! start of the atomic write.

use crate::support::{mounted::Mount, shell};
use crate::{ABORT, COMMIT, START, call, mount_with, open};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fs::File;
use std::os::unix::fs::FileExt;

const BYTES: u64 = 200_000;
const STEPS: usize = 300;

struct Run<'a> {
    mount: &'a Mount,
    file: File,
    random: Xoshiro256PlusPlus,
    now: Vec<u8>,
    /// At the start, if there is one.
    before: Option<Vec<u8>>,
}

impl Run<'_> {
    fn step(&mut self) -> &'static str {
        match self.random.random_range(0..20) {
            0..7 => {
                let at = self.random.random_range(0..BYTES);
                let length = match self.random.random_range(0..4) {
                    0 => self.random.random_range(1..60_000),
                    1 => 4096,
                    _ => self.random.random_range(1..6000),
                };
                let bytes = vec![self.random.random::<u8>(); length];
                self.file.write_all_at(&bytes, at).unwrap();
                let end = at as usize + length;
                if self.now.len() < end {
                    self.now.resize(end, 0);
                }
                self.now[at as usize..end].copy_from_slice(&bytes);
                "write"
            }
            7 => {
                let size = self.random.random_range(0..BYTES);
                self.file.set_len(size).unwrap();
                self.now.resize(size as usize, 0);
                "truncate"
            }
            8 => {
                let at = self.random.random_range(0..BYTES);
                let length = self.random.random_range(1..50_000);
                let flags =
                    rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&self.file, flags, at, length).unwrap();
                let end = ((at + length) as usize).min(self.now.len());
                let at = (at as usize).min(end);
                self.now[at..end].fill(0);
                "punch"
            }
            9..12 => {
                if self.before.is_none() {
                    self.file.sync_all().unwrap();
                    self.before = Some(self.now.clone());
                }
                call(&self.file, START);
                "start"
            }
            12 | 13 => {
                call(&self.file, COMMIT);
                self.before = None;
                "commit"
            }
            14 | 15 => {
                call(&self.file, ABORT);
                if let Some(before) = self.before.take() {
                    self.now = before;
                }
                "abort"
            }
            16 => {
                self.file.sync_all().unwrap();
                "fsync"
            }
            17 => {
                self.file.sync_data().unwrap();
                rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
                "drop pages"
            }
            18 => {
                shell(&format!("sync -f {}", self.mount.dir));
                "sync"
            }
            _ if self.random.random_range(0..8) > 0 => "nothing",
            _ => {
                if self.before.is_none() {
                    self.file.sync_all().unwrap();
                }
                shell(&format!("kill -9 {}", self.mount.server()));
                // The kernel closes it without us.
                self.file = File::open("/dev/null").unwrap();
                shell(&format!("umount -l {}", self.mount.dir));
                self.mount.mount();
                self.file = open(&self.mount.path("f"));
                if let Some(before) = self.before.take() {
                    self.now = before;
                }
                "crash"
            }
        }
    }

    fn check(&mut self) -> Result<(), String> {
        let length = self.file.metadata().unwrap().len();
        if length != self.now.len() as u64 {
            return Err(format!("{length} bytes, want {}", self.now.len()));
        }
        let mut found = vec![0; length as usize];
        self.file.read_exact_at(&mut found, 0).unwrap();
        match found.iter().zip(&self.now).position(|(a, b)| a != b) {
            None => Ok(()),
            Some(at) => Err(format!("byte {at} is {}, want {}", found[at], self.now[at])),
        }
    }
}

#[test]
fn random_operations_beside_a_model() {
    let seed = std::env::var("VARVE_SEED").map_or_else(|_| rand::random(), |s| s.parse().unwrap());
    eprintln!("reproduce: VARVE_SEED={seed} cargo test -p varve-cli --test atomic model");
    // Whoever finishes ioctls is another thread at the device.
    for options in ["atomic", "atomic,nouring"] {
        beside_a_model(seed, options);
    }
}

fn beside_a_model(seed: u64, options: &str) {
    let Some(m) = mount_with("64M", options) else {
        return;
    };
    let mut run = Run {
        file: open(&m.path("f")),
        mount: &m,
        random: Xoshiro256PlusPlus::seed_from_u64(seed),
        now: Vec::new(),
        before: None,
    };
    let mut done = Vec::new();
    for _ in 0..STEPS {
        done.push(run.step());
        if let Err(wrong) = run.check() {
            panic!(
                "{wrong}, after {:?}",
                &done[done.len().saturating_sub(20)..]
            );
        }
    }
    drop(run);
    m.finish();
}
