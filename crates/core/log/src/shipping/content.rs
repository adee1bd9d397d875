//! Conversion of a partial segment to a record of the stream.

use super::error::{Result, ShipError};
use super::stream::{
    MAX_PAYLOAD_BYTES, Record, StreamItem, StreamRecord, record_flags, record_kind,
};
use crate::apply::Record as Change;
use crate::chain::{ChainItem, Payload, Summary};
use crate::error::Error;
use crate::format::inode::InodeImage;
use crate::format::summary::{entry_kind, summary_flags};
use crate::format::{Malformed, Mark, Pointer, crc32c};
use crate::geometry::Geometry;
use crate::lfs::Lfs;
use varve_fs::{InodeNo, Version};
use zerocopy::{FromZeros, IntoBytes};

/// Reads a partial, and verifies it if it has content.
///
/// # Errors
/// `LogGone` if the content was overwritten; device errors.
pub(super) fn record_of(lfs: &Lfs, summary: &Summary) -> Result<Record> {
    let header = &summary.header;
    let other = header.flags.get() & summary_flags::NOT_ORDINARY != 0;
    let flag = |is, flag| if header.has(is) { flag } else { 0 };
    let record = StreamRecord {
        kind: match other {
            true => record_kind::OTHER,
            false => record_kind::GROUP,
        },
        flags: flag(summary_flags::FIRST, record_flags::FIRST)
            | flag(summary_flags::LAST, record_flags::LAST),
        serial: header.serial,
        check: header.chain_crc().into(),
        predecessor: header.predecessor,
        written_ns: header.written_ns,
        inodes_used: header.inodes_used,
        blocks_used: header.blocks_used,
        sectors_used: header.sectors_used,
        ..StreamRecord::new_zeroed()
    };
    let payload = match other {
        true => Vec::new(),
        false => payload_of(lfs, summary)?,
    };
    Ok(Record {
        header: record,
        payload,
    })
}

fn payload_of(lfs: &Lfs, summary: &Summary) -> Result<Vec<u8>> {
    let geometry: &Geometry = &lfs.geometry;
    let gone = |malformed: Malformed| log_gone(summary, malformed.to_string());
    // Recovery skips blocks that a shrunk volume has moved from beyond its end. A copy
    // needs them.
    let whole = Geometry {
        shrunk: false,
        ..*geometry
    };
    let items = summary.items(&whole).map_err(|malformed| {
        if geometry.shrunk {
            return gone(malformed);
        }
        let serial = summary.header.serial.get();
        ShipError::Unfit(format!(
            "partial segment {serial} says what this program cannot ship: {malformed}"
        ))
    })?;
    let stored = summary.read_payload(&lfs.reader, &items)?;
    summary.verify(geometry, &items, &stored).map_err(gone)?;
    let mut payload = Vec::with_capacity(summary.bytes() as usize);
    for item in &items {
        match *item {
            ChainItem::Placed { .. } => put_placed(lfs, summary, item, &mut payload)?,
            _ => put(geometry, summary, item, &stored, &mut payload)?,
        }
        if payload.len() > MAX_PAYLOAD_BYTES as usize {
            let serial = summary.header.serial.get();
            return Err(ShipError::Unfit(format!(
                "partial segment {serial} places more than {MAX_PAYLOAD_BYTES} bytes that a \
                 transaction has spilled: make a new base"
            )));
        }
    }
    Ok(payload)
}

fn log_gone(summary: &Summary, why: String) -> ShipError {
    let mark = Mark {
        serial: summary.header.serial.get().wrapping_sub(1),
        check: summary.header.predecessor.get(),
    };
    ShipError::LogGone { mark, why }
}

/// Adds a block that was spilled earlier as an item: a copy has it from its commit on.
///
/// # Errors
/// `LogGone` if the block has been overwritten since; device errors.
fn put_placed(lfs: &Lfs, summary: &Summary, item: &ChainItem, into: &mut Vec<u8>) -> Result<()> {
    let ChainItem::Placed {
        ino,
        version,
        block,
        ref pointer,
        written_ns,
    } = *item
    else {
        return Ok(());
    };
    let mut bytes = vec![0; pointer.stored_bytes() as usize];
    lfs.reader.read_uncached(pointer.sector(), &mut bytes)?;
    if crc32c(&bytes) != pointer.crc() {
        let why = format!("block {block} of {ino}, spilled before it, has been written over");
        return Err(log_gone(summary, why));
    }
    let range = (block, written_ns as u64);
    begin(into, (entry_kind::BLOCK, ino, version), range, bytes.len());
    into.extend_from_slice(&bytes);
    Ok(())
}

/// Adds an entry as an item. `stored` has the content, also of plugs.
fn put(
    geometry: &Geometry,
    summary: &Summary,
    item: &ChainItem,
    stored: &Payload,
    into: &mut Vec<u8>,
) -> Result<()> {
    let bytes = summary.stored(geometry, item, stored);
    match *item {
        ChainItem::Record {
            ino,
            version,
            record,
        } => {
            let (kind, from, to) = match record {
                Change::Freed(next) => (entry_kind::FREED, u64::from(next), 0),
                Change::Truncated(from) => (entry_kind::TRUNCATED, from, 0),
                Change::Punched(from, to) => (entry_kind::PUNCHED, from, to),
                Change::Reserved(from, to, _) => (entry_kind::RESERVED, from, to),
            };
            begin(into, (kind, ino, version), (from, to), 0);
        }
        ChainItem::Block {
            ino,
            version,
            block,
            written_ns,
            xattrs,
            ..
        } => {
            let kind = match xattrs {
                true => entry_kind::XATTRS,
                false => entry_kind::BLOCK,
            };
            let range = (block, written_ns as u64);
            begin(into, (kind, ino, version), range, bytes.len());
            into.extend_from_slice(bytes);
        }
        ChainItem::Inode { ino, version, .. } => {
            let mut image = InodeImage::decode(bytes, ino).map_err(Error::from)?;
            (image.root, image.xattrs) = (None, Pointer::NONE);
            let kind = entry_kind::INODE;
            begin(into, (kind, ino, version), (0, 0), bytes.len());
            let at = into.len();
            into.resize(at + bytes.len(), 0);
            image.encode(&mut into[at..]);
        }
        // These are about places; for placed blocks see `put_placed`.
        ChainItem::Placed { .. } | ChainItem::Node { .. } | ChainItem::Map { .. } => {}
    }
    Ok(())
}

fn begin(
    into: &mut Vec<u8>,
    (kind, ino, version): (u8, InodeNo, Version),
    (from, to): (u64, u64),
    bytes: usize,
) {
    let item = StreamItem {
        kind,
        version: version.into(),
        ino: ino.0.into(),
        from: from.into(),
        to: to.into(),
        bytes: (bytes as u32).into(),
        ..StreamItem::new_zeroed()
    };
    into.extend_from_slice(item.as_bytes());
}
