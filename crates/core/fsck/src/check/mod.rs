//! The file system check: offline, read-only, on any bytes.
//!
//! A check recovers in memory, like a read-only mount, and verifies the resulting state:
//! the image of the newest checkpoint with the changes of roll-forward. Nothing is
//! written. Varve needs no repair after a crash, so each finding is a fault of a device
//! or of Varve. Each finding has the remedies for [`crate::repair`].
//!
//! | phase | thesis | verified |
//! |---|---|---|
//! | superblocks | | every copy, every slot of the checkpoint ring |
//! | recovery | | the image loads and the log replays without loss |
//! | inodes | I | images, indexes, pointers; no sector is used twice |
//! | directories | II | their trees; the inodes to which names lead |
//! | links | III, IV | reachability, `..`, link counts, the unfinished list |
//! | accounts | V | usage table, segment states, free list, totals |
//! | segments | | summaries describe the live blocks; with `data`, checksums |
//!
//! Memory: two bits per live sector, sixteen bytes per inode, and the replayed log. Time:
//! every metadata block is read once, directories twice.
//!
//! Source: Seltzer 1992, table 6-2, after McKusick & Kowalski's fsck.

mod accounts;
mod again;
mod claims;
mod fixes;
mod guard;
mod history;
mod imap;
mod inodes;
mod links;
mod names;
mod paths;
mod report;
mod segments;
mod shape;
mod superblocks;
mod table;
mod visit;
mod walk;

pub(crate) use fixes::Fix;
pub(crate) use imap::{Mapped, ifile_regions};
pub(crate) use names::{Blocks, FileView};
pub use report::{CheckReport, Counts, Finding, FindingKind, MAX_FINDINGS, Phase, Subject};

use claims::{Claims, Refusal, Stored};
pub(crate) use report::Findings;
pub(crate) use shape::{content_flaw, count_flaw, size_flaw};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use table::InodeTable;
pub(crate) use table::known;
use varve_device::{Clock, Device};
use varve_fs::{InodeNo, Usage};
use varve_lfs::Geometry;
use varve_lfs::Lfs;
use varve_lfs::RecoveryReport;
use varve_lfs::format::checkpoint::CheckpointRecord;
use varve_lfs::format::{Pointer, SECTOR, Superblock, UsageEntry};
use varve_lfs::internal::Base;
use varve_lfs::internal::Delta;
use varve_lfs::internal::LogEnd;
use varve_lfs::internal::Reader;
use varve_lfs::internal::SegmentTable;
use varve_lfs::internal::{Recovered, load_base, recover, unfinished_after};
use varve_lfs::{Error, Result};
pub(crate) use visit::Tally;
pub(crate) use walk::{Visitor, walk};

/// Bytes of decoded metadata cached during a check.
const CACHE_BYTES: u64 = 16 << 20;

/// Options of a check.
pub struct CheckOptions<'a> {
    /// Also reads every live block and verifies its checksum.
    pub data: bool,
    /// Callback with the phase, the work done in it, and its total.
    pub progress: &'a dyn Fn(Phase, u64, u64),
}

impl Default for CheckOptions<'_> {
    fn default() -> Self {
        CheckOptions {
            data: false,
            progress: &|_, _, _| {},
        }
    }
}

impl std::fmt::Debug for CheckOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckOptions")
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}

/// Checks a volume that is not mounted for writing.
///
/// # Errors
/// If there is no usable superblock or checkpoint record, so that nothing can be checked.
/// All other damage is in the report.
pub fn check(
    device: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    options: &CheckOptions<'_>,
) -> Result<CheckReport> {
    let started_ns = clock.monotonic_ns();
    let superblock = Lfs::find_superblock(&*device)?;
    let geometry = Geometry::from(&superblock);
    (options.progress)(Phase::Superblocks, 0, 1);
    let (mut found, records) = ring_and_copies(&*device, &superblock)?;
    found.enter(Phase::Recovery);
    (options.progress)(Phase::Recovery, 0, 1);
    let reader = Reader::offline(Arc::clone(&device), geometry, CACHE_BYTES);
    let recovered = recover(&*device, &superblock, &reader, &geometry);
    let used = recovered.as_ref().ok().map(|r| r.report.checkpoint);
    let image = load_image(&reader, &geometry, &records, used, &mut found);
    let (counts, recovery) = match image {
        None => (
            Counts::default(),
            recovered.map(|r| r.report).unwrap_or_default(),
        ),
        Some((record, base, table)) => {
            let state = State::new(recovered, base, &table, &record, &mut found);
            let survey = survey(&reader, &superblock, options, record, table, state, found);
            found = survey.found;
            (survey.counts, survey.state.report)
        }
    };
    let elapsed_ns = clock.monotonic_ns().saturating_sub(started_ns);
    Ok(found.report(counts, recovery, elapsed_ns))
}

