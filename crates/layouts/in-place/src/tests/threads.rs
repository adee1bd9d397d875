//! Many threads, on a volume that is full now and then.

use super::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use varve_device::{Event, RecordingDevice};
use varve_fs::{
    Answer, Cause, Error, FileKind, Group, Item, Purpose, Rename, Request, SetAttr, Unwritten,
    View, Waiting,
};

/// The directory of one thread, and the content of its files.
struct Own<'a> {
    system: &'a System,
    directory: InodeNo,
    random: Xoshiro256PlusPlus,
    files: BTreeMap<u32, (InodeNo, Vec<u8>)>,
}

fn taken<T>(result: varve_fs::Result<T>) -> Option<T> {
    match result {
        Ok(done) => Some(done),
        Err(Error::NoSpace) => None,
        Err(error) => panic!("{error}"),
    }
}

impl Own<'_> {
    fn name(nth: u32) -> Vec<u8> {
        format!("a name that is not short at all {nth}").into_bytes()
    }

    fn step(&mut self) {
        let root = Caller::root();
        let nth = self.random.random_range(0..24u32);
        let name = Self::name(nth);
        let Some((ino, content)) = self.files.get_mut(&nth) else {
            let made = self.system.mknod(&root, self.directory, &name, 0o100644, 0);
            if let Some(made) = taken(made) {
                self.files.insert(nth, (made.ino, Vec::new()));
            }
            return;
        };
        match self.random.random_range(0..12) {
            0..5 => {
                let length = [10, 700, 4096, 9000, 40_000][self.random.random_range(0..5)];
                let at = self.random.random_range(0..=content.len().min(100_000));
                let bytes = vec![self.random.random_range(1..255u8); length];
                let done = self.system.write(&root, *ino, at as u64, &bytes);
                let done = taken(done).unwrap_or(0);
                content.resize(content.len().max(at + done), 0);
                content[at..at + done].copy_from_slice(&bytes[..done]);
            }
            5 => {
                let size = self.random.random_range(0..100_000u64);
                let set = SetAttr {
                    size: Some(size),
                    ..SetAttr::default()
                };
                if taken(self.system.setattr(&root, *ino, &set)).is_some() {
                    content.resize(size as usize, 0);
                }
            }
            6 => {
                let removed = self.system.unlink(&root, self.directory, &name);
                removed.unwrap();
                self.files.remove(&nth);
            }
            7 => {
                let other = self.random.random_range(0..24u32);
                let (from, to) = (self.directory, Self::name(other));
                let renamed = self
                    .system
                    .rename(&root, from, &name, from, &to, Rename::default());
                if taken(renamed).is_some() && other != nth {
                    let moved = self.files.remove(&nth).unwrap();
                    self.files.insert(other, moved);
                }
            }
            8 => self.system.fsync(*ino, false).unwrap(),
            9 => {
                let value = vec![1; self.random.random_range(1..3000)];
                taken(
                    self.system
                        .setxattr(&root, *ino, b"user.x", &value, false, false),
                );
            }
            _ => assert!(read(self.system, *ino, 0, 200_000) == *content, "{ino}"),
        }
    }
}

#[test]
fn many_work_on_a_volume_that_is_full_now_and_then() {
    let seed = std::env::var("VARVE_SEED").map_or(1, |seed| seed.parse().unwrap());
    eprintln!("reproduce: VARVE_SEED={seed}");
    for unit in [512, 4096] {
        let device = memory(6 << 20, unit);
        drop(made(&device));
        let few = Options {
            cache_bytes: 1 << 20,
            read_ahead_threads: 1,
            keep_written: false,
            ..Options::default()
        };
        let system = FileSystem::mount(mounted(&device), clock(), few).unwrap();
        let over = AtomicBool::new(false);
        let files: Vec<_> = thread::scope(|scope| {
            let workers: Vec<_> = (0..8)
                .map(|nth| {
                    let name = format!("directory {nth}");
                    let made = system.mkdir(&Caller::root(), InodeNo::ROOT, name.as_bytes(), 0o755);
                    let mut own = Own {
                        system: &system,
                        directory: made.unwrap().ino,
                        random: Xoshiro256PlusPlus::seed_from_u64(seed << 8 | nth),
                        files: BTreeMap::new(),
                    };
                    scope.spawn(move || {
                        (0..400).for_each(|_| own.step());
                        own.files
                    })
                })
                .collect();
            let (system, over) = (&system, &over);
            let background = scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    while system.write_back().unwrap() {}
                    system.maintain().unwrap();
                    system.checkpoint().unwrap();
                }
            });
            let done: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            over.store(true, Ordering::Relaxed);
            background.join().unwrap();
            done.into_iter().flat_map(|files| files.unwrap()).collect()
        });
        system.sync().unwrap();
        drop(system);
        sound(&device);
        let system = again(&device);
        for (_, (ino, content)) in files {
            assert!(read(&system, ino, 0, 200_000) == content, "{ino}");
        }
    }
}

/// A device of which one flush, on request, waits for the test twice.
#[derive(Debug)]
struct Gate {
    inner: Arc<dyn Device>,
    closed: AtomicBool,
    meeting: Barrier,
}

