//! Streams of `varve ship`: parsed as they are; and, with lengths, order and checksums
//! made right, replayed onto a copy, which must be mounted afterwards.

use crate::sample;
use std::mem::size_of;
use std::sync::{Arc, OnceLock};
use varve_device::{Clock, Device, MemoryDevice, MemoryImage, VirtualClock};
use varve_fs::{Caller, FileSystem, InodeNo, Options};
use varve_lfs::format::{Mark, crc32c};
use varve_lfs::shipping::{
    Measures, Record, Replay, StreamHeader, StreamReader, StreamRecord, record_kind,
};
use varve_lfs::{FormatOptions, Lfs, MountOptions};
use zerocopy::{FromBytes, IntoBytes};

/// A volume, and what was done to it.
struct Pair {
    base: MemoryImage,
    mark: Mark,
    header: StreamHeader,
    stream: Vec<u8>,
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::new(1_700_000_000_000_000_000, 1000))
}

fn options() -> MountOptions {
    MountOptions {
        cache_bytes: 1 << 20,
        seed: Some(5),
        ..MountOptions::default()
    }
}

fn pair() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    PAIR.get_or_init(|| make().expect("a volume in memory"))
}

fn make() -> varve_fs::Result<Pair> {
    let device = Arc::new(MemoryDevice::new(8 << 20));
    let format = FormatOptions {
        segment_bytes: 128 << 10,
        seed: Some(4),
        ..FormatOptions::default()
    };
    Lfs::format(&*device, &*clock(), &format)?;
    let lfs = Lfs::mount(device.clone(), clock(), options())?;
    FileSystem::format(&lfs, &*clock(), (0, 0))?;
    lfs.unmount()?;
    drop(lfs);
    let base = device.snapshot();
    let lfs = Arc::new(Lfs::mount(device, clock(), options())?);
    let mark = lfs.mark();
    let system = FileSystem::mount(Arc::clone(&lfs), clock(), Options::default())?;
    let (caller, root) = (Caller::root(), InodeNo::ROOT);
    for name in [b"a", b"b", b"c"] {
        let file = system.mknod(&caller, root, name, 0o100_644, 0)?.ino;
        system.write(&caller, file, 0, &[name[0]; 9000])?;
        system.fallocate(&caller, file, 0, 20_000, 30_000)?;
        system.sync()?;
    }
    system.unlink(&caller, root, b"b")?;
    system.sync()?;
    lfs.checkpoints().take_checkpoint(false)?;
    let mut shipper = lfs.ship(mark).expect("all of it is there");
    let (header, mut stream) = (shipper.header(), Vec::new());
    header.write(&mut stream).expect("into memory");
    while let Some(record) = shipper.next_record().expect("all of it is there") {
        record.write(&mut stream).expect("into memory");
    }
    shipper.end().write(&mut stream).expect("into memory");
    Ok(Pair {
        base,
        mark,
        header,
        stream,
    })
}

/// Inputs worth mutating.
pub fn seeds() -> Vec<Vec<u8>> {
    let stream = &pair().stream;
    vec![stream.clone(), stream[..stream.len() / 2].to_vec()]
}

/// The target.
pub fn stream(data: &[u8]) {
    let measures = Measures {
        block_bytes: 4096,
        inode_bytes: 256,
        xattr_bytes: 1 << 16,
        blocks: 2048,
        inodes: 1 << 20,
    };
    if let Ok(mut reader) = StreamReader::new(data) {
        while let Ok(Some(record)) = reader.next_record() {
            let _ = measures.items(&record.payload);
        }
    }
    let device = Arc::new(MemoryDevice::from_image(&pair().base));
    replay(device.clone(), &repaired(data));
    if let Ok((lfs, system)) = sample::mount(device, true) {
        crate::walk::all(&lfs, &system);
    }
}

fn replay(device: Arc<dyn Device>, data: &[u8]) {
    let mut reader = StreamReader::new(data).expect("its header is right");
    let replay = Replay::onto(device, clock(), options(), reader.header());
    let mut replay = replay.expect("it begins at the mark");
    while let Ok(Some(record)) = reader.next_record() {
        if replay.record(&record).is_err() {
            break;
        }
    }
    let _ = replay.finish();
}

/// With everything right that only says where a record belongs.
fn repaired(data: &[u8]) -> Vec<u8> {
    let Pair { mark, header, .. } = pair();
    let mut out = header.as_bytes().to_vec();
    let mut rest = data.get(size_of::<StreamHeader>()..).unwrap_or(&[]);
    let mut at = *mark;
    while let Ok((mut record, behind)) = StreamRecord::read_from_prefix(rest) {
        let length = (record.payload_bytes.get() as usize).min(behind.len());
        let (payload, next) = behind.split_at(length);
        if !(record_kind::GROUP..=record_kind::OTHER).contains(&record.kind) {
            record.kind = record_kind::GROUP;
        }
        record.serial = (at.serial + 1).into();
        record.predecessor = at.check.into();
        record.check = crc32c(payload).into();
        at = record.mark();
        let record = Record {
            header: record,
            payload: payload.to_vec(),
        };
        record.write(&mut out).expect("into memory");
        rest = next;
    }
    Record::end(at).write(&mut out).expect("into memory");
    out
}
