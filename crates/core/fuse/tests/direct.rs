//! Direct writes, asynchronous ones among them, beside the page cache.

use crate::support::Mounted;
use crate::support::aio::Aio;
use crate::support::kernel::{Notified, ask};
use crate::support::map::SharedMap;
use crate::support::server::Server;
use rustix::fs::OFlags;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use varve_fs::{MemoryLayout, MemoryOptions};
use varve_fuse::{Adapter, Later, MountOptions, Outcome, Reply};

const PAGE: u64 = 4096;

/// The kernel's side of requests to an adapter.
struct Kernel {
    adapter: Adapter<MemoryLayout>,
    file: u64,
    told: Notified,
}

impl Kernel {
    /// With one file of 64 pages.
    fn new() -> Self {
        let fs = crate::support::file_system(Default::default(), Default::default());
        let mut kernel = Kernel {
            adapter: Adapter::new(fs, &MountOptions::default()),
            file: 0,
            told: Notified::default(),
        };
        let mut init = [7u32, 45, 131_072, 1 << 30 | 1 << 16]
            .map(u32::to_ne_bytes)
            .concat();
        init.extend([0; 48]);
        kernel.ask(26, 0, &init);
        let mut create = [0u32, 0o644, 0, 0].map(u32::to_ne_bytes).concat();
        create.extend(b"f\0");
        let (_, reply) = kernel.ask(35, 1, &create);
        kernel.file = u64::from_ne_bytes(reply.body()[..8].try_into().unwrap());
        kernel
    }

    fn ask(&self, opcode: u32, nodeid: u64, body: &[u8]) -> (Outcome, Reply) {
        ask(&self.adapter, opcode, nodeid, body)
    }

    /// READ; `flags` 2 is a direct one.
    fn read(&self, page: u64, flags: u32) {
        let mut body = [0, page * PAGE].map(u64::to_ne_bytes).concat();
        body.extend([PAGE as u32, flags].map(u32::to_ne_bytes).concat());
        body.extend([0; 16]);
        assert!(matches!(self.ask(15, self.file, &body).0, Outcome::Reply));
    }

    /// WRITE of a page; `flags` 2 is a direct one.
    fn write(&self, page: u64, flags: u32) -> Outcome {
        self.write_with_reply(page, flags).0
    }

    fn write_with_reply(&self, page: u64, flags: u32) -> (Outcome, Reply) {
        let mut body = [0, page * PAGE].map(u64::to_ne_bytes).concat();
        body.extend([PAGE as u32, flags].map(u32::to_ne_bytes).concat());
        body.extend([0; 16]);
        body.extend([7; PAGE as usize]);
        self.ask(16, self.file, &body)
    }

    /// Finishes a write, and says what was dropped: offset and length.
    fn finish(&self, outcome: Outcome) -> (i64, i64) {
        let Outcome::Later(later) = outcome else {
            panic!("{outcome:?}")
        };
        self.finish_later(&later)
    }

    fn finish_later(&self, later: &Later) -> (i64, i64) {
        let mut reply = Reply::new();
        let outcome = self.adapter.finish(later, &self.told, &mut reply);
        if matches!(outcome, Outcome::Reply) {
            assert_eq!(
                reply.body(),
                [PAGE as u32, 0].map(u32::to_ne_bytes).concat()
            );
        }
        let (code, body) = self.told.0.lock().pop().unwrap();
        let number = |at: usize| i64::from_ne_bytes(body[at..at + 8].try_into().unwrap());
        // FUSE_NOTIFY_INVAL_INODE
        assert_eq!((code, number(0)), (2, self.file as i64));
        (number(8), number(16))
    }
}

#[test]
fn what_was_read_while_a_direct_write_was_under_way_is_dropped_before_its_answer() {
    let kernel = Kernel::new();
    // Nothing is known yet: everything goes. A length of 0 means to the end.
    assert_eq!(kernel.finish(kernel.write(3, 2)), (0, 0));
    assert!(matches!(kernel.write(3, 2), Outcome::Reply));
    // Read into the cache, whenever that was: the write's pages go.
    kernel.read(3, 0);
    kernel.read(5, 0);
    assert!(matches!(kernel.write(4, 2), Outcome::Reply));
    assert_eq!(kernel.finish(kernel.write(3, 2)), (3 * 4096, 4096));
    assert!(matches!(kernel.write(3, 2), Outcome::Reply));
    // Direct reads and other writes leave nothing stale.
    kernel.read(6, 2);
    assert!(matches!(kernel.write(6, 2), Outcome::Reply));
    assert!(matches!(kernel.write(5, 1), Outcome::Reply));
    assert!(matches!(kernel.write(5, 0), Outcome::Reply));
    assert_eq!(kernel.finish(kernel.write(5, 2)), (5 * 4096, 4096));
    assert!(kernel.told.0.lock().is_empty());
}

