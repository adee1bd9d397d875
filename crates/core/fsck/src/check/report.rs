//! The findings of a check. Their texts name the file, segment or block, and the next
//! step.

use super::fixes::Fix;
use std::fmt;
use varve_lfs::RecoveryReport;

/// Number of findings kept per severity; the check stops beyond that.
pub const MAX_FINDINGS: usize = 10_000;

/// The phases of a check, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Superblock copies and the checkpoint ring.
    Superblocks,
    /// Roll-forward in memory.
    Recovery,
    /// Every inode of the inode map, its index and its pointers.
    Inodes,
    /// Every directory, in the order of device addresses.
    Directories,
    /// Reachability and link counts.
    Links,
    /// Usage table, free list, lists and totals.
    Accounts,
    /// Summaries of the segments with live blocks, and, on request, data.
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

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// A superblock copy is damaged or differs.
    SuperblockCopy,
    /// A slot of the checkpoint ring has no valid record.
    CheckpointSlot,
    /// The newest checkpoint's image cannot be loaded, or its log cannot be replayed.
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
    /// A pointer and its segment have different incarnations.
    PointerIncarnation,
    /// An index node is damaged or belongs to another place.
    IndexNode,
    /// A block of the ifile is in none of its regions.
    Ifile,
    /// An inode's count of blocks or sectors differs from its index.
    BlockCount,
    /// A block is stored beyond the end of its file.
    BeyondSize,
    /// Extended attributes are damaged.
    Attributes,
    /// A data block cannot be read, or its checksum is wrong.
    Data,
    /// A directory's tree is damaged.
    Directory,
    /// A name leads to an inode that does not exist or has another kind.
    Entry,
    /// A directory has a wrong `..`, or two names.
    Parent,
    /// No name leads to an inode.
    Unreachable,
    /// Directories contain each other.
    Cycle,
    /// A link count differs from the number of names.
    LinkCount,
    /// The list of unfinished inodes is wrong.
    Unfinished,
    /// The usage table has a wrong count of live bytes.
    UsageCount,
    /// A segment with live blocks may be reused.
    SegmentState,
    /// The cleaner keeps a segment because a block in it was damaged.
    Suspect,
    /// The list of free inode numbers is wrong.
    FreeList,
    /// An inode number is not below the volume's next number.
    NextInode,
    /// Totals of inodes, blocks or sectors are wrong.
    Totals,
    /// The history of snapshots is damaged, or lists what cannot be.
    Snapshots,
    /// The total of metadata bytes is wrong.
    MetadataBytes,
    /// The summaries of a segment do not describe its live blocks.
    Summary,
    /// There were more findings than a report can contain.
    TooMany,
}

impl FindingKind {
    /// Returns the advice for the operator.
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

/// The object of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Subject {
    /// The whole volume.
    Volume,
    /// The superblock copy at this byte address.
    Superblock(u64),
    /// A slot of the checkpoint ring.
    Slot(u32),
    /// A segment.
    Segment(u32),
    /// A sector of the device.
    Sector(u64),
    /// A file, by inode number.
    Inode(u64),
    /// A block of a file.
    Block {
        /// Inode number of the file.
        ino: u64,
        /// Logical block number.
        block: u64,
    },
    /// A node of a file's index.
    Node {
        /// Inode number of the file.
        ino: u64,
        /// Height of the node, from 1.
        height: u8,
        /// Number of the node within its height.
        index: u64,
    },
}

impl Subject {
    /// Returns the inode number if the object is a file or a part of one.
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

/// One inconsistency or damage.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// The phase that found it.
    pub phase: Phase,
    /// Kind of the finding.
    pub kind: FindingKind,
    /// The object with the problem.
    pub subject: Subject,
    /// A path of the file, if one is known.
    pub path: Option<String>,
    /// The details.
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

/// Numbers of the objects checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Files of all kinds.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    /// Names in directories.
    pub names: u64,
    /// Logical blocks that exist.
    pub blocks: u64,
    /// Bytes that they occupy, including unwritten ones and extended attributes.
    pub bytes: u64,
    /// Index nodes.
    pub nodes: u64,
    /// Bytes of index nodes and ifile.
    pub metadata_bytes: u64,
    /// Segments of the volume.
    pub segments: u32,
    /// Segments with live blocks.
    pub segments_used: u32,
    /// Segments that may be reused.
    pub segments_clean: u32,
    /// Numbers on the free list.
    pub free_numbers: u64,
    /// Data blocks whose checksum was verified.
    pub verified_blocks: u64,
}

/// The result of a check.
#[derive(Clone, Debug, serde::Serialize)]
pub struct CheckReport {
    /// Findings that no crash explains.
    pub errors: Vec<Finding>,
    /// Findings that a crash explains, or that a mount corrects.
    pub warnings: Vec<Finding>,
    /// Numbers of the objects checked.
    pub counts: Counts,
    /// Report of the roll-forward.
    pub recovery: RecoveryReport,
    /// Number of remedies that repair has for the findings, without those that the next
    /// mount for writing applies.
    pub remedies: usize,
    /// Duration in ns.
    pub elapsed_ns: u64,
}

impl CheckReport {
    /// Returns true if there are no findings.
    pub fn is_spotless(&self) -> bool {
        self.errors.is_empty() && self.warnings.is_empty()
    }

    /// Returns true if a finding has no remedy, or a remedy that only repair applies.
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

/// Collector of findings with a limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub errors: Vec<Finding>,
    pub warnings: Vec<Finding>,
    /// Remedies of the findings.
    pub fixes: Vec<Fix>,
    phase: Option<Phase>,
    full: bool,
}

impl Findings {
    pub fn enter(&mut self, phase: Phase) {
        self.phase = Some(phase);
    }

    /// Makes a report of the findings.
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

    /// Returns true when the limit is reached and the check should stop.
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

    /// Adds a remedy for the error just reported.
    pub fn fix(&mut self, fix: Fix) {
        if !self.full {
            self.fixes.push(fix);
        }
    }

    /// Does the same as [`Findings::fix`] if there is a remedy.
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
