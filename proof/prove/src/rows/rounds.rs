//! One round of each row.

use super::RowReport;
use crate::applications;
use crate::bounded;
use crate::explorer::{Counts, Explorer, Plan, mix};
use crate::failure::{Failure, Promise};
use crate::faults::{Attack, Decay, REPORTED, SILENT, Tally};
use crate::full;
use crate::generator::{Generator, Profile};
use crate::images::{self, Mutants, Outcomes};
use crate::mounted::Subject;
use crate::operation::Operation;
use crate::random::Random;
use crate::reference::Course;
use crate::repair::learn_repair;
use crate::space::{self, Case, InPlaces, Logs, VirtualLogs, Volumes};
use crate::subjects::Log;
use crate::traces;
use crate::transactions::interleaved::Ran;
use crate::transactions::{crashes, full as full_volumes, interleaved};
use crate::variants::Variant;
use crate::virtual_log::VirtualLog;
use std::time::Duration;
use varve_device::FaultKind;
use varve_fs::Isolation;

/// Time for shrinking a failure.
const PATIENCE: Duration = Duration::from_secs(30);
const BLOCK_BYTES: u64 = 4096;

fn count(done: &mut RowReport, counts: Counts) {
    done.done += counts.states;
    done.detail("workloads", counts.workloads);
    done.detail("power cuts", counts.stops);
    done.detail("duplicates", counts.duplicates);
    done.detail("after a second crash", counts.nested_states);
    done.detail("used further", counts.afterwards);
}

