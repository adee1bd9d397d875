//! Repair, offline: what a check finds is mended without guessing.
//!
//! Rounds, until a check finds nothing that there is a remedy for:
//!
//! 1. *Look*: the state that recovery makes, checked phase by phase; each
//!    finding carries its remedy (`Fix`).
//! 2. *Patch*: metadata that cannot be read is found out from summaries, and
//!    read in its stead from then on (`mender`). Look again.
//! 3. *Change*: the volume is mounted with the patches in place. What is left
//!    to do goes through the log as ordinary groups (`session`): first what
//!    is stored, in later rounds names, at last segments and accounts.
//! 4. *Checkpoint*, as often as the ring has slots, so that every retained
//!    record describes the volume as it is now.
//!
//! Invariants:
//! - Nothing live is overwritten. Until the first checkpoint record stands,
//!   what is on the medium is the damaged volume and ordinary groups behind
//!   it; a crash at any point leaves a volume that repair can take up.
//! - A volume on which a check finds nothing to mend is not written to.
//!
//! Memory: what a check takes, 32 bytes per partial segment, the content of
//! one group or one damaged directory, and 4 KiB per patch.

mod evacuate;
pub(crate) mod evidence;
mod images;
pub(crate) mod mender;
mod names;
mod report;
mod session;
mod storage;
pub(crate) mod superblocks;
pub(crate) mod trace;

pub use report::{Action, RepairReport};

use crate::check::{
    CheckOptions, CheckReport, Findings, Fix, Phase, State, Survey, known, ring_and_copies, survey,
};
use crate::durability::Durability;
use crate::error::{Error, Result};
use crate::format::checkpoint::CheckpointRecord;
use crate::format::inode::InodeImage;
use crate::format::node::NodeId;
use crate::format::superblock::KNOWN_READ_ONLY_COMPAT;
use crate::format::{Superblock, UsageEntry};
use crate::geometry::Geometry;
use crate::lfs::{Lfs, MountOptions};
use crate::mount::Parts;
use crate::reader::Reader;
use crate::recovery::{Recovered, RecoveryReport, check_position, clear_leftover, roll_forward};
use crate::statistics::Counters;
use evidence::Evidence;
use mender::Mender;
use report::Actions;
use session::Session;
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use trace::Horizon;
use varve_device::{Clock, Device};
use varve_fs::InodeNo;

/// Rounds before repair gives in: each must have changed what is found.
const MAX_ROUNDS: usize = 64;
/// Surveys within one round.
const MAX_LOOKS: usize = 64;
/// Bytes of decoded metadata kept.
const CACHE_BYTES: u64 = 16 << 20;

/// How to repair, and whom to tell how far it is.
pub struct RepairOptions<'a> {
    /// Verify the checksum of every live block, too.
    pub data: bool,
    /// Do only what loses nothing that a user stored.
    pub safe_only: bool,
    /// Recorded in the owner record while the volume is written.
    pub owner: crate::OwnerIdentity,
    /// Fixes the mount's random identity, for reproducible runs.
    pub seed: Option<u64>,
    /// As [`CheckOptions::progress`].
    pub progress: &'a dyn Fn(Phase, u64, u64),
}

impl Default for RepairOptions<'_> {
    fn default() -> Self {
        RepairOptions {
            data: true,
            safe_only: false,
            owner: crate::OwnerIdentity::default(),
            seed: None,
            progress: &|_, _, _| {},
        }
    }
}

impl std::fmt::Debug for RepairOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RepairOptions")
            .field("data", &self.data)
            .field("safe_only", &self.safe_only)
            .finish_non_exhaustive()
    }
}

