//! Explores the abstract model of the rules for several heads.

use varve_prove::heads::{Limits, Missing, explore};

/// Two lives and two heads, with every rule on or one rule left out.
const SHORT: Limits = Limits {
    steps: 5,
    crashes: 1,
    heads: 2,
    pending: 2,
};

#[test]
fn with_every_rule_nothing_is_lost_and_nothing_returns() {
    let longer = Limits {
        steps: 6,
        crashes: 2,
        ..SHORT
    };
    let wider = Limits { heads: 3, ..SHORT };
    for limits in [longer, wider] {
        let explored = explore(limits, None);
        println!(
            "{limits:?}: {} states, {} images",
            explored.states, explored.images
        );
        assert_eq!(explored.broken, None, "{limits:?}");
        assert!(explored.images > 50_000, "{explored:?}");
    }
}

#[test]
fn each_rule_is_missed_when_it_is_left_out() {
    for missing in Missing::ALL {
        let explored = explore(SHORT, Some(missing));
        let story = explored
            .broken
            .unwrap_or_else(|| panic!("nobody misses {missing:?}"));
        println!("without {missing:?}: {story}");
    }
}
