//! What a workload is made of, and how it is written down.
//!
//! A story is a list of operations, one per line or separated by `;`, so that
//! a failure message can be pasted into a test:
//!
//! ```text
//! create a; write a 0+4096 #7; fsync a; rename a b
//! ```
//!
//! Paths are relative to the root and have no leading slash. A component
//! `x^255` stands for 255 times `x`. `@1` is a file held open (see `open`).
//! Offsets, lengths and sizes are bytes.

mod text;

pub use text::BadOperation;

/// A path from the root; empty for the root itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(pub String);

impl Path {
    /// The components as the bytes a file system is given.
    pub fn components(&self) -> Vec<Vec<u8>> {
        let parts = self.0.split('/').filter(|part| !part.is_empty());
        parts.map(expand).collect()
    }
}

/// `x^255` is 255 times `x`; anything else is itself.
fn expand(component: &str) -> Vec<u8> {
    match component.split_once('^') {
        Some((text, times)) => text.as_bytes().repeat(times.parse().unwrap_or(1)),
        None => component.as_bytes().to_vec(),
    }
}

/// A file: by name, or one held open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum File {
    /// By its path.
    At(Path),
    /// By the slot it was opened in.
    Open(u8),
}

/// Bytes `offset..offset + length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl Range {
    /// The first byte behind it.
    pub fn end(self) -> u64 {
        self.offset + self.length
    }
}

/// How a rename treats an existing target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Over {
    /// Replaces it.
    Replace,
    /// Refuses (`RENAME_NOREPLACE`).
    Refuse,
    /// Swaps the two (`RENAME_EXCHANGE`).
    Exchange,
    /// Replaces it, and leaves a whiteout, a device 0:0 without permissions,
    /// under the old name (`RENAME_WHITEOUT`).
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
    /// What the background writer does once data is old; promises nothing.
    WriteBack,
    /// Sync, then an image of the whole.
    Checkpoint,
    /// The layout's checkpoint alone, with dirty data left in memory.
    LayoutCheckpoint,
    /// The layout cleans what it can.
    Clean,
    /// The layout's cleaner judges what lives in a few segments, and waits.
    Claim,
    /// It moves what it last found living, whatever has happened since.
    Move,
    /// A cleaner of another process makes its next call.
    Stranger(u8),
    /// The mount's own cleaner follows another policy from now on.
    SwitchPolicy,
    /// The layout moves the blocks of files into their order.
    Coalesce,
    /// The file system's background step.
    Maintain,
    /// Forgets what is clean.
    DropCaches,
    /// Unmounts and mounts.
    Remount,
    /// The process dies, the device does not; a new one mounts.
    Kill,
}

impl Operation {
    /// True if it gives or takes names.
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

    /// After success everything done before is durable: all of it, or one
    /// file's data and all names and attributes.
    pub fn promises_durability(&self) -> bool {
        matches!(
            self,
            Operation::Fsync { .. } | Operation::Sync | Operation::Checkpoint | Operation::Remount
        )
    }
}

/// The bytes that `pattern` puts at `offset..offset + length` of a file: no
/// zeros, and different in every 8 bytes, so that a misplaced one is noticed.
pub fn pattern_bytes(pattern: u64, range: Range) -> Vec<u8> {
    let at = |position: u64| {
        let word = ((pattern << 40) ^ (position / 8)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (word ^ (word >> 29)).to_le_bytes()[(position % 8) as usize] | 1
    };
    (range.offset..range.end()).map(at).collect()
}

/// Reads a story.
///
/// # Panics
/// If a line is not an operation: stories are written by us.
pub fn story(text: &str) -> Vec<Operation> {
    let lines = text.split([';', '\n']).map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    lines
        .map(|line| line.parse().unwrap_or_else(|error| panic!("{error}")))
        .collect()
}

/// Writes a story, one operation per line.
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
