//! Andrew: a tree is made, copied into, looked at, read, and partly compiled; by one user,
//! or by one to eight at once. The program is that of the laboratory's B3 and B4.
//!
//! What a compiler computes is left out unless `--compute` says how many seconds of the
//! processor a pass takes; then they are used, phase by phase as table 7-3 of Seltzer 1992
//! has them, and are part of a phase's time.

use crate::bench::Bench;
use crate::bench::numbers::Numbers;
use crate::bench::record::Record;
use crate::bench::target::{Fault, Outcome, Target};
use crate::bench::workers::run_workers;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use varve_lab::program::NumberedFiles;
use varve_lab::program::andrew::{self, CHARGED_S, PHASES, When};

/// Passes of a user.
const PASSES: u64 = 20;
/// Users at once, at most.
const USERS: usize = 8;

/// How many seconds are computed for each that the paper charges.
fn computed<T: Target>(bench: &Bench<'_, T>) -> f64 {
    bench.settings.compute_s / CHARGED_S.iter().sum::<f64>()
}

fn passes<T: Target>(bench: &Bench<'_, T>, least: u32) -> Outcome<u32> {
    let passes = bench.settings.n.unwrap_or(PASSES);
    let passes = u32::try_from(passes).ok().filter(|&passes| passes >= least);
    passes.ok_or_else(|| Fault::System(format!("--n: a user has at least {least} passes")))
}

/// One user: the later half of the passes is measured.
pub fn run<T: Target>(bench: &Bench<'_, T>) -> Outcome<()> {
    let (passes, computed) = (passes(bench, 1)?, computed(bench));
    let home = bench.path(format_args!("home"));
    bench.target.make_dir(&home)?;
    let mut files = Numbers::new(bench.target, bench.pattern(), home, 0);
    let mut phases = PHASES.map(|name| (name, Record::default(), 0.0));
    let mut record = bench.begin("pass");
    let mut sync = Duration::ZERO;
    for nth in 0..passes {
        let is_measured = nth >= passes / 2;
        let mut pass = Duration::ZERO;
        for (at, (_, calls, seconds)) in phases.iter_mut().enumerate() {
            let before = files.now_ns();
            andrew::phase(&mut files, nth, at, When::EachStep, |files, charge| {
                let charged_s = charge.total_s();
                files.compute(computed * charged_s);
            })?;
            let took = Duration::from_nanos(files.now_ns() - before);
            let taken = files.take();
            if is_measured {
                taken.add_to(calls);
                *seconds += took.as_secs_f64();
                pass += took;
            }
        }
        andrew::remove(&mut files)?;
        files.take();
        // Between two passes what waits is written, as time does.
        let waited = bench.sync_point()?;
        if is_measured {
            record.add_time(pass, 0);
            sync += waited;
        }
    }
    files.close()?;
    let compute_s = bench.settings.compute_s;
    let extra = format!(",\"users\":1,\"compute_s\":{compute_s}");
    let with_sync = format!("{extra},\"sync_s\":{:.6}", sync.as_secs_f64());
    bench.emit_busy(&record, &with_sync);
    for (name, calls, seconds) in &phases {
        bench.emit_part(name, calls, *seconds, &extra);
    }
    Ok(())
}

/// One, two, and so on to eight users at once, or as many as there may be threads, each
/// with a tree of his own. As in the paper, the time of a pass is divided by the number of
/// users; of each user's passes the first is not measured.
pub fn run_many<T: Target>(bench: &Bench<'_, T>) -> Outcome<()> {
    let (passes, computed) = (passes(bench, 2)?, computed(bench));
    for users in 1..=bench.settings.threads.unwrap_or(USERS) {
        let home = |user: usize| bench.path(format_args!("u{user}"));
        let homes: Vec<String> = (0..users).map(home).collect();
        for home in &homes {
            bench.target.make_dir(home)?;
        }
        bench.sync_point()?;
        bench.begin("pass");
        let left = AtomicU32::new(users as u32);
        let (target, pattern) = (bench.target, bench.pattern());
        let (record, _) = run_workers(users, |user, record| {
            let mut files = Numbers::new(target, pattern, homes[user].clone(), user);
            let times = andrew::in_company(passes, &left, |nth| -> Outcome<Duration> {
                let before = files.now_ns();
                andrew::pass(&mut files, nth, When::EachStep, |files, charge| {
                    let charged_s = charge.total_s();
                    files.compute(computed * charged_s);
                })?;
                Ok(Duration::from_nanos(files.now_ns() - before))
            })?;
            times.into_iter().for_each(|time| record.add_time(time, 0));
            files.close()
        })?;
        let compute_s = bench.settings.compute_s;
        let extra = format!(",\"users\":{users},\"compute_s\":{compute_s}");
        let seconds = record.busy.as_secs_f64() / users as f64;
        bench.emit(&record, seconds, &extra);
        for home in &homes {
            bench.target.remove_tree(home)?;
        }
    }
    Ok(())
}
