//! Lines and fields of text traces.

use super::TraceError;

/// No request of any trace is longer, in bytes.
pub const LONGEST: u64 = 64 << 20;

/// Bytes of a path, each written as `\377`.
pub const LONGEST_PATH: usize = 4 * 4096;

/// No system has more files open.
pub const MOST_OPEN: usize = 1 << 20;

/// The lines of a trace that are not empty, numbered from 1.
pub fn lines<'a>(
    name: &'a str,
    bytes: &'a [u8],
) -> Result<impl Iterator<Item = Line<'a>>, TraceError> {
    let text = std::str::from_utf8(bytes).map_err(|_| TraceError::Record {
        name: name.to_owned(),
        record: 0,
        what: "it is not text",
    })?;
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, text)| !text.trim().is_empty());
    Ok(lines.map(move |(at, text)| Line {
        name,
        record: at + 1,
        text,
    }))
}

/// One line.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// The trace.
    pub name: &'a str,
    /// Its number, from 1.
    pub record: usize,
    /// What it says.
    pub text: &'a str,
}

impl Line<'_> {
    /// The line is no record.
    pub fn wrong(&self, what: &'static str) -> TraceError {
        TraceError::Record {
            name: self.name.to_owned(),
            record: self.record,
            what,
        }
    }

    /// A field as a number.
    pub fn number<T: std::str::FromStr>(&self, field: Option<&str>) -> Result<T, TraceError> {
        let parsed = field.and_then(|text| text.trim().parse().ok());
        parsed.ok_or_else(|| self.wrong("a number is missing"))
    }

    /// The bytes of a request, if one can be so long.
    pub fn length(&self, bytes: u64) -> Result<u64, TraceError> {
        match bytes <= LONGEST {
            true => Ok(bytes),
            false => Err(self.wrong("it is longer than any request")),
        }
    }
}
