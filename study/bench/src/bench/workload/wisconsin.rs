//! The Wisconsin benchmark on the record store: 32 queries, each with cold caches, a phase
//! each. The queries are those of the laboratory's B6.

use super::database::{environment, failed, folder};
use crate::bench::Bench;
use crate::bench::target::{Fault, Outcome, Target};
use std::time::Instant;
use varve_lab::database::wisconsin::{QUERIES, TUPLES, Wisconsin};

const PAGE_BYTES: u32 = 8192;

pub fn run<T: Target>(bench: &Bench<'_, T>) -> Outcome<()> {
    let tuples = u32::try_from(bench.settings.n.unwrap_or(TUPLES.into())).ok();
    let tuples = tuples.filter(|&tuples| tuples >= Wisconsin::TUPLES_MIN);
    let tuples = tuples.ok_or_else(|| {
        let least = Wisconsin::TUPLES_MIN;
        Fault::System(format!("--n: relations have at least {least} tuples"))
    })?;
    let store = folder(bench)?;

    let mut record = bench.begin("load");
    let begun = Instant::now();
    let loading = environment(bench, &store, PAGE_BYTES, |options| options)?;
    let loaded = Wisconsin::load(&loading, tuples, bench.settings.seed);
    drop(loaded.map_err(failed)?);
    loading.close().map_err(failed)?;
    record.add(begun, 0);
    bench.emit_busy(&record, &format!(",\"tuples\":{tuples}"));

    for indexed in [false, true] {
        if indexed {
            let mut record = bench.begin("index");
            let begun = Instant::now();
            let environment = environment(bench, &store, PAGE_BYTES, Wisconsin::with_indices)?;
            let database = Wisconsin::open(&environment, tuples);
            database.index().map_err(failed)?;
            drop(database);
            environment.close().map_err(failed)?;
            record.add(begun, 0);
            bench.emit_busy(&record, "");
        }
        for query in QUERIES.iter().filter(|query| query.indexed == indexed) {
            bench.cold()?;
            let environment = match indexed {
                true => environment(bench, &store, PAGE_BYTES, Wisconsin::with_indices)?,
                false => environment(bench, &store, PAGE_BYTES, |options| options)?,
            };
            let database = Wisconsin::open(&environment, tuples);
            let mut record = bench.begin(&format!("query{:02}", query.number));
            let begun = Instant::now();
            let ran = database.run(query).map_err(failed)?;
            environment.checkpoint().map_err(failed)?;
            record.add(begun, 0);
            if ran.rows != query.rows(tuples) {
                return Err(Fault::data("wisconsin", query.number.into(), ran.rows));
            }
            bench.emit_busy(&record, &format!(",\"rows\":{}", ran.rows));
            database.clear().map_err(failed)?;
            drop(database);
            environment.close().map_err(failed)?;
        }
    }
    Ok(())
}