impl Device for Gate {
    fn geometry(&self) -> varve_device::Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> varve_device::Result<()> {
        self.inner.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> varve_device::Result<()> {
        self.inner.write(offset, buffers)
    }

    fn flush(&self) -> varve_device::Result<()> {
        if self.closed.swap(false, Ordering::Relaxed) {
            self.meeting.wait();
            self.meeting.wait();
        }
        self.inner.flush()
    }

    fn name(&self) -> String {
        "gate".into()
    }
}

/// A request arrives during a commit that frees the last of the requested resource.
#[test]
fn what_a_commit_is_about_to_free_is_waited_for() {
    let gate = Arc::new(Gate {
        inner: memory(24 << 20, 4096),
        closed: AtomicBool::new(false),
        meeting: Barrier::new(2),
    });
    let device: Arc<dyn Device> = gate.clone();
    let options = FfsFormatOptions {
        metadata: crate::format::Metadata::Asynchronous,
        inode_ratio: 1 << 20,
        ..FfsFormatOptions::default()
    };
    let system = made_with(&device, &options);
    let root = Caller::root();
    let layout = system.layout();
    let free = |ino: InodeNo| {
        let next_version = layout.read_inode(View::Live, ino).unwrap().version + 1;
        let group = Group {
            items: vec![Item::Freed { ino, next_version }],
            usage: layout.usage(),
            cause: Cause::WriteBack,
        };
        layout.append(group).unwrap();
    };
    // Calls the layout while its checkpoint waits for the device.
    let meanwhile = |ask: &(dyn Fn(&Ffs) + Sync)| {
        gate.closed.store(true, Ordering::Relaxed);
        thread::scope(|scope| {
            scope.spawn(|| layout.checkpoint().unwrap());
            gate.meeting.wait();
            let asked = scope.spawn(|| ask(layout));
            thread::sleep(Duration::from_millis(100));
            gate.meeting.wait();
            asked.join().unwrap();
        });
    };
    let large = create(&system, "large");
    let full = (0..).find(|at| write(&system, large, at * 65536, &[1; 65536]).is_err());
    assert!(full > Some(200));
    system.checkpoint().unwrap();
    free(large);
    meanwhile(&|layout| {
        let unwritten = Unwritten {
            bytes: 1 << 20,
            blocks: 256,
            ..Unwritten::default()
        };
        let waiting = Waiting {
            unwritten,
            operations: 1,
            ..Waiting::default()
        };
        let request = Request::new(layout.usage(), waiting, Purpose::Grow);
        assert_eq!(layout.admit_or_clean(&request).unwrap(), Answer::Granted);
    });
    let make = |nth: &u32| {
        let name = format!("{nth}");
        let made = system.mknod(&root, InodeNo::ROOT, name.as_bytes(), 0o100_644, 0);
        made.is_ok()
    };
    assert!((0..).take_while(make).count() > 8);
    system.checkpoint().unwrap();
    let some = system.lookup(&root, InodeNo::ROOT, b"3").unwrap().ino;
    free(some);
    meanwhile(&|layout| {
        let number = layout.allocate_inode(InodeNo::ROOT, FileKind::Regular);
        number.unwrap();
    });
}

/// I3: a file leaves a directory, which is removed in the same commit. The name of the
/// directory must not be removed before the file has its new one.
#[test]
fn a_file_that_left_a_removed_directory_has_its_new_name_first() {
    let size = 24 << 20;
    let recorder = Arc::new(RecordingDevice::new(MemoryDevice::new(size)));
    let gate = Arc::new(Gate {
        inner: recorder.clone(),
        closed: AtomicBool::new(false),
        meeting: Barrier::new(2),
    });
    let device: Arc<dyn Device> = gate.clone();
    let options = FfsFormatOptions {
        metadata: crate::format::Metadata::Synchronous,
        ..FfsFormatOptions::default()
    };
    let system = made_with(&device, &options);
    let root = Caller::root();
    let make = |name: &[u8]| system.mkdir(&root, InodeNo::ROOT, name, 0o755).unwrap().ino;
    let (from, to) = (make(b"from"), make(b"to"));
    let file = system
        .mknod(&root, from, b"file", 0o100_644, 0)
        .unwrap()
        .ino;
    write(&system, file, 0, b"here").unwrap();
    system.fsync(file, false).unwrap();
    recorder.take_trace();
    gate.closed.store(true, Ordering::Relaxed);
    let pause = || thread::sleep(Duration::from_millis(100));
    thread::scope(|scope| {
        let system = &system;
        scope.spawn(|| create(system, "first"));
        gate.meeting.wait();
        scope.spawn(|| {
            let flags = Rename::default();
            let renamed = system.rename(&root, from, b"file", to, b"file", flags);
            renamed.unwrap();
        });
        pause();
        scope.spawn(|| system.rmdir(&root, InodeNo::ROOT, b"from").unwrap());
        pause();
        gate.meeting.wait();
    });
    let geometry = system.layout().store.geometry;
    let trace = recorder.take_trace();
    let written = |ino: InodeNo| {
        let at = geometry.inode_sector(ino.0) * 512;
        let has = |event: &Event| match event {
            Event::Write { offset, data } => (*offset..offset + data.len() as u64).contains(&at),
            _ => false,
        };
        trace.iter().rposition(has).unwrap()
    };
    let between = &trace[written(to)..written(InodeNo::ROOT)];
    assert!(
        between
            .iter()
            .any(|event| matches!(event, Event::Flush { .. }))
    );
    drop(system);
    sound(&device);
}
