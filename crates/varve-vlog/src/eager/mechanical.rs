//! The nearest free place by time, on a drive whose head is known.

use varve_disk::{Access, TrackId};

use super::{Avoid, Want};
use crate::free_space::FreeSpace;
use crate::medium::HeadPosition;

/// The region of the head's track: regions are tracks, in order.
pub(super) fn region_of(head: &HeadPosition) -> u32 {
    head.track.cylinder * head.drive.geometry.heads() + head.track.head
}

/// The soonest free place on a track: its first unit, and the time until it is
/// under the head.
pub(super) fn on_track(
    free: &FreeSpace,
    head: &HeadPosition,
    region: usize,
    want: Want,
) -> Option<(u64, u64)> {
    let blocks = free.regions().blocks(region);
    if blocks.is_empty() {
        return None;
    }
    let heads = head.drive.geometry.heads();
    let id = TrackId {
        cylinder: region as u32 / heads,
        head: region as u32 % heads,
    };
    let track = head.drive.geometry.track(id);
    let arrival = head
        .drive
        .arrival_ns(head.platter_ns, head.track, id, Access::Write);
    let first = track.first_sector + u64::from(head.drive.first_sector_after(arrival, &track));
    let wait = |unit: u64| {
        // The units of a block that reaches beyond the track's end count as at it.
        let nth = unit * free.unit_sectors() - track.first_sector;
        let nth = nth.min(u64::from(track.sectors) - 1) as u32;
        arrival - head.platter_ns + head.drive.rotation_to(arrival, &track, nth)
    };
    let units = u64::from(free.units_per_block());
    let range = u64::from(blocks.start) * units..u64::from(blocks.end) * units;
    let under = first.div_ceil(free.unit_sectors());
    match want {
        Want::Block => {
            let next = (under.div_ceil(units) as u32).clamp(blocks.start, blocks.end);
            let mut order = (next..blocks.end).chain(blocks.start..next);
            let block = order.find(|&block| free.mask(block) == 0)?;
            let unit = u64::from(block) * units;
            Some((unit, wait(unit)))
        }
        Want::Unit | Want::Part(_) | Want::Hole { .. } => {
            let under = under.clamp(range.start, range.end);
            let order = (under..range.end).chain(range.start..under);
            nearest_part(free, head, want, order, &wait)
        }
    }
}

/// The next free units of a block that is partly used, unless those of a whole
/// free block come a thirty-second of a revolution sooner. `order` is that in which
/// units pass under the head.
fn nearest_part(
    free: &FreeSpace,
    head: &HeadPosition,
    want: Want,
    order: impl Iterator<Item = u64>,
    wait: &impl Fn(u64) -> u64,
) -> Option<(u64, u64)> {
    let patience = head.drive.rotation.revolution_ns() / 32;
    let units = want.units(free.units_per_block());
    let mut whole: Option<(u64, u64)> = None;
    for unit in order {
        let Some((block, bits)) = free.part(unit, units) else {
            continue;
        };
        let mask = free.mask(block);
        if mask & bits != 0 || !want.suits(free, block, bits) {
            continue;
        }
        let time = wait(unit);
        if let Some((_, sooner)) = whole
            && time > sooner + patience
        {
            break;
        }
        if mask != 0 || free.units_per_block() == 1 {
            return Some((unit, time));
        }
        whole = whole.or(Some((unit, time)));
    }
    whole
}

/// Looking for a hole goes no further.
const HOLES_CYLINDERS: u32 = 64;

/// The soonest free place of all, sweeping inwards from the head's cylinder.
pub(super) fn nearest(
    free: &FreeSpace,
    head: &HeadPosition,
    want: Want,
    avoid: Avoid,
) -> Option<u64> {
    let heads = head.drive.geometry.heads();
    let cylinders = (free.regions().len() as u32).div_ceil(heads);
    let looked_at = match want {
        Want::Hole { .. } => cylinders.min(HOLES_CYLINDERS),
        _ => cylinders,
    };
    let mut best: Option<(u64, u64)> = None;
    for step in 0..looked_at {
        let here = head.track.cylinder.min(cylinders - 1);
        let cylinder = (here + step) % cylinders;
        let distance = cylinder.abs_diff(head.track.cylinder);
        // Further on, the arm alone takes longer than the best found.
        if let Some((time, _)) = best
            && (cylinder < here || head.drive.seek.seek_ns(distance) >= time)
        {
            break;
        }
        let tracks = cylinder * heads..((cylinder + 1) * heads).min(free.regions().len() as u32);
        for region in tracks {
            let empty = free.empty_regions().contains(&region);
            if Some(region) == avoid.region
                || free.is_full(region as usize)
                || (want == Want::Block && free.free_blocks_in(region as usize) == 0)
                || matches!(want, Want::Hole { units, .. } if free.holes_in(region as usize) < units)
                || (avoid.empty && empty)
            {
                continue;
            }
            if let Some((unit, time)) = on_track(free, head, region as usize, want)
                && best.is_none_or(|(soonest, _)| time < soonest)
            {
                best = Some((time, unit));
            }
        }
    }
    best.map(|(_, unit)| unit)
}
