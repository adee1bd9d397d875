//! File operations as strace(1) writes them, for example by
//! `strace -f -ttt -y -e trace=file,desc -o FILE COMMAND`.
//!
//! A line is a call with its result: `openat(AT_FDCWD, "a", O_RDWR) = 3`,
//! `pwrite64(3, "..."..., 4096, 8192) = 4096`. Before it may stand a process
//! (`1234` or `[pid 1234]`) and a time (`-t`, `-tt`, `-ttt`, `-r`). Calls that
//! were interrupted (`<unfinished ...>`) are joined with their end. A descriptor
//! is the file it was opened with, or the path that `-y` adds; what was open
//! before the trace began has no name but its number. Calls that failed, signals
//! and calls that move nothing are left out. Without times a call takes a
//! millisecond.

use super::TraceError;
use super::file_set::FileSet;
use super::lines::{LONGEST, Line, MOST_OPEN};
use std::collections::HashMap;

const STEP_NS: u64 = 1_000_000;
/// No process has more calls unfinished than threads.
const MOST_UNFINISHED: usize = 1 << 16;

/// What is known between lines.
#[derive(Debug, Default)]
pub struct Reader {
    open: HashMap<(u64, i64), Opened>,
    unfinished: HashMap<u64, String>,
    last_ns: Option<u64>,
}

#[derive(Debug, Clone)]
struct Opened {
    path: String,
    position: u64,
    append: bool,
}

/// A line in parts.
struct Call<'a> {
    process: u64,
    name: &'a str,
    arguments: Vec<&'a str>,
    result: i64,
}

impl Reader {
    /// Does what a line says.
    pub fn line(&mut self, files: &mut FileSet, line: &Line<'_>) -> Result<(), TraceError> {
        let (process, at_ns, text) = prefix(line.text);
        self.pass_time(files, at_ns);
        if text.starts_with("+++") || text.starts_with("---") {
            return Ok(());
        }
        if let Some(begun) = text.strip_suffix("<unfinished ...>") {
            if self.unfinished.len() >= MOST_UNFINISHED {
                return Err(line.wrong("more calls are unfinished than there can be threads"));
            }
            self.unfinished.insert(process, begun.to_owned());
            return Ok(());
        }
        let joined = match text.strip_prefix("<... ") {
            None => text.to_owned(),
            Some(end) => {
                let Some((_, end)) = end.split_once(" resumed>") else {
                    return Err(line.wrong("the end of a call is cut short"));
                };
                // What was begun before the trace is not known.
                let Some(begun) = self.unfinished.remove(&process) else {
                    return Ok(());
                };
                begun + end
            }
        };
        let call = parsed(process, &joined)
            .ok_or_else(|| line.wrong("it is no call with a result, as close(3) = 0"))?;
        if call.result >= 0 {
            self.apply(files, line, &call)?;
        }
        Ok(())
    }

    fn pass_time(&mut self, files: &mut FileSet, at_ns: Option<u64>) {
        let ns = match (at_ns, self.last_ns) {
            (None, _) => STEP_NS,
            (Some(now), Some(before)) => now.saturating_sub(before),
            (Some(_), None) => 0,
        };
        self.last_ns = at_ns.max(self.last_ns);
        if ns > 0 {
            files.wait(ns);
        }
    }

    fn apply(
        &mut self,
        files: &mut FileSet,
        line: &Line<'_>,
        call: &Call<'_>,
    ) -> Result<(), TraceError> {
        let argument = |at: usize| call.arguments.get(at).copied().unwrap_or_default();
        let moved = call.result.unsigned_abs();
        let moves = call.name.contains("read") || call.name.contains("write");
        if moves && moved > LONGEST {
            return Err(line.wrong("it is longer than any request"));
        }
        match call.name {
            "open" | "creat" => self.open(files, line, call, argument(0), argument(1))?,
            "openat" | "openat2" => self.open(files, line, call, argument(1), argument(2))?,
            "close" => {
                self.open.remove(&self.key(call, argument(0)));
            }
            "dup" | "dup2" | "dup3" => self.duplicate(call, argument(0)),
            "fcntl" if argument(1).starts_with("F_DUPFD") => self.duplicate(call, argument(0)),
            "pwrite64" | "pwrite" => {
                let offset = line.number(Some(argument(3)))?;
                files.write(&self.name(call, argument(0)), offset, moved);
            }
            "pwritev" | "pwritev2" => {
                let offset = line.number(Some(argument(3)))?;
                files.write(&self.name(call, argument(0)), offset, moved);
            }
            "pread64" | "pread" | "preadv" | "preadv2" => {
                let offset = line.number(Some(argument(3)))?;
                files.read(&self.name(call, argument(0)), offset, moved);
            }
            "write" | "writev" | "read" | "readv" => {
                let writes = call.name.starts_with('w');
                self.go_on(files, call, argument(0), moved, writes);
            }
            "lseek" | "_llseek" => {
                let key = self.key(call, argument(0));
                if let Some(opened) = self.open.get_mut(&key) {
                    opened.position = moved;
                }
            }
            "ftruncate" | "ftruncate64" if argument(1) == "0" => {
                files.remove(&self.name(call, argument(0)));
            }
            "truncate" | "truncate64" if argument(1) == "0" => files.remove(path(argument(0))),
            "fsync" | "fdatasync" | "sync" | "syncfs" | "msync" => files.sync(),
            "unlink" => files.remove(path(argument(0))),
            "unlinkat" => files.remove(path(argument(1))),
            "rename" => files.rename(path(argument(0)), path(argument(1))),
            "renameat" | "renameat2" => files.rename(path(argument(1)), path(argument(3))),
            _ => {}
        }
        Ok(())
    }

