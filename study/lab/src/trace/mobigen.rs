//! `android-*`: system calls of an application.
//!
//! Lines are sorted by time. Most paths are placeholders, so a file is an
//! opening of a descriptor; where the path ends in a name of its own (it has a
//! dot after the last slash), it is that path. This understates rewriting.
//! Descriptors that see no `pwrite`, `pread` or `fsync` while they are open
//! are pipes and devices. `write` goes on where the last one ended. When the
//! trace ends, its files stay: the next pass writes them again.

use super::TraceError;
use super::file_set::FileSet;
use super::lines::{Line, lines};
use super::records::Parsed;
use std::collections::{HashMap, HashSet};

/// A line in parts.
struct Call<'a> {
    line: Line<'a>,
    at_us: u64,
    name: &'a str,
    fields: Vec<&'a str>,
}

impl Call<'_> {
    fn number<T: std::str::FromStr>(&self, at: usize) -> Result<T, TraceError> {
        self.line.number(self.fields.get(at).copied())
    }

    fn field(&self, at: usize) -> Result<&str, TraceError> {
        let field = self.fields.get(at).copied();
        field.ok_or_else(|| self.line.wrong("an argument is missing"))
    }
}

/// Which opening a descriptor stands for.
#[derive(Default)]
struct Openings {
    current: HashMap<i64, (u32, Option<String>)>,
    position: HashMap<i64, u64>,
    opened: u32,
}

impl Openings {
    fn open(&mut self, descriptor: i64, path: &str) {
        self.opened += 1;
        let path = path.trim_matches('"');
        let last = path.rsplit('/').next().unwrap_or("");
        let named = path.contains('/') && last.contains('.') && !last.starts_with("com.");
        let name = named.then(|| path.to_owned());
        self.current.insert(descriptor, (self.opened, name));
        self.position.remove(&descriptor);
    }

    /// The opening's number; 0 if it was open when the trace began.
    fn opening(&self, descriptor: i64) -> u32 {
        self.current
            .get(&descriptor)
            .map_or(0, |(opening, _)| *opening)
    }

    fn name(&self, descriptor: i64) -> String {
        match self.current.get(&descriptor) {
            Some((_, Some(path))) => path.clone(),
            Some((opening, None)) => format!("#{opening}"),
            None => format!("fd{descriptor}"),
        }
    }
}

/// Reads the trace.
pub fn parse(name: &str, trace: &[u8]) -> Result<Parsed, TraceError> {
    read(name, trace, FileSet::default())
}

/// Reads a trace whose files go to `files`.
pub fn read(name: &str, trace: &[u8], files: FileSet) -> Result<Parsed, TraceError> {
    let mut calls = Vec::new();
    for line in lines(name, trace)? {
        let mut fields = line.text.split_ascii_whitespace();
        let _thread = fields.next();
        let at_us = line.number(fields.next())?;
        let name = fields
            .next()
            .ok_or_else(|| line.wrong("a call is missing"))?;
        calls.push(Call {
            line,
            at_us,
            name,
            fields: fields.collect(),
        });
    }
    calls.sort_by_key(|call| call.at_us);
    let stored = stored(&calls)?;
    replay(&calls, &stored, files)
}

/// Descriptor and opening of everything that is a file on a disk.
fn stored(calls: &[Call<'_>]) -> Result<HashSet<(i64, u32)>, TraceError> {
    let mut openings = Openings::default();
    let mut stored = HashSet::new();
    for call in calls {
        match call.name {
            "open" => openings.open(call.number(2)?, call.field(0)?),
            "pwrite" | "pread" | "fsync" => {
                let descriptor = call.number(0)?;
                stored.insert((descriptor, openings.opening(descriptor)));
            }
            _ => {}
        }
    }
    Ok(stored)
}

fn replay(
    calls: &[Call<'_>],
    stored: &HashSet<(i64, u32)>,
    mut files: FileSet,
) -> Result<Parsed, TraceError> {
    let mut openings = Openings::default();
    let mut now_us = 0;
    for call in calls {
        if call.at_us > now_us {
            files.wait((call.at_us - now_us).saturating_mul(1000));
            now_us = call.at_us;
        }
        match call.name {
            "open" => {
                let descriptor = call.number(2)?;
                openings.open(descriptor, call.field(0)?);
                if call.field(1)?.contains("O_TRUNC") {
                    files.remove(&openings.name(descriptor));
                }
            }
            "pwrite" | "pread" => {
                let (descriptor, offset) = (call.number(0)?, call.number(1)?);
                // A length below zero was an error.
                let bytes = call.number::<i64>(2)?.max(0) as u64;
                let bytes = call.line.length(bytes)?;
                let name = openings.name(descriptor);
                match call.name {
                    "pwrite" => files.write(&name, offset, bytes),
                    _ => files.read(&name, offset, bytes),
                }
            }
            "write" => {
                let descriptor = call.number(0)?;
                let bytes = call.number::<i64>(1)?.max(0) as u64;
                let bytes = call.line.length(bytes)?;
                if stored.contains(&(descriptor, openings.opening(descriptor))) {
                    let position = openings.position.entry(descriptor).or_default();
                    let offset = *position;
                    *position = offset.saturating_add(bytes);
                    files.write(&openings.name(descriptor), offset, bytes);
                }
            }
            "fsync" => files.sync(),
            "unlink" => files.remove(call.fields.first().unwrap_or(&"").trim_matches('"')),
            _ => {}
        }
    }
    Ok(files.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Op;

    #[test]
    fn calls_are_sorted_and_pipes_left_out() {
        let text = b"2 30 fsync 5 0\n1 10 open data/data O_RDWR 5\n1 20 pwrite 5 0 100\n\
            1 20 write 5 4096\n1 25 write 9 1\n\
            1 40 open \"/data/x.db\" O_RDWR 5\n1 50 pwrite 5 4096 1\n1 60 unlink \"/data/x.db\" 0\n";
        let ops = parse("android-facebook", text).unwrap().ops;
        let ops: Vec<Op> = ops
            .into_iter()
            .filter(|op| !matches!(op, Op::Wait { .. }))
            .collect();
        let write = |block| Op::Write { block };
        assert_eq!(
            ops,
            [
                write(0),
                write(0),
                Op::Sync,
                write(1),
                Op::Trim { block: 1 }
            ]
        );
        assert!(parse("android-facebook", b"1 2 pwrite x\n").is_err());
        let endless = b"1 2 pwrite 5 0 9223372036854775807\n";
        assert!(parse("android-facebook", endless).is_err());
        assert!(parse("android-facebook", b"1 2 open\n").is_err());
    }
}
