//! OO1 on the record store: parts are looked up, inserted, and connections followed forth
//! and back, each phase with cold caches. The programs are those of the laboratory's B5.

use super::database::{environment, failed, folder};
use crate::bench::Bench;
use crate::bench::target::{Fault, Outcome, Target};
use std::time::Instant;
use varve_lab::database::oo1::{HOPS, INSERTS, LOOKUPS, PARTS, Part, Parts, Program, Way};
use varve_prove::random::Random;

/// Phases, and what they do.
const PROGRAMS: [(&str, Program); 4] = [
    ("lookup", Program::LookUp(LOOKUPS)),
    ("insert", Program::Insert(INSERTS)),
    ("forward", Program::Follow(Way::Forward, HOPS)),
    ("backward", Program::Follow(Way::Backward, HOPS)),
];
const PAGE_BYTES: u32 = 4096;

pub fn run<T: Target>(bench: &Bench<'_, T>) -> Outcome<()> {
    let count = u32::try_from(bench.settings.n.unwrap_or(PARTS.into()));
    let count = count.ok().filter(|&count| count > 0);
    let mut count = count.ok_or_else(|| Fault::System("--n is no number of parts".into()))?;
    let seed = bench.settings.seed;
    let store = folder(bench)?;

    let mut record = bench.begin("load");
    let begun = Instant::now();
    let loading = environment(bench, &store, PAGE_BYTES, |options| options)?;
    drop(Parts::load(&loading, count, &mut Random::new(seed)).map_err(failed)?);
    loading.close().map_err(failed)?;
    record.add(begun, 0);
    bench.emit_busy(&record, &format!(",\"parts\":{count}"));

    for (nth, (phase, program)) in (1..).zip(PROGRAMS) {
        bench.cold()?;
        let environment = environment(bench, &store, PAGE_BYTES, |options| options)?;
        let mut parts = Parts::open(&environment, count);
        let mut random = Random::new(seed ^ (nth << 32));
        let (mut seen, mut sum) = (0u64, 0u64);
        let mut see = |part: Part| {
            seen += 1;
            sum = sum.wrapping_add(u64::from(part.x ^ part.y));
        };
        let mut record = bench.begin(phase);
        let begun = Instant::now();
        let done = program.run(&mut parts, &mut random, &mut see);
        done.map_err(failed)?;
        record.add(begun, 0);
        std::hint::black_box(sum);
        let inserted = u64::from(parts.count() - count);
        count = parts.count();
        let wanted = match program {
            Program::LookUp(times) => Some(times.into()),
            Program::Follow(Way::Forward, hops) => Some((3u64.pow(hops + 1) - 1) / 2),
            Program::Insert(_) | Program::Follow(Way::Backward, _) => None,
        };
        if wanted.is_some_and(|wanted| seen != wanted) {
            return Err(Fault::data("oo1: parts seen", nth, seen));
        }
        bench.emit_busy(&record, &format!(",\"parts\":{}", seen + inserted));
        drop(parts);
        environment.close().map_err(failed)?;
    }
    Ok(())
}
