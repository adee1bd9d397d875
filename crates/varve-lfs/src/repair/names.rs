//! Remedies for names: trees, entries, parents, link counts, lost+found.

use super::report::Actions;
use super::session::Session;
use crate::check::Fix;
use crate::error::{Error, Result};
use std::collections::BTreeSet;
use varve_fs::directory::{self, names_in};
use varve_fs::{FileKind, InodeNo};

/// Where files without names go.
const LOST_AND_FOUND: &str = "lost+found";

/// Does what concerns names. Directories whose trees are damaged come first
/// and alone: what looks lost may be found in them. `was_freed` says of a file
/// without a name that it was deleted.
///
/// # Errors
/// If there is no room, or the device fails.
pub(super) fn apply(
    session: &mut Session,
    fixes: &[Fix],
    was_freed: &dyn Fn(u64) -> bool,
    names: &dyn Fn(u64) -> String,
    actions: &mut Actions,
) -> Result<()> {
    let mut flawed = BTreeSet::new();
    for fix in fixes {
        if let Fix::Directory { ino } = fix {
            flawed.insert(*ino);
        }
    }
    for &ino in &flawed {
        rebuild(session, ino, names, actions)?;
        session.flush_if_full()?;
    }
    for fix in fixes {
        let done = match fix {
            Fix::Entry { directory, name } if !flawed.contains(directory) => {
                remove(session, *directory, name, names, actions)
            }
            Fix::Cycle { ino, named_by } if flawed.is_empty() => {
                cut(session, *ino, *named_by, actions)
            }
            Fix::Orphan { ino } if flawed.is_empty() => {
                orphan(session, *ino, was_freed(*ino), actions)
            }
            Fix::Parent { ino, parent } => session.edit(*ino).map(|edit| {
                edit.inode.parent = InodeNo(*parent);
                actions.mended(format!("{}: \"..\" leads up again", names(*ino)));
            }),
            Fix::Links { ino, nlink } if flawed.is_empty() => session.edit(*ino).map(|edit| {
                edit.inode.nlink = *nlink;
                actions.mended(format!("{}: its link count is {nlink} now", names(*ino)));
            }),
            _ => Ok(()),
        };
        match done {
            Ok(()) | Err(Error::NoInode(_)) => {}
            Err(error) => return Err(error),
        }
        session.flush_if_full()?;
    }
    Ok(())
}

/// A new tree of the names that can be read.
fn rebuild(
    session: &mut Session,
    ino: u64,
    names: &dyn Fn(u64) -> String,
    actions: &mut Actions,
) -> Result<()> {
    let key = session.key(ino)?;
    let lookup = session.lfs.lookup();
    let (blocks, _) = lookup.blocks(InodeNo(ino), 0, crate::base::MAX_BLOCK)?;
    let mut found: Vec<(Vec<u8>, InodeNo, FileKind)> = Vec::new();
    let mut lost = 0;
    for (block, pointer) in blocks {
        let whole = (session.lfs.reader.block(&pointer, InodeNo(ino), block)).is_ok_and(|bytes| {
            let emit = &mut |name: &[u8], ino, kind| found.push((name.to_vec(), ino, kind));
            names_in(&key, block, &bytes, emit).is_ok()
        });
        lost += u64::from(!whole);
    }
    session.truncate(ino, 0)?;
    let count = found.len();
    let mut twice = 0;
    for (name, target, kind) in found {
        let mut blocks = session.directory(ino);
        match directory::insert(&key, &mut blocks, &name, target, kind) {
            Ok(()) => blocks.finish()?,
            Err(varve_fs::Error::Exists) => twice += 1,
            Err(error) => {
                tracing::warn!(%error, ino, "a name is left out");
                twice += 1;
            }
        }
    }
    let what = names(ino);
    if lost > 0 {
        actions.lost(format!(
            "{what}: the names in {lost} damaged blocks of the directory; what they led to is in \
             lost+found"
        ));
    }
    if twice > 0 {
        actions.lost(format!("{what}: {twice} names that were there twice"));
    }
    actions.mended(format!(
        "{what}: the directory was made anew with {} names",
        count - twice
    ));
    Ok(())
}

