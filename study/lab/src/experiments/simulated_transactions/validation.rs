//! M7: the simulator of M1 to M6 validated (Seltzer 1992, §4.5): every point
//! between what formulas allow, confidence intervals, and what changes where the
//! chapter leaves something open.

use crate::experiments::simulated_transactions::{
    BATCHES, Case, SATURATED, TPS, bounded, parameters, places,
};
use crate::experiments::{Context, Experiment, Point, Row};
use crate::report::{Curve, Picture, Verdict, mean, summaries};
use crate::simulator::transactions::{Assumptions, Model, Parameters};

pub const M7: Experiment = Experiment::new("M7", points, verdicts, picture).taking(265.0);

/// Configurations in which assumptions are varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    Processor,
    Disks,
    Locks,
}

impl Setting {
    fn name(self) -> &'static str {
        match self {
            Setting::Processor => "1 MIPS",
            Setting::Disks => "10 MIPS",
            Setting::Locks => "95/5",
        }
    }

    fn parameters(self, context: &Context) -> Parameters {
        let usual = parameters(context);
        match self {
            // Table 4-2's, which saturates the processor.
            Setting::Processor => Parameters { mips: 1.0, ..usual },
            Setting::Disks => Parameters {
                users: SATURATED,
                ..usual
            },
            Setting::Locks => Parameters {
                users: SATURATED,
                skew: 95,
                ..usual
            },
        }
    }
}

const USUAL: &str = "usual";
/// LFS-NOLOG differs from OS-LFS in no assumption but its log.
const VARIED: [Model; 4] = [Model::UserRo, Model::UserLfs, Model::OsRo, Model::OsLfs];

type Change = fn(&mut Assumptions);

/// What the chapter leaves open, otherwise than assumed, and where it may matter.
fn others() -> Vec<(&'static str, &'static [Setting], Change)> {
    use Setting::{Disks, Locks, Processor};
    let both: &'static [Setting] = &[Processor, Disks];
    let locks: &'static [Setting] = &[Locks];
    vec![
        ("kinds of operations drawn", both, |a| {
            a.rounded_down = false
        }),
        ("records by fill", both, |a| a.records_by_fill = true),
        ("images of pages", both, |a| a.page_images = true),
        ("updates move", both, |a| a.updates_move = true),
        ("no wait for evictions", both, |a| a.eviction_waits = false),
        ("no checkpoints", both, |a| a.checkpoints = false),
        ("reads first", both, |a| a.reads_first = true),
        ("batches positioned", both, |a| a.positioned_batches = true),
        ("cold pool", &[Disks], |a| a.cold = true),
        ("time-out 1 s", &[Disks, Locks], |a| a.timeout_s = 1.0),
        ("time-out 20 s", &[Disks, Locks], |a| a.timeout_s = 20.0),
        ("circles", &[Disks, Locks], |a| a.by_circles = true),
        ("leaves held", locks, |a| a.leaves_held = true),
        ("second leaf lock charged", both, |a| {
            a.leaves_charged = true
        }),
    ]
}

fn series(model: Model, setting: Setting, name: &str) -> String {
    format!("{}, {}, {name}", model.name(), setting.name())
}

/// Curves from one transaction at a time to saturation.
fn scaled(model: Model, mips: f64) -> String {
    format!("{}, {mips} MIPS, by users", model.name())
}

