//! `varve tp bench`: TPC-B.

use super::place::{Lay, Place, in_words};
use crate::cli::output::{self, Outcome};
use crate::cli::size;
use clap::ValueEnum;
use serde_json::json;
use std::time::Duration;
use varve_tp::tpcb::{self, Store};
use varve_tp::{Durability, Options};

/// Measure transactions shaped like TPC-B's, in a new environment.
///
/// Each changes an account, a teller and a branch, and appends to a history. At the end
/// the sums are compared; the environment is kept.
#[derive(clap::Args)]
pub struct Bench {
    #[command(flatten)]
    place: Place,
    /// Number of threads that run transactions.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: u64,
    /// Records in the largest table.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    accounts: u32,
    /// Duration in seconds: a year at most.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=31_536_000))]
    seconds: u64,
    /// The event for which a commit waits.
    #[arg(long, value_enum, default_value_t = Wait::Durable)]
    durability: Wait,
    #[command(flatten)]
    lay: Lay,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Wait {
    /// Durability: the changes survive a crash.
    Durable,
    /// No event: a crash loses the last commits.
    Buffered,
}

impl Bench {
    pub fn run(self) -> Outcome {
        let mut options = Options::new();
        options.placement(self.lay.placement());
        if self.durability == Wait::Buffered {
            options.durability(Durability::Buffered);
        }
        let opened = self.place.open(true, &mut options)?;
        let environment = &opened.environment;
        if !environment.tables().is_empty() {
            return Err(self
                .place
                .failed("it holds tables; bench wants a new environment"));
        }
        let placed = environment.statistics().placement;
        if self.lay.asked().is_some_and(|asked| asked != placed) {
            return Err(self.place.failed(format_args!(
                "its pages lie elsewhere than is asked for: {}",
                in_words(placed)
            )));
        }
        let failed = |error| self.place.failed(error);
        environment.load(self.accounts).map_err(failed)?;
        let before = environment.statistics();
        let length = Duration::from_secs(self.seconds);
        let run = tpcb::run(environment, self.accounts, self.threads, length).map_err(failed)?;
        // Dirty pages have to be written once, too.
        environment.checkpoint().map_err(failed)?;
        let after = environment.statistics();
        let sums = environment.sums().map_err(failed)?;
        if sums.iter().any(|sum| *sum != sums[0]) {
            let text = format!("the sums are not equal: {sums:?}");
            return Err(self.place.failed(text));
        }
        let count = run.times_ns.len() as u64;
        let each = |bytes: u64| bytes / count.max(1);
        let log = each(after.log_bytes - before.log_bytes);
        let images = after.page_images - before.page_images;
        let pages = each((after.page_writes - before.page_writes) * after.page_bytes);
        let (p50, p99, longest) = (
            run.quantile_us(0.5),
            run.quantile_us(0.99),
            run.quantile_us(1.0),
        );
        match self.json {
            true => output::json(&json!({
                "transactions": count,
                "tps": run.per_second(),
                "again": run.again,
                "p50_us": p50,
                "p99_us": p99,
                "longest_us": longest,
                "log_bytes": log,
                "page_bytes": pages,
                "images_total": images,
            })),
            false => output::line(format_args!(
                "{count} transactions, {:.0} a second, {} again; {p50} us half of them, {p99} us \
                 99 %, {longest} us the longest; each wrote {} of log and {} of pages",
                run.per_second(),
                run.again,
                size::show(log),
                size::show(pages)
            )),
        }
        opened.close()?;
        Ok(0)
    }
}
