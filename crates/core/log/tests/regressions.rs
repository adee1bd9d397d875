//! Every bug once found in the layout, as a test of its own.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use varve_device::{
    Block, Clock, Device, DeviceError, Event, MemoryDevice, MemoryImage, RecordingDevice,
    VirtualClock,
};
use varve_fs::{
    Answer, Cause, FileKind, Group, Inode, InodeNo, Item, Layout, Purpose, Request, Timestamp,
    Usage, View, Waiting,
};
use varve_lfs::{FormatOptions, Lfs, MountOptions};

struct Volume {
    device: Arc<MemoryDevice>,
    clock: Arc<dyn Clock>,
    lfs: Lfs,
    usage: Usage,
}

/// What an operation that nothing waits beside asks for.
/// Asks once, as an operation does that has nothing to write back.
fn admit(lfs: &Lfs, total: Usage, waiting: Waiting, purpose: Purpose) -> varve_fs::Result<()> {
    match lfs.admit_or_clean(&Request::new(total, waiting, purpose))? {
        Answer::Granted => Ok(()),
        _ => Err(varve_fs::Error::NoSpace),
    }
}

fn asked(bytes: u64) -> Waiting {
    Waiting {
        asked: bytes,
        alone: true,
        ..Waiting::default()
    }
}

fn options() -> MountOptions {
    MountOptions {
        seed: Some(3),
        ..MountOptions::default()
    }
}

impl Volume {
    fn new(bytes: u64) -> Volume {
        let device = Arc::new(MemoryDevice::new(bytes));
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
        let format = FormatOptions {
            seed: Some(7),
            ..FormatOptions::default()
        };
        Lfs::format(&*device, &*clock, &format).unwrap();
        let lfs = Lfs::mount(device.clone(), clock.clone(), options()).unwrap();
        Volume {
            device,
            clock,
            lfs,
            usage: Usage::default(),
        }
    }

    /// The server dies; the device keeps what it was given.
    fn remount(mut self) -> Volume {
        self.lfs = Lfs::mount(self.device.clone(), self.clock.clone(), options()).unwrap();
        assert_eq!(self.lfs.recovery_report().damage, Vec::<String>::new());
        assert_eq!(self.lfs.usage(), self.usage);
        self
    }

    fn append(&self, items: Vec<Item>) -> varve_fs::Position {
        self.lfs
            .append(Group {
                items,
                usage: self.usage,
                cause: Cause::Sync,
            })
            .unwrap()
    }
}

fn inode(ino: InodeNo, version: u32, blocks: u64) -> Inode {
    let now = Timestamp {
        seconds: 5,
        nanos: 6,
    };
    let mode = FileKind::Regular.mode_bits() | 0o644;
    Inode {
        uid: 1,
        gid: 2,
        nlink: 1,
        size: blocks * 4096,
        blocks,
        sectors: blocks * 8,
        ..Inode::new(ino, version, mode, now)
    }
}

