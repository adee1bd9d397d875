//! Shipping: a copy of a volume that follows its original (`docs/spec/stream.md`).
//! Streams are read from open volumes and replayed onto images that are not in use.

use crate::devices::{Superblock, find_superblock, open_device};
use crate::error::{Error, Result};
use crate::host;
use rustix::io::Errno;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;
use varve_device::{Device, HostClock, IoMode, OpenMode};
use varve_fs::FileSystem;
use varve_lfs::format::Mark;
use varve_lfs::shipping::{
    Record, Replay, Replayed, ShipError, StreamHeader, StreamReader, record_flags, record_kind,
};
use varve_lfs::{Lfs, MountOptions};

/// Records read ahead of the replay.
const AHEAD: usize = 8;
/// Bytes of memory for the copy's metadata during a replay.
const CACHE_BYTES: u64 = 64 << 20;
/// Longest sleep of a shipper before it asks again whether to continue.
const NAP: Duration = Duration::from_millis(100);

/// Result of [`ship`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shipped {
    /// Position of the end of the last group shipped.
    pub to: Mark,
    /// Number of groups.
    pub groups: u64,
    /// Bytes of the stream.
    pub bytes: u64,
}

/// Position of a volume that is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Mark from which its original must ship.
    pub mark: Mark,
    /// True if groups of the original were replayed onto it and nothing was written
    /// since.
    pub has_followed: bool,
}

/// Result of a replay.
#[derive(Debug)]
pub struct ReplayEnd {
    /// Changes that were replayed and are durable.
    pub done: Replayed,
    /// The error that ended the replay early, if any.
    pub failure: Option<ShipError>,
}

/// Syncs, then writes the stream of everything that has become durable since `since`. At
/// the end of the log it calls `goes_on`, at least ten times a second, to ask whether to
/// wait for more.
///
/// ```
/// use std::sync::Arc;
/// use varve::{VolumeOptions, admin};
/// use varve_device::MemoryDevice;
/// let device = Arc::new(MemoryDevice::new(32 << 20));
/// let options = VolumeOptions::new();
/// admin::format_on(device.clone(), &options)?;
/// let copy = Arc::new(MemoryDevice::from_image(&device.snapshot()));
///
/// let volume = admin::open_on(device, &options)?;
/// volume.write("/a", b"new")?;
/// let fs = admin::tree(&volume).log().expect("the default");
/// let base = admin::copy_of(copy.clone())?.mark;
/// let mut stream = Vec::new();
/// admin::ship(fs, base, &|| false, &mut stream)?;
///
/// let end = admin::replay_on(copy.clone(), Box::new(std::io::Cursor::new(stream)))?;
/// assert!(end.failure.is_none() && end.done.groups > 0);
/// assert_eq!(admin::open_on(copy, &options)?.read("/a")?, b"new");
/// # Ok::<(), varve::Error>(())
/// ```
///
/// # Errors
/// `LogGone`, `OtherHistory`, `IsACopy`, `Io` of the writer, and device errors.
pub fn ship(
    fs: &FileSystem<Lfs>,
    since: Mark,
    goes_on: &dyn Fn() -> bool,
    into: &mut dyn Write,
) -> std::result::Result<Shipped, ShipError> {
    let written = |error| ShipError::Io("writing the stream", error);
    if fs.layout().stopped().is_none() {
        let synced = fs.sync();
        synced.map_err(|error| varve_lfs::Error::Stopped(error.to_string()))?;
    }
    let mut shipper = fs.layout().ship(since)?;
    let mut shipped = Shipped {
        to: since,
        bytes: size_of::<StreamHeader>() as u64,
        groups: 0,
    };
    shipper.header().write(into).map_err(written)?;
    loop {
        // The state is read before the records, so that the last records are not missed.
        let is_over = shipper.stopped().is_some();
        while let Some(record) = shipper.next_record()? {
            record.write(into).map_err(written)?;
            shipped.bytes += bytes_of(&record);
            let header = &record.header;
            let ends = header.kind == record_kind::GROUP && header.has(record_flags::LAST);
            shipped.groups += u64::from(ends);
        }
        shipped.to = shipper.mark();
        if is_over || !goes_on() {
            break;
        }
        into.flush().map_err(written)?;
        shipper.wait(NAP);
    }
    let end = shipper.end();
    end.write(into).map_err(written)?;
    into.flush().map_err(written)?;
    shipped.bytes += bytes_of(&end);
    Ok(shipped)
}

