//! Phases III and IV: reachability and link counts.

use super::Checker;
use super::fixes::Fix;
use super::report::{FindingKind, Subject};
use super::table::{Known, known};
use std::sync::Arc;
use varve_fs::{FileKind, InodeNo};
use varve_lfs::format::inode::InodeImage;

impl Checker<'_> {
    pub(super) fn check_links(&mut self) {
        let root = self.inodes.get(InodeNo::ROOT.0);
        if root.kind() != Some(FileKind::Directory) && !root.has(known::DAMAGED) {
            let text = "there is no root directory";
            let subject = Subject::Inode(InodeNo::ROOT.0);
            self.found.error(FindingKind::Inode, subject, text);
            self.found.fix(Fix::Root);
        }
        self.reach();
        let numbers: Vec<u64> = self.inodes.numbers().collect();
        for ino in numbers {
            if self.found.full() {
                return;
            }
            let inode = self.inodes.get(ino);
            match inode.kind() {
                Some(FileKind::Directory) => self.directory_links(ino, inode),
                Some(_) => self.file_links(ino, inode),
                None => {}
            }
        }
        for at in 0..self.directories.len() {
            self.parent(at);
        }
        self.unfinished();
        self.check_guard();
    }

    /// Follows every directory up to the root. A chain that ends elsewhere is reported
    /// once, at its top.
    fn reach(&mut self) {
        let mut visited = std::collections::HashSet::new();
        let root = InodeNo::ROOT.0;
        self.inodes.at(root).flags |= known::REACHED;
        for at in 0..self.directories.len() {
            let mut way = Vec::new();
            let mut ino = self.directories[at].ino;
            while ino != 0 && !self.inodes.get(ino).has(known::REACHED) && visited.insert(ino) {
                way.push(ino);
                ino = self.inodes.get(ino).named_by;
            }
            if ino != 0 && self.inodes.get(ino).has(known::REACHED) {
                for ino in way {
                    self.inodes.at(ino).flags |= known::REACHED;
                }
            } else if let Some(start) = way.iter().position(|&step| step == ino) {
                let cycle: Vec<String> = way[start..].iter().map(u64::to_string).collect();
                let text = format!(
                    "unreachable: directories contain each other in a circle: {}",
                    cycle.join(", ")
                );
                self.found
                    .error(FindingKind::Cycle, Subject::Inode(ino), text);
                let named_by = self.inodes.get(ino).named_by;
                self.found.fix(Fix::Cycle { ino, named_by });
            }
        }
    }

    /// Reports a finding that missing names would explain. It is only a warning while a
    /// damaged directory may contain them.
    fn unnamed(&mut self, kind: FindingKind, ino: u64, text: String) {
        let subject = Subject::Inode(ino);
        if self.names_lost {
            let text = format!("{text}, as far as undamaged directories say");
            self.found.warning(kind, subject, text);
        } else {
            self.found.error(kind, subject, text);
        }
    }

    fn directory_links(&mut self, ino: u64, inode: Known) {
        let root = ino == InodeNo::ROOT.0;
        if inode.named_by == 0 && !root {
            if inode.remaining != 0 {
                let text = "a directory without a name".into();
                self.unnamed(FindingKind::Unreachable, ino, text);
                self.found.fix(Fix::Orphan { ino });
            }
            return;
        }
        // Some subdirectories of a damaged directory were not seen.
        if inode.remaining != 2 && !inode.has(known::INDEX) {
            self.wrong_count(ino, inode.remaining.wrapping_sub(2));
        }
    }

    fn file_links(&mut self, ino: u64, inode: Known) {
        if inode.named_by == 0 && inode.remaining > 0 {
            let text = format!("counts {} names, but there is none", inode.remaining);
            self.unnamed(FindingKind::Unreachable, ino, text);
            self.found.fix(Fix::Orphan { ino });
        } else if inode.named_by != 0 && inode.remaining != 0 {
            self.wrong_count(ino, inode.remaining);
        }
    }

    /// Reports a link count that is `surplus` too large, modulo 2^32.
    fn wrong_count(&mut self, ino: u64, surplus: u32) {
        let counted = self.newest_image(ino).map(|image| image.inode.nlink);
        if let Some(counted) = counted {
            let nlink = counted.wrapping_sub(surplus);
            self.found.fix(Fix::Links { ino, nlink });
        }
        let text = match counted {
            Some(counted) => format!(
                "its link count is {counted}, it should be {}",
                counted.wrapping_sub(surplus)
            ),
            None => "its link count is wrong".into(),
        };
        self.unnamed(FindingKind::LinkCount, ino, text);
    }

    fn newest_image(&self, ino: u64) -> Option<Arc<InodeImage>> {
        let delta = self.state.live.inode(ino);
        if let Some(placed) = delta.and_then(|delta| delta.image.as_ref()) {
            return Some(Arc::new(placed.image.clone()));
        }
        let base = &self.state.base;
        base.inode(self.reader, &self.geometry, InodeNo(ino))
            .ok()
            .flatten()
    }

    /// Checks that `..` leads to the directory that contains the name.
    fn parent(&mut self, at: usize) {
        let directory = self.directories[at];
        let named_by = self.inodes.get(directory.ino).named_by;
        let expected = if directory.ino == InodeNo::ROOT.0 {
            InodeNo::ROOT.0
        } else {
            named_by
        };
        if expected != 0 && directory.parent != expected {
            let text = format!(
                "\"..\" leads to inode {}, but its name is in inode {expected}",
                directory.parent
            );
            let subject = Subject::Inode(directory.ino);
            self.found.error(FindingKind::Parent, subject, text);
            self.found.fix(Fix::Parent {
                ino: directory.ino,
                parent: expected,
            });
        }
    }

    /// Checks that the list contains exactly the inodes without names and those with an
    /// unfinished truncate.
    fn unfinished(&mut self) {
        let listed = self.state.unfinished.clone();
        for &ino in &listed {
            let inode = self.inodes.get(ino);
            let problem = match inode.kind() {
                _ if inode.has(known::DAMAGED) || inode.has(known::UNFINISHED) => continue,
                Some(_) => "on the list of unfinished inodes, but has names and is whole",
                None => "on the list of unfinished inodes, but does not exist",
            };
            self.found
                .error(FindingKind::Unfinished, Subject::Inode(ino), problem);
            self.found.fix(Fix::Accounts);
        }
        let numbers: Vec<u64> = self.inodes.numbers().collect();
        for ino in numbers {
            if self.inodes.get(ino).has(known::UNFINISHED) && !listed.contains(&ino) {
                let text = "has no name or is in the middle of a truncate, but is not on the list \
                            of unfinished inodes: nobody will free it";
                self.found
                    .error(FindingKind::Unfinished, Subject::Inode(ino), text);
                self.found.fix(Fix::Accounts);
            }
        }
    }
}
