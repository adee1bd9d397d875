//! Attributes of a file.

use std::time::{Duration, SystemTime};
use varve_fs::{Attr, FileKind, InodeNo, Timestamp};

/// Attributes of a file at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata(pub(super) Attr);

#[expect(
    clippy::len_without_is_empty,
    reason = "the length of a file, as in std"
)]
impl Metadata {
    /// What it is.
    pub fn kind(&self) -> FileKind {
        self.0.kind
    }

    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        self.0.kind == FileKind::Directory
    }

    /// True for a regular file.
    pub fn is_file(&self) -> bool {
        self.0.kind == FileKind::Regular
    }

    /// True for a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.0.kind == FileKind::Symlink
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.0.size
    }

    /// Bytes of the volume in use.
    pub fn stored_bytes(&self) -> u64 {
        self.0.sectors * 512
    }

    /// Its number.
    pub fn ino(&self) -> InodeNo {
        self.0.ino
    }

    /// Names that lead to it; for a directory 2 plus its subdirectories.
    pub fn links(&self) -> u32 {
        self.0.nlink
    }

    /// Permission, set-id and sticky bits.
    pub fn permissions(&self) -> u32 {
        self.0.mode & 0o7777
    }

    /// Owner.
    pub fn uid(&self) -> u32 {
        self.0.uid
    }

    /// Group.
    pub fn gid(&self) -> u32 {
        self.0.gid
    }

    /// When it was last read, to relatime's precision.
    pub fn accessed(&self) -> SystemTime {
        system_time(self.0.atime)
    }

    /// When its content last changed.
    pub fn modified(&self) -> SystemTime {
        system_time(self.0.mtime)
    }

    /// When its attributes last changed.
    pub fn changed(&self) -> SystemTime {
        system_time(self.0.ctime)
    }

    /// When it was made.
    pub fn created(&self) -> SystemTime {
        system_time(self.0.btime)
    }

    /// Everything, as the file system tells it.
    pub fn attr(&self) -> &Attr {
        &self.0
    }
}

/// An instant beyond what the host can express becomes 1970.
fn system_time(time: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let base = match time.seconds < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(whole),
        false => SystemTime::UNIX_EPOCH.checked_add(whole),
    };
    base.and_then(|base| base.checked_add(Duration::from_nanos(time.nanos.into())))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_kept() {
        let time = Timestamp {
            seconds: -2,
            nanos: 500_000_000,
        };
        let before = SystemTime::UNIX_EPOCH - Duration::from_millis(1500);
        assert_eq!(system_time(time), before);
        let absurd = Timestamp {
            seconds: i64::MAX,
            nanos: 0,
        };
        system_time(absurd);
    }
}
