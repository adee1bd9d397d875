//! B4: Andrew with one to eight users at once (Seltzer 1992, §7.5.2, figures 7-6 and
//! 7-7): each makes, reads and removes a tree of his own.
//!
//! What a user does is a pass of B3, but the processor is charged after each step and
//! not at a phase's end, so that one computes while the drive works for another. All
//! share one processor, one drive and one cache (`study/file-systems.md`). As in the paper, the
//! time of a pass is divided by the number of users.

use crate::experiments::rivals::{EFS, FFS, HP_380, LFS};
use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::platform::threads::Threads;
use crate::platform::{Platform, System};
use crate::program::andrew::{self, Charge, When};
use crate::report::{Curve, Picture, Verdict, mean};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use varve_prove::random::Random;

pub const B4: Experiment = Experiment::new("B4", points, verdicts, picture)
    .on_machine()
    .taking(170.0);

const USERS: [u32; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
/// Within so much time all have begun.
const APART_NS: u64 = 10_000_000_000;
/// The most that the paper has.
const MANY: u32 = 8;
/// Passes of each user; the first is not measured. Who has done his goes on until all
/// have, so that there are always as many users.
const PASSES: u32 = 3;

fn points(context: &Context) -> Vec<Point> {
    let mut points = Vec::new();
    for (name, layout) in [FFS, EFS, LFS] {
        for &users in context.size(&USERS[..], &USERS[..2]) {
            let label = format!("{name}, {users} users");
            points.push(Point::per_seed(label, move |context, seed| {
                let row = Row::new(name, f64::from(users), seed);
                measure(&context.platform(HP_380.with(layout)), row, users)
            }));
        }
    }
    points
}

/// All users at once.
fn measure(platform: &Platform, row: Row, users: u32) -> Result<Row, LabError> {
    let store = platform.store(row.seed)?;
    let (threads, part) = Threads::new(Arc::clone(store.clock()));
    let systems = platform.mount(Arc::clone(&store), row.seed)?.users(users)?;
    let before = store.spent();
    let mut seconds = Vec::new();
    let left = AtomicU32::new(users);
    std::thread::scope(|scope| {
        let (threads, left) = (&threads, &left);
        let mut random = Random::new(row.seed);
        let user = |system: Box<dyn System + Send>| {
            let (seat, later_ns) = (threads.seat(), random.below(APART_NS));
            scope.spawn(move || {
                let _part = threads.begin(seat);
                let mut system = system;
                system.store().wait(system.now_ns() + later_ns);
                passes(&mut *system, left)
            })
        };
        let users: Vec<_> = systems.into_iter().map(user).collect();
        part.see_off();
        for user in users {
            let lost = |_| LabError::System("a user's thread panicked".into());
            seconds.extend(user.join().map_err(lost)??);
        }
        Ok::<_, LabError>(())
    })?;
    let spent = store.spent() - before;
    let share = |ns: u64| 100.0 * ns as f64 / spent.total_ns as f64;
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    Ok(row
        .with("s", mean / f64::from(users))
        .with("processor_percent", share(spent.host_ns))
        .with("drive_percent", share(spent.drive.total_ns())))
}

/// What a step takes beside the file system: the program computes, and waits.
pub(in crate::experiments) fn charge<S: System + ?Sized>(system: &mut S, charge: Charge) {
    let store = system.store();
    store.cpu().compute(charge.computed_s);
    store.wait(store.now_ns() + (charge.waited_s * 1e9) as u64);
}

/// Seconds of each pass that is measured. `left` counts the users who have not done
/// theirs.
fn passes(system: &mut dyn System, left: &AtomicU32) -> Result<Vec<f64>, LabError> {
    andrew::in_company(PASSES, left, |nth| {
        let phases = andrew::pass(system, nth, When::EachStep, charge)?;
        Ok(phases.iter().sum())
    })
}

/// The claim is of more users than these.
const FEW: u32 = 4;
/// Points.
const PAPER_POINTS: f64 = 2.0;
const BUSY_POINTS: f64 = 10.0;
/// Of EFS.
const WITHIN: f64 = 0.1;

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let of = |series: &str, users: u32, what: &str| mean(rows, series, f64::from(users), what);
    let alike = |users: u32| {
        let (efs, lfs) = (EFS.0, LFS.0);
        let [efs_s, lfs_s] = [efs, lfs].map(|name| of(name, users, "s"));
        let busy = |name| {
            let [processor, drive] =
                ["processor_percent", "drive_percent"].map(|what| of(name, users, what));
            format!("{processor:.0} and {drive:.0} %")
        };
        let difference = lfs_s / efs_s - 1.0;
        Verdict::of(
            format!("{users} users: LFS against EFS"),
            "within 10 %",
            format!(
                "{lfs_s:.1} and {efs_s:.1} s: {:+.1} %; processor and drive busy {}, with EFS {}",
                100.0 * difference,
                busy(lfs),
                busy(efs)
            ),
            difference.abs() <= WITHIN,
        )
    };
    let more = USERS.into_iter().filter(|&users| users > FEW);
    let mut verdicts: Vec<Verdict> = more.map(alike).collect();
    // What the paper says of the others: EFS gains more by company.
    let gain = |name: &str| {
        let best = USERS
            .map(|users| of(name, users, "s"))
            .into_iter()
            .fold(f64::INFINITY, f64::min);
        100.0 * (1.0 - best / of(name, 1, "s"))
    };
    let gains = [FFS, EFS, LFS].map(|(name, _)| gain(name));
    let told = gains.map(|gain| format!("{gain:.1}")).join(", ") + " %";
    verdicts.push(Verdict::of(
        "what a pass gains by company: FFS, EFS and LFS",
        "LFS least",
        told.clone(),
        gains[2] < gains[0].min(gains[1]),
    ));
    let most = Verdict::of(
        "the most that a pass gains by company: FFS, EFS and LFS",
        "approximately 9 %, at most 11",
        told,
        gains.iter().all(|&gain| gain <= 9.0 + PAPER_POINTS),
    )
    .underdetermined(
        "T2179",
        "what a single user waits for while the processor is idle for 40 % of the time",
    );
    verdicts.push(most);
    for (name, users, paper) in [
        (LFS.0, 1, 60.0),
        (EFS.0, 1, 50.0),
        (LFS.0, MANY, 80.0),
        (EFS.0, MANY, 89.0),
    ] {
        let found = of(name, users, "processor_percent");
        verdicts.push(Verdict::of(
            format!("the processor is busy, {name}, users: {users}"),
            format!("{paper} %, within {BUSY_POINTS} points"),
            format!("{found:.0} %"),
            (found - paper).abs() <= BUSY_POINTS,
        ));
    }
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    Picture {
        title: "Andrew, users at once".into(),
        x: "users".into(),
        y: "seconds of a pass, by the number of users".into(),
        y_max: None,
        curves: Curve::all(rows, "s"),
        references: Vec::new(),
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_at_once_give_the_same_row_every_time() {
        for (name, layout) in [FFS, EFS, LFS] {
            let platform = HP_380.with(layout);
            let row = |seed| measure(&platform, Row::new(name, 2.0, seed), 2).unwrap();
            assert_eq!(row(5), row(5));
        }
    }
}
