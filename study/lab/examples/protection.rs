//! What calls cost that use no transaction, on a volume that has had transactions of each
//! kind and on one that has had none. Instructions are counted around it:
//!
//! ```text
//! for calls in names data; do for volume in none had; do for rounds in 1000 2000; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null \
//!         target/release/examples/protection $volume $calls $rounds
//! done; done; done
//! ```
//!
//! A round has two calls, create and removal or write and read. What 2000 rounds collect
//! more than 1000 do is the cost of 2000 calls.

use std::sync::Arc;
use varve_device::{Clock, MemoryDevice, VirtualClock};
use varve_fs::{Caller, FileSystem, InodeNo, Isolation, Options, TransactionOptions};
use varve_lfs::{FormatOptions, Lfs, MountOptions};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let usage = "protection none|had names|data ROUNDS";
    let [_, mode, calls, rounds] = &arguments[..] else {
        return Err(usage.into());
    };
    let device = Arc::new(MemoryDevice::new(256 << 20));
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(1_000_000_000_000, 0));
    let format = FormatOptions {
        seed: Some(1),
        ..FormatOptions::default()
    };
    Lfs::format(&*device, &*clock, &format)?;
    let mount = MountOptions {
        seed: Some(1),
        ..MountOptions::default()
    };
    let lfs = Lfs::mount(device, Arc::clone(&clock), mount)?;
    FileSystem::format(&lfs, &*clock, (0, 0))?;
    let options = Options {
        read_ahead_threads: 0,
        ..Options::default()
    };
    let fs = Arc::new(FileSystem::mount(Arc::new(lfs), clock, options)?);
    let root = Caller::root();
    let theirs = fs.mknod(&root, InodeNo::ROOT, b"theirs", 0o100_644, 0)?.ino;
    let kinds: &[Isolation] = match mode.as_str() {
        "none" => &[],
        "had" => &[
            Isolation::Snapshot,
            Isolation::Serializable,
            Isolation::Locking,
        ],
        _ => return Err(usage.into()),
    };
    for &isolation in kinds {
        let options = TransactionOptions {
            isolation,
            ..TransactionOptions::default()
        };
        let transaction = fs.begin_transaction(&options)?;
        transaction.write(&root, theirs, 0, b"something")?;
        transaction.commit()?;
    }
    let file = fs.mknod(&root, InodeNo::ROOT, b"file", 0o100_644, 0)?.ino;
    let mut data = [7; 4096];
    for _ in 0..rounds.parse::<u32>()? {
        match calls.as_str() {
            "names" => {
                fs.mknod(&root, InodeNo::ROOT, b"name", 0o100_644, 0)?;
                fs.unlink(&root, InodeNo::ROOT, b"name")?;
            }
            "data" => {
                fs.write(&root, file, 0, &data)?;
                fs.read(file, 0, &mut data)?;
            }
            _ => return Err(usage.into()),
        }
    }
    Ok(())
}