/// Returns true if the volume was unmounted cleanly and its superblocks and checkpoint
/// records are valid. A check at boot may skip such a volume.
///
/// # Errors
/// If there is no usable superblock or checkpoint record.
pub fn is_clean(device: Arc<dyn Device>) -> Result<bool> {
    let mut primary = vec![0; device.geometry().logical_block.max(4096) as usize];
    device.read(0, &mut primary)?;
    if Superblock::parse(&primary, 0).is_err() {
        return Ok(false);
    }
    let superblock = Lfs::find_superblock(&*device)?;
    let geometry = Geometry::from(&superblock);
    let (found, _) = ring_and_copies(&*device, &superblock)?;
    let reader = Reader::offline(Arc::clone(&device), geometry, CACHE_BYTES);
    let report = recover(&*device, &superblock, &reader, &geometry)?.report;
    Ok(found.fixes.is_empty()
        && report.clean
        && report.partials == 0
        && report.damage.is_empty()
        && report.refused_records.is_empty())
}

/// Runs the first phase and returns the valid records, newest first.
///
/// # Errors
/// `NoCheckpoint` if there is none.
pub(crate) fn ring_and_copies(
    device: &dyn Device,
    superblock: &Superblock,
) -> Result<(Findings, Vec<CheckpointRecord>)> {
    let mut found = Findings::default();
    found.enter(Phase::Superblocks);
    superblocks::copies(device, superblock, &mut found);
    let records = superblocks::ring(device, superblock, &mut found)?;
    Ok((found, records))
}

/// Results of the phases of a check.
pub(crate) struct Survey {
    /// Findings and their remedies.
    pub(crate) found: Findings,
    pub(crate) counts: Counts,
    pub(crate) state: State,
    pub(crate) claims: Claims,
    pub(crate) inodes: InodeTable,
    /// Recount of the newest state.
    pub(crate) usage: Usage,
    /// True if a damaged directory may contain names that were not seen.
    pub(crate) names_lost: bool,
}

/// Runs all phases from the inodes on over a committed state.
pub(crate) fn survey(
    reader: &Reader,
    superblock: &Superblock,
    options: &CheckOptions<'_>,
    record: CheckpointRecord,
    table: Vec<UsageEntry>,
    state: State,
    mut found: Findings,
) -> Survey {
    let geometry = Geometry::from(superblock);
    let mut claims = Claims::new(geometry);
    let plugged = state.segments.iter().filter(|(_, segment)| segment.plugged);
    claims.plugged(plugged.map(|(number, _)| number));
    let checker = Checker {
        superblock: *superblock,
        geometry,
        reader,
        options,
        record,
        table,
        state,
        claims,
        inodes: InodeTable::default(),
        directories: Vec::new(),
        below: HashMap::new(),
        imap_free: 0,
        base_usage: Usage::default(),
        usage: Usage::default(),
        names_lost: false,
        guard: guard::Guard::default(),
        overlaps: Vec::new(),
        disagreeing: Vec::new(),
        found: &mut found,
        counts: Counts::default(),
    };
    let checker = checker.run();
    let Checker {
        state,
        claims,
        inodes,
        usage,
        names_lost,
        counts,
        ..
    } = checker;
    Survey {
        found,
        counts,
        state,
        claims,
        inodes,
        usage,
        names_lost,
    }
}

/// Loads the record that recovery `used`, or else the newest loadable one, with its image
/// and the usage table as written, without corrections.
pub(crate) fn load_image(
    reader: &Reader,
    geometry: &Geometry,
    records: &[CheckpointRecord],
    used: Option<u64>,
    found: &mut Findings,
) -> Option<(CheckpointRecord, Base, Vec<UsageEntry>)> {
    for record in records {
        let bare = CheckpointRecord {
            deltas: Vec::new(),
            ..record.clone()
        };
        let serial = record.header.serial.get();
        let loaded = LogEnd::from(&record.header)
            .check(geometry)
            .and_then(|()| load_base(reader, geometry, &bare));
        match loaded {
            Ok((base, table)) if used.is_none_or(|used| used == serial) => {
                return Some((record.clone(), base, table));
            }
            Ok(_) => {}
            Err(error) => {
                let text = format!(
                    "the image of checkpoint {serial} cannot be loaded: {}",
                    plain(&error)
                );
                found.error(FindingKind::Recovery, Subject::Volume, text);
                found.fix(Fix::Accounts);
            }
        }
    }
    None
}

/// The committed state that is checked.
pub(crate) struct State {
    pub(crate) base: Arc<Base>,
    pub(crate) live: Arc<Delta>,
    pub(crate) segments: SegmentTable,
    pub(crate) end: LogEnd,
    pub(crate) usage: Usage,
    pub(crate) unfinished: BTreeSet<u64>,
    pub(crate) report: RecoveryReport,
}

