//! Merging files of a private tree into its target.

use super::commit::Pair;
use super::times;
use super::validate::{clears, links_after};
use crate::content::put::{Put, Tail};
use crate::content::truncate::Survey;
use crate::error::Result;
use crate::file_system::FileSystem;
use crate::inode::{Inode, flags};
use crate::layout::Layout;
use crate::memory::body::Body;
use crate::memory::changes::ALL;
use crate::memory::overlay::Cover;
use crate::memory::vnode::{Dirty, Life, State, Vnode, adjust, sectors_of};
use crate::planted::{self, Planted};
use crate::types::{FileKind, Timestamp};
use crate::uses::lay_spans;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::Arc;

/// Data looked up before a file is changed.
#[derive(Default)]
pub(super) struct FilePlan {
    /// Ranges that become holes, as surveyed.
    holes: Vec<(u64, u64, Survey)>,
    /// Ranges that are reserved after that.
    reserved: Vec<(u64, u64)>,
    /// Sectors occupied by the blocks that are to be written.
    sectors: BTreeMap<u64, u64>,
    /// The tail to be cut, because its old bytes must not reappear when the size passes
    /// it.
    tail: Option<Tail>,
    /// Blocks of which only spans were written, laid over the target's content.
    pages: BTreeMap<u64, Body>,
    /// Bytes to append at the end that the file has now.
    appended: Option<Put>,
}

impl FilePlan {
    /// Sectors that a block occupies once the ranges are as planned.
    fn sectors_now(&self, block: u64, reserved: u64) -> u64 {
        let within = |(from, to): (u64, u64)| (from..to).contains(&block);
        if self.reserved.iter().copied().any(within) {
            reserved
        } else if self.clears(block) {
            0
        } else {
            self.sectors.get(&block).copied().unwrap_or(0)
        }
    }

    /// True if a block becomes a hole.
    fn clears(&self, block: u64) -> bool {
        let mut holes = self.holes.iter();
        holes.any(|&(from, to, _)| (from..to).contains(&block))
    }
}

impl<L: Layout> FileSystem<L> {
    /// Plans the part of a file's merge that can fail.
    ///
    /// # Errors
    /// Errors of reading the layout.
    pub(super) fn plan_file(&self, pair: &mut Pair<'_>) -> Result<FilePlan> {
        let mut plan = FilePlan::default();
        let waiting = pair.mine.state.appending();
        if !waiting.is_empty() {
            let size = match planted::is(Planted::AppendedWhereItEnded) {
                true => pair.mine.state.origin().origin.size,
                false => pair.state.inode.size,
            };
            let bytes = waiting.len() as u64;
            plan.appended = Some(self.plan_put(pair.vnode, &mut pair.state, size, bytes)?);
            return Ok(plan);
        }
        let pair = &*pair;
        let (mine, theirs) = (&*pair.mine.state, &*pair.state);
        if pair.vnode.kind == FileKind::Directory || mine.life != Life::Live {
            return Ok(plan);
        }
        if mine.is_inline() {
            // The content replaces any range reserved meanwhile.
            self.plan_hole(pair, Some((0, u64::MAX)), &mut plan)?;
            return Ok(plan);
        }
        self.plan_ranges(pair, &mut plan)?;
        let tail = theirs.inode.size >> self.store.block_shift;
        let is_mine = mine.dirty.contains_key(&tail) || plan.clears(tail);
        if mine.inode.size > theirs.inode.size && !is_mine {
            plan.tail = self.tail(pair.vnode, theirs)?;
        }
        for Range { start, end } in mine.dirty_runs() {
            let mapped = self.store.mapped(pair.vnode, theirs, start, end - start)?;
            let sectors = mapped.iter().map(|m| (m.block, m.sectors));
            plan.sectors.extend(sectors);
        }
        self.plan_pages(pair, &mut plan)?;
        Ok(plan)
    }

    /// Loads the block that the merge will cut into memory.
    ///
    /// # Errors
    /// As reading a block.
    pub(super) fn prepare_cut(&self, pair: &mut Pair<'_>) -> Result<()> {
        let size = pair.mine.state.inode.size;
        self.bring_back_end(&mut pair.state, size)
    }

