//! What a check found, in words that name the file, segment or block and say
//! what to do.

use super::fixes::Fix;
use std::fmt;
use varve_lfs::RecoveryReport;

/// Findings of each severity that are kept; beyond that the check stops.
pub const MAX_FINDINGS: usize = 10_000;

/// The steps of a check, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Superblock copies and the checkpoint ring.
    Superblocks,
    /// Roll-forward in memory.
    Recovery,
    /// Every inode of the inode map, its index and its pointers.
    Inodes,
    /// Every directory, in the order of disk addresses.
    Directories,
    /// Reachability and link counts.
    Links,
    /// Usage table, free list, lists and totals.
    Accounts,
    /// Summaries of the segments that hold something, and, if asked, data.
    Segments,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Superblocks => "superblocks",
            Phase::Recovery => "recovery",
            Phase::Inodes => "inodes",
            Phase::Directories => "directories",
            Phase::Links => "links",
            Phase::Accounts => "accounts",
            Phase::Segments => "segments",
        })
    }
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// A superblock copy is damaged or differs.
    SuperblockCopy,
    /// A slot of the checkpoint ring holds no valid record.
    CheckpointSlot,
    /// The newest checkpoint's image cannot be loaded, or its log not replayed.
    Recovery,
    /// Roll-forward proved that acknowledged data is lost.
    LogDamage,
    /// An entry or block of the inode map is unusable.
    InodeMap,
    /// An inode's image is damaged or contradicts itself.
    Inode,
    /// A pointer leads outside of the segments or into a superblock copy.
    PointerBounds,
    /// A pointer leads to sectors that another block uses.
    PointerOverlap,
    /// A pointer's incarnation is not its segment's.
    PointerIncarnation,
    /// An index node is damaged or belongs elsewhere.
    IndexNode,
    /// A block of the ifile belongs to none of its regions.
    Ifile,
    /// An inode's count of blocks or sectors is not what is mapped.
    BlockCount,
    /// A block lies beyond the end of its file.
    BeyondSize,
    /// Extended attributes are damaged.
    Attributes,
    /// A data block's checksum is wrong, or it cannot be read.
    Data,
    /// A directory's tree is damaged.
    Directory,
    /// A name leads to an inode that does not exist, or is of another kind.
    Entry,
    /// A directory's `..` is wrong, or it has two names.
    Parent,
    /// No name leads to an inode.
    Unreachable,
    /// Directories that contain each other.
    Cycle,
    /// A link count differs from the names that exist.
    LinkCount,
    /// The list of unfinished inodes is wrong.
    Unfinished,
    /// The usage table counts other live bytes than there are.
    UsageCount,
    /// A segment may be reused although something lives in it.
    SegmentState,
    /// The cleaner keeps a segment because something in it was damaged.
    Suspect,
    /// The list of free inode numbers is wrong.
    FreeList,
    /// An inode number is as high as the volume says none is.
    NextInode,
    /// Totals of inodes, blocks or sectors are wrong.
    Totals,
    /// The history of snapshots is damaged, or lists what cannot be.
    Snapshots,
    /// The total of metadata bytes is wrong.
    MetadataBytes,
    /// Live blocks are not described by their segment's summaries.
    Summary,
    /// There were more findings than a report holds.
    TooMany,
}

