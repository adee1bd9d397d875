//! X1: TPC-B with a data manager in user space, on a file system that updates in place and
//! on the log, and with the transactions of the log itself (Seltzer 1992, §5.3.1, figure
//! 5-6).
//!
//! The thesis's machine, a DECstation 5000/200 with an RZ55 that is 70 % full, and of that
//! drive five of fifteen surfaces. Both file systems let pages wait for 30 seconds, as many
//! as 12.3 transactions a second leave, and the one that updates in place writes them in
//! the order of the disk; the store's log is written when a transaction commits.
//!
//! Locks cost the same processor time in both, without system calls of their own.

use crate::experiments::bank::{Found, Setting, Skew, When, accounts, some};
use crate::experiments::embedded_transactions::embedded::Embedded;
use crate::experiments::rivals::{EFS, MIB, Machine, RZ55};
use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::platform::records::Habits;
use crate::platform::{Cleaning, Layout, Platform};
use crate::report::{Curve, Picture, Verdict, mean};

pub const X1: Experiment = Experiment::new("X1", points, verdicts, picture)
    .on_machine()
    .taking(69.0);

const IN_PLACE: &str = "user level, in place";
const IN_PLACE_FRESH: &str = "user level, in place, 60 % full";
const LFS: &str = "user level, LFS";
const EMBEDDED: &str = "embedded in LFS";
const LFS_FRESH: &str = "user level, LFS, no cleaner";
const EMBEDDED_FRESH: &str = "embedded in LFS, no cleaner";

const UTILISATION: f64 = 0.7;
/// The same where nothing is to be cleaned.
const FRESH_UTILISATION: f64 = 0.6;
/// Of the drive's surfaces.
const SHARE: f64 = 5.0 / 15.0;
/// Not said in the thesis; that of Seltzer et al. 1995.
const CACHE_BYTES: u64 = 4 * MIB;
/// What Sprite has.
const SEGMENT_BYTES: u32 = 512 << 10;
const CLEANING: Cleaning = Cleaning::COST_BENEFIT;
/// What waits: pages of 30 seconds.
const WAITING_BYTES: u64 = 30 * 123 / 10 * 4096;

fn machine() -> Machine {
    RZ55.part(u64::MAX, SHARE).with_dirty_bytes(WAITING_BYTES)
}

impl Setting {
    /// Of the thesis's chapter 5. Before any cleaning the drive is emptier.
    pub(in crate::experiments) fn of_chapter_5(layout: Layout, when: When) -> Self {
        let machine = machine();
        let utilisation = match when.is_fresh() {
            true => FRESH_UTILISATION,
            false => UTILISATION,
        };
        Setting {
            machine,
            layout,
            segment_bytes: SEGMENT_BYTES,
            cleaning: CLEANING,
            habits: Habits {
                log_apart: false,
                at_once: false,
            },
            accounts: accounts(machine, utilisation, false),
            cache_bytes: (CACHE_BYTES as f64 * SHARE) as u64,
            together: 1,
            skew: Skew::Uniform,
        }
    }
}

/// What the file system's own transactions do.
pub(in crate::experiments) fn embedded(
    context: &Context,
    setting: &Setting,
    when: When,
    seed: u64,
) -> Result<Found, LabError> {
    let machine = setting.machine;
    // There is one cache, and it has the room of both.
    let platform = machine.with(Layout::Lfs);
    let platform = Platform {
        segment_bytes: SEGMENT_BYTES,
        nvram_bytes: platform.nvram_bytes + setting.cache_bytes / 4,
        cleaning: CLEANING,
        ..platform
    };
    let accounts = context.size(setting.accounts, 4000);
    let mut bank = Embedded::load(machine, &platform, accounts, seed)?;
    bank.run(some(context, when.warm))?;
    if !context.small {
        // There is no log beside the pages.
        let free = machine.drive_bytes().saturating_sub(bank.bytes) as f64;
        let logged = |bank: &Embedded| bank.log().statistics().user_log_bytes;
        let end = logged(&bank) + (free * when.turns) as u64;
        while logged(&bank) < end {
            bank.run(100)?;
        }
    }
    when.checked(bank.run(some(context, when.measured))?)
}

