//! Checks of a single inode: its counts, its shape, its attributes.

use super::claims::{Role, Stored};
use super::fixes::Fix;
use super::report::{FindingKind, Subject};
use super::table::known;
use super::visit::Tally;
use super::{Checker, DirectoryAt, plain, refused};
use varve_fs::{FileKind, Inode, attributes_flaw, flags};
use varve_lfs::format::{Pointer, SECTOR};

/// Use of the sectors of extended attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// They belong to the image.
    Base,
    /// They belonged to the image, and the log has displaced them.
    Displaced,
    /// They were logged since the checkpoint.
    Newer,
    /// Their sectors are already taken.
    Done,
}

impl Checker<'_> {
    /// Counts an inode of the newest state, and checks its own fields.
    pub(super) fn register(
        &mut self,
        inode: &Inode,
        tally: &Tally,
        xattr_sectors: u64,
        first: u64,
        damaged: bool,
    ) {
        let ino = inode.ino.0;
        let kind = inode.kind();
        let unfinished = inode.is_unfinished();
        let entry = self.inodes.at(ino);
        entry.set_kind(kind);
        entry.remaining = inode.nlink;
        if unfinished {
            entry.flags |= known::UNFINISHED;
        }
        if damaged {
            entry.flags |= known::INDEX;
        }
        self.guard.note(inode);
        self.usage.inodes += 1;
        self.usage.blocks = self.usage.blocks.saturating_add(tally.blocks);
        let sectors = tally.sectors.saturating_add(xattr_sectors);
        self.usage.sectors = self.usage.sectors.saturating_add(sectors);
        self.counts.inodes += 1;
        if kind == FileKind::Directory {
            self.counts.directories += 1;
            self.directories.push(DirectoryAt {
                sector: first,
                ino,
                version: inode.version,
                parent: inode.parent.0,
            });
        }
        if !damaged {
            self.compare(inode, tally, "");
            self.shape(inode, tally);
            self.within_size(inode, tally, unfinished);
        }
    }

    pub(super) fn compare(&mut self, inode: &Inode, tally: &Tally, when: &str) {
        if let Some(text) = count_flaw(inode, tally, when) {
            let subject = Subject::Inode(inode.ino.0);
            self.found.error(FindingKind::BlockCount, subject, text);
            self.found.fix(Fix::Counts {
                ino: inode.ino.0,
                blocks: tally.blocks,
                sectors: tally.sectors,
            });
        }
    }

    fn shape(&mut self, inode: &Inode, tally: &Tally) {
        if let Some(text) = content_flaw(inode, tally) {
            if tally.unwritten > 0 {
                self.inodes.at(inode.ino.0).flags |= known::INDEX;
            }
            let subject = Subject::Inode(inode.ino.0);
            self.found.error(FindingKind::Inode, subject, text);
            self.found.fix(Fix::Shape { ino: inode.ino.0 });
        } else if let Some(text) = inode.flaw(inode.ino, u64::MAX) {
            // There is no remedy, because every call on such a file fails.
            let subject = Subject::Inode(inode.ino.0);
            self.found.error(FindingKind::Inode, subject, text);
        }
    }

    fn within_size(&mut self, inode: &Inode, tally: &Tally, unfinished: bool) {
        let flaw = size_flaw(inode, tally, self.geometry.block_bytes);
        if let Some(text) = flaw.filter(|_| !unfinished) {
            let subject = Subject::Inode(inode.ino.0);
            self.found.error(FindingKind::BeyondSize, subject, text);
            self.found.fix(Fix::BeyondSize { ino: inode.ino.0 });
        }
    }

    /// Checks the extended attributes of an image.
    pub(super) fn attributes(&mut self, inode: &Inode, pointer: &Pointer, claim: Claim) {
        if !self.sound_attributes(inode, pointer, claim) {
            self.found.fix(Fix::Attributes { ino: inode.ino.0 });
        }
    }

    fn sound_attributes(&mut self, inode: &Inode, pointer: &Pointer, claim: Claim) -> bool {
        let subject = Subject::Inode(inode.ino.0);
        let bytes = u64::from(inode.xattr_bytes);
        let fits =
            u64::from(pointer.sectors()) == bytes.div_ceil(SECTOR) && !pointer.is_unwritten();
        if !fits {
            let text = format!(
                "has {bytes} bytes of extended attributes in {} sectors",
                pointer.sectors()
            );
            self.found.error(FindingKind::Attributes, subject, text);
        }
        if pointer.is_none() || pointer.is_unwritten() || claim == Claim::Done {
            return fits;
        }
        let stored = Stored::block(inode.ino, inode.version, Role::Attributes, pointer);
        if claim == Claim::Displaced {
            let counted = self.claims.count(&stored);
            let what = "its former extended attributes: ";
            if let Err(refusal) = counted {
                refused(
                    self.found,
                    &mut self.overlaps,
                    subject,
                    &stored,
                    refusal,
                    what,
                );
            }
            return fits && counted.is_ok();
        }
        if !self.claim(
            subject,
            &stored,
            claim == Claim::Base,
            "its extended attributes: ",
        ) {
            return false;
        }
        let problem = match self.reader.block(pointer, inode.ino, 0) {
            Ok(mut blob) => {
                blob.truncate(inode.xattr_bytes as usize);
                attributes_flaw(&blob)
            }
            Err(error) => Some(format!("its extended attributes: {}", plain(&error))),
        };
        match problem {
            Some(problem) => {
                self.found.error(FindingKind::Attributes, subject, problem);
                false
            }
            None => fits,
        }
    }
}

/// Returns the flaw in an inode's counts of its blocks; `when` says which image made
/// them.
pub fn count_flaw(inode: &Inode, tally: &Tally, when: &str) -> Option<String> {
    ((inode.blocks, inode.sectors) != (tally.blocks, tally.sectors)).then(|| {
        format!(
            "counts {} blocks of {} sectors{when}, but has {} of {}",
            inode.blocks, inode.sectors, tally.blocks, tally.sectors
        )
    })
}

/// Returns the flaw if the content does not fit the kind of the file.
pub fn content_flaw(inode: &Inode, tally: &Tally) -> Option<String> {
    let inline = inode.flags & flags::INLINE != 0;
    match inode.kind() {
        _ if inode.flags & !flags::KNOWN != 0 => Some(format!("unknown flags {:#x}", inode.flags)),
        _ if inline && tally.blocks > 0 => {
            Some(format!("content in the inode and {} blocks", tally.blocks))
        }
        FileKind::Regular => None,
        FileKind::Symlink if !inline && tally.blocks == 0 => {
            Some("a symbolic link without a target".into())
        }
        FileKind::Directory | FileKind::Symlink if tally.unwritten > 0 => {
            Some(format!("{} blocks were never written", tally.unwritten))
        }
        FileKind::Directory if inline => Some("a directory with content in the inode".into()),
        FileKind::Directory | FileKind::Symlink => None,
        _ if inline || tally.blocks > 0 => Some("a special file with content".into()),
        _ => None,
    }
}

/// Returns the flaw if a written block is wholly beyond the size. The caller exempts
/// files that are being truncated or freed.
pub fn size_flaw(inode: &Inode, tally: &Tally, block_bytes: u32) -> Option<String> {
    let end = inode.size.div_ceil(block_bytes.into());
    (inode.kind() == FileKind::Regular && tally.written_end > end).then(|| {
        format!(
            "block {} is stored, but the size of {} bytes ends before it",
            tally.written_end - 1,
            inode.size
        )
    })
}