fn bytes_of(record: &Record) -> u64 {
    (size_of_val(&record.header) + record.payload.len()) as u64
}

/// Returns the position of the volume on a device.
///
/// # Errors
/// `InvalidData` if there is no volume, `Unsupported` on another layout than the log.
pub fn copy_of(device: Arc<dyn Device>) -> Result<Copy> {
    on_a_log(&*device)?;
    let options = MountOptions {
        read_only: true,
        ..options()
    };
    let lfs = Lfs::mount(device, Arc::new(HostClock::default()), options)?;
    Ok(Copy {
        mark: lfs.mark(),
        has_followed: lfs.is_copy(),
    })
}

/// Replays a stream onto the image or device at `path`, which must not be in use, until
/// the stream ends. After any interruption the call may be repeated.
///
/// # Errors
/// `ResourceBusy` if the volume is in use, `InvalidData` if there is no volume,
/// `Unsupported` on another layout than the log, `InvalidInput` if the volume cannot
/// follow that stream; in these cases nothing was written. A later failure is in
/// [`ReplayEnd`].
pub fn replay(path: impl AsRef<Path>, from: Box<dyn Read + Send>) -> Result<ReplayEnd> {
    let device = open_device(path.as_ref(), OpenMode::ReadWrite, IoMode::Direct)?;
    replay_on(Arc::new(device), from)
}

/// Does the same as [`replay`] on any device.
///
/// # Errors
/// The same as [`replay`].
pub fn replay_on(device: Arc<dyn Device>, from: Box<dyn Read + Send>) -> Result<ReplayEnd> {
    on_a_log(&*device)?;
    let reader = StreamReader::new(from)?;
    let clock = Arc::new(HostClock::default());
    let mut replay = Replay::onto(device, clock, options(), reader.header())?;
    let (sender, records) = sync_channel(AHEAD);
    let started = std::thread::Builder::new()
        .name("varve-replay".into())
        .spawn(move || read(reader, &sender));
    started.map_err(|error| ShipError::Io("a thread that reads the stream", error))?;
    let failure = feed(&mut replay, &records).err();
    let so_far = replay.so_far();
    let done = match (replay.finish(), &failure) {
        (Ok(done), _) => done,
        (Err(error), None) => return Err(error.into()),
        // The first error is the one worth reporting.
        (Err(_), Some(_)) => so_far,
    };
    Ok(ReplayEnd { done, failure })
}

type Read1 = std::result::Result<Record, ShipError>;

fn read(mut reader: StreamReader<Box<dyn Read + Send>>, into: &SyncSender<Read1>) {
    while let Some(next) = reader.next_record().transpose() {
        let over = next.is_err();
        if into.send(next).is_err() || over {
            return;
        }
    }
}

/// Replays records and makes them durable whenever the stream pauses.
fn feed(replay: &mut Replay, records: &Receiver<Read1>) -> std::result::Result<(), ShipError> {
    loop {
        let record = match records.try_recv() {
            Err(TryRecvError::Empty) => {
                replay.flush()?;
                records.recv().ok()
            }
            other => other.ok(),
        };
        match record {
            Some(record) => replay.record(&record?)?,
            None => return Ok(()),
        }
    }
}

fn options() -> MountOptions {
    MountOptions {
        cache_bytes: CACHE_BYTES,
        owner: host::identity(),
        write_threads: 2,
        ..MountOptions::default()
    }
}

fn on_a_log(device: &dyn Device) -> Result<()> {
    let problem = match find_superblock(device)? {
        Superblock::Log(_) => return Ok(()),
        Superblock::VirtualLog(_) => {
            "is a volume on the virtual log (VLFS), which keeps no log to ship"
        }
        Superblock::InPlace(_) => "is updated in place (FFS), and has no log to ship",
    };
    let advice = "make one with the layout log and copy";
    let path = device.name();
    Err(Error::refused(
        path.as_ref(),
        Errno::OPNOTSUPP,
        problem,
        advice,
    ))
}

#[cfg(test)]
mod tests;
