//! Files of an office: made, read whole, and removed when their time has come, while as
//! much lives as before. The program is `varve_lab::program::office`, R4's population.

use crate::bench::numbers::Numbers;
use crate::bench::target::{Fault, Outcome, Target};
use crate::bench::{Bench, MIB};
use std::time::Duration;
use varve_lab::program::NumberedFiles;
use varve_lab::program::office::{LIVE_BYTES_MAX, LIVE_BYTES_MIN, Office};

/// Bytes that live.
const LIVE_BYTES: u64 = 64 * MIB;
const STEPS: u64 = 5000;

pub fn run<T: Target>(bench: &Bench<'_, T>) -> Outcome<()> {
    let live = bench.settings.total.unwrap_or(LIVE_BYTES);
    if !(LIVE_BYTES_MIN..=LIVE_BYTES_MAX).contains(&live) {
        let text = "--total: from 16M, twice the largest file, to 4T live";
        return Err(Fault::System(text.into()));
    }
    let home = bench.path(format_args!("home"));
    bench.target.make_dir(&home)?;
    let mut files = Numbers::new(bench.target, bench.pattern(), home, 0);
    let mut office = Office::new(live, bench.settings.seed);
    let extra = |sync: Duration, living: usize| {
        let s = sync.as_secs_f64();
        format!(",\"live_bytes\":{live},\"files\":{living},\"sync_s\":{s:.6}")
    };

    let mut record = bench.begin("fill");
    office.fill(&mut files)?;
    files.close()?;
    let sync = bench.sync_point()?;
    files.take().add_to(&mut record);
    let told = extra(sync, office.living());
    bench.emit(&record, (record.busy + sync).as_secs_f64(), &told);

    bench.cold()?;
    let mut record = bench.begin("mix");
    for _ in 0..bench.settings.n.unwrap_or(STEPS) {
        let before = files.now_ns();
        office.step(&mut files)?;
        record.add_time(Duration::from_nanos(files.now_ns() - before), 0);
    }
    files.close()?;
    let sync = bench.sync_point()?;
    let calls = files.take();
    record.bytes = calls.reads.bytes + calls.writes.bytes;
    let told = extra(sync, office.living());
    bench.emit(&record, (record.busy + sync).as_secs_f64(), &told);
    for (name, part) in [
        ("mix_make", &calls.makes),
        ("mix_write", &calls.writes),
        ("mix_read", &calls.reads),
        ("mix_remove", &calls.removes),
    ] {
        bench.emit_part(name, part, part.busy.as_secs_f64(), &told);
    }
    Ok(())
}
