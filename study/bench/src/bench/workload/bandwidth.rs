//! Raw bandwidth against the size of transfers: a file of 8 KiB to 4 MiB is written again
//! and again, with a sync each time, and read again and again, each time cold. The program
//! is that of the laboratory's B1.

use crate::bench::numbers::Numbers;
use crate::bench::target::{Fault, Outcome, Target};
use crate::bench::{Bench, KIB};
use std::time::Duration;
use varve_lab::program::bandwidth::{SIZES_KB, Whole};

/// Times that each file is written and read.
const RUNS: u64 = 10;

pub fn run<T: Target>(bench: &Bench<'_, T>) -> Outcome<()> {
    let runs = bench.settings.n.unwrap_or(RUNS);
    let sizes = match bench.settings.file_bytes {
        Some(one) => vec![one],
        None => SIZES_KB.map(|kb| kb * KIB).into(),
    };
    if runs == 0 {
        return Err(Fault::System("--n: a file is written at least once".into()));
    }
    let sizes = sizes.into_iter().map(u32::try_from);
    let sizes: Result<Vec<u32>, _> = sizes.collect();
    let sizes = sizes.ok().filter(|sizes| !sizes.contains(&0));
    let sizes = sizes.ok_or_else(|| Fault::System("--file-size: from 1 byte to 4 GiB".into()))?;
    let home = bench.path(format_args!("home"));
    bench.target.make_dir(&home)?;
    let mut files = Numbers::new(bench.target, bench.pattern(), home, 0);
    for (file, bytes) in (0..).zip(sizes) {
        let whole = Whole { file, bytes };
        let extra = |sync: Duration| {
            let s = sync.as_secs_f64();
            format!(",\"file_size\":{bytes},\"sync_s\":{s:.6}")
        };
        whole.make(&mut files)?;
        files.take();

        let mut record = bench.begin("write");
        (0..runs).try_for_each(|_| whole.write(&mut files).map(drop))?;
        let calls = files.take();
        calls.add_to(&mut record);
        let (sync, written) = (calls.syncs.busy, record.busy);
        bench.emit(&record, (written + sync).as_secs_f64(), &extra(sync));

        let mut record = bench.begin("read");
        for _ in 0..runs {
            files.close()?;
            bench.cold()?;
            whole.read(&mut files)?;
            record.merge(&files.take().reads);
        }
        bench.emit_busy(&record, &extra(Duration::ZERO));
        files.close()?;
    }
    Ok(())
}
