//! Formats and parses operations.

use super::{File, Operation, Over, Path, Range};
use std::fmt;
use std::str::FromStr;

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "/" } else { &self.0 })
    }
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            File::At(path) => path.fmt(f),
            File::Open(slot) => write!(f, "@{slot}"),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.offset, self.length)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Operation as O;
        match self {
            O::Create(path) => write!(f, "create {path}"),
            O::Fifo(path) => write!(f, "fifo {path}"),
            O::Mkdir(path) => write!(f, "mkdir {path}"),
            O::Symlink { path, length } => write!(f, "symlink {path} {length}"),
            O::Link { from, to } => write!(f, "link {from} {to}"),
            O::Unlink(path) => write!(f, "unlink {path}"),
            O::Rmdir(path) => write!(f, "rmdir {path}"),
            O::Rename { from, to, over } => {
                let word = match over {
                    Over::Replace => "rename",
                    Over::Refuse => "rename-noreplace",
                    Over::Exchange => "exchange",
                    Over::Whiteout => "rename-whiteout",
                };
                write!(f, "{word} {from} {to}")
            }
            O::Chmod { path, mode } => write!(f, "chmod {path} {mode:o}"),
            O::Chown { path, uid, gid } => write!(f, "chown {path} {uid} {gid}"),
            O::SetXattr {
                path,
                name,
                length,
                pattern,
            } => {
                write!(f, "setxattr {path} {name} {length} #{pattern}")
            }
            O::RemoveXattr { path, name } => write!(f, "removexattr {path} {name}"),
            O::Write {
                file,
                range,
                pattern,
            } => write!(f, "write {file} {range} #{pattern}"),
            O::Read { file, range } => write!(f, "read {file} {range}"),
            O::Truncate { file, size } => write!(f, "truncate {file} {size}"),
            O::Punch { file, range } => write!(f, "punch {file} {range}"),
            O::Zero { file, range } => write!(f, "zero {file} {range}"),
            O::Reserve {
                file,
                range,
                keep_size: false,
            } => write!(f, "reserve {file} {range}"),
            O::Reserve {
                file,
                range,
                keep_size: true,
            } => {
                write!(f, "reserve-keep {file} {range}")
            }
            O::Copy {
                from,
                range,
                to,
                offset,
            } => write!(f, "copy {from} {range} {to} {offset}"),
            O::Open { path, slot } => write!(f, "open {path} @{slot}"),
            O::Close { slot } => write!(f, "close @{slot}"),
            O::Fsync {
                file,
                data_only: false,
            } => write!(f, "fsync {file}"),
            O::Fsync {
                file,
                data_only: true,
            } => write!(f, "fdatasync {file}"),
            O::Sync => f.write_str("sync"),
            O::WriteBack => f.write_str("write-back"),
            O::Checkpoint => f.write_str("checkpoint"),
            O::LayoutCheckpoint => f.write_str("layout-checkpoint"),
            O::Clean => f.write_str("clean"),
            O::Coalesce => f.write_str("coalesce"),
            O::Claim => f.write_str("claim"),
            O::Move => f.write_str("move"),
            O::Stranger(which) => write!(f, "stranger {which}"),
            O::SwitchPolicy => f.write_str("switch-policy"),
            O::Maintain => f.write_str("maintain"),
            O::DropCaches => f.write_str("drop-caches"),
            O::Remount => f.write_str("remount"),
            O::Kill => f.write_str("kill"),
        }
    }
}

/// Error: a line is not an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadOperation(pub String);

impl fmt::Display for BadOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an operation: {}", self.0)
    }
}

impl std::error::Error for BadOperation {}

impl FromStr for Path {
    type Err = BadOperation;

    fn from_str(text: &str) -> Result<Self, BadOperation> {
        Ok(Path(text.trim_matches('/').to_owned()))
    }
}

impl FromStr for File {
    type Err = BadOperation;

    fn from_str(text: &str) -> Result<Self, BadOperation> {
        match text.strip_prefix('@') {
            Some(slot) => Ok(File::Open(number(slot, 10)? as u8)),
            None => Ok(File::At(text.parse()?)),
        }
    }
}

impl FromStr for Range {
    type Err = BadOperation;

    fn from_str(text: &str) -> Result<Self, BadOperation> {
        let bad = || BadOperation(text.to_owned());
        let (offset, length) = text.split_once('+').ok_or_else(bad)?;
        Ok(Range {
            offset: number(offset, 10)?,
            length: number(length, 10)?,
        })
    }
}

fn number(text: &str, radix: u32) -> Result<u64, BadOperation> {
    let digits = text.trim_start_matches(['#', '@']);
    u64::from_str_radix(digits, radix).map_err(|_| BadOperation(text.to_owned()))
}

