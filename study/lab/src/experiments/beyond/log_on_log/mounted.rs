//! The real log over flash and zones.
//!
//! A device in memory shows every write and discard to flash of several kinds,
//! and to zones as large as a segment. The volume is laid on the zones so that
//! segment 0 begins one. Conventional are those that hold something that is
//! rewritten in place: what stands before the segments, and the copies of the
//! superblock, of which eight begin a segment and one ends the volume.

use super::beneath::{Flash, FlashKind, PAGE, Watched};
use crate::experiments::mounted::{BEGIN_NS, Mounted, Setting};
use crate::experiments::{Context, Row};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::sync::Arc;
use varve_device::{Device, Geometry, MemoryDevice, Result, Zones, total_length};
use varve_lfs::policy::PolicyKind;
use varve_lfs::{plan_volume, superblock_offsets};
use varve_prove::random::Random;

/// Bytes of the volume and of a segment; and of a tiny one.
const VOLUME: ((u64, u32), (u64, u32)) = ((256 << 20, 256 << 10), (24 << 20, 128 << 10));

/// A mount, and what is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mount {
    pub policy: PolicyKind,
    pub hot: bool,
    pub percent: u64,
    pub holes: bool,
    pub discard: bool,
}

impl Mount {
    pub fn series(self) -> String {
        let load = if self.hot { "hot-and-cold" } else { "uniform" };
        let holes = if self.holes { ", holes" } else { "" };
        let discard = if self.discard { "" } else { ", nothing told" };
        let policy = self.policy.name();
        format!(
            "mounted, {load} {} %, {policy}{holes}{discard}",
            self.percent
        )
    }
}

/// See the module's head.
#[derive(Debug)]
struct Shown {
    inner: MemoryDevice,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    flash: Vec<Flash>,
    zones: Watched,
    /// From the beginning of the zones to that of the volume.
    shift: u64,
}

/// How a volume lies on zones.
#[derive(Debug)]
struct Lay {
    zone_bytes: u64,
    /// From the beginning of the zones to that of the volume.
    shift: u64,
    /// Zones it needs.
    count: u64,
    /// Those that must be conventional.
    conventional: BTreeSet<u64>,
}

impl Lay {
    fn of(context: &Context, setting: &Setting, device: &dyn Device) -> Self {
        let format = setting.format_options(context);
        let superblock = plan_volume(device, &format, BEGIN_NS).expect("a volume");
        let zone_bytes = u64::from(setting.segment_bytes);
        let first = superblock.first_segment.get();
        let shift = first.next_multiple_of(zone_bytes) - first;
        let zone_of = |offset: u64| (shift + offset) / zone_bytes;
        let mut conventional: BTreeSet<u64> = (0..=zone_of(first - 1)).collect();
        conventional.extend(superblock_offsets(&superblock).map(zone_of));
        Lay {
            zone_bytes,
            shift,
            count: zone_of(setting.volume_bytes - 1) + 1,
            conventional,
        }
    }

    fn zones(&self) -> Zones {
        Zones {
            zone_bytes: self.zone_bytes,
            max_open: 0,
        }
    }

    fn is_conventional(&self, zone: usize) -> bool {
        self.conventional.contains(&(zone as u64))
    }
}

impl Shown {
    fn new(context: &Context, setting: &Setting, kinds: &[FlashKind]) -> Self {
        let inner = MemoryDevice::new(setting.volume_bytes);
        let lay = Lay::of(context, setting, &inner);
        let pages = (setting.volume_bytes / PAGE) as u32;
        let segment_pages = setting.segment_bytes / PAGE as u32;
        let flash = |kind: &FlashKind| Flash::new(*kind, pages, segment_pages, 1);
        let zones = Watched::new(lay.zones(), lay.count as usize, |zone| {
            lay.is_conventional(zone)
        });
        Shown {
            inner,
            seen: Mutex::new(Seen {
                flash: kinds.iter().filter_map(flash).collect(),
                zones,
                shift: lay.shift,
            }),
        }
    }
}

fn pages(offset: u64, length: u64) -> std::ops::Range<u32> {
    (offset / PAGE) as u32..(offset + length).div_ceil(PAGE) as u32
}

/// A write cut where zones end, as a kernel cuts it: the log joins what follows
/// each other, in segments that do, too.
fn parts(offset: u64, length: u64, zone_bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = offset + length;
    let zones = offset / zone_bytes..end.div_ceil(zone_bytes);
    zones.map(move |zone| {
        let begin = offset.max(zone * zone_bytes);
        (begin, end.min((zone + 1) * zone_bytes) - begin)
    })
}

impl Device for Shown {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.inner.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        let seen = &mut *self.seen.lock();
        self.inner.write(offset, buffers)?;
        let length = total_length(buffers);
        for flash in &mut seen.flash {
            flash.write(pages(offset, length), 0);
        }
        for (offset, length) in parts(seen.shift + offset, length, seen.zones.zone_bytes()) {
            seen.zones.write(offset, length);
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        let seen = &mut *self.seen.lock();
        self.inner.discard(offset, length)?;
        let whole = offset.next_multiple_of(PAGE)..(offset + length) / PAGE * PAGE;
        if whole.start < whole.end {
            let discarded = pages(whole.start, whole.end - whole.start);
            for flash in &mut seen.flash {
                flash.discard(discarded.clone());
            }
        }
        seen.zones.discard(seen.shift + offset, length);
        Ok(())
    }

    fn name(&self) -> String {
        format!("{}, shown to what is beneath", self.inner.name())
    }
}

/// Fills, overwrites twice what the volume holds, and measures once more:
/// a row of the log's own, and one for each flash.
pub(super) fn measure(context: &Context, mount: Mount, kinds: &[FlashKind]) -> Vec<Row> {
    let (volume_bytes, segment_bytes) = context.size(VOLUME.0, VOLUME.1);
    let setting = Setting {
        volume_bytes,
        segment_bytes,
        policy: mount.policy,
        heads: 0,
        holes: mount.holes,
        checkpoint_bytes: None,
        discard: mount.discard,
    };
    let device = Arc::new(Shown::new(context, &setting, kinds));
    let mut log = Mounted::on(context, setting, device.clone());
    let blocks = log.fill(context, mount.percent);
    let all = log.volume_blocks();
    let mut random = Random::new(context.seed);
    let warm = context.size(2, 1) * all;
    log.overwrite(&mut random, blocks, mount.hot, warm);
    let before = log.statistics();
    device.seen.lock().flash.iter_mut().for_each(Flash::reset);
    log.overwrite(&mut random, blocks, mount.hot, all);
    let after = log.statistics();
    let users = ((after.data_bytes - before.data_bytes) / PAGE) as f64;
    let seen = device.seen.lock();
    let row = Row::new(mount.series(), 1.0, context.seed)
        .with("most_open", f64::from(seen.zones.most_open));
    let row = seen.zones.told(row);
    let flash = seen.flash.iter().map(|flash| {
        let series = format!("{}, {}", mount.series(), flash.kind.name());
        let counted = flash.counted();
        Row::new(series, flash.kind.ratio(), context.seed)
            .with("log", counted.written as f64 / users)
            .with("beneath", counted.amplification())
            .with("total", (counted.written + counted.moved) as f64 / users)
    });
    std::iter::once(row).chain(flash).collect()
}

#[cfg(test)]
mod tests;