/// Repairs a volume that nobody has mounted.
///
/// # Errors
/// If no superblock or no checkpoint record is valid (the log may still be
/// salvaged), or the device fails. Everything else is in the report.
pub fn repair(
    device: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    options: &RepairOptions<'_>,
) -> Result<RepairReport> {
    let started_ns = clock.monotonic_ns();
    let mut repair = Repair {
        device,
        clock,
        options,
        actions: Actions::default(),
        refused: Vec::new(),
    };
    let mut before: Option<Vec<String>> = None;
    let mut rounds = 0;
    loop {
        let earlier = repair.actions.len();
        let (mut check, changed) = repair.round()?;
        let left: Vec<String> = (check.errors.iter().chain(&check.warnings))
            .map(|finding| format!("{} {}", finding.subject, finding.text))
            .chain(repair.actions.since(earlier))
            .collect();
        rounds += 1;
        let stuck = changed && (before.as_ref() == Some(&left) || rounds == MAX_ROUNDS);
        if stuck {
            let text = "what is left comes back after each round: salvage the volume";
            repair.refused.push(text.into());
        }
        if stuck || !changed {
            check.elapsed_ns = repair.clock.monotonic_ns().saturating_sub(started_ns);
            return Ok(RepairReport {
                actions: repair.actions.into_vec(),
                refused: repair.refused,
                check,
            });
        }
        before = Some(left);
    }
}

struct Repair<'a> {
    device: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    options: &'a RepairOptions<'a>,
    actions: Actions,
    refused: Vec<String>,
}

/// What a look found, and what it took to look.
struct Looked {
    survey: Survey,
    record: CheckpointRecord,
    evidence: OnceCell<Evidence>,
    touched: Touched,
    rebuilt: BTreeSet<u64>,
}

/// What the next checkpoint must write.
#[derive(Default)]
struct Touched {
    nodes: BTreeSet<NodeId>,
    /// Blocks of the ifile.
    ifile: BTreeSet<u64>,
    inodes: BTreeSet<u64>,
}

impl Touched {
    fn any(&self) -> bool {
        !self.nodes.is_empty() || !self.ifile.is_empty() || !self.inodes.is_empty()
    }
}

