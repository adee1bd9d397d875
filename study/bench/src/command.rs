//! The options of `varve bench`, and what they run.

use crate::bench::{
    self, Fault, Head, Library, Selection, Settings, System, Workload, ratio_table,
};
use clap::Parser;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use varve::admin::{self, Statistics};
use varve::{IoMode, Layout, Preallocation, VolumeOptions};
use varve_console::output::{self, Failure, Outcome, Progress};
use varve_console::size;
use varve_ffs::FfsFormatOptions;

/// Measure: one JSON line per phase.
///
/// With --image, the library is driven on a fresh volume in that file, which
/// is made, fully written, if it is missing. With --dir, the same workloads
/// run through system calls on any mounted file system.
#[derive(Parser)]
#[command(name = "varve-bench", bin_name = "varve bench", version)]
pub struct BenchCommand {
    /// smallfile, sizes, largefile, fsyncupdate, tpcb, metadata, cached,
    /// fillaging, oo1, wisconsin, scan, andrew, multiandrew, supercomputer,
    /// bandwidth, bigfile, office or all.
    #[arg(default_value = "all")]
    workload: Selection,
    /// The same as --dir.
    #[arg(value_name = "DIR", group = "mounted")]
    directory: Option<PathBuf>,
    /// Image file for a fresh volume; whatever volume it holds is lost.
    #[arg(
        long,
        required_unless_present_any = ["mounted", "table"],
        conflicts_with = "mounted"
    )]
    image: Option<PathBuf>,
    /// Measure this mounted directory instead.
    #[arg(long, group = "mounted")]
    dir: Option<PathBuf>,
    /// Print these results as a Markdown table of ratios instead.
    #[arg(long, num_args = 1.., conflicts_with_all = ["image", "mounted"])]
    table: Vec<PathBuf>,
    /// The file system that the table divides by; the first by default.
    #[arg(long, requires = "table")]
    baseline: Option<String>,
    /// Bytes of the image.
    #[arg(long, value_parser = size::parse, default_value = "2G")]
    size: u64,
    /// With --image: how the volume places blocks, as `varve mkfs --layout`.
    #[arg(long, value_parser = Placement::parse, default_value = "log", conflicts_with = "mounted")]
    layout: Placement,
    /// Name in the output; varve-lib by default.
    #[arg(long)]
    tag: Option<String>,
    /// Times each workload is run.
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// Number of the first run in the output.
    #[arg(long, default_value_t = 1)]
    first_run: u32,
    /// Bytes of memory for the volume; what other file systems get from the
    /// host's page cache.
    #[arg(long, value_parser = size::parse, default_value = "1G")]
    cache: u64,
    /// How the image is read and written.
    #[arg(long, default_value = "direct")]
    io: IoMode,
    /// How many files, accounts, parts or tuples; passes of a user of andrew and
    /// multiandrew, runs of bandwidth, requests of supercomputer, steps of
    /// office.
    #[arg(long, value_parser = size::parse)]
    n: Option<u64>,
    /// Bytes of a file.
    #[arg(long, value_parser = size::parse)]
    file_size: Option<u64>,
    /// Smallest file of sizes.
    #[arg(long, value_parser = size::parse, default_value = "0")]
    min: u64,
    /// Directories of smallfile.
    #[arg(long, default_value_t = 100)]
    dirs: u64,
    /// Bytes of a request of largefile; 8K and 1M by default.
    #[arg(long, value_parser = size::parse)]
    unit: Option<u64>,
    /// Bytes in all of sizes, 32M by default; that live in office, 64M.
    #[arg(long, value_parser = size::parse)]
    total: Option<u64>,
    /// Most seconds of a timed phase.
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    /// Threads of fsyncupdate, metadata and cached, 1 by default; most users of
    /// multiandrew, 8.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Seconds of the processor that a pass of andrew or multiandrew uses for
    /// what a compiler computes; by default none, and only calls are made.
    #[arg(long, value_parser = seconds, default_value = "0")]
    compute: f64,
    /// Varies content and order.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Per cent to which fillaging fills.
    #[arg(long, default_value_t = 75)]
    util: u64,
    /// Times the capacity that fillaging overwrites.
    #[arg(long, default_value_t = 1.0)]
    volume: f64,
    /// No fdatasync in fsyncupdate and tpcb, no waiting for the log in scan.
    #[arg(long)]
    nosync: bool,
    /// Never drop caches.
    #[arg(long)]
    nodrop: bool,
    /// Leave the files behind.
    #[arg(long)]
    keep: bool,
    /// With --dir: a shell command for every cold point, such as a remount.
    #[arg(long, requires = "mounted")]
    cold_cmd: Option<String>,
    /// With --dir: the process that serves it; its memory and processor time
    /// are measured.
    #[arg(long, requires = "mounted", value_name = "PID")]
    server: Option<u32>,
    /// With --dir: sync this file system, too.
    #[arg(long, requires = "mounted")]
    sync_also: Vec<PathBuf>,
    /// Print the volume's counters after each workload, on stderr.
    #[arg(long)]
    statistics: bool,
}

/// Where a fresh volume places blocks.
#[derive(Clone)]
enum Placement {
    Log,
    VirtualLog,
    /// In place, as FFS or another policy of allocation does.
    InPlace(Box<FfsFormatOptions>),
}

