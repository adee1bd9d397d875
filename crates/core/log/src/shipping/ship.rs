//! Reading the log for a stream.

use super::content::record_of;
use super::error::{Result, ShipError};
use super::stream::{Record, StreamHeader, record_flags, record_kind};
use super::trail::Trail;
use crate::chain::Summary;
use crate::format::Mark;
use crate::format::summary::summary_flags;
use crate::lfs::Lfs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire};
use std::time::Duration;

/// Reads the durable log after a mark, record by record. While it exists, the log that it
/// has not read is kept, as far as there is space.
pub struct Shipper<'a> {
    lfs: &'a Lfs,
    from: Mark,
    /// Mark of the last record.
    at: Mark,
    /// The end of the last group.
    boundary: Mark,
    trail: Trail,
    pin: u64,
    broken: Arc<AtomicBool>,
}

impl Lfs {
    /// Ships the durable log after `since`.
    ///
    /// # Errors
    /// `LogGone`, `OtherHistory`, `IsACopy`; device errors.
    pub fn ship(&self, since: Mark) -> Result<Shipper<'_>> {
        if self.is_copy() {
            return Err(ShipError::IsACopy(self.mark()));
        }
        // Pinned before the search, so that no part is reused meanwhile.
        let (pin, broken) = self.segments.lock().pin_log(0);
        let mut shipper = Shipper {
            lfs: self,
            from: since,
            at: since,
            boundary: since,
            trail: Trail::default(),
            pin,
            broken,
        };
        shipper.trail = Trail::behind(self, since)?;
        shipper.check_beginning()?;
        shipper.advance();
        if shipper.broken.load(Acquire) {
            // Pinning the whole log was too much. The part left to read may be possible.
            let from = shipper.trail.needed_from();
            let (pin, broken) = self.segments.lock().pin_log(from);
            (shipper.pin, shipper.broken) = (pin, broken);
        }
        Ok(shipper)
    }
}

impl Lfs {
    /// The tag that identifies this volume and byte copies of it.
    pub fn volume_tag(&self) -> u64 {
        self.volume_tag
    }
}

impl Shipper<'_> {
    /// The header of the stream.
    pub fn header(&self) -> StreamHeader {
        let geometry = &self.lfs.geometry;
        let (block, inode) = (geometry.block_bytes, geometry.inode_bytes);
        StreamHeader::new(self.lfs.volume_tag, self.from, block, inode)
    }

    /// The end of the last group that has been shipped.
    pub fn mark(&self) -> Mark {
        self.boundary
    }

    /// The next record, if one is durable.
    ///
    /// # Errors
    /// `LogGone`; device errors.
    pub fn next_record(&mut self) -> Result<Option<Record>> {
        if self.at.serial >= self.lfs.durability.durable() {
            return Ok(None);
        }
        let Some(summary) = self.trail.next(self.lfs, self.at)? else {
            return Err(self.gone());
        };
        let record = record_of(self.lfs, &summary)?;
        self.at = record.header.mark();
        let ordinary = record.header.kind == record_kind::GROUP;
        if record.header.has(record_flags::LAST) {
            self.boundary = self.at;
        }
        if ordinary || record.header.has(record_flags::LAST) {
            self.advance();
        }
        Ok(Some(record))
    }

    /// Waits until more is durable, or for this long.
    pub fn wait(&self, most: Duration) {
        self.lfs.durability.wait_beyond(self.at.serial, most);
    }

    /// The last record of a stream.
    pub fn end(&self) -> Record {
        Record::end(self.at)
    }

    /// The reason for which nothing more will become durable, if there is one.
    pub fn stopped(&self) -> Option<String> {
        self.lfs.durability.stopped()
    }

    fn gone(&self) -> ShipError {
        let serial = self.at.serial + 1;
        let why = match self.broken.load(Acquire) {
            true => format!("the volume needed the room of partial segment {serial}"),
            false => format!("partial segment {serial} is not there any more"),
        };
        ShipError::LogGone {
            mark: self.boundary,
            why,
        }
    }

    fn advance(&self) {
        let from = self.trail.needed_from();
        self.lfs.segments.lock().advance_log_pin(self.pin, from);
    }

    /// Checks that `self.from` is the end of a group of this log.
    fn check_beginning(&mut self) -> Result<()> {
        let mark = self.from;
        let other = |why: String| ShipError::OtherHistory { mark, why };
        let end = Mark::from(self.lfs.log.lock().end.at(0));
        if mark.serial >= end.serial {
            return match mark == end {
                true => Ok(()),
                false => Err(other(format!("its log ends at {end}"))),
            };
        }
        match self.trail.follower(self.lfs, mark)? {
            Follower::Whole(summary) if summary.header.has(summary_flags::FIRST) => Ok(()),
            Follower::Whole(_) => Err(other("no group ends there".into())),
            Follower::OfAnother => {
                let serial = mark.serial + 1;
                Err(other(format!(
                    "partial segment {serial} follows another one here"
                )))
            }
            Follower::Gone => Err(self.gone()),
        }
    }
}

impl Drop for Shipper<'_> {
    fn drop(&mut self) {
        self.lfs.segments.lock().unpin_log(self.pin);
        self.lfs.control.tell_gain();
    }
}

/// The partial after a mark.
pub(super) enum Follower {
    /// The partial that follows the mark.
    Whole(Summary),
    /// A partial with the serial, but another predecessor.
    OfAnother,
    /// There is none.
    Gone,
}
