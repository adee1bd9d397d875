//! The lock table under a model checker: two or three owners on a few objects, under
//! schedules that a host would produce once in years. Conflicting locks are a failure,
//! and so are a lost wake-up and a deadlock that is not found.
//!
//! ```sh
//! cargo test --release -p varve-locks --features shuttle --test schedules
//! ```

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::sync::Arc;
use std::time::Duration;
use varve_device::Clock;
use varve_device::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use varve_device::sync::thread::{self, JoinHandle};
use varve_locks::LockError::{self, *};
use varve_locks::Mode::{self, *};
use varve_locks::{Detection, LockTable, LockTableOptions, OwnerId};

/// Number of schedules of each story.
const SCHEDULES: usize = 2_000;
/// Maximum number of steps of one schedule: more are an endless loop.
const STEPS_MAX: usize = 100_000;

fn explore(test: &str, story: impl Fn() + Clone + Send + Sync + 'static) {
    let seed = std::env::var("VARVE_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    eprintln!(
        "reproduce: VARVE_SEED={seed} cargo test -p varve-locks --features shuttle \
         --test schedules {test}"
    );
    let half = SCHEDULES / 2;
    run_with(PctScheduler::new_from_seed(seed, 4, half), story.clone());
    run_with(RandomScheduler::new_from_seed(seed, half), story);
}

fn run_with(scheduler: impl Scheduler + 'static, story: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.failure_persistence = FailurePersistence::None; // the seed reproduces the schedule
    config.silence_warnings = true; // about weaker orderings: all are one here
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    Runner::new(scheduler, config).run(story);
}

/// A clock that advances by a microsecond at each reading.
#[derive(Debug, Default)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now_ns(&self) -> i64 {
        self.monotonic_ns() as i64
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.fetch_add(1_000, SeqCst)
    }
}

/// A table, and the threads at work on each of its objects, as recorded by themselves.
struct Stage {
    table: LockTable<usize>,
    /// Number of readers, or minus one for a writer.
    at_work: [AtomicI64; 2],
}

impl Stage {
    fn new(detection: Detection) -> Arc<Stage> {
        // One shard, because the hashes of keys do not depend on the seed.
        let options = LockTableOptions {
            detection,
            shards: 1,
        };
        Arc::new(Stage {
            table: LockTable::with_options(Arc::<Ticking>::default(), options),
            at_work: Default::default(),
        })
    }

    fn begin<const N: usize>(&self) -> [OwnerId; N] {
        std::array::from_fn(|_| self.table.begin(None))
    }

    /// Works on an object that is locked for it. Other threads get a chance to
    /// interfere.
    fn work(&self, object: usize, mode: Mode) {
        let at_work = &self.at_work[object];
        if mode == Write {
            assert_eq!(at_work.swap(-1, SeqCst), 0, "a writer is not alone");
            assert_eq!(at_work.swap(0, SeqCst), -1, "a writer is not alone");
        } else {
            assert!(
                at_work.fetch_add(1, SeqCst) >= 0,
                "a reader beside a writer"
            );
            assert!(at_work.fetch_sub(1, SeqCst) > 0, "a reader beside a writer");
        }
    }

    fn locked(&self, owner: OwnerId, object: usize, mode: Mode) -> Result<(), LockError> {
        self.table.lock(owner, &object, mode, None)?;
        self.work(object, mode);
        Ok(())
    }

    fn nothing_is_left(&self) {
        let now = self.table.statistics();
        assert_eq!((now.objects, now.owners, now.waiting), (0, 0, 0), "{now:?}");
    }
}

fn spawn<T: Send + 'static>(
    stage: &Arc<Stage>,
    work: impl FnOnce(&Stage) -> T + Send + 'static,
) -> JoinHandle<T> {
    let stage = Arc::clone(stage);
    thread::spawn(move || work(&stage))
}

fn join<T>(handle: JoinHandle<T>) -> T {
    handle.join().expect("no panic")
}

#[test]
fn three_owners_take_turns() {
    explore("three_owners", || {
        let stage = Stage::new(Detection::AtWait);
        let modes = [Write, Read, Write].into_iter();
        let owners: Vec<_> = modes
            .map(|mode| {
                spawn(&stage, move |stage| {
                    let owner = stage.table.begin(None);
                    assert_eq!(stage.locked(owner, 0, mode), Ok(()));
                    stage.table.end(owner);
                })
            })
            .collect();
        owners.into_iter().for_each(join);
        stage.nothing_is_left();
    });
}

