//! Power cuts at every write of a log with several heads.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;
use varve_device::MemoryDevice;
use varve_fsck::inspect::Inspector;
use varve_prove::explorer::{Counts, Explorer};
use varve_prove::leftover;
use varve_prove::lost;
use varve_prove::model::Model;
use varve_prove::mounted::Subject;
use varve_prove::operation::story;
use varve_prove::random::{announce_seed, scaled};
use varve_prove::runner::{Runner, new_clock};
use varve_prove::variants::Variant;

fn explore(variant: &Variant, workloads: u64) -> Counts {
    let start = Instant::now();
    let explorer = Explorer::new(&variant.subject);
    for index in 0..workloads {
        if let Err(failure) = variant.explore(&explorer, index) {
            panic!("workload {index}\n{failure}");
        }
    }
    let counts = explorer.counts();
    let rate = counts.states as f64 / start.elapsed().as_secs_f64();
    eprintln!("{counts:?}, {rate:.0} states/s");
    counts
}

#[test]
fn the_log_with_heads() {
    let seed = announce_seed("the_log_with_heads", 1);
    let counts = explore(&Variant::with_heads(seed), scaled(6));
    assert!(counts.states > 300);
}

#[test]
fn the_log_with_heads_under_cleaning() {
    let seed = announce_seed("the_log_with_heads_under_cleaning", 1);
    let counts = explore(&Variant::with_heads_under_cleaning(seed), scaled(2));
    assert!(counts.states > 200);
}

#[test]
fn virtual_segments_and_flushes_between_their_parts() {
    let seed = announce_seed("virtual_segments_and_flushes_between_their_parts", 1);
    let counts = explore(&Variant::with_heads_and_flushes_between(seed), scaled(5));
    assert!(counts.states > 300);
}

#[test]
fn another_number_of_heads_in_each_life() {
    let seed = announce_seed("another_number_of_heads_in_each_life", 1);
    let counts = explore(&Variant::with_changing_heads(seed), scaled(2));
    assert!(counts.states > 200);
}

#[test]
fn a_durable_partial_that_is_lost_is_reported_whichever_head_it_is_in() {
    for (name, variant) in [
        ("one head", Variant::plain(1)),
        ("several", Variant::with_heads(1)),
    ] {
        let (tried, unreported) = lost::unreported(&variant.subject);
        assert!(tried >= 4, "{name}: {tried}");
        assert_eq!(unreported, [0; 0], "{name}: of {tried}");
    }
}

/// The remains of a torn partial segment do not become valid again, at any head.
#[test]
fn leftovers_of_any_head_are_cleared() {
    let (tried, returned) = leftover::returned(&Variant::with_heads(1).subject, 512);
    assert!(tried > 20, "{tried}");
    assert_eq!(returned, 0, "of {tried}");
}

/// Checks the premise of the other tests: groups of these volumes are spread over several
/// heads.
#[test]
fn groups_are_parted_between_heads() {
    let Variant { subject, .. } = Variant::with_heads(1);
    let device = Arc::new(MemoryDevice::new(subject.device_bytes()));
    let clock = new_clock();
    subject
        .format(device.clone(), clock.clone())
        .expect("format");
    let mounted = subject
        .mount(device.clone(), clock.clone(), 1)
        .expect("mount");
    let mut runner = Runner::new(mounted, clock, Model::new(4096));
    let text = "create a; write a 0+98304 #1; sync; \
                write a 0+49152 #2; write a 98304+49152 #3; sync";
    for operation in story(text) {
        runner.perform(&operation).expect("performed");
    }
    let inspector = Inspector::open(device, new_clock()).expect("a volume");
    let mut groups = Vec::new();
    let mut heads = BTreeSet::new();
    let mut partials: Vec<_> = (0..inspector.geometry().segment_count)
        .filter_map(|segment| inspector.contents(segment, true).ok())
        .flat_map(|contents| contents.partials)
        .collect();
    partials.sort_by_key(|partial| partial.serial);
    for partial in partials {
        assert_eq!(partial.problem, None);
        heads.insert(partial.head);
        if partial.flags.contains(&"last") {
            groups.push(std::mem::take(&mut heads));
        }
    }
    assert!(groups.iter().any(|heads| heads.len() > 1), "{groups:?}");
    assert!(groups.iter().any(|heads| heads.len() == 1), "{groups:?}");
}
