//! Tests that a volume can always be emptied.

use std::time::{Duration, Instant};
use varve_prove::random::{announce_seed, scaled};
use varve_prove::space::Filling::*;
use varve_prove::space::{
    Ballast, Case, Cycle, Filling, InPlaces, Logs, Order, Service, Shape, VirtualLogs, Volumes, run,
};

/// Number of failures after which a test stops.
const FAILURES_MAX: usize = 6;

/// Returns the case whose seed a failure names, of `small` cases or `any`, if the
/// environment asks for one: `VARVE_SPACE_CASE=small:9358150883358963638`.
fn asked_for() -> Option<Case> {
    let text = std::env::var("VARVE_SPACE_CASE").ok()?;
    let (of, seed) = text.split_once(':').expect("small:SEED or any:SEED");
    let seed = seed.parse().expect("a seed");
    Some(match of {
        "small" => Case::small(seed),
        "any" => Case::draw(seed),
        _ => panic!("small:SEED or any:SEED"),
    })
}

/// A function that returns the case of a seed and a number.
type Draw = fn(u64, u64) -> Case;
/// A function that returns true if a case belongs to a test.
type Wanted = fn(&Case) -> bool;

/// Returns true for one of the smallest volumes, without ballast.
fn is_filled_by_names(case: &Case) -> bool {
    case.cycles[0].ballast == Ballast::None
}

/// Runs the wanted ones among the first `count` cases, one after the other, or only the
/// one that the environment asks for. The test begins no further case after `seconds`.
/// `VARVE_PROVE_SCALE` raises both limits and never lowers them.
fn cases(
    test: &str,
    volumes: &dyn Volumes,
    (count, seconds): (u64, u64),
    (draw, wanted): (Draw, Wanted),
) {
    let at_least = |number: u64| scaled(number).max(number);
    let (count, seconds) = (at_least(count), Duration::from_secs(at_least(seconds)));
    let seed = announce_seed(test, 1);
    let drawn: Box<dyn Iterator<Item = Case>> = match asked_for() {
        Some(case) => Box::new(std::iter::once(case)),
        None => Box::new((0..count).map(|nth| draw(seed, nth)).filter(wanted)),
    };
    let start = Instant::now();
    let (mut done, mut removed, mut failures) = (0, 0, 0);
    for (nth, case) in drawn.enumerate() {
        let begun = start.elapsed();
        if begun > seconds {
            eprintln!("{nth} of the cases were done in time");
            break;
        }
        match run(&case, volumes) {
            Ok(report) => removed += report.removed,
            Err(failure) => {
                eprintln!("case {nth}: {failure}");
                failures += 1;
                if failures >= FAILURES_MAX {
                    break;
                }
            }
        }
        done += 1;
        if start.elapsed() - begun > Duration::from_secs(10) {
            eprintln!("case {nth} took {:?}: {case}", start.elapsed() - begun);
        }
    }
    eprintln!("{done} cases, {removed} removals in {:?}", start.elapsed());
    assert_eq!(failures, 0, "of the cases above");
    assert!(removed > 0);
}

#[test]
fn a_volume_on_the_virtual_log_can_always_be_emptied() {
    let test = "a_volume_on_the_virtual_log_can_always_be_emptied";
    cases(test, &VirtualLogs, (250, 12), (Case::nth_small, |_| true));
}

#[test]
fn a_volume_that_is_updated_in_place_can_always_be_emptied() {
    let test = "a_volume_that_is_updated_in_place";
    cases(test, &InPlaces, (60, 6), (Case::nth_small, |_| true));
}

#[test]
fn a_volume_on_the_log_can_always_be_emptied() {
    let test = "a_volume_on_the_log_can_always_be_emptied";
    let wanted = |case: &Case| !is_filled_by_names(case);
    cases(test, &Logs, (150, 12), (Case::nth_small, wanted));
}

/// Each of these cases takes as long as twenty others, and is as likely to find a
/// refusal.
#[test]
fn a_log_that_names_alone_have_filled_can_always_be_emptied() {
    let test = "a_log_that_names_alone_have_filled";
    cases(test, &Logs, (150, 6), (Case::nth_small, is_filled_by_names));
}

#[test]
fn a_volume_of_any_size_on_the_virtual_log_can_always_be_emptied() {
    let test = "a_volume_of_any_size_on_the_virtual_log";
    cases(
        test,
        &VirtualLogs,
        (8, 8),
        (Case::nth_of_any_size, |_| true),
    );
}

#[test]
fn a_volume_of_any_size_on_the_log_can_always_be_emptied() {
    let test = "a_volume_of_any_size_on_the_log";
    cases(test, &Logs, (4, 8), (Case::nth_of_any_size, |_| true));
}

/// Runs a case that `varve prove --rows space` has drawn: files of a few blocks far
/// apart, whose index nodes were a tenth to a third of the live blocks. Without a reserve
/// for these (`SPARE_NODES` of the log is 0), the last cycle of each case refuses a
/// removal.
fn below_tall_indexes(seed: u64, shape: Shape, name_bytes: usize, cycles: Vec<Cycle>) {
    let case = Case {
        seed,
        shape,
        services: vec![Service {
            heads: 0,
            policy: 0,
        }],
        name_bytes,
        threads: 1,
        cycles,
    };
    let report = run(&case, &Logs).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.removed > 0);
}

/// Returns a shape with blocks of 4 KiB.
fn shape(device_bytes: u64, unit_bytes: u32, variety: u64) -> Shape {
    Shape {
        device_bytes,
        block_bytes: 4096,
        unit_bytes,
        in_drive: false,
        variety,
    }
}

fn cycle(
    fillings: &[Filling],
    (thin_one_in, mebibytes_left): (u64, u64),
    order: Order,
    (pause_one_in, turns, detour_one_in): (u64, u64, u64),
) -> Cycle {
    Cycle {
        fillings: fillings.to_vec(),
        thin_one_in,
        ballast: Ballast::Loose,
        left_bytes: mebibytes_left << 20,
        order,
        pause_one_in,
        turns,
        detour_one_in,
    }
}

/// A period that is so long that the event never happens.
const NEVER: u64 = 1 << 40;

#[test]
fn removed_below_tall_indexes() {
    let shape = shape(25_190_400, 4096, 6_493_619_367_367_479_949);
    let cycles = vec![cycle(
        &[Sparse, HardLinks, OneBigFile],
        (2, 1),
        Order::Reverse,
        (NEVER, 3, 10),
    )];
    below_tall_indexes(10_146_870_817_692_241_442, shape, 30, cycles);
}

#[test]
fn removed_below_more_of_them() {
    let shape = shape(50_790_400, 512, 1_533_881_827_448_684_601);
    let fillings = [Sparse, Directories, TinyFiles, SmallFiles, Modes];
    let cycles = vec![cycle(&fillings, (2, 2), Order::Random, (NEVER, 3, 2))];
    below_tall_indexes(16_982_695_226_642_370_522, shape, 30, cycles);
}

#[test]
fn removed_below_the_tallest() {
    let shape = shape(18_178_048, 512, 10_562_669_204_831_086_090);
    let cycles = vec![
        cycle(
            &[Reserved, Modes, Sparse, Modes, ManyAttributes],
            (2, 2),
            Order::Random,
            (NEVER, 3, 10),
        ),
        cycle(
            &[Renames, HardLinks, Sparse, HardLinks, Sparse],
            (2, 5),
            Order::Listing,
            (NEVER, 1, 2),
        ),
    ];
    below_tall_indexes(14_612_459_110_836_239_430, shape, 0, cycles);
}
