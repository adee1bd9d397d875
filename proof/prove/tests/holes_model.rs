//! Explores the abstract model of the rules for writing into holes.

use varve_prove::holes::{Limits, Missing, explore};

fn limits(steps: u32, crashes: u32, pending: usize, plugged: bool) -> Limits {
    Limits {
        steps,
        crashes,
        pending,
        plugged,
    }
}

#[test]
fn with_every_rule_nothing_is_lost_and_nothing_returns() {
    let two_lives = [limits(4, 2, 4, false), limits(4, 2, 3, true)];
    let longer = [limits(5, 1, 3, false), limits(5, 1, 3, true)];
    let mut images = 0;
    for limits in [two_lives, longer].concat() {
        let explored = explore(limits, None);
        println!(
            "{limits:?}: {} states, {} images",
            explored.states, explored.images
        );
        assert_eq!(explored.broken, None, "{limits:?}");
        images += explored.images;
    }
    assert!(images > 500_000, "{images}");
}

#[test]
fn each_rule_is_missed_when_it_is_left_out() {
    for missing in Missing::ALL {
        let lives = [(3, 4), (4, 3), (5, 3)];
        let mut all = lives.iter().flat_map(|(steps, pending)| {
            [false, true].map(|plugged| limits(*steps, 1, *pending, plugged))
        });
        let story = all.find_map(|limits| explore(limits, Some(missing)).broken);
        let story = story.unwrap_or_else(|| panic!("nobody misses {missing:?}"));
        println!("without {missing:?}: {story}");
    }
}