    fn plan_ranges(&self, pair: &Pair<'_>, plan: &mut FilePlan) -> Result<()> {
        let mut hole: Option<(u64, u64)> = None;
        for (from, to, cover) in pair.mine.state.pending.within(0, u64::MAX) {
            match cover {
                Cover::Hole => {}
                Cover::Reserved { cleared: true } => plan.reserved.push((from, to)),
                // Some of it may have been reserved in the target as well, or written
                // with zeros.
                Cover::Reserved { cleared: false } => {
                    let holes = self.holes(pair.vnode, &pair.state, from, to)?;
                    plan.reserved.extend(holes);
                }
            }
            if !clears(cover) {
                continue;
            }
            match &mut hole {
                Some((_, end)) if *end == from => *end = to,
                _ => self.plan_hole(pair, hole.replace((from, to)), plan)?,
            }
        }
        self.plan_hole(pair, hole, plan)
    }

    fn plan_pages(&self, pair: &Pair<'_>, plan: &mut FilePlan) -> Result<()> {
        let (mine, theirs) = (&*pair.mine.state, &*pair.state);
        for (&block, spans) in &mine.origin().spans {
            let Some(dirty) = mine.dirty.get(&block) else {
                continue;
            };
            let there = self.store.load_of(pair.vnode, theirs, block)?;
            let there = there.as_ref().map_or(&[][..], |loaded| &loaded.data);
            let mine = self.store.content_of(pair.vnode.ino, block, dirty)?;
            plan.pages
                .insert(block, lay_spans(there, &mine, spans).into());
        }
        Ok(())
    }

    fn plan_hole(
        &self,
        pair: &Pair<'_>,
        hole: Option<(u64, u64)>,
        plan: &mut FilePlan,
    ) -> Result<()> {
        if let Some((from, to)) = hole {
            let survey = self.survey(pair.vnode, &pair.state, from, to, u64::MAX)?;
            plan.holes.push((from, to, survey));
        }
        Ok(())
    }

    /// Carries out the plan; names have been merged.
    pub(super) fn merge_file(&self, pair: &mut Pair<'_>, now: Timestamp) {
        let Pair {
            mine,
            vnode,
            state,
            plan,
            reads: _,
        } = pair;
        let (mine, theirs) = (&*mine.state, &mut **state);
        let origin = &mine.origin().origin;
        let links = links_after(origin, &mine.inode, &theirs.inode);
        if mine.life != Life::Live {
            return self.merge_end(vnode, theirs, now);
        }
        theirs.inode.nlink = u32::try_from(links).unwrap_or(u32::MAX);
        if vnode.kind == FileKind::Directory {
            if mine.inode.parent != origin.parent {
                vnode.move_below(theirs, mine.inode.parent);
            }
        } else if mine.has_new_content() {
            self.merge_content(vnode, mine, theirs, std::mem::take(plan), now);
        } else if let Some(put) = plan.appended.take() {
            // Their times are those of the merged attributes.
            let times = (theirs.inode.mtime, theirs.inode.ctime);
            self.carry_out_put(vnode, theirs, put, mine.appending(), now);
            (theirs.inode.mtime, theirs.inode.ctime) = times;
        }
        if mine.xattrs_dirty {
            let before = theirs.usage();
            let blob = mine.xattrs.get().map(|blob| (**blob).clone());
            self.set_blob(theirs, blob.unwrap_or_default().into_vec());
            self.space.settle(before, theirs.usage());
        }
        merge_attributes(origin, &mine.inode, &mut theirs.inode);
        theirs.join_epoch |= theirs.has_data() && !planted::is(Planted::MemberWithoutData);
        if self.below.is_none() || !planted::is(Planted::ChildChangesKept) {
            self.join(vnode, theirs);
        }
        if links == 0 && origin.nlink > 0 {
            self.merge_end(vnode, theirs, now);
        }
    }

    /// Removes a file's last name. The file may still be referenced.
    fn merge_end(&self, vnode: &Arc<Vnode>, theirs: &mut State, now: Timestamp) {
        if vnode.kind == FileKind::Directory {
            return self.drop_directory(vnode, theirs, now);
        }
        theirs.inode.nlink = 1;
        self.drop_link(vnode, theirs, now);
    }

