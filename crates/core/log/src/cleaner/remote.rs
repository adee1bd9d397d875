//! The four calls, for cleaners of other processes.
//!
//! A stranger says what is to be done; nothing that he says is believed.
//!
//! - A remote cleaner names a block as [`Cleaner::serve_cleaner`] described it. The
//!   server looks the name up in what the segment's own summaries say, asks
//!   whether it lives, reads it, checks it, and moves it as the mount's own
//!   cleaner would: liveness is tested once more as the copy is appended.
//! - He declares a segment done. The server looks at every block of it again
//!   and refuses if one lives and nobody has put it down for the next
//!   checkpoint. The segment is reused as any is.
//! - He cannot use up the room that writers and checkpoints need: one move at
//!   a time, of a mebibyte at most, and only if [`Cleaner::may_move`] allows it.
//! - He cannot hold a lock, and no call of his waits for anything but the
//!   device. What would have to wait is refused with `Again`.

use super::pass::Judged;
use super::wire::{Answer, BLOCKS, Block, Marked, Request, Standing, USAGES, Usage};
use crate::chain::ChainItem;
use crate::cleaner::Cleaner;
use crate::control::Control;
use crate::control::claims::{ClaimError, CleanerId};
use crate::control::contents::{BlockInfo, SegmentContents};
use crate::format::SECTOR;
use crate::mechanism::{Found, GROUP_BYTES, Life};
use crate::segments::Edition;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Calls that may be at work at a time: the threads that serve a mount are for
/// its users.
const AT_ONCE: u32 = 2;
/// Blocks judged in one call.
const JUDGED_AT_ONCE: usize = 4096;

/// Why a call was refused. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The cleaner has not joined, or was silent for too long: its claims are
    /// gone.
    #[error("no such cleaner: it has not joined, or was silent for too long")]
    Unknown,
    /// Another cleaner has claimed the segment.
    #[error("another cleaner has this segment")]
    Taken,
    /// There are as many cleaners, or claims, as there may be.
    #[error("too many cleaners or claims")]
    TooMany,
    /// There is no such segment, or it cannot be cleaned, or it was not
    /// claimed, or has been written anew since.
    #[error("not a segment that can be cleaned, or not claimed")]
    NotThis,
    /// Blocks of the segment still live.
    #[error("{0} blocks of the segment still live")]
    StillLives(u32),
    /// Not now: others are at work, or there is no room before the next
    /// checkpoint.
    #[error("not now")]
    Again,
    /// The volume takes no writes, or the device failed.
    #[error(transparent)]
    Failed(#[from] crate::Error),
}

impl From<ClaimError> for CallError {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Unknown => CallError::Unknown,
            ClaimError::Taken => CallError::Taken,
            ClaimError::TooMany => CallError::TooMany,
        }
    }
}

type Answered<T> = std::result::Result<T, CallError>;

/// Counts a call for as long as it lives.
struct Counted<'l>(&'l Control);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let running = self.0.remote_calls.fetch_sub(1, Relaxed);
        assert!(running > 0, "a call ends twice");
    }
}

/// What a block is called by strangers. Nodes and inodes have no time.
fn name_of(info: &BlockInfo) -> Option<Block> {
    let (ino, version, block, birth, written_ns) = match info.item {
        ChainItem::Record { .. } | ChainItem::Placed { .. } | ChainItem::Map { .. } => return None,
        ChainItem::Block {
            ino,
            version,
            block,
            pointer,
            written_ns,
            ..
        } => (ino, version, block, pointer.birth(), written_ns),
        ChainItem::Node {
            id,
            version,
            pointer,
        } => (id.ino, version, id.index, pointer.birth(), i64::MIN),
        ChainItem::Inode {
            ino,
            version,
            place,
            ..
        } => (ino, version, 0, place.birth, i64::MIN),
    };
    Some(Block {
        ino: ino.0.into(),
        block: block.into(),
        byte: info.byte.into(),
        birth: birth.into(),
        written_ns: written_ns.into(),
        version: version.into(),
        length: info.length.into(),
    })
}

