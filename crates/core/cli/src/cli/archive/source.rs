//! The volume's side of `varve archive` (`docs/design/archive.md`).
//!
//! Questions (`../snapshot/server.rs` has the protocol): `{"archive": {"identity": true}}`
//! is answered with the volume's tag. `{"archive": {"opened": N, "heads": [...]}}`, or
//! `{"archive": {}}` for all of it, is answered with items `{"segment": N, "incarnation":
//! I, "closed": true,
//! "head": CRC}`, each followed by the segment's bytes, and items `{"known": N,
//! "incarnation": I, "head": CRC}` of segments that the former archive has; at last
//! with the parts of a manifest. A segment that was changed before the archive was complete
//! is sent again.

use crate::cli::snapshot::{Emit, Part};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use varve_fs::FileSystem;
use varve_lfs::Lfs;
use varve_lfs::format::checkpoint::{CheckpointRecord, checkpoint_flags};
use varve_lfs::format::crc32c;
use varve_lfs::internal::{HeldSegment, Hold, read_ring};
use zerocopy::IntoBytes;

/// How many images are tried before space is found to be too short to keep one.
const ATTEMPTS: usize = 8;
/// Bytes at the start of a segment by which its content is recognised: the first summary,
/// which has the identity of the mount that wrote it.
pub const HEAD_BYTES: usize = 4096;

/// Answers a question about an archive.
///
/// # Errors
/// The reason for which it cannot be made.
pub fn answer(fs: &Arc<FileSystem<Lfs>>, asked: &Value, emit: Emit<'_>) -> Result<Value, String> {
    let lfs = fs.layout();
    let superblock = lfs.superblock();
    let tag = format!("{:016x}", superblock.volume_tag());
    if asked["identity"] == true {
        return Ok(json!({"tag": tag, "label": superblock.label_text()}));
    }
    let alone = lfs.begin_verification();
    let _alone = alone.ok_or("a scrub, a resize or another archive of it is running")?;
    let opened = asked["opened"].as_u64();
    let heads = asked["heads"].as_array().into_iter().flatten();
    let mut run = Run {
        lfs,
        former: opened.map(|opened| Former {
            opened: opened as u32,
            heads: heads
                .filter_map(Value::as_u64)
                .map(|head| head as u32)
                .collect(),
        }),
        sent: BTreeMap::new(),
        read: (0, 0),
        damaged: Vec::new(),
    };
    for _ in 0..ATTEMPTS {
        Hold::prepare(lfs);
        fs.checkpoint().map_err(|error| error.to_string())?;
        let done = run.image(emit);
        lfs.tap().want(BTreeMap::new());
        if let Some(record) = done? {
            let snapshots = fs.snapshots().map_err(|error| error.to_string())?;
            let snapshots = snapshots.iter().map(
                |one| json!({"name": one.name, "number": one.number, "taken": one.taken.seconds}),
            );
            let header = &record.header;
            return Ok(json!({
                "tag": tag,
                "serial": header.serial.get(),
                "written_ns": header.written_ns.get(),
                "opened": header.segments_opened.get(),
                "heads": run.heads(&record),
                "superblock": hex(superblock.sealed_for(0).as_bytes()),
                "record": hex(&record.encode(superblock.record_bytes.get() as usize)),
                "snapshots": snapshots.collect::<Vec<Value>>(),
                "segments": run.sent.iter().map(|(n, (i, _))| json!([n, i])).collect::<Vec<_>>(),
                "read": run.read.0,
                "read_by_cleaner": run.read.1,
                "damaged": run.damaged,
            }));
        }
    }
    let text = "the volume needs its space before an image of it is archived; free space, or \
                archive at a quieter time: segments that were stored are not sent again";
    Err(text.to_owned())
}

/// What the former archive in the target consists of.
struct Former {
    /// Segments that had been opened.
    opened: u32,
    /// Segments that were not closed.
    heads: BTreeSet<u32>,
}

struct Run<'a> {
    lfs: &'a Lfs,
    former: Option<Former>,
    /// Segments that the target has: incarnation, and whether nothing more is appended.
    sent: BTreeMap<u32, (u32, bool)>,
    /// Segments read, and of them those that the cleaner has read.
    read: (u64, u64),
    damaged: Vec<u32>,
}

