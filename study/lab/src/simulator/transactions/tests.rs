//! The simulator on a small database: seeds, accounts, and formulas where there
//! are any.

use super::*;

/// Retrievals, updates and insertions of a transaction on average: of 12 to 20 operations
/// 3 to 5 change something, and 1 or 2 of those insert.
const SPLIT: [f64; 3] = [16.0 - 33.0 / 9.0, 19.0 / 9.0, 14.0 / 9.0];

fn small() -> Parameters {
    Parameters {
        run_length: 300,
        certain: 0.0,
        data_bytes: 64 << 20,
        checkpoint_s: 60.0,
        ..Parameters::default()
    }
}

fn near(value: f64, expected: f64, share: f64) {
    let off = (value / expected - 1.0).abs();
    assert!(off <= share, "{value} for {expected}");
}

#[test]
fn a_seed_decides_everything() {
    for model in Model::ALL {
        let run = |seed| simulate(model, &small(), seed);
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}

/// Of a run of ten thousand that is certain before, the rest would have changed nothing.
#[test]
fn a_run_ends_when_it_is_certain() {
    let run = |certain| {
        let parameters = Parameters {
            run_length: 10_000,
            certain,
            ..small()
        };
        simulate(Model::UserLfs, &parameters, 1)
    };
    let (whole, short) = (run(0.0), run(0.02));
    assert!(short.batches.len() >= 3);
    assert!(short.batches.len() * 2 < whole.batches.len());
    near(short.tps, whole.tps, 0.02);
}

/// Who is alone and changes nothing waits for the processor and for reads, and
/// for nothing else.
#[test]
fn one_transaction_takes_the_sum_of_its_times() {
    let parameters = Parameters {
        users: 1,
        mips: 1.0,
        changing: 0.0,
        ..small()
    };
    let found = simulate(Model::UserRo, &parameters, 1);
    // Sixteen retrievals of four locks.
    let processor_s = 16.0 * (4.0 * 1000.0 + 7000.0) / 1e6;
    near(1.0 / found.tps, processor_s + found.reads * 0.0283, 0.01);
    assert_eq!((found.aborted, found.waits), (0, 0.0));
}

/// What the processor does is what the formulas charge, and what the pool finds
/// is what is expected of it.
#[test]
fn accounts_agree_with_formulas() {
    for locking in [Locking::Page, Locking::Subpage, Locking::ModifiedSubpage] {
        for skew in [50, 80] {
            let parameters = Parameters {
                locking,
                skew,
                users: 5,
                ..small()
            };
            let (found, limits) = (
                simulate(Model::OsLfs, &parameters, 2),
                bounds(Model::OsLfs, &parameters),
            );
            // Subpages that are locked exclusively are not asked for once more.
            let twice = if locking == Locking::Subpage {
                0.08
            } else {
                0.03
            };
            near(found.locks, limits.locks, twice);
            assert!(
                (found.hits - limits.hits).abs() < 0.015,
                "{found:?} {limits:?}"
            );
            let work = SPLIT[0] * 7000.0 + SPLIT[1] * 12000.0 + SPLIT[2] * 18000.0 + 500.0;
            let processor_s = (limits.locks * 1500.0 + work) / 1e7;
            near(found.processor, found.tps * processor_s, 0.03);
            assert!(found.tps >= limits.lower && found.tps <= limits.upper);
        }
    }
}

/// Each leaf that is changed is locked once more: an update changes one, an insertion one
/// of each index.
#[test]
fn the_second_lock_on_a_leaf_can_be_charged() {
    let mut parameters = Parameters {
        users: 5,
        run_length: 2000,
        ..small()
    };
    let usual = bounds(Model::UserLfs, &parameters).locks;
    parameters.assumed.leaves_charged = true;
    let leaves = SPLIT[1] + 5.0 * SPLIT[2];
    near(
        bounds(Model::UserLfs, &parameters).locks,
        usual + leaves,
        0.001,
    );
    let work = SPLIT[0] * 7000.0 + SPLIT[1] * 12000.0 + SPLIT[2] * 18000.0;
    let processor_s = ((usual + leaves) * 1000.0 + work) / 1e7;
    for leaves_held in [false, true] {
        parameters.assumed.leaves_held = leaves_held;
        let found = simulate(Model::UserLfs, &parameters, 1);
        // Without them it would be a twentieth less.
        near(found.processor, found.tps * processor_s, 0.02);
    }
}

#[test]
fn rounding_down_leaves_fewer_changes() {
    let mut parameters = Parameters {
        users: 5,
        ..small()
    };
    let rounded = simulate(Model::UserLfs, &parameters, 1).writes;
    parameters.assumed.rounded_down = false;
    let drawn = simulate(Model::UserLfs, &parameters, 1).writes;
    near(rounded, SPLIT[1] * 2.0 + SPLIT[2] * 6.0, 0.05);
    near(drawn, 2.0 * 2.0 + 2.0 * 6.0, 0.05);
}

/// Hot locks: circles are broken one way or the other, and work goes on.
#[test]
fn deadlocks_end() {
    for by_circles in [false, true] {
        let mut parameters = Parameters {
            skew: 95,
            users: 40,
            data_bytes: 4 << 20,
            ..small()
        };
        parameters.assumed.by_circles = by_circles;
        let found = simulate(Model::OsRo, &parameters, 1);
        assert!(found.aborted > 0 && found.committed > 0, "{found:?}");
    }
}

/// Where nobody checkpoints, a processor that is the bottleneck does not rest;
/// with checkpoints it waits for pages that are written one by one.
#[test]
fn checkpoints_cost_what_updates_in_place() {
    let mut parameters = Parameters {
        mips: 1.0,
        ..small()
    };
    let busy = |model, parameters: &Parameters| simulate(model, parameters, 1).processor;
    let (ro, lfs) = (
        busy(Model::UserRo, &parameters),
        busy(Model::UserLfs, &parameters),
    );
    assert!(ro < lfs - 0.01, "{ro} {lfs}");
    parameters.assumed.checkpoints = false;
    assert!(busy(Model::UserRo, &parameters) > ro + 0.01);
}
