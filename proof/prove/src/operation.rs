//! Operations of a workload, and their text form.
//!
//! A story is a list of operations, one per line or separated by `;`, so that a failure
//! message can be pasted into a test:
//!
//! ```text
//! create a; write a 0+4096 #7; fsync a; rename a b
//! ```
//!
//! Paths are relative to the root and have no leading slash. A component `x^255` means
//! 255 times `x`. `@1` is an open file (see `open`). Offsets, lengths and sizes are in
//! bytes.

mod text;

pub use text::BadOperation;

/// A path from the root; empty for the root itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(pub String);

impl Path {
    /// Returns the components as the bytes for a file system.
    pub fn components(&self) -> Vec<Vec<u8>> {
        let parts = self.0.split('/').filter(|part| !part.is_empty());
        parts.map(expand).collect()
    }
}

/// Expands `x^255` to 255 times `x`; any other component is unchanged.
fn expand(component: &str) -> Vec<u8> {
    match component.split_once('^') {
        Some((text, times)) => text.as_bytes().repeat(times.parse().unwrap_or(1)),
        None => component.as_bytes().to_vec(),
    }
}

/// A file: by name, or an open one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum File {
    /// A file by path.
    At(Path),
    /// An open file by its slot.
    Open(u8),
}

/// Bytes `offset..offset + length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

impl Range {
    /// Returns the first byte behind the range.
    pub fn end(self) -> u64 {
        self.offset + self.length
    }
}

/// Treatment of an existing target by a rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Over {
    /// It is replaced.
    Replace,
    /// The rename is refused (`RENAME_NOREPLACE`).
    Refuse,
    /// Source and target are swapped (`RENAME_EXCHANGE`).
    Exchange,
    /// It is replaced, and a whiteout, a device 0:0 without permissions, gets the old
    /// name (`RENAME_WHITEOUT`).
    Whiteout,
}

/// One step of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the system call of that name")]
pub enum Operation {
    Create(Path),
    Fifo(Path),
    Mkdir(Path),
    /// The target is a pattern of `length` bytes.
    Symlink {
        path: Path,
        length: u64,
    },
    Link {
        from: Path,
        to: Path,
    },
    Unlink(Path),
    Rmdir(Path),
    Rename {
        from: Path,
        to: Path,
        over: Over,
    },
    Chmod {
        path: Path,
        mode: u32,
    },
    Chown {
        path: Path,
        uid: u32,
        gid: u32,
    },
    SetXattr {
        path: Path,
        name: String,
        length: u64,
        pattern: u64,
    },
    RemoveXattr {
        path: Path,
        name: String,
    },
    Write {
        file: File,
        range: Range,
        pattern: u64,
    },
    Read {
        file: File,
        range: Range,
    },
    Truncate {
        file: File,
        size: u64,
    },
    Punch {
        file: File,
        range: Range,
    },
    Zero {
        file: File,
        range: Range,
    },
    Reserve {
        file: File,
        range: Range,
        keep_size: bool,
    },
    Copy {
        from: File,
        range: Range,
        to: File,
        offset: u64,
    },
    Open {
        path: Path,
        slot: u8,
    },
    Close {
        slot: u8,
    },
    Fsync {
        file: File,
        data_only: bool,
    },
    Sync,
    /// Writes old dirty data back like the background writer; promises nothing.
    WriteBack,
    /// Syncs, then takes a checkpoint.
    Checkpoint,
    /// Takes a checkpoint of the layout, with dirty data left in memory.
    LayoutCheckpoint,
    /// Cleans all segments that the layout can clean.
    Clean,
    /// Makes the layout's cleaner judge the live blocks of a few segments, and wait.
    Claim,
    /// Moves the blocks that the cleaner last judged as live, whatever has happened
    /// since.
    Move,
    /// Makes the next call of a cleaner of another process.
    Stranger(u8),
    /// Changes the policy of the mount's own cleaner.
    SwitchPolicy,
    /// Moves the blocks of files into their order.
    Coalesce,
    /// Runs the background step of the file system.
    Maintain,
    /// Evicts all clean data.
    DropCaches,
    /// Unmounts and mounts.
    Remount,
    /// Kills the process and not the device; a new process mounts.
    Kill,
}

impl Operation {
    /// Returns true if it adds or removes names.
    pub fn changes_names(&self) -> bool {
        use Operation as O;
        matches!(
            self,
            O::Create(_)
                | O::Fifo(_)
                | O::Mkdir(_)
                | O::Symlink { .. }
                | O::Link { .. }
                | O::Unlink(_)
                | O::Rmdir(_)
                | O::Rename { .. }
        )
    }

    /// Returns true if success makes everything before it durable: all data, or one
    /// file's data, and all names and attributes.
    pub fn promises_durability(&self) -> bool {
        matches!(
            self,
            Operation::Fsync { .. } | Operation::Sync | Operation::Checkpoint | Operation::Remount
        )
    }
}

/// Returns the bytes of `pattern` at `offset..offset + length` of a file: no zeros, and
/// different in every 8 bytes, so that a misplaced one is detected.
pub fn pattern_bytes(pattern: u64, range: Range) -> Vec<u8> {
    let at = |position: u64| {
        let word = ((pattern << 40) ^ (position / 8)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (word ^ (word >> 29)).to_le_bytes()[(position % 8) as usize] | 1
    };
    (range.offset..range.end()).map(at).collect()
}

/// Parses a story.
///
/// # Panics
/// If a line is not an operation, because stories are part of the tests.
pub fn story(text: &str) -> Vec<Operation> {
    let lines = text.split([';', '\n']).map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines
        .map(|line| line.parse().unwrap_or_else(|error| panic!("{error}")))
        .collect()
}

/// Formats a story, one operation per line.
pub fn tell(operations: &[Operation]) -> String {
    operations
        .iter()
        .map(|operation| format!("{operation}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::{Generator, Profile};
    use crate::random::Random;

    #[test]
    fn stories_read_back() {
        let mut generator = Generator::new(Profile::everything(), Random::new(1));
        let operations: Vec<Operation> = (0..2000).map(|_| generator.operation()).collect();
        assert_eq!(story(&tell(&operations)), operations);
    }

    #[test]
    fn patterns_differ_and_hold_no_zeros() {
        let range = Range {
            offset: 4090,
            length: 600,
        };
        let bytes = pattern_bytes(3, range);
        assert!(bytes.iter().all(|&byte| byte != 0));
        assert_ne!(bytes, pattern_bytes(4, range));
        assert_eq!(
            bytes[6..],
            pattern_bytes(
                3,
                Range {
                    offset: 4096,
                    length: 594
                }
            )
        );
    }

    #[test]
    fn long_names_are_abbreviated() {
        let path = Path("d/x^255".to_owned());
        assert_eq!(path.components(), [b"d".to_vec(), vec![b'x'; 255]]);
    }
}