impl Repair<'_> {
    /// One round: the findings it began with, and whether anything changed.
    fn round(&mut self) -> Result<(CheckReport, bool)> {
        let superblock = superblocks::newest(&*self.device)?;
        let unknown = superblock.read_only_compat.get() & !KNOWN_READ_ONLY_COMPAT;
        if unknown != 0 {
            let text =
                format!("the volume uses features {unknown:#x} that this program can only read");
            return self.only_checked(&text);
        }
        let (found, records) = ring_and_copies(&*self.device, &superblock)?;
        let mut changed = self.superblock_copies(&superblock, &found)?;
        let geometry = Geometry::from(&superblock);
        let durability = Arc::new(Durability::default());
        let counters = Arc::new(Counters::default());
        let reader = Reader::new(
            Arc::clone(&self.device),
            geometry,
            CACHE_BYTES,
            Arc::clone(&durability),
            Arc::clone(&counters),
        );
        let Some(looked) = self.look(&reader, &superblock, &records, found)? else {
            return self.only_checked("no checkpoint record can be used: salvage the volume");
        };
        let check = report_of(&looked.survey);
        if looked.survey.found.fixes.is_empty() && !looked.touched.any() {
            return Ok((check, changed));
        }
        let fixes = &looked.survey.found.fixes;
        let unsafe_fix = fixes.iter().find(|fix| !fix.is_safe());
        if self.options.safe_only && (unsafe_fix.is_some() || looked.touched.any()) {
            self.refused.push(
                "what is left needs a decision: run varve fsck --repair on the volume".into(),
            );
            return Ok((check, false));
        }
        let only_copies = fixes
            .iter()
            .all(|fix| matches!(fix, Fix::Superblock { .. }));
        if only_copies && !looked.touched.any() {
            return Ok((check, changed));
        }
        let parts = Parts {
            device: Arc::clone(&self.device),
            clock: Arc::clone(&self.clock),
            superblock,
            reader,
            durability,
            counters,
        };
        match self.change(parts, &looked) {
            Ok(()) => changed = true,
            Err(Error::OutOfSegments) => {
                self.refused.push(
                    "the volume has no room left to mend it: salvage it to another one".into(),
                );
                changed = false;
            }
            Err(error @ Error::Damaged { .. }) => {
                self.refused
                    .push(format!("{error}: salvage the volume to another one"));
                changed = false;
            }
            Err(error) => return Err(error),
        }
        Ok((check, changed))
    }

    /// The outcome where nothing can be mended at all.
    fn only_checked(&mut self, why: &str) -> Result<(CheckReport, bool)> {
        let options = CheckOptions::default();
        let (device, clock) = (Arc::clone(&self.device), Arc::clone(&self.clock));
        let check = crate::check::check(device, clock, &options)?;
        self.refused.push(why.into());
        Ok((check, false))
    }

    fn superblock_copies(&mut self, superblock: &Superblock, found: &Findings) -> Result<bool> {
        let offsets: Vec<u64> = found
            .fixes
            .iter()
            .filter_map(|fix| match fix {
                Fix::Superblock { offset } => Some(*offset),
                _ => None,
            })
            .collect();
        if offsets.is_empty() {
            return Ok(false);
        }
        superblocks::write(&*self.device, superblock, &offsets)?;
        for offset in offsets {
            self.actions
                .mended(format!("the superblock copy at byte {offset}"));
        }
        Ok(true)
    }

    /// Surveys the volume, patching what cannot be read until that is stable.
    /// `None` if no record leads to an image.
    fn look(
        &mut self,
        reader: &Reader,
        superblock: &Superblock,
        records: &[CheckpointRecord],
        found: Findings,
    ) -> Result<Option<Looked>> {
        let recorded = records.iter().map(|r| r.header.durable_through.get());
        let recorded = recorded.max().unwrap_or(0);
        let mut skipped = false;
        for record in records {
            let Some((record, corrected)) = sane(superblock, record) else {
                skipped = true;
                continue;
            };
            let before = record.header;
            let horizon = Horizon {
                boundary: record.header.position.serial.get(),
                limit: (record.header.durable_through.get())
                    .max(record.header.position.serial.get()),
            };
            let progress = |done, total| (self.options.progress)(Phase::Recovery, done, total);
            let mut mender = Mender::new(superblock, reader, record, horizon, &progress);
            let mended = mender.mend_ifile(&mut self.actions);
            if mended.is_err() || mender.loads().is_err() {
                skipped = true;
                continue;
            }
            let mut survey = self.stable(&mut mender, recorded, &found)?;
            if skipped || corrected || mender.record.header != before {
                survey.found.fixes.push(Fix::Accounts);
            }
            let record = mender.record.clone();
            let (evidence, touched, rebuilt) = mender.into_parts();
            return Ok(Some(Looked {
                survey,
                record,
                evidence,
                touched,
                rebuilt,
            }));
        }
        Ok(None)
    }

    fn stable(
        &mut self,
        mender: &mut Mender<'_>,
        recorded: u64,
        found: &Findings,
    ) -> Result<Survey> {
        let mut looks = 0;
        loop {
            let survey = self.survey(mender, recorded, found, false)?;
            let paths = paths_of(&survey.found);
            let names = |ino| name_of(&paths, ino);
            looks += 1;
            let changed = looks < MAX_LOOKS
                && mender.patch(&survey.found.fixes, &names, &mut self.actions)?;
            if !changed {
                return match self.options.data {
                    true => self.survey(mender, recorded, found, true),
                    false => Ok(survey),
                };
            }
        }
    }

    fn survey(
        &self,
        mender: &Mender<'_>,
        recorded: u64,
        found: &Findings,
        data: bool,
    ) -> Result<Survey> {
        let (superblock, reader) = (mender.superblock, mender.reader);
        let mut found = found.clone();
        found.enter(Phase::Recovery);
        let table = raw_table(mender)?;
        let recovered = recovered(mender, recorded)?;
        let (base, _) = mender.base()?;
        let record = mender.record.clone();
        let state = State::new(Ok(recovered), base, &table, &record, &mut found);
        let options = CheckOptions {
            data,
            progress: self.options.progress,
        };
        Ok(survey(
            reader, superblock, &options, record, table, state, found,
        ))
    }

    /// Mounts the volume with the patches, changes what there is to change,
    /// and takes the checkpoints.
    fn change(&mut self, parts: Parts, looked: &Looked) -> Result<()> {
        let survey = &looked.survey;
        let reader = &parts.reader;
        let geometry = Geometry::from(&parts.superblock);
        let (mut base, table) = crate::recovery::load_base(reader, &geometry, &looked.record)?;
        base.unfinished.clear();
        base.metadata_bytes = survey.counts.metadata_bytes;
        let report = RecoveryReport::default();
        let image = (&looked.record, base, table);
        let mut recovered = roll_forward(&parts.superblock, reader, &geometry, image, 0, report)?;
        recovered.report.damage.clear();
        if looked.survey.found.fixes.contains(&Fix::LogEnd) {
            let tag = parts.superblock.volume_tag();
            let gather = || Evidence::gather(reader, &geometry, tag, &|_, _| {});
            looked.evidence.get_or_init(gather);
        }
        self.correct(&mut recovered, looked, geometry.segment_count);
        let moved = move_head(&mut recovered, survey, &geometry)?;
        if let Some(byte) = recovered.leftover.filter(|_| !moved) {
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
            session.lfs.take_checkpoint(false)?;
        }
        session.lfs.unmount()
    }

    /// What was counted takes the place of what was recorded.
    fn correct(&mut self, recovered: &mut Recovered, looked: &Looked, segments: u32) {
        let survey = &looked.survey;
        for segment in 0..segments {
            let used = survey.claims.get(segment);
            let live_bytes = used.base_live.min(u64::from(u32::MAX)) as u32;
            recovered
                .segments
                .recount(segment, live_bytes, used.used(), used.incarnation);
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
        let live = &mut recovered.committed.get_mut().live;
        live.unfinished.clear();
        live.unfinished
            .extend(unfinished.iter().map(|&ino| (ino, true)));
        live.touched_ifile.extend(&looked.touched.ifile);
        for id in &looked.touched.nodes {
            live.touched_bytes += 4 * 4096;
            live.touched_nodes.insert(*id);
        }
        recovered.unfinished = unfinished;
        for (fix, text) in [
            (
                Fix::LogEnd,
                "the log behind the damage: what it held was acknowledged and is gone",
            ),
            (Fix::Accounts, "counts, lists and totals"),
        ] {
            if survey.found.fixes.contains(&fix) {
                match fix {
                    Fix::LogEnd => self.actions.lost(text),
                    _ => self.actions.mended(text),
                }
            }
        }
        for line in survey.state.report.damage.iter().skip(1) {
            self.actions.lost(line.clone());
        }
        for fix in &survey.found.fixes {
            if let Fix::Slot { slot } = fix {
                self.actions
                    .mended(format!("slot {slot} of the checkpoint ring"));
            }
        }
        // What stays behind the log's new end must not look like its future.
        if let Some(evidence) = looked.evidence.get() {
            let incarnation = recovered.position.incarnation.get();
            recovered.position.incarnation = incarnation.max(evidence.incarnation).into();
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
        let actions = &mut self.actions;
        if storage.count() > 0 {
            return storage::apply(session, fixes, &looked.evidence, &names, actions);
        }
        let of_names = |fix: &&Fix| {
            matches!(
                fix,
                Fix::Directory { .. }
                    | Fix::Entry { .. }
                    | Fix::Cycle { .. }
                    | Fix::Orphan { .. }
                    | Fix::Parent { .. }
                    | Fix::Links { .. }
            )
        };
        if fixes.iter().any(|fix| of_names(&fix)) {
            let geometry = session.lfs.geometry;
            let was_freed = |ino| {
                let block = crate::base::imap_block(&geometry, ino);
                !survey.names_lost && looked.rebuilt.contains(&block)
            };
            return names::apply(session, fixes, &was_freed, &names, actions);
        }
        // As many at once as find room; the next round has theirs, too.
        let room = session.lfs.segments.lock().clean_count() / 2;
        let segments: BTreeSet<u32> = fixes
            .iter()
            .filter_map(|fix| match fix {
                Fix::Evacuate { segment } => Some(*segment),
                _ => None,
            })
            .take(room.max(1) as usize)
            .collect();
        if !segments.is_empty() {
            evacuate::apply(session, survey, &segments, actions)?;
        }
        Ok(())
    }
}

/// Takes the log's head off what lives where it would go on. True if it had to.
fn move_head(recovered: &mut Recovered, survey: &Survey, geometry: &Geometry) -> Result<bool> {
    let position = &mut recovered.position;
    let (segment, offset) = (position.segment.get(), position.offset.get());
    let next = position.next_segment.get();
    let over_live = survey.claims.first_at(segment, offset).is_some();
    if over_live {
        position.offset = geometry.segment_bytes.into();
    }
    let into_live = survey.claims.get(next).used();
    if into_live {
        recovered.segments.leave(next);
        position.next_segment = recovered.segments.take(segment)?.into();
    }
    Ok(over_live || into_live)
}

/// The record with impossible counts corrected, and whether any were. `None`
/// if it leads nowhere.
fn sane(superblock: &Superblock, record: &CheckpointRecord) -> Option<(CheckpointRecord, bool)> {
    let geometry = Geometry::from(superblock);
    check_position(&geometry, &record.header.position).ok()?;
    if record.ifile.len() != geometry.inode_bytes as usize {
        return None;
    }
    let ifile = InodeImage::decode(&record.ifile, InodeNo::IFILE).ok()?;
    ifile.root.as_ref()?;
    let mut sane = record.clone();
    let header = &mut sane.header;
    let volume = geometry.volume_bytes();
    let next_ino = header.next_ino.get().min(crate::format::ifile::MAX_INO);
    header.next_ino = next_ino.into();
    if header.free_head.get() >= next_ino.max(1) || header.free_count.get() > next_ino {
        header.free_head = 0.into();
        header.free_count = 0.into();
    }
    let most = |value: u64, most: u64| value.min(most).into();
    header.inodes_used = most(header.inodes_used.get(), next_ino);
    header.blocks_used = most(header.blocks_used.get(), volume);
    header.sectors_used = most(header.sectors_used.get(), volume);
    header.metadata_bytes = most(header.metadata_bytes.get(), volume);
    header.unfinished_count = most(header.unfinished_count.get(), volume / 256);
    let corrected = record.header != sane.header;
    Some((sane, corrected))
}

/// The usage table as stored, without the record's corrections.
fn raw_table(mender: &Mender<'_>) -> Result<Vec<UsageEntry>> {
    let bare = CheckpointRecord {
        deltas: Vec::new(),
        ..mender.record.clone()
    };
    let (_, table) = crate::recovery::load_base(mender.reader, &mender.geometry, &bare)?;
    Ok(table)
}

fn recovered(mender: &Mender<'_>, recorded: u64) -> Result<Recovered> {
    let (base, table) = mender.base()?;
    let image = (&mender.record, base, table);
    roll_forward(
        mender.superblock,
        mender.reader,
        &mender.geometry,
        image,
        recorded,
        RecoveryReport::default(),
    )
}

fn report_of(survey: &Survey) -> CheckReport {
    CheckReport {
        errors: survey.found.errors.clone(),
        warnings: survey.found.warnings.clone(),
        counts: survey.counts,
        recovery: survey.state.report.clone(),
        elapsed_ns: 0,
    }
}

fn paths_of(found: &Findings) -> HashMap<u64, String> {
    let findings = found.errors.iter().chain(&found.warnings);
    findings
        .filter_map(|finding| Some((finding.subject.ino()?, finding.path.clone()?)))
        .collect()
}

fn name_of(paths: &HashMap<u64, String>, ino: u64) -> String {
    match paths.get(&ino) {
        Some(path) => format!("{path} (inode {ino})"),
        None => format!("inode {ino}"),
    }
}
