//! Names: made, looked at, linked, renamed, removed.

use crate::bench::Bench;
use crate::bench::record::Record;
use crate::bench::target::{Fault, How, Outcome, Target, TargetFile};
use crate::bench::workers::run_workers;
use std::time::Instant;

#[derive(Clone, Copy)]
enum Step {
    Mkdir,
    Create,
    Stat,
    Link,
    Symlink,
    Rename,
    Unlink,
    Rmdir,
}

const STEPS: [(Step, &str); 8] = [
    (Step::Mkdir, "mkdir"),
    (Step::Create, "create"),
    (Step::Stat, "stat_warm"),
    (Step::Link, "link"),
    (Step::Symlink, "symlink"),
    (Step::Rename, "rename"),
    (Step::Unlink, "unlink"),
    (Step::Rmdir, "rmdir"),
];

pub fn run<T: Target>(bench: &Bench<'_, T>) -> Outcome<()> {
    let threads = bench.settings.threads();
    let share = bench.settings.n.unwrap_or(10_000) / threads as u64;
    for t in 0..threads {
        bench.target.make_dir(&bench.path(format_args!("t{t}")))?;
        bench
            .target
            .make_dir(&bench.path(format_args!("t{t}/sub")))?;
    }
    bench.sync_point()?;
    let (target, base) = (bench.target, bench.base.as_str());
    for (step, name) in STEPS {
        bench.begin(name);
        let (record, seconds) = run_workers(threads, |t, record| {
            (0..share).try_for_each(|i| one(target, &format!("{base}/t{t}"), step, i, record))
        })?;
        let sync = bench.sync_point()?;
        let extra = format!(
            ",\"threads\":{threads},\"sync_s\":{:.6}",
            sync.as_secs_f64()
        );
        bench.emit(&record, seconds, &extra);
    }
    Ok(())
}

fn timed(record: &mut Record, call: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
    let begun = Instant::now();
    call()?;
    record.add(begun, 0);
    Ok(())
}

fn one<T: Target>(target: &T, base: &str, step: Step, i: u64, record: &mut Record) -> Outcome<()> {
    // Only what a step needs is made, as this is measured, too, with several threads.
    let file = || format!("{base}/f{i:06}");
    let directory = || format!("{base}/d{i:06}");
    let hard = || format!("{base}/l{i:06}");
    let soft = || format!("{base}/s{i:06}");
    let renamed = || format!("{base}/sub/r{i:06}");
    match step {
        Step::Mkdir => {
            let directory = directory();
            timed(record, || target.make_dir(&directory))
        }
        Step::Rmdir => {
            let directory = directory();
            timed(record, || target.remove_dir(&directory))
        }
        Step::Create => {
            let file = file();
            timed(record, || target.open(&file, How::New)?.close())
        }
        Step::Stat => {
            let file = file();
            timed(record, || target.stat(&file).map(drop))
        }
        Step::Link => {
            let (file, hard) = (file(), hard());
            timed(record, || target.link(&file, &hard))?;
            match i % 64 {
                0 if target.stat(&hard)?.1 != 2 => Err(Fault::data("st_nlink", i, 0)),
                _ => Ok(()),
            }
        }
        Step::Symlink => {
            let (says, soft) = (format!("f{i:06}"), soft());
            timed(record, || target.symlink(&says, &soft))
        }
        Step::Rename => {
            let (file, renamed) = (file(), renamed());
            timed(record, || target.rename(&file, &renamed))?;
            let moved = !i.is_multiple_of(64) || (!target.exists(&file) && target.exists(&renamed));
            match moved {
                true => Ok(()),
                false => Err(Fault::data("rename", i, 0)),
            }
        }
        Step::Unlink => [hard(), soft(), renamed()]
            .iter()
            .try_for_each(|name| timed(record, || target.remove(name))),
    }
}
