//! Tests of the harness: each planted bug must be found. Otherwise a passing run means
//! nothing.

use varve_prove::explorer::{Explorer, Plan};
use varve_prove::operation::story;
use varve_prove::random::announce_seed;
use varve_prove::subjects::Toy;
use varve_prove::toy::Bug;

/// Stories for bugs that random workloads do not find soon, each with the operations
/// after the crash.
const STORIES: [(&str, &str); 3] = [
    (
        "create a; write-back; mkdir c; write-back",
        "create b; fsync b",
    ),
    (
        "create c; write c 0+8192 #1; fsync c; truncate c 0; write c 4096+4096 #2; fsync c",
        "",
    ),
    (
        "create b; sync; mkdir c; write b 0+12288 #1; write-back",
        "mkdir d; write b 0+12288 #1; write-back",
    ),
];

#[test]
fn every_planted_bug_is_caught() {
    let seed = announce_seed("every_planted_bug_is_caught", 1);
    let plan = Plan {
        patience: std::time::Duration::from_secs(2),
        nested_one_in: 16,
        ..Plan::quick(seed)
    };
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        let subject = Toy::with(bug);
        let explorer = Explorer::new(&subject);
        let told = |round: u64| {
            STORIES.iter().find_map(|(first, second)| {
                let plan = Plan {
                    second_life: Some(story(second)),
                    nested_one_in: 1,
                    seed: seed + round,
                    ..plan.clone()
                };
                explorer.explore_story(first, &plan).err()
            })
        };
        let caught = (0..120)
            .find_map(|index| explorer.explore_generated(index, 30, &plan).err())
            .or_else(|| (0..40).find_map(told));
        match caught {
            Some(failure) => eprintln!("--- {bug:?}\n{failure}"),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
