//! The shortest traces that catch a missing rule of the log protocol, each
//! explored at every power cut. The rules' numbers are those of the table in
//! the protocol's description; file 0 is `a`, 1 is `b`, 2 is `c`.
//!
//! A write-back whose first partial somebody else flushed is not an operation
//! of its own: the explorer keeps every subset of the unflushed writes, and
//! with it the first partial alone. Groups are made long enough to have
//! several partials where a trace needs them.

use std::time::Duration;
use varve_device::Event;
use varve_prove::explorer::{Explorer, Plan};
use varve_prove::mounted::Subject;
use varve_prove::operation::{Operation, story};
use varve_prove::random::announce_seed;
use varve_prove::subjects::{Log, Toy};

/// Long enough for a group of several partials.
const LONG: &str = "0+204800";

struct Trace {
    name: &'static str,
    story: String,
    second_life: Option<&'static str>,
    depth: u32,
    device_bytes: u64,
    quick: bool,
}

fn trace(name: &'static str, story: &str) -> Trace {
    let story = story.replace("LONG", LONG);
    Trace {
        name,
        story,
        second_life: None,
        depth: 2,
        device_bytes: Log::default().device_bytes,
        quick: false,
    }
}

impl Trace {
    /// After every crash, this is done, and crashed everywhere.
    fn then(self, second_life: &'static str) -> Self {
        Trace {
            second_life: Some(second_life),
            ..self
        }
    }

    fn depth(self, depth: u32) -> Self {
        Trace { depth, ..self }
    }

    /// On a device so small that segments are reused.
    fn on_little(self) -> Self {
        Trace {
            device_bytes: 3584 << 10,
            ..self
        }
    }

    /// With fewer states at each stop: for long stories.
    fn quickly(self) -> Self {
        Trace {
            quick: true,
            ..self
        }
    }

    fn hold(self) {
        self.hold_on(&Toy::default());
        self.hold_on(&Log {
            device_bytes: self.device_bytes,
            ..Log::default()
        });
    }

    fn hold_on(&self, subject: &impl Subject) {
        let seed = announce_seed(self.name, 1);
        let second_life: Option<Vec<Operation>> = self.second_life.map(story);
        let mut plan = Plan {
            nested_one_in: if second_life.is_some() { 2 } else { 20 },
            ..Plan::thorough(seed)
        };
        if self.quick {
            plan = Plan {
                units: vec![4096],
                ..Plan::quick(seed)
            };
        }
        plan = Plan {
            second_life,
            depth: self.depth,
            may_be_full: true,
            patience: Duration::from_secs(30),
            ..plan
        };
        let explorer = Explorer::new(subject);
        if let Err(failure) = explorer.explore_story(&self.story, &plan) {
            panic!("{failure}");
        }
        eprintln!("{:?}", explorer.counts());
        if self.device_bytes < Log::default().device_bytes {
            let written = explorer
                .trace(&story(&self.story), &plan)
                .map(|trace| written(&trace));
            let written = written.unwrap_or_default();
            assert!(
                written > self.device_bytes,
                "only {written} bytes: nothing was reused"
            );
        }
    }
}

/// Bytes written in all.
fn written(trace: &[Event]) -> u64 {
    let lengths = trace.iter().map(|event| match event {
        Event::Write { data, .. } => data.len() as u64,
        _ => 0,
    });
    lengths.sum()
}

#[test]
fn missing_rule_1_last_partial() {
    let text = "create a; create c; write c LONG #1; rename c a; write-back";
    trace("missing_rule_1_last_partial", text).hold();
}

#[test]
fn missing_rule_1_payload_checksum() {
    let text = "create c; write c LONG #1; write-back";
    trace("missing_rule_1_payload_checksum", text).hold();
}

#[test]
fn missing_rule_2_fsync_seals_the_epoch() {
    trace("missing_rule_2_fsync_seals_the_epoch", "create b; fsync b").hold();
}

#[test]
fn missing_rule_3_one_order() {
    let text = "create c; create b; rename c a; write b 4096+4096 #1; rename b a; truncate a 0;
        create b; truncate a 8192; fsync b; create c; rename c a; write a 0+4096 #2";
    trace("missing_rule_3_one_order", text).hold();
}

#[test]
fn missing_rule_4_logged_size() {
    let text = "create c; create b; write b 0+4096 #1; write b 4096+4096 #2; truncate b 4096;
        write-back; write b 4096+40960 #3; chmod b 600; fsync c";
    trace("missing_rule_4_logged_size", text).hold();
}

#[test]
fn missing_rule_5_truncate_record() {
    let text = "create c; write c 0+4096 #1; fsync c; truncate c 0; write c 4096+4096 #2; fsync c";
    trace("missing_rule_5_truncate_record", text).hold();
}

