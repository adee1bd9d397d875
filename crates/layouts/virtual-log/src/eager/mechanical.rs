//! The nearest free place by time, on a drive whose head position is known.

use std::cmp::Reverse;

use varve_disk::{Access, TrackId};

use super::{Among, Avoid, Want};
use crate::free_space::FreeSpace;
use crate::medium::HeadPosition;

/// Number of cylinders in which holes are searched for.
const HOLE_CYLINDERS: usize = 64;

/// The criteria of a search.
#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    pub want: Want,
    pub avoid: Avoid,
    /// True for the choices of [`super::Eager::far_sighted`].
    pub far_sighted: bool,
    /// If set, only holes in these blocks are searched for.
    pub holes: Option<Among<'a>>,
}

/// Returns the region of the head's track: regions are tracks, in order.
pub(super) fn region_of(head: &HeadPosition) -> u32 {
    head.track.cylinder * head.drive.geometry.heads() + head.track.head
}

/// Returns the first unit of the soonest free place on a track, and the time until it
/// is under the head. For a block of a far-sighted chooser, the time is until a free
/// unit behind the block is under the head.
pub(super) fn on_track(
    free: &FreeSpace,
    head: &HeadPosition,
    region: usize,
    search: Search<'_>,
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
        // The units of a block that extends beyond the track's end count as at its end.
        let nth = unit * free.unit_sectors() - track.first_sector;
        let nth = nth.min(u64::from(track.sectors) - 1) as u32;
        arrival - head.platter_ns + head.drive.rotation_to(arrival, &track, nth)
    };
    let units = u64::from(free.units_per_block());
    let range = u64::from(blocks.start) * units..u64::from(blocks.end) * units;
    let under = first.div_ceil(free.unit_sectors());
    match search.want {
        Want::Block => {
            let next = (under.div_ceil(units) as u32).clamp(blocks.start, blocks.end);
            let mut order = (next..blocks.end).chain(blocks.start..next);
            let block = order.find(|&block| free.mask(block) == 0)?;
            let unit = u64::from(block) * units;
            let behind = (unit + units..range.end).chain(range.start..unit);
            let way_on = match search.far_sighted {
                // A later block is not sooner, because its own units are behind this
                // one.
                true => way_on(free, head, track.sectors, behind),
                false => 0,
            };
            Some((unit, wait(unit) + way_on))
        }
        Want::Anywhere => {
            let (under, wanted) = (under.clamp(range.start, range.end), units as u32);
            // A place across the first unit passes completely only a revolution later.
            let before = range.start..(under + units - 1).min(range.end);
            let unit = free.run_of(under..range.end, wanted);
            let unit = unit.or_else(|| free.run_of(before, wanted))?;
            Some((unit, wait(unit)))
        }
        Want::Unit | Want::Part(_) => {
            let under = under.clamp(range.start, range.end);
            let order = (under..range.end).chain(range.start..under);
            let length = search.want.units(free.units_per_block());
            match search.holes {
                Some(among) => {
                    let order = order.filter(|unit| among((unit / units) as u32));
                    fullest_hole(free, head, length, order, &wait)
                }
                None => nearest_part(free, head, length, order, &wait),
            }
        }
    }
}

/// Returns the time until a free unit of `units`, which pass under the head one after
/// the other; at most the time to another track of the cylinder.
fn way_on(
    free: &FreeSpace,
    head: &HeadPosition,
    track_sectors: u32,
    units: impl Iterator<Item = u64>,
) -> u64 {
    let unit_ns =
        head.drive.rotation.revolution_ns() * free.unit_sectors() / u64::from(track_sectors);
    let most = head.drive.head_switch_ns + head.drive.write_settle_ns;
    let used = |unit: &u64| {
        let (block, bit) = free.place(*unit);
        free.mask(block) & bit != 0
    };
    let near = units.take((most / unit_ns.max(1)) as usize + 1);
    (near.take_while(used).count() as u64 * unit_ns).min(most)
}

