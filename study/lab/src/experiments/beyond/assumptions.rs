//! N6: what the B, L and X series assume where the papers have no figure, and what
//! other values change.
//!
//! | assumed | why | otherwise |
//! |---|---|---|
//! | bytes that wait in memory | 4.4BSD's threshold, on every machine but Sprite's | a quarter, four times |
//! | the processor's cycles (`platform/host.rs`) | estimates, before anything was measured | half, twice |
//! | cylinders of a group | 4.4BSD's default | half, twice |
//! | a cycle for an instruction (X) | nothing is said | two |
//! | the store's cache (X) | that of Seltzer et al. 1995 | half, twice |
//! | how long pages wait (X) | Sprite's 30 seconds | half, twice |
//!
//! Each is changed alone. The benchmarks are those of the series, smaller: 2,000 files of
//! 1 KB, a file of 16 MB in five passes, a quarter of the accounts before any cleaning.
//! What counts are the series' figures, how many times as fast the log is. A claim that
//! one is ahead must not hang on what was assumed; how far may.

use crate::experiments::bank::{Setting, When};
use crate::experiments::embedded_transactions::tpcb::embedded;
use crate::experiments::rivals::{
    BSD_LFS, EFS, HP_380, LFS, M8R2, MIB, Machine, PASSES, RANDOM_WRITE, READ_AGAIN, Rival,
    SPARC_2, large_file, rates,
};
use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::platform::Layout;
use crate::platform::files::{Files, Phase};
use crate::report::{Curve, Picture, Verdict, mean};

pub const N6: Experiment = Experiment::new("N6", points, verdicts, picture)
    .on_machine()
    .taking(86.0);

/// What is assumed, as factors on what the series have, and cycles of an instruction.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Assumed {
    name: &'static str,
    waiting: f64,
    cycles: f64,
    group: f64,
    instruction_cycles: Option<f64>,
    cache: f64,
}

const USUAL: Assumed = Assumed {
    name: "usual",
    waiting: 1.0,
    cycles: 1.0,
    group: 1.0,
    instruction_cycles: None,
    cache: 1.0,
};

const fn waiting(name: &'static str, waiting: f64) -> Assumed {
    Assumed {
        name,
        waiting,
        ..USUAL
    }
}

const fn cycles(name: &'static str, cycles: f64) -> Assumed {
    Assumed {
        name,
        cycles,
        ..USUAL
    }
}

const fn group(name: &'static str, group: f64) -> Assumed {
    Assumed {
        name,
        group,
        ..USUAL
    }
}

const fn cache(name: &'static str, cache: f64) -> Assumed {
    Assumed {
        name,
        cache,
        ..USUAL
    }
}

/// Of files.
const FILES: [Assumed; 6] = [
    waiting("a quarter waits in memory", 0.25),
    waiting("four times as much waits in memory", 4.0),
    cycles("half the cycles", 0.5),
    cycles("twice the cycles", 2.0),
    group("cylinder groups of 8", 0.5),
    group("cylinder groups of 32", 2.0),
];
/// Of the bank.
const BANK: [Assumed; 7] = [
    waiting("pages wait for 15 s", 0.5),
    waiting("pages wait for 60 s", 2.0),
    cycles("half the cycles", 0.5),
    cycles("twice the cycles", 2.0),
    Assumed {
        name: "two cycles for an instruction",
        instruction_cycles: Some(2.0),
        ..USUAL
    },
    cache("half of the store's cache", 0.5),
    cache("twice the store's cache", 2.0),
];

/// A series, on its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Series {
    B,
    L,
    X,
}

const EMBEDDED: &str = "embedded";
const BANK_FIGURE: f64 = 20.0;
/// Passes through the large file come behind the phases of the small ones.
const LARGE: f64 = 10.0;

/// Figures of files, by their place.
const FIGURES: [(&str, f64); 5] = [
    ("create", 1.0),
    ("read", 2.0),
    ("delete", 4.0),
    (PASSES[RANDOM_WRITE], LARGE + RANDOM_WRITE as f64),
    (PASSES[READ_AGAIN], LARGE + READ_AGAIN as f64),
];

