//! MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! Times count tenths of microseconds since 1601, offset and size count bytes. A
//! disk is one of a host. A heading may come first.

use super::TraceError;
use super::lines::{LONGEST, Line};
use super::records::{Event, Request};
use super::sample::hash;

/// Reads a line; nothing if it is a heading.
pub fn line(line: &Line<'_>) -> Result<Option<Event>, TraceError> {
    let mut fields = line.text.split(',').map(str::trim);
    let first = fields.next();
    if line.record == 1 && first.is_some_and(|field| field.eq_ignore_ascii_case("timestamp")) {
        return Ok(None);
    }
    let ticks: u64 = line.number(first)?;
    let host = fields.next().unwrap_or_default();
    let disk: u64 = line.number(fields.next())?;
    let write = match fields.next() {
        Some(kind) if kind.eq_ignore_ascii_case("write") => true,
        Some(kind) if kind.eq_ignore_ascii_case("read") => false,
        _ => return Err(line.wrong("the fourth field is neither Read nor Write")),
    };
    let offset: u64 = line.number(fields.next())?;
    let bytes: u64 = line.number(fields.next())?;
    if bytes > LONGEST || offset > u64::MAX / 2 {
        return Err(line.wrong("it lies beyond any disk"));
    }
    Ok(Some(Event::Request(Request {
        at_ns: ticks.saturating_mul(100),
        device: hash(host) ^ disk,
        offset,
        bytes,
        write,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(record: usize, text: &str) -> Result<Option<Event>, TraceError> {
        line(&Line {
            name: "t",
            record,
            text,
        })
    }

    #[test]
    fn a_line_is_a_request() {
        let event = read(1, "128166372003061629,hm,1,Read,383496192,32768,413");
        let Ok(Some(Event::Request(request))) = event else {
            panic!("{event:?}");
        };
        assert_eq!((request.offset, request.bytes), (383_496_192, 32_768));
        assert!(!request.write);
        assert!(
            read(1, "Timestamp,Hostname,DiskNumber,Type")
                .unwrap()
                .is_none()
        );
        for wrong in [
            "Timestamp,Hostname",
            "1,hm,1,Trim,0,4096,1",
            "1,hm,1,Write,0",
            "1,hm,1,Write,18446744073709551615,4096,1",
            "1,hm,1,Write,0,99999999999,1",
        ] {
            let error = read(2, wrong).unwrap_err().to_string();
            assert!(error.starts_with("t, record 2: "), "{error}");
        }
    }
}
