//! Reading the log forward after a crash, to its end.
//!
//! A batch counts if it lies where it says, follows the one before it, and has the
//! right checksums; behind the place where this life began it has to be of this life,
//! too. The first that does not is the end, unless a later one of this life, in any file,
//! knew that the log was durable beyond that place, or a file is lost that may have held
//! what followed: then it is damage.

use super::format::{BATCH_HEADER, BatchHeader};
use super::{Log, Lsn, Record};
use crate::error::{Error, Result};
use crate::planted::{self, Planted};

/// A scan of the log.
pub(crate) struct Scan<'a> {
    log: &'a Log,
    /// Where the next batch is looked for.
    at: u64,
    life: u32,
    life_begins: u64,
    /// The first batch need not follow another.
    first: bool,
    /// Of a copy: whose lives go on, and whose end is wherever its receipt ended.
    copy: bool,
    /// The last batch's life, where that begins, and its time.
    seen: (u32, u64, u32),
}

/// Where the log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScanEnd {
    /// Behind the last batch.
    pub end: Lsn,
    /// The life of the last batch, or of the checkpoint.
    pub life: u32,
    /// Where it begins.
    pub life_begins: Lsn,
    /// When the last batch was closed; 0: not known.
    pub time_s: u32,
}

impl Log {
    /// Reads from the batch at `from` on, with what the checkpoint says of lives.
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
    /// Of a copy's log.
    pub(crate) fn of_copy(mut self) -> Self {
        self.copy = true;
        self
    }

    /// Hands over each record, in order, and answers where the log ends. Those before
    /// `skip` are left out.
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

    /// The next batch: its LSN, and its bytes without padding.
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

    /// An error if something shows that the log went on behind `end`.
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
