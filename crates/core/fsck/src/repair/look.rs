//! Look: the recovered state is checked phase by phase, with patches for unreadable
//! metadata, until a further check finds nothing new.
//!
//! Nothing is written. The first record whose ifile can be made readable is used;
//! impossible counts in it are corrected before they are used.

use super::Repair;
use super::evidence::Evidence;
use super::mender::{Mender, Touched};
use super::trace::Horizon;
use crate::check::{CheckOptions, Findings, Fix, Phase, State, Survey, survey};
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use varve_fs::InodeNo;
use varve_lfs::format::checkpoint::CheckpointRecord;
use varve_lfs::format::ifile::MAX_INO;
use varve_lfs::format::inode::InodeImage;
use varve_lfs::format::{Superblock, UsageEntry};
use varve_lfs::internal::{Image, LogEnd, Reader, Recovered, load_base, roll_forward};
use varve_lfs::{Geometry, RecoveryReport, Result};

/// Largest number of surveys in one round.
const MAX_LOOKS: usize = 64;

/// Result of a look, with the evidence and patches that it needed.
pub(super) struct Looked {
    pub(super) survey: Survey,
    pub(super) record: CheckpointRecord,
    pub(super) evidence: OnceCell<Evidence>,
    pub(super) touched: Touched,
    pub(super) rebuilt: BTreeSet<u64>,
}

impl Repair<'_> {
    /// Surveys the volume and patches unreadable metadata until nothing changes. `None`
    /// if no record leads to an image.
    pub(super) fn look(
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
}

/// Returns the record with impossible counts corrected, and true if there were any.
/// `None` if the record leads to no image.
fn sane(superblock: &Superblock, record: &CheckpointRecord) -> Option<(CheckpointRecord, bool)> {
    let geometry = Geometry::from(superblock);
    LogEnd::from(&record.header).check(&geometry).ok()?;
    if record.ifile.len() != geometry.inode_bytes as usize {
        return None;
    }
    let ifile = InodeImage::decode(&record.ifile, InodeNo::IFILE).ok()?;
    ifile.root.as_ref()?;
    let mut sane = record.clone();
    let header = &mut sane.header;
    let volume = geometry.volume_bytes();
    let next_ino = header.next_ino.get().min(MAX_INO);
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

/// Returns the usage table as stored, without the record's corrections.
fn raw_table(mender: &Mender<'_>) -> Result<Vec<UsageEntry>> {
    let bare = CheckpointRecord {
        deltas: Vec::new(),
        ..mender.record.clone()
    };
    let (_, table) = load_base(mender.reader, &mender.geometry, &bare)?;
    Ok(table)
}

fn recovered(mender: &Mender<'_>, recorded: u64) -> Result<Recovered> {
    let (base, table) = mender.base()?;
    let image = Image {
        record: &mender.record,
        base,
        table,
        older: None,
    };
    roll_forward(
        mender.superblock,
        mender.reader,
        &mender.geometry,
        image,
        recorded,
        RecoveryReport::default(),
    )
}

pub(super) fn paths_of(found: &Findings) -> HashMap<u64, String> {
    let findings = found.errors.iter().chain(&found.warnings);
    findings
        .filter_map(|finding| Some((finding.subject.ino()?, finding.path.clone()?)))
        .collect()
}

pub(super) fn name_of(paths: &HashMap<u64, String>, ino: u64) -> String {
    match paths.get(&ino) {
        Some(path) => format!("{path} (inode {ino})"),
        None => format!("inode {ino}"),
    }
}