    fn open(
        &mut self,
        files: &mut FileSet,
        line: &Line<'_>,
        call: &Call<'_>,
        name: &str,
        flags: &str,
    ) -> Result<(), TraceError> {
        let path = path(name);
        if call.name == "creat" || flags.contains("O_TRUNC") {
            files.remove(path);
        }
        let opened = Opened {
            path: path.to_owned(),
            position: 0,
            append: flags.contains("O_APPEND"),
        };
        self.open.insert((call.process, call.result), opened);
        match self.open.len() > MOST_OPEN {
            true => Err(line.wrong("more files are open than any system allows")),
            false => Ok(()),
        }
    }

    fn duplicate(&mut self, call: &Call<'_>, descriptor: &str) {
        if let Some(opened) = self.open.get(&self.key(call, descriptor)).cloned() {
            self.open.insert((call.process, call.result), opened);
        }
    }

    /// Threads share descriptors, and the trace does not tell who is one: a
    /// descriptor that a process did not open itself may be any process's.
    fn key(&self, call: &Call<'_>, descriptor: &str) -> (u64, i64) {
        let number = number(descriptor);
        let own = (call.process, number);
        match self.open.contains_key(&own) {
            true => own,
            false => (0, number),
        }
    }

    fn name(&self, call: &Call<'_>, descriptor: &str) -> String {
        if let Some(opened) = self.open.get(&self.key(call, descriptor)) {
            return opened.path.clone();
        }
        match descriptor.split_once('<') {
            Some((_, path)) => path.trim_end_matches('>').to_owned(),
            None => format!("{}:{}", call.process, number(descriptor)),
        }
    }

    /// Reads or writes where the last call ended. Of what was not seen opened,
    /// pipes and terminals are not told from files: without `-y` it is left out.
    fn go_on(
        &mut self,
        files: &mut FileSet,
        call: &Call<'_>,
        descriptor: &str,
        bytes: u64,
        writes: bool,
    ) {
        let key = self.key(call, descriptor);
        if !self.open.contains_key(&key) {
            let named = descriptor.split_once('<').map(|(_, path)| path);
            if !named.is_some_and(|path| path.starts_with('/') && !path.starts_with("/dev/")) {
                return;
            }
            let path = self.name(call, descriptor);
            let opened = Opened {
                path,
                position: 0,
                append: false,
            };
            if self.open.len() >= MOST_OPEN {
                return;
            }
            self.open.insert(key, opened);
        }
        let Some(opened) = self.open.get_mut(&key) else {
            return;
        };
        if writes && opened.append {
            opened.position = opened.position.max(files.length(&opened.path));
        }
        let offset = opened.position;
        opened.position = offset.saturating_add(bytes);
        match writes {
            true => files.write(&opened.path, offset, bytes),
            false => files.read(&opened.path, offset, bytes),
        }
    }
}

/// Process, time and rest of a line.
fn prefix(line: &str) -> (u64, Option<u64>, &str) {
    let mut rest = line.trim();
    let mut process = 0;
    if let Some(after) = rest.strip_prefix("[pid") {
        let (number, after) = after.split_once(']').unwrap_or((after, ""));
        process = number.trim().parse().unwrap_or(0);
        rest = after.trim_start();
    } else if let Some((first, after)) = rest.split_once(' ')
        && let Ok(number) = first.parse()
    {
        process = number;
        rest = after.trim_start();
    }
    if let Some((first, after)) = rest.split_once(' ')
        && let Some(ns) = time_ns(first)
    {
        return (process, Some(ns), after.trim_start());
    }
    (process, None, rest)
}

/// `12:34:56.789` or `1700000000.123456` in nanoseconds.
fn time_ns(text: &str) -> Option<u64> {
    let mut seconds = 0.0;
    if !text.contains([':', '.']) {
        return None;
    }
    for part in text.split(':') {
        let value: f64 = part.parse().ok()?;
        seconds = seconds * 60.0 + value;
    }
    (0.0..1e12)
        .contains(&seconds)
        .then_some((seconds * 1e9) as u64)
}

