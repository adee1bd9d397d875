//! The shortest stories that detect a missing rule of the log protocol, each explored at
//! every power cut. The rules' numbers are those of the protocol's table; file 0 is `a`,
//! 1 is `b`, 2 is `c`. Rules 15 and 17 have no story: the offline check and replay verify
//! them.
//!
//! A write-back whose first partial another thread flushed is not an operation of its
//! own: the explorer keeps every subset of the unflushed writes, including the first
//! partial alone. If the log must know that it is durable, [`crate::between`] flushes it.
//! Groups are long enough to have several partials if a story needs them.

use crate::explorer::{Explorer, Plan};
use crate::failure::{Failure, Promise};
use crate::mounted::Subject;
use crate::operation::{Operation, story};
use crate::subjects::Log;
use varve_device::Event;

/// A range long enough for a group of several partials.
const LONG: &str = "0+204800";

/// Bytes between two nodes in [`either_checkpoint`], a segment and a half.
const A_BYTES: usize = 192 << 10;
/// Number of writes of `c` in [`either_checkpoint`] until the log is about to reach the
/// segments between the nodes. The planted bug is found with 9 to 12.
const AROUND: usize = 11;
/// A story, and the settings of its exploration.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The rule without which it fails.
    pub name: &'static str,
    /// The operations.
    pub story: String,
    /// Operations after every crash, which crash everywhere as well.
    pub second_life: Option<&'static str>,
    /// Number of successive crashes.
    pub depth: u32,
    /// Bytes of the device.
    pub device_bytes: u64,
    /// True to check fewer states at each stop, for long stories.
    pub quick: bool,
    /// True to flush between the partials of a group.
    pub flush_between: bool,
    /// True to check every state from the older checkpoint as well, and not to use it
    /// further; only the newest of the unflushed writes may be missing.
    pub from_older: bool,
}

fn trace(name: &'static str, story: &str) -> Trace {
    Trace {
        name,
        story: story.replace("LONG", LONG),
        second_life: None,
        depth: 2,
        device_bytes: Log::default().device_bytes,
        quick: false,
        flush_between: false,
        from_older: false,
    }
}

/// Rule 20: the log next reuses blocks that the older checkpoint needs, after the newest
/// one has found their segment empty.
///
/// The files `d`…`h` have a block at their beginning and one so far behind it that there
/// is an index node. Their second blocks, nodes and inodes are in segments of their own,
/// and those of `a` between them. After `a` is removed these are clean, and `c` is
/// written until the log is about to reach them. Then all the second blocks are replaced:
/// one checkpoint finds the segments of the old ones empty, and `c` is written at once. A
/// mount from the checkpoint before needs the old inodes and nodes to find the first
/// blocks.
fn either_checkpoint() -> String {
    let files = ["d", "e", "f", "g", "h"];
    let each = |step: &dyn Fn(usize, &str) -> String| -> String {
        let steps = files.iter().enumerate();
        steps.map(|(at, file)| step(at, file)).collect()
    };
    let lap = |from: usize, count: usize, then: &str| -> String {
        let write = |at| format!("write c 0+262144 #{at}; fsync c; {then}");
        (from..from + count).map(write).collect()
    };
    let first = each(&|_, file| format!("create {file}; write {file} 0+4096 #1;"));
    let apart = each(&|at, file| {
        let offset = at * A_BYTES;
        format!(
            "write a {offset}+{A_BYTES} #2; write {file} 65536+4096 #2; sync; layout-checkpoint;"
        )
    });
    let replace = each(&|_, file| format!("write {file} 65536+4096 #3;"));
    let around = lap(10, AROUND, "layout-checkpoint;");
    let on = lap(40, 3, "");
    format!(
        "{first} create a; create c; sync; layout-checkpoint; {apart}
         unlink a; sync; layout-checkpoint; {around} {replace} sync; layout-checkpoint; {on}"
    )
}

/// Returns every trace.
pub fn all() -> Vec<Trace> {
    [groups(), recovery(), cleaning()].concat()
}

/// Returns rounds in which a small volume reuses its segments.
fn reuse() -> String {
    let round = "write a LONG #1; fsync a; write b LONG #2; fsync b; unlink b; clean; create b;
        write a 4096+8192 #3; fsync a; clean; layout-checkpoint; clean;";
    format!("create a; create b; {}", round.repeat(8))
}

