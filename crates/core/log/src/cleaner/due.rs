//! When the mount's own thread begins a pass, and what it makes of its outcome.

use super::plan::Urgency;
use crate::cleaner::Cleaner;
use crate::control::pace::Gauge;
use crate::error::Result;

/// Hundredths of a segment that a pass must gain, or it was barren; and how many
/// such follow each other before the cleaner rests, and nobody waits for it. One
/// that takes a checkpoint costs more than it gains, and later ones gain by it.
const LEAST_GAIN: i64 = 2;
const BARREN_PASSES: u32 = 4;
/// How long a few cleaned segments wait for a checkpoint of their own.
const SETTLE_NS: u64 = 500_000_000;

impl Cleaner {
    /// Background work: cleans when clean segments run low and cleaning pays,
    /// or when nobody is there; and takes the checkpoints that make clean what
    /// other processes have cleaned.
    pub(crate) fn clean_if_due(&self) -> Result<()> {
        let gauge = self.space.cleaning_gauge();
        let pace = self.control.shared().settings.pace;
        if pace.threaded {
            self.control.cleans_here();
        }
        if !pace.running {
            return self.settle_if_due(&gauge);
        }
        let urgency = match gauge.idle && gauge.clean >= gauge.low {
            true => Urgency::Idle,
            false if pace.threaded && gauge.is_pressed() => Urgency::Pressed,
            false => Urgency::Background,
        };
        // A pass begins below the low mark and goes on to the high one, so that
        // its checkpoints pay for many segments.
        if gauge.clean >= gauge.high || (gauge.clean >= gauge.low && !gauge.idle) {
            return self.settle_if_due(&gauge);
        }
        if self.control.somebody_comes_next() {
            return Ok(());
        }
        let mut cleaning = self.lock_cleaning();
        // On a full volume nothing may be gained however often we try: rest
        // until something has been written since.
        let end = || self.log.lock().end.serial();
        if cleaning.fruitless_at == Some(end()) {
            return Ok(());
        }
        self.work_begins();
        let before = self.gained_bytes();
        let passed = self.gain_segments(&cleaning, urgency, gauge.high);
        let gained = self.gained_bytes() - before;
        let barren = gained < LEAST_GAIN * self.space.dependable_bytes() as i64 / 100;
        // One that failed gains no more when it is tried again.
        cleaning.barren = match (barren, passed.is_err()) {
            (false, false) => 0,
            (true, false) => (cleaning.barren + 1).min(BARREN_PASSES),
            (_, true) => BARREN_PASSES,
        };
        let fruitless = cleaning.barren == BARREN_PASSES;
        if fruitless {
            cleaning.fruitless_at = Some(end());
        }
        drop(cleaning);
        self.work_is_done();
        self.control.shared().fruitless = fruitless;
        self.control.tell_gain();
        passed.map(|_| ())
    }

    /// Takes a checkpoint for segments that only wait for it, if they are
    /// needed: others have cleaned them.
    fn settle_if_due(&self, gauge: &Gauge) -> Result<()> {
        self.checkpoints.settle_vacated()?;
        {
            let shared = self.control.shared();
            if shared.settings.pace.running && !shared.claims.has_cleaners() {
                return Ok(());
            }
        }
        // A verification must not cost anybody room.
        self.segments.lock().let_go_of_withheld();
        let now_ns = self.clock.monotonic_ns();
        let before_ns = self.control.shared().settled_ns;
        let passed = now_ns.saturating_sub(before_ns) >= SETTLE_NS;
        if !passed || gauge.clean >= gauge.high || !self.checkpoints.checkpoint_fits() {
            return Ok(());
        }
        if self.waiting_for_checkpoint() == 0 {
            return Ok(());
        }
        self.checkpoints.take_checkpoint(false)?;
        self.control.shared().settled_ns = self.clock.monotonic_ns();
        Ok(())
    }
}
