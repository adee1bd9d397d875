//! A full volume behind the write-back cache: who is told, and who is not.
//! The first tests play the kernel; the last one has a real one.

mod support;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use support::Mounted;
use support::kernel::{Notified, ask};
use varve_fs::{FileSystem, MemoryLayout, MemoryOptions};
use varve_fuse::{Adapter, Errno, MountOptions, Outcome, Reply};

const PIECE: usize = 64 << 10;
const CAPACITY_BYTES: u64 = 8 << 20;

fn file_system() -> Arc<FileSystem<MemoryLayout>> {
    let memory = MemoryOptions {
        capacity_bytes: CAPACITY_BYTES,
        ..Default::default()
    };
    support::file_system(memory, Default::default())
}

/// The other side of an adapter.
struct Kernel {
    adapter: Adapter<MemoryLayout>,
    reply: Reply,
    /// Where the next piece of the file goes.
    end: u64,
}

impl Kernel {
    /// With a room of 1 MiB kept for held writes, and one file.
    fn new() -> (Self, u64) {
        Self::speaking(45)
    }

    fn speaking(minor: u32) -> (Self, u64) {
        let fs = file_system();
        fs.keep_room(1 << 20);
        let mut kernel = Kernel {
            adapter: Adapter::new(fs, &MountOptions::default()),
            reply: Reply::new(),
            end: 0,
        };
        let mut init = [7u32, minor, 131_072, 1 << 30 | 1 << 16]
            .map(u32::to_ne_bytes)
            .concat();
        init.extend([0; 48]);
        assert!(kernel.ask(26, 0, &init).is_ok());
        let file = kernel.create(b"f\0");
        (kernel, file)
    }

    fn ask(&mut self, opcode: u32, nodeid: u64, body: &[u8]) -> Result<(), Errno> {
        let (outcome, reply) = ask(&self.adapter, opcode, nodeid, body);
        self.reply = reply;
        match outcome {
            Outcome::Error(errno) => Err(errno),
            Outcome::Reply | Outcome::Silent => Ok(()),
            other => panic!("{other:?}"),
        }
    }

    fn create(&mut self, name: &[u8]) -> u64 {
        let mut body = [0u32, 0o644, 0, 0].map(u32::to_ne_bytes).concat();
        body.extend(name);
        assert!(self.ask(35, 1, &body).is_ok());
        u64::from_ne_bytes(self.reply.body()[..8].try_into().unwrap())
    }

    /// A WRITE out of the cache; answers whether a notification is due, too.
    fn write_at(&mut self, file: u64, offset: u64) -> (Result<(), Errno>, bool) {
        let answer = self.ask(16, file, &held_write(offset));
        (answer, self.reply.outdated() == Some(file))
    }

    fn grow(&mut self, file: u64) -> (Result<(), Errno>, bool) {
        let answer = self.write_at(file, self.end);
        self.end += PIECE as u64;
        answer
    }

    /// Until the kept room is in use.
    fn fill(&mut self, file: u64) {
        loop {
            let (answer, due) = self.grow(file);
            answer.unwrap();
            if due {
                return;
            }
        }
    }

    /// What write(2) asks before it accepts anything.
    fn before_write(&mut self, file: u64) -> Result<(), Errno> {
        self.ask(3, file, &[&1u32.to_ne_bytes()[..], &[0; 12]].concat())
    }

    fn stat(&mut self, file: u64) -> Result<(), Errno> {
        self.ask(3, file, &[0; 16])?;
        self.ask(52, file, &[0; 24])
    }
}

/// The body of a WRITE out of the cache.
fn held_write(offset: u64) -> Vec<u8> {
    let mut body = [0, offset].map(u64::to_ne_bytes).concat();
    body.extend([PIECE as u32, 1].map(u32::to_ne_bytes).concat());
    body.extend([0; 16]);
    body.extend([7; PIECE]);
    body
}

#[test]
fn the_next_writer_is_told_once_and_nobody_else() {
    let (mut kernel, file) = Kernel::new();
    assert!(kernel.before_write(file).is_ok());
    kernel.fill(file);
    for _ in 0..3 {
        kernel.stat(file).unwrap();
        let mut read = [0u64, 0].map(u64::to_ne_bytes).concat();
        read.extend([4096u32, 0].map(u32::to_ne_bytes).concat());
        read.extend([0; 16]);
        kernel.ask(15, file, &read).unwrap();
    }
    assert_eq!(kernel.before_write(file), Err(Errno::NO_SPACE));
    assert_eq!(kernel.before_write(file), Ok(()));
    // What does not grow is nobody's business.
    assert_eq!(kernel.write_at(file, 0), (Ok(()), false));
    assert_eq!(kernel.before_write(file), Ok(()));
}