/// Returns the traces of rules 1 to 7: the content of a group.
fn groups() -> Vec<Trace> {
    vec![
        trace(
            "missing_rule_1_last_partial",
            "create a; create c; write c LONG #1; rename c a; write-back",
        ),
        trace(
            "missing_rule_1_payload_checksum",
            "create c; write c LONG #1; write-back",
        ),
        trace("missing_rule_2_fsync_seals_the_epoch", "create b; fsync b"),
        trace(
            "missing_rule_3_one_order",
            "create c; create b; rename c a; write b 4096+4096 #1; rename b a; truncate a 0;
             create b; truncate a 8192; fsync b; create c; rename c a; write a 0+4096 #2",
        ),
        trace(
            "missing_rule_4_logged_size",
            "create c; create b; write b 0+4096 #1; write b 4096+4096 #2; truncate b 4096;
             write-back; write b 4096+40960 #3; chmod b 600; fsync c",
        ),
        trace(
            "missing_rule_5_truncate_record",
            "create c; write c 0+4096 #1; fsync c; truncate c 0; write c 4096+4096 #2; fsync c",
        ),
        trace(
            "missing_rule_5_freed_record",
            "create a; create b; sync; unlink a; fsync b",
        ),
        trace(
            "missing_rule_5_freed_record",
            "create a; create b; unlink a; fsync b",
        ),
        trace(
            "missing_rule_6_rename_carries_data",
            "create b; create a; create c; write b 4096+4096 #1; rename b a; fsync c",
        ),
        trace(
            "missing_rule_6_one_group",
            "create c; create a; write a LONG #1; rename a c; write-back",
        ),
        trace(
            "missing_rule_7_committed_pointers",
            "create b; write b 0+4096 #1; fsync b; write b 0+4096 #2; layout-checkpoint; clean;
             layout-checkpoint; clean; layout-checkpoint",
        ),
        trace(
            "missing_rule_7_what_is_dirty_kills_nothing",
            "create b; write b 0+4096 #1; fsync b; create c; write b 0+4096 #2; chmod b 600;
             fsync c",
        ),
        trace(
            "missing_rule_7_frees_once_logged",
            "create c; write c 0+4096 #1; write-back; unlink c; layout-checkpoint; clean;
             layout-checkpoint",
        ),
    ]
}

/// Returns the traces of rules 8 to 16: the continuation of the log, and the partials
/// that recovery accepts.
fn recovery() -> Vec<Trace> {
    let partly = "create b; write b 4096+40960 #1; write-back";
    vec![
        Trace {
            quick: true,
            ..trace(
                "missing_rule_8_place_of_the_next_partial",
                "create c; write c 4096+4096 #1; fsync c; write c LONG #2; fsync c;
                 write c LONG #3; fsync c; write c LONG #4; fsync c; write c LONG #5; fsync c",
            )
        },
        Trace {
            second_life: Some("create b; fsync b"),
            depth: 3,
            ..trace(
                "missing_rule_9_predecessor_and_incarnation",
                "create a; write-back; mkdir c; write-back",
            )
        },
        Trace {
            second_life: Some(""),
            depth: 3,
            ..trace("missing_rule_10_where_recovery_resumes", partly)
        },
        Trace {
            second_life: Some("create c; sync"),
            depth: 3,
            ..trace("missing_rule_10_where_recovery_resumes", partly)
        },
        Trace {
            // If segments are not adjacent, a group needs several requests.
            flush_between: true,
            device_bytes: 3584 << 10,
            quick: true,
            ..trace(
                "missing_rule_10_a_durable_partial_without_the_rest",
                &reuse().replace("; fsync b;", "; write-back; mkdir d; write-back; rmdir d;"),
            )
        },
        Trace {
            second_life: Some("create c; fsync c"),
            ..trace(
                "missing_rule_11_only_what_is_flushed",
                "create b; write b 4096+4096 #1; write-back; create a; write-back",
            )
        },
        Trace {
            second_life: Some(""),
            ..trace(
                "missing_rule_12_flush_before_the_first_write",
                "create a; layout-checkpoint; create b; write-back; kill; create c; write-back;
                 kill; kill; mkdir d; layout-checkpoint; kill; fsync c",
            )
        },
        Trace {
            quick: true,
            ..trace(
                "missing_rule_13_boundary",
                "create c; write c LONG #1; write-back; layout-checkpoint; write c LONG #2;
                 create a; write-back; layout-checkpoint",
            )
        },
        trace(
            "missing_rule_14_flush_before_record",
            "create a; layout-checkpoint; create b; layout-checkpoint; unlink a; checkpoint;
             layout-checkpoint",
        ),
        Trace {
            second_life: Some("create c; write c 0+8192 #3; fsync c"),
            ..trace(
                "missing_rule_16_orphans",
                "create b; write b 0+8192 #1; fsync b; open b @1; unlink b; write-back;
                 layout-checkpoint; write @1 0+4096 #2; fsync @1",
            )
        },
    ]
}

