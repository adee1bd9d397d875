//! Restart: analysis, redo, undo, and a checkpoint.
//!
//! Nothing is written before the end of the log is known. Then a new life begins, by a
//! checkpoint that says so; compensation records are the first thing appended in it. A
//! crash at any place begins here again.
//!
//! Source: Mohan and others 1992 (ARIES); `docs/tp.md`, "Restart".

use crate::change::{Change, chains, kinds};
use crate::checkpoint::{Checkpoint, Checkpoints};
use crate::engine::{Author, Engine, Listed};
use crate::error::{Error, Result};
use crate::log::{Lsn, Record, Scan, ScanEnd};
use crate::options::Placement;
use crate::page::{CATALOG_ROOT, META_PAGE};
use crate::planted::{self, Planted};
use crate::transaction::{finish_commit, rollback};
use std::collections::BTreeMap;

/// What a restart has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Records read behind the checkpoint.
    pub records: u64,
    /// Pages put back from images in the log, in place.
    pub restored: u64,
    /// Records that pages lacked.
    pub redone: u64,
    /// Transactions that were undone.
    pub undone: u64,
    /// Committed ones whose pages were still to be freed.
    pub finished: u64,
    /// Bytes of log from the first one read to its end.
    pub log_bytes: u64,
}

/// Brings the pages to the state of the log's end, all unfinished transactions undone.
pub(crate) fn restart(
    engine: &Engine,
    checkpoints: &Checkpoints,
    found: Checkpoint,
) -> Result<RecoveryReport> {
    let mut report = RecoveryReport::default();
    let analysis = analyse(engine, &found, false, &mut report)?;
    let (actives, next, end) = (analysis.actives, analysis.next, analysis.end.end);
    engine.log.harden()?;
    let life = checkpoints.renew(found.clone(), end)?;
    engine.log.begin(end, life);
    engine.number_from(next);
    if found.placement != Placement::Shadow && !planted::is(Planted::ImagesNotRestored) {
        restore(engine, &analysis.images)?;
        report.restored = analysis.images.len() as u64;
    }
    redo(engine, &found, &mut report)?;
    let roots = crate::catalog::roots(engine)?;
    // The last one first, as their records lie in the log.
    let mut actives: Vec<Listed> = actives.into_values().collect();
    actives.sort_by_key(|active| std::cmp::Reverse(active.last));
    let all: Vec<_> = actives.iter().map(|listed| engine.resume(listed)).collect();
    for (listed, active) in actives.iter().zip(all) {
        let mut author = Author::nobody();
        author.active = Some(active.clone());
        if listed.committed {
            finish_commit(engine, &mut author, &active)?;
            report.finished += 1;
            continue;
        }
        if !planted::is(Planted::UndoSkipped) {
            rollback(engine, &mut author, Lsn::NONE, |table| {
                if let Some(root) = roots.get(&table) {
                    return Ok(Some(*root));
                }
                // It was dropped, and that has been undone since.
                Ok(crate::catalog::roots(engine)?.get(&table).copied())
            })?;
        }
        engine.log(&mut author, 0, &Change::End)?;
        engine.leave(&active);
        report.undone += 1;
    }
    checkpoints.take(engine, true)?;
    engine.versions.begin(engine.log.end());
    Ok(report)
}

pub(crate) type Actives = BTreeMap<u64, Listed>;

/// What a copy has received, and where it ends.
pub(crate) fn follow(engine: &Engine, found: &Checkpoint) -> Result<(Actives, u64, ScanEnd)> {
    let mut report = RecoveryReport::default();
    let analysis = analyse(engine, found, true, &mut report)?;
    engine.log.harden()?;
    scan(engine, found, true).run(found.redo, |record| {
        report.redone += redo_record(engine, &record)?;
        Ok(())
    })?;
    Ok((analysis.actives, analysis.next, analysis.end))
}

/// A copy can become an original: what was received in part is cleared away, and the
/// checkpoint knows the last life, as if the original's restart had found it. It is still
/// a copy, which can follow, until its identity is another.
pub(crate) fn end_copy(
    engine: &Engine,
    checkpoints: &Checkpoints,
    found: &mut Checkpoint,
    whole: u64,
) -> Result<()> {
    let end = analyse(engine, found, true, &mut RecoveryReport::default())?.end;
    engine.log.harden()?;
    is_whole(end.end, whole)?;
    engine.log.clear_behind(end.end)?;
    checkpoints.set_life(found, end.life, end.life_begins)
}

/// An error if a copy's log does not reach to where it did when the copy was made.
pub(crate) fn is_whole(end: Lsn, whole: u64) -> Result<()> {
    match end.0 >= whole {
        true => Ok(()),
        false => {
            let what = format!("the copy's log ends here, but was copied up to {whole}");
            Err(Error::damaged("wal", end.0, what))
        }
    }
}

/// What the log says.
struct Analysis {
    actives: Actives,
    next: u64,
    /// The last image of each page that `redo` may find torn.
    images: BTreeMap<u32, Lsn>,
    end: ScanEnd,
}