/// Before an asynchronous write the kernel takes attributes for outdated, and
/// not again when it is answered.
#[test]
fn attributes_asked_for_while_a_direct_write_was_under_way_are_asked_for_again() {
    let kernel = Kernel::new();
    let amended = |page| kernel.write_with_reply(page, 2).1.stale().to_vec();
    let getattr = || {
        assert!(matches!(
            kernel.ask(3, kernel.file, &[0; 16]).0,
            Outcome::Reply
        ))
    };
    let statx = || {
        assert!(matches!(
            kernel.ask(52, kernel.file, &[0; 24]).0,
            Outcome::Reply
        ))
    };
    // Which write it was is not known: the next one tells.
    for (ask, page) in [(&getattr as &dyn Fn(), 1), (&statx, 11)] {
        amended(page);
        assert!(amended(page + 1).is_empty(), "nobody asked");
        ask();
        assert_eq!(amended(page + 2), [kernel.file]);
        assert!(amended(page + 3).is_empty());
        // What changes nothing that the kernel takes from us is not told.
        ask();
        assert!(amended(page + 3).is_empty());
    }
}

/// The kernel has a limited number of requests under way in the background, and
/// the pages may have to wait for some of these.
#[test]
fn direct_writes_do_not_all_wait_for_pages() {
    let kernel = Kernel::new();
    kernel.finish(kernel.write(0, 2));
    (0..64).for_each(|page| kernel.read(page, 0));
    let mut writes: Vec<Later> = Vec::new();
    for page in 0..64 {
        match kernel.write(page, 2) {
            Outcome::Later(later) => writes.push(later),
            other => panic!("{other:?}"),
        }
    }
    let waiting = writes.iter().filter(|w| !w.answers_first()).count();
    assert!((1..64).contains(&waiting), "{waiting}");
    for later in &mut writes {
        if later.answers_first() {
            assert!(later.answer_now().is_ok());
        }
        kernel.finish_later(later);
    }
    kernel.read(9, 0);
    let Outcome::Later(again) = kernel.write(9, 2) else {
        panic!("page 9 is stale");
    };
    assert!(!again.answers_first());
}

const FILE_BYTES: usize = 256 << 10;

fn open(path: &Path, flags: OFlags) -> File {
    let mut options = File::options();
    options.read(true).custom_flags(flags.bits() as i32);
    options.write(true).open(path).unwrap()
}

/// xfstests generic/451, and with maps.
#[test]
fn asynchronous_direct_writes_beside_readers_leave_no_stale_pages() {
    if !crate::support::can_mount() {
        return;
    }
    for options in ["", "nouring"] {
        let server = Server::start(options);
        let path = server.path("g");
        std::fs::write(&path, vec![0; FILE_BYTES]).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| read_until(&path, &over));
            }
            scope.spawn(|| map_until(&path, &over));
            // Also if something below panics: a map of a mount that is gone
            // can be read for ever.
            let _ends = Ends(&over);
            let (direct, cached) = (open(&path, OFlags::DIRECT), open(&path, OFlags::empty()));
            let (aio, mut seen) = (Aio::new(), vec![0; FILE_BYTES]);
            let mut stale = 0;
            for round in 0..150 {
                let data = vec![round as u8 + 1; FILE_BYTES];
                // At most 32 at once: so many are answered after their pages
                // are gone.
                let piece = [FILE_BYTES, 64 << 10, 8 << 10][round % 3];
                aio.write(&direct, &data, piece);
                cached.read_exact_at(&mut seen, 0).unwrap();
                stale += usize::from(seen != data);
            }
            assert_eq!(stale, 0, "with {options:?}");
        });
    }
}

/// Lets readers go when dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn read_until(path: &Path, over: &AtomicBool) {
    let file = open(path, OFlags::empty());
    let mut page = [0; PAGE as usize];
    while !over.load(Relaxed) {
        for at in (0..FILE_BYTES as u64).step_by(page.len()) {
            file.read_exact_at(&mut page, at).unwrap();
        }
    }
}

fn map_until(path: &Path, over: &AtomicBool) {
    let map = SharedMap::new(&open(path, OFlags::empty()), FILE_BYTES);
    while !over.load(Relaxed) {
        for at in (0..FILE_BYTES).step_by(PAGE as usize) {
            std::hint::black_box(map.get(at));
        }
    }
}

/// Through the kernel, which splits a direct write and sends the parts at once.
#[test]
fn a_direct_write_into_too_little_space_is_refused_with_that_error() {
    if !crate::support::can_mount() {
        return;
    }
    let memory = MemoryOptions {
        capacity_bytes: 8 << 20,
        ..MemoryOptions::default()
    };
    let fs = crate::support::file_system(memory, Default::default());
    let m = Mounted::serve(fs, MountOptions::default());
    std::fs::write(m.path("direct"), b"").unwrap();
    let file = open(&m.path("direct"), OFlags::DIRECT);
    let filler = File::create(m.path("filler")).unwrap();
    let (none, mut end) = (rustix::fs::FallocateFlags::empty(), 0);
    for step in [1 << 20, 64 << 10, 4096] {
        while rustix::fs::fallocate(&filler, none, end, step).is_ok() {
            end += step;
        }
    }
    let mut refused = 0;
    for blocks in 0..40 {
        filler.set_len(end - blocks * 8192).unwrap();
        file.set_len(0).unwrap();
        match file.write_at(&[7; 160 << 10], 0) {
            Ok(written) => assert_eq!(written, 160 << 10, "{blocks} blocks"),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{blocks} blocks");
                assert_eq!(file.metadata().unwrap().len(), 0, "{blocks} blocks");
                refused += 1;
            }
        }
    }
    assert!((10..40).contains(&refused), "{refused} of 40 refused");
}
