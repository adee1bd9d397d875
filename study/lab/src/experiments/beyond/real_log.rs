//! N4: amplification on the real log, mounted on memory: overwrites of 4 KiB at
//! random without idle time, uniform and with nine in ten to a tenth of the
//! blocks, under the policies with one head and with several.
//!
//! Counted are blocks as the layout counts what it writes, in the last volume's
//! worth after three: data once more for each move, everything else beside it.

use crate::experiments::bank::cleaned_at;
use crate::experiments::mounted::{Mounted, Setting, counted};
use crate::experiments::{Context, Experiment, Point, Row};
use crate::policy::SepBit;
use crate::report::{Curve, Picture, Verdict, mean};
use varve_lfs::policy::PolicyKind;
use varve_prove::random::Random;

pub const N4: Experiment = Experiment::new("N4", points, verdicts, picture).taking(130.0);

/// To compare with; no mount has it.
const SEPBIT: PolicyKind = PolicyKind::new("sepbit", || Box::<SepBit>::default());

/// A volume, how full it is, and what is written to it.
#[derive(Clone, Copy, Debug)]
struct Case {
    policy: PolicyKind,
    heads: u32,
    hot: bool,
    percent: u64,
    /// Blocks go into holes where clean segments are short.
    holes: bool,
    /// A checkpoint for each 64th of the volume that is logged, not for each
    /// eighth: the cleaner, which needs the record before the newest, may choose
    /// nearly every segment.
    free: bool,
}

impl Case {
    fn series(self) -> String {
        let load = if self.hot { "hot-and-cold" } else { "uniform" };
        let holes = if self.holes { ", holes" } else { "" };
        let free = if self.free { ", free choice" } else { "" };
        match self.heads {
            0 => format!("{load}, {}{holes}{free}", self.policy.name()),
            1 => format!("{load}, {}, one head{holes}{free}", self.policy.name()),
            heads => format!("{load}, {}, {heads} heads{holes}{free}", self.policy.name()),
        }
    }
}

fn cases() -> Vec<Case> {
    let case = |policy, heads, hot, percent| Case {
        policy,
        heads,
        hot,
        percent,
        holes: false,
        free: false,
    };
    let uniform = [50, 80, 90].map(|percent| case(PolicyKind::GREEDY, 1, false, percent));
    let hot = [
        (PolicyKind::GREEDY, 1),
        (PolicyKind::COST_BENEFIT, 1),
        (SEPBIT, 0),
        (PolicyKind::LIFE_CLASSES, 1),
        (PolicyKind::LIFE_CLASSES, 2),
        (PolicyKind::LIFE_CLASSES, 3),
        (PolicyKind::LIFE_CLASSES, 4),
        (PolicyKind::LIFE_CLASSES, 0),
    ];
    let mut cases: Vec<Case> = uniform.to_vec();
    cases.push(case(PolicyKind::LIFE_CLASSES, 0, false, 80));
    cases.extend(hot.map(|(policy, heads)| case(policy, heads, true, 80)));
    let holes = |policy, heads, hot, percent| Case {
        holes: true,
        ..case(policy, heads, hot, percent)
    };
    cases.extend([80, 90].map(|percent| holes(PolicyKind::GREEDY, 2, false, percent)));
    cases.push(holes(PolicyKind::GREEDY, 1, false, 90));
    for percent in [80, 90] {
        cases.push(holes(PolicyKind::GREEDY, 1, true, percent));
        cases.push(holes(PolicyKind::LIFE_CLASSES, 0, true, percent));
    }
    cases.push(holes(PolicyKind::LIFE_CLASSES, 0, false, 90));
    let free = [(PolicyKind::GREEDY, 1), (PolicyKind::LIFE_CLASSES, 0)];
    cases.extend(free.map(|(policy, heads)| Case {
        free: true,
        ..case(policy, heads, true, 80)
    }));
    cases
}

fn points(_: &Context) -> Vec<Point> {
    let point = |case: Case| {
        let label = format!("{} at {} %", case.series(), case.percent);
        Point::new(label, move |context: &Context| {
            Ok(vec![measure(context, case)])
        })
    };
    cases().into_iter().map(point).collect()
}

fn measure(context: &Context, case: Case) -> Row {
    let (volume_bytes, segment_bytes) = context.size((256 << 20, 256 << 10), (12 << 20, 64 << 10));
    let setting = Setting {
        volume_bytes,
        segment_bytes,
        policy: case.policy,
        heads: case.heads,
        holes: case.holes,
        checkpoint_bytes: case.free.then_some(volume_bytes / 64),
        discard: false,
    };
    let mut log = Mounted::new(context, setting);
    let blocks = log.fill(context, case.percent);
    let all = log.volume_blocks();
    let mut random = Random::new(context.seed);
    log.overwrite(&mut random, blocks, case.hot, context.size(3, 1) * all);
    let before = log.statistics();
    log.overwrite(&mut random, blocks, case.hot, all);
    let row = Row::new(case.series(), case.percent as f64, context.seed);
    counted(row, &before, &log.statistics())
}