/// Runs `explore` and counts its work, also on failure.
fn explored<S: Subject>(
    subject: &S,
    done: &mut RowReport,
    explore: impl FnOnce(&Explorer<'_, S>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let explorer = Explorer::new(subject);
    let outcome = explore(&explorer);
    count(done, explorer.counts());
    outcome
}

fn variant(
    mut variant: Variant,
    seed: u64,
    index: u64,
    done: &mut RowReport,
) -> Result<(), Failure> {
    variant.plan.seed = seed;
    variant.plan.patience = PATIENCE;
    explored(&variant.subject, done, |explorer| {
        variant.explore(explorer, index)
    })
}

/// Explores a random workload on each variant of the log in turn, on the plain one often.
pub fn crash_states(seed: u64, index: u64, done: &mut RowReport) -> Result<(), Failure> {
    let chosen = match index % 15 {
        1 => Variant::with_claims(seed),
        2 => Variant::with_flushes_between(seed),
        3 => Variant::under_cleaning(seed),
        4 => Variant::with_strangers(seed),
        5 => Variant::with_other_measures(seed),
        6 => Variant::in_strict_order(seed),
        7 => Variant::with_deep_indexes(seed),
        8 => Variant::under_sorted_cleaning(seed),
        9 => Variant::with_heads(seed),
        10 => Variant::with_heads_under_cleaning(seed),
        11 => Variant::with_heads_and_flushes_between(seed),
        12 => Variant::with_changing_heads(seed),
        13 => Variant::under_coalescing(seed),
        14 => Variant::growing(seed),
        _ => Variant::plain(seed),
    };
    variant(chosen, seed, index, done)
}

/// Explores one trace after the other, then all again with other subsets.
pub fn traces(seed: u64, index: u64, done: &mut RowReport) -> Result<(), Failure> {
    let all = traces::all();
    let trace = &all[(index % all.len() as u64) as usize];
    let plan = Plan {
        patience: PATIENCE,
        ..trace.plan(seed.wrapping_add(index / all.len() as u64))
    };
    explored(&trace.log(), done, |explorer| {
        trace.explore(explorer, &plan)
    })
}

/// Explores every single operation, then pairs in an order that follows from the seed.
pub fn bounded(seed: u64, index: u64, done: &mut RowReport) -> Result<(), Failure> {
    let (singles, pairs) = (bounded::count(1), bounded::count(2));
    let workload = match index.checked_sub(singles) {
        None => bounded::sequence(1, index),
        // A stride without a common factor visits every pair once.
        Some(nth) => bounded::sequence(2, (seed % pairs + nth * 7919) % pairs),
    };
    let plan = Plan {
        units: vec![4096],
        patience: PATIENCE,
        ..Plan::quick(seed)
    };
    explored(&Log::default(), done, |explorer| {
        explorer.explore(&workload, &plan)
    })
}

/// Explores short lives, one after the other, each interrupted.
pub fn nested(seed: u64, index: u64, done: &mut RowReport) -> Result<(), Failure> {
    let mut chosen = if index.is_multiple_of(2) {
        Variant::second_lives(seed)
    } else {
        Variant::plain(seed)
    };
    chosen.length = 12;
    (chosen.plan.nested_one_in, chosen.plan.depth) = (40, 3);
    variant(chosen, seed, index, done)
}

/// Explores a random workload on VLFS, of another kind each round.
pub fn virtual_log(seed: u64, index: u64, done: &mut RowReport) -> Result<(), Failure> {
    let plain = Plan {
        units: vec![4096],
        patience: PATIENCE,
        ..Plan::quick(seed)
    };
    let (subject, plan, length) = match index % 4 {
        1 => {
            let plan = VirtualLog::churn(seed);
            (
                VirtualLog::small(),
                Plan {
                    patience: PATIENCE,
                    ..plan
                },
                120,
            )
        }
        2 => {
            let plan = VirtualLog::in_sectors(plain);
            (VirtualLog::with_small_units(), plan, 40)
        }
        3 => {
            let plan = Plan {
                nested_one_in: 40,
                depth: 3,
                ..plain
            };
            (VirtualLog::default(), plan, 12)
        }
        _ => (VirtualLog::default(), plain, 40),
    };
    explored(&subject, done, |explorer| {
        explorer.explore_generated(index, length, &plan)
    })
}

fn workload(seed: u64, length: u64) -> Vec<Operation> {
    Generator::new(Plan::quick(seed).profile, Random::new(seed)).take(length)
}

/// Attacks a share of the requests of a workload; each seed starts at another one.
fn faults(kinds: &[FaultKind], seed: u64, index: u64, done: &mut RowReport) -> Result<(), Failure> {
    let subject = Log::default();
    let attack = Attack {
        subject: &subject,
        seed: mix(seed, index),
        block_bytes: BLOCK_BYTES,
    };
    // The requests of a workload are distributed over eight rounds.
    let operations = workload(mix(seed, index / 8), 40);
    let told = &mut |kind, tally: &Tally| done.fault_of_kind(kind, tally);
    attack.attack_everywhere(&operations, kinds, (index % 8, 8), told)
}

/// Injects faults that the device reports.
pub fn io_errors(seed: u64, index: u64, done: &mut RowReport) -> Result<(), Failure> {
    faults(&REPORTED, seed, index, done)
}

/// Injects faults that only checksums can detect.
pub fn silent_faults(seed: u64, index: u64, done: &mut RowReport) -> Result<(), Failure> {
    faults(&SILENT, seed, index, done)
}

/// Flips a hundred single bits of one volume.
pub fn bit_rot(seed: u64, index: u64, done: &mut RowReport) -> Result<(), Failure> {
    let seed = mix(seed, index);
    let subject = Log::default();
    let attack = Attack {
        subject: &subject,
        seed,
        block_bytes: BLOCK_BYTES,
    };
    let unmounted = index.is_multiple_of(2);
    let decay = Decay::new(attack, &workload(seed, 60), unmounted)?;
    let mut random = Random::new(seed);
    let name = if unmounted {
        "bit, unmounted"
    } else {
        "bit, dead"
    };
    for _ in 0..100 {
        let mut tally = Tally::default();
        let outcome = decay.flip(&mut random, &mut tally);
        done.fault(name, &tally);
        outcome?;
    }
    Ok(())
}

/// Tries two hundred mutants of one workload's images.
pub fn images(seed: u64, index: u64, done: &mut RowReport) -> Result<(), Failure> {
    let seed = mix(seed, index);
    let generator = Generator::new(Plan::quick(seed).profile, Random::new(seed));
    let subject = Log::default();
    let operations = images::workload(seed);
    let mut mutants = Mutants::new(
        &subject,
        Some(learn_repair),
        &operations,
        generator,
        BLOCK_BYTES,
    )?;
    let mut outcomes = Outcomes::default();
    let mut tried = (0..200).map(|number| mutants.try_one(seed, number, &mut outcomes));
    let outcome = tried.find(Result::is_err).unwrap_or(Ok(()));
    drop(tried);
    done.done += outcomes.mutants;
    done.detail("refused", outcomes.refused);
    done.detail("reported as damaged", outcomes.reported);
    done.detail("walked", outcomes.walked);
    done.detail("found by the check", outcomes.found_by_check);
    outcome
}

/// Runs five cycles, on a small volume and on a tiny one in turn.
pub fn enospc(seed: u64, index: u64, done: &mut RowReport) -> Result<(), Failure> {
    let device_bytes = [6 << 20, 3584 << 10][(index % 2) as usize];
    let subject = Log {
        device_bytes,
        ..Log::default()
    };
    full::cycles(&subject, mix(seed, index), 5)?;
    done.done += 5;
    Ok(())
}

/// Runs one case, on VLFS, on the log and on FFS in turn.
pub fn space(seed: u64, index: u64, done: &mut RowReport) -> Result<(), Failure> {
    let volumes: &dyn Volumes = match index % 3 {
        0 => &VirtualLogs,
        1 => &Logs,
        _ => &InPlaces,
    };
    done.detail("cases", 1);
    let report = space::run(&Case::nth(seed, index / 3), volumes)?;
    done.done += report.cycles;
    done.detail("removals", report.removed);
    done.detail("kills", report.kills);
    done.detail("remounts", report.remounts);
    Ok(())
}

/// Runs a thousand operations, of another kind each round.
pub fn model(seed: u64, index: u64, done: &mut RowReport) -> Result<(), Failure> {
    let (mut device_bytes, mut may_be_full) = (64 << 20, false);
    let mut profile = Profile::everything();
    match index % 4 {
        1 => profile = Profile::wide(),
        2 => (device_bytes, may_be_full) = (4 << 20, true),
        3 => {
            profile.file_blocks = 900;
            profile.kinds.extend(Profile::sparse().kinds);
        }
        _ => {}
    }
    let course = Course {
        may_be_full,
        patience: PATIENCE,
        ..Course::new(profile, 1000)
    };
    let subject = Log {
        device_bytes,
        ..Log::default()
    };
    course.run_on(mix(seed, index), &subject)?;
    done.done += course.operations;
    Ok(())
}

/// Runs a story of commits, with the power cut everywhere in it.
pub fn transactions(seed: u64, index: u64, done: &mut RowReport) -> Result<(), Failure> {
    let mut cut = crashes::Done::default();
    let outcome = crashes::explore(&crashes::Plan::quick(seed), index, &mut cut);
    count(done, cut.counts);
    done.detail("commits", cut.commits);
    done.detail("aborts", cut.aborts);
    outcome
}

/// Runs threads of transactions, of another kind each round.
pub fn histories(seed: u64, index: u64, done: &mut RowReport) -> Result<(), Failure> {
    let kinds = [
        (Isolation::Snapshot, false),
        (Isolation::Serializable, false),
        (Isolation::Locking, false),
        (Isolation::Locking, true),
    ];
    let (isolation, subpage) = kinds[(index % 4) as usize];
    let plan = interleaved::Plan {
        subpage,
        ..interleaved::Plan::quick(isolation, mix(seed, index))
    };
    let broken = |text| Failure::new(Promise::Contract, format!("{isolation:?}: {text}"));
    let Ran {
        judgement,
        conflicts,
        ..
    } = interleaved::run(&plan).map_err(broken)?;
    done.done += judgement.committed as u64;
    done.detail("given up", conflicts as u64);
    done.detail("dependencies", judgement.edges as u64);
    done.detail("write skew, where it is allowed", judgement.skews as u64);
    match judgement.found.first() {
        None => Ok(()),
        Some(found) => Err(broken(format!("{:?}: {}", found.anomaly, found.told))),
    }
}

/// Fills a volume, runs transactions that do not fit, and empties it.
pub fn transactions_full(seed: u64, index: u64, done: &mut RowReport) -> Result<(), Failure> {
    let mut tried = full_volumes::Done::default();
    let outcome = full_volumes::run(seed, index, &mut tried);
    let refused = tried.refused_early + tried.refused_at_commit;
    done.done += tried.fitted + refused + tried.removals;
    done.detail("fitted", tried.fitted);
    done.detail("refused in an operation", tried.refused_early);
    done.detail("refused at the commit", tried.refused_at_commit);
    done.detail("removals", tried.removals);
    done.detail("removals begun again", tried.begun_again);
    outcome
}

/// Runs one application after the other, each on its own mount. An application whose
/// program is not installed is skipped.
pub fn applications(seed: u64, index: u64, done: &mut RowReport) -> Result<(), Failure> {
    let all = applications::all();
    let missing = |application| applications::missing(application);
    if let Some(why) = all.into_iter().map(missing).reduce(Option::and).flatten() {
        done.skipped = Some(why);
        return Ok(());
    }
    let application = all[(index % all.len() as u64) as usize];
    if missing(application).is_some() {
        done.detail("rounds without a program", 1);
        return Ok(());
    }
    let extent = applications::Extent {
        steps: 24,
        cuts: 60,
        seed: mix(seed, index),
        lie_one_in: 0,
    };
    let explored = applications::explore(application, &extent)?;
    done.done += explored.counts.states;
    done.detail("recordings", 1);
    done.detail("power cuts", explored.counts.stops);
    done.detail("different for the checker", explored.counts.checked);
    Ok(())
}
