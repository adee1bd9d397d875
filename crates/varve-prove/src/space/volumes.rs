//! The volumes of both layouts.

use super::{Shape, Volumes};
use crate::mounted::Subject;
use crate::subjects::Log;
use crate::virtual_log::VirtualLog;
use varve_lfs::{FormatOptions, MountOptions};
use varve_vlfs::VlfsFormatOptions;

/// Those of VLFS.
#[derive(Clone, Copy, Debug)]
pub struct VirtualLogs;

impl Volumes for VirtualLogs {
    fn name(&self) -> &'static str {
        "VLFS"
    }

    fn of(&self, shape: &Shape) -> Box<dyn Subject> {
        let volume = VirtualLog::default();
        let slots = match shape.variety % 4 {
            0 => Some(0),
            1 => Some(2),
            _ => None,
        };
        // A block has eight units at most.
        let unit_bytes = shape.unit_bytes.max(shape.block_bytes / 8);
        // One number for each block, so that it is room that ends; or the usual
        // number, which may end first.
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

/// Those of the segmented log.
#[derive(Clone, Copy, Debug)]
pub struct Logs;

impl Volumes for Logs {
    fn name(&self) -> &'static str {
        "the log"
    }

    /// A log is the same on a drive as anywhere.
    fn of(&self, shape: &Shape) -> Box<dyn Subject> {
        let log = Log::default();
        // Larger segments, or blocks, are refused from 64 MiB on: the reserve would
        // be more than 5 %. A block is a sixteenth of a segment at most.
        let (choices, most): ([u32; 2], u32) = match shape.device_bytes {
            ..0x400_0000 => ([128 << 10, 256 << 10], u32::MAX),
            0x400_0000..0x800_0000 => ([128 << 10, 256 << 10], 4 << 10),
            0x800_0000..0x1000_0000 => ([128 << 10, 256 << 10], 16 << 10),
            _ => ([256 << 10, 1 << 20], u32::MAX),
        };
        let block_bytes = shape.block_bytes.min(most);
        let segment_bytes = choices[(shape.variety % 2) as usize].max(block_bytes * 16);
        Box::new(Log {
            device_bytes: shape.device_bytes,
            format: FormatOptions {
                block_bytes,
                segment_bytes,
                ..log.format
            },
            mount: MountOptions { ..log.mount },
            ..log
        })
    }
}
