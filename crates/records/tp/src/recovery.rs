//! Restart: analysis, redo, undo, and a checkpoint.
//!
//! Nothing is written before the end of the log is known. Then a new life begins with a
//! checkpoint that records it; compensation records are the first records appended in it.
//! After a crash at any point the restart begins again here.
//!
//! Source: Mohan and others 1992 (ARIES); `docs/spec/records.md`, "Rules".

use crate::change::{Change, chains, kinds};
use crate::checkpoint::{Checkpoint, Checkpoints};
use crate::engine::{Author, Engine, Listed};
use crate::error::{Error, Result};
use crate::log::{Lsn, Record, Scan, ScanEnd};
use crate::page::{CATALOG_ROOT, META_PAGE};
use crate::planted::{self, Planted};
use crate::transaction::{finish_commit, rollback};
use std::collections::BTreeMap;

/// Report of a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Records read behind the checkpoint.
    pub records: u64,
    /// Pages restored from images in the log, in place.
    pub restored: u64,
    /// Records that were applied because pages lacked them.
    pub redone: u64,
    /// Transactions that were undone.
    pub undone: u64,
    /// Committed transactions whose pages still had to be freed.
    pub finished: u64,
    /// Bytes of log from the first record read to the end.
    pub log_bytes: u64,
}

/// Brings the pages to the state of the log's end, and undoes all unfinished
/// transactions.
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
    if found.placement.has_images() && !planted::is(Planted::ImagesNotRestored) {
        report.restored = restore(engine, &analysis.images)?;
    }
    redo(engine, &found, &mut report)?;
    let roots = crate::catalog::roots(engine)?;
    // The order is that of their last records, newest first.
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
                // The drop of the table has been undone meanwhile, so the catalog has it again.
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

/// Replays the log that a copy has received. Returns its active transactions, the next
/// transaction number, and the end.
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

/// Prepares a copy to become an original: a piece that was received in part is cleared,
/// and the checkpoint records the last life, as a restart of the original would. It
/// remains a copy that can follow until its identity is changed.
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

/// Fails if a copy's log ends before the position that it had when the copy was made.
pub(crate) fn is_whole(end: Lsn, whole: u64) -> Result<()> {
    match end.0 >= whole {
        true => Ok(()),
        false => {
            let what = format!("the copy's log ends here, but was copied up to {whole}");
            Err(Error::damaged("wal", end.0, what))
        }
    }
}

/// Result of the analysis.
struct Analysis {
    actives: Actives,
    next: u64,
    /// The last image of each page that redo may find torn.
    images: BTreeMap<u32, Lsn>,
    end: ScanEnd,
}

/// Reads the log to its end: finds the active transactions, the pages with images, and
/// the end.
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
        return Err(Error::log_lost(end.end.0, what));
    }
    report.log_bytes = end.end.0 - scan_start(engine, found).0;
    Ok(Analysis {
        actives,
        next,
        images,
        end,
    })
}

/// Reading begins at a segment, because a batch begins there.
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

/// Updates the active transactions by one record.
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
        // The checkpoint's entry is newer than this record.
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

/// Restores pages from their images in the log, because their slots may be torn. A page
/// beyond the end of the file was never written, and redo creates it. Returns the number
/// of pages.
fn restore(engine: &Engine, images: &BTreeMap<u32, Lsn>) -> Result<u64> {
    engine.pool.have_images(images);
    let written = engine.pool.pages_in_file()?;
    let mut restored = 0;
    for (number, lsn) in images.range(..written) {
        let record = engine.log.read(*lsn)?;
        let mut page = engine.pool.make(*number)?;
        let is_page = match Change::parse(record.kind, &record.body) {
            Some(Change::Image { image, .. }) => image.restore_whole(*number, page.edit().0),
            _ => false,
        };
        if !is_page {
            let what = format!("the image of page {number} is none");
            return Err(Error::damaged("wal", lsn.0, what));
        }
        page.dirty_since(*lsn);
        restored += 1;
    }
    Ok(restored)
}