/// Also one that follows at once: the first notification may have come before
/// the kernel made the attributes valid again.
#[test]
fn every_write_that_uses_kept_room_is_announced() {
    let (mut kernel, file) = Kernel::new();
    kernel.fill(file);
    assert_eq!(kernel.grow(file), (Ok(()), true));
    let kernel_side = Notified::default();
    kernel.adapter.outdate(file, &kernel_side);
    let mut body = [file, -1i64 as u64, 0].map(u64::to_ne_bytes).concat();
    assert_eq!(kernel_side.0.lock().pop(), Some((2, body.clone())));
    assert_eq!(kernel.grow(file), (Ok(()), true));
    // For a file that is gone, it goes nowhere, and nothing is kept.
    body.clear();
    kernel.ask(2, file, &1u64.to_ne_bytes()).unwrap();
    kernel.adapter.outdate(file, &kernel_side);
    assert_eq!(kernel.before_write(file), Ok(()));
}

#[test]
fn what_is_over_is_not_told() {
    let (mut kernel, file) = Kernel::new();
    kernel.fill(file);
    // Forgotten by the kernel.
    kernel.ask(2, file, &1u64.to_ne_bytes()).unwrap();
    assert_eq!(kernel.before_write(file), Ok(()));
    // Cut off.
    assert!(kernel.grow(file).1);
    let size = kernel.end - PIECE as u64;
    let mut cut = vec![8, 0, 0, 0, 0, 0, 0, 0];
    cut.extend([0, size].map(u64::to_ne_bytes).concat());
    cut.extend([0; 64]);
    kernel.ask(4, file, &cut).unwrap();
    assert_eq!(kernel.before_write(file), Ok(()));
    // There is room again.
    assert!(kernel.grow(file).1);
    kernel.adapter.file_system().keep_room(0);
    assert_eq!(kernel.before_write(file), Ok(()));
}

#[test]
fn what_is_lost_is_told_even_if_there_is_room_again() {
    let (mut kernel, file) = Kernel::new();
    kernel.fill(file);
    while kernel.grow(file).0.is_ok() {}
    assert_eq!(kernel.grow(file).0, Err(Errno::NO_SPACE));
    kernel.adapter.file_system().keep_room(0);
    assert_eq!(kernel.before_write(file), Err(Errno::NO_SPACE));
    assert_eq!(kernel.before_write(file), Ok(()));
}

#[test]
fn a_kernel_that_would_tell_readers_is_not_used_to_tell_anybody() {
    let (mut kernel, file) = Kernel::speaking(34);
    let refused = loop {
        match kernel.grow(file) {
            (Ok(()), due) => assert!(!due),
            refused => break refused,
        }
    };
    assert_eq!(refused, (Err(Errno::NO_SPACE), false));
    assert_eq!(kernel.before_write(file), Ok(()));
}

#[test]
fn what_was_removed_makes_room_for_what_comes_at_once() {
    let (mut kernel, file) = Kernel::new();
    let other = kernel.create(b"g\0");
    kernel.fill(file);
    while kernel.grow(file).0.is_ok() {}
    assert_eq!(kernel.write_at(other, 0).0, Err(Errno::NO_SPACE));
    assert!(kernel.ask(10, 1, b"f\0").is_ok()); // UNLINK
    let fs = kernel.adapter.file_system();
    std::thread::scope(|scope| {
        // The kernel forgets it a little later, by another way.
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(8));
            fs.release(varve_fs::InodeNo(file), 1);
        });
        let (outcome, _) = ask(&kernel.adapter, 16, other, &held_write(0));
        assert!(matches!(outcome, Outcome::Reply), "{outcome:?}");
    });
}

#[test]
fn a_program_that_never_syncs_is_stopped_by_a_full_volume() {
    if !support::can_mount() {
        return;
    }
    let m = Mounted::serve(file_system(), MountOptions::default());
    let mut file = File::create(m.path("f")).unwrap();
    let mut accepted = 0;
    let refused = loop {
        match file.write(&[5; 16 << 10]) {
            Ok(bytes) => accepted += bytes as u64,
            Err(error) => break error,
        }
        assert!(accepted < 100 * CAPACITY_BYTES, "writing into nothing");
    };
    assert_eq!(refused.raw_os_error(), Some(libc::ENOSPC));
    // Readers at and beyond the end are not concerned.
    let reader = File::open(m.path("f")).unwrap();
    let mut buffer = vec![0; 1 << 20];
    let size = reader.metadata().unwrap().len();
    assert_eq!(reader.read_at(&mut buffer, size).unwrap(), 0);
    assert_eq!(reader.read_at(&mut buffer, size - 5).unwrap(), 5);
    assert_eq!(
        rustix::fs::seek(&reader, rustix::fs::SeekFrom::End(0)).unwrap(),
        size
    );
    assert_eq!(fs::read(m.path("f")).unwrap().len() as u64, size);
    fs::remove_file(m.path("f")).unwrap();
    drop((file, reader));
    fs::write(m.path("g"), vec![6; 1 << 20]).unwrap();
}
