//! File operations as strace(1) writes them, for example by
//! `strace -f -ttt -y -e trace=file,desc -o FILE COMMAND`.
//!
//! A line is a call with its result: `openat(AT_FDCWD, "a", O_RDWR) = 3`,
//! `pwrite64(3, "..."..., 4096, 8192) = 4096`. Before it may stand a process
//! (`1234` or `[pid 1234]`) and a time (`-t`, `-tt`, `-ttt`). Calls that were
//! interrupted (`<unfinished ...>`) are joined with their end. Calls that failed,
//! signals and calls that move nothing are left out; of a call that moves more than
//! 64 MiB the first 64 count. Without times a call takes a millisecond.
//!
//! A descriptor is the path that `-y` shows. Without, it is the file that this
//! process opened, or a line without a process before it; of any other only the
//! number is known. Threads are not told from processes, so each goes on where its
//! own last call on that path ended, from the beginning if there was none. Relative
//! names are completed where `-y` has shown the directory.

mod call;

use super::TraceError;
use super::file_set::FileSet;
use super::lines::{LONGEST, LONGEST_PATH, Line, MOST_OPEN};
use call::{Call, number, parsed, prefix, shown, unquoted};
use std::collections::HashMap;

const STEP_NS: u64 = 1_000_000;
/// No system has more processes and threads.
const MOST_PROCESSES: usize = 1 << 22;
/// Bytes of the calls that are unfinished.
const UNFINISHED_BYTES: usize = 64 << 20;
/// No call moves more: Linux ends them a page below 2 GiB.
const LONGEST_CALL: u64 = 1 << 31;

/// What is known between lines.
#[derive(Debug, Default)]
pub struct Reader {
    processes: HashMap<u64, Process>,
    /// Files that are open.
    open: usize,
    unfinished_bytes: usize,
    last_ns: Option<u64>,
}

#[derive(Debug, Default)]
struct Process {
    /// By descriptor.
    open: HashMap<i64, Opened>,
    /// Where relative names begin, as far as it is known.
    directory: Option<String>,
    unfinished: Option<String>,
}

#[derive(Debug, Clone)]
struct Opened {
    path: String,
    position: u64,
    append: bool,
}

