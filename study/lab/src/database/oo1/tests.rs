//! The same database in vectors.

use super::*;
use std::sync::Arc;
use varve_tp::Options;
use varve_tp::storage::MemoryStorage;

/// Parts, and connections by their numbers.
#[derive(Default)]
struct Naive {
    parts: Vec<Part>,
    connections: Vec<(u32, u32)>,
}

impl Naive {
    fn add(&mut self, from: u32, to: u32, random: &mut Random) {
        for id in from..to {
            self.parts.push(Part::draw(id, random));
            for _ in 0..CONNECTIONS {
                self.connections.push((id, target(id, to, random)));
            }
        }
    }

    fn follow(&self, id: u32, way: Way, hops: u32, seen: &mut Vec<Part>) {
        seen.push(self.parts[id as usize]);
        if hops == 0 {
            return;
        }
        for &(from, to) in &self.connections {
            match way {
                Way::Forward if from == id => self.follow(to, way, hops - 1, seen),
                Way::Backward if to == id => self.follow(from, way, hops - 1, seen),
                _ => {}
            }
        }
    }
}

#[test]
fn programs_see_what_vectors_say() {
    let environment = Options::new()
        .background(false)
        .memory(64 << 10)
        .open_storage(Arc::new(MemoryStorage::new()))
        .unwrap();
    let seed = varve_prove::random::announce_seed("oo1", 1);
    let mut parts = Parts::load(&environment, 300, &mut Random::new(seed)).unwrap();
    let mut random = Random::new(seed);
    let mut naive = Naive::default();
    naive.add(0, 300, &mut random);
    for round in 0..2 {
        let draws = Random::new(seed + round);
        let mut seen = Vec::new();
        let work = parts.lookup(50, &mut draws.clone(), &mut |part| seen.push(part));
        assert_eq!(work.unwrap().retrieved, 50);
        let mut again = draws.clone();
        let wanted = (0..50).map(|_| naive.parts[parts.draw(&mut again) as usize]);
        assert!(seen.iter().copied().eq(wanted), "lookup");

        for way in [Way::Forward, Way::Backward] {
            let from = parts.draw(&mut again);
            let (mut seen, mut wanted) = (Vec::new(), Vec::new());
            parts
                .traverse(from, way, 4, &mut |part| seen.push(part))
                .unwrap();
            naive.follow(from, way, 4, &mut wanted);
            assert!(seen == wanted, "{way:?} from {from}");
            assert!(way == Way::Backward || seen.len() == 121, "3^5 / 2");
        }

        let before = parts.count();
        let work = parts.insert(20, &mut draws.clone()).unwrap();
        assert_eq!(work.inserted, 200);
        naive.add(before, before + 20, &mut draws.clone());
    }
    environment.verify().unwrap();
}

#[test]
fn nine_of_ten_connections_are_near() {
    let mut random = Random::new(7);
    let near = |&part: &u32| {
        let to = target(part, PARTS, &mut random);
        assert!(to < PARTS);
        part.abs_diff(to) <= PARTS / 100
    };
    let near = (0..PARTS).filter(near).count() as f64 / f64::from(PARTS);
    // One of ten may lead anywhere, and two of a hundred of those are near, too.
    assert!((0.89..0.92).contains(&near), "{near}");
}
