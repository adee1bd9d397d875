//! How the mount's own cleaner works, asked and changed.

use crate::cleaner::Cleaner;
use crate::control::{CleanerSettings, CleanerStatus};
use crate::error::Result;
use varve_device::sync::atomic::Ordering::Relaxed;

impl Cleaner {
    /// How the mount's own cleaner works.
    pub fn cleaner_settings(&self) -> CleanerSettings {
        self.control.shared().settings
    }

    /// Changes how the mount's own cleaner works, from its next pass on.
    ///
    /// # Errors
    /// `Unfit` if a mount cannot do that; then nothing has changed.
    pub fn set_cleaner(&self, settings: CleanerSettings) -> Result<()> {
        settings.check()?;
        self.control.shared().settings = settings;
        self.control.ring();
        Ok(())
    }

    /// How cleaning stands.
    pub fn cleaner_status(&self) -> CleanerStatus {
        let gauge = self.space.cleaning_gauge();
        let now_ns = self.clock.monotonic_ns();
        let mut shared = self.control.shared();
        shared.claims.expire(now_ns);
        CleanerStatus {
            settings: shared.settings,
            gauge,
            others: shared.claims.cleaners(now_ns),
        }
    }

    /// Rests of the cleaner and waits of writers end, and there are no more:
    /// the volume is about to be closed.
    pub fn hurry(&self) {
        self.control.closing.store(true, Relaxed);
        self.control.ring();
    }

    /// The mount's own cleaner has work.
    pub fn wants_cleaning(&self) -> bool {
        let gauge = self.space.cleaning_gauge();
        let running = self.control.shared().settings.pace.running;
        running && (gauge.waiting || gauge.clean < gauge.low)
    }

    /// Has the thread that cleans come at once: somebody is in need. Without
    /// this it comes when it next looks.
    pub fn on_need(&self, summon: Box<dyn Fn() + Send + Sync>) {
        // A second one would be the same.
        let _ = self.control.summon.set(summon);
    }
}