/// Both owners read and both upgrade: at most one is aborted, and the other continues.
#[test]
fn readers_upgrade() {
    explore("readers_upgrade", || {
        let stage = Stage::new(Detection::AtWait);
        let upgrade = |stage: &Stage| {
            let [owner] = stage.begin();
            assert_eq!(stage.locked(owner, 0, Read), Ok(()));
            let result = stage.locked(owner, 0, Write);
            stage.table.end(owner);
            result
        };
        let both = [(); 2].map(|()| spawn(&stage, upgrade)).map(join);
        assert!(both.contains(&Ok(())), "{both:?}");
        let refused = both.iter().filter(|result| result.is_err()).count() as u64;
        assert_eq!(stage.table.statistics().deadlocks, refused);
        stage.nothing_is_left();
    });
}

/// All owners intend to write what they read, on a page of a file, and one more owner
/// only reads: no request is aborted, and no update is lost.
#[test]
fn updaters_take_turns_beside_a_reader() {
    explore("updaters_take_turns", || {
        let stage = Stage::new(Detection::AtWait);
        let count = Arc::new(AtomicU64::new(0));
        let (file, page) = (0, 1);
        let mut all: Vec<_> = (0..2)
            .map(|_| {
                let count = Arc::clone(&count);
                spawn(&stage, move |stage| {
                    let [owner] = stage.begin();
                    assert_eq!(stage.table.lock(owner, &file, IntentionWrite, None), Ok(()));
                    assert_eq!(stage.locked(owner, page, Update), Ok(()));
                    let seen = count.load(SeqCst);
                    assert_eq!(stage.locked(owner, page, Write), Ok(()));
                    assert_eq!(count.swap(seen + 1, SeqCst), seen, "a lost update");
                    stage.table.end(owner);
                })
            })
            .collect();
        let reader = spawn(&stage, move |stage| {
            let [owner] = stage.begin();
            assert_eq!(stage.table.lock(owner, &file, IntentionRead, None), Ok(()));
            assert_eq!(stage.locked(owner, page, Read), Ok(()));
            stage.table.end(owner);
        });
        all.push(reader);
        all.into_iter().for_each(join);
        assert_eq!(count.load(SeqCst), 2);
        assert_eq!(stage.table.statistics().deadlocks, 0);
        stage.nothing_is_left();
    });
}

/// Three owners form a cycle on three objects, with spans of two objects.
#[test]
fn a_circle_of_three_is_broken_by_whoever_closes_it() {
    explore("a_circle_of_three", || {
        let stage = Stage::new(Detection::AtWait);
        let both: Vec<_> = (0..3)
            .map(|n| {
                spawn(&stage, move |stage| {
                    let [owner] = stage.begin();
                    let lock = |at: u32| {
                        let span = at % 3..at % 3 + 1;
                        stage.table.lock_span(owner, &0, span, Write, None)
                    };
                    assert_eq!(lock(n), Ok(()));
                    let result = lock(n + 1);
                    stage.table.end(owner);
                    result
                })
            })
            .collect();
        let results: Vec<_> = both.into_iter().map(join).collect();
        let refused = results.iter().filter(|result| **result == Err(Deadlock));
        assert!(refused.count() <= 1, "{results:?}");
        stage.nothing_is_left();
    });
}

/// A thread searches for deadlocks again and again, until all owners have ended.
#[test]
fn detect_ends_what_nobody_looks_for() {
    explore("detect_ends", || {
        let stage = Stage::new(Detection::OnCall);
        let both = [0, 1].map(|first| {
            spawn(&stage, move |stage| {
                let [owner] = stage.begin();
                assert_eq!(stage.locked(owner, first, Write), Ok(()));
                let result = stage.locked(owner, 1 - first, Write);
                stage.table.end(owner);
                result.is_err()
            })
        });
        let detect = spawn(&stage, |stage| {
            let mut victims = 0;
            while stage.table.statistics().granted < 3 {
                victims += stage.table.detect().len();
                thread::yield_now();
            }
            victims
        });
        let refused = both.map(join).iter().filter(|refused| **refused).count();
        assert_eq!(join(detect), refused);
        assert!(refused <= 1);
        stage.nothing_is_left();
    });
}

