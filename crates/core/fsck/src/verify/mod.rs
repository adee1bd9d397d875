//! Verification of a volume in use: the tree, its pointers, and on demand all data.
//!
//! | file | content |
//! |---|---|
//! | `image.rs`, `files.rs` | the ifile and inode map; inodes, indexes, attributes |
//! | `history.rs` | the history of snapshots |
//! | `links.rs`, `known.rs` | directories, names, link counts, reachability |
//! | `accounts.rs`, `claimed.rs` | live bytes of segments, totals; places used twice |
//! | `data.rs` | every data block, in the order of addresses |
//! | `paths.rs` | paths of findings |
//! | `control.rs`, `pace.rs`, `report.rs` | stopping, pacing, reporting |
//!
//! Metadata is verified on the *image of a checkpoint*, which does not change: a tree of
//! one moment, in which names, link counts and accounts agree however busy the volume is.
//! The image is pinned (`varve_lfs`, `hold.rs`), so its blocks remain at the places in
//! its pointers. A finding counts only if the pin was still intact when it was made.
//! Otherwise all findings are discarded, and the verification starts again on the newest
//! image, faster. So there are no false alarms, and no lock for which another operation
//! would wait.
//!
//! Data takes hours and needs no common moment. Each file's present pointers are looked
//! up. A block whose checksum is wrong is looked up again; only if its pointer is
//! unchanged was it in use all the time.
//!
//! Damaged metadata stops the volume's writes, because a write could free live blocks or
//! fold a wrong index. A damaged data block is reported and stops nothing, unless that is
//! requested, because nothing is derived from its bytes.
//!
//! Memory: 12 bytes per segment, three bits per inode number, 5 bytes for each of at most
//! `known::WINDOW` inodes at a time, 8 MiB to find places used twice, 4 MiB of blocks.

mod accounts;
mod claimed;
mod control;
mod data;
mod files;
mod history;
mod image;
mod known;
mod links;
mod pace;
mod paths;
mod report;
#[cfg(test)]
mod tests;

pub use control::{Control, Progress, Stage};
pub use report::{BadFile, BadRange, Outcome, Verification};

use crate::check::{Finding, FindingKind, Phase, Subject};
use claimed::Claimed;
use known::Bits;
use pace::PacedDevice;
use std::sync::Arc;
use std::time::Duration;
use varve_fs::Usage;
use varve_lfs::internal::{Hold, Reader};
use varve_lfs::{Error, Lfs};

/// Bytes of decoded metadata in the cache.
const CACHE_BYTES: u64 = 4 << 20;
/// Number of images tried before the comparison of names, links and accounts is given up.
const ATTEMPTS: u32 = 4;
/// Factor by which each further attempt is faster; the last one has no limit.
const HASTE: u64 = 8;
/// Pause before another attempt.
const REST: Duration = Duration::from_secs(2);
/// Number of attempts to take a checkpoint on a full volume.
const ASKED: u32 = 10;

/// Options of a verification.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerifyOptions {
    /// True if every data block is verified, too.
    pub data: bool,
    /// Makes a damaged data block stop the volume's writes as well.
    pub strict: bool,
}

/// Returns true if the volume was recovered by roll-forward and a finding can still stop
/// it.
pub fn is_wanted(lfs: &Lfs) -> bool {
    !lfs.recovery_report().clean && lfs.stopped().is_none()
}

/// Verifies the tree and, on request, all data, in parallel with other operations.
/// Returns `None` if another verification is running.
///
/// Damaged metadata makes the volume read-only.
pub fn verify(lfs: &Lfs, control: &Arc<Control>, options: &VerifyOptions) -> Option<Verification> {
    let _one_at_a_time = lfs.begin_verification()?;
    let started_ns = lfs.clock().monotonic_ns();
    let mut verifier = Verifier {
        lfs,
        control,
        options: *options,
        reader: paced_reader(lfs, control),
        report: Verification::default(),
        directories: Bits::default(),
        started_ns,
    };
    let outcome = verifier.run();
    let mut report = verifier.report;
    report.outcome = outcome;
    control.update(|p| {
        p.stage = Stage::Finished;
        p.elapsed_ns = lfs.clock().monotonic_ns().saturating_sub(started_ns);
    });
    Some(report)
}