fn remove(
    session: &mut Session,
    ino: u64,
    name: &[u8],
    names: &dyn Fn(u64) -> String,
    actions: &mut Actions,
) -> Result<()> {
    let key = session.key(ino)?;
    let mut blocks = session.directory(ino);
    match directory::remove(&key, &mut blocks, name) {
        Ok((target, _)) => {
            blocks.finish()?;
            actions.lost(format!(
                "{}: the name \"{}\", which led to inode {target}",
                names(ino),
                name.escape_ascii()
            ));
        }
        Err(varve_fs::Error::NotFound) => {}
        Err(error) => {
            // The tree is flawed after all: the next check reports that.
            tracing::warn!(%error, ino, "a name could not be removed");
        }
    }
    Ok(())
}

/// Takes the name of directory `ino` out of the directory that has it.
fn cut(session: &mut Session, ino: u64, named_by: u64, actions: &mut Actions) -> Result<()> {
    let key = session.key(named_by)?;
    let mut blocks = session.directory(named_by);
    let mut name = None;
    let listed = directory::list(&key, &mut blocks, 0, &mut |entry, target, _, _| {
        if target.0 == ino {
            name = Some(entry.to_vec());
        }
        name.is_none()
    });
    if let (Ok(()), Some(name)) = (listed, name) {
        remove(
            session,
            named_by,
            &name,
            &|ino| format!("inode {ino}"),
            actions,
        )?;
    }
    Ok(())
}

/// Gives a file without a name one in lost+found.
fn orphan(session: &mut Session, ino: u64, was_freed: bool, actions: &mut Actions) -> Result<()> {
    if was_freed {
        // Its entry was made from the log, which had forgotten its end.
        actions.mended(format!(
            "inode {ino}: it had been deleted, the number is free"
        ));
        return session.free(ino);
    }
    let home = lost_and_found(session, actions)?;
    let kind = session.edit(ino)?.inode.kind();
    let key = session.key(home)?;
    let mut attempt = 0;
    let name = loop {
        let name = match attempt {
            0 => format!("inode-{ino}"),
            n => format!("inode-{ino}.{n}"),
        };
        let mut blocks = session.directory(home);
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
    let edit = session.edit(ino)?;
    if kind == FileKind::Directory {
        edit.inode.parent = InodeNo(home);
        count_subdirectory(session, home)?;
    } else {
        edit.inode.nlink = 1;
    }
    actions.lost(format!(
        "inode {ino} ({kind:?}): no name led to it; it is /{LOST_AND_FOUND}/{name} now"
    ));
    Ok(())
}

/// One more `..` leads to the directory. A count that no directory can have
/// stays; the next round corrects it.
fn count_subdirectory(session: &mut Session, ino: u64) -> Result<()> {
    let inode = &mut session.edit(ino)?.inode;
    inode.nlink = inode.nlink.saturating_add(1);
    Ok(())
}

/// The number of lost+found, which is made if need be.
fn lost_and_found(session: &mut Session, actions: &mut Actions) -> Result<u64> {
    let root = InodeNo::ROOT.0;
    let key = session.key(root)?;
    let mut name = LOST_AND_FOUND.to_owned();
    for attempt in 1..1000 {
        let mut blocks = session.directory(root);
        match directory::lookup(&key, &mut blocks, name.as_bytes()) {
            Ok(Some((ino, FileKind::Directory))) => return Ok(ino.0),
            Ok(Some(_)) => name = format!("{LOST_AND_FOUND}.{attempt}"),
            Ok(None) => break,
            Err(error) => return Err(damaged(error)),
        }
    }
    let (ino, version) = varve_fs::Layout::allocate_inode(&session.lfs).map_err(damaged)?;
    let mut inode = super::images::new_directory(ino, version);
    let now = varve_fs::Timestamp::from_ns(session.lfs.clock.now_ns());
    (inode.atime, inode.mtime, inode.ctime, inode.btime) = (now, now, now, now);
    session.create(inode);
    let mut blocks = session.directory(root);
    directory::insert(&key, &mut blocks, name.as_bytes(), ino, FileKind::Directory)
        .map_err(damaged)?;
    blocks.finish()?;
    count_subdirectory(session, root)?;
    actions.mended(format!("the directory /{name} was made"));
    Ok(ino.0)
}

fn damaged(error: varve_fs::Error) -> Error {
    crate::format::Malformed::new("directory", error.to_string()).into()
}