fn parsed(process: u64, text: &str) -> Option<Call<'_>> {
    let (name, rest) = text.split_once('(')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    let (arguments, rest) = arguments(rest)?;
    let result = rest.trim_start().strip_prefix('=')?.trim_start();
    // `= ?` is a call that never came back.
    let result = match result.starts_with('?') {
        true => -1,
        false => number_in(result)?,
    };
    Some(Call {
        process,
        name,
        arguments,
        result,
    })
}

/// The arguments and what follows their bracket. Commas and brackets in strings,
/// structures and lists part nothing.
fn arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let mut found = Vec::new();
    let (mut depth, mut from, mut quoted, mut escaped) = (0u32, 0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        if quoted {
            (escaped, quoted) = (byte == b'\\' && !escaped, byte != b'"' || escaped);
            continue;
        }
        match byte {
            b'"' => quoted = true,
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                found.push(text[from..at].trim());
                return Some((found, &text[at + 1..]));
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                found.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// A quoted path, without what strace adds.
fn path(argument: &str) -> &str {
    let text = argument.trim_end_matches("...");
    text.trim_matches('"')
}

/// The number of a descriptor, whatever `-y` put behind it.
fn number(descriptor: &str) -> i64 {
    number_in(descriptor).unwrap_or(-1)
}

/// The number that a text begins with, decimal or hexadecimal.
fn number_in(text: &str) -> Option<i64> {
    if let Some(digits) = text.strip_prefix("0x") {
        let end = digits.find(|c: char| !c.is_ascii_hexdigit());
        return i64::from_str_radix(&digits[..end.unwrap_or(digits.len())], 16).ok();
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let end = digits.find(|c: char| !c.is_ascii_digit());
    let value: i64 = digits[..end.unwrap_or(digits.len())].parse().ok()?;
    Some(if text.starts_with('-') { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Op;

    fn ops(text: &str) -> Result<Vec<Op>, TraceError> {
        let mut files = FileSet::default();
        let mut reader = Reader::default();
        for (at, text) in text.lines().enumerate() {
            let line = Line {
                name: "t",
                record: at + 1,
                text,
            };
            reader.line(&mut files, &line)?;
        }
        let ops = files.finish().ops.into_iter();
        Ok(ops.filter(|op| !matches!(op, Op::Wait { .. })).collect())
    }

    const WRITE: fn(u32) -> Op = |block| Op::Write { block };

    #[test]
    fn calls_become_operations() {
        let text = "\
1700000000.000001 openat(AT_FDCWD, \"/d/a, (b\\\"\", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3
1700000000.100001 write(3, \"x\\\", (y\"..., 4096) = 4096
1700000000.200001 write(3, \"z\", 4096) = 100
1700000000.300001 pwrite64(3, \"\"..., 4096, 4096) = -1 ENOSPC (No space left on device)
1700000000.300001 fsync(3)                = 0
1700000000.300001 lseek(3, 0, SEEK_SET)   = 0
1700000000.300001 read(3, \"\"..., 8192)    = 4196
1700000000.300001 close(3)                = 0
1700000000.300001 write(3, \"nobody's\", 8) = 8
1700000000.300001 rename(\"/d/a, (b\\\"\", \"/d/c\") = 0
1700000000.300001 unlink(\"/d/c\")          = 0
--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---
+++ exited with 0 +++
";
        let read = |block| Op::Read { block };
        let trim = |block| Op::Trim { block };
        let want = [
            WRITE(0),
            WRITE(1),
            Op::Sync,
            read(0),
            read(1),
            trim(0),
            trim(1),
        ];
        assert_eq!(ops(text).unwrap(), want);
    }

    #[test]
    fn threads_paths_and_interrupted_calls() {
        let text = "\
[pid 10] 12:00:00.5 pwrite64(7</x/y>, \"\"..., 4096, 0 <unfinished ...>
[pid 11] 12:00:00.6 write(1</dev/pts/0>, \"a\", 1) = 1
[pid 11] 12:00:00.6 write(8</x/z>, \"a\", 1) = 1
[pid 10] 12:00:00.7 <... pwrite64 resumed>) = 4096
[pid 12] 12:00:00.7 <... futex resumed>) = 0
10 openat(AT_FDCWD, \"/l\", O_WRONLY|O_APPEND) = 9
10 write(9, \"\"..., 4096) = 4096
10 openat(AT_FDCWD, \"/l\", O_WRONLY|O_APPEND) = 10
10 write(10, \"\"..., 4096) = 4096
10 exit_group(0) = ?
";
        let blocks = [0, 1, 2, 3].map(WRITE);
        assert_eq!(ops(text).unwrap(), blocks);
    }

    #[test]
    fn nonsense_is_refused_with_its_line() {
        for wrong in [
            "hello",
            "write(3, \"abc",
            "write(3, \"abc\", 3)",
            "pwrite64(3, \"\", 4096, x) = 4096",
            "pwrite64(3, \"\", 4096, 0) = 99999999999",
            "<... write res",
        ] {
            let error = ops(&format!("close(1) = 0\n{wrong}\n")).unwrap_err();
            let error = error.to_string();
            assert!(error.starts_with("t, record 2: "), "{error}");
        }
    }
}