fn paced_reader(lfs: &Lfs, control: &Arc<Control>) -> Arc<Reader> {
    let (device, counters) = lfs.counted_device();
    let device = PacedDevice::new(
        Arc::clone(device),
        Arc::clone(lfs.clock()),
        Arc::clone(control),
        Arc::clone(counters),
    );
    Arc::new(lfs.reader_on(Arc::new(device), CACHE_BYTES))
}

/// Folds the changes of roll-forward into an image, so that they are verified as well. If
/// there is no space for that, the existing image is verified.
fn fold(lfs: &Lfs, control: &Control) {
    for _ in 0..ASKED {
        if control.stopping() || lfs.stopped().is_some() || lfs.is_folded() {
            return;
        }
        if lfs.checkpoints().checkpoint_fits() {
            if let Err(error) = lfs.checkpoints().take_checkpoint(false) {
                tracing::warn!(%error, "no checkpoint before a verification");
            }
            return;
        }
        control.wait(Duration::from_secs(1));
    }
}

/// The reason why an image was not verified completely.
enum Ended {
    /// The verification was stopped.
    Stopped,
    /// The pin on the image was broken.
    Overtaken,
}

/// State of one verification.
struct Verifier<'a> {
    lfs: &'a Lfs,
    control: &'a Arc<Control>,
    options: VerifyOptions,
    reader: Arc<Reader>,
    report: Verification,
    /// Directories of the last image that was verified completely.
    directories: Bits,
    started_ns: u64,
}

impl Verifier<'_> {
    fn run(&mut self) -> Outcome {
        let outcome = self.tree();
        if outcome != Outcome::Cancelled && self.options.data {
            self.data();
        }
        if self.control.stopping() {
            return Outcome::Cancelled;
        }
        self.control.enter(Stage::Names, 1);
        self.name_findings();
        outcome
    }

    /// Verifies the tree and its pointers, on one image after another until one attempt
    /// is complete.
    fn tree(&mut self) -> Outcome {
        let asked = self.control.rate();
        for attempt in 1..=ATTEMPTS {
            self.control.update(|p| p.attempt = attempt);
            Hold::prepare(self.lfs);
            fold(self.lfs, self.control);
            match self.one_image() {
                Ok(()) => {
                    self.control.set_rate(asked);
                    return Outcome::Complete;
                }
                Err(Ended::Stopped) => return Outcome::Cancelled,
                Err(Ended::Overtaken) => {}
            }
            let faster = self.control.rate().saturating_mul(HASTE);
            let faster = if attempt + 1 >= ATTEMPTS { 0 } else { faster };
            self.control.set_rate(faster);
            self.control.wait(REST);
        }
        self.control.set_rate(asked);
        tracing::warn!(
            "short of room, the volume could not hold an image: names, links and accounts were \
             not compared"
        );
        Outcome::Unsettled
    }

    fn one_image(&mut self) -> Result<(), Ended> {
        let hold = Hold::take(self.lfs);
        let mut image = Image {
            lfs: self.lfs,
            control: self.control,
            reader: Arc::clone(&self.reader),
            live: vec![0; hold.segments.len()],
            hold,
            usage: Usage::default(),
            free_numbers: 0,
            unfinished: 0,
            directories: Bits::default(),
            unreadable: Bits::default(),
            claimed: Claimed::default(),
            blind: false,
            started_ns: self.started_ns,
            report: Verification::default(),
        };
        let verified = image.verify();
        let Image {
            report,
            directories,
            ..
        } = image;
        // Findings that were valid when they were made remain, even if the pin was broken
        // later.
        for finding in report.errors {
            if !self.report.errors.contains(&finding) {
                self.report.keep_error(finding);
            }
        }
        if verified.is_ok() {
            self.directories = directories;
            self.report.warnings = report.warnings;
        }
        verified
    }

    /// Reports damage that was found while reading data.
    fn error(&mut self, kind: FindingKind, subject: Subject, text: String) {
        let finding = finding(kind, subject, text);
        if !self.report.errors.iter().any(|f| f.subject == subject) {
            stop_for(self.lfs, &finding);
            self.control.update(|p| p.errors += 1);
            self.report.keep_error(finding);
        }
    }
}

