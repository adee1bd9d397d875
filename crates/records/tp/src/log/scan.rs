//! Reads the log forward after a crash, to its end.
//!
//! A batch is valid if it is stored at its own LSN, follows its predecessor, and has the
//! right checksums; behind the beginning of this life it must also belong to this life.
//! The first invalid batch is the end of the log. It is damage instead if a later batch
//! of this life, in any file, records the log as durable beyond that point, or if a
//! missing file may have contained the next batch.

use super::format::{BATCH_HEADER, BatchHeader};
use super::{Log, Lsn, Record};
use crate::error::{Error, Result};
use crate::planted::{self, Planted};

/// A scan of the log.
pub(crate) struct Scan<'a> {
    log: &'a Log,
    /// Position at which the next batch is expected.
    at: u64,
    life: u32,
    life_begins: u64,
    /// True for the first batch, which need not follow another.
    first: bool,
    /// True for the log of a copy, in which lives may change and which may end anywhere.
    copy: bool,
    /// The last batch's life, the beginning of that life, and its time.
    seen: (u32, u64, u32),
}

/// The end of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScanEnd {
    /// Position behind the last batch.
    pub end: Lsn,
    /// Life of the last batch, or of the checkpoint.
    pub life: u32,
    /// Beginning of that life.
    pub life_begins: Lsn,
    /// Time at which the last batch was closed; 0 if unknown.
    pub time_s: u32,
}

impl Log {
    /// Returns a scan from the batch at `from`, with the life that the checkpoint
    /// records.
    pub(crate) fn scan(&self, from: Lsn, life: u32, life_begins: Lsn) -> Scan<'_> {
        Scan {
            log: self,
            at: from.0,
            life,
            life_begins: life_begins.0,
            first: true,
            copy: false,
            seen: (life, life_begins.0, 0),
        }
    }
}

impl Scan<'_> {
    /// Makes this a scan of a copy's log.
    pub(crate) fn of_copy(mut self) -> Self {
        self.copy = true;
        self
    }

    /// Passes each record from `skip` on to `each`, in order, and returns the end of the
    /// log.
    pub(crate) fn run(
        mut self,
        skip: Lsn,
        mut each: impl FnMut(Record) -> Result<()>,
    ) -> Result<ScanEnd> {
        while let Some((at, bytes)) = self.next()? {
            let mut offset = BATCH_HEADER as usize;
            while offset < bytes.len() {
                let lsn = Lsn(at + offset as u64);
                let Some((record, length)) = Record::parse(lsn, &bytes[offset..]) else {
                    let what = "a batch with right checksums holds no record here";
                    return Err(Error::damaged("wal", lsn.0, what));
                };
                offset += length;
                if lsn >= skip {
                    each(record)?;
                }
            }
        }
        Ok(ScanEnd {
            end: Lsn(self.at),
            life: self.seen.0,
            life_begins: Lsn(self.seen.1),
            time_s: self.seen.2,
        })
    }

    /// Returns the next batch: its LSN, and its bytes without padding.
    fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        let place = self.at;
        let next_segment = self.log.shape.next_segment(place);
        for at in [place, next_segment] {
            if at != place && self.first {
                continue;
            }
            if let Some(bytes) = self.batch(at)? {
                self.first = false;
                self.at = at + self.log.shape.padded(bytes.len() as u64);
                return Ok(Some((at, bytes)));
            }
        }
        if place < self.life_begins {
            let what = "a batch is damaged or missing that was read before";
            return Err(Error::log_lost(place, what));
        }
        if !self.copy {
            self.look_beyond(place)?;
        }
        Ok(None)
    }

    fn batch(&mut self, at: u64) -> Result<Option<Vec<u8>>> {
        let shape = self.log.shape;
        let mut start = [0; BATCH_HEADER as usize];
        if !shape.batch_fits(at, BATCH_HEADER) || !self.log.segments.read(at, &mut start)? {
            return Ok(None);
        }
        let Some(header) = BatchHeader::parse(&start, at) else {
            return Ok(None);
        };
        let length = u64::from(header.length.get());
        let follows = self.first || header.previous_end.get() == self.at;
        let life = header.life.get();
        let lives = match self.copy && at >= self.life_begins {
            true => life >= self.seen.0,
            false => life == self.life || (at < self.life_begins && life < self.life),
        };
        if !follows || !lives || !shape.batch_fits(at, length) {
            return Ok(None);
        }
        let mut bytes = vec![0; length as usize];
        self.log.segments.read(at, &mut bytes)?;
        let crc = crate::checksum(0, &bytes[BATCH_HEADER as usize..]);
        let right = crc == header.records_crc.get() || planted::is(Planted::BatchUnchecked);
        if right && life > self.seen.0 {
            (self.seen.0, self.seen.1) = (life, at);
        }
        if right {
            self.seen.2 = header.time_s.get();
        }
        Ok(right.then_some(bytes))
    }

    /// Fails if there is a sign that the log continued behind `end`.
    fn look_beyond(&self, end: u64) -> Result<()> {
        let segments = &self.log.segments;
        if let Some(durable) = segments.durable_beyond(end, self.life)? {
            let lost = segments.lacking(|_| true);
            let lost = lost.map_or(String::new(), |lost| format!("; {lost}"));
            let what = format!("the log ends here, but was durable up to LSN {durable}{lost}");
            return Err(Error::log_lost(end, what));
        }
        if let Some(lost) = segments.lacking(|lacking| lacking.may_hold(end, &self.log.shape)) {
            let what = format!("the log ends here, and may have gone on: {lost}");
            return Err(Error::log_lost(end, what));
        }
        Ok(())
    }
}
