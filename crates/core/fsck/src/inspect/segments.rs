//! The usage table, and the summaries of one segment.

use super::{Inspector, said, utc};
use serde::Serialize;
use std::fmt;
use varve_lfs::format::ifile::NOT_EMPTY;
use varve_lfs::format::summary::summary_flags;
use varve_lfs::format::{Pointer, SECTOR};
use varve_lfs::internal::{ChainItem, Record, Summary};
use varve_lfs::{SegmentState, SegmentUse, Utilisation};

/// One entry of the usage table, with the changes of the replayed log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SegmentView {
    /// Number of the segment.
    pub segment: u32,
    /// Byte address of the segment.
    pub offset: u64,
    /// "clean", "open" or "used", including the replayed log.
    pub state: &'static str,
    /// Live bytes at the checkpoint, including corrections.
    pub live_bytes: u32,
    /// Net live bytes that the replayed log added.
    pub logged_bytes: i64,
    /// Live bytes divided by the segment's capacity.
    pub utilisation: f64,
    /// Incarnation: number of segments opened before and including this one.
    pub incarnation: u32,
    /// Time of the newest user write, in ns since 1970; 0 if there is none.
    pub newest_ns: i64,
    /// First checkpoint that found the segment empty; `None` while it is not.
    pub empty_since: Option<u64>,
    /// True if the cleaner found a damaged block in it.
    pub suspect: bool,
}

/// One segment with its partial segments.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SegmentContentsView {
    /// Number of the segment.
    pub segment: u32,
    /// The segment's entry in the usage table, if the table could be read.
    pub usage: Option<SegmentView>,
    /// Partial segments in the order of the log.
    pub partials: Vec<PartialView>,
    /// Byte offset at which no further summary was found.
    pub end: u32,
    /// The reason why there is none.
    pub end_reason: String,
}

/// One partial segment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartialView {
    /// Byte offset within the segment.
    pub offset: u32,
    /// Sector address of the summary.
    pub sector: u64,
    /// Serial of the partial.
    pub serial: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// Flags that are set: "first", "last", "checkpoint", "cleaner".
    pub flags: Vec<&'static str>,
    /// Last serial known to be flushed when the partial was written.
    pub durable_through: u64,
    /// Identity of the mount that wrote it.
    pub mount_id: u64,
    /// Checksum that its predecessor must have.
    pub predecessor: u32,
    /// Number of the mount that wrote it.
    pub incarnation: u32,
    /// Incarnation of the segment.
    pub segment_incarnation: u32,
    /// Segment in which the log continues when this one is full.
    pub next_segment: u32,
    /// Head of the log to which the partial belongs.
    pub head: u8,
    /// Time of writing, in ns since 1970.
    pub written_ns: i64,
    /// Inodes, blocks and sectors in use after its group.
    pub used: [u64; 3],
    /// Entries of the summary.
    pub entries: Vec<EntryView>,
    /// The reason why its entries or payload were refused.
    pub problem: Option<String>,
}

/// One entry of a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EntryView {
    /// "block", "spilled", "placed", "xattrs", "node", "inode", "freed", "truncated",
    /// "punched" or "reserved".
    pub kind: &'static str,
    /// Inode number of the file.
    pub ino: u64,
    /// Version of the file.
    pub version: u32,
    /// Logical block, number of the node, first block of the range, or the next version
    /// of a freed number.
    pub number: u64,
    /// End of the range (exclusive), height of a node, or slot of an inode.
    pub extent: u64,
    /// Sector address; 0 for a record.
    pub sector: u64,
    /// Stored bytes.
    pub bytes: u64,
    /// CRC of the block.
    pub crc: u32,
    /// Serial of the partial that first wrote this version.
    pub birth: u64,
    /// Sector from which the cleaner moved the block.
    pub source: Option<u64>,
    /// True if the newest state points to the block.
    pub live: bool,
}

impl EntryView {
    fn without_place(live: bool) -> Self {
        EntryView {
            kind: "",
            ino: 0,
            version: 0,
            number: 0,
            extent: 0,
            sector: 0,
            bytes: 0,
            crc: 0,
            birth: 0,
            source: None,
            live,
        }
    }
}

impl Inspector {
    /// Returns the usage table; empty if no checkpoint can be loaded.
    pub fn segments(&self) -> Vec<SegmentView> {
        (0..self.geometry.segment_count)
            .filter_map(|segment| self.segment(segment))
            .collect()
    }

    /// Returns the segments by utilisation, including the replayed log.
    ///
    /// # Errors
    /// If no checkpoint can be loaded.
    pub fn utilisation(&self) -> varve_lfs::Result<Utilisation> {
        let state = &self.loaded()?.state;
        let segments = state.segments.iter().map(|(number, segment)| {
            let logged = state.live.usage.get(&number).copied().unwrap_or(0);
            let lives = i64::from(segment.live_bytes).saturating_add(logged);
            SegmentUse {
                state: segment.state,
                live_bytes: lives.max(0) as u64,
                room_bytes: self.geometry.payload_bytes(number).into(),
                newest_ns: segment.newest_ns,
            }
        });
        Ok(Utilisation::of(segments))
    }