/// Returns the next `length` free units of a block that is partly used, or of a free
/// block if those are sooner by a thirty-second of a revolution. `order` is the order
/// in which units pass under the head.
fn nearest_part(
    free: &FreeSpace,
    head: &HeadPosition,
    length: u32,
    order: impl Iterator<Item = u64>,
    wait: &impl Fn(u64) -> u64,
) -> Option<(u64, u64)> {
    let patience = head.drive.rotation.revolution_ns() / 32;
    let mut whole: Option<(u64, u64)> = None;
    for unit in order {
        let Some((block, bits)) = free.part(unit, length) else {
            continue;
        };
        let mask = free.mask(block);
        if mask & bits != 0 {
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

/// Returns the next `length` free units of a block that is partly used. Of those that
/// pass at most a thirty-second of a revolution after the first, it returns the ones in
/// the block with the fewest other free units.
fn fullest_hole(
    free: &FreeSpace,
    head: &HeadPosition,
    length: u32,
    order: impl Iterator<Item = u64>,
    wait: &impl Fn(u64) -> u64,
) -> Option<(u64, u64)> {
    let patience = head.drive.rotation.revolution_ns() / 32;
    let holes = order.filter_map(|unit| {
        let (block, bits) = free.part(unit, length)?;
        let mask = free.mask(block);
        (mask != 0 && mask & bits == 0).then(|| (mask.count_ones(), unit, wait(unit)))
    });
    let mut holes = holes.peekable();
    let soonest = holes.peek()?.2;
    let near = holes.take_while(|&(.., time)| time <= soonest + patience);
    let fullest = near.min_by_key(|&(used, ..)| Reverse(used));
    // Tracks are compared by their first hole.
    fullest.map(|(_, unit, _)| (unit, soonest))
}

/// Returns the soonest free place, sweeping inwards from the head's cylinder. The sweep
/// starts over, at the first cylinder with a place, if there is no place ahead; with a
/// far-sighted chooser, also if that is sooner. Holes are searched for in a limited
/// number of cylinders.
pub(super) fn nearest(free: &FreeSpace, head: &HeadPosition, search: Search<'_>) -> Option<u64> {
    let Search {
        want,
        avoid,
        far_sighted,
        holes,
    } = search;
    let heads = head.drive.geometry.heads();
    let regions = free.regions().len() as u32;
    let cylinders = regions.div_ceil(heads);
    let here = head.track.cylinder.min(cylinders - 1);
    let units = want.units(free.units_per_block());
    let most = match holes {
        Some(_) => HOLE_CYLINDERS,
        None => usize::MAX,
    };
    let in_cylinder = |cylinder: u32| {
        let tracks = cylinder * heads..((cylinder + 1) * heads).min(regions);
        let open = tracks.filter(|region| {
            let none = free.is_full(*region as usize)
                || (want == Want::Block && free.free_blocks_in(*region as usize) == 0)
                || (holes.is_some() && free.hole_units_in(*region as usize) < units)
                || (avoid.empty && free.empty_regions().contains(region));
            Some(*region) != avoid.region && !none
        });
        let found = |region| on_track(free, head, region as usize, search);
        open.filter_map(found).min_by_key(|&(_, time)| time)
    };
    // The seek alone takes longer than the best place found.
    let too_far = |cylinder: u32, (_, time): (u64, u64)| {
        let distance = cylinder.abs_diff(head.track.cylinder);
        head.drive.seek.seek_ns(distance) >= time
    };
    let sooner = |best: Option<(u64, u64)>, found: Option<(u64, u64)>| {
        best.into_iter().chain(found).min_by_key(|&(_, time)| time)
    };
    let mut best: Option<(u64, u64)> = None;
    for cylinder in (here..cylinders).take(most) {
        if best.is_some_and(|best| too_far(cylinder, best)) {
            break;
        }
        best = sooner(best, in_cylinder(cylinder));
    }
    for cylinder in (0..here).take(most) {
        if best.is_some_and(|best| !far_sighted || too_far(cylinder, best)) {
            break;
        }
        let first = in_cylinder(cylinder);
        best = sooner(best, first);
        if first.is_some() {
            break;
        }
    }
    best.map(|(unit, _)| unit)
}
