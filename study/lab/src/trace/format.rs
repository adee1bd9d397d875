//! Formats of traces, and how one is recognised.

use super::lines::{LONGEST, Line};
use super::records::Event;
use super::{TraceError, blkparse, block_trace, file_set::FileSet, msr, netbench, strace};

/// See the module's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// blkparse(1), text.
    Blkparse,
    /// MSR Cambridge.
    Msr,
    /// Tencent's cloud block storage.
    Tencent,
    /// Milliseconds, device, sector, sectors, 1 for a read (DiskSim).
    DiskSim,
    /// The same in nanoseconds (MQSim).
    MqSim,
    /// Binary records of CloudPhysics.
    Vscsi,
    /// Operations of a NetBench client, as dbench(1) reads them.
    Netbench,
    /// System calls of Mobibench.
    Mobigen,
    /// System calls as strace(1) writes them.
    Strace,
}

/// Reads a request of a disk, if the line has one.
type ReadEvent = dyn FnMut(&Line<'_>) -> Result<Option<Event>, TraceError>;
/// Does to files what the line says.
type ReadCall = dyn FnMut(&mut FileSet, &Line<'_>) -> Result<(), TraceError>;

/// What reads the lines of a format.
pub(super) enum Reader {
    /// Requests of disks.
    Block(Box<ReadEvent>),
    /// Operations on files.
    File(Box<ReadCall>),
}

impl Format {
    /// All of them. Of those that accept the same lines the stricter is first.
    pub const ALL: [Format; 9] = [
        Format::Blkparse,
        Format::Msr,
        Format::Tencent,
        Format::MqSim,
        Format::DiskSim,
        Format::Netbench,
        Format::Mobigen,
        Format::Strace,
        Format::Vscsi,
    ];

    /// As the command line names it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Blkparse => "blkparse",
            Format::Msr => "msr",
            Format::Tencent => "tencent",
            Format::DiskSim => "disksim",
            Format::MqSim => "mqsim",
            Format::Vscsi => "vscsi",
            Format::Netbench => "netbench",
            Format::Mobigen => "mobigen",
            Format::Strace => "strace",
        }
    }

    /// The format of this name.
    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Whether it has lines that can be read one by one: `vscsi` has none, those
    /// of `mobigen` must be sorted first.
    pub(super) fn reader(self, beginning: &str) -> Option<Reader> {
        let request = |read: fn(&Line<'_>) -> Result<super::records::Request, TraceError>| {
            Reader::Block(Box::new(move |line| {
                read(line).map(|r| Some(Event::Request(r)))
            }))
        };
        Some(match self {
            Format::Blkparse => {
                let mut reader = blkparse::Reader::new(beginning);
                Reader::Block(Box::new(move |line| reader.line(line)))
            }
            Format::Msr => Reader::Block(Box::new(msr::line)),
            Format::Tencent => request(block_trace::tencent_line),
            Format::DiskSim => {
                request(|line| block_trace::ascii_line(line, block_trace::MSN_TICK_NS))
            }
            Format::MqSim => request(|line| block_trace::ascii_line(line, 1.0)),
            Format::Netbench => {
                let mut reader = netbench::Reader::default();
                Reader::File(Box::new(move |files, line| reader.line(files, line)))
            }
            Format::Strace => {
                let mut reader = strace::Reader::default();
                Reader::File(Box::new(move |files, line| reader.line(files, line)))
            }
            Format::Mobigen | Format::Vscsi => return None,
        })
    }

    /// The format of a trace that begins with these bytes: the first that reads
    /// the first twenty lines.
    pub fn of(beginning: &[u8]) -> Option<Format> {
        if is_vscsi(beginning) {
            return Some(Format::Vscsi);
        }
        let good = match std::str::from_utf8(beginning) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&beginning[..error.valid_up_to()]).ok()?,
        };
        // The last line may be cut.
        let text = good.rfind('\n').map_or(good, |end| &good[..end]);
        let lines = || {
            let lines = text.lines().enumerate();
            let lines = lines.filter(|(_, text)| !text.trim().is_empty());
            lines.take(20).map(|(at, text)| Line {
                name: "",
                record: at + 1,
                text,
            })
        };
        lines().next()?;
        let reads = |format: &Format| match format.reader(text) {
            Some(Reader::Block(mut read)) => {
                lines().all(|line| read(&line).is_ok() && format.looks_like(line.text))
            }
            Some(Reader::File(mut read)) => {
                let mut files = FileSet::default();
                lines().all(|line| read(&mut files, &line).is_ok())
            }
            None => *format == Format::Mobigen && lines().all(|line| is_mobigen(line.text)),
        };
        Format::ALL.into_iter().find(reads)
    }

    /// What parts formats that would read each other's lines.
    fn looks_like(self, line: &str) -> bool {
        let fields = || line.split_ascii_whitespace();
        match self {
            // Nanoseconds are whole, milliseconds are not.
            Format::MqSim => fields().next().is_some_and(|time| !time.contains('.')),
            _ => true,
        }
    }
}

/// Two records of reads or writes, no longer than any.
fn is_vscsi(bytes: &[u8]) -> bool {
    let mut records = bytes.chunks_exact(block_trace::VSCSI_BYTES).take(2);
    let good = |record: &[u8]| {
        block_trace::vscsi_record(record).is_ok_and(|r| r.bytes > 0 && r.bytes <= LONGEST)
    };
    bytes.len() >= block_trace::VSCSI_BYTES && records.all(good)
}

/// `thread t_us call ...`.
fn is_mobigen(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace();
    let number = |field: Option<&str>| field.is_some_and(|text| text.parse::<u64>().is_ok());
    let call = |field: Option<&str>| {
        field.is_some_and(|text| text.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    number(fields.next()) && number(fields.next()) && call(fields.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognised_by_their_lines() {
        let cases = [
            (
                Format::Blkparse,
                "  8,0 3 1 0.000000000 697 Q W 223490 + 8 [x]\n",
            ),
            (
                Format::Msr,
                "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n1,h,0,Write,0,4096,5\n",
            ),
            (
                Format::Msr,
                "128166372003061629,hm,0,Read,383496192,32768,413\n",
            ),
            (Format::Tencent, "1538323200,8,16,1,7\n"),
            (Format::DiskSim, "0.5 5 7 2 0\n"),
            (Format::MqSim, "48513000 0 7 2 0\n"),
            (Format::Netbench, "NTCreateX \\c\\a 0x40 0x2 1\nClose 1\n"),
            (
                Format::Mobigen,
                "1 20 open \"/a/b.db\" O_RDWR 5\n1 30 pwrite 5 0 4096\n",
            ),
            (Format::Strace, "close(3) = 0\n"),
            (Format::Strace, "99 1700000000.1 close(3) = 0\n"),
        ];
        for (format, text) in cases {
            assert_eq!(Format::of(text.as_bytes()), Some(format), "{text}");
            assert_eq!(Format::named(format.name()), Some(format));
        }
        let mut record = Vec::new();
        for word in [7u64 | 4096 << 32, 1 | 0x2a << 32, 63 + 8, 5] {
            record.extend(word.to_le_bytes());
        }
        assert_eq!(Format::of(&record), Some(Format::Vscsi));
        for none in ["", "hello world\n", "1,2\n", "\n\n"] {
            assert_eq!(Format::of(none.as_bytes()), None, "{none}");
        }
    }
}
