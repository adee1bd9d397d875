//! Recorded workloads: readers for every file of the trace collection.
//!
//! A trace becomes operations on dense block numbers. It is replayed in
//! passes, each the same; a pass begins where the one before ended. How a
//! trace's records map to blocks is said in each reader's head.
//!
//! [`load`] reads one of the collection into memory. A [`Source`] reads any
//! trace of a known [`Format`] as a stream, pass by pass, in bounded memory.

mod blkparse;
mod block_trace;
mod file_set;
mod format;
mod lines;
mod mobigen;
mod msr;
mod netbench;
mod records;
mod sample;
mod source;
mod strace;
mod survey;
mod zstd;

pub use format::Format;
pub use sample::Sample;
pub use source::Source;
pub use survey::Survey;

use crate::workload::{FileTable, Op};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Why a trace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A record that is no record.
    #[error("{name}, record {record}: {what}")]
    Record {
        /// The trace.
        name: String,
        /// The record's number, from 1.
        record: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Nothing in it is written.
    #[error("{name} writes nothing")]
    Empty {
        /// The trace.
        name: String,
    },
    /// What it writes is a few files that are too large.
    #[error("{name} writes too few files that are too large: no sample of them is small enough")]
    Large {
        /// The trace.
        name: String,
    },
    /// Not all of it was there when it was read first.
    #[error("{name} grows while it is read")]
    Grows {
        /// The trace.
        name: String,
    },
    /// Its beginning looks like no format there is.
    #[error("{name}: line 1 is of no known format; say which it is (--format)")]
    Format {
        /// The trace.
        name: String,
    },
}

/// A trace, ready to be replayed.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Its name, that of the file without endings.
    pub name: &'static str,
    /// One pass.
    pub ops: Vec<Op>,
    /// Block numbers lie below this.
    pub blocks: u32,
    /// Most blocks that live at a time, from the second pass on.
    pub live_max: u32,
    /// Block writes of a pass.
    pub writes: u64,
    /// File of each block, for those who group by it.
    pub locality: FileTable,
}

type Parse = fn(&'static str, &[u8]) -> Result<records::Parsed, TraceError>;

/// Every trace: its name, the file, and its reader.
const TRACES: [(&str, &str, Parse); 7] = [
    (
        "cloudphysics-vm",
        "cloudphysics-vm.vscsi",
        block_trace::vscsi,
    ),
    ("netbench-client", "netbench-client.txt", netbench::parse),
    (
        "android-facebook",
        "android-facebook.mobigen",
        mobigen::parse,
    ),
    ("android-twitter", "android-twitter.mobigen", mobigen::parse),
    ("msn-fileserver", "msn-fileserver.ascii", block_trace::msn),
    ("tencent-cbs-1s", "tencent-cbs-1s.csv", block_trace::tencent),
    ("tpcc-small", "tpcc-small.ascii", block_trace::tpcc),
];

/// The names of all traces.
pub fn names() -> impl Iterator<Item = &'static str> {
    TRACES.iter().map(|trace| trace.0)
}

/// Which traces lie in `directory`, with their bytes: tells one collection from
/// another.
pub fn present(directory: &Path) -> String {
    let files = TRACES.iter().filter_map(|(_, file, _)| {
        let path = stored_as(&directory.join(file));
        let bytes = std::fs::metadata(&path).ok()?.len();
        Some(format!("{file} {bytes}"))
    });
    files.collect::<Vec<_>>().join(", ")
}

/// Reads a trace from `directory`, where it lies as `NAME` or `NAME.zst`.
///
/// # Errors
/// The file cannot be read, or is not what its name says.
///
/// # Panics
/// If there is no trace of that name.
pub fn load(directory: &Path, name: &str) -> Result<Trace, TraceError> {
    let (name, file, parse) = *TRACES
        .iter()
        .find(|trace| trace.0 == name)
        .expect("names come from the list");
    let bytes = read(&directory.join(file))?;
    parse(name, &bytes)?.into_trace(name)
}

fn stored_as(plain: &Path) -> PathBuf {
    match plain.exists() {
        true => plain.to_owned(),
        false => plain.with_added_extension("zst"),
    }
}

fn read(plain: &Path) -> Result<Vec<u8>, TraceError> {
    let path = stored_as(plain);
    let failed = |source| TraceError::Io {
        path: path.clone(),
        source,
    };
    let bytes = std::fs::read(&path).map_err(failed)?;
    if path == plain {
        return Ok(bytes);
    }
    let mut text = Vec::new();
    zstd::Frames::of(&bytes[..])
        .read_to_end(&mut text)
        .map_err(failed)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    mod fuzz;
}
