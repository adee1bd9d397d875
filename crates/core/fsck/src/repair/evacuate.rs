//! Moves live blocks out of a segment whose summaries do not describe them.
//!
//! The cleaner cannot do this, because it finds live blocks through summaries. Repair
//! walks the indexes of all files instead. Each block is stored again with a new birth;
//! the segment is empty after the next checkpoint.

use super::report::Actions;
use super::session::Session;
use crate::check::{FileView, Survey, Visitor, walk};
use std::collections::BTreeSet;
use varve_fs::InodeNo;
use varve_lfs::format::Pointer;
use varve_lfs::format::inode::MAX_HEIGHT;
use varve_lfs::format::node::NodeId;
use varve_lfs::internal::Delta;
use varve_lfs::{Error, Geometry, Result};

/// Stores every live block of `segments` elsewhere.
///
/// # Errors
/// If there is no space, or the device fails.
pub(super) fn apply(
    session: &mut Session,
    survey: &Survey,
    segments: &BTreeSet<u32>,
    actions: &mut Actions,
) -> Result<()> {
    let geometry = *session.lfs.geometry_of_volume();
    let base = &survey.state.base;
    let mut inside = Inside {
        geometry,
        segments,
        nodes: Vec::new(),
        blocks: Vec::new(),
    };
    walk(
        session.lfs.reader(),
        InodeNo::IFILE,
        0,
        base.ifile_root(),
        &mut inside,
    );
    session.lfs.change_live(|live| {
        live.touched_ifile.extend(inside.blocks.drain(..));
        touch(&geometry, live, inside.nodes.drain(..));
    });
    for number in survey.inodes.numbers() {
        if survey.inodes.get(number).kind().is_none() {
            continue;
        }
        one_file(session, survey, number, &mut inside)?;
        session.flush_if_full()?;
    }
    for segment in segments {
        actions.mended(format!(
            "segment {segment}: what lives there is stored elsewhere now, as its summaries do not \
             tell of it"
        ));
    }
    Ok(())
}

fn touch(geometry: &Geometry, live: &mut Delta, nodes: impl Iterator<Item = NodeId>) {
    for id in nodes {
        // A generous bound that includes the nodes above it.
        live.touch(geometry, id, MAX_HEIGHT);
    }
}

fn one_file(
    session: &mut Session,
    survey: &Survey,
    number: u64,
    inside: &mut Inside<'_>,
) -> Result<()> {
    let ino = InodeNo(number);
    let (base, live) = (&survey.state.base, &survey.state.live);
    let geometry = *session.lfs.geometry_of_volume();
    let Ok(view) = FileView::new(session.lfs.reader(), &geometry, base, live, ino) else {
        return Ok(());
    };
    let mut moves = false;
    let mut xattrs = Pointer::NONE;
    if let Some((image, root)) = view.image() {
        walk(session.lfs.reader(), ino, image.inode.version, root, inside);
        xattrs = image.xattrs;
        moves |= view.place().is_some_and(|place| inside.holds(place.sector));
    }
    if let Some(delta) = view.delta() {
        xattrs = delta.xattrs.unwrap_or(xattrs);
        for (block, pointer) in delta.blocks.range(0, u64::MAX) {
            inside.block(block, &pointer);
        }
        moves |= delta
            .image
            .as_ref()
            .is_some_and(|placed| inside.holds(placed.place.sector));
    }
    session
        .lfs
        .change_live(|live| touch(&geometry, live, inside.nodes.drain(..)));
    let mut blocks = std::mem::take(&mut inside.blocks);
    blocks.sort_unstable();
    blocks.dedup();
    for block in blocks {
        // The index may name a copy that the log has replaced.
        if let Some((pointer, bytes)) = session.stored(number, block)?
            && !pointer.is_unwritten()
            && inside.holds(pointer.sector())
        {
            session.put_block(number, block, bytes?)?;
        }
    }
    if !xattrs.is_none() && inside.holds(xattrs.sector()) {
        let mut blob = session.lfs.reader().block(&xattrs, ino, 0)?;
        blob.truncate(session.edit(number)?.inode.xattr_bytes as usize);
        session.put_xattrs(number, blob.into_vec())?;
    }
    if moves {
        session.edit(number)?;
    }
    Ok(())
}

/// A visitor that collects the blocks in some segments.
struct Inside<'s> {
    geometry: Geometry,
    segments: &'s BTreeSet<u32>,
    nodes: Vec<NodeId>,
    blocks: Vec<u64>,
}

impl Inside<'_> {
    fn holds(&self, sector: u64) -> bool {
        let segment = self.geometry.segment_of(sector);
        segment.is_some_and(|segment| self.segments.contains(&segment))
    }
}

impl Visitor for Inside<'_> {
    fn node(&mut self, id: NodeId, pointer: &Pointer) -> bool {
        if self.holds(pointer.sector()) {
            self.nodes.push(id);
        }
        true
    }

    fn block(&mut self, block: u64, pointer: &Pointer) {
        if !pointer.is_unwritten() && self.holds(pointer.sector()) {
            self.blocks.push(block);
        }
    }

    fn refused(&mut self, _: NodeId, _: &Pointer, _: Error) {
        // This was reported and repaired before anything is moved.
    }

    fn done(&self) -> bool {
        false
    }
}
