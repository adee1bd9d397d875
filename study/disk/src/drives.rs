//! The drives of the literature, and two of today's kind.
//!
//! Each function's comment names the source of every number: a paper's table,
//! the drive's data sheet, or an estimate. `study/disks.md` has them side by
//! side. A name is a drive as *one* source describes it: where two papers give
//! one drive different numbers, there are two.

mod eighties;
mod nineties;
mod today;

pub use eighties::*;
pub use nineties::*;
pub use today::*;

use crate::drive::Drive;
use crate::geometry::Zone;

/// Every mechanical drive here.
pub fn all() -> Vec<Drive> {
    vec![
        wren_iv(),
        wren_iv_simulated(),
        eagle(),
        rz55(),
        hp97560(),
        hp97560_vlog(),
        sd97560(),
        dsp3105(),
        m2694(),
        hp2247a(),
        st19101(),
        atlas10k(),
        nearline(),
    ]
}

/// The drive of that name, as [`Drive::name`] spells it, in any case.
pub fn by_name(name: &str) -> Option<Drive> {
    all()
        .into_iter()
        .find(|drive| drive.name.eq_ignore_ascii_case(name))
}

const MIB: f64 = 1_048_576.0;

/// Zones of nearly equal width from `outer` to `inner` sectors a track, in
/// equal steps.
fn graded(cylinders: u32, outer: u32, inner: u32, zones: u32) -> Vec<Zone> {
    let zone = |nth: u32| Zone {
        first_cylinder: (u64::from(cylinders) * u64::from(nth) / u64::from(zones)) as u32,
        sectors_per_track: outer - (outer - inner) * nth / (zones - 1),
    };
    (0..zones).map(zone).collect()
}

const fn us(microseconds: u64) -> u64 {
    microseconds * 1000
}

#[cfg(test)]
mod tests;