/// Reads the log to its end: who was active, which pages have images, and where it ends.
fn analyse(
    engine: &Engine,
    found: &Checkpoint,
    copy: bool,
    report: &mut RecoveryReport,
) -> Result<Analysis> {
    let listed = found
        .active
        .iter()
        .map(|active| (active.number, active.clone()));
    let mut actives: Actives = listed.collect();
    let (mut next, mut images) = (found.next, BTreeMap::new());
    let end = scan(engine, found, copy).run(found.redo, |record| {
        if record.kind == kinds::IMAGE
            && let Some(Change::Image { page, .. }) = Change::parse(record.kind, &record.body)
        {
            images.insert(page, record.lsn);
        }
        if record.lsn < found.begin {
            return Ok(());
        }
        report.records += 1;
        next = next.max(record.transaction.saturating_add(1));
        note(&mut actives, &record);
        Ok(())
    })?;
    if end.end < found.begin {
        let what = "the log ends before the checkpoint began";
        return Err(Error::damaged("wal", end.end.0, what));
    }
    report.log_bytes = end.end.0 - scan_start(engine, found).0;
    Ok(Analysis {
        actives,
        next,
        images,
        end,
    })
}

/// Batches begin where segments do, so that is where reading can begin.
fn scan_start(engine: &Engine, found: &Checkpoint) -> Lsn {
    let segment = engine.log.shape.segment;
    Lsn(found.keep.0 / segment * segment)
}

fn scan<'e>(engine: &'e Engine, found: &Checkpoint, copy: bool) -> Scan<'e> {
    let from = scan_start(engine, found);
    let scan = engine.log.scan(from, found.life, found.life_begins);
    match copy {
        true => scan.of_copy(),
        false => scan,
    }
}

/// Keeps account of who is active.
pub(crate) fn note(actives: &mut Actives, record: &Record) {
    let number = record.transaction;
    if number == 0 {
        return;
    }
    let change = Change::parse(record.kind, &record.body);
    if let Some(Change::End) = change {
        actives.remove(&number);
        return;
    }
    if actives
        .get(&number)
        .is_some_and(|active| record.lsn <= active.last)
    {
        // The checkpoint listed it later than this.
        return;
    }
    let active = actives.entry(number).or_insert_with(|| Listed {
        number,
        first: record.lsn,
        last: record.lsn,
        committed: false,
        chains: Vec::new(),
    });
    active.last = record.lsn;
    match change {
        Some(Change::Chains { chains: bytes }) => active.chains.extend(chains(bytes)),
        Some(Change::Commit { chains: bytes }) => {
            active.committed = true;
            active.chains.extend(chains(bytes));
            if active.chains.is_empty() {
                actives.remove(&number);
            }
        }
        Some(Change::Free { chain, .. }) => active.chains.retain(|other| *other != chain),
        _ => {}
    }
}

/// Puts pages back as the log has them, whatever their slots hold: they may be torn.
fn restore(engine: &Engine, images: &BTreeMap<u32, Lsn>) -> Result<()> {
    engine.pool.have_images(images);
    for (number, lsn) in images {
        let record = engine.log.read(*lsn)?;
        let mut page = engine.pool.make(*number)?;
        let restored = match Change::parse(record.kind, &record.body) {
            Some(Change::Image { image, .. }) => image.restore_whole(*number, page.edit().0),
            _ => false,
        };
        if !restored {
            let what = format!("the image of page {number} is none");
            return Err(Error::damaged("wal", lsn.0, what));
        }
        page.restored(*lsn);
    }
    Ok(())
}

/// Applies each record to those of its pages that lack it.
fn redo(engine: &Engine, found: &Checkpoint, report: &mut RecoveryReport) -> Result<()> {
    scan(engine, found, false).run(found.redo, |record| {
        report.redone += redo_record(engine, &record)?;
        Ok(())
    })?;
    Ok(())
}

/// Applies a record to those of its pages that lack it. Answers how many.
pub(crate) fn redo_record(engine: &Engine, record: &Record) -> Result<u64> {
    let change = Change::parse(record.kind, &record.body);
    let damaged = || Error::damaged("wal", record.lsn.0, "a record that says nothing");
    let change = change.ok_or_else(damaged)?;
    if record.kind == kinds::SPLIT && planted::is(Planted::SplitLost) {
        return Ok(0);
    }
    let mut redone = 0;
    for number in change.pages() {
        let mut page = engine.pool.redo(number)?;
        if page.page().lsn() >= record.lsn.0 && !planted::is(Planted::RedoTwice) {
            continue;
        }
        if change.apply(number, &mut page.edit()).is_err() {
            let what = format!("page {number} does not take this change");
            return Err(Error::damaged("wal", record.lsn.0, what));
        }
        page.mark(record.lsn);
        redone += 1;
    }
    Ok(redone)
}

/// The first pages of an environment that is being made: the meta page, and an empty
/// catalog.
pub(crate) fn first_pages(engine: &Engine) -> Result<()> {
    // Of no record, and not behind the log's end.
    let lsn = Lsn(engine.log.end().0 - 1);
    let mut meta = engine.pool.make(META_PAGE)?;
    meta.edit().set_meta(2, 0);
    meta.mark(lsn);
    drop(meta);
    let mut catalog = engine.pool.make(CATALOG_ROOT)?;
    catalog.edit().format(0, 0);
    let made = catalog.edit().set_low(&[]);
    assert!(made, "an empty page");
    catalog.mark(lsn);
    Ok(())
}