impl Placement {
    fn parse(name: &str) -> Result<Self, String> {
        match name {
            "log" => Ok(Placement::Log),
            "vlfs" => Ok(Placement::VirtualLog),
            _ => FfsFormatOptions::named(name)
                .map(|usual| Placement::InPlace(Box::new(usual)))
                .ok_or_else(|| "layouts are log, vlfs, ffs and others of `varve mkfs`".into()),
        }
    }

    fn choose(&self, options: &mut VolumeOptions) {
        match self {
            Placement::Log => options.layout(Layout::Log),
            Placement::VirtualLog => options.layout(Layout::VirtualLog),
            Placement::InPlace(usual) => options
                .layout(Layout::InPlace)
                .metadata(usual.metadata)
                .allocation(usual.policy.clone()),
        };
    }
}

impl BenchCommand {
    pub fn run(self) -> Outcome {
        if !self.table.is_empty() {
            return self.print_table();
        }
        for &workload in &self.workload.0 {
            for run in 0..self.runs {
                let head = Head {
                    tag: self.tag(),
                    run: self.first_run + run,
                    workload: workload.name(),
                };
                let done = match self.mounted() {
                    Some(directory) => self.run_system(directory, workload, head),
                    None => self.run_library(workload, head)?,
                };
                match done {
                    Ok(()) => {}
                    Err(fault @ Fault::Data(_)) => return Err(Failure::new(2, fault)),
                    Err(fault) => return Err(Failure::new(1, fault)),
                }
            }
        }
        Ok(0)
    }

    /// The directory that is measured, if one is.
    fn mounted(&self) -> Option<&Path> {
        self.directory.as_deref().or(self.dir.as_deref())
    }

    fn tag(&self) -> &str {
        match (&self.tag, self.mounted()) {
            (Some(tag), _) => tag,
            (None, None) => "varve-lib",
            (None, Some(_)) => "dir",
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            n: self.n,
            file_bytes: self.file_size,
            min_bytes: self.min,
            directories: self.dirs,
            unit: self.unit,
            total: self.total,
            seconds: self.seconds,
            threads: self.threads.map(usize::from),
            compute_s: self.compute,
            seed: self.seed,
            fill_percent: self.util,
            volume: self.volume,
            no_sync: self.nosync,
            no_drop: self.nodrop,
            keep: self.keep,
            process: match self.mounted() {
                Some(_) => self.server,
                None => Some(std::process::id()),
            },
        }
    }

    fn run_system(
        &self,
        directory: &Path,
        workload: Workload,
        head: Head<'_>,
    ) -> Result<(), Fault> {
        let target = System {
            directory: directory.to_owned(),
            sync_also: self.sync_also.clone(),
            cold_command: self.cold_cmd.clone(),
        };
        raise_file_limit();
        let root = format!("{}/", directory.display());
        let print = |text: &str| output::lines(text);
        bench::run(&target, &root, workload, &self.settings(), head, &print)
    }

    fn run_library(
        &self,
        workload: Workload,
        head: Head<'_>,
    ) -> Result<Result<(), Fault>, Failure> {
        let image = self.image.as_deref().expect("clap asks for one of them");
        self.make_volume(image)?;
        let target = Library {
            volume: VolumeOptions::new()
                .cache(self.cache)
                .io(self.io)
                .open(image)?,
        };
        let print = |text: &str| output::lines(text);
        let done = bench::run(&target, "/", workload, &self.settings(), head, &print);
        if self.statistics
            && let Some(fs) = admin::tree(&target.volume).log()
        {
            let layout = Statistics::of(fs).layout;
            let counters: Map<String, Value> = layout
                .named()
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.into()))
                .collect();
            output::notes(Value::Object(counters));
        }
        target.volume.close()?;
        Ok(done)
    }

    /// A fresh volume; the image is written once, and formatted each time.
    fn make_volume(&self, image: &Path) -> Result<(), Failure> {
        let exists = image.exists();
        let mut options = VolumeOptions::new();
        options
            .preallocate(Preallocation::Written)
            // Only a volume may be overwritten without asking.
            .overwrite(exists && admin::read_superblock(image).is_ok());
        self.layout.choose(&mut options);
        if !exists {
            options.size(self.size);
        }
        let progress = Progress::bytes("writing the image");
        let made = admin::format(image, &options, &mut |done, total| {
            progress.at(done, total);
        });
        progress.finish();
        made.map(drop).map_err(Failure::from)
    }

    fn print_table(&self) -> Outcome {
        let mut text = String::new();
        for file in &self.table {
            let read = std::fs::read_to_string(file).map_err(|error| {
                Failure::new(1, format_args!("cannot read {}: {error}", file.display()))
            })?;
            text.push_str(&read);
        }
        let table = ratio_table(&text, self.baseline.as_deref()).map_err(Failure::with(1))?;
        output::lines(table.trim());
        Ok(0)
    }
}

/// Seconds, which are not negative, and no more than a year.
fn seconds(text: &str) -> Result<f64, String> {
    const YEAR: f64 = 366.0 * 86_400.0;
    let seconds: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    match (0.0..=YEAR).contains(&seconds) {
        true => Ok(seconds),
        false => Err("from 0 to a year of seconds".to_owned()),
    }
}

/// fillaging keeps many files open.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}
