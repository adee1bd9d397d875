//! Verification in service: the tree, its pointers, and on demand all data.
//!
//! | file | |
//! |---|---|
//! | `image.rs`, `files.rs` | the ifile and inode map; inodes, indexes, attributes |
//! | `history.rs` | the history of snapshots |
//! | `links.rs`, `known.rs` | directories, names, link counts, reachability |
//! | `accounts.rs`, `claimed.rs` | live bytes of segments, totals; what is used twice |
//! | `data.rs` | every data block, in the order of the device |
//! | `paths.rs` | names for what was found |
//! | `control.rs`, `pace.rs`, `report.rs` | stopping, pacing, telling |
//!
//! Metadata is verified on the *image of a checkpoint*, which does not change:
//! a tree in which names, link counts and accounts belong to one moment,
//! however busy the volume is. The image is held (`varve_lfs`, `hold.rs`), so its blocks are
//! where its pointers say. A complaint counts only if the hold still stood
//! when it was made; if not, all is thrown away and the verification begins
//! anew on the newest image, faster. So there is no false alarm, without a
//! lock that anybody would wait for.
//!
//! Data takes hours and needs no common moment. Each file's present pointers
//! are looked up; a block whose checksum is wrong is looked up again, and only
//! if its pointer is the same has it been in use all the time.
//!
//! Damaged metadata stops the volume's writes: going on could free what lives,
//! or fold a wrong index. A damaged data block is reported and stops nothing
//! unless that is asked for: nothing is derived from its bytes.
//!
//! Memory: 12 bytes per segment, a bit per inode number three times, 5 bytes
//! for each of at most `known::WINDOW` inodes at a time, 8 MiB to find what is
//! used twice, 4 MiB of blocks.

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

/// Bytes of decoded metadata kept while verifying.
const CACHE_BYTES: u64 = 4 << 20;
/// Images tried before giving up holding one.
const ATTEMPTS: u32 = 4;
/// How much faster each further attempt is; the last one has no limit.
const HASTE: u64 = 8;
/// Rest before another attempt.
const REST: Duration = Duration::from_secs(2);
/// How often a full volume is asked whether a checkpoint fits.
const ASKED: u32 = 10;

/// What to verify.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerifyOptions {
    /// Every data block, too.
    pub data: bool,
    /// A damaged data block stops the volume's writes as well.
    pub strict: bool,
}

/// True if the volume was recovered by roll-forward and can still be stopped by
/// what a verification finds.
pub fn is_wanted(lfs: &Lfs) -> bool {
    !lfs.recovery_report().clean && lfs.stopped().is_none()
}

/// Verifies the tree and, if asked, all data, beside whatever else goes on. `None`
/// if another verification is under way.
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

/// Puts what roll-forward found into an image, so that it is verified, too. If
/// there is no room for that, the image that exists must do.
fn fold(lfs: &Lfs, control: &Control) {
    for _ in 0..ASKED {
        if control.stopping() || lfs.stopped().is_some() || lfs.is_folded() {
            return;
        }
        if lfs.checkpoint_fits() {
            if let Err(error) = lfs.take_checkpoint(false) {
                tracing::warn!(%error, "no checkpoint before a verification");
            }
            return;
        }
        control.wait(Duration::from_secs(1));
    }
}

/// Why an image was not verified to its end.
enum Ended {
    /// As it was told to.
    Stopped,
    /// The image could not be held.
    Overtaken,
}

/// One verification.
struct Verifier<'a> {
    lfs: &'a Lfs,
    control: &'a Arc<Control>,
    options: VerifyOptions,
    reader: Arc<Reader>,
    report: Verification,
    /// Directories of the last image that was verified to its end.
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

    /// The tree and its pointers, on one image or another.
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
        // What was believed stays so, whatever became of the image since.
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

    /// Damage that was met on the way to the data.
    fn error(&mut self, kind: FindingKind, subject: Subject, text: String) {
        let finding = finding(kind, subject, text);
        if !self.report.errors.iter().any(|f| f.subject == subject) {
            stop_for(self.lfs, &finding);
            self.control.update(|p| p.errors += 1);
            self.report.keep_error(finding);
        }
    }
}

/// One image being verified.
struct Image<'a> {
    lfs: &'a Lfs,
    control: &'a Control,
    reader: Arc<Reader>,
    hold: Hold<'a>,
    /// Live bytes counted, by segment.
    live: Vec<u32>,
    claimed: Claimed,
    /// What was counted below the inode map.
    usage: Usage,
    free_numbers: u64,
    /// Inodes that say they are unfinished.
    unfinished: u64,
    directories: Bits,
    /// Inodes, or indexes, that could not be read: complained of once.
    unreadable: Bits,
    /// Not everything could be walked: sums mean nothing.
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

    /// Between any two steps.
    fn go_on(&self) -> Result<(), Ended> {
        if self.control.stopping() {
            Err(Ended::Stopped)
        } else if !self.hold.stands() {
            Err(Ended::Overtaken)
        } else {
            Ok(())
        }
    }

    /// Complains, if what was read was still there. The first complaint stops
    /// the volume's writes; the image then stays as it is.
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

/// Makes the volume read-only for what was found; the first reason stays.
fn stop_for(lfs: &Lfs, finding: &Finding) {
    lfs.stop(format!(
        "verification found damage: {}: {}; unmount and run `varve fsck`",
        finding.subject, finding.text
    ));
}

/// True of errors that say something about the medium, and not about what was
/// asked.
fn is_damage(error: &Error) -> bool {
    error.is_of_the_medium()
}