/// The number of the block that a stranger calls by this name.
fn find(contents: &SegmentContents, name: &Block) -> Option<usize> {
    let blocks = &contents.blocks;
    // They are listed as they lie, but for inodes, which lie behind the rest
    // of their partial: look near the place first.
    let near = blocks.partition_point(|info| info.byte < name.byte.get());
    let is_it = |at: &usize| blocks.get(*at).and_then(name_of).as_ref() == Some(name);
    (near..blocks.len().min(near + 1))
        .find(is_it)
        .or_else(|| (0..blocks.len()).find(is_it))
}

impl Cleaner {
    /// Answers a cleaner of another process. Returns its number, which is new
    /// if it joins, and the answer. `pid` is told to people only.
    ///
    /// # Errors
    /// Says why it is refused; then nothing has changed.
    pub fn serve_cleaner(
        &self,
        cleaner: u64,
        request: Request,
        pid: u32,
    ) -> Answered<(u64, Answer)> {
        if let Some(reason) = self.durability.stopped() {
            return Err(crate::Error::Stopped(reason).into());
        }
        if self.control.remote_calls.fetch_add(1, Relaxed) >= AT_ONCE {
            self.control.remote_calls.fetch_sub(1, Relaxed);
            return Err(CallError::Again);
        }
        let _counted = Counted(&self.control);
        let now_ns = self.clock.monotonic_ns();
        let id = match &request {
            Request::Wait { policy } if cleaner == 0 => {
                let claims = &mut self.control.shared().claims;
                claims.join(policy, pid, now_ns)?
            }
            // Nobody speaks for the mount's own.
            _ if cleaner == CleanerId::OWN.0 => return Err(CallError::Unknown),
            _ => {
                let id = CleanerId(cleaner);
                self.control.shared().claims.renew(id, now_ns)?;
                id
            }
        };
        let answer = match request {
            Request::Wait { .. } => Answer::Standing(self.standing()),
            Request::Usage { from } => self.usage_page(id, from),
            Request::Bmapv { segment, from } => self.living_page(id, segment, from as usize)?,
            Request::Markv { sorted, blocks } => {
                Answer::Marked(self.move_named(id, sorted, &blocks)?)
            }
            Request::Segclean { segment } => {
                self.declare_clean(id, segment)?;
                Answer::Done
            }
            Request::Release { segment } => {
                self.control.shared().claims.release(id, segment);
                Answer::Done
            }
            Request::Leave => {
                self.control.shared().claims.leave(id);
                Answer::Done
            }
        };
        Ok((id.0, answer))
    }

    fn standing(&self) -> Standing {
        let gauge = self.space.cleaning_gauge();
        let idle_ns = self.control.idle_ns(self.clock.monotonic_ns());
        Standing {
            clean: gauge.clean.into(),
            floor: gauge.floor.into(),
            low: gauge.low.into(),
            high: gauge.high.into(),
            used_bytes: gauge.used_bytes.into(),
            idle_ns: idle_ns.into(),
            now_ns: self.clock.now_ns().into(),
            segment_bytes: self.space.dependable_bytes().into(),
            segments: u64::from(self.geometry.segment_count).into(),
            waiting: u64::from(gauge.waiting).into(),
        }
    }

    fn usage_page(&self, id: CleanerId, from: u32) -> Answer {
        let count = self.geometry.segment_count;
        let candidates = self.candidates_among(id, from.min(count)..count);
        let next = candidates.get(USAGES).map(|candidate| candidate.segment);
        let page = candidates.iter().take(USAGES).map(|candidate| Usage {
            live_bytes: candidate.live_bytes.into(),
            newest_ns: candidate.newest_ns.into(),
            segment: candidate.segment.into(),
            spare: 0.into(),
        });
        Answer::Usage {
            segments: page.collect(),
            next,
        }
    }