fn points(context: &Context) -> Vec<Point> {
    let mut cases = Vec::new();
    for mips in [1.0, 10.0] {
        for users in context.size(vec![1, 10, 100], vec![1, 30]) {
            for model in Model::ALL {
                cases.push(Case {
                    series: scaled(model, mips),
                    x: users as f64,
                    model,
                    parameters: Parameters {
                        mips,
                        users,
                        ..parameters(context)
                    },
                });
            }
        }
    }
    let mut vary = |setting: Setting, name: &str, change: Change| {
        for model in VARIED {
            let mut parameters = setting.parameters(context);
            change(&mut parameters.assumed);
            cases.push(Case {
                series: series(model, setting, name),
                x: 0.0,
                model,
                parameters,
            });
        }
    };
    for setting in [Setting::Processor, Setting::Disks, Setting::Locks] {
        vary(setting, USUAL, |_| ());
    }
    for (name, settings, change) in others() {
        for setting in settings {
            vary(*setting, name, change);
        }
    }
    cases.truncate(context.size(usize::MAX, 24));
    cases.into_iter().map(Case::point).collect()
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let by_users = |row: &&Row| row.series.ends_with("by users");
    let by_users: Vec<Row> = rows.iter().filter(by_users).cloned().collect();
    let mut between = bounded(&by_users);
    between.claim += ", M7's own points by users";
    let mut verdicts = vec![between, confident(&by_users)];
    let approached = Model::ALL.map(|model| {
        let share = |mips, users| {
            let value = |name| mean(rows, &scaled(model, mips), users, name);
            value(TPS) / value("upper")
        };
        let (alone, many) = (share(10.0, 1.0), share(1.0, 100.0).max(share(10.0, 100.0)));
        let verdict = Verdict::of(
            format!("{} approaches its upper bound at both ends", model.name()),
            "at least 90 %",
            format!(
                "{:.1} % alone, {:.1} % with 100",
                100.0 * alone,
                100.0 * many
            ),
            alone >= 0.9 && many >= 0.9,
        );
        verdict.beside_the_claim(true)
    });
    verdicts.extend(approached);
    let within = summaries(&by_users)
        .into_iter()
        .filter(|s| s.name == BATCHES);
    let within = median(within.map(|s| s.mean).collect());
    let verdict = Verdict::of(
        "95 % interval by batch means within a run, a batch from checkpoint to checkpoint",
        "below 5 % of the mean, a bound of our own",
        format!("{within:.2} %, the median of all points"),
        within < 5.0,
    );
    verdicts.push(verdict.beside_the_claim(true));
    verdicts.extend(sensitivity(rows));
    verdicts
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Intervals over seeds of about 2 %.
fn confident(rows: &[Row]) -> Verdict {
    let rates = summaries(rows).into_iter().filter(|s| s.name == TPS);
    let widths: Vec<f64> = rates
        // One run has no interval.
        .map(|s| {
            if s.seeds < 2 {
                f64::INFINITY
            } else {
                100.0 * s.confidence / s.mean
            }
        })
        .collect();
    let widest = widths.iter().copied().fold(f64::NAN, f64::max);
    let median = median(widths);
    Verdict::of(
        "95 % interval over the runs of a point, M7's own points by users",
        "about 2 % of the mean, taken as: the median at most 2, the widest at most 3",
        match widest.is_finite() {
            true => format!("{median:.2} %, at most {widest:.2}"),
            false => "one run has no interval".into(),
        },
        median <= 2.0 && widest <= 3.0,
    )
}

/// What each assumption changes.
fn sensitivity(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (name, settings, _) in others() {
        for setting in settings {
            let changes = VARIED.map(|model| {
                let tps = |name: &str| mean(rows, &series(model, *setting, name), 0.0, TPS);
                (model, tps(USUAL), tps(name))
            });
            let told = changes
                .map(|(model, usual, other)| format!("{} {usual:.2} to {other:.2}", model.name()));
            let most = changes
                .map(|(_, usual, other)| (other / usual - 1.0).abs())
                .into_iter()
                .fold(0.0, f64::max);
            let measured = changes.iter().all(|(_, _, other)| other.is_finite());
            let verdict = Verdict::of(
                format!("{}, {name}: what it changes, tps", setting.name()),
                "5 % at most",
                told.join(", "),
                measured && most <= 0.05,
            );
            verdicts.push(verdict.beside_the_claim(true));
        }
    }
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    let shown = [
        (Model::UserRo, 1.0),
        (Model::UserLfs, 1.0),
        (Model::UserRo, 10.0),
        (Model::UserLfs, 10.0),
    ];
    let curve = |value: &'static str| {
        move |(model, mips): (Model, f64)| {
            let series = scaled(model, mips);
            let places = places(rows, &series).into_iter();
            let points = places.map(|x| (x, mean(rows, &series, x, value))).collect();
            let name = match value {
                TPS => "",
                _ => ": upper bound",
            };
            Curve::named(format!("{}, {mips} MIPS{name}", model.name()), points)
        }
    };
    Picture {
        title: "Throughput and what formulas allow".into(),
        x: "transactions at a time".into(),
        y: "transactions a second".into(),
        y_max: None,
        curves: shown.map(curve(TPS)).to_vec(),
        references: shown.map(curve("upper")).to_vec(),
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::simulated_transactions::{ABORTED, LOWER, UPPER, brief};
    use crate::simulator::transactions::bounds;

    fn rows(tps: &[f64]) -> Vec<Row> {
        let row = |(seed, tps): (usize, &f64)| {
            Row::new(scaled(Model::UserRo, 10.0), 1.0, seed as u64)
                .with(TPS, *tps)
                .with(ABORTED, 0.0)
                .with(LOWER, 5.0)
                .with(UPPER, 10.0)
        };
        tps.iter().enumerate().map(row).collect()
    }

    fn passing(rows: &[Row]) -> Vec<bool> {
        let verdicts = verdicts(rows).into_iter().filter(|v| !v.beside);
        verdicts.map(|v| v.pass).collect()
    }

    #[test]
    fn each_claim_can_fail() {
        assert_eq!(passing(&rows(&[9.95, 10.0, 10.05])), [true, true]);
        assert_eq!(
            passing(&rows(&[10.1, 10.2])),
            [false, false],
            "beyond, and 6 %"
        );
        assert_eq!(passing(&rows(&[4.9, 4.9])), [false, true], "below");
        assert_eq!(passing(&rows(&[9.0])), [true, false], "one run");
        assert_eq!(passing(&[]), [false, false]);
    }

    /// Disks of twice the speed, between the bounds of the right ones.
    #[test]
    fn a_wrong_disk_fails() {
        let usual = Parameters {
            users: 5,
            ..brief()
        };
        let pass = |factor: f64| {
            let mut parameters = usual.clone();
            parameters.service.random_ns *= factor;
            let case = Case {
                series: scaled(Model::UserLfs, 10.0),
                x: 5.0,
                model: Model::UserLfs,
                parameters,
            };
            let row = case
                .row(1)
                .with(UPPER, bounds(Model::UserLfs, &usual).upper);
            bounded(&[row]).pass
        };
        assert!(pass(1.0) && !pass(0.5));
    }
}
