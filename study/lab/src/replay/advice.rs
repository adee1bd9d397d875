//! Which to choose, in a sentence for each utilisation.

use super::{Finding, Findings, Layout};

/// Policies that a mount has, the default first.
const MOUNTED: [&str; 3] = ["greedy", "cost-benefit", "life-classes"];
/// What gains less than this is not worth another choice.
const TIE: f64 = 1.02;

/// See the module's head.
pub fn advice(findings: &Findings) -> Vec<String> {
    let mut utilisations: Vec<f64> = findings.systems.iter().map(|f| f.utilisation).collect();
    utilisations.dedup();
    let sentence = |utilisation: f64| {
        let systems = findings.systems.iter();
        let systems: Vec<&Finding> = systems.filter(|f| f.utilisation == utilisation).collect();
        format!(
            "At {:.0} % full, {}{}.",
            100.0 * utilisation,
            layout(&systems, findings),
            policies(&systems)
        )
    };
    utilisations.into_iter().map(sentence).collect()
}

/// Of what is mounted, the log that writes least; the default if that is as good.
fn best_log<'a>(systems: &[&'a Finding]) -> Option<&'a Finding> {
    let logs = MOUNTED.iter().filter_map(|name| log(systems, name));
    let best = logs.min_by(|a, b| a.in_all.total_cmp(&b.in_all))?;
    let default = log(systems, MOUNTED[0]);
    Some(
        default
            .filter(|f| f.in_all <= best.in_all * TIE)
            .unwrap_or(best),
    )
}

fn log<'a>(systems: &[&'a Finding], policy: &str) -> Option<&'a Finding> {
    let mut systems = systems.iter().copied();
    systems.find(|f| f.policy.as_deref() == Some(policy))
}

/// The layout whose device is busy for the shortest time.
fn layout(systems: &[&Finding], findings: &Findings) -> String {
    let others = systems.iter().copied();
    let others = others.filter(|f| f.layout != Layout::Log);
    let any_log = || {
        let logs = systems.iter().copied().filter(|f| f.layout == Layout::Log);
        logs.min_by(|a, b| a.in_all.total_cmp(&b.in_all))
    };
    let rivals: Vec<&Finding> = best_log(systems)
        .or_else(any_log)
        .into_iter()
        .chain(others)
        .collect();
    let on = |device: &str, time: &dyn Fn(&Finding) -> Option<u64>| {
        let mut rivals: Vec<(u64, &Finding)> =
            rivals.iter().filter_map(|f| Some((time(f)?, *f))).collect();
        rivals.sort_by_key(|(ns, _)| *ns);
        let (first, rest) = rivals.split_first()?;
        let told = |(ns, f): &(u64, &Finding)| format!("{} {}", seconds(*ns, findings), called(f));
        let rest: Vec<String> = rest.iter().map(told).collect();
        Some(format!(
            "{device} choose {} (busy {} s for each GB written; {})",
            named(first.1),
            seconds(first.0, findings),
            rest.join(", ")
        ))
    };
    let disk = on("on a disk", &|f| Some(f.disk.total_ns()));
    let flash = on("on NVMe-like flash", &|f| {
        f.flash.map(|spent| spent.total_ns())
    });
    let parts: Vec<String> = disk.into_iter().chain(flash).collect();
    parts.join(", ")
}

fn named(finding: &Finding) -> String {
    match (finding.layout, finding.policy.as_deref()) {
        (Layout::Log, Some("greedy")) => "the log with its default cleaner".into(),
        (Layout::Log, Some(policy)) if MOUNTED.contains(&policy) => {
            format!("the log with -o cleaner={policy}")
        }
        (Layout::Log, Some(policy)) => format!("the log with {policy}"),
        (Layout::Log, None) => "the log".into(),
        (Layout::InPlace, _) => "update in place (--layout ffs)".into(),
        (Layout::VirtualLog, _) => "the virtual log (--layout vlfs)".into(),
    }
}

fn called(finding: &Finding) -> &'static str {
    match finding.layout {
        Layout::Log => "on the log",
        Layout::InPlace => "in place",
        Layout::VirtualLog => "on the virtual log",
    }
}

/// Device time for each gigabyte that users wrote.
fn seconds(ns: u64, findings: &Findings) -> String {
    format!("{:.2}", findings.seconds_per_gigabyte(ns))
}

fn policies(systems: &[&Finding]) -> String {
    let Some(best) = best_log(systems) else {
        return String::new();
    };
    let name = best.policy.as_deref().unwrap_or_default();
    let told = |f: &&Finding| {
        let name = f.policy.as_deref().unwrap_or_default();
        format!("{name} {:.2}", f.in_all)
    };
    let logs = systems.iter().copied();
    let mut rivals: Vec<&Finding> = logs
        .filter(|f| f.layout == Layout::Log && f.policy != best.policy)
        .collect();
    rivals.sort_by(|a, b| a.in_all.total_cmp(&b.in_all));
    let rivals: Vec<String> = rivals.iter().map(told).collect();
    let against = match rivals.is_empty() {
        true => String::new(),
        false => format!(" ({})", rivals.join(", ")),
    };
    format!(
        "; of the cleaners that a mount has, {name} is {}: {:.2} blocks written for each of \
         yours{against}",
        match name == MOUNTED[0] {
            true => "as good as any or better",
            false => "best",
        },
        best.in_all
    )
}
