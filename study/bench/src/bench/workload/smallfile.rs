//! Many small files in a few directories; deleted at the end unless kept.
//!
//! Source: the small-file test of Rosenblum & Ousterhout 1992, §5.1.

use crate::bench::Bench;
use crate::bench::target::{Fault, How, Outcome, Target};
use std::time::Instant;

pub fn run<T: Target>(bench: &Bench<'_, T>) -> Outcome<()> {
    let n = bench.settings.n.unwrap_or(10_000);
    let size = bench.settings.file_bytes.unwrap_or(1024);
    let directories = bench.settings.directories.min(n).max(1);
    let path = |i: u64| bench.path(format_args!("d{:03}/f{i:06}", i * directories / n));
    let extra = format!(",\"file_size\":{size}");
    for d in 0..directories {
        bench
            .target
            .make_dir(&bench.path(format_args!("d{d:03}")))?;
    }
    bench.sync_point()?;

    let mut record = bench.begin("create");
    for i in 0..n {
        bench.write_file(&mut record, &path(i), How::New, (i, 0), size)?;
    }
    bench.emit_busy(&record, &extra);
    bench.sync_phase("create_sync", n * size, &extra)?;

    bench.cold()?;
    for phase in ["read", "read_warm"] {
        let mut record = bench.begin(phase);
        for i in 0..n {
            bench.read_file(&mut record, &path(i), (i, 0), size)?;
        }
        bench.emit_busy(&record, &extra);
    }

    bench.cold()?;
    for phase in ["stat", "stat_warm"] {
        let mut record = bench.begin(phase);
        for i in 0..n {
            let path = path(i);
            let begun = Instant::now();
            let (found, _) = bench.target.stat(&path)?;
            record.add(begun, 0);
            if found != size {
                return Err(Fault::data("st_size", i, found));
            }
        }
        bench.emit_busy(&record, &extra);
    }

    list(bench, directories, (n, size), &extra)?;

    if bench.settings.keep {
        return Ok(());
    }
    bench.cold()?;
    let mut record = bench.begin("delete");
    for i in 0..n {
        let path = path(i);
        let begun = Instant::now();
        bench.target.remove(&path)?;
        record.add(begun, 0);
    }
    bench.emit_busy(&record, &extra);
    bench.sync_phase("delete_sync", 0, &extra)
}

/// One operation is one directory: its names, and then what each leads to as well.
fn list<T: Target>(
    bench: &Bench<'_, T>,
    directories: u64,
    (n, size): (u64, u64),
    extra: &str,
) -> Outcome<()> {
    for (phase, bytes_each) in [("readdir", 0), ("readdir_stat", size)] {
        bench.cold()?;
        let mut record = bench.begin(phase);
        let (mut seen, mut bytes) = (0, 0);
        for d in 0..directories {
            let path = bench.path(format_args!("d{d:03}"));
            let begun = Instant::now();
            let (entries, sizes) = match phase {
                "readdir" => (bench.target.count_names(&path, b'f')?, 0),
                _ => bench.target.total_bytes(&path)?,
            };
            (seen, bytes) = (seen + entries, bytes + sizes);
            record.add(begun, 0);
        }
        if (seen, bytes) != (n, n * bytes_each) {
            return Err(Fault::data(phase, seen, n));
        }
        let rate = seen as f64 / record.busy.as_secs_f64();
        let extra = format!("{extra},\"entries\":{seen},\"entries_per_s\":{rate:.0}");
        bench.emit_busy(&record, &extra);
    }
    Ok(())
}