/// Applies each record to those of its pages that lack it.
fn redo(engine: &Engine, found: &Checkpoint, report: &mut RecoveryReport) -> Result<()> {
    scan(engine, found, false).run(found.redo, |record| {
        report.redone += redo_record(engine, &record)?;
        Ok(())
    })?;
    Ok(())
}

/// Applies a record to those of its pages that lack it. Returns their number.
pub(crate) fn redo_record(engine: &Engine, record: &Record) -> Result<u64> {
    let change = Change::parse(record.kind, &record.body);
    let damaged = || Error::damaged("wal", record.lsn.0, "a record that says nothing");
    let change = change.ok_or_else(damaged)?;
    if record.kind == kinds::SPLIT && planted::is(Planted::SplitLost) {
        return Ok(0);
    }
    let made = change.made();
    if let Some((page, meta)) = made {
        // Pages are allocated one at a time, so no number is far beyond the count.
        let (count, _) = engine.pool.read(META_PAGE)?.page().meta();
        if page >= meta.count || meta.count > count.saturating_add(1) {
            let what = format!("page {page} of {count} is taken");
            return Err(Error::damaged("wal", record.lsn.0, what));
        }
    }
    let mut redone = 0;
    for number in change.pages() {
        let mut page = match made {
            Some((made, _)) if made == number => engine.pool.redo(number)?,
            _ => engine.pool.write(number)?,
        };
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

/// Creates the first pages of a new environment: the meta page, and an empty catalog.
pub(crate) fn first_pages(engine: &Engine) -> Result<()> {
    // An LSN of no record, before the log's end.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Allocation;
    use crate::page::{Image, PageMut};
    use crate::storage::MemoryStorage;
    use crate::{Options, Placement, TornPages};
    use std::sync::Arc;

    const FAR: u32 = u32::MAX;

    /// Opens an environment with pages 0 and 1 whose log ends with this record.
    fn opened(placement: Placement, change: &Change<'_>) -> Result<crate::Environment> {
        let mut options = Options::new();
        options.placement(placement).background(false);
        let storage = MemoryStorage::new();
        let environment = options.open_storage(Arc::new(storage.clone()))?;
        let engine = &environment.shared().engine;
        let lsn = engine.log(&mut Author::nobody(), 0, change)?;
        engine.log.flush(lsn)?;
        options.open_storage(Arc::new(MemoryStorage::with_files(storage.files())))
    }

    fn tree(root: u32, count: u32) -> Change<'static> {
        let meta = Allocation { count, free: 0 };
        let table = 7;
        Change::Tree { root, table, meta }
    }

    #[test]
    fn a_record_takes_no_page_far_beyond_the_last() {
        for placement in [
            Placement::Shadow,
            Placement::InPlace(TornPages::LogImages),
            Placement::InPlace(TornPages::Never),
        ] {
            opened(placement, &tree(2, 3)).unwrap();
            for (root, count) in [(FAR, FAR), (FAR, 3), (3, 4), (1 << 20, (1 << 20) + 1)] {
                match opened(placement, &tree(root, count)) {
                    Err(Error::Damaged { .. }) => {}
                    other => panic!("{placement:?}, {root} of {count}: {other:?}"),
                }
            }
        }
    }

    #[test]
    fn an_image_beyond_the_file_is_left_to_redo() {
        let mut bytes = vec![0; 4096];
        PageMut(&mut bytes).format(7, 0);
        PageMut(&mut bytes).header().number = FAR.into();
        let image = Image::of_whole(&bytes);
        let change = Change::Image { page: FAR, image };
        let placement = Placement::InPlace(TornPages::LogImages);
        let environment = opened(placement, &change).unwrap();
        assert_eq!(environment.recovery().restored, 0);
        assert_eq!(environment.statistics().dirty_frames, 0);
    }
}
