//! `netbench-client`: file operations of one client.
//!
//! A handle stands for the path it was opened with. Creating over a file
//! (dispositions 2 and 5) cuts it to nothing, renaming over one removes it. An
//! `Unlink` may name a pattern with `*` or `?`. There is no clock: an operation
//! takes a millisecond. The trace begins by removing everything, so passes
//! begin alike.

use super::TraceError;
use super::file_set::FileSet;
use super::lines::{LONGEST_PATH, Line, MOST_OPEN, lines};
use super::records::Parsed;
use std::collections::HashMap;

const STEP_NS: u64 = 1_000_000;

/// Reads the trace.
pub fn parse(name: &'static str, trace: &[u8]) -> Result<Parsed, TraceError> {
    let mut files = FileSet::default();
    let mut reader = Reader::default();
    for line in lines(name, trace)? {
        reader.line(&mut files, &line)?;
    }
    Ok(files.finish())
}

/// What is known between lines.
#[derive(Default)]
pub struct Reader {
    handles: HashMap<i64, String>,
}

impl Reader {
    /// Does what a line says.
    pub fn line(&mut self, files: &mut FileSet, line: &Line<'_>) -> Result<(), TraceError> {
        let (operation, rest) = line.text.split_once(' ').unwrap_or((line.text, ""));
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        apply(files, &mut self.handles, line, operation, &fields)?;
        if self.handles.len() > MOST_OPEN {
            return Err(line.wrong("more files are open than any system allows"));
        }
        files.wait(STEP_NS);
        Ok(())
    }
}

fn apply(
    files: &mut FileSet,
    handles: &mut HashMap<i64, String>,
    line: &Line<'_>,
    operation: &str,
    fields: &[&str],
) -> Result<(), TraceError> {
    let field = |at: usize| fields.get(at).copied();
    let path = |at: usize| {
        let text = field(at).ok_or_else(|| line.wrong("a path is missing"))?;
        if text.len() > LONGEST_PATH {
            return Err(line.wrong("it is longer than any path"));
        }
        // The server's names do not tell case apart.
        Ok(text.to_ascii_uppercase())
    };
    match operation {
        "NTCreateX" => {
            let handle = line.number(field(3))?;
            let name = path(0)?;
            if handle >= 0 {
                if matches!(field(2), Some("0x2" | "0x5")) {
                    files.remove(&name);
                }
                handles.insert(handle, name);
            }
        }
        "Close" => {
            handles.remove(&line.number(field(0))?);
        }
        "WriteX" | "ReadX" => {
            let handle: i64 = line.number(field(0))?;
            let offset = line.number(field(1))?;
            let bytes = line.length(line.number(field(2))?)?;
            if let Some(name) = handles.get(&handle) {
                match operation {
                    "WriteX" => files.write(name, offset, bytes),
                    _ => files.read(name, offset, bytes),
                }
            }
        }
        "Flush" => files.sync(),
        "Rename" => files.rename(&path(0)?, &path(1)?),
        "Unlink" => {
            let pattern = path(0)?;
            match pattern.contains(['*', '?']) {
                true => files.remove_all(|name| matches(pattern.as_bytes(), name.as_bytes())),
                false => files.remove(&pattern),
            }
        }
        "Deltree" | "Rmdir" => {
            let below = format!("{}\\", path(0)?);
            files.remove_all(|name| name.starts_with(&below));
        }
        "FIND_FIRST"
        | "QUERY_PATH_INFORMATION"
        | "QUERY_FILE_INFORMATION"
        | "QUERY_FS_INFORMATION" => {}
        _ => return Err(line.wrong("there is no such operation")),
    }
    Ok(())
}

/// Whether a pattern with `*` and `?` accepts a name.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    // Where to go on after the last star, and how much it has taken.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, n));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((after, taken)) => {
                    star = Some((after, taken + 1));
                    (p, n) = (after, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Op;

    #[test]
    fn a_day_at_the_office() {
        let text = b"NTCreateX \\c\\a 0x40 0x2 1\nWriteX 1 0 8192 8192\nFlush 1\nClose 1\n\
            NTCreateX \\c\\b 0x40 0x1 -1\nRename \\c\\A \\c\\b\nUnlink \\c\\*\n";
        let ops = parse("netbench-client", text).unwrap().ops;
        let ops: Vec<Op> = ops
            .into_iter()
            .filter(|op| !matches!(op, Op::Wait { .. }))
            .collect();
        let write = |block| Op::Write { block };
        let trim = |block| Op::Trim { block };
        assert_eq!(ops, [write(0), write(1), Op::Sync, trim(0), trim(1)]);
        assert!(parse("netbench-client", b"WriteX 1 2\n").is_err());
        assert!(parse("netbench-client", b"Dance\n").is_err());
        let endless = b"NTCreateX \\c\\a 0x40 0x2 1\nWriteX 1 0 9999999999999 0\n";
        assert!(parse("netbench-client", endless).is_err());
    }

    #[test]
    fn patterns() {
        for (pattern, name, accepts) in [
            ("A*C", "ABBC", true),
            ("A*C", "ABB", false),
            ("*", "", true),
            ("A?", "AB", true),
            ("A?", "A", false),
            ("*.T*P", "X.T.TMP", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                accepts,
                "{pattern} {name}"
            );
        }
    }
}
