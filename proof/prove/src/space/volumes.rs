//! The volumes of all layouts.

use super::in_memory::InMemory;
use super::{Case, Service, Shape, Volume, Volumes, Wrong};
use crate::in_place::InPlace;
use crate::mounted::Subject;
use crate::subjects::Log;
use crate::virtual_log::VirtualLog;
use varve_lfs::policy::PolicyKind;
use varve_lfs::{FormatOptions, MountOptions};
use varve_vlfs::{VlfsFormatOptions, Watermarks};

/// The volumes of VLFS.
#[derive(Clone, Copy, Debug)]
pub struct VirtualLogs;

impl Volumes for VirtualLogs {
    fn name(&self) -> &'static str {
        "VLFS"
    }

    fn make(&self, case: &Case) -> Result<Box<dyn Volume>, Wrong> {
        let shape = case.shape;
        InMemory::make(move |service| VirtualLogs::of(&shape, service))
    }
}

impl VirtualLogs {
    fn of(shape: &Shape, service: Service) -> Box<dyn Subject> {
        let mut volume = VirtualLog::default();
        // There is one head, that of the disk, and one policy.
        let marks = [Watermarks::ALWAYS, Watermarks::default()];
        volume.mount.compaction = marks[service.policy % marks.len()];
        let slots = match shape.variety % 4 {
            0 => Some(0),
            1 => Some(2),
            _ => None,
        };
        // A block has at most eight units.
        let unit_bytes = shape.unit_bytes.max(shape.block_bytes / 8);
        // With one number for each block, the space ends first; with the usual number,
        // the numbers may end first.
        let inodes = match shape.variety / 4 % 3 {
            0 => 0,
            _ => shape.device_bytes / u64::from(shape.block_bytes),
        };
        let volume = VirtualLog {
            format: VlfsFormatOptions {
                block_bytes: shape.block_bytes,
                unit_bytes,
                inodes,
                slots,
                ..volume.format
            },
            device_bytes: shape.device_bytes,
            ..volume
        };
        Box::new(match shape.in_drive {
            true => volume.inside_a_drive(),
            false => volume,
        })
    }
}

/// The volumes of the segmented log.
#[derive(Clone, Copy, Debug)]
pub struct Logs;

impl Volumes for Logs {
    fn name(&self) -> &'static str {
        "the log"
    }

    fn make(&self, case: &Case) -> Result<Box<dyn Volume>, Wrong> {
        let shape = case.shape;
        InMemory::make(move |service| Box::new(Logs::of(&shape, service)))
    }
}

impl Logs {
    /// A log is the same on a drive and elsewhere.
    fn of(shape: &Shape, service: Service) -> Log {
        let log = Log::default();
        // Larger segments, or blocks, are refused from 64 MiB on, because the reserve
        // would exceed 5 %. A block is at most a sixteenth of a segment.
        let (choices, most): ([u32; 2], u32) = match shape.device_bytes {
            ..0x400_0000 => ([128 << 10, 256 << 10], u32::MAX),
            0x400_0000..0x800_0000 => ([128 << 10, 256 << 10], 4 << 10),
            0x800_0000..0x1000_0000 => ([128 << 10, 256 << 10], 16 << 10),
            _ => ([256 << 10, 1 << 20], u32::MAX),
        };
        let block_bytes = shape.block_bytes.min(most);
        let segment_bytes = choices[(shape.variety % 2) as usize].max(block_bytes * 16);
        Log {
            device_bytes: shape.device_bytes,
            format: FormatOptions {
                block_bytes,
                segment_bytes,
                ..log.format
            },
            mount: MountOptions {
                heads: service.heads,
                policy: PolicyKind::ALL[service.policy % PolicyKind::ALL.len()],
                ..log.mount
            },
            cleans_by_policy: !(shape.variety / 2).is_multiple_of(3),
            ..log
        }
    }
}

/// The volumes of FFS, with a journal, of every allocation policy.
#[derive(Clone, Copy, Debug)]
pub struct InPlaces;

impl Volumes for InPlaces {
    fn name(&self) -> &'static str {
        "FFS"
    }

    fn make(&self, case: &Case) -> Result<Box<dyn Volume>, Wrong> {
        let shape = case.shape;
        InMemory::make(move |_| Box::new(InPlaces::of(&shape)))
    }
}

impl InPlaces {
    /// The service makes no difference, because nothing is cleaned.
    fn of(shape: &Shape) -> InPlace {
        let others = InPlace::of_every_policy();
        // FFS's own allocation with and without fragments, or one of the others.
        let mut volume = match shape.variety as usize % (2 * others.len()) {
            nth if nth < others.len() => others[nth].clone(),
            nth if nth.is_multiple_of(2) => InPlace::with_fragments(),
            _ => InPlace::default(),
        };
        volume.device_bytes = shape.device_bytes;
        volume.format.block_bytes = shape.block_bytes.max(4096);
        volume.format.group_blocks = 0;
        // With as many inodes as blocks, the space ends first; with the usual number, the
        // inodes may end first.
        volume.format.inode_ratio = match shape.variety / 16 % 3 {
            0 => 0,
            _ => u64::from(volume.format.block_bytes),
        };
        volume
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::new_clock;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use varve_device::MemoryDevice;
    use varve_fs::InodeNo;
    use varve_lfs::policy::{Candidate, Greedy, Policy};

    static ASKED: AtomicU64 = AtomicU64::new(0);

    /// A policy that counts its calls.
    #[derive(Debug)]
    struct Probe;

    impl Policy for Probe {
        fn name(&self) -> &'static str {
            "probe"
        }

        fn choose(&self, candidates: &[Candidate], now_ns: i64, limit: usize) -> Vec<Candidate> {
            ASKED.fetch_add(1, Relaxed);
            Greedy.choose(candidates, now_ns, limit)
        }
    }

    #[test]
    fn what_maintains_and_what_cleans_ask_the_policy_of_the_mount() {
        let shape = Shape {
            device_bytes: 16 << 20,
            block_bytes: 4096,
            unit_bytes: 4096,
            in_drive: false,
            variety: 2,
        };
        let mut log = Logs::of(&shape, Service::default());
        assert!(log.cleans_by_policy);
        log.mount.policy = PolicyKind::new("probe", || Box::new(Probe));
        let device = Arc::new(MemoryDevice::new(log.device_bytes));
        log.format(device.clone(), new_clock()).unwrap();
        let mounted = log.mount(device, new_clock(), 1).unwrap();
        let file = mounted.mknod(InodeNo::ROOT, b"f", 0o100_644).unwrap().ino;
        let mut end = 0;
        while mounted.write(file, end, &[1; 65_536]).is_ok() {
            end += 65_536;
        }
        mounted.sync().unwrap();
        let begun = ASKED.load(Relaxed);
        mounted.clean().unwrap();
        let cleaned = ASKED.load(Relaxed);
        assert!(cleaned > begun);
        // Something must be dead before cleaning pays.
        for at in (0..end / 2).step_by(3 * 4096) {
            mounted.fallocate(file, 3, at, 8192).unwrap();
        }
        mounted.maintain().unwrap();
        assert!(ASKED.load(Relaxed) > cleaned);
        mounted.unmount().unwrap();
    }
}