    /// Returns one entry of the usage table.
    pub fn segment(&self, segment: u32) -> Option<SegmentView> {
        let loaded = self.loaded.as_ref()?;
        let written = loaded.table.get(segment as usize)?;
        let state = loaded.state.segments.get(segment);
        let logged = loaded.state.live.usage.get(&segment).copied().unwrap_or(0);
        let lives = i64::from(state.live_bytes).saturating_add(logged).max(0);
        let room = f64::from(self.geometry.payload_bytes(segment));
        Some(SegmentView {
            segment,
            offset: self.geometry.byte(segment, 0),
            state: match state.state {
                SegmentState::Clean => "clean",
                SegmentState::Open => "open",
                _ => "used",
            },
            live_bytes: state.live_bytes,
            logged_bytes: logged,
            utilisation: lives as f64 / room,
            incarnation: state.incarnation,
            newest_ns: state.newest_ns,
            empty_since: (written.empty_since.get() != NOT_EMPTY)
                .then_some(written.empty_since.get()),
            suspect: state.suspect,
        })
    }

    /// Returns the partial segments of one segment, from its start until no summary
    /// follows. With `payload` every block is compared with its checksum.
    ///
    /// # Errors
    /// A text if the segment does not exist.
    pub fn contents(&self, segment: u32, payload: bool) -> Result<SegmentContentsView, String> {
        if segment >= self.geometry.segment_count {
            return Err(format!(
                "there is no segment {segment}, they end at {}",
                self.geometry.segment_count
            ));
        }
        let mut partials: Vec<PartialView> = Vec::new();
        let mut offset = self.geometry.payload_start(segment);
        let mut end_reason = String::from("no other fits");
        while self.geometry.partial_fits(offset) {
            let tag = self.superblock.volume_tag();
            let read = Summary::read(&self.reader, &self.geometry, tag, segment, offset);
            let summary = match said(read) {
                Ok(Ok(summary)) => summary,
                Ok(Err(malformed)) => {
                    end_reason = malformed.problem;
                    break;
                }
                Err(problem) => {
                    end_reason = problem;
                    break;
                }
            };
            let former = partials.last().is_some_and(|last| {
                last.serial >= summary.header.serial.get()
                    || last.segment_incarnation != summary.header.segment_incarnation.get()
            });
            if former {
                end_reason = "what follows is of a former life".into();
                break;
            }
            offset += summary.bytes();
            partials.push(self.partial(&summary, payload));
        }
        Ok(SegmentContentsView {
            segment,
            usage: self.segment(segment),
            partials,
            end: offset,
            end_reason,
        })
    }

    fn partial(&self, summary: &Summary, payload: bool) -> PartialView {
        let header = &summary.header;
        let items = summary.items(&self.geometry);
        let mut problem = items.as_ref().err().map(|m| m.problem.clone());
        let items = items.unwrap_or_default();
        if payload && !items.is_empty() {
            problem = said(summary.read_payload(&self.reader, &items))
                .and_then(|bytes| {
                    summary
                        .verify(&self.geometry, &items, &bytes)
                        .map_err(|malformed| malformed.problem)
                })
                .err();
        }
        let names = [
            (summary_flags::FIRST, "first"),
            (summary_flags::LAST, "last"),
            (summary_flags::CHECKPOINT, "checkpoint"),
            (summary_flags::CLEANER, "cleaner"),
            (summary_flags::ALIGNED, "aligned"),
            (summary_flags::SPILLED, "spilled"),
        ];
        PartialView {
            offset: summary.offset,
            sector: header.sector.get(),
            serial: header.serial.get(),
            bytes: summary.bytes(),
            flags: names
                .into_iter()
                .filter(|(flag, _)| header.has(*flag))
                .map(|(_, name)| name)
                .collect(),
            durable_through: header.durable_through.get(),
            mount_id: header.mount_id.get(),
            predecessor: header.predecessor.get(),
            incarnation: header.incarnation.get(),
            segment_incarnation: header.segment_incarnation.get(),
            next_segment: header.next_segment.get(),
            head: header.head,
            written_ns: header.written_ns.get(),
            used: [
                header.inodes_used.get(),
                header.blocks_used.get(),
                header.sectors_used.get(),
            ],
            entries: items.iter().map(|item| self.entry_view(item)).collect(),
            problem,
        }
    }

