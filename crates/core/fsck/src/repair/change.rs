//! Change: the volume is mounted with the patches, the remaining remedies are appended as
//! ordinary groups, and as many checkpoints are taken as the ring has slots.
//!
//! Storage is changed first, names in later rounds, segments last, because each relies on
//! the corrections before it. The commit point is the first of the checkpoints; until
//! then the damaged volume remains in effect.

use super::evidence::Evidence;
use super::look::{Looked, name_of, paths_of};
use super::remedies::Remedies;
use super::session::Session;
use super::{CACHE_BYTES, Repair, evacuate};
use crate::check::{Fix, Survey, known};
use std::collections::BTreeSet;
use varve_lfs::format::inode::MAX_HEIGHT;
use varve_lfs::internal::{
    Image, Parts, Recovered, clear_leftover, is_entered, load_base, place_of, roll_forward,
};
use varve_lfs::{Error, Geometry, Lfs, MountOptions, RecoveryReport, Result};

impl Repair<'_> {
    /// Mounts the volume with the patches, applies the remedies, and takes the
    /// checkpoints.
    pub(super) fn change(&mut self, parts: Parts, looked: &Looked) -> Result<()> {
        let survey = &looked.survey;
        let reader = &parts.reader;
        let geometry = Geometry::from(&parts.superblock);
        let (mut base, table) = load_base(reader, &geometry, &looked.record)?;
        base.unfinished.clear();
        base.metadata_bytes = survey.counts.metadata_bytes;
        // The possible growth of index nodes is derived from this count.
        base.usage.blocks = base.usage.blocks.max(survey.usage.blocks);
        let report = RecoveryReport::default();
        let image = Image {
            record: &looked.record,
            base,
            table,
            older: None,
        };
        let mut recovered = roll_forward(&parts.superblock, reader, &geometry, image, 0, report)?;
        recovered.report.damage.clear();
        if looked.survey.found.fixes.contains(&Fix::LogEnd) {
            let tag = parts.superblock.volume_tag();
            let gather = || Evidence::gather(reader, &geometry, tag, &|_, _| {});
            looked.evidence.get_or_init(gather);
        }
        self.correct(&mut recovered, looked, &geometry);
        let moved = move_heads(&mut recovered, survey, &geometry)?;
        for &byte in recovered.leftovers.iter().filter(|b| !moved.contains(b)) {
            clear_leftover(&*parts.device, byte)?;
        }
        parts.device.flush()?;
        let options = MountOptions {
            cache_bytes: CACHE_BYTES,
            seed: self.options.seed,
            owner: self.options.owner.clone(),
            ..MountOptions::default()
        };
        let records = parts.superblock.record_count.get();
        let lfs = Lfs::assemble(parts, recovered, options, None)?;
        lfs.write_owner(true)?;
        let mut session = Session::new(lfs, survey);
        self.remedies(&mut session, looked)?;
        session.flush()?;
        for _ in 1..records {
            session.lfs.checkpoints().take_checkpoint(false)?;
        }
        session.lfs.unmount()
    }

    /// Replaces recorded totals by those that the check counted.
    fn correct(&mut self, recovered: &mut Recovered, looked: &Looked, geometry: &Geometry) {
        let survey = &looked.survey;
        for segment in 0..geometry.segment_count {
            let used = survey.claims.get(segment);
            let live_bytes = used.base_live.min(u64::from(u32::MAX)) as u32;
            let is_used = used.used() || live_bytes > 0;
            recovered
                .segments
                .recount(segment, live_bytes, is_used, used.incarnation);
        }
        recovered.usage = survey.usage;
        let unfinished: BTreeSet<u64> = survey
            .inodes
            .numbers()
            .filter(|&ino| {
                let inode = survey.inodes.get(ino);
                inode.kind().is_some() && inode.has(known::UNFINISHED)
            })
            .collect();
        let live = recovered.live_mut();
        live.replace_unfinished(unfinished.iter().copied());
        live.touched_ifile.extend(&looked.touched.ifile);
        for id in &looked.touched.nodes {
            live.touch(geometry, *id, MAX_HEIGHT);
        }
        recovered.unfinished = unfinished;
        let fixes = &survey.found.fixes;
        if fixes.contains(&Fix::LogEnd) {
            let text = "the log behind the damage: what it held was acknowledged and is gone";
            self.actions.lost(text);
        }
        if fixes.contains(&Fix::Accounts) {
            self.actions.mended("counts, lists and totals");
        }
        for line in survey.state.report.damage.iter().skip(1) {
            self.actions.lost(line.clone());
        }
        for fix in fixes {
            if let Fix::Slot { slot, .. } = fix {
                self.actions
                    .mended(format!("slot {slot} of the checkpoint ring"));
            }
        }
        // Partials that remain behind the new end of the log must not look like its
        // continuation.
        if let Some(evidence) = looked.evidence.get() {
            let incarnation = recovered.end.incarnation();
            recovered
                .end
                .set_incarnation(incarnation.max(evidence.incarnation));
            recovered.segments.opened_at_least(evidence.segments_opened);
        }
    }

    fn remedies(&mut self, session: &mut Session, looked: &Looked) -> Result<()> {
        let survey = &looked.survey;
        let fixes = &survey.found.fixes;
        let paths = paths_of(&survey.found);
        let names = |ino| name_of(&paths, ino);
        for &ino in &looked.touched.inodes {
            match session.edit(ino) {
                Ok(_) | Err(Error::NoInode(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let trivial =
            |fix: &&Fix| matches!(fix, Fix::Superblock { .. } | Fix::Slot { .. } | Fix::LogEnd);
        let storage = fixes
            .iter()
            .filter(|fix| fix.is_of_storage() && !trivial(fix));
        let mut remedies = Remedies {
            session,
            names: &names,
            actions: &mut self.actions,
        };
        if storage.count() > 0 {
            return remedies.mend_storage(fixes, &looked.evidence);
        }
        if fixes.iter().any(Fix::is_of_names) {
            let geometry = *remedies.session.lfs.geometry_of_volume();
            let was_freed = |ino| {
                let block = geometry.imap_block(ino);
                !survey.names_lost && looked.rebuilt.contains(&block)
            };
            return remedies.mend_names(fixes, &was_freed);
        }
        // As many segments as there is space for; the rest follows in the next round.
        let room = remedies.session.lfs.space().clean_segments_now() / 2;
        let segments: BTreeSet<u32> = fixes
            .iter()
            .filter_map(|fix| match fix {
                Fix::Evacuate { segment } => Some(*segment),
                _ => None,
            })
            .take(room.max(1) as usize)
            .collect();
        if !segments.is_empty() {
            evacuate::apply(remedies.session, survey, &segments, remedies.actions)?;
        }
        Ok(())
    }
}

/// Moves the log's heads if their continuation would overwrite live blocks. Returns the
/// former continuations, which the mount must not clear.
fn move_heads(
    recovered: &mut Recovered,
    survey: &Survey,
    geometry: &Geometry,
) -> Result<BTreeSet<u64>> {
    let mut moved = BTreeSet::new();
    for head in 0..recovered.end.heads() {
        let position = recovered.end.at(head);
        let mut place = place_of(&position);
        let (segment, offset) = (place.segment.get(), place.offset.get());
        let next = place.next_segment.get();
        let over_live = survey.claims.first_at(segment, offset).is_some();
        if over_live {
            place.offset = geometry.segment_bytes.into();
        }
        let into_live = survey.claims.get(next).used();
        if into_live {
            recovered.segments.leave(next);
            let another = recovered.segments.take(segment)?;
            place.next_segment = another.into();
            if !is_entered(&position) {
                place.segment = another.into();
            }
        }
        recovered.end.set_place(head, place);
        if over_live || into_live {
            let (segment, offset, _) = geometry.successor(&position);
            moved.insert(geometry.byte(segment, offset));
        }
    }
    Ok(moved)
}