impl FindingKind {
    /// What to do about it.
    pub fn advice(self) -> &'static str {
        use FindingKind as Kind;
        match self {
            Kind::SuperblockCopy => "another copy serves; `varve fsck --repair` rewrites this one",
            Kind::CheckpointSlot => "the next checkpoint writes this slot anew",
            Kind::Recovery => "try `varve fsck --repair`; else `varve salvage` to another volume",
            Kind::LogDamage => {
                "mount read-only or salvage to save what is there; `varve fsck --repair` goes on \
                 without what is lost"
            }
            Kind::InodeMap | Kind::Inode | Kind::IndexNode => {
                "`varve fsck --repair` makes it anew from the log where that proves what it was"
            }
            Kind::Data => {
                "restore the file from a backup; `varve fsck --repair` makes a hole of it"
            }
            Kind::Attributes => "`varve fsck --repair` drops them: set them again",
            Kind::Directory | Kind::Entry | Kind::Parent | Kind::Cycle | Kind::Unreachable => {
                "`varve fsck --repair` puts what has no name into lost+found"
            }
            Kind::PointerBounds
            | Kind::PointerOverlap
            | Kind::PointerIncarnation
            | Kind::Summary
            | Kind::BlockCount
            | Kind::BeyondSize
            | Kind::LinkCount
            | Kind::Unfinished
            | Kind::UsageCount
            | Kind::SegmentState
            | Kind::Ifile
            | Kind::FreeList
            | Kind::NextInode
            | Kind::Totals => "do not mount the volume for writing before `varve fsck --repair`",
            Kind::Snapshots => {
                "the present tree is not concerned; delete the snapshots, or copy from them what \
                 can be read"
            }
            Kind::Suspect => "find the damaged file with `varve fsck --data`",
            Kind::MetadataBytes => "free space may be reported wrongly; the files are sound",
            Kind::TooMany => "mend what is reported and check again",
        }
    }
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Subject {
    /// All of it.
    Volume,
    /// The superblock copy at this byte address.
    Superblock(u64),
    /// A slot of the checkpoint ring.
    Slot(u32),
    /// A segment.
    Segment(u32),
    /// A place on the device.
    Sector(u64),
    /// A file.
    Inode(u64),
    /// A block of a file.
    Block {
        /// The file.
        ino: u64,
        /// Logical block number.
        block: u64,
    },
    /// A node of a file's index.
    Node {
        /// The file.
        ino: u64,
        /// From 1.
        height: u8,
        /// Number within its height.
        index: u64,
    },
}

impl Subject {
    /// The file it is about, if it is about one.
    pub fn ino(&self) -> Option<u64> {
        match *self {
            Subject::Inode(ino) | Subject::Block { ino, .. } | Subject::Node { ino, .. } => {
                Some(ino)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Volume => f.write_str("volume"),
            Subject::Superblock(offset) => write!(f, "superblock copy at byte {offset}"),
            Subject::Slot(slot) => write!(f, "checkpoint slot {slot}"),
            Subject::Segment(segment) => write!(f, "segment {segment}"),
            Subject::Sector(sector) => write!(f, "sector {sector}"),
            Subject::Inode(ino) => write!(f, "inode {ino}"),
            Subject::Block { ino, block } => write!(f, "inode {ino}, block {block}"),
            Subject::Node { ino, height, index } => {
                write!(f, "inode {ino}, index node {index} of height {height}")
            }
        }
    }
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// The step that found it.
    pub phase: Phase,
    /// What is wrong.
    pub kind: FindingKind,
    /// With what.
    pub subject: Subject,
    /// A path of the file, where one is known.
    pub path: Option<String>,
    /// The particulars.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.phase)?;
        match &self.path {
            Some(path) => write!(f, "{path} ({})", self.subject)?,
            None => write!(f, "{}", self.subject)?,
        }
        write!(f, ": {}; {}", self.text, self.kind.advice())
    }
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Files of all kinds.
    pub inodes: u64,
    /// Of these, directories.
    pub directories: u64,
    /// Names in directories.
    pub names: u64,
    /// Logical blocks that exist.
    pub blocks: u64,
    /// Bytes they occupy, unwritten ones and extended attributes included.
    pub bytes: u64,
    /// Index nodes.
    pub nodes: u64,
    /// Bytes of index nodes and ifile.
    pub metadata_bytes: u64,
    /// Segments of the volume.
    pub segments: u32,
    /// Segments that hold something.
    pub segments_used: u32,
    /// Segments that may be written anew.
    pub segments_clean: u32,
    /// Numbers on the free list.
    pub free_numbers: u64,
    /// Data blocks whose checksum was verified.
    pub verified_blocks: u64,
}