impl Series {
    const ALL: [Series; 3] = [Series::B, Series::L, Series::X];

    /// The log, and what stands beside it.
    fn rivals(self) -> [Rival; 2] {
        match self {
            Series::L => [BSD_LFS, M8R2],
            Series::B | Series::X => [LFS, EFS],
        }
    }

    fn others(self) -> &'static [Assumed] {
        match self {
            Series::X => &BANK,
            Series::B | Series::L => &FILES,
        }
    }

    fn curve(self, system: &str, assumed: &Assumed) -> String {
        format!("{self:?}, {system}, {}", assumed.name)
    }
}

impl Assumed {
    fn machine(&self, usual: Machine) -> Machine {
        let dirty = usual.dirty_bytes() as f64 * self.waiting;
        let instruction = self
            .instruction_cycles
            .unwrap_or(usual.instruction_cycles());
        usual
            .with_dirty_bytes(dirty as u64)
            .of_processor(self.cycles, instruction)
    }

    fn layout(&self, usual: Layout) -> Layout {
        match usual {
            Layout::Ffs(mut ffs) => {
                ffs.group_cylinders = (f64::from(ffs.group_cylinders) * self.group) as u32;
                Layout::Ffs(ffs)
            }
            other => other,
        }
    }

    fn setting(&self, context: &Context, layout: Layout) -> Setting {
        let usual = Setting::of_chapter_5(layout, When::FRESH);
        Setting {
            machine: self.machine(usual.machine),
            accounts: context.size(usual.accounts / 4, 4000),
            cache_bytes: (usual.cache_bytes as f64 / 4.0 * self.cache) as u64,
            ..usual
        }
    }
}

/// Every case, beginning with the usual ones.
fn cases() -> impl Iterator<Item = (Series, Assumed)> {
    Series::ALL.into_iter().flat_map(|series| {
        let all = std::iter::once(&USUAL).chain(series.others());
        all.map(move |assumed| (series, *assumed))
    })
}

fn points(_: &Context) -> Vec<Point> {
    let mut points = Vec::new();
    for (series, assumed) in cases() {
        for (name, layout) in series.rivals() {
            let curve = series.curve(name, &assumed);
            points.push(Point::new(curve.clone(), move |context: &Context| {
                let rows = context.seeds().map(|seed| match series {
                    Series::X => bank(context, &curve, &assumed, layout, seed),
                    Series::B => files(context, &curve, assumed, (HP_380, layout), seed),
                    Series::L => files(context, &curve, assumed, (SPARC_2, layout), seed),
                });
                Ok(rows.collect::<Result<Vec<_>, LabError>>()?.concat())
            }));
        }
        if series == Series::X {
            let curve = series.curve(EMBEDDED, &assumed);
            points.push(Point::per_seed(curve.clone(), move |context, seed| {
                let setting = assumed.setting(context, Layout::Lfs);
                let found = embedded(context, &setting, When::FRESH, seed)?;
                Ok(Row::new(&curve, BANK_FIGURE, seed).with("rate", found.tps))
            }));
        }
    }
    points
}

fn bank(
    context: &Context,
    curve: &str,
    assumed: &Assumed,
    layout: Layout,
    seed: u64,
) -> Result<Vec<Row>, LabError> {
    let setting = assumed.setting(context, layout);
    let found = setting.measure(context, When::FRESH, seed)?;
    Ok(vec![
        Row::new(curve, BANK_FIGURE, seed).with("rate", found.tps),
    ])
}

