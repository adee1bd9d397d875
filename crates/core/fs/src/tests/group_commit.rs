//! The thresholds of group commit: each does what it says, and what is acknowledged.

use super::harness::*;
use crate::{GroupCommit, MemoryOptions, Options, Position};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any of these tests takes.
const NEVER: Duration = Duration::from_secs(3600);

fn open(group_commit: GroupCommit) -> Arc<Fs> {
    let layout = Recorder::new(crate::MemoryLayout::new(MemoryOptions::default()));
    Fs::format(&layout, &*clock(), (0, 0)).unwrap();
    let clock = Arc::new(varve_device::HostClock::default());
    let options = Options {
        group_commit,
        ..Options::default()
    };
    Arc::new(Fs::mount(layout, clock, options).unwrap())
}

fn write(fs: &Arc<Fs>, name: &str, bytes: usize) -> Txn {
    let txn = begin(fs);
    txn.t_file(name, &pattern(bytes, 1));
    txn
}

fn durable(fs: &Fs, name: &str) -> bool {
    // What was committed, and nothing else.
    crash(fs, None).t_lookup(name).is_ok()
}

#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within a minute");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_commit_without_company_waits_for_the_interval() {
    let interval = Duration::from_millis(50);
    let fs = open(GroupCommit {
        interval,
        ..GroupCommit::default()
    });
    let ticket = write(&fs, "a", 10).commit_async().unwrap();
    let begun = Instant::now();
    ticket.wait().unwrap();
    assert!(begun.elapsed() >= interval);
    assert!(durable(&fs, "a"));
}

#[test]
fn without_an_interval_nobody_waits() {
    let fs = open(GroupCommit {
        commits: 100,
        bytes: u64::MAX,
        ..GroupCommit::default()
    });
    write(&fs, "a", 10).commit().unwrap();
    assert!(durable(&fs, "a"));
}

#[test]
fn so_many_commits_are_one_group_and_none_is_durable_before() {
    let fs = open(GroupCommit {
        interval: NEVER,
        commits: 4,
        ..GroupCommit::default()
    });
    let tickets: Vec<_> = ["a", "b", "c", "d"]
        .map(|name| write(&fs, name, 10).commit_async().unwrap())
        .into();
    let groups = fs.statistics().groups;
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        let mut tickets = tickets.into_iter();
        let mut wait = || {
            let ticket = tickets.next().unwrap();
            let done = &done;
            scope.spawn(move || {
                ticket.wait().unwrap();
                done.fetch_add(1, SeqCst);
            });
        };
        (0..3).for_each(|_| wait());
        thread::sleep(Duration::from_millis(30));
        assert_eq!(done.load(SeqCst), 0, "three do not make four");
        // A crash takes all of them back, and nobody was told otherwise.
        assert!(["a", "b", "c", "d"].iter().all(|name| !durable(&fs, name)));
        wait();
    });
    assert_eq!(done.load(SeqCst), 4);
    assert_eq!(fs.statistics().groups, groups + 1);
    assert!(["a", "b", "c", "d"].iter().all(|name| durable(&fs, name)));
}

#[test]
fn so_many_bytes_wait_for_nobody() {
    let fs = open(GroupCommit {
        interval: NEVER,
        bytes: 100_000,
        ..GroupCommit::default()
    });
    let small = write(&fs, "small", 10).commit_async().unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| small.wait());
        thread::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished());
        write(&fs, "large", 200_000).commit().unwrap();
        waits.join().unwrap().unwrap();
    });
    assert!(durable(&fs, "small") && durable(&fs, "large"));
}

#[test]
fn whom_another_capture_took_along_waits_no_longer() {
    let fs = open(GroupCommit {
        interval: NEVER,
        commits: 3,
        ..GroupCommit::default()
    });
    let other = fs.t_file("other", b"x");
    let one = write(&fs, "one", 10).commit_async().unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| one.wait());
        until("it waits", || fs.gathering.waiting() == 1);
        fs.t_fsync(other);
        waits.join().unwrap().unwrap();
        assert!(durable(&fs, "one"));
        // It has left its batch: three others make three.
        let two = write(&fs, "two", 10).commit_async().unwrap();
        let three = write(&fs, "three", 10).commit_async().unwrap();
        let [two, three] = [two, three].map(|ticket| scope.spawn(|| ticket.wait()));
        until("they wait", || fs.gathering.waiting() == 2);
        assert!(!durable(&fs, "two"));
        write(&fs, "four", 10).commit().unwrap();
        two.join().unwrap().unwrap();
        three.join().unwrap().unwrap();
    });
    assert!(
        ["two", "three", "four"]
            .iter()
            .all(|name| durable(&fs, name))
    );
}

#[test]
fn an_unmount_keeps_nobody_waiting() {
    let fs = open(GroupCommit {
        interval: NEVER,
        ..GroupCommit::default()
    });
    let ticket = write(&fs, "a", 10).commit_async().unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| ticket.wait());
        until("it waits", || fs.gathering.waiting() == 1);
        fs.unmount().unwrap();
        waits.join().unwrap().unwrap();
    });
    assert!(durable(&fs, "a"));
}

#[test]
fn commits_that_wait_are_whole_after_a_crash_or_gone() {
    let fs = open(GroupCommit {
        interval: NEVER,
        commits: 2,
        ..GroupCommit::default()
    });
    let before = fs.t_file("before", b"x");
    fs.t_fsync(before);
    let pair = |txn: &Txn| {
        txn.t_file("x", b"1");
        txn.t_file("y", &pattern(9000, 3));
    };
    let txn = begin(&fs);
    pair(&txn);
    let one = txn.commit_async().unwrap();
    let two = write(&fs, "z", 10).commit_async().unwrap();
    // Appended for a snapshot, and not flushed.
    drop(begin(&fs));
    let (durable, appended) = (fs.committed.load(SeqCst), fs.appended.load(SeqCst));
    assert!(durable < appended);
    for at in durable..=appended {
        let after = crash(&fs, Some(Position(at)));
        let (x, y) = (after.t_lookup("x").is_ok(), after.t_lookup("y").is_ok());
        assert_eq!(x, y, "group {at}");
        if y {
            assert_eq!(after.t_content("y"), pattern(9000, 3));
        }
    }
    thread::scope(|scope| {
        for ticket in [one, two] {
            scope.spawn(|| ticket.wait().unwrap());
        }
    });
    assert_eq!(crash(&fs, None).t_content("y"), pattern(9000, 3));
}