    /// Claims a segment, and lists what lives in it from block `from` on.
    fn living_page(&self, id: CleanerId, segment: u32, from: usize) -> Answered<Answer> {
        let contents = match from {
            0 => self.claim_for(id, segment)?,
            _ => self.claimed(id, segment)?,
        };
        let mut blocks = Vec::new();
        let mut at = from;
        let end = contents
            .blocks
            .len()
            .min(from.saturating_add(JUDGED_AT_ONCE));
        // As many at a time as there is room for, should all of them live.
        while at < end && blocks.len() < BLOCKS {
            let next = end.min(at + BLOCKS - blocks.len());
            let some: Vec<&BlockInfo> = contents.blocks[at..next].iter().collect();
            let lives = self
                .mechanism
                .lives_of(&some, &mut Found::default(), &|| true);
            let lives = self.legible(id, (segment, contents.edition), lives)?;
            let named = some.into_iter().zip(lives);
            blocks.extend(named.filter_map(|(info, life)| life.and_then(|_| name_of(info))));
            at = next;
        }
        let next = (at < contents.blocks.len()).then_some(at as u32);
        Ok(Answer::Blocks { blocks, next })
    }

    fn claim_for(&self, id: CleanerId, segment: u32) -> Answered<Arc<SegmentContents>> {
        if segment >= self.geometry.segment_count {
            return Err(CallError::NotThis);
        }
        let claims_it = |what| {
            let shared = &mut self.control.shared();
            shared.claims.claim(id, segment, Arc::new(what))
        };
        // Before it is read, or two would read it.
        claims_it(SegmentContents::default())?;
        let read = || -> Answered<SegmentContents> {
            let mut candidates = self.candidates_among(id, segment..segment + 1);
            candidates.pop().ok_or(CallError::NotThis)?;
            let (edition, live_bytes) =
                self.mechanism.settled(segment).ok_or(CallError::NotThis)?;
            let survey = self.mechanism.understood(segment, edition, live_bytes);
            Ok(self
                .legible(id, (segment, edition), survey)?
                .without_bytes())
        };
        let contents = read().inspect_err(|_| {
            self.control.shared().claims.release(id, segment);
        })?;
        claims_it(contents)?;
        self.claimed(id, segment)
    }

    /// What was read of a segment as this edition. One that cannot be read is kept, and the
    /// cleaner goes on to others.
    fn legible<T>(
        &self,
        id: CleanerId,
        of: (u32, Edition),
        read: crate::error::Result<T>,
    ) -> Answered<T> {
        match read {
            Err(error) if error.is_of_the_medium() => {
                let (segment, edition) = of;
                tracing::error!(%error, segment, "cleaners leave a segment alone");
                self.mechanism.distrust(segment, edition);
                self.control.shared().claims.release(id, segment);
                Err(CallError::NotThis)
            }
            other => Ok(other?),
        }
    }

    /// What a cleaner has been told of a segment that it has claimed.
    fn claimed(&self, id: CleanerId, segment: u32) -> Answered<Arc<SegmentContents>> {
        let shared = self.control.shared();
        let held = shared.claims.held(id, segment).map(Arc::clone);
        let held = held.ok_or(CallError::NotThis)?;
        drop(shared);
        // The log may have come back to it.
        match self.mechanism.settled(segment) {
            Some((edition, _)) if edition == held.edition => Ok(held),
            _ => {
                self.control.shared().claims.release(id, segment);
                Err(CallError::NotThis)
            }
        }
    }

