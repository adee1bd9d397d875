//! Bigfile: a set of files of 1, 5 and 10 MiB is created, copied cold, and removed. The
//! program is that of the laboratory's X2.

use crate::bench::numbers::{Calls, Numbers};
use crate::bench::record::Record;
use crate::bench::target::{Fault, Outcome, Target};
use crate::bench::{Bench, MIB};
use varve_lab::program::big_file::{FILES, Set};

pub fn run<T: Target>(bench: &Bench<'_, T>) -> Outcome<()> {
    let files = bench.settings.n.unwrap_or(FILES.into());
    let files = u32::try_from(files).ok();
    let files = files.filter(|&files| files > 0 && files <= u32::MAX / 2);
    let wrong = || Fault::System("--n: there are 1 to 2,147,483,647 files".into());
    let set = Set {
        files: files.ok_or_else(wrong)?,
        mb: MIB,
    };
    let home = bench.path(format_args!("home"));
    bench.target.make_dir(&home)?;
    let mut files = Numbers::new(bench.target, bench.pattern(), home, 0);

    let record = bench.begin("create");
    set.create(&mut files)?;
    finish(bench, &mut files, record, set)?;

    bench.cold()?;
    let record = bench.begin("copy");
    set.copy(&mut files)?;
    finish(bench, &mut files, record, set)?;

    bench.cold()?;
    let record = bench.begin("remove");
    set.remove(&mut files)?;
    finish(bench, &mut files, record, set)
}

/// What makes it durable is part of the time.
fn finish<T: Target>(
    bench: &Bench<'_, T>,
    files: &mut Numbers<'_, T>,
    mut record: Record,
    set: Set,
) -> Outcome<()> {
    files.close()?;
    let calls: Calls = files.take();
    let sync = bench.sync_point()?;
    calls.add_to(&mut record);
    let extra = format!(
        ",\"files\":{},\"set_bytes\":{},\"sync_s\":{:.6}",
        set.files,
        set.total_bytes(),
        sync.as_secs_f64()
    );
    bench.emit(&record, (record.busy + sync).as_secs_f64(), &extra);
    Ok(())
}
