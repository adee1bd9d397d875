//! Every policy compared with a bitmap in random operations; the seed is printed first.

use super::mix::Draws;
use super::*;
use std::collections::BTreeMap;

const UNITS: u64 = 5000;

type Make = fn(u64) -> Box<dyn Allocator>;

fn policies() -> [(&'static str, Make); 11] {
    fn restricted(units: u64, grow: u64, region: Option<u64>) -> Box<dyn Allocator> {
        let map = Restricted::new(units, &[1, 8, 64, 512], Grow(grow), region);
        Box::new(map.unwrap())
    }
    fn groups(units: u64, clusters: bool) -> Box<dyn Allocator> {
        let shape = Shape {
            units,
            block: 8,
            group: 1000,
            head: 0,
        };
        let placement = Placement {
            maxcontig: 7,
            rotdelay: u64::from(clusters),
            clusters,
            scarce: 30,
        };
        Box::new(CylinderGroups::new(shape, placement))
    }
    [
        ("FFS", |units| groups(units, false)),
        ("FFS, clusters", |units| groups(units, true)),
        ("fixed", |units| {
            Box::new(Fixed::new(units, 4, Order::InOrder))
        }),
        ("fixed, aged", |units| {
            Box::new(Fixed::new(units, 16, Order::Aged { seed: 3 }))
        }),
        ("first fit", |units| {
            Box::new(Extents::new(units, Fit::First, &[8, 100]))
        }),
        ("best fit", |units| {
            Box::new(Extents::new(units, Fit::Best, &[8, 100]))
        }),
        ("buddy", |units| Box::new(Buddy::new(units))),
        ("restricted", |units| restricted(units, 1, None)),
        ("restricted, slow", |units| restricted(units, 2, None)),
        ("clustered", |units| restricted(units, 1, Some(1024))),
        ("blocks of three", |units| {
            let map = Restricted::new(units, &[3, 15], Grow(2), Some(60));
            Box::new(map.unwrap())
        }),
    ]
}

/// The model, which is obviously right: a flag for each unit.
struct Bitmap(Vec<bool>);

impl Bitmap {
    fn set(&mut self, extent: Extent, taken: bool) {
        for unit in extent.start..extent.end() {
            let was = std::mem::replace(&mut self.0[unit as usize], taken);
            assert_ne!(was, taken, "unit {unit} of {extent:?}");
        }
    }

    fn check(&self, map: &dyn Allocator) {
        let free = self.0.iter().filter(|taken| !**taken).count() as u64;
        assert_eq!(map.free_units(), free);
        let mut counted = 0;
        for run in map.free_runs() {
            counted += run.units;
            assert!((run.start..run.end()).all(|unit| !self.0[unit as usize]));
        }
        assert_eq!(counted, free);
    }
}

#[derive(Default)]
struct File {
    view: FileView,
    extents: Vec<Extent>,
}

impl File {
    fn refresh(&mut self) {
        self.view.held = self.extents.iter().map(|e| e.units).sum();
        self.view.end = self.extents.last().map(|e| e.end());
    }

    /// Releases all but the first `keep` units.
    fn cut(&mut self, keep: u64, map: &mut dyn Allocator, bitmap: &mut Bitmap) {
        while self.view.held > keep {
            let mut last = self.extents.pop().unwrap();
            let excess = (self.view.held - keep).min(last.units);
            last.units -= excess;
            let tail = Extent {
                start: last.end(),
                units: excess,
            };
            map.release(tail).unwrap();
            bitmap.set(tail, false);
            if last.units > 0 {
                self.extents.push(last);
            }
            self.refresh();
        }
    }
}

#[test]
fn random_files_agree_with_a_bitmap() {
    let seed = 0xa110c;
    eprintln!("seed {seed:#x}");
    for (name, make) in policies() {
        let mut map = make(UNITS);
        let fresh = map.free_runs();
        let mut bitmap = Bitmap(vec![false; map.capacity() as usize]);
        let mut files: BTreeMap<u64, File> = BTreeMap::new();
        let mut draws = Draws::new(seed);
        let (mut refused, mut extended) = (0, 0);
        for step in 0..6000 {
            let number = draws.below(40);
            let file = files.entry(number).or_default();
            file.view.number = number;
            file.view.home = number * 100;
            match draws.below(8) {
                0 => file.cut(0, &mut *map, &mut bitmap),
                1 | 2 => {
                    let keep = map.rounded(&file.view, draws.below(file.view.held + 1));
                    file.cut(keep, &mut *map, &mut bitmap);
                }
                3 if step % 7 == 0 => {
                    // A unit that belongs to no file any more is released at once.
                    let before = map.free_runs();
                    let piece = map.piece(file.view.home);
                    assert_eq!(piece.is_some(), !before.is_empty(), "{name}");
                    if let Some(piece) = piece {
                        bitmap.set(piece, true);
                        bitmap.check(&*map);
                        bitmap.set(piece, false);
                        map.release(piece).unwrap();
                    }
                    assert_eq!(map.free_runs(), before, "{name}");
                }
                _ => {
                    let units = 1 + draws.below(if step % 5 == 0 { 600 } else { 20 });
                    let before = (map.free_runs(), map.free_units());
                    let fits = map.fits(&file.view, units);
                    assert_eq!((map.free_runs(), map.free_units()), before, "{name}");
                    let mut out = Vec::new();
                    let done = map.extend(&file.view, units, &mut out);
                    assert_eq!(done.is_ok(), fits, "{name}");
                    assert!(fits || out.is_empty());
                    let got: u64 = out.iter().map(|e| e.units).sum();
                    assert!(!fits || got >= units);
                    out.iter().for_each(|extent| bitmap.set(*extent, true));
                    file.extents.extend(out);
                    file.refresh();
                    refused += u32::from(!fits);
                    extended += u32::from(fits);
                }
            }
            if step % 50 == 0 {
                bitmap.check(&*map);
            }
        }
        assert!(
            refused > 20 && extended > 1000,
            "{name}: {refused} {extended}"
        );
        rebuilt(name, &*map, make, &files);
        for mut file in files.into_values() {
            file.cut(0, &mut *map, &mut bitmap);
        }
        assert_eq!(map.free_runs(), fresh, "{name}: coalesced");
    }
}

/// A map rebuilt from the extents of all files agrees with the one that allocated them.
fn rebuilt(name: &str, map: &dyn Allocator, make: Make, files: &BTreeMap<u64, File>) {
    let mut again = make(UNITS);
    for extent in files.values().flat_map(|file| &file.extents) {
        again.occupy(*extent).unwrap();
        assert!(!again.is_free(*extent));
        assert_eq!(again.occupy(*extent), Err(MapError::Taken(*extent)));
    }
    assert_eq!(again.free_runs(), map.free_runs(), "{name}");
    for run in map.free_runs() {
        assert!(again.is_free(run));
        assert_eq!(again.release(run), Err(MapError::Free(run)), "{name}");
    }
}

#[test]
fn a_file_that_grew_in_steps_holds_what_rounded_says() {
    let mut draws = Draws::new(9);
    for (name, make) in policies() {
        for _ in 0..50 {
            let mut map = make(UNITS);
            let mut view = FileView {
                number: draws.below(1000),
                ..FileView::default()
            };
            let mut used = 0;
            let mut out = Vec::new();
            for _ in 0..10 {
                used += 1 + draws.below(30);
                if used > view.held {
                    out.clear();
                    map.extend(&view, used - view.held, &mut out).unwrap();
                    view = view.with(&out);
                }
                assert_eq!(view.held, map.rounded(&view, used), "{name}");
            }
        }
    }
}

#[test]
fn wrong_extents_are_refused_and_change_nothing() {
    for (name, make) in policies() {
        let mut map = make(UNITS);
        let before = map.free_runs();
        let capacity = map.capacity();
        for (start, units) in [(0, 0), (capacity, 48), (capacity - 48, 96), (u64::MAX, 48)] {
            let extent = Extent { start, units };
            let outside = Err(MapError::Outside { extent, capacity });
            assert!(!map.is_free(extent), "{name}");
            assert_eq!(map.occupy(extent), outside, "{name}");
            assert_eq!(map.release(extent), outside, "{name}");
        }
        let half = Extent {
            start: 240,
            units: 240,
        };
        map.occupy(half).unwrap();
        let both = Extent {
            start: 0,
            units: 480,
        };
        assert_eq!(map.occupy(both), Err(MapError::Taken(both)), "{name}");
        assert_eq!(map.release(both), Err(MapError::Free(both)), "{name}");
        map.release(half).unwrap();
        assert_eq!(map.free_runs(), before, "{name}");
        let mut out = Vec::new();
        for units in [capacity + 1, u64::MAX] {
            let refused = map.extend(&FileView::default(), units, &mut out);
            assert!(refused.is_err() && out.is_empty(), "{name}");
        }
        assert_eq!(map.free_runs(), before, "{name}");
    }
}

#[test]
fn a_volume_without_room_for_a_block_has_none() {
    for (name, make) in policies() {
        let mut map = make(0);
        assert_eq!((map.capacity(), map.free_units()), (0, 0), "{name}");
        assert!(!map.fits(&FileView::default(), 1), "{name}");
    }
}

/// Several extents are taken from a run at once; the choice must be the same as if they
/// were taken one by one.
#[test]
fn extents_taken_together_are_those_taken_one_by_one() {
    for fit in [Fit::First, Fit::Best] {
        let mut draws = Draws::new(4);
        let mut together = Extents::new(UNITS, fit, &[12]);
        let mut apart = Extents::new(UNITS, fit, &[12]);
        for start in (0..UNITS / 50).map(|nth| nth * 50) {
            let units = 1 + draws.below(40);
            let hole = Extent { start, units };
            together.occupy(hole).unwrap();
            apart.occupy(hole).unwrap();
        }
        for number in 0..60 {
            let file = FileView {
                number,
                ..FileView::default()
            };
            let each = together.extent_units(&file);
            let count = 1 + draws.below(6);
            let (mut at_once, mut singly) = (Vec::new(), Vec::new());
            let fits = together.extend(&file, each * count, &mut at_once).is_ok();
            for _ in 0..count {
                let _ = apart.extend(&file, each, &mut singly);
            }
            if !fits {
                return;
            }
            let units = |extents: &[Extent]| -> Vec<u64> {
                extents.iter().flat_map(|e| e.start..e.end()).collect()
            };
            assert_eq!(units(&at_once), units(&singly), "{fit:?}");
        }
    }
}
