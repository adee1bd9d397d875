//! A full volume behind the write-back cache: who is told, and who is not.
//! The first tests play the kernel; the last one has a real one.

use crate::support::Mounted;
use crate::support::kernel::{Notified, ask};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use varve_fs::{FileSystem, InodeNo, MemoryLayout, MemoryOptions};
use varve_fuse::{Adapter, Errno, Later, MountOptions, Outcome, Reply};

const PIECE: usize = 64 << 10;
const CAPACITY_BYTES: u64 = 8 << 20;

fn file_system() -> Arc<FileSystem<MemoryLayout>> {
    let memory = MemoryOptions {
        capacity_bytes: CAPACITY_BYTES,
        ..Default::default()
    };
    crate::support::file_system(memory, Default::default())
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
        Self::with(minor, 1 << 30 | 1 << 16)
    }

    fn with(minor: u32, capabilities: u32) -> (Self, u64) {
        let fs = file_system();
        fs.keep_room(1 << 20);
        let mut kernel = Kernel {
            adapter: Adapter::new(fs, &MountOptions::default()),
            reply: Reply::new(),
            end: 0,
        };
        let mut init = [7u32, minor, 131_072, capabilities]
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
        (answer, self.reply.stale_unheld() == Some(file))
    }

    fn grow(&mut self, file: u64) -> (Result<(), Errno>, bool) {
        let answer = self.write_at(file, self.end);
        self.end += PIECE as u64;
        answer
    }

    /// A WRITE at the end of the file: how much of it was written.
    fn wrote(&mut self, file: u64, flags: u32) -> Result<u32, Errno> {
        let body = write(self.end, flags);
        self.end += PIECE as u64;
        let (mut outcome, mut reply) = ask(&self.adapter, 16, file, &body);
        if let Outcome::Later(later) = &outcome {
            outcome = self.adapter.finish(later, &Notified::default(), &mut reply);
        }
        match outcome {
            Outcome::Reply => Ok(u32::from_ne_bytes(reply.body()[..4].try_into().unwrap())),
            Outcome::Error(errno) => Err(errno),
            other => panic!("{other:?}"),
        }
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
    write(offset, 1)
}

/// The body of a SETXATTR.
fn set_attribute(bytes: usize) -> Vec<u8> {
    let mut body = [bytes as u32, 0].map(u32::to_ne_bytes).concat();
    body.extend(b"user.a\0");
    body.extend(vec![1; bytes]);
    body
}

