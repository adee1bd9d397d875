//! The text of blkparse(1), in its own format: `8,0 1 5 0.0001 697 Q WS 2048 + 8
//! [name]`: device, processor, sequence, seconds, process, action, kind, sector,
//! `+`, sectors.
//!
//! A request appears once for each action. Those that were queued count (`Q`);
//! if there are none, those that were issued (`D`), or those that ended (`C`).
//! Kinds with `D` discard, those with `F` or without sectors flush. The summary
//! at the end is left out.

use super::TraceError;
use super::block_trace::{SECTOR, bytes};
use super::lines::Line;
use super::records::{Event, Request};

/// Reads lines of one action.
#[derive(Debug)]
pub struct Reader {
    action: &'static str,
    /// The summary has begun.
    ended: bool,
}

impl Reader {
    /// For a trace that begins so.
    pub fn new(beginning: &str) -> Self {
        let has = |action: &&&str| {
            let mut lines = beginning.lines();
            lines.any(|line| line.split_ascii_whitespace().nth(5) == Some(**action))
        };
        Reader {
            action: ["Q", "D", "C"].iter().find(has).copied().unwrap_or("Q"),
            ended: false,
        }
    }

    /// Reads a line; nothing if it is of another action, or moves nothing.
    pub fn line(&mut self, line: &Line<'_>) -> Result<Option<Event>, TraceError> {
        let mut fields = line.text.split_ascii_whitespace();
        let device = fields.next().unwrap_or_default();
        if self.ended || device.starts_with("CPU") || device == "Total" {
            self.ended = true;
            return Ok(None);
        }
        let device = number_of(device)
            .ok_or_else(|| line.wrong("it does not begin with a device, as 8,0"))?;
        let [_processor, _sequence]: [u64; 2] =
            [line.number(fields.next())?, line.number(fields.next())?];
        let seconds: f64 = line.number(fields.next())?;
        let _process: u64 = line.number(fields.next())?;
        let action = fields.next();
        let Some(kind) = fields.next().filter(|_| action == Some(self.action)) else {
            return Ok(None);
        };
        let first = fields.next();
        if fields.next() != Some("+") {
            // `FF [name]` and such: nothing but a flush.
            return Ok(kind.contains('F').then_some(Event::Sync));
        }
        let sector: u64 = line.number(first)?;
        let sectors: u64 = line.number(fields.next())?;
        let length = sectors.saturating_mul(SECTOR);
        let beyond = || line.wrong("it lies beyond any disk");
        if kind.contains('D') {
            let offset = sector.checked_mul(SECTOR).ok_or_else(beyond)?;
            return Ok(Some(Event::Discard {
                device,
                offset,
                bytes: length,
            }));
        }
        let (offset, bytes) = bytes(sector, length).ok_or_else(beyond)?;
        let write = kind.contains('W');
        if sectors == 0 || !(write || kind.contains('R')) {
            return Ok(kind.contains('F').then_some(Event::Sync));
        }
        let request = Request {
            at_ns: (seconds.max(0.0) * 1e9) as u64,
            device,
            offset,
            bytes,
            write,
        };
        Ok(Some(match write && kind.contains('F') {
            true => Event::Durable(request),
            false => Event::Request(request),
        }))
    }
}

/// `major,minor` as one number.
fn number_of(device: &str) -> Option<u64> {
    let (major, minor) = device.split_once(',')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    Some(u64::from(major) << 32 | u64::from(minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]
  8,0    3        3     0.000002829   697  D  RA 16 + 8 [kjournald]
  8,0    3        4     0.000003829   697  Q  WS 0 + 16 [x]
  8,0    3        5     0.000004829   697  Q FWS [x]
  8,0    3        6     0.000005829   697  Q  DS 64 + 4096 [x]
  8,0    3        7     0.000006829   697  P   N [x]
  8,0    3        8     0.000007829   697  Q WFS 8 + 8 [x]
CPU0 (8,0):
 Reads Queued:           0,        0KiB
";

    fn read(text: &str) -> Result<Vec<Event>, TraceError> {
        let mut reader = Reader::new(text);
        let lines = text.lines().enumerate().map(|(at, text)| Line {
            name: "t",
            record: at + 1,
            text,
        });
        lines
            .filter_map(|line| reader.line(&line).transpose())
            .collect()
    }

    #[test]
    fn what_was_queued_counts_once() {
        let events = read(TEXT).unwrap();
        let [first, second, Event::Sync, discard, Event::Durable(last)] = &events[..] else {
            panic!("{events:?}");
        };
        let (Event::Request(first), Event::Request(second)) = (first, second) else {
            panic!("{events:?}");
        };
        assert_eq!((last.offset, last.write), (4096, true));
        assert_eq!((first.offset, first.bytes), (223_490 * 512, 4096));
        assert_eq!((second.offset, second.bytes, second.write), (0, 8192, true));
        let Event::Discard { bytes, .. } = discard else {
            panic!("{discard:?}");
        };
        assert_eq!(*bytes, 4096 * 512);
        // Without a queue, what was issued.
        let issued = read(&TEXT.replace(" Q ", " G ")).unwrap();
        assert!(matches!(
            issued[..],
            [Event::Request(Request { write: false, .. })]
        ));
    }

    #[test]
    fn nonsense_is_refused_with_its_line() {
        for wrong in [
            "8:0 3 1 0.0 697 Q W 8 + 8",
            "8,0 x 1 0.0 697 Q W 8 + 8",
            "8,0 3 1 0.0 697 Q W y + 8",
            "8,0 3 1 0.0 697 Q W 8 + 99999999999999",
            "8,0 3 1 0.0 697 Q D 99999999999999999 + 8",
        ] {
            let text = format!("8,0 3 1 0.0 697 Q W 8 + 8\n{wrong}\n");
            let error = read(&text).unwrap_err().to_string();
            assert!(error.starts_with("t, record 2: "), "{error}");
        }
    }
}
