//! Traces of disks: a request counts for every 4 KiB block it touches.
//!
//! - `vscsi`: one virtual disk. Its partition starts at sector 63, so 63
//!   sectors are taken off every address; what lies before stays where it is.
//! - `msn`, `tpcc`: time (ms, ns), device, sector, sectors, 1 for a read.
//! - `tencent`: seconds, offset and size in sectors, 1 for a write, volume.
//!   Every volume has addresses of its own. Requests stay in the order of the
//!   file, whose seconds may go back by one.

use super::TraceError;
use super::lines::{LONGEST, Line, lines};
use super::records::{Parsed, Request, from_requests};

/// Bytes of a sector.
pub(super) const SECTOR: u64 = 512;
/// Start of the partition on the virtual disk.
const PARTITION: u64 = 63;

/// A sector range as bytes, if it can be one.
pub(super) fn bytes(sector: u64, bytes: u64) -> Option<(u64, u64)> {
    let offset = sector.checked_mul(SECTOR)?;
    (bytes <= LONGEST && offset.checked_add(bytes)?.checked_add(1 << 20).is_some())
        .then_some((offset, bytes))
}

/// Bytes of a record of `vscsi`.
pub const VSCSI_BYTES: usize = 32;

/// One record of `vscsi`, little-endian.
pub fn vscsi_record(record: &[u8]) -> Result<Request, &'static str> {
    let word = |from: usize| {
        let field = record.get(from..from + 8)?;
        Some(u64::from_le_bytes(field.try_into().ok()?))
    };
    let (Some(first), Some(second), Some(sector), Some(at_us)) =
        (word(0), word(8), word(16), word(24))
    else {
        return Err("it is cut short");
    };
    let write = match second >> 32 & 0xffff {
        0x28 => false,
        0x2a => true,
        _ => return Err("its command is neither read nor write"),
    };
    let sector = sector.checked_sub(PARTITION).unwrap_or(sector);
    let (offset, bytes) = bytes(sector, first >> 32).ok_or(BEYOND)?;
    Ok(Request {
        at_ns: at_us.saturating_mul(1000),
        device: 0,
        offset,
        bytes,
        write,
    })
}

/// Reads `cloudphysics-vm`.
pub fn vscsi(name: &'static str, trace: &[u8]) -> Result<Parsed, TraceError> {
    let mut requests = Vec::new();
    for (at, record) in trace.chunks(VSCSI_BYTES).enumerate() {
        let wrong = |what| TraceError::Record {
            name: name.to_owned(),
            record: at + 1,
            what,
        };
        requests.push(vscsi_record(record).map_err(wrong)?);
    }
    Ok(from_requests(&requests))
}

const BEYOND: &str = "it lies beyond any disk";

/// A line of `msn` or `tpcc`, whose time counts in so many nanoseconds.
pub fn ascii_line(line: &Line<'_>, tick_ns: f64) -> Result<Request, TraceError> {
    let mut fields = line.text.split_ascii_whitespace();
    let at: f64 = line.number(fields.next())?;
    let device = line.number(fields.next())?;
    let sector = line.number(fields.next())?;
    let sectors: u64 = line.number(fields.next())?;
    let read: u8 = line.number(fields.next())?;
    let (offset, bytes) =
        bytes(sector, sectors.saturating_mul(SECTOR)).ok_or_else(|| line.wrong(BEYOND))?;
    Ok(Request {
        at_ns: (at * tick_ns) as u64,
        device,
        offset,
        bytes,
        write: read == 0,
    })
}

/// Milliseconds.
pub const MSN_TICK_NS: f64 = 1e6;

/// Reads `msn-fileserver`.
pub fn msn(name: &'static str, trace: &[u8]) -> Result<Parsed, TraceError> {
    all(name, trace, |line| ascii_line(line, MSN_TICK_NS))
}

/// Reads `tpcc-small`: nanoseconds.
pub fn tpcc(name: &'static str, trace: &[u8]) -> Result<Parsed, TraceError> {
    all(name, trace, |line| ascii_line(line, 1.0))
}

/// A line of `tencent`.
pub fn tencent_line(line: &Line<'_>) -> Result<Request, TraceError> {
    let mut fields = line.text.split(',');
    let at_s: u64 = line.number(fields.next())?;
    let sector = line.number(fields.next())?;
    let sectors: u64 = line.number(fields.next())?;
    let write: u8 = line.number(fields.next())?;
    let device = line.number(fields.next())?;
    let (offset, bytes) =
        bytes(sector, sectors.saturating_mul(SECTOR)).ok_or_else(|| line.wrong(BEYOND))?;
    Ok(Request {
        at_ns: at_s.saturating_mul(1_000_000_000),
        device,
        offset,
        bytes,
        write: write == 1,
    })
}

/// Reads `tencent-cbs-1s`.
pub fn tencent(name: &'static str, trace: &[u8]) -> Result<Parsed, TraceError> {
    all(name, trace, tencent_line)
}

fn all(
    name: &'static str,
    trace: &[u8],
    read: impl Fn(&Line<'_>) -> Result<Request, TraceError>,
) -> Result<Parsed, TraceError> {
    let requests: Result<Vec<Request>, TraceError> =
        lines(name, trace)?.map(|line| read(&line)).collect();
    Ok(from_requests(&requests?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Op;

    #[test]
    fn requests_count_for_every_block_they_touch() {
        // Sectors 7 to 9: blocks 0 and 1. Then 16 sectors of another device.
        let text = b"0.5 5 7 2 0\n1.5 6 0 16 1\n2.5 6 0 16 0\n";
        let trace = msn("msn-fileserver", text).unwrap();
        let [write, read] = [|block| Op::Write { block }, |block| Op::Read { block }];
        let wait = Op::Wait { ns: 1_000_000 };
        assert_eq!(
            trace.ops,
            [
                write(0),
                write(1),
                wait,
                read(2),
                read(3),
                wait,
                write(2),
                write(3)
            ]
        );
        assert_eq!(trace.file_of, [0, 0, 1, 1]);
    }

    #[test]
    fn a_virtual_disk_begins_with_its_partition() {
        let mut record = Vec::new();
        for word in [7u64 | 4096 << 32, 1 | 0x2a << 32, 63 + 8, 5] {
            record.extend(word.to_le_bytes());
        }
        let trace = vscsi("cloudphysics-vm", &record).unwrap();
        assert_eq!(trace.ops, [Op::Write { block: 0 }]);
        record.pop();
        assert!(vscsi("cloudphysics-vm", &record).is_err());
    }

    #[test]
    fn nonsense_is_refused_with_its_line() {
        for bad in [
            "1 2 3\n",
            "1 2 99999999999999999999 4 0\n",
            "1 2 18446744073709551615 4 0\n",
            "1 2 3 999999999999 0\n",
        ] {
            let error = tpcc("tpcc-small", format!("1 2 3 4 0\n{bad}").as_bytes());
            let error = error.unwrap_err().to_string();
            assert!(error.starts_with("tpcc-small, record 2: "), "{error}");
        }
        let ok = tencent(
            "tencent-cbs-1s",
            b"1538323200,8,16,1,7\n1538323199,0,8,1,8\n",
        );
        assert_eq!(ok.unwrap().ops.len(), 3);
    }
}
