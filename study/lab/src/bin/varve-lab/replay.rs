//! `varve lab replay`: a reader's own trace.

use serde_json::json;
use std::path::PathBuf;
use varve_console::output::{self, Failure, Outcome, Spinner};
use varve_lab::replay::{self, Finding, Findings, Wanted};
use varve_lab::trace::{Format, Source};

/// Replay a trace of your own through cleaning policies and layouts, and say
/// which to choose.
///
/// Traces of disks: the text of blkparse, MSR Cambridge, Tencent, DiskSim,
/// MQSim, CloudPhysics. Traces of files: the output of strace, NetBench,
/// Mobibench. zstd may have compressed them. study/README.md describes the
/// formats and what is measured.
#[derive(clap::Args)]
pub struct Replay {
    /// The trace.
    trace: PathBuf,
    /// Its format; recognised by default.
    #[arg(long, value_parser = format)]
    format: Option<Format>,
    /// A cleaning policy, several times or with commas; all of them by default.
    #[arg(long, value_delimiter = ',', value_parser = policy)]
    policy: Vec<String>,
    /// How full the volume is, in per cent (5 to 99), several times or with
    /// commas.
    #[arg(long, value_delimiter = ',', value_name = "PERCENT", default_value = "80,90",
          value_parser = clap::value_parser!(u8).range(5..=99))]
    utilisation: Vec<u8>,
    /// Every write waits until it is durable.
    #[arg(long)]
    synchronous: bool,
    /// Turns the disk's platter.
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Threads; as many as there are processors by default.
    #[arg(long)]
    jobs: Option<usize>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

fn format(name: &str) -> Result<Format, String> {
    Format::named(name).ok_or_else(|| {
        let names = Format::ALL.map(Format::name);
        format!("formats are {}", names.join(", "))
    })
}

fn policy(name: &str) -> Result<String, String> {
    let names = replay::policies();
    match names.contains(&name) {
        true => Ok(name.to_owned()),
        false => Err(format!("policies are {}", names.join(", "))),
    }
}

impl Replay {
    pub fn run(self) -> Outcome {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let policies = match self.policy.is_empty() {
            true => replay::policies().into_iter().map(str::to_owned).collect(),
            false => self.policy,
        };
        let percents = self.utilisation.iter();
        let wanted = Wanted {
            policies,
            utilisations: percents.map(|u| f64::from(*u) / 100.0).collect(),
            synchronous: self.synchronous,
            jobs: self.jobs.unwrap_or_else(processors),
            seed: self.seed,
        };
        let source = Source::open(&self.trace, self.format).map_err(Failure::with(1))?;
        let spinner = Spinner::new("replay");
        spinner.say(source.name());
        let findings = replay::replay(&source, &wanted);
        spinner.finish();
        let findings = findings.map_err(Failure::with(1))?;
        let advice = replay::advice(&findings);
        if self.json {
            output::json(&json!({ "findings": findings, "advice": advice }));
            return Ok(0);
        }
        output::lines(about(&findings));
        table(&findings);
        for sentence in advice {
            output::lines(format_args!("\n{sentence}"));
        }
        Ok(0)
    }
}

fn about(findings: &Findings) -> String {
    let megabytes = |blocks: u64| blocks * 4096 / 1_000_000;
    let sample = match findings.one_in {
        1 => String::new(),
        n => format!(" One in {n} of its regions or files was followed."),
    };
    let durable = match findings.synchronous {
        true => " Every write waits until it is durable.",
        false => "",
    };
    format!(
        "{} ({}): {} MB written and {} MB read a pass, in {} MB that live at most; segments of \
         {} KiB, {} passes.{sample}{durable}",
        findings.trace,
        findings.format,
        megabytes(findings.writes),
        megabytes(findings.reads),
        megabytes(findings.live.into()),
        findings.segment_blocks * 4,
        findings.passes,
    )
}

fn table(findings: &Findings) {
    let mut utilisation = None;
    for finding in &findings.systems {
        if utilisation != Some(finding.utilisation) {
            utilisation = Some(finding.utilisation);
            output::lines(format_args!(
                "\n{:>3.0} % full              blocks written  cleaned  disk: s a GB     NVMe-like: s a GB",
                100.0 * finding.utilisation
            ));
            output::line(
                "                        data   in all  at       write    read    write    read",
            );
        }
        output::lines(row(findings, finding));
    }
}

fn row(findings: &Findings, finding: &Finding) -> String {
    let name = match &finding.policy {
        Some(policy) => format!("log, {policy}"),
        None => finding.layout.text().to_owned(),
    };
    let cleaned = match finding.cleaned_at {
        Some(u) => format!("{:.0} %", 100.0 * u),
        None => "-".into(),
    };
    let time = |ns: u64| format!("{:.2}", findings.seconds_per_gigabyte(ns));
    let (write, read) = match finding.flash {
        Some(spent) => (time(spent.writing_ns), time(spent.reading_ns)),
        None => ("-".into(), "-".into()),
    };
    format!(
        "  {name:<20} {:>5.2}  {:>6.2}  {cleaned:>7} {:>8} {:>7} {write:>8} {read:>7}",
        finding.amplification,
        finding.in_all,
        time(finding.disk.writing_ns),
        time(finding.disk.reading_ns),
    )
}