fn points(_: &Context) -> Vec<Point> {
    let (fresh, steady) = (When::FRESH, When::STEADY);
    let user = [
        (IN_PLACE, 1.0, EFS.1, steady),
        (IN_PLACE_FRESH, 1.0, EFS.1, fresh),
        (LFS, 2.0, Layout::Lfs, steady),
        (LFS_FRESH, 2.0, Layout::Lfs, fresh),
    ];
    let user = user.map(|(series, x, layout, when)| {
        Point::per_seed(series, move |context, seed| {
            let setting = Setting::of_chapter_5(layout, when);
            let found = setting.measure(context, when, seed)?;
            Ok(found.row(series, x, seed))
        })
    });
    let own = [(EMBEDDED, steady), (EMBEDDED_FRESH, fresh)].map(|(series, when)| {
        Point::per_seed(series, move |context, seed| {
            let setting = Setting::of_chapter_5(Layout::Lfs, when);
            let found = embedded(context, &setting, when, seed)?;
            Ok(found.row(series, 3.0, seed))
        })
    });
    user.into_iter().chain(own).collect()
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let tps = |series: &str, x: f64| mean(rows, series, x, "tps");
    let against = |lfs: &str, in_place: &str, when: &str| {
        let (lfs, in_place) = (tps(lfs, 2.0), tps(in_place, 1.0));
        let more = 100.0 * (lfs / in_place - 1.0);
        Verdict::of(
            format!("user level, {when}: LFS against in place (13.6 and 12.3 tps)"),
            "5 to 30 % more",
            format!("{lfs:.1} and {in_place:.1} tps: {more:+.0} %"),
            (5.0..=30.0).contains(&more),
        )
    };
    let embedded = |own: &str, lfs: &str, when: &str| {
        let (own, lfs) = (tps(own, 3.0), tps(lfs, 2.0));
        let off = 100.0 * (own / lfs - 1.0);
        Verdict::of(
            format!("on LFS, {when}: embedded against user level"),
            "within 10 %",
            format!("{own:.1} and {lfs:.1} tps: {off:+.0} %"),
            off.abs() <= 10.0,
        )
    };
    let (cleaner, fresh) = ("with the cleaner", "before any cleaning");
    vec![
        // The file system had so much free space that cleaning was infrequent (§7.8).
        against(LFS_FRESH, IN_PLACE_FRESH, fresh),
        embedded(EMBEDDED_FRESH, LFS_FRESH, fresh),
        against(LFS, IN_PLACE, cleaner).beside_the_claim(true),
        embedded(EMBEDDED, LFS, cleaner).beside_the_claim(true),
    ]
}

fn picture(rows: &[Row]) -> Picture {
    Picture {
        title: "TPC-B: 1 user level in place, 2 on LFS, 3 embedded in LFS".into(),
        x: "system".into(),
        y: "transactions a second".into(),
        y_max: None,
        curves: Curve::all(rows, "tps"),
        references: vec![Curve::named("paper", vec![(1.0, 12.3), (2.0, 13.6)])],
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bank of this size, and few transactions, leave the log behind at user level, and
    /// transactions of the file system ahead. If one side gets a slow processor, it is not
    /// so.
    #[test]
    fn a_wrong_processor_is_told_from_a_right_one() {
        let context = Context::tiny();
        let on = |series: &str, layout, cycles: f64| {
            let usual = Setting::of_chapter_5(layout, When::STEADY);
            let setting = Setting {
                machine: usual.machine.of_processor(cycles, 1.0),
                ..usual
            };
            let found = setting.measure(&context, When::STEADY, 1).unwrap();
            found.row(series, if series == LFS { 2.0 } else { 1.0 }, 1)
        };
        let in_place = on(IN_PLACE, EFS.1, 1.0);
        let lfs = on(LFS, Layout::Lfs, 1.0);
        let own = |cycles: f64| {
            let usual = Setting::of_chapter_5(Layout::Lfs, When::STEADY);
            let setting = Setting {
                machine: usual.machine.of_processor(cycles, 1.0),
                ..usual
            };
            let found = embedded(&context, &setting, When::STEADY, 1).unwrap();
            found.row(EMBEDDED, 3.0, 1)
        };
        let usual = own(1.0);
        let with = |in_place: &Row, own: &Row| {
            let rows = [in_place.clone(), lfs.clone(), own.clone()];
            let [.., lfs, own] = &verdicts(&rows)[..] else {
                panic!("two with the cleaner")
            };
            (lfs.pass, own.pass, format!("{lfs}; {own}"))
        };
        let right = with(&in_place, &usual);
        assert!(!right.0 && !right.1, "{}", right.2);
        let slow = [8.0, 9.0, 10.0];
        let wrong = slow.map(|times| with(&on(IN_PLACE, EFS.1, times), &usual));
        assert!(wrong.iter().any(|wrong| wrong.0), "{wrong:?}");
        let slow = [3.0, 6.0, 8.0, 10.0, 12.0, 16.0];
        let wrong = slow.map(|times| with(&in_place, &own(times)));
        assert!(wrong.iter().any(|wrong| wrong.1), "{wrong:?}");
    }
}