#[test]
fn missing_rule_5_freed_record() {
    let text = "create a; create b; sync; unlink a; fsync b";
    trace("missing_rule_5_freed_record", text).hold();
    trace(
        "missing_rule_5_freed_record",
        "create a; create b; unlink a; fsync b",
    )
    .hold();
}

#[test]
fn missing_rule_6_rename_carries_data() {
    let text = "create b; create a; create c; write b 4096+4096 #1; rename b a; fsync c";
    trace("missing_rule_6_rename_carries_data", text).hold();
}

#[test]
fn missing_rule_6_one_group() {
    let text = "create c; create a; write a LONG #1; rename a c; write-back";
    trace("missing_rule_6_one_group", text).hold();
}

#[test]
fn missing_rule_7_committed_pointers() {
    let text = "create b; write b 0+4096 #1; fsync b; write b 0+4096 #2; layout-checkpoint; clean;
        layout-checkpoint; clean; layout-checkpoint";
    trace("missing_rule_7_committed_pointers", text).hold();
}

#[test]
fn missing_rule_7_frees_once_logged() {
    let text = "create c; write c 0+4096 #1; write-back; unlink c; layout-checkpoint; clean;
        layout-checkpoint";
    trace("missing_rule_7_frees_once_logged", text).hold();
}

#[test]
fn missing_rule_8_place_of_the_next_partial() {
    let text = "create c; write c 4096+4096 #1; fsync c; write c LONG #2; fsync c;
        write c LONG #3; fsync c; write c LONG #4; fsync c; write c LONG #5; fsync c";
    trace("missing_rule_8_place_of_the_next_partial", text)
        .quickly()
        .hold();
}

#[test]
fn missing_rule_9_predecessor_and_incarnation() {
    let first = "create a; write-back; mkdir c; write-back";
    let second = "create b; fsync b";
    trace("missing_rule_9_predecessor_and_incarnation", first)
        .then(second)
        .depth(3)
        .hold();
}

#[test]
fn missing_rule_10_where_recovery_resumes() {
    let first = "create b; write b 4096+40960 #1; write-back";
    trace("missing_rule_10_where_recovery_resumes", first)
        .then("")
        .depth(3)
        .hold();
    trace("missing_rule_10_where_recovery_resumes", first)
        .then("create c; sync")
        .depth(3)
        .hold();
}

#[test]
fn missing_rule_11_only_what_is_flushed() {
    let first = "create b; write b 4096+4096 #1; write-back; create a; write-back";
    trace("missing_rule_11_only_what_is_flushed", first)
        .then("create c; fsync c")
        .hold();
}

#[test]
fn missing_rule_12_flush_before_the_first_write() {
    let text = "create a; layout-checkpoint; create b; write-back; kill; create c; write-back;
        kill; kill; mkdir d; layout-checkpoint; kill; fsync c";
    trace("missing_rule_12_flush_before_the_first_write", text)
        .then("")
        .hold();
}

#[test]
fn missing_rule_13_boundary() {
    let text = "create c; write c LONG #1; write-back; layout-checkpoint; write c LONG #2;
        create a; write-back; layout-checkpoint";
    trace("missing_rule_13_boundary", text).quickly().hold();
}

#[test]
fn missing_rule_14_flush_before_record() {
    let text = "create a; layout-checkpoint; create b; layout-checkpoint; unlink a; checkpoint;
        layout-checkpoint";
    trace("missing_rule_14_flush_before_record", text).hold();
}

#[test]
fn missing_rule_16_orphans() {
    let first = "create b; write b 0+8192 #1; fsync b; open b @1; unlink b; write-back;
        layout-checkpoint; write @1 0+4096 #2; fsync @1";
    trace("missing_rule_16_orphans", first)
        .then("create c; write c 0+8192 #3; fsync c")
        .hold();
}

#[test]
fn missing_rule_18_check_at_append() {
    let text =
        "create a; write a LONG #1; create b; write b LONG #2; checkpoint; write a 0+4096 #3;
        fsync a; unlink b; clean; fsync a; clean; layout-checkpoint; clean; create c; fsync c";
    trace("missing_rule_18_check_at_append", text)
        .quickly()
        .hold();
}

#[test]
fn missing_rule_20_reuse_waits() {
    let round = "write a LONG #1; fsync a; write b LONG #2; fsync b; unlink b; clean; create b;
        write a 4096+8192 #3; fsync a; clean; layout-checkpoint; clean;";
    let text = format!("create a; create b; {}", round.repeat(8));
    let trace = trace("missing_rule_20_reuse_waits", &text).on_little();
    trace.quickly().hold();
}