    fn merge_content(
        &self,
        vnode: &Arc<Vnode>,
        mine: &State,
        theirs: &mut State,
        mut plan: FilePlan,
        now: Timestamp,
    ) {
        let before = theirs.usage();
        if theirs.is_inline() || mine.is_inline() {
            self.merge_inline(mine, theirs, now);
        }
        if let Some(tail) = plan.tail.take() {
            self.cut_tail(theirs, tail);
        }
        for &(from, to, survey) in &plan.holes {
            self.remove(theirs, from, to, survey);
        }
        self.space.settle(before, theirs.usage());
        self.reserve_holes(vnode, theirs, &plan.reserved, false, now);
        let before = theirs.usage();
        for (&block, dirty) in &mine.dirty {
            let sectors = plan.sectors_now(block, self.store.sectors_per_block());
            let page = plan.pages.get(&block).unwrap_or(&dirty.data);
            note_spans(theirs, block, mine.origin().spans.get(&block));
            self.lay_block(theirs, block, (page, dirty.written), sectors);
        }
        let size = mine.inode.size;
        if size != mine.origin().origin.size {
            theirs.inode.size = size;
            self.cut_dirty_end(theirs, size);
            theirs.logged.size = match theirs.has_data() {
                true => theirs.logged.size.min(size),
                false => size,
            };
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            theirs.logged.inline.truncate(size);
        }
        theirs.changes.note(ALL);
        self.space.settle(before, theirs.usage());
        match theirs.has_data() {
            true => self.enqueue(vnode, theirs),
            false => self.dequeue(theirs),
        }
    }

    /// Merges content that is inline on either side.
    fn merge_inline(&self, mine: &State, theirs: &mut State, now: Timestamp) {
        if mine.is_inline() || !mine.dirty.contains_key(&0) {
            theirs.set_inline(mine.inode.inline.clone());
            theirs.inline_dirty = true;
        } else {
            self.leave_inline(theirs, now);
        }
    }

    /// Replaces a block, which occupies `sectors` of the layout.
    fn lay_block(
        &self,
        state: &mut State,
        block: u64,
        (data, written): (&Body, Timestamp),
        mapped: u64,
    ) {
        let data = data.clone();
        match state.dirty.entry(block) {
            Entry::Occupied(mut entry) => {
                let dirty = entry.get_mut();
                self.exchange_dirty(&mut state.inode, dirty, data);
                dirty.written = written;
            }
            Entry::Vacant(entry) => {
                self.store.cache.take(&state.generation, block);
                adjust(&mut state.inode.blocks, 0, (mapped == 0).into());
                adjust(&mut state.inode.sectors, mapped, sectors_of(data.len()));
                self.waits.block_came(data.resident());
                entry.insert(Dirty {
                    data,
                    logged_sectors: mapped as u32,
                    written,
                    flying: false,
                });
            }
        }
    }
}

/// Records that these bytes of a block, or all, are changes of the target, if that is a
/// private tree itself.
fn note_spans(theirs: &mut State, block: u64, spans: Option<&Vec<Range<u32>>>) {
    let is_dirty = theirs.dirty.contains_key(&block);
    let Some(private) = &mut theirs.private else {
        return;
    };
    match spans {
        None => drop(private.spans.remove(&block)),
        // All of the block was a change of that tree.
        Some(_) if is_dirty && !private.spans.contains_key(&block) => {}
        Some(spans) => {
            let all = private.spans.entry(block).or_default();
            all.extend(spans.iter().cloned());
        }
    }
}

/// Merges the attributes that were set; for times see `times.rs`.
fn merge_attributes(origin: &Inode, mine: &Inode, theirs: &mut Inode) {
    theirs.mode = mine.mode;
    theirs.uid = mine.uid;
    theirs.gid = mine.gid;
    theirs.project = mine.project;
    theirs.flags = theirs.flags & flags::STORED | mine.flags & (!flags::STORED | flags::GUARDED);
    times::merge(origin, mine, theirs);
}