/// The outcome of a check.
#[derive(Clone, Debug, serde::Serialize)]
pub struct CheckReport {
    /// What must not be.
    pub errors: Vec<Finding>,
    /// What a crash may leave, and what a mount mends by itself.
    pub warnings: Vec<Finding>,
    /// What was looked at.
    pub counts: Counts,
    /// What roll-forward found.
    pub recovery: RecoveryReport,
    /// Remedies that repair has for the findings, those left out that the next mount
    /// for writing applies by itself.
    pub remedies: usize,
    /// Nanoseconds it took.
    pub elapsed_ns: u64,
}

impl CheckReport {
    /// True if nothing at all was found.
    pub fn is_spotless(&self) -> bool {
        self.errors.is_empty() && self.warnings.is_empty()
    }

    /// True if repair would change something that a mount does not, or something is
    /// wrong for which there is no remedy.
    pub fn needs_repair(&self) -> bool {
        !self.errors.is_empty() || self.remedies > 0
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.errors {
            writeln!(f, "error: {finding}")?;
        }
        for finding in &self.warnings {
            writeln!(f, "warning: {finding}")?;
        }
        let counts = &self.counts;
        write!(
            f,
            "{} files, {} directories, {} blocks ({} bytes), {} of {} segments used; {} errors, \
             {} warnings",
            counts.inodes - counts.directories.min(counts.inodes),
            counts.directories,
            counts.blocks,
            counts.bytes,
            counts.segments_used,
            counts.segments,
            self.errors.len(),
            self.warnings.len(),
        )
    }
}

/// Collects findings up to the limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub errors: Vec<Finding>,
    pub warnings: Vec<Finding>,
    /// What repair would do about them.
    pub fixes: Vec<Fix>,
    phase: Option<Phase>,
    full: bool,
}

impl Findings {
    pub fn enter(&mut self, phase: Phase) {
        self.phase = Some(phase);
    }

    /// The outcome of the check that collected these.
    pub fn report(&self, counts: Counts, recovery: RecoveryReport, elapsed_ns: u64) -> CheckReport {
        CheckReport {
            errors: self.errors.clone(),
            warnings: self.warnings.clone(),
            counts,
            recovery,
            remedies: self.fixes.iter().filter(|fix| !fix.is_routine()).count(),
            elapsed_ns,
        }
    }

    fn phase(&self) -> Phase {
        self.phase.unwrap_or(Phase::Superblocks)
    }

    /// True once nothing more is kept: time to stop.
    pub fn full(&self) -> bool {
        self.full
    }

    pub fn error(&mut self, kind: FindingKind, subject: Subject, text: impl Into<String>) {
        if self.full {
            return;
        }
        let finding = self.finding(kind, subject, text.into());
        self.errors.push(finding);
        if self.errors.len() >= MAX_FINDINGS {
            self.full = true;
            let text = format!("more than {MAX_FINDINGS} errors: the check stopped here");
            let note = self.finding(FindingKind::TooMany, Subject::Volume, text);
            self.errors.push(note);
        }
    }

    pub fn warning(&mut self, kind: FindingKind, subject: Subject, text: impl Into<String>) {
        if self.warnings.len() < MAX_FINDINGS {
            let finding = self.finding(kind, subject, text.into());
            self.warnings.push(finding);
        }
    }

    /// What would mend the error just reported.
    pub fn fix(&mut self, fix: Fix) {
        if !self.full {
            self.fixes.push(fix);
        }
    }

    /// As [`Findings::fix`], if there is a remedy.
    pub fn extend_fix(&mut self, fix: Option<Fix>) {
        fix.into_iter().for_each(|fix| self.fix(fix));
    }

    fn finding(&self, kind: FindingKind, subject: Subject, text: String) -> Finding {
        Finding {
            phase: self.phase(),
            kind,
            subject,
            path: None,
            text,
        }
    }
}