fn content(ino: InodeNo, block: u64, generation: u64) -> Arc<Block> {
    let mut bytes = vec![0; 4096];
    for (i, chunk) in bytes.chunks_mut(8).enumerate() {
        let word = ino.0 << 48 | block << 24 | generation << 12 | i as u64;
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    Arc::new(bytes.into())
}

fn block(ino: InodeNo, version: u32, block: u64, generation: u64) -> Item {
    let data = content(ino, block, generation);
    Item::Block {
        ino,
        version,
        block,
        data,
        written: Timestamp::default(),
    }
}

/// A file and the generation of each of its blocks.
#[derive(Clone)]
struct File {
    ino: InodeNo,
    version: u32,
    blocks: BTreeMap<u64, u64>,
}

impl File {
    fn image(&self) -> Item {
        Item::Inode(Box::new(inode(
            self.ino,
            self.version,
            self.blocks.len() as u64,
        )))
    }
}

fn write(volume: &mut Volume, file: &mut File, blocks: &[u64], generation: u64) {
    let mut items = Vec::new();
    for &number in blocks {
        items.push(block(file.ino, file.version, number, generation));
        if file.blocks.insert(number, generation).is_none() {
            volume.usage.blocks += 1;
            volume.usage.sectors += 8;
        }
    }
    items.push(file.image());
    let position = volume.append(items);
    volume.lfs.commit(position).unwrap();
}

fn create(volume: &mut Volume) -> File {
    let (ino, version) = volume
        .lfs
        .allocate_inode(InodeNo::ROOT, FileKind::Regular)
        .unwrap();
    volume.usage.inodes += 1;
    let file = File {
        ino,
        version,
        blocks: BTreeMap::new(),
    };
    let position = volume.append(vec![file.image()]);
    volume.lfs.commit(position).unwrap();
    file
}

fn xinode(f: &File, xattr_bytes: u32, nlink: u32) -> Item {
    let mut i = inode(f.ino, f.version, f.blocks.len() as u64);
    i.xattr_bytes = xattr_bytes;
    i.nlink = nlink;
    Item::Inode(Box::new(i))
}

/// setxattr, checkpoint, another checkpoint-less chmod, fsync, crash.
#[test]
fn an_image_without_root_keeps_its_attributes() {
    let mut v = Volume::new(16 << 20);
    let f = create(&mut v);
    v.append(vec![
        Item::Xattrs {
            ino: f.ino,
            version: f.version,
            data: Arc::new(vec![7; 100].into()),
        },
        xinode(&f, 100, 1),
    ]);
    v.lfs.checkpoint().unwrap();
    let p = v.append(vec![xinode(&f, 100, 2)]);
    v.lfs.commit(p).unwrap();
    let r = Lfs::mount(v.device.clone(), v.clock.clone(), options());
    match r {
        Ok(l) => {
            let x = l.read_xattrs(View::Live, f.ino);
            println!("{x:?}");
            x.unwrap();
            assert_eq!(l.recovery_report().groups, 1);
        }
        Err(e) => panic!("mount failed: {e}"),
    }
}

/// Removal of attributes in a group.
#[test]
fn removing_the_last_attribute_shifts_no_payload() {
    let mut bad = Vec::new();
    for n in 0..24u64 {
        let mut v = Volume::new(16 << 20);
        let f = create(&mut v);
        let mut items: Vec<Item> = (0..n)
            .map(|i| Item::Punched {
                ino: f.ino,
                version: f.version,
                from_block: 10 + i,
                to_block: 11 + i,
            })
            .collect();
        items.push(Item::Xattrs {
            ino: f.ino,
            version: f.version,
            data: Arc::default(),
        });
        items.push(f.image());
        let p = v.append(items);
        v.lfs.commit(p).unwrap();
        let l = Lfs::mount(v.device.clone(), v.clock.clone(), options()).unwrap();
        if l.recovery_report().groups != 2 {
            bad.push((
                n,
                l.recovery_report().end.clone(),
                l.recovery_report().damage.len(),
            ));
        }
    }
    assert!(bad.is_empty(), "acknowledged groups lost: {bad:?}");
}

fn free(v: &mut Volume, f: &File) {
    v.usage.inodes -= 1;
    let p = v.append(vec![Item::Freed {
        ino: f.ino,
        next_version: f.version + 1,
    }]);
    v.lfs.commit(p).unwrap();
}

/// Free list head used during replay, checkpoint, then create.
#[test]
fn numbers_taken_by_replay_leave_the_free_list() {
    let mut v = Volume::new(16 << 20);
    let files: Vec<File> = (0..6).map(|_| create(&mut v)).collect();
    free(&mut v, &files[3]);
    free(&mut v, &files[4]);
    v.lfs.checkpoint().unwrap();
    let mut v = v.remount(); // list: 4 -> 3
    let a = create(&mut v); // takes the head
    let mut v = v.remount(); // replay: a in use; cursor rests on it
    v.lfs.checkpoint().unwrap();
    let got = v.lfs.allocate_inode(InodeNo::ROOT, FileKind::Regular);
    println!("used head {:?}, next allocation {got:?}", a.ino);
    got.unwrap();
    let _ = &mut v;
}

/// Free list head used and freed during replay; another number freed after; checkpoint; duplicates?
#[test]
fn no_number_is_given_out_twice() {
    let mut v = Volume::new(16 << 20);
    let files: Vec<File> = (0..6).map(|_| create(&mut v)).collect();
    free(&mut v, &files[3]);
    free(&mut v, &files[4]);
    v.lfs.checkpoint().unwrap();
    let mut v = v.remount(); // list: X -> Y
    let a = create(&mut v); // X
    assert_eq!(a.ino, files[4].ino);
    free(&mut v, &a);
    let mut v = v.remount(); // replay: X used and freed; cursor = X
    free(&mut v, &files[1]); // W < X
    v.lfs.checkpoint().unwrap(); // list: X -> W
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..4 {
        let f = v
            .lfs
            .allocate_inode(InodeNo::ROOT, FileKind::Regular)
            .unwrap();
        println!("{f:?}");
        assert!(seen.insert(f.0.0, f.1).is_none(), "{f:?} given out twice");
    }
}

/// Clean unmount, mount, durable partials, the first of them rots.
#[test]
fn damage_behind_a_clean_checkpoint_is_reported() {
    let mut v = Volume::new(16 << 20);
    let _f = create(&mut v);
    v.lfs.unmount().unwrap();
    let mut v = v.remount();
    let before = v.device.snapshot();
    let files: Vec<File> = (0..5).map(|_| create(&mut v)).collect();
    // find the first changed write unit and damage it
    let old = MemoryDevice::from_image(&before);
    let mut first = None;
    let (mut a, mut b) = (vec![0; 4096], vec![0; 4096]);
    for at in (64 << 10..16u64 << 20).step_by(4096) {
        old.read(at, &mut a).unwrap();
        v.device.read(at, &mut b).unwrap();
        if a != b {
            first = Some(at);
            break;
        }
    }
    v.device
        .write(first.unwrap(), &[IoSlice::new(&vec![0; 4096])])
        .unwrap();
    let l = Lfs::mount(v.device.clone(), v.clock.clone(), options()).unwrap();
    println!("{:?}", l.recovery_report());
    assert!(
        l.read_inode(View::Live, files[0].ino).is_ok() || !l.recovery_report().damage.is_empty(),
        "acknowledged files lost without a word"
    );
}

#[derive(Debug)]
struct BadSector {
    inner: Arc<MemoryDevice>,
    bad: std::sync::Mutex<Vec<u64>>,
}
impl Device for BadSector {
    fn geometry(&self) -> varve_device::Geometry {
        self.inner.geometry()
    }
    fn read(&self, offset: u64, buffer: &mut [u8]) -> varve_device::Result<()> {
        for &b in self.bad.lock().unwrap().iter() {
            if b >= offset && b < offset + buffer.len() as u64 {
                return Err(DeviceError::new(
                    self,
                    varve_device::Operation::Read,
                    offset,
                    buffer.len() as u64,
                    std::io::Error::from_raw_os_error(5),
                ));
            }
        }
        self.inner.read(offset, buffer)
    }
    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> varve_device::Result<()> {
        self.inner.write(offset, buffers)
    }
    fn flush(&self) -> varve_device::Result<()> {
        self.inner.flush()
    }
    fn name(&self) -> String {
        "bad".into()
    }
}

/// A unit of an unflushed partial reads as an error after the power cut.
#[test]
fn a_torn_unit_may_read_as_an_error() {
    let mut v = Volume::new(16 << 20);
    let f = create(&mut v);
    let before = v.device.snapshot();
    v.append(vec![f.image()]); // never committed
    let old = MemoryDevice::from_image(&before);
    let mut first = None;
    let (mut a, mut b) = (vec![0; 4096], vec![0; 4096]);
    for at in (64 << 10..16u64 << 20).step_by(4096) {
        old.read(at, &mut a).unwrap();
        v.device.read(at, &mut b).unwrap();
        if a != b {
            first = Some(at);
            break;
        }
    }
    let bad = Arc::new(BadSector {
        inner: v.device.clone(),
        bad: vec![first.unwrap()].into(),
    });
    let r = Lfs::mount(bad, v.clock.clone(), options());
    assert!(r.is_ok(), "{}", r.err().unwrap());
}

/// 64 KiB segments are allowed; so are 64 KiB attributes.
#[test]
fn the_largest_attributes_fit_the_smallest_segments() {
    let device = Arc::new(MemoryDevice::new(16 << 20));
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
    let format = FormatOptions {
        seed: Some(7),
        segment_bytes: 64 << 10,
        ..FormatOptions::default()
    };
    Lfs::format(&*device, &*clock, &format).unwrap();
    let lfs = Lfs::mount(device.clone(), clock.clone(), options()).unwrap();
    let mut v = Volume {
        device,
        clock,
        lfs,
        usage: Usage::default(),
    };
    let f = create(&mut v);
    v.append(vec![
        Item::Xattrs {
            ino: f.ino,
            version: f.version,
            data: Arc::new(vec![7; 49152].into()),
        },
        xinode(&f, 49152, 1),
    ]);
}

/// Large file, random overwrites with admission: does the checkpoint fit the reserve?
fn reserve(mib: u64, fill_percent: u64, purpose: Purpose) {
    let mut v = Volume::new(mib << 20);
    let mut f = create(&mut v);
    let g = v.lfs.geometry_of_volume();
    println!(
        "segment {} count {} reserve {}",
        g.segment_bytes, g.segment_count, g.reserve_segments
    );
    let statfs = v.lfs.statfs(v.usage);
    let total = statfs.free * fill_percent / 100;
    let mut at = 0;
    while at < total {
        let n = 256.min(total - at);
        let mut usage = v.usage;
        usage.blocks += n;
        usage.sectors += 8 * n;
        if let Err(e) = admit(&v.lfs, usage, asked(n * 4096), Purpose::Grow) {
            println!("full at {at} of {total}: {e}");
            break;
        }
        let list: Vec<u64> = (at..at + n).collect();
        write(&mut v, &mut f, &list, 1);
        v.lfs.maintain().unwrap();
        at += n;
    }
    println!("filled {at}");
    v.lfs.checkpoint().unwrap();
    use rand::{RngExt, SeedableRng};
    let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
    for round in 0..600u64 {
        if let Err(e) = admit(&v.lfs, v.usage, asked(64 * 4096), purpose) {
            panic!("round {round}: admit {e}; stopped {:?}", v.lfs.stopped());
        }
        let mut blocks: Vec<u64> = (0..64).map(|_| rng.random_range(0..at)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let mut items: Vec<Item> = blocks
            .iter()
            .map(|b| block(f.ino, f.version, *b, 2))
            .collect();
        items.push(f.image());
        if let Err(e) = v.lfs.append(Group {
            items,
            usage: v.usage,
            cause: Cause::Sync,
        }) {
            panic!("round {round}: append {e}; stopped {:?}", v.lfs.stopped());
        }
    }
    v.lfs.checkpoint().unwrap();
}
/// After the failed checkpoint: does a remount help? Can anything be deleted?
#[test]
fn a_volume_short_of_segments_can_still_truncate() {
    let mut v = Volume::new(256 << 20);
    let mut f = create(&mut v);
    let total = v.lfs.statfs(v.usage).free * 95 / 100;
    let mut at = 0;
    while at < total {
        let n = 256.min(total - at);
        let list: Vec<u64> = (at..at + n).collect();
        write(&mut v, &mut f, &list, 1);
        v.lfs.maintain().unwrap();
        at += n;
    }
    v.lfs.checkpoint().unwrap();
    use rand::{RngExt, SeedableRng};
    let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
    for _ in 0..4000u64 {
        if admit(&v.lfs, v.usage, asked(64 * 4096), Purpose::Shrink).is_err() {
            break;
        }
        let mut blocks: Vec<u64> = (0..64).map(|_| rng.random_range(0..at)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let mut items: Vec<Item> = blocks
            .iter()
            .map(|b| block(f.ino, f.version, *b, 2))
            .collect();
        items.push(f.image());
        if v.lfs
            .append(Group {
                items,
                usage: v.usage,
                cause: Cause::Sync,
            })
            .is_err()
        {
            break;
        }
    }
    println!("stopped {:?}", v.lfs.stopped());
    for round in 0..3 {
        v.lfs = Lfs::mount(v.device.clone(), v.clock.clone(), options()).unwrap();
        let a = admit(&v.lfs, v.usage, asked(4096), Purpose::Shrink);
        let d = v.lfs.append(Group {
            items: vec![
                Item::Truncated {
                    ino: f.ino,
                    version: f.version,
                    from_block: 0,
                },
                {
                    let mut g = f.clone();
                    g.blocks.clear();
                    g.image()
                },
            ],
            usage: Usage {
                inodes: 1,
                blocks: 0,
                sectors: 0,
            },
            cause: Cause::Sync,
        });
        let c = v.lfs.checkpoint();
        println!(
            "round {round}: admit {a:?} truncate {d:?} checkpoint {c:?} stopped {:?}",
            v.lfs.stopped()
        );
    }
    assert!(v.lfs.stopped().is_none());
}

#[test]
fn the_reserve_covers_random_overwrites() {
    reserve(256, 85, Purpose::Grow);
}
#[test]
fn the_reserve_covers_shrinking_writes() {
    reserve(256, 85, Purpose::Shrink);
}
#[test]
fn the_reserve_covers_a_larger_volume() {
    reserve(512, 85, Purpose::Grow);
}

/// The public cleaner calls on a read-only mount must not write.
#[test]
fn a_read_only_mount_never_writes() {
    let mut v = Volume::new(16 << 20);
    let mut f = create(&mut v);
    write(&mut v, &mut f, &(0..100).collect::<Vec<_>>(), 1);
    v.lfs.checkpoint().unwrap();
    let before = v.device.snapshot();
    let l = Lfs::mount(
        v.device.clone(),
        v.clock.clone(),
        MountOptions {
            read_only: true,
            ..options()
        },
    )
    .unwrap();
    let list = l.cleaner().candidates();
    println!("{list:?}");
    let r = l.cleaner().clean_segment(list[1].segment);
    let old = MemoryDevice::from_image(&before);
    let (mut a, mut b) = (vec![0; 16 << 20], vec![0; 16 << 20]);
    old.read(0, &mut a).unwrap();
    v.device.read(0, &mut b).unwrap();
    assert!(a == b, "a read-only mount wrote: {r:?}");
}

/// Segment 0 in its first life can be cleaned.
#[test]
fn the_first_segment_can_be_cleaned() {
    let mut v = Volume::new(16 << 20);
    let mut f = create(&mut v);
    write(&mut v, &mut f, &(0..100).collect::<Vec<_>>(), 1);
    v.lfs.checkpoint().unwrap();
    println!(
        "{:?}",
        v.lfs.cleaner().candidates().iter().find(|c| c.segment == 0)
    );
    let n = v.lfs.mechanism().read_segment(0).unwrap().blocks.len();
    println!(
        "clean_segment {:?}, blocks seen {n}",
        v.lfs.cleaner().clean_segment(0)
    );
    v.lfs.checkpoint().unwrap();
    v.lfs.checkpoint().unwrap();
    let c = v
        .lfs
        .cleaner()
        .candidates()
        .into_iter()
        .find(|c| c.segment == 0);
    assert!(c.is_none(), "still {c:?}");
}

#[derive(Debug)]
struct Gate {
    inner: Arc<MemoryDevice>,
    armed: std::sync::atomic::AtomicBool,
    reached: std::sync::Barrier,
    go: std::sync::Barrier,
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
        if self.armed.swap(false, std::sync::atomic::Ordering::SeqCst) {
            self.reached.wait();
            self.go.wait();
        }
        self.inner.flush()
    }
    fn name(&self) -> String {
        "gate".into()
    }
}

/// SEEK_DATA while a checkpoint folds a punched hole.
#[test]
fn a_block_written_into_a_hole_being_folded_is_found() {
    let mut v = Volume::new(16 << 20);
    let mut f = create(&mut v);
    write(&mut v, &mut f, &(0..100).collect::<Vec<_>>(), 1);
    v.lfs.checkpoint().unwrap();
    let gate = Arc::new(Gate {
        inner: v.device.clone(),
        armed: false.into(),
        reached: std::sync::Barrier::new(2),
        go: std::sync::Barrier::new(2),
    });
    v.lfs = Lfs::mount(gate.clone(), v.clock.clone(), options()).unwrap();
    v.append(vec![
        Item::Punched {
            ino: f.ino,
            version: f.version,
            from_block: 0,
            to_block: 100,
        },
        f.image(),
    ]);
    gate.armed.store(true, std::sync::atomic::Ordering::SeqCst);
    std::thread::scope(|s| {
        let t = s.spawn(|| v.lfs.checkpoint().unwrap());
        gate.reached.wait();
        v.append(vec![block(f.ino, f.version, 50, 2), f.image()]);
        let m: Vec<u64> = v
            .lfs
            .map(View::Live, f.ino, 0, 200)
            .unwrap()
            .iter()
            .map(|m| m.block)
            .collect();
        let n = v.lfs.next_mapped(View::Live, f.ino, 0).unwrap();
        gate.go.wait();
        t.join().unwrap();
        assert_eq!((m, n), (vec![50], Some(50)));
    });
}

/// What a mount of `image` and then one group give to the device.
fn recorded(v: &Volume, image: &MemoryImage, options: MountOptions, then: &[Item]) -> Vec<Event> {
    let device = Arc::new(RecordingDevice::new(MemoryDevice::from_image(image)));
    let lfs = Lfs::mount(device.clone(), v.clock.clone(), options).unwrap();
    if !then.is_empty() {
        let (items, usage) = (then.to_vec(), v.usage);
        lfs.append(Group {
            items,
            usage,
            cause: Cause::Sync,
        })
        .unwrap();
    }
    device.take_trace()
}

/// The writes of a trace to the segments, and their bytes.
fn to_segments(trace: &[Event]) -> Vec<(u64, Arc<[u8]>)> {
    let of_segment = |event: &Event| match event {
        Event::Write { offset, data } if *offset >= 64 << 10 => Some((*offset, data.clone())),
        _ => None,
    };
    trace.iter().filter_map(of_segment).collect()
}

/// A group that leaves `f`'s owner at `uid`, and block 0 as it was.
fn owned_by(f: &File, uid: u32) -> Vec<Item> {
    let mut image = inode(f.ino, f.version, 1);
    image.uid = uid;
    vec![block(f.ino, f.version, 0, 1), Item::Inode(Box::new(image))]
}

/// A unit that kept a partial from counting is written by the next life, whose
/// own header is lost: at every place in a segment, its start included.
#[test]
fn a_torn_partial_is_not_completed_by_the_next_life() {
    let mut v = Volume::new(8 << 20);
    let mut f = create(&mut v);
    write(&mut v, &mut f, &[0], 1);
    let segment_bytes = u64::from(v.lfs.geometry_of_volume().segment_bytes);
    let (mut entered, mut torn) = (0, 0);
    for _ in 0..2 * segment_bytes / (12 << 10) {
        let before = v.device.snapshot();
        let first = to_segments(&recorded(&v, &before, options(), &owned_by(&f, 77)));
        let (place, partial) = first.last().expect("the group was written");
        entered += u64::from((place - (64 << 10)) % segment_bytes <= 4096);
        for missing in (512..partial.len()).step_by(512) {
            let mut image = before.clone();
            image.write(*place, &partial[..missing]);
            image.write(place + missing as u64 + 512, &partial[missing + 512..]);
            let uid_of = |image: &MemoryImage| {
                let device = Arc::new(MemoryDevice::from_image(image));
                let lfs = Lfs::mount(device, v.clock.clone(), options()).unwrap();
                assert_eq!(lfs.recovery_report().damage, Vec::<String>::new());
                lfs.read_inode(View::Live, f.ino).unwrap().uid
            };
            if uid_of(&image) == 77 {
                continue; // padding
            }
            torn += 1;
            let second = to_segments(&recorded(&v, &image, options(), &owned_by(&f, 78)));
            let [(cleared, zeros), (again, bytes)] = &second[..] else {
                panic!("{} writes", second.len());
            };
            assert_eq!((cleared, zeros.len(), again), (place, 512, place));
            image.write(*cleared, zeros);
            let unit = place + missing as u64;
            image.write(unit, &bytes[missing..missing + 512]);
            assert_eq!(uid_of(&image), 1, "completed by unit {missing} at {place}");
        }
        write(&mut v, &mut f, &[0], 1);
    }
    assert!(entered > 0, "no group began a segment");
    assert!(torn > 100, "only {torn}");
}

/// One block is written to a place where a torn partial stands, once; nothing
/// where none does, and nothing by a mount that must not write.
#[test]
fn only_a_leftover_is_cleared() {
    let mut v = Volume::new(8 << 20);
    let mut f = create(&mut v);
    write(&mut v, &mut f, &[0], 1);
    let whole = v.device.snapshot();
    let writes = |image: &MemoryImage, options| to_segments(&recorded(&v, image, options, &[]));
    assert_eq!(writes(&whole, options()), [], "after a kill");
    let (place, partial) = to_segments(&recorded(&v, &whole, options(), &owned_by(&f, 77)))
        .pop()
        .expect("the group was written");
    let mut torn = whole.clone();
    torn.write(place, &partial[..512]);
    let read_only = MountOptions {
        read_only: true,
        ..options()
    };
    assert_eq!(writes(&torn, read_only), [], "read-only");
    let trace = recorded(&v, &torn, options(), &[]);
    assert_eq!(to_segments(&trace), [(place, vec![0; 512].into())]);
    let flushed = |event: &Event| matches!(event, Event::Flush { .. });
    assert_eq!(trace.iter().position(flushed), Some(1), "{trace:?}");
    torn.write(place, &[0; 512]);
    assert_eq!(writes(&torn, options()), [], "a second time");
    v.lfs.unmount().unwrap();
    assert_eq!(writes(&v.device.snapshot(), options()), [], "unmounted");
}

/// The header of a torn partial is whole, a sector beside it is not to be read.
#[test]
fn a_leftover_is_cleared_beside_an_unreadable_sector() {
    let mut v = Volume::new(8 << 20);
    let mut f = create(&mut v);
    write(&mut v, &mut f, &[0], 1);
    let before = v.device.snapshot();
    let (place, partial) = to_segments(&recorded(&v, &before, options(), &owned_by(&f, 77)))
        .pop()
        .expect("the group was written");
    v.device
        .write(place, &[IoSlice::new(&partial[..512])])
        .unwrap();
    let bad = Arc::new(BadSector {
        inner: v.device.clone(),
        bad: vec![place + 1024].into(),
    });
    Lfs::mount(bad, v.clock.clone(), options()).unwrap();
    let mut found = [1; 512];
    v.device.read(place, &mut found).unwrap();
    assert_eq!(found, [0; 512]);
}

/// Segments that a running checkpoint fills look dead until it is complete.
/// Cleaned in that time, they were taken for damaged once it was.
#[test]
fn what_a_running_checkpoint_writes_is_not_cleaned() {
    let mut v = Volume::new(60 << 20);
    let mut f = create(&mut v);
    for first in (0..9000).step_by(250) {
        let blocks: Vec<u64> = (first..first + 250).collect();
        write(&mut v, &mut f, &blocks, 1);
    }
    let gate = Arc::new(Gate {
        inner: v.device.clone(),
        armed: false.into(),
        reached: std::sync::Barrier::new(2),
        go: std::sync::Barrier::new(2),
    });
    v.lfs = Lfs::mount(gate.clone(), v.clock.clone(), options()).unwrap();
    gate.armed.store(true, std::sync::atomic::Ordering::SeqCst);
    std::thread::scope(|s| {
        let running = s.spawn(|| v.lfs.checkpoint().unwrap());
        gate.reached.wait();
        let cleaned = v.lfs.cleaner().clean_batch();
        gate.go.wait();
        running.join().unwrap();
        cleaned.unwrap();
    });
    for _ in 0..3 {
        v.lfs.checkpoint().unwrap();
    }
    v.lfs.unmount().unwrap();
    let check_options = varve_fsck::check::CheckOptions::default();
    let report = varve_fsck::check::check(v.device.clone(), v.clock.clone(), &check_options);
    let suspects: Vec<_> = report
        .unwrap()
        .warnings
        .into_iter()
        .filter(|finding| finding.kind == varve_fsck::check::FindingKind::Suspect)
        .collect();
    assert!(suspects.is_empty(), "{suspects:?}");
}