    fn entry_view(&self, item: &ChainItem) -> EntryView {
        let none = EntryView::without_place(self.item_lives(item));
        let at = |pointer: &Pointer| EntryView {
            sector: pointer.sector(),
            bytes: pointer.stored_bytes(),
            crc: pointer.crc(),
            birth: pointer.birth(),
            ..none
        };
        match *item {
            ChainItem::Record {
                ino,
                version,
                record,
            } => {
                let (kind, number, extent) = match record {
                    Record::Freed(next) => ("freed", u64::from(next), 0),
                    Record::Truncated(from) => ("truncated", from, 0),
                    Record::Punched(from, to) => ("punched", from, to),
                    Record::Reserved(from, to, _) => ("reserved", from, to),
                };
                EntryView {
                    kind,
                    ino: ino.0,
                    version,
                    number,
                    extent,
                    ..none
                }
            }
            ChainItem::Block {
                ino,
                version,
                block,
                pointer,
                source,
                xattrs,
                spilled,
                ..
            } => EntryView {
                kind: match (xattrs, spilled) {
                    (true, _) => "xattrs",
                    (false, true) => "spilled",
                    (false, false) => "block",
                },
                ino: ino.0,
                version,
                number: block,
                source,
                ..at(&pointer)
            },
            ChainItem::Placed {
                ino,
                version,
                block,
                pointer,
                ..
            } => EntryView {
                kind: "placed",
                ino: ino.0,
                version,
                number: block,
                ..at(&pointer)
            },
            ChainItem::Map { segment, pointer } => EntryView {
                kind: "map",
                number: segment.into(),
                ..at(&pointer)
            },
            ChainItem::Node {
                id,
                version,
                pointer,
            } => EntryView {
                kind: "node",
                ino: id.ino.0,
                version,
                number: id.index,
                extent: u64::from(id.height),
                ..at(&pointer)
            },
            ChainItem::Inode {
                ino,
                version,
                place,
                source,
            } => EntryView {
                kind: "inode",
                ino: ino.0,
                version,
                extent: u64::from(place.slot),
                sector: place.sector,
                bytes: u64::from(self.geometry.inode_bytes),
                crc: place.crc,
                birth: place.birth,
                source: source.map(|(sector, _)| sector),
                ..none
            },
        }
    }
}

impl fmt::Display for SegmentView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:6} {:5} {:10} {:+10} {:5.1}% incarnation {:6}",
            self.segment,
            self.state,
            self.live_bytes,
            self.logged_bytes,
            self.utilisation * 100.0,
            self.incarnation
        )?;
        if self.newest_ns != 0 {
            write!(f, " newest {}", utc(self.newest_ns))?;
        }
        if let Some(serial) = self.empty_since {
            write!(f, " empty since {serial}")?;
        }
        f.write_str(if self.suspect { " SUSPECT" } else { "" })
    }
}

impl fmt::Display for EntryView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of inode {} version {}: ",
            self.kind, self.ino, self.version
        )?;
        match self.kind {
            "freed" => return write!(f, "next version {}", self.number),
            "truncated" => return write!(f, "from block {}", self.number),
            "punched" | "reserved" => {
                return write!(f, "blocks {}..{}", self.number, self.extent);
            }
            "node" => write!(f, "number {} of height {}, ", self.number, self.extent)?,
            "inode" => write!(f, "slot {}, ", self.extent)?,
            _ => write!(f, "block {}, ", self.number)?,
        }
        write!(
            f,
            "{} bytes at sector {}, checksum {:#010x}, born in {}",
            self.bytes, self.sector, self.crc, self.birth
        )?;
        if let Some(source) = self.source {
            write!(f, ", moved from sector {source}")?;
        }
        f.write_str(if self.live { ", live" } else { "" })
    }
}

impl fmt::Display for PartialView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "partial {} at byte {}: {} bytes, {} entries, {}, durable through {}, mount {} \
             ({:#018x}), opened as {}, next segment {}, {}",
            self.serial,
            self.offset,
            self.bytes,
            self.entries.len(),
            self.flags.join("+"),
            self.durable_through,
            self.incarnation,
            self.mount_id,
            self.segment_incarnation,
            self.next_segment,
            utc(self.written_ns)
        )?;
        if self.head > 0 {
            write!(f, ", head {}", self.head)?;
        }
        if let Some(problem) = &self.problem {
            write!(f, ", DAMAGED: {problem}")?;
        }
        for entry in &self.entries {
            write!(f, "\n    {entry}")?;
        }
        Ok(())
    }
}

impl fmt::Display for SegmentContentsView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.usage {
            Some(usage) => writeln!(f, "segment {usage}")?,
            None => writeln!(f, "segment {}", self.segment)?,
        }
        for partial in &self.partials {
            writeln!(f, "  {partial}")?;
        }
        write!(
            f,
            "  no summary at byte {} (sector {} of the segment): {}",
            self.end,
            u64::from(self.end) / SECTOR,
            self.end_reason
        )
    }
}