/// The body of a WRITE.
fn write(offset: u64, flags: u32) -> Vec<u8> {
    let mut body = [0, offset].map(u64::to_ne_bytes).concat();
    body.extend([PIECE as u32, flags].map(u32::to_ne_bytes).concat());
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
    kernel.adapter.invalidate_attributes(file, &kernel_side);
    let mut body = [file, -1i64 as u64, 0].map(u64::to_ne_bytes).concat();
    assert_eq!(kernel_side.0.lock().pop(), Some((2, body.clone())));
    assert_eq!(kernel.grow(file), (Ok(()), true));
    // For a file that is gone, it goes nowhere, and nothing is kept.
    body.clear();
    kernel.ask(2, file, &1u64.to_ne_bytes()).unwrap();
    kernel.adapter.invalidate_attributes(file, &kernel_side);
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

/// A full volume, and a file whose removal will make room. Returns another
/// file and the removed one.
fn removed_but_not_forgotten() -> (Kernel, u64, u64) {
    let (mut kernel, file) = Kernel::new();
    let other = kernel.create(b"g\0");
    kernel.fill(file);
    while kernel.grow(file).0.is_ok() {}
    assert_eq!(kernel.write_at(other, 0).0, Err(Errno::NO_SPACE));
    assert_eq!(kernel.before_write(other), Err(Errno::NO_SPACE));
    assert!(kernel.ask(10, 1, b"f\0").is_ok()); // UNLINK
    (kernel, other, file)
}

/// What is put off, and that nobody waited for it.
fn put_off((outcome, reply): (Outcome, Reply), begun: Instant) -> Later {
    let Outcome::Later(later) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(reply.stale_unheld(), None, "nobody need be told yet");
    assert!(later.pause().is_some() && !later.answers_first());
    assert!(begun.elapsed() < Duration::from_millis(100));
    later
}

#[test]
fn what_was_removed_makes_room_for_what_comes_at_once() {
    // WRITE out of the cache, WRITE, SETXATTR.
    let requests = [
        (16, held_write(0)),
        (16, write(0, 0)),
        (21, set_attribute(30_000)),
    ];
    for (opcode, body) in &requests {
        let (kernel, other, removed) = removed_but_not_forgotten();
        let begun = Instant::now();
        let mut later = put_off(ask(&kernel.adapter, *opcode, other, body), begun);
        // The kernel forgets it a little later, by another way.
        let mut reply = Reply::new();
        for _ in 0..3 {
            let outcome = kernel
                .adapter
                .finish(&later, &Notified::default(), &mut reply);
            later = put_off((outcome, std::mem::take(&mut reply)), Instant::now());
        }
        kernel.adapter.file_system().release(InodeNo(removed), 1);
        let outcome = kernel
            .adapter
            .finish(&later, &Notified::default(), &mut reply);
        assert!(matches!(outcome, Outcome::Reply), "{outcome:?}");
    }
}

#[test]
fn who_waits_for_room_in_vain_is_refused_in_the_end() {
    for (opcode, held) in [(16, true), (21, false)] {
        let (mut kernel, other, _removed) = removed_but_not_forgotten();
        let body = match held {
            true => held_write(0),
            false => set_attribute(30_000),
        };
        let begun = Instant::now();
        let mut later = put_off(ask(&kernel.adapter, opcode, other, &body), begun);
        let mut reply = Reply::new();
        let refused = loop {
            assert!(begun.elapsed() < Duration::from_secs(5));
            std::thread::sleep(later.pause().unwrap());
            match kernel
                .adapter
                .finish(&later, &Notified::default(), &mut reply)
            {
                Outcome::Later(left) => later = left,
                Outcome::Error(errno) => break errno,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused, Errno::NO_SPACE);
        assert!(begun.elapsed() > Duration::from_millis(200));
        // And the writer is told, once.
        assert_eq!(reply.stale_unheld(), held.then_some(other));
        let told = if held { Err(Errno::NO_SPACE) } else { Ok(()) };
        assert_eq!(kernel.before_write(other), told);
        assert_eq!(kernel.before_write(other), Ok(()));
    }
}

/// A question about kept room waits like a write, and is not forgotten.
#[test]
fn a_writer_is_not_told_of_room_that_comes_back() {
    let (mut kernel, file) = Kernel::new();
    let other = kernel.create(b"g\0");
    kernel.fill(other);
    assert!(kernel.write_at(file, 0).1, "kept room is used");
    assert!(kernel.ask(10, 1, b"g\0").is_ok()); // UNLINK
    let question = [&1u32.to_ne_bytes()[..], &[0; 12]].concat();
    let later = put_off(ask(&kernel.adapter, 3, file, &question), Instant::now());
    kernel.adapter.file_system().release(InodeNo(other), 1);
    let mut reply = Reply::new();
    let outcome = kernel
        .adapter
        .finish(&later, &Notified::default(), &mut reply);
    assert!(matches!(outcome, Outcome::Reply), "{outcome:?}");
}

/// However many wait for room: the others do not.
#[test]
fn those_who_are_refused_hold_up_nobody_else() {
    if !crate::support::can_mount() {
        return;
    }
    for uring in [true, false] {
        let options = MountOptions {
            uring,
            threads_max: 4,
            ..MountOptions::default()
        };
        let m = Mounted::serve(file_system(), options);
        let names: Vec<String> = (0..16).map(|n| format!("f{n}")).collect();
        for name in &names {
            File::create(m.path(name)).unwrap();
        }
        // Filled up by a file without a name, which stays as it is open: the
        // removal is recent, and nothing comes of it.
        let filler = File::create(m.path("filler")).unwrap();
        let mut step = CAPACITY_BYTES;
        let mut end = 0;
        while step >= 4096 {
            let flags = rustix::fs::FallocateFlags::empty();
            match rustix::fs::fallocate(&filler, flags, end, step) {
                Ok(()) => end += step,
                Err(_) => step /= 2,
            }
        }
        fs::remove_file(m.path("filler")).unwrap();
        let slowest = std::thread::scope(|scope| {
            let refused: Vec<_> = names
                .iter()
                .map(|name| m.path(name))
                .map(|path| scope.spawn(move || refused_attribute(&path)))
                .collect();
            let mut slowest = Duration::ZERO;
            while !refused.iter().all(|thread| thread.is_finished()) {
                let begun = Instant::now();
                assert!(!m.path("nobody has this name").exists());
                let _ = fs::read_dir(m.root()).unwrap().count();
                slowest = slowest.max(begun.elapsed());
                std::thread::sleep(Duration::from_millis(1));
            }
            slowest
        });
        assert!(
            slowest < Duration::from_millis(200),
            "{slowest:?}, uring {uring}"
        );
        drop(filler);
    }
}

fn refused_attribute(path: &std::path::Path) {
    let flags = rustix::fs::XattrFlags::empty();
    let refused = rustix::fs::setxattr(path, "user.a", &[1; 60_000], flags);
    assert_eq!(refused, Err(rustix::io::Errno::NOSPC));
}

#[test]
fn a_program_that_never_syncs_is_stopped_by_a_full_volume() {
    if !crate::support::can_mount() {
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

/// What the kernel has forgotten is free already: who is refused then is refused at
/// once, however recent the removal is.
#[test]
fn a_refusal_waits_only_for_files_that_the_kernel_still_holds() {
    let (mut kernel, file) = Kernel::new();
    let (other, small) = (kernel.create(b"g\0"), kernel.create(b"h\0"));
    let late = kernel.create(b"i\0");
    kernel.fill(file);
    while kernel.grow(file).0.is_ok() {}
    assert!(kernel.ask(10, 1, b"h\0").is_ok()); // UNLINK
    let body = write(0, 0);
    let later = put_off(ask(&kernel.adapter, 16, other, &body), Instant::now());
    // Files that are removed later are not waited for.
    assert!(kernel.ask(10, 1, b"i\0").is_ok());
    kernel.adapter.file_system().release(InodeNo(small), 1);
    let mut reply = Reply::new();
    let adapter = &kernel.adapter;
    let outcome = adapter.finish(&later, &Notified::default(), &mut reply);
    assert!(
        matches!(outcome, Outcome::Error(Errno::NO_SPACE)),
        "{outcome:?}"
    );
    adapter.file_system().release(InodeNo(late), 1);
    assert_eq!(kernel.ask(16, other, &body), Err(Errno::NO_SPACE));
}

/// To the first attempt after a removal the kernel has mostly said what it forgot.
#[test]
fn attempts_follow_each_other_more_and_more_slowly() {
    let (kernel, other, _removed) = removed_but_not_forgotten();
    let mut later = put_off(
        ask(&kernel.adapter, 16, other, &held_write(0)),
        Instant::now(),
    );
    let mut pauses = Vec::new();
    for _ in 0..6 {
        pauses.push(later.pause().unwrap().as_millis());
        let mut reply = Reply::new();
        let outcome = kernel
            .adapter
            .finish(&later, &Notified::default(), &mut reply);
        later = put_off((outcome, reply), Instant::now());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
}

/// The kernel makes EIO of a short answer to an asynchronous request, and sends all
/// direct ones so.
#[test]
fn a_direct_write_is_answered_whole_or_refused() {
    const ASYNC_DIO: u32 = 1 << 15;
    for (asynchronous, flags) in [(true, 2), (true, 0), (false, 2)] {
        let capabilities = 1 << 30 | 1 << 16 | if asynchronous { ASYNC_DIO } else { 0 };
        let (mut kernel, file) = Kernel::with(45, capabilities);
        let answers: Vec<_> = (0..200).map(|_| kernel.wrote(file, flags)).collect();
        let is_short = |answer: &Result<u32, Errno>| answer.is_ok_and(|n| n < PIECE as u32);
        let short = answers.iter().filter(|answer| is_short(answer)).count();
        assert_eq!(answers.last(), Some(&Err(Errno::NO_SPACE)));
        let may_be_short = !asynchronous || flags == 0;
        assert_eq!(short > 0, may_be_short, "{asynchronous}, {flags}");
    }
}
