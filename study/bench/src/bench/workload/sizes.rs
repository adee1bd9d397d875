//! The same bytes as files of every size; syncs are part of the time.

use crate::bench::record::Record;
use crate::bench::target::{How, Outcome, Target};
use crate::bench::{Bench, KIB, MIB};
use std::time::{Duration, Instant};

pub fn run<T: Target>(bench: &Bench<'_, T>) -> Outcome<()> {
    let total = bench.settings.total.unwrap_or(32 * MIB);
    let mut size = KIB;
    while size <= total {
        let wanted = bench.settings.file_bytes.is_none_or(|only| only == size);
        if wanted && size >= bench.settings.min_bytes {
            one_size(bench, size, total / size)?;
        }
        size *= 2;
    }
    Ok(())
}

fn one_size<T: Target>(bench: &Bench<'_, T>, size: u64, n: u64) -> Outcome<()> {
    let kib = size / KIB;
    let path = |i: u64| bench.path(format_args!("s{kib}/d{:03}/f{i:05}", i / 100));
    let emit = |record: &Record, sync: Duration| {
        let s = sync.as_secs_f64();
        let extra = format!(",\"file_size\":{size},\"sync_s\":{s:.6}");
        bench.emit(record, record.busy.as_secs_f64() + s, &extra);
    };
    let top = bench.path(format_args!("s{kib}"));
    bench.target.make_dir(&top)?;
    for d in 0..n.div_ceil(100) {
        bench
            .target
            .make_dir(&bench.path(format_args!("s{kib}/d{d:03}")))?;
    }
    bench.sync_point()?;

    let mut record = bench.begin("create");
    for i in 0..n {
        bench.write_file(&mut record, &path(i), How::New, (i, 0), size)?;
    }
    let sync = bench.sync_point()?;
    emit(&record, sync);

    bench.cold()?;
    let mut record = bench.begin("read");
    for i in 0..n {
        bench.read_file(&mut record, &path(i), (i, 0), size)?;
    }
    emit(&record, Duration::ZERO);

    bench.cold()?;
    let mut record = bench.begin("overwrite");
    for i in 0..n {
        bench.write_file(&mut record, &path(i), How::Write, (i, 1), size)?;
    }
    let sync = bench.sync_point()?;
    emit(&record, sync);

    // A spot check, not timed.
    bench.cold()?;
    let mut scratch = bench.begin("overwrite_check");
    for i in (0..n).step_by(1 + n as usize / 64) {
        bench.read_file(&mut scratch, &path(i), (i, 1), size)?;
    }

    bench.cold()?;
    let mut record = bench.begin("delete");
    for i in 0..n {
        let path = path(i);
        let begun = Instant::now();
        bench.target.remove(&path)?;
        record.add(begun, size);
    }
    let sync = bench.sync_point()?;
    emit(&record, sync);
    bench.target.remove_tree(&top)
}
