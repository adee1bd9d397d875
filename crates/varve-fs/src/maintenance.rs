//! What concerns a whole volume: telling its device what is unused, and ending
//! all writing at once.

use crate::error::Result;
use crate::file_system::FileSystem;
use crate::layout::Layout;
use std::ops::Range;

impl<L: Layout> FileSystem<L> {
    /// Tells the device that what is unused in `range`, bytes of the volume,
    /// holds nothing; pieces smaller than `bytes_min` are left out. Answers how
    /// many bytes that were.
    ///
    /// # Errors
    /// `Invalid` if the range begins behind the volume's end, `NotSupported` if
    /// the layout cannot, `ReadOnly`, device errors.
    pub fn trim(&self, range: Range<u64>, bytes_min: u64) -> Result<u64> {
        self.check_writable()?;
        self.store.layout.trim(range, bytes_min)
    }

    /// Ends all writing, for `reason`: what has not been made durable will not
    /// be, and the volume is as a crash at this moment would leave it. Changes
    /// are refused as after a failed write; reads of what is in memory go on.
    pub fn shut_down(&self, reason: &str) {
        self.refuse_changes(reason);
        self.store.layout.stop(reason);
    }
}
