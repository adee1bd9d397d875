//! Checkpoints: the whole map in one place, so that the log can be truncated.

use std::io::IoSlice;

use varve_device::{Crc32c, Result};
use zerocopy::IntoBytes;

use super::Vld;
use super::recovery;
use super::state::State;
use crate::format::{CheckpointHeader, Entry, Layout, crc32c};
use crate::map::Map;
use crate::medium::Medium;

/// Number of bytes of the map that are written or read at once.
const PART: usize = 1 << 20;

impl State {
    /// Writes the map over the older checkpoint, then truncates the log at the other
    /// one, which is now the older. If the newest checkpoint decays, the older one and
    /// the log still contain everything.
    pub fn checkpoint<M: Medium>(&mut self, vld: &Vld<M>) -> Result<()> {
        self.commit(vld)?;
        let layout = self.layout;
        let serial_of = |region: usize| self.checkpoints[region].map_or(0, |(serial, _)| serial);
        let region = usize::from(serial_of(1) < serial_of(0));
        let serial = serial_of(0).max(serial_of(1)) + 1;
        self.checkpoints[region] = None;
        let start = layout.block_byte(layout.checkpoint_block(region) + 1);
        let mut crc = Crc32c::default();
        let per_part = (PART / Entry::BYTES) as u64;
        let (mut at, mut logical) = (start, 0);
        while logical < layout.logical_blocks {
            let end = (logical + per_part).min(layout.logical_blocks);
            let mut part = Vec::with_capacity(PART);
            for logical in logical..end {
                part.extend_from_slice(&self.map.get(logical as u32).to_bytes());
            }
            crc.update(&part);
            part.resize(part.len().next_multiple_of(layout.block_bytes as usize), 0);
            vld.medium.write(at, &[IoSlice::new(&part)])?;
            (at, logical) = (at + part.len() as u64, end);
        }
        let seq = self.log.reached();
        let header = CheckpointHeader {
            crc: 0.into(),
            magic: 0.into(),
            volume: layout.volume.into(),
            serial: serial.into(),
            seq: seq.into(),
            entries: layout.logical_blocks.into(),
            body_crc: crc.value().into(),
            reserved: 0.into(),
        };
        let mut block = vec![0; layout.block_bytes as usize];
        block[..size_of::<CheckpointHeader>()].copy_from_slice(header.seal().as_bytes());
        let at = layout.block_byte(layout.checkpoint_block(region));
        vld.medium.write(at, &[IoSlice::new(&block)])?;
        // Map and header are checked together, so one flush is enough for both.
        vld.medium.flush().inspect_err(|error| {
            self.stopped = Some(format!("a flush failed: {error}"));
        })?;
        self.checkpoints[region] = Some((serial, seq));
        self.counts.checkpoints += 1;
        // If the other one is damaged, the log keeps its length.
        let floor = match self.checkpoints {
            [Some((_, one)), Some((_, other))] => one.min(other),
            _ => self.log.floor(),
        };
        for unit in self.log.truncate(floor) {
            self.free.give_unit(unit);
        }
        Ok(())
    }
}

/// A checkpoint that was read.
#[derive(Debug)]
pub(super) struct Checkpoint {
    pub serial: u64,
    pub seq: u64,
    pub map: Map,
}

/// Reads the checkpoint in a region; `None` if it is damaged or cannot be read.
pub(super) fn read<M: Medium>(medium: &M, layout: &Layout, region: usize) -> Option<Checkpoint> {
    let mut block = vec![0; layout.block_bytes as usize];
    let head = layout.checkpoint_block(region);
    recovery::read(medium, layout.block_byte(head), &mut block).ok()?;
    let header = CheckpointHeader::parse(&block, layout).ok()?;
    let mut map = Map::new(layout);
    let (entries, mut crc) = (header.entries.get(), Crc32c::default());
    let (mut at, mut logical) = (layout.block_byte(head + 1), 0);
    while logical < entries {
        let count = (entries - logical).min((PART / Entry::BYTES) as u64);
        let bytes = count as usize * Entry::BYTES;
        let mut part = vec![0; bytes.next_multiple_of(layout.block_bytes as usize)];
        recovery::read(medium, at, &mut part).ok()?;
        crc.update(&part[..bytes]);
        let (raw, _) = part[..bytes].as_chunks::<{ Entry::BYTES }>();
        for (nth, &raw) in (0..).zip(raw) {
            map.set((logical + nth) as u32, Entry::parse(raw, layout).ok()?);
        }
        (at, logical) = (at + part.len() as u64, logical + count);
    }
    let crc = if entries == 0 {
        crc32c(&[])
    } else {
        crc.value()
    };
    let sound = entries == 0 || crc == header.body_crc.get();
    sound.then_some(Checkpoint {
        serial: header.serial.get(),
        seq: header.seq.get(),
        map,
    })
}
