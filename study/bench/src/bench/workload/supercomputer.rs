//! Four supercomputer applications: a file is written in pieces in random order, then read
//! and written at random places, cold. The program is that of the laboratory's B8.

use crate::bench::numbers::Numbers;
use crate::bench::target::{Fault, Outcome, Target};
use crate::bench::{Bench, MIB};
use std::time::Duration;
use varve_lab::program::supercomputer::{APPLICATIONS, Application, REQUESTS};
use varve_prove::random::Random;

pub fn run<T: Target>(bench: &Bench<'_, T>) -> Outcome<()> {
    let requests = bench.settings.n.unwrap_or(REQUESTS.into());
    let requests = u32::try_from(requests)
        .map_err(|_| Fault::System("--n: there are at most 4,294,967,295 requests".into()))?;
    let sizes = APPLICATIONS.iter().map(Application::file_bytes_min);
    let least = sizes.max().unwrap_or(0);
    if bench.settings.file_bytes.is_some_and(|bytes| bytes < least) {
        let kib = least.div_ceil(1024);
        let text = format!("--file-size: at least {kib}K, for a read and a write of venus");
        return Err(Fault::System(text));
    }
    APPLICATIONS
        .iter()
        .try_for_each(|application| one(bench, application, requests))
}

fn one<T: Target>(bench: &Bench<'_, T>, application: &Application, requests: u32) -> Outcome<()> {
    let settings = bench.settings;
    let file_bytes = match settings.file_bytes {
        Some(bytes) => bytes as f64,
        None => application.file_mb * MIB as f64,
    };
    let name = application.name;
    let extra = |sync: Duration| {
        let s = sync.as_secs_f64();
        format!(",\"application\":\"{name}\",\"sync_s\":{s:.6}")
    };
    let home = bench.path(format_args!("{name}"));
    bench.target.make_dir(&home)?;
    let mut files = Numbers::new(bench.target, bench.pattern(), home.clone(), 0);
    let mut random = Random::new(settings.seed);

    let mut record = bench.begin("load");
    let end = application.load(&mut files, file_bytes, &mut random)?;
    files.close()?;
    let sync = bench.sync_point()?;
    files.take().add_to(&mut record);
    bench.emit(&record, (record.busy + sync).as_secs_f64(), &extra(sync));

    bench.cold()?;
    let mut record = bench.begin("requests");
    application.requests(&mut files, end, requests, &mut random)?;
    files.close()?;
    let calls = files.take();
    calls.add_to(&mut record);
    let (reads, writes, sync) = (&calls.reads, &calls.writes, calls.syncs.busy);
    bench.emit(&record, (record.busy + sync).as_secs_f64(), &extra(sync));
    bench.emit_part(
        "read",
        reads,
        reads.busy.as_secs_f64(),
        &extra(Duration::ZERO),
    );
    let seconds = (writes.busy + sync).as_secs_f64();
    bench.emit_part("write", writes, seconds, &extra(sync));
    bench.target.remove_tree(&home)
}