#[test]
fn a_cancel_meets_a_wait_at_any_moment() {
    explore("a_cancel", || {
        let stage = Stage::new(Detection::AtWait);
        let [holder, waiter, third] = stage.begin();
        assert!(stage.table.try_lock(holder, &0, Write));
        let waiting = spawn(&stage, move |stage| stage.locked(waiter, 0, Write));
        let behind = spawn(&stage, move |stage| {
            let result = stage.locked(third, 0, Write);
            stage.table.end(third);
            result
        });
        let cancel = spawn(&stage, move |stage| stage.table.cancel(waiter));
        stage.table.end(holder);
        join(cancel);
        let result = join(waiting);
        assert!(matches!(result, Ok(()) | Err(Cancelled)));
        let held = stage.table.held(waiter).len();
        assert_eq!(held, usize::from(result.is_ok()));
        stage.table.end(waiter);
        assert_eq!(join(behind), Ok(()));
        stage.nothing_is_left();
    });
}

/// The holder stays, so only the cancel and its consequences can end these requests.
#[test]
fn a_cancel_ends_a_wait_and_lets_those_behind_it_in() {
    explore("a_cancel_ends", || {
        let stage = Stage::new(Detection::AtWait);
        let [holder, waiter, third] = stage.begin();
        assert!(stage.table.try_lock(holder, &0, Read));
        let waiting = spawn(&stage, move |stage| stage.locked(waiter, 0, Write));
        let behind = spawn(&stage, move |stage| stage.locked(third, 0, Read));
        let cancel = spawn(&stage, move |stage| stage.table.cancel(waiter));
        assert_eq!(join(waiting), Err(Cancelled));
        assert_eq!(join(behind), Ok(()));
        join(cancel);
        for owner in [holder, waiter, third] {
            stage.table.end(owner);
        }
        stage.nothing_is_left();
    });
}

#[test]
fn an_end_meets_a_grant_at_any_moment() {
    explore("an_end", || {
        let stage = Stage::new(Detection::AtWait);
        let [holder, waiter] = stage.begin();
        assert!(stage.table.try_lock(holder, &0, Write));
        let waiting = spawn(&stage, move |stage| {
            _ = stage.table.lock(waiter, &0, Read, None);
        });
        let ending = spawn(&stage, move |stage| stage.table.end(waiter));
        stage.table.end(holder);
        join(waiting);
        join(ending);
        stage.nothing_is_left();
    });
}

#[test]
fn a_time_out_meets_a_grant_at_any_moment() {
    explore("a_time_out", || {
        let stage = Stage::new(Detection::AtWait);
        let [holder, waiter, behind] = stage.begin();
        assert!(stage.table.try_lock(holder, &0, Read));
        let waiting = spawn(&stage, move |stage| {
            let patience = Some(Duration::from_micros(8));
            let result = stage.table.lock(waiter, &0, Write, patience);
            assert!(matches!(result, Ok(()) | Err(Timeout)));
            assert_eq!(stage.table.held(waiter).len(), usize::from(result.is_ok()));
            stage.table.end(waiter);
        });
        let reader = spawn(&stage, move |stage| {
            assert_eq!(stage.locked(behind, 0, Read), Ok(()));
            stage.table.end(behind);
        });
        stage.table.end(holder);
        join(waiting);
        join(reader);
        stage.nothing_is_left();
    });
}

/// Two children of one parent and an unrelated owner lock two objects in opposite
/// order.
#[test]
fn children_commit_into_their_parent() {
    explore("children_commit", || {
        let stage = Stage::new(Detection::AtWait);
        let [parent, stranger] = stage.begin();
        let children = [0, 1].map(|first| {
            let child = stage.table.begin(Some(parent));
            spawn(&stage, move |stage| {
                let both = [first, 1 - first];
                let all = both
                    .iter()
                    .all(|at| stage.locked(child, *at, Write).is_ok());
                if all {
                    stage.table.hand_to_parent(child);
                }
                stage.table.end(child);
                all
            })
        });
        let other = spawn(&stage, move |stage| {
            let result = stage.locked(stranger, 0, Write);
            stage.table.end(stranger);
            result
        });
        let committed = children.map(join);
        let held = stage.table.held(parent).len();
        assert_eq!(held, if committed.contains(&true) { 2 } else { 0 });
        stage.table.end(parent);
        _ = join(other);
        stage.nothing_is_left();
    });
}
