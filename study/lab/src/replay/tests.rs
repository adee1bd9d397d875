//! A replay against N1's, and what must come out of extreme traces.

use super::*;
use crate::experiments;
use crate::simulator::{Age, Setup, Shape};
use std::path::PathBuf;

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tpcc-small.ascii");
    std::fs::write(&path, text).unwrap();
    (directory, path)
}

/// Updates of single blocks among so many, at random.
fn updates(blocks: u64, count: u64) -> String {
    let mut text = String::new();
    let mut x = 1u64;
    for at in 0..count {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text += &format!("{at} 0 {} 8 0\n", (x >> 33) % blocks * 8);
    }
    text
}

fn wanted(policies: &[&str], utilisations: &[f64]) -> Wanted {
    Wanted {
        policies: policies.iter().map(|name| (*name).to_owned()).collect(),
        utilisations: utilisations.to_vec(),
        synchronous: false,
        jobs: 2,
        seed: 1,
    }
}

fn found<'a>(findings: &'a Findings, layout: Layout, policy: Option<&str>) -> &'a Finding {
    let mut systems = findings.systems.iter();
    systems
        .find(|f| f.layout == layout && f.policy.as_deref() == policy)
        .unwrap()
}

#[test]
fn a_replay_counts_what_the_simulator_counts() {
    let (directory, path) = file(&updates(3000, 10_000));
    let source = Source::open(&path, None).unwrap();
    let findings = replay_for(&source, &wanted(&policies(), &[0.9]), 40_000).unwrap();
    let trace = crate::trace::load(directory.path(), "tpcc-small").unwrap();
    for name in policies() {
        let (policy, reordering) = policy(name).unwrap();
        let segment_blocks = segment_blocks(trace.live_max);
        let setup = Setup {
            shape: Shape::for_utilisation(trace.blocks, trace.live_max, segment_blocks, 0.9),
            live_max: trace.live_max,
            policy,
            batch: 1,
            buffer_blocks: Some(2 * segment_blocks as usize),
            reordering,
            age: Age::Youngest,
        };
        let passes = findings.passes;
        let counters = experiments::replay(setup, &trace, passes / 2, passes - passes / 2).counters;
        let finding = found(&findings, Layout::Log, Some(name));
        assert_eq!(finding.amplification, counters.amplification(), "{name}");
        assert_eq!(finding.in_all, counters.amplification_in_all(), "{name}");
    }
    let again = replay_for(&source, &wanted(&policies(), &[0.9]), 40_000).unwrap();
    assert_eq!(again.systems, findings.systems, "the same seed");
}

#[test]
fn what_suits_a_trace_is_said() {
    // Scattered updates with room to spare: the log.
    let (_directory, path) = file(&updates(10_000, 20_000));
    let source = Source::open(&path, None).unwrap();
    let findings = replay_for(&source, &wanted(&["greedy"], &[0.3]), 60_000).unwrap();
    let busy = |layout, policy| found(&findings, layout, policy).disk.total_ns();
    let (log, in_place) = (
        busy(Layout::Log, Some("greedy")),
        busy(Layout::InPlace, None),
    );
    assert!(log * 3 < in_place, "{log} {in_place}");
    let said = advice(&findings);
    let [said] = &said[..] else {
        panic!("{said:?}")
    };
    // Where nobody reads, the next free place is as good as the log's end.
    assert!(
        said.starts_with("At 30 % full, on a disk choose the "),
        "{said}"
    );
    assert!(
        said.contains("choose the log with its default cleaner"),
        "on flash: {said}"
    );
    // The same one by one on a volume that is nearly full: cleaning costs more
    // than going to the next free place.
    let all = Wanted {
        synchronous: true,
        ..wanted(&["greedy"], &[0.95])
    };
    let findings = replay_for(&source, &all, 60_000).unwrap();
    let busy = |layout, policy| found(&findings, layout, policy).disk.total_ns();
    let (eager, in_place) = (busy(Layout::VirtualLog, None), busy(Layout::InPlace, None));
    assert!(eager * 2 < in_place, "{eager} {in_place}");
    let amplification = found(&findings, Layout::Log, Some("greedy")).amplification;
    assert!(amplification > 3.0, "{amplification}");
    // Written once and read in order again and again: every block at its place.
    let mut text = String::new();
    for at in 0..3000 {
        text += &format!("{at} 0 {} 64 {}\n", at % 300 * 64, u8::from(at >= 300));
    }
    let (_directory, path) = file(&text);
    let source = Source::open(&path, None).unwrap();
    let findings = replay_for(&source, &wanted(&["greedy"], &[0.5]), 20_000).unwrap();
    let said = advice(&findings).remove(0);
    assert!(said.contains("on a disk choose update in place"), "{said}");
}

#[test]
fn one_block_and_one_byte_are_traces_too() {
    for text in ["0 0 0 1 0\n".to_owned(), updates(2, 50), updates(9, 3)] {
        let (_directory, path) = file(&text);
        let source = Source::open(&path, None).unwrap();
        let findings = replay_for(&source, &wanted(&policies(), &[0.05, 0.5, 0.99]), 1000).unwrap();
        assert_eq!(findings.systems.len(), 3 * (policies().len() + 2));
        assert_eq!(advice(&findings).len(), 3);
    }
}