/// A line of a story, split at blanks.
struct Words<'a> {
    line: &'a str,
    words: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn bad(&self) -> BadOperation {
        BadOperation(self.line.to_owned())
    }

    fn word(&self, index: usize) -> Result<&'a str, BadOperation> {
        self.words.get(index).copied().ok_or_else(|| self.bad())
    }

    fn path(&self, index: usize) -> Result<Path, BadOperation> {
        self.word(index)?.parse()
    }

    fn file(&self, index: usize) -> Result<File, BadOperation> {
        self.word(index)?.parse()
    }

    fn range(&self, index: usize) -> Result<Range, BadOperation> {
        self.word(index)?.parse()
    }

    fn decimal(&self, index: usize) -> Result<u64, BadOperation> {
        number(self.word(index)?, 10)
    }
}

impl FromStr for Operation {
    type Err = BadOperation;

    fn from_str(line: &str) -> Result<Self, BadOperation> {
        use Operation as O;
        let words = Words {
            line,
            words: line.split_whitespace().collect(),
        };
        match words.word(0)? {
            "sync" => Ok(O::Sync),
            "write-back" => Ok(O::WriteBack),
            "checkpoint" => Ok(O::Checkpoint),
            "layout-checkpoint" => Ok(O::LayoutCheckpoint),
            "clean" => Ok(O::Clean),
            "coalesce" => Ok(O::Coalesce),
            "claim" => Ok(O::Claim),
            "move" => Ok(O::Move),
            "stranger" => Ok(O::Stranger(words.decimal(1)? as u8)),
            "switch-policy" => Ok(O::SwitchPolicy),
            "maintain" => Ok(O::Maintain),
            "drop-caches" => Ok(O::DropCaches),
            "remount" => Ok(O::Remount),
            "kill" => Ok(O::Kill),
            _ => on_names(&words),
        }
    }
}

/// Parses operations on names and attributes.
fn on_names(words: &Words<'_>) -> Result<Operation, BadOperation> {
    use Operation as O;
    let rename = |over| {
        Ok(O::Rename {
            from: words.path(1)?,
            to: words.path(2)?,
            over,
        })
    };
    match words.word(0)? {
        "create" => Ok(O::Create(words.path(1)?)),
        "fifo" => Ok(O::Fifo(words.path(1)?)),
        "mkdir" => Ok(O::Mkdir(words.path(1)?)),
        "symlink" => Ok(O::Symlink {
            path: words.path(1)?,
            length: words.decimal(2)?,
        }),
        "link" => Ok(O::Link {
            from: words.path(1)?,
            to: words.path(2)?,
        }),
        "unlink" => Ok(O::Unlink(words.path(1)?)),
        "rmdir" => Ok(O::Rmdir(words.path(1)?)),
        "rename" => rename(Over::Replace),
        "rename-noreplace" => rename(Over::Refuse),
        "exchange" => rename(Over::Exchange),
        "rename-whiteout" => rename(Over::Whiteout),
        "chmod" => Ok(O::Chmod {
            path: words.path(1)?,
            mode: number(words.word(2)?, 8)? as u32,
        }),
        "chown" => Ok(O::Chown {
            path: words.path(1)?,
            uid: words.decimal(2)? as u32,
            gid: words.decimal(3)? as u32,
        }),
        "setxattr" => Ok(O::SetXattr {
            path: words.path(1)?,
            name: words.word(2)?.to_owned(),
            length: words.decimal(3)?,
            pattern: words.decimal(4)?,
        }),
        "removexattr" => Ok(O::RemoveXattr {
            path: words.path(1)?,
            name: words.word(2)?.to_owned(),
        }),
        _ => on_data(words),
    }
}

/// Parses operations on content.
fn on_data(words: &Words<'_>) -> Result<Operation, BadOperation> {
    use Operation as O;
    let reserve = |keep_size| {
        Ok(O::Reserve {
            file: words.file(1)?,
            range: words.range(2)?,
            keep_size,
        })
    };
    let fsync = |data_only| {
        Ok(O::Fsync {
            file: words.file(1)?,
            data_only,
        })
    };
    match words.word(0)? {
        "write" => Ok(O::Write {
            file: words.file(1)?,
            range: words.range(2)?,
            pattern: words.decimal(3)?,
        }),
        "read" => Ok(O::Read {
            file: words.file(1)?,
            range: words.range(2)?,
        }),
        "truncate" => Ok(O::Truncate {
            file: words.file(1)?,
            size: words.decimal(2)?,
        }),
        "punch" => Ok(O::Punch {
            file: words.file(1)?,
            range: words.range(2)?,
        }),
        "zero" => Ok(O::Zero {
            file: words.file(1)?,
            range: words.range(2)?,
        }),
        "reserve" => reserve(false),
        "reserve-keep" => reserve(true),
        "copy" => Ok(O::Copy {
            from: words.file(1)?,
            range: words.range(2)?,
            to: words.file(3)?,
            offset: words.decimal(4)?,
        }),
        "open" => Ok(O::Open {
            path: words.path(1)?,
            slot: words.decimal(2)? as u8,
        }),
        "close" => Ok(O::Close {
            slot: words.decimal(1)? as u8,
        }),
        "fsync" => fsync(false),
        "fdatasync" => fsync(true),
        _ => Err(words.bad()),
    }
}