    fn move_named(&self, id: CleanerId, sorted: bool, names: &[Block]) -> Answered<Marked> {
        for _ in 0..3 {
            let mut marked = Marked::default();
            let mut segments: Vec<(Arc<SegmentContents>, Vec<usize>)> = Vec::new();
            let (mut done, mut unknown, mut bytes) = (0u32, 0u32, 0);
            for name in names {
                if bytes >= GROUP_BYTES {
                    break;
                }
                done += 1;
                let Some((of, at)) = self.named(id, name, &mut segments) else {
                    unknown += 1;
                    continue;
                };
                let (contents, which) = &mut segments[of];
                bytes += contents.blocks[at].length as usize;
                which.push(at);
            }
            (marked.done, marked.unknown) = (done.into(), unknown.into());
            let mut found = Found::default();
            for (contents, which) in &mut segments {
                which.sort_unstable();
                which.dedup();
                let some = self.mechanism.bmapv_some(contents, which, &|| true);
                let some = self.legible(id, (contents.segment, contents.edition), some)?;
                if some.damaged > 0 {
                    self.mechanism.distrust(contents.segment, contents.edition);
                    self.control.shared().claims.release(id, contents.segment);
                    marked.damaged = some.damaged.into();
                    return Ok(marked);
                }
                found.append(some);
            }
            marked.moved = (found.len() as u32).into();
            if sorted {
                found.sort_by_age();
            }
            let Some(_one_at_a_time) = self.moving.try_lock() else {
                return Err(CallError::Again);
            };
            let fold = self.mechanism.fold_of(&[&found]);
            if !found.is_empty() && !self.space.may_move(bytes as u64, fold) {
                return Err(CallError::Again);
            }
            if self.mechanism.markv(found)?.is_some() {
                return Ok(marked);
            }
        }
        // Checkpoints follow each other too closely.
        Err(CallError::Again)
    }

    /// Where a named block is: in which of `segments`, which grows, and which
    /// block of it.
    fn named(
        &self,
        id: CleanerId,
        name: &Block,
        segments: &mut Vec<(Arc<SegmentContents>, Vec<usize>)>,
    ) -> Option<(usize, usize)> {
        let segment = self.geometry.segment_of(name.byte.get() / SECTOR)?;
        let known = segments.iter().position(|(c, _)| c.segment == segment);
        let which = match known {
            Some(which) => which,
            None => {
                segments.push((self.claimed(id, segment).ok()?, Vec::new()));
                segments.len() - 1
            }
        };
        find(&segments[which].0, name).map(|at| (which, at))
    }

    /// Declares a segment done if nothing in it lives but what the next
    /// checkpoint writes anew.
    fn declare_clean(&self, id: CleanerId, segment: u32) -> Answered<()> {
        let contents = self.claimed(id, segment)?;
        let base = self.layers.read().base.serial;
        let (mut nodes, mut ifile, mut lives) = (Vec::new(), Vec::new(), 0);
        let blocks: Vec<&BlockInfo> = contents.blocks.iter().collect();
        let judged = self
            .mechanism
            .lives_of(&blocks, &mut Found::default(), &|| true);
        let judged = self.legible(id, (segment, contents.edition), judged)?;
        for (info, life) in blocks.into_iter().zip(judged) {
            match (life, info.item) {
                (None, _) => {}
                (Some(Life::Node(_)), ChainItem::Node { id, .. }) => nodes.push(id),
                (Some(Life::Ifile), ChainItem::Block { block, .. }) => ifile.push(block),
                (Some(_), _) => lives += 1,
            }
        }
        let checkpoint = {
            let committed = self.layers.read();
            if committed.base.serial != base {
                return Err(CallError::Again);
            }
            let deltas = || {
                let frozen = committed.frozen.as_deref();
                std::iter::once(&committed.live).chain(frozen)
            };
            let node = |id| deltas().any(|delta| delta.is_touched(id));
            let block = |block| deltas().any(|delta| delta.touched_ifile.contains(block));
            lives += nodes.iter().filter(|id| !node(*id)).count() as u32;
            lives += ifile.iter().filter(|at| !block(*at)).count() as u32;
            base + 1 + u64::from(committed.frozen.is_some())
        };
        if lives > 0 {
            return Err(CallError::StillLives(lives));
        }
        // As the last checkpoint counted them.
        let live_bytes = self.segments.lock().get(segment).live_bytes.into();
        let judged = Judged {
            segment,
            edition: contents.edition,
            live_bytes,
            data: contents.complete && nodes.is_empty() && ifile.is_empty(),
        };
        self.cleaned(judged, checkpoint);
        let now_ns = self.clock.monotonic_ns();
        let claims = &mut self.control.shared().claims;
        claims.count_cleaned(id, now_ns);
        claims.release(id, segment);
        Ok(())
    }
}