/// An image that is being verified.
struct Image<'a> {
    lfs: &'a Lfs,
    control: &'a Control,
    reader: Arc<Reader>,
    hold: Hold<'a>,
    /// Live bytes counted, by segment.
    live: Vec<u32>,
    claimed: Claimed,
    /// Totals counted below the inode map.
    usage: Usage,
    free_numbers: u64,
    /// Number of inodes that are marked as unfinished.
    unfinished: u64,
    directories: Bits,
    /// Inodes whose image or index could not be read, reported once.
    unreadable: Bits,
    /// True if some structure could not be walked, so that sums are not compared.
    blind: bool,
    started_ns: u64,
    report: Verification,
}

impl Image<'_> {
    fn verify(&mut self) -> Result<(), Ended> {
        let blocks = self.ifile()?;
        let first = self.inodes(&blocks)?;
        self.history();
        self.all_links(&blocks, first)?;
        self.accounts()
    }

    /// Checks between two steps that the verification may continue.
    fn go_on(&self) -> Result<(), Ended> {
        if self.control.stopping() {
            Err(Ended::Stopped)
        } else if !self.hold.stands() {
            Err(Ended::Overtaken)
        } else {
            Ok(())
        }
    }

    /// Reports an error if the pin is still intact. The first error stops the volume's
    /// writes, which keeps the image as it is.
    fn error(&mut self, kind: FindingKind, subject: Subject, text: impl Into<String>) {
        use FindingKind::{IndexNode, Inode, InodeMap};
        self.blind |= matches!(kind, IndexNode | Inode | InodeMap);
        if self.go_on().is_err() {
            return;
        }
        let finding = finding(kind, subject, text.into());
        tracing::error!("verification: {finding}");
        stop_for(self.lfs, &finding);
        self.control.update(|p| p.errors += 1);
        self.report.keep_error(finding);
    }

    fn warning(&mut self, kind: FindingKind, subject: Subject, text: impl Into<String>) {
        if self.go_on().is_ok() {
            let finding = finding(kind, subject, text.into());
            tracing::warn!("verification: {finding}");
            self.report.keep_warning(finding);
        }
    }

    fn tell(&self, change: impl FnOnce(&mut Progress)) {
        let elapsed_ns = self
            .lfs
            .clock()
            .monotonic_ns()
            .saturating_sub(self.started_ns);
        self.control.update(|p| {
            p.elapsed_ns = elapsed_ns;
            change(p);
        });
    }
}

fn finding(kind: FindingKind, subject: Subject, text: String) -> Finding {
    let phase = match kind {
        FindingKind::Directory | FindingKind::Entry => Phase::Directories,
        FindingKind::Parent
        | FindingKind::Unreachable
        | FindingKind::Cycle
        | FindingKind::LinkCount
        | FindingKind::Unfinished => Phase::Links,
        FindingKind::UsageCount | FindingKind::Totals | FindingKind::FreeList => Phase::Accounts,
        _ => Phase::Inodes,
    };
    Finding {
        phase,
        kind,
        subject,
        path: None,
        text,
    }
}

/// Makes the volume read-only because of a finding; the first reason is kept.
fn stop_for(lfs: &Lfs, finding: &Finding) {
    lfs.stop(format!(
        "verification found damage: {}: {}; unmount and run `varve fsck`",
        finding.subject, finding.text
    ));
}

/// Returns true if the error is caused by the medium and not by the request.
fn is_damage(error: &Error) -> bool {
    error.is_of_the_medium()
}