/// Returns the traces of rules 18 to 20: moves, and the reuse of segments.
fn cleaning() -> Vec<Trace> {
    vec![
        Trace {
            quick: true,
            ..trace(
                "missing_rule_18_check_at_append",
                "create a; write a LONG #1; create b; write b LONG #2; checkpoint;
                 write a 0+4096 #3; fsync a; unlink b; clean; fsync a; clean; layout-checkpoint;
                 clean; create c; fsync c",
            )
        },
        trace(
            "missing_rule_18_a_claim_and_what_happens_next",
            "create a; write a LONG #1; create b; write b 0+4096 #2; checkpoint; claim;
             write a 0+8192 #3; unlink b; fsync a; move; fsync a; layout-checkpoint",
        ),
        trace(
            "missing_rule_19_a_claim_and_a_checkpoint",
            "create a; write a LONG #1; create b; write b 0+4096 #2; checkpoint; claim;
             write a 0+8192 #3; unlink b; fsync a; layout-checkpoint; move; create c; fsync c;
             layout-checkpoint; drop-caches; read a 0+8192",
        ),
        Trace {
            // The device is so small that segments are reused.
            device_bytes: 3584 << 10,
            quick: true,
            ..trace("missing_rule_20_reuse_waits", &reuse())
        },
        Trace {
            device_bytes: 5 << 20,
            from_older: true,
            depth: 1,
            ..trace("missing_rule_20_either_checkpoint", &either_checkpoint())
        },
    ]
}

impl Trace {
    /// Returns the plan of the exploration.
    pub fn plan(&self, seed: u64) -> Plan {
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
        if self.from_older {
            plan = plan.from_older();
        }
        Plan {
            second_life,
            depth: self.depth,
            may_be_full: true,
            ..plan
        }
    }

    /// Explores it with `explorer`, whose subject has at least [`Trace::device_bytes`].
    /// If it has exactly these, and they are few, the log must wrap.
    ///
    /// # Errors
    /// The shortest failing story found.
    pub fn explore(
        &self,
        explorer: &Explorer<'_, impl Subject>,
        plan: &Plan,
    ) -> Result<(), Failure> {
        explorer.explore_story(&self.story, plan)?;
        let device_bytes = explorer.device_bytes();
        if device_bytes == self.device_bytes && self.reuses_segments() {
            let written = written(&explorer.trace(&story(&self.story), plan)?);
            if written <= device_bytes {
                let text = format!("only {written} bytes were written: nothing was reused");
                return Err(Failure::new(Promise::Bounds, text));
            }
        }
        Ok(())
    }

    /// Returns true if the device is so small that the log wraps.
    pub fn reuses_segments(&self) -> bool {
        self.device_bytes < Log::default().device_bytes
    }

    /// Returns the log on a device of the trace's size.
    pub fn log(&self) -> Log {
        Log {
            device_bytes: self.device_bytes,
            flush_between: self.flush_between,
            ..Log::default()
        }
    }
}

/// Returns the total number of bytes written.
fn written(trace: &[Event]) -> u64 {
    let lengths = trace.iter().map(|event| match event {
        Event::Write { data, .. } => data.len() as u64,
        _ => 0,
    });
    lengths.sum()
}
