//! The choice of holes compared with a search of all, and the limits of the search.

use super::*;

fn times(bench: &Bench, among: Among<'_>, units: u32) -> Vec<(u64, u64)> {
    let here = bench.head.track.cylinder;
    let all = 0..bench.head.drive.geometry.total_sectors();
    let hole = |unit: &u64| {
        let ahead = bench.head.drive.geometry.locate(*unit).0.id.cylinder >= here;
        let Some((block, bits)) = bench.free.part(*unit, units) else {
            return false;
        };
        let mask = bench.free.mask(block);
        ahead && among(block) && mask != 0 && mask & bits == 0
    };
    let with_time = |unit| (unit, bench.time_to(unit));
    all.filter(hole).map(with_time).collect()
}

#[test]
fn a_hole_comes_as_soon_as_any_or_is_in_a_fuller_block_just_behind_it() {
    let mut fuller = 0;
    for (seed, units) in [(1, 1), (2, 3), (3, 5), (4, 1)] {
        let mut bench = Bench::new(seed, 6);
        for block in 0..(bench.head.drive.geometry.total_sectors() / 8) as u32 {
            let units = bench.draw(512).min(255) as u8;
            bench.free.take(block, units);
        }
        let among: Among<'_> = &|block| block % 3 > 0;
        for _ in 0..40 {
            bench.head.track = TrackId {
                cylinder: bench.draw(3) as u32,
                head: bench.draw(16) as u32,
            };
            bench.head.platter_ns += bench.draw(6_000_000);
            let holes = times(&bench, among, units);
            let soonest = holes.iter().map(|&(_, time)| time).min().unwrap();
            let mut eager = Eager::new(GREEDY);
            let want = Want::of(units, UNITS);
            let chosen = eager.choose_hole(&bench.free, Some(&bench.head), want, among);
            let chosen = chosen.expect("there are some");
            let (_, time) = *holes.iter().find(|&&(unit, _)| unit == chosen).unwrap();
            let patience = bench.head.drive.rotation.revolution_ns() / 32;
            assert!(time <= soonest + patience, "{time} ns, {soonest}");
            let used = |unit: u64| bench.free.mask((unit / 8) as u32).count_ones();
            let first = holes.iter().find(|&&(_, time)| time == soonest).unwrap().0;
            assert!(used(chosen) >= used(first));
            fuller += u32::from(used(chosen) > used(first));
        }
    }
    assert!(fuller > 5, "{fuller} of 160 were in fuller blocks");
}

#[test]
fn a_drive_without_holes_near_by_has_none() {
    let mut bench = Bench::new(5, 80);
    let blocks = (bench.head.drive.geometry.total_sectors() / 8) as u32;
    let choose = |bench: &Bench| {
        let head = Some(&bench.head);
        Eager::new(GREEDY).choose_hole(&bench.free, head, Want::Unit, &|_| true)
    };
    bench.head.track.cylinder = 0;
    assert_eq!(choose(&bench), None);
    bench.free.take(blocks - 1, 1);
    assert_eq!(choose(&bench), None, "79 cylinders away");
    bench.head.track.cylinder = 30;
    assert_eq!(
        choose(&bench).map(|unit| unit / 8),
        Some(blocks.into()).map(|end: u64| end - 1)
    );
}

#[test]
fn without_a_head_the_fullest_of_the_next_holes_is_taken_round_and_round() {
    let mut free = FreeSpace::new(Regions::even(64_000, 64), 8, 1);
    let mut eager = Eager::new(Policy::default());
    let all: Among<'_> = &|_| true;
    assert_eq!(eager.choose_hole(&free, None, Want::Unit, all), None);
    free.take(10, 0b1);
    free.take(20, 0b1111_0111);
    free.take(30, 0b111);
    assert_eq!(eager.choose_hole(&free, None, Want::Unit, all), Some(163));
    assert_eq!(
        eager.choose_hole(&free, None, Want::Part(2), all),
        Some(243)
    );
    let others: Among<'_> = &|block| block != 30;
    assert_eq!(
        eager.choose_hole(&free, None, Want::Part(2), others),
        Some(81)
    );
    assert_eq!(
        eager.choose_hole(&free, None, Want::Part(6), others),
        Some(81)
    );
    free.take(10, 0xfe);
    free.take(20, 0b1000);
    free.take(30, 0xf8);
    // There are a thousand regions: the search continues where the last one ended.
    free.take(63_999, 0b1);
    let mut tries = 0;
    while eager.choose_hole(&free, None, Want::Unit, all).is_none() {
        tries += 1;
    }
    assert_eq!(tries, 3);
    assert_eq!(
        eager.choose_hole(&free, None, Want::Unit, all),
        Some(8 * 63_999 + 1)
    );
}