/// Small files, and a large one on a volume of its own.
fn files(
    context: &Context,
    curve: &str,
    assumed: Assumed,
    (machine, layout): (Machine, Layout),
    seed: u64,
) -> Result<Vec<Row>, LabError> {
    let platform = assumed.machine(machine).with(assumed.layout(layout));
    let platform = context.platform(platform);
    let small = Files {
        count: context.size(2000, 100),
        bytes: 1024,
        in_directory: 100,
    };
    let mut system = platform.build(seed)?;
    let mut rows = rates(small, &Phase::SMALL, &mut *system, curve, seed)?;
    // A thread takes part in one simulation at a time.
    drop(system);
    let mut system = platform.build(seed)?;
    let large = large_file(&mut *system, curve, context.size(16, 2) * MIB, seed)?;
    let behind = |row: Row| Row {
        x: LARGE + row.x,
        ..row
    };
    rows.extend(large.into_iter().map(behind));
    let rate = |row: Row| {
        let rate = row.values["kb_per_s"];
        Row::new(row.series, row.x, row.seed).with("rate", rate)
    };
    Ok(rows.into_iter().map(rate).collect())
}

/// How many times as fast the first is, figure by figure.
fn figures(rows: &[Row], series: Series, assumed: &Assumed) -> Vec<(&'static str, f64)> {
    let rate = |system: &str, x: f64| mean(rows, &series.curve(system, assumed), x, "rate");
    let [(log, _), (rival, _)] = series.rivals();
    match series {
        Series::X => vec![
            ("LFS", rate(log, BANK_FIGURE) / rate(rival, BANK_FIGURE)),
            (
                "embedded",
                rate(EMBEDDED, BANK_FIGURE) / rate(log, BANK_FIGURE),
            ),
        ],
        Series::B | Series::L => FIGURES
            .map(|(name, x)| (name, rate(log, x) / rate(rival, x)))
            .to_vec(),
    }
}

/// Two that differ by less are alike: neither is ahead.
const ALIKE: f64 = 0.1;

/// Whether nobody who was ahead is behind.
fn agree(usual: f64, other: f64) -> bool {
    let ahead = |times: f64| times > 1.0 + ALIKE;
    let behind = |times: f64| times < 1.0 - ALIKE;
    usual.is_finite()
        && other.is_finite()
        && !(ahead(usual) && behind(other))
        && !(behind(usual) && ahead(other))
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for series in Series::ALL {
        let usual = figures(rows, series, &USUAL);
        for assumed in series.others() {
            let other = figures(rows, series, assumed);
            let pairs = usual.iter().zip(&other);
            let told = pairs
                .clone()
                .map(|((name, usual), (_, other))| format!("{name} {usual:.2} to {other:.2}"));
            let [(log, _), (rival, _)] = series.rivals();
            verdicts.push(Verdict::of(
                format!("{series:?}, {}: {log} against {rival}, times", assumed.name),
                "who is ahead by a tenth is not behind by one",
                told.collect::<Vec<_>>().join(", "),
                pairs
                    .clone()
                    .all(|((_, usual), (_, other))| agree(*usual, *other)),
            ));
        }
    }
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    let curve = |series: Series| {
        let worst = |assumed: &Assumed| {
            let usual = figures(rows, series, &USUAL).into_iter();
            let pairs = usual.zip(figures(rows, series, assumed));
            let changes = pairs.map(|((_, usual), (_, other))| 100.0 * (other / usual - 1.0));
            changes.fold(0.0, |most: f64, change| match change.abs() > most.abs() {
                true => change,
                false => most,
            })
        };
        let all = series.others().iter().enumerate();
        let points = all.map(|(at, assumed)| (at as f64 + 1.0, worst(assumed)));
        Curve::named(format!("{series:?}"), points.collect())
    };
    Picture {
        title: "What each assumption changes most".into(),
        x: "assumption, as in the verdicts".into(),
        y: "percent of how many times as fast the log is".into(),
        y_max: None,
        curves: Series::ALL.map(curve).to_vec(),
        references: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A processor a thousand times as slow decides alone: who was ahead by the arm is
    /// so no more.
    #[test]
    fn what_decides_who_is_ahead_is_seen() {
        assert!(agree(2.0, 0.95) && agree(0.95, 2.0) && agree(3.0, 2.0));
        assert!(!agree(2.0, 0.8) && !agree(0.8, 2.0) && !agree(f64::NAN, 1.0));
    }
}