impl Run<'_> {
    /// Archives the newest image. None if it was overtaken.
    fn image(&mut self, emit: Emit<'_>) -> Result<Option<CheckpointRecord>, String> {
        let lfs = self.lfs;
        let hold = Hold::take(lfs);
        let Some(mut record) = self.record(&hold) else {
            return Ok(None);
        };
        let ends = self.ends(&record);
        let live = (0..)
            .zip(&hold.segments)
            .filter(|(_, segment)| segment.live_bytes > 0);
        let live: BTreeMap<u32, HeldSegment> = live.map(|(n, segment)| (n, *segment)).collect();
        // A closed segment without plugs does not change until it is opened anew.
        self.sent.retain(|number, (incarnation, closed)| {
            let same = |now: &HeldSegment| now.incarnation == *incarnation && !now.plugged;
            *closed && live.get(number).is_some_and(same)
        });
        let mut wanted = BTreeMap::new();
        for (&number, segment) in &live {
            let incarnation = segment.incarnation;
            let is_known = |former: &Former| {
                incarnation <= former.opened && !former.heads.contains(&number) && !segment.plugged
            };
            if self.sent.contains_key(&number) {
                continue;
            }
            if self.former.as_ref().is_some_and(is_known) {
                let head = self.head_of(number)?;
                let known = json!({"known": number, "incarnation": incarnation, "head": head});
                emit(Part::Item(known))?;
                self.sent.insert(number, (incarnation, true));
                continue;
            }
            wanted.insert(number, incarnation);
        }
        lfs.tap().want(wanted);
        while let Some((number, caught)) = lfs.tap().next() {
            let segment = &live[&number];
            self.read.0 += 1;
            self.read.1 += u64::from(caught.is_some());
            let mut bytes = match caught {
                Some(bytes) => bytes,
                None => self.fetch(number)?,
            };
            if !hold.stands() {
                return Ok(None);
            }
            let end = ends.get(&number);
            if let Some(&end) = end {
                bytes.truncate(end as usize);
            }
            let incarnation = segment.incarnation;
            let damaged = lfs.mechanism().damaged_in(number, incarnation, &bytes);
            if !segment.plugged && damaged.is_ok_and(|damaged| damaged > 0) {
                self.damaged.push(number);
            }
            let closed = end.is_none() && !segment.plugged;
            let start = lfs.geometry_of_volume().payload_start(number) as usize;
            let head = bytes.get(start..start + HEAD_BYTES).map(crc32c);
            emit(Part::Item(json!({
                "segment": number,
                "incarnation": incarnation,
                "closed": closed,
                "head": head,
            })))?;
            emit(Part::Bytes(&bytes))?;
            self.sent.insert(number, (incarnation, closed));
        }
        if !hold.stands() {
            return Ok(None);
        }
        // The archive ends at the record, as the log does after an unmount.
        let header = &mut record.header;
        header.flags = (header.flags.get() | checkpoint_flags::CLEAN).into();
        header.durable_through = header.position.serial;
        Ok(Some(record))
    }

    /// The record of the image.
    fn record(&self, hold: &Hold<'_>) -> Option<CheckpointRecord> {
        let (device, _) = self.lfs.counted_device();
        let records = read_ring(&**device, self.lfs.superblock());
        let mut whole = records.into_iter().filter_map(Result::ok);
        let record = whole.find(|record| record.header.serial.get() == hold.base.serial);
        record.filter(|_| hold.stands())
    }

    /// Segments that are appended to, and where the image ends in them.
    fn ends(&self, record: &CheckpointRecord) -> BTreeMap<u32, u32> {
        let header = &record.header;
        let first = (header.position.segment.get(), header.position.offset.get());
        let further = header
            .heads
            .iter()
            .take(header.further_heads.get() as usize);
        let further = further.map(|head| (head.segment.get(), head.offset.get()));
        std::iter::once(first).chain(further).collect()
    }

    fn heads(&self, record: &CheckpointRecord) -> Vec<u32> {
        self.ends(record).into_keys().collect()
    }

    fn fetch(&self, segment: u32) -> Result<Vec<u8>, String> {
        let geometry = self.lfs.geometry_of_volume();
        self.read(geometry.byte(segment, 0), geometry.segment_bytes as usize)
    }

    fn head_of(&self, segment: u32) -> Result<u32, String> {
        let geometry = self.lfs.geometry_of_volume();
        let start = geometry.byte(segment, geometry.payload_start(segment));
        self.read(start, HEAD_BYTES).map(|bytes| crc32c(&bytes))
    }

    fn read(&self, at: u64, length: usize) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; length];
        let (device, _) = self.lfs.counted_device();
        let read = device.read(at, &mut bytes);
        read.map_err(|error| error.to_string()).map(|()| bytes)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
