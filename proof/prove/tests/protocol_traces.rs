//! The shortest traces that find a missing rule of the log protocol, on the toy and on
//! the log. They are defined in `traces.rs`.

use std::time::Duration;
use varve_prove::explorer::{Explorer, Plan};
use varve_prove::mounted::Subject;
use varve_prove::random::{announce_seed, scale};
use varve_prove::subjects::Toy;
use varve_prove::traces::{self, Trace};

fn hold_on(subject: &impl Subject, trace: &Trace) {
    let seed = announce_seed(trace.name, 1);
    let explorer = Explorer::new(subject);
    let plan = trace.plan(seed);
    // Fewer states get a second crash, if the trace does not need one.
    let nested_one_in = match trace.second_life {
        Some(_) => plan.nested_one_in,
        None => (plan.nested_one_in as f64 / scale()) as u64,
    };
    let plan = Plan {
        nested_one_in,
        patience: Duration::from_secs(30),
        ..plan
    };
    if let Err(failure) = trace.explore(&explorer, &plan) {
        panic!("{failure}");
    }
    eprintln!("{:?}", explorer.counts());
}

fn hold(name: &str) {
    let mut held = 0;
    for trace in traces::all().iter().filter(|trace| trace.name == name) {
        // The toy log reuses no segment, and reads everything that it ever wrote at each
        // mount.
        if !trace.reuses_segments() {
            hold_on(&Toy::default(), trace);
        }
        hold_on(&trace.log(), trace);
        held += 1;
    }
    assert!(held > 0, "no trace {name}");
}

macro_rules! traces {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                hold(stringify!($name));
            }
        )*

        #[test]
        fn every_trace_has_a_test() {
            let tests = [$(stringify!($name)),*];
            assert!(traces::all().iter().all(|trace| tests.contains(&trace.name)));
        }
    };
}

traces! {
    missing_rule_1_last_partial
    missing_rule_1_payload_checksum
    missing_rule_2_fsync_seals_the_epoch
    missing_rule_3_one_order
    missing_rule_4_logged_size
    missing_rule_5_truncate_record
    missing_rule_5_freed_record
    missing_rule_6_rename_carries_data
    missing_rule_6_one_group
    missing_rule_7_committed_pointers
    missing_rule_7_what_is_dirty_kills_nothing
    missing_rule_7_frees_once_logged
    missing_rule_8_place_of_the_next_partial
    missing_rule_9_predecessor_and_incarnation
    missing_rule_10_where_recovery_resumes
    missing_rule_10_a_durable_partial_without_the_rest
    missing_rule_11_only_what_is_flushed
    missing_rule_12_flush_before_the_first_write
    missing_rule_13_boundary
    missing_rule_14_flush_before_record
    missing_rule_16_orphans
    missing_rule_18_check_at_append
    missing_rule_18_a_claim_and_what_happens_next
    missing_rule_19_a_claim_and_a_checkpoint
    missing_rule_20_reuse_waits
    missing_rule_20_either_checkpoint
}