impl Reader {
    /// Does what a line says.
    pub fn line(&mut self, files: &mut FileSet, line: &Line<'_>) -> Result<(), TraceError> {
        let (process, at_ns, text) = prefix(line.text);
        self.pass_time(files, at_ns);
        if text.starts_with("+++") {
            let ended = self.processes.remove(&process).unwrap_or_default();
            self.open -= ended.open.len();
            self.unfinished_bytes -= ended.unfinished.map_or(0, |begun| begun.len());
            return Ok(());
        }
        if text.starts_with("---") {
            return Ok(());
        }
        if self.processes.len() >= MOST_PROCESSES && !self.processes.contains_key(&process) {
            return Err(line.wrong("there are more processes than any system allows"));
        }
        let unfinished = &mut self.processes.entry(process).or_default().unfinished;
        let before = unfinished.take();
        self.unfinished_bytes -= before.as_ref().map_or(0, String::len);
        if let Some(begun) = text.strip_suffix("<unfinished ...>") {
            *unfinished = Some(begun.to_owned());
            self.unfinished_bytes += begun.len();
            return match self.unfinished_bytes <= UNFINISHED_BYTES {
                true => Ok(()),
                false => Err(line.wrong("more calls are unfinished than there can be threads")),
            };
        }
        let joined = match text.strip_prefix("<... ") {
            None => text.to_owned(),
            Some(end) => {
                let Some((_, end)) = end.split_once(" resumed>") else {
                    return Err(line.wrong("the end of a call is cut short"));
                };
                // What was begun before the trace is not known.
                let Some(begun) = before else {
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
        let argument = |at| call.argument(at);
        match call.name {
            "open" | "creat" => self.open(files, line, call, None, [argument(0), argument(1)])?,
            "openat" | "openat2" => {
                let directory = Some(argument(0));
                self.open(files, line, call, directory, [argument(1), argument(2)])?;
            }
            "close" => self.close(call.process, number(argument(0))),
            "dup" | "dup2" | "dup3" => self.duplicate(line, call)?,
            "fcntl" if argument(1).starts_with("F_DUPFD") => self.duplicate(line, call)?,
            // As if it had no place of its own.
            "pwritev2" | "preadv2" if argument(3) == "-1" => self.go_on(files, line, call)?,
            "pwrite64" | "pwrite" | "pwritev" | "pwritev2" => {
                let offset = line.number(Some(argument(3)))?;
                files.write(&self.name(call), offset, moved(line, call)?);
            }
            "pread64" | "pread" | "preadv" | "preadv2" => {
                let offset = line.number(Some(argument(3)))?;
                files.read(&self.name(call), offset, moved(line, call)?);
            }
            "write" | "writev" | "read" | "readv" => self.go_on(files, line, call)?,
            "lseek" => {
                if let Some(opened) = self.opened(line, call)? {
                    opened.position = call.result.unsigned_abs();
                }
            }
            // Where it has come to stands between brackets.
            "_llseek" => {
                let position = argument(2).trim_matches(['[', ']']);
                let position = line.number(Some(position))?;
                if let Some(opened) = self.opened(line, call)? {
                    opened.position = position;
                }
            }
            "ftruncate" | "ftruncate64" if argument(1) == "0" => files.remove(&self.name(call)),
            "truncate" | "truncate64" if argument(1) == "0" => {
                files.remove(&self.path(line, call, None, argument(0))?);
            }
            "fsync" | "fdatasync" | "sync" | "syncfs" | "msync" => files.sync(),
            "unlink" => files.remove(&self.path(line, call, None, argument(0))?),
            "unlinkat" => files.remove(&self.path(line, call, Some(argument(0)), argument(1))?),
            "rename" => {
                let old = self.path(line, call, None, argument(0))?;
                files.rename(&old, &self.path(line, call, None, argument(1))?);
            }
            "renameat" | "renameat2" => {
                let old = self.path(line, call, Some(argument(0)), argument(1))?;
                files.rename(
                    &old,
                    &self.path(line, call, Some(argument(2)), argument(3))?,
                );
            }
            "chdir" => {
                let directory = self.path(line, call, None, argument(0))?;
                self.process(call.process).directory = Some(directory);
            }
            "fchdir" => {
                self.process(call.process).directory = shown(argument(0)).map(str::to_owned);
            }
            _ => {}
        }
        Ok(())
    }

    fn process(&mut self, process: u64) -> &mut Process {
        self.processes.entry(process).or_default()
    }

    fn open(
        &mut self,
        files: &mut FileSet,
        line: &Line<'_>,
        call: &Call<'_>,
        directory: Option<&str>,
        [name, flags]: [&str; 2],
    ) -> Result<(), TraceError> {
        let named = self.path(line, call, directory, name)?;
        let path = shown(call.returned).map_or(named, str::to_owned);
        if call.name == "creat" || flags.contains("O_TRUNC") {
            files.remove(&path);
        }
        let opened = Opened {
            path,
            position: 0,
            append: flags.contains("O_APPEND"),
        };
        self.insert(line, call.process, call.result, opened)
    }

    fn insert(
        &mut self,
        line: &Line<'_>,
        process: u64,
        descriptor: i64,
        opened: Opened,
    ) -> Result<(), TraceError> {
        let before = self.process(process).open.insert(descriptor, opened);
        self.open += usize::from(before.is_none());
        match self.open > MOST_OPEN {
            true => Err(line.wrong("more files are open than any system allows")),
            false => Ok(()),
        }
    }

    fn close(&mut self, process: u64, descriptor: i64) {
        let closed = self.process(process).open.remove(&descriptor);
        self.open -= usize::from(closed.is_some());
    }

    fn duplicate(&mut self, line: &Line<'_>, call: &Call<'_>) -> Result<(), TraceError> {
        match self.opened(line, call)?.cloned() {
            Some(opened) => self.insert(line, call.process, call.result, opened),
            None => {
                self.close(call.process, call.result);
                Ok(())
            }
        }
    }

    /// What a descriptor is known to be: the process's own, or inherited of the
    /// one that was traced first, whose lines may have no process before them.
    fn known(&self, call: &Call<'_>) -> Option<(u64, &Opened)> {
        let descriptor = number(call.argument(0));
        [call.process, 0].into_iter().find_map(|process| {
            let open = &self.processes.get(&process)?.open;
            open.get(&descriptor).map(|opened| (process, opened))
        })
    }

    /// What the first argument is, if it is a file. Of what was not seen opened,
    /// pipes and terminals are not told from files: without `-y` it is none.
    fn opened(
        &mut self,
        line: &Line<'_>,
        call: &Call<'_>,
    ) -> Result<Option<&mut Opened>, TraceError> {
        let descriptor = number(call.argument(0));
        let known = self.known(call);
        let owner = match (known, shown(call.argument(0))) {
            (Some((process, _)), None) => process,
            (Some((process, opened)), Some(path)) if opened.path == path => process,
            (_, Some(path)) if path.starts_with('/') && !path.starts_with("/dev/") => {
                let opened = Opened {
                    path: path.to_owned(),
                    position: 0,
                    append: false,
                };
                self.insert(line, call.process, descriptor, opened)?;
                call.process
            }
            _ => return Ok(None),
        };
        Ok(self.process(owner).open.get_mut(&descriptor))
    }

    /// The file of the first argument, a descriptor.
    fn name(&self, call: &Call<'_>) -> String {
        if let Some(path) = shown(call.argument(0)) {
            return path.to_owned();
        }
        match self.known(call) {
            Some((_, opened)) => opened.path.clone(),
            None => format!("{}:{}", call.process, number(call.argument(0))),
        }
    }

    /// The file of a name, below a directory if the call has one.
    fn path(
        &mut self,
        line: &Line<'_>,
        call: &Call<'_>,
        directory: Option<&str>,
        name: &str,
    ) -> Result<String, TraceError> {
        let name = unquoted(name);
        let below = match directory {
            // With `-y`, `AT_FDCWD</home>`.
            Some(directory) if directory.starts_with("AT_FDCWD") => {
                if let Some(path) = shown(directory) {
                    self.process(call.process).directory = Some(path.to_owned());
                }
                self.process(call.process).directory.as_deref()
            }
            Some(directory) => shown(directory),
            None => self.process(call.process).directory.as_deref(),
        };
        let path = match below {
            Some(directory) if !name.starts_with('/') => {
                let name = name.strip_prefix("./").unwrap_or(name);
                format!("{}/{name}", directory.trim_end_matches('/'))
            }
            _ => name.to_owned(),
        };
        match path.len() <= LONGEST_PATH {
            true => Ok(path),
            false => Err(line.wrong("it is longer than any path")),
        }
    }

    /// Reads or writes where the last call ended.
    fn go_on(
        &mut self,
        files: &mut FileSet,
        line: &Line<'_>,
        call: &Call<'_>,
    ) -> Result<(), TraceError> {
        let bytes = moved(line, call)?;
        let writes = call.name.contains("write");
        let Some(opened) = self.opened(line, call)? else {
            return Ok(());
        };
        if writes && opened.append {
            opened.position = opened.position.max(files.length(&opened.path));
        }
        let offset = opened.position;
        opened.position = offset.saturating_add(call.result.unsigned_abs());
        match writes {
            true => files.write(&opened.path, offset, bytes),
            false => files.read(&opened.path, offset, bytes),
        }
        Ok(())
    }
}

/// The bytes that count of a call that moves some.
fn moved(line: &Line<'_>, call: &Call<'_>) -> Result<u64, TraceError> {
    match call.result.unsigned_abs() {
        bytes if bytes > LONGEST_CALL => Err(line.wrong("it is longer than any request")),
        bytes => Ok(bytes.min(LONGEST)),
    }
}

#[cfg(test)]
mod tests;
