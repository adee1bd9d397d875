//! Remedies for names: trees, entries, parents, link counts, lost+found.

use super::remedies::Remedies;
use crate::check::Fix;
use std::collections::BTreeSet;
use varve_fs::directory::{self, names_in};
use varve_fs::{FileKind, InodeNo, Layout};
use varve_lfs::{Error, Result};

/// Name of the directory for files without names.
const LOST_AND_FOUND: &str = "lost+found";

impl Remedies<'_> {
    /// Applies the remedies for names. Damaged directory trees are rebuilt first and
    /// alone, because they may contain names that seem to be lost. `was_freed` returns
    /// true for a file without a name that had been deleted.
    ///
    /// # Errors
    /// If there is no space, or the device fails.
    pub(super) fn mend_names(
        &mut self,
        fixes: &[Fix],
        was_freed: &dyn Fn(u64) -> bool,
    ) -> Result<()> {
        let mut flawed = BTreeSet::new();
        for fix in fixes {
            if let Fix::Directory { ino } = fix {
                flawed.insert(*ino);
            }
        }
        for &ino in &flawed {
            self.rebuild(ino)?;
            self.session.flush_if_full()?;
        }
        for fix in fixes {
            let done = match fix {
                Fix::Entry { directory, name } if !flawed.contains(directory) => {
                    self.remove(*directory, name)
                }
                Fix::Cycle { ino, named_by } if flawed.is_empty() => self.cut(*ino, *named_by),
                Fix::Orphan { ino } if flawed.is_empty() => self.orphan(*ino, was_freed(*ino)),
                Fix::Parent { ino, parent } => {
                    let what = self.name(*ino);
                    self.session.edit(*ino).map(|edit| {
                        edit.inode.parent = InodeNo(*parent);
                        self.actions
                            .mended(format!("{what}: \"..\" leads up again"));
                    })
                }
                Fix::Links { ino, nlink } if flawed.is_empty() => {
                    let what = self.name(*ino);
                    self.session.edit(*ino).map(|edit| {
                        edit.inode.nlink = *nlink;
                        self.actions
                            .mended(format!("{what}: its link count is {nlink} now"));
                    })
                }
                _ => Ok(()),
            };
            self.settle(done)?;
        }
        Ok(())
    }

    /// Builds a new tree from the readable names.
    fn rebuild(&mut self, ino: u64) -> Result<()> {
        let key = self.session.key(ino)?;
        let lookup = self.session.lfs.layers().lookup();
        let (blocks, _) = lookup.blocks(InodeNo(ino), 0, varve_lfs::internal::MAX_BLOCK)?;
        let mut found: Vec<(Vec<u8>, InodeNo, FileKind)> = Vec::new();
        let mut lost = 0;
        for (block, pointer) in blocks {
            let whole = (self
                .session
                .lfs
                .reader()
                .block(&pointer, InodeNo(ino), block))
            .is_ok_and(|bytes| {
                let emit = &mut |name: &[u8], ino, kind| found.push((name.to_vec(), ino, kind));
                names_in(&key, block, &bytes, emit).is_ok()
            });
            lost += u64::from(!whole);
        }
        self.session.truncate(ino, 0)?;
        let count = found.len();
        let mut twice = 0;
        for (name, target, kind) in found {
            let mut blocks = self.session.directory(ino);
            match directory::insert(&key, &mut blocks, &name, target, kind) {
                Ok(()) => blocks.finish()?,
                Err(varve_fs::Error::Exists) => twice += 1,
                Err(error) => {
                    tracing::warn!(%error, ino, "a name is left out");
                    twice += 1;
                }
            }
        }
        let what = self.name(ino);
        if lost > 0 {
            self.actions.lost(format!(
            "{what}: the names in {lost} damaged blocks of the directory; what they led to is in \
             lost+found"
        ));
        }
        if twice > 0 {
            self.actions
                .lost(format!("{what}: {twice} names that were there twice"));
        }
        self.actions.mended(format!(
            "{what}: the directory was made anew with {} names",
            count - twice
        ));
        Ok(())
    }

    fn remove(&mut self, ino: u64, name: &[u8]) -> Result<()> {
        let key = self.session.key(ino)?;
        let mut blocks = self.session.directory(ino);
        match directory::remove(&key, &mut blocks, name) {
            Ok((target, _)) => {
                blocks.finish()?;
                self.actions.lost(format!(
                    "{}: the name \"{}\", which led to inode {target}",
                    self.name(ino),
                    name.escape_ascii()
                ));
            }
            Err(varve_fs::Error::NotFound) => {}
            Err(error) => {
                // The tree is damaged as well; the next check reports that.
                tracing::warn!(%error, ino, "a name could not be removed");
            }
        }
        Ok(())
    }

    /// Removes the name of directory `ino` from the directory that contains it.
    fn cut(&mut self, ino: u64, named_by: u64) -> Result<()> {
        let key = self.session.key(named_by)?;
        let mut blocks = self.session.directory(named_by);
        let mut name = None;
        let listed = directory::list(&key, &mut blocks, 0, &mut |entry, target, _, _| {
            if target.0 == ino {
                name = Some(entry.to_vec());
            }
            name.is_none()
        });
        if let (Ok(()), Some(name)) = (listed, name) {
            self.remove(named_by, &name)?;
        }
        Ok(())
    }

    /// Gives a file without a name one in lost+found.
    fn orphan(&mut self, ino: u64, was_freed: bool) -> Result<()> {
        if was_freed {
            // The map entry was reconstructed from a log that no longer shows the
            // removal.
            self.actions.mended(format!(
                "inode {ino}: it had been deleted, the number is free"
            ));
            return self.session.free(ino);
        }
        let home = self.lost_and_found()?;
        let kind = self.session.edit(ino)?.inode.kind();
        let key = self.session.key(home)?;
        let mut attempt = 0;
        let name = loop {
            let name = match attempt {
                0 => format!("inode-{ino}"),
                n => format!("inode-{ino}.{n}"),
            };
            let mut blocks = self.session.directory(home);
            match directory::insert(&key, &mut blocks, name.as_bytes(), InodeNo(ino), kind) {
                Ok(()) => {
                    blocks.finish()?;
                    break name;
                }
                Err(varve_fs::Error::Exists) if attempt < 1000 => attempt += 1,
                Err(error) => {
                    tracing::warn!(%error, ino, "no name in lost+found");
                    return Ok(());
                }
            }
        };
        let edit = self.session.edit(ino)?;
        if kind == FileKind::Directory {
            edit.inode.parent = InodeNo(home);
            self.count_subdirectory(home)?;
        } else {
            edit.inode.nlink = 1;
        }
        self.actions.lost(format!(
            "inode {ino} ({kind:?}): no name led to it; it is /{LOST_AND_FOUND}/{name} now"
        ));
        Ok(())
    }

    /// Counts one more `..` that leads to the directory. An impossible count is left for
    /// the next round.
    fn count_subdirectory(&mut self, ino: u64) -> Result<()> {
        let inode = &mut self.session.edit(ino)?.inode;
        inode.nlink = inode.nlink.saturating_add(1);
        Ok(())
    }

    /// Returns the number of lost+found, which is created if necessary.
    fn lost_and_found(&mut self) -> Result<u64> {
        let root = InodeNo::ROOT.0;
        let key = self.session.key(root)?;
        let mut name = LOST_AND_FOUND.to_owned();
        for attempt in 1..1000 {
            let mut blocks = self.session.directory(root);
            match directory::lookup(&key, &mut blocks, name.as_bytes()) {
                Ok(Some((ino, FileKind::Directory))) => return Ok(ino.0),
                Ok(Some(_)) => name = format!("{LOST_AND_FOUND}.{attempt}"),
                Ok(None) => break,
                Err(error) => return Err(damaged(error)),
            }
        }
        let (ino, version) = self
            .session
            .lfs
            .allocate_inode(InodeNo(root), FileKind::Directory)
            .map_err(damaged)?;
        let inode = self.new_directory(ino, version);
        self.session.create(inode);
        let mut blocks = self.session.directory(root);
        directory::insert(&key, &mut blocks, name.as_bytes(), ino, FileKind::Directory)
            .map_err(damaged)?;
        blocks.finish()?;
        self.count_subdirectory(root)?;
        self.actions
            .mended(format!("the directory /{name} was made"));
        Ok(ino.0)
    }
}

fn damaged(error: varve_fs::Error) -> Error {
    varve_lfs::format::Malformed::new("directory", error.to_string()).into()
}
