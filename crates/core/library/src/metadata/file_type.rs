//! The type of a file.

use std::os::unix::fs::FileTypeExt;
use varve_fs::FileKind;

/// The type of a file. [`std::os::unix::fs::FileTypeExt`] distinguishes special files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileType(FileKind);

impl FileType {
    pub(crate) fn new(kind: FileKind) -> Self {
        FileType(kind)
    }

    /// Returns true for a directory.
    pub fn is_dir(&self) -> bool {
        self.0 == FileKind::Directory
    }

    /// Returns true for a regular file.
    pub fn is_file(&self) -> bool {
        self.0 == FileKind::Regular
    }

    /// Returns true for a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.0 == FileKind::Symlink
    }
}

impl FileTypeExt for FileType {
    fn is_block_device(&self) -> bool {
        self.0 == FileKind::BlockDevice
    }

    fn is_char_device(&self) -> bool {
        self.0 == FileKind::CharDevice
    }

    fn is_fifo(&self) -> bool {
        self.0 == FileKind::Fifo
    }

    fn is_socket(&self) -> bool {
        self.0 == FileKind::Socket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_files_are_told_apart() {
        let kinds = [
            FileKind::BlockDevice,
            FileKind::CharDevice,
            FileKind::Fifo,
            FileKind::Socket,
        ];
        let told = kinds.map(FileType::new).map(|kind| {
            let said = [
                kind.is_block_device(),
                kind.is_char_device(),
                kind.is_fifo(),
                kind.is_socket(),
            ];
            assert!(!kind.is_dir() && !kind.is_file() && !kind.is_symlink());
            said.iter().position(|said| *said)
        });
        assert_eq!(told, [Some(0), Some(1), Some(2), Some(3)]);
    }
}