impl State {
    /// Returns the result of recovery, or the image alone if recovery failed.
    pub(crate) fn new(
        recovered: Result<Recovered>,
        base: Base,
        table: &[UsageEntry],
        record: &CheckpointRecord,
        found: &mut Findings,
    ) -> State {
        match recovered {
            Ok(mut recovered) => {
                for damage in &recovered.report.damage {
                    found.error(FindingKind::LogDamage, Subject::Volume, damage.clone());
                    found.fix(Fix::LogEnd);
                }
                let unfinished = unfinished_after(&recovered);
                State {
                    base: recovered.base(),
                    live: Arc::new(std::mem::take(recovered.live_mut())),
                    segments: recovered.segments,
                    end: recovered.end,
                    usage: recovered.usage,
                    unfinished,
                    report: recovered.report,
                }
            }
            Err(error) => {
                let text = format!(
                    "the log behind checkpoint {} cannot be replayed: {}",
                    base.serial,
                    plain(&error)
                );
                found.error(FindingKind::Recovery, Subject::Volume, text);
                let opened = record.header.segments_opened.get();
                let end = LogEnd::from(&record.header);
                State {
                    live: Arc::new(Delta::default()),
                    segments: SegmentTable::load(table, opened, base.serial, &end, None),
                    end,
                    usage: base.usage,
                    unfinished: base.unfinished.clone(),
                    report: RecoveryReport {
                        checkpoint: base.serial,
                        ..RecoveryReport::default()
                    },
                    base: Arc::new(base),
                }
            }
        }
    }
}

/// A directory of the newest state.
#[derive(Clone, Copy, Debug)]
struct DirectoryAt {
    /// Sector of its root node; 0 if it is empty.
    sector: u64,
    ino: u64,
    version: u32,
    parent: u64,
}

/// State of a running check.
struct Checker<'a> {
    superblock: Superblock,
    geometry: Geometry,
    reader: &'a Reader,
    options: &'a CheckOptions<'a>,
    record: CheckpointRecord,
    /// The usage table as written, without the record's corrections.
    table: Vec<UsageEntry>,
    state: State,
    claims: Claims,
    inodes: InodeTable,
    directories: Vec<DirectoryAt>,
    /// Checkpointed state of inodes that the replayed log changed.
    below: HashMap<u64, inodes::Below>,
    /// Free numbers found in the inode map.
    imap_free: u64,
    /// Recount of the image.
    base_usage: Usage,
    /// Recount of the newest state.
    usage: Usage,
    /// True if a damaged directory may contain names that were not seen.
    names_lost: bool,
    guard: guard::Guard,
    /// Blocks refused because their sectors were in use.
    overlaps: Vec<(Stored, Subject)>,
    /// Segments whose summaries disagree with the pointers.
    disagreeing: Vec<u32>,
    found: &'a mut Findings,
    counts: Counts,
}

/// The function of a phase.
type Work<'a> = fn(&mut Checker<'a>);

impl Checker<'_> {
    fn run(mut self) -> Self {
        let phases: [(Phase, Work<'_>); 5] = [
            (Phase::Inodes, Self::check_inodes),
            (Phase::Directories, Self::check_directories),
            (Phase::Links, Self::check_links),
            (Phase::Accounts, Self::check_accounts),
            (Phase::Segments, Self::check_segments),
        ];
        for (phase, work) in phases {
            if self.found.full() {
                break;
            }
            self.found.enter(phase);
            self.progress(phase, 0, 1);
            work(&mut self);
        }
        self.name_findings();
        self
    }

    fn progress(&self, phase: Phase, done: u64, total: u64) {
        (self.options.progress)(phase, done, total);
    }

    fn block_sectors(&self) -> u8 {
        (u64::from(self.geometry.block_bytes) / SECTOR) as u8
    }
}

/// Returns the text of an error without the place, which the finding names already.
pub(crate) fn plain(error: &Error) -> String {
    match error {
        Error::Damaged { source, .. } => source.to_string(),
        Error::BadBlock {
            sector,
            found,
            expected,
            ..
        } => {
            format!("at sector {sector} the checksum is {found:#010x}, want {expected:#010x}")
        }
        other => other.to_string(),
    }
}

/// Reports a block that cannot be stored where its pointer says. A block whose sectors
/// are in use is recorded, so that the second walk finds the other user.
fn refused(
    found: &mut Findings,
    overlaps: &mut Vec<(Stored, Subject)>,
    subject: Subject,
    stored: &Stored,
    refusal: Refusal,
    what: &str,
) {
    let (kind, text) = refusal_text(refusal, stored.byte / SECTOR);
    found.error(kind, subject, format!("{what}{text}"));
    if refusal == Refusal::Overlap && !found.full() {
        overlaps.push((*stored, subject));
    }
}

/// Returns the kind and the text of a refusal.
fn refusal_text(refusal: Refusal, sector: u64) -> (FindingKind, String) {
    match refusal {
        Refusal::Outside => (
            FindingKind::PointerBounds,
            format!("sector {sector} is outside of every segment, or the block crosses one's end"),
        ),
        Refusal::Superblock => (
            FindingKind::PointerBounds,
            format!("sector {sector} belongs to a copy of the superblock"),
        ),
        Refusal::Overlap => (
            FindingKind::PointerOverlap,
            format!("sector {sector} is used by another block as well"),
        ),
    }
}

fn subject_of_block(ino: InodeNo, block: u64) -> Subject {
    Subject::Block { ino: ino.0, block }
}

/// Returns the sectors of a pointer as the totals count them.
fn sectors_of(pointer: &Pointer) -> u64 {
    u64::from(pointer.sectors())
}