/// Amplification of the greedy cleaner on uniform writes.
fn greedy_bound(utilisation: f64) -> f64 {
    1.0 / (1.0 - cleaned_at(utilisation))
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for percent in [50.0, 80.0, 90.0] {
        let found = mean(rows, "uniform, greedy, one head", percent, "data");
        let bound = greedy_bound(percent / 100.0);
        verdicts.push(Verdict::of(
            format!("greedy on uniform writes at {percent} %"),
            format!("within 10 % of {bound:.2}"),
            format!("{found:.2}"),
            found <= 1.1 * bound,
        ));
        let others = mean(rows, "uniform, greedy, one head", percent, "other_share");
        verdicts.push(Verdict::of(
            format!("metadata, summaries and padding at {percent} %"),
            "at most 12 % of what is written",
            format!("{:.1} %", 100.0 * others),
            others <= 0.12,
        ));
    }
    let hot = |policy: &str| mean(rows, &format!("hot-and-cold, {policy}"), 80.0, "data");
    let best = hot("life-classes");
    for (policy, least) in [("greedy", 0.35), ("cost-benefit", 0.15)] {
        let rival = hot(&format!("{policy}, one head"));
        let gain = 1.0 - best / rival;
        verdicts.push(Verdict::of(
            format!("life-classes on several heads against {policy}, hot and cold, 80 %"),
            format!("at least {:.0} % lower", 100.0 * least),
            format!("{best:.2} for {rival:.2}, {:.0} %", 100.0 * gain),
            gain >= least,
        ));
    }
    let (best, rival) = (
        hot("life-classes, free choice"),
        hot("greedy, one head, free choice"),
    );
    let gain = 1.0 - best / rival;
    verdicts.push(Verdict::of(
        "the same where the cleaner may choose freely, against greedy",
        "at least 35 % lower",
        format!("{best:.2} for {rival:.2}, {:.0} %", 100.0 * gain),
        gain >= 0.35,
    ));
    let holes = mean(rows, "uniform, greedy, 2 heads, holes", 90.0, "in_all");
    verdicts.push(Verdict::of(
        "uniform writes at 90 %, holes written into, everything counted",
        "at most 1.6",
        format!("{holes:.2}"),
        holes <= 1.6,
    ));
    let best = hot("life-classes, holes");
    for (policy, least) in [("greedy", 0.35), ("cost-benefit", 0.15)] {
        let gain = 1.0 - best / hot(&format!("{policy}, one head"));
        verdicts.push(Verdict::of(
            format!("life-classes and holes against {policy}, hot and cold, 80 %"),
            format!("at least {:.0} % lower", 100.0 * least),
            format!("{best:.2}, {:.0} %", 100.0 * gain),
            gain >= least,
        ));
    }
    verdicts
}

fn picture(rows: &[Row]) -> Picture {
    Picture {
        title: "Amplification of data blocks on the real log".into(),
        x: "per cent of what segments outside the reserve hold".into(),
        y: "data blocks written per block of the user".into(),
        y_max: None,
        curves: Curve::all(rows, "data"),
        references: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::sprite_lfs::greedy_cleaning::tests::Fullest;

    /// A cleaner that takes the fullest segments and places nothing, and a log that takes a checkpoint
    /// for each segment.
    #[test]
    fn a_wrong_cleaner_or_log_fails() {
        const FULLEST: PolicyKind = PolicyKind::new("fullest", || Box::new(Fullest));
        const CHECKPOINTS: &str = "metadata, summaries and padding";
        let context = Context {
            small: false,
            ..Context::tiny()
        };
        let run = |series: &str, hot, percent: u64, checkpoint_bytes| {
            let setting = Setting {
                volume_bytes: 64 << 20,
                segment_bytes: 64 << 10,
                policy: FULLEST,
                heads: 1,
                holes: false,
                checkpoint_bytes,
                discard: false,
            };
            let mut log = Mounted::new(&context, setting);
            // So small a volume cannot be filled to more.
            let blocks = log.fill(&context, percent.min(72));
            let mut random = Random::new(1);
            let all = log.volume_blocks();
            log.overwrite(&mut random, blocks, hot, all);
            let before = log.statistics();
            log.overwrite(&mut random, blocks, hot, all / 2);
            counted(
                Row::new(series, percent as f64, 1),
                &before,
                &log.statistics(),
            )
        };
        let uniform = |checkpoint_bytes| {
            let greedy = "uniform, greedy, one head";
            [50, 80, 90].map(|percent| run(greedy, false, percent, checkpoint_bytes))
        };
        let mut rows = uniform(None).to_vec();
        rows.push(Row {
            series: "uniform, greedy, 2 heads, holes".into(),
            ..rows[2].clone()
        });
        let hot = run("", true, 80, None);
        // One cleaner under every name: placement gains nothing.
        for series in [
            "life-classes",
            "life-classes, holes",
            "life-classes, free choice",
            "greedy, one head",
            "cost-benefit, one head",
            "greedy, one head, free choice",
        ] {
            rows.push(Row {
                series: format!("hot-and-cold, {series}"),
                ..hot.clone()
            });
        }
        for verdict in verdicts(&rows) {
            let fails = !verdict.pass && !verdict.measured.contains('–');
            // The bound of 90 % needs a fuller volume; it is judged as that of 80 % is.
            let is_left_out =
                verdict.claim.starts_with(CHECKPOINTS) || verdict.claim.ends_with("writes at 90 %");
            assert!(fails || is_left_out, "{verdict}");
        }
        let often = verdicts(&uniform(Some(64 << 10)));
        let often = often.iter().filter(|v| v.claim.starts_with(CHECKPOINTS));
        assert_eq!(often.map(|v| v.pass).collect::<Vec<_>>(), [false; 3]);
    }

    #[test]
    fn the_bound_is_that_of_the_literature() {
        for (utilisation, bound) in [(0.5, 1.255), (0.8, 2.69), (0.9, 5.18)] {
            let found = greedy_bound(utilisation);
            assert!((found / bound - 1.0).abs() < 0.01, "{utilisation}: {found}");
        }
    }
}
