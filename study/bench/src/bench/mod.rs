//! Benchmarks: the same workloads on the library and on any mounted directory.
//!
//! One JSON object is printed per phase, in the format of the reference
//! benchmark, so that one table compares all. Rules of counting:
//! - `seconds` is time inside file-system calls, with the closing sync where a
//!   workload says so; making and checking content is left out. With several
//!   threads it is wall time from the common start to the last thread's end.
//!   The programs on a record store, oo1, wisconsin and scan, are timed whole,
//!   with the store's own work; what andrew computes is part of its time.
//! - Latencies of calls that need not be durable are those of the
//!   acknowledgement; what makes them durable is a phase, or a member
//!   (`sync_s`), of its own. Neither is hidden in the other.
//! - "Cold" is a sync, then every cache dropped that we may drop.
//! - `cpu_s` and `peak_bytes` are those of the process that is the file system,
//!   where it is known: this one, making and checking content included, when
//!   the library is driven.

mod library;
mod numbers;
mod pattern;
mod process;
mod record;
mod settings;
mod system;
mod table;
mod target;
mod workers;
mod workload;

pub use library::Library;
pub use record::Head;
pub use settings::{Selection, Settings, Workload};
pub use system::System;
pub use table::ratio_table;
pub use target::Fault;

use pattern::Pattern;
use process::{Process, Used};
use record::Record;
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::time::{Duration, Instant};
use target::{How, Outcome, Target, TargetFile};
use varve_device::AlignedBuffer;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A workload under way.
pub struct Bench<'a, T: Target> {
    target: &'a T,
    settings: &'a Settings,
    head: Head<'a>,
    base: String,
    phase: RefCell<String>,
    buffer: RefCell<AlignedBuffer>,
    process: Option<Process>,
    used: Cell<Option<Used>>,
    print: &'a dyn Fn(&str),
}

/// Runs one workload in a directory of its own below `root`, which ends in a
/// slash, and prints its lines. The directory is removed afterwards, whatever
/// happened, unless it is to be kept or holds wrong data to look at.
///
/// # Errors
/// What stopped it; the line that says so has been printed.
pub fn run<T: Target>(
    target: &T,
    root: &str,
    workload: Workload,
    settings: &Settings,
    head: Head<'_>,
    print: &dyn Fn(&str),
) -> Outcome<()> {
    let bench = Bench {
        target,
        settings,
        head,
        base: format!("{root}bench.{}", head.workload),
        phase: RefCell::new("setup".into()),
        buffer: RefCell::new(AlignedBuffer::zeroed(MIB as usize)),
        process: settings.process.map(Process::of),
        used: Cell::default(),
        print,
    };
    let run = || {
        target.remove_tree(&bench.base)?;
        target.make_dir(&bench.base)?;
        workload::run(&bench, workload)?;
        match settings.keep {
            true => Ok(()),
            false => target.remove_tree(&bench.base),
        }
    };
    run().inspect_err(|fault: &Fault| {
        print(&head.error(&bench.phase.borrow(), &fault.to_string()));
        if !settings.keep && !matches!(fault, Fault::Data(_)) {
            // What is in the way of it, if anything, has been said.
            let _ = target.remove_tree(&bench.base);
        }
    })
}

impl<T: Target> Bench<'_, T> {
    /// A path below the workload's directory.
    fn path(&self, below: std::fmt::Arguments<'_>) -> String {
        let mut path = String::with_capacity(self.base.len() + 32);
        let written = write!(path, "{}/{below}", self.base);
        written.expect("a string takes everything");
        path
    }

    fn pattern(&self) -> Pattern {
        Pattern {
            seed: self.settings.seed,
        }
    }

    fn begin(&self, phase: &str) -> Record {
        phase.clone_into(&mut self.phase.borrow_mut());
        if let Some(process) = &self.process {
            process.reset_peak();
            self.used.set(process.used());
        }
        Record::default()
    }

    fn emit(&self, record: &Record, seconds: f64, extra: &str) {
        let extra = format!("{extra}{}", self.use_since_begin());
        let line = record.json(&self.head, &self.phase.borrow(), seconds, &extra);
        (self.print)(&line);
    }

    /// Members that say what the file system's process used in this phase.
    fn use_since_begin(&self) -> String {
        let now = self.process.as_ref().and_then(Process::used);
        let (Some(before), Some(now)) = (self.used.get(), now) else {
            return String::new();
        };
        format!(
            ",\"cpu_s\":{:.2},\"peak_bytes\":{}",
            now.cpu.saturating_sub(before.cpu).as_secs_f64(),
            now.peak_bytes
        )
    }

    /// Emits a phase whose time is that inside its calls.
    fn emit_busy(&self, record: &Record, extra: &str) {
        self.emit(record, record.busy.as_secs_f64(), extra);
    }

    /// Emits a part of a phase, or one that took turns with others: what the
    /// process used is not told apart.
    fn emit_part(&self, phase: &str, record: &Record, seconds: f64, extra: &str) {
        phase.clone_into(&mut self.phase.borrow_mut());
        let line = record.json(&self.head, phase, seconds, extra);
        (self.print)(&line);
    }

    /// Makes everything durable; answers how long that took.
    fn sync_point(&self) -> Outcome<Duration> {
        let begun = Instant::now();
        self.target.sync()?;
        Ok(begun.elapsed())
    }

    /// A sync point that is a phase of its own.
    fn sync_phase(&self, phase: &str, bytes: u64, extra: &str) -> Outcome<()> {
        let mut record = self.begin(phase);
        record.add_time(self.sync_point()?, bytes);
        self.emit_busy(&record, extra);
        Ok(())
    }

    fn cold(&self) -> Outcome<()> {
        if self.settings.no_drop {
            return Ok(());
        }
        self.sync_point()?;
        self.target.forget()
    }

    /// Writes a whole file in pieces of at most 1 MiB. The time inside the
    /// calls is one operation.
    fn write_file(
        &self,
        record: &mut Record,
        path: &str,
        how: How,
        (id, generation): (u64, u64),
        size: u64,
    ) -> Outcome<()> {
        let mut buffer = self.buffer.borrow_mut();
        let mut piece = size.min(MIB) as usize;
        self.pattern().fill(&mut buffer[..piece], id, generation, 0);
        let mut begun = Instant::now();
        let file = self.target.open(path, how)?;
        let (mut inside, mut offset) = (Duration::ZERO, 0);
        loop {
            file.write_at(offset, &buffer[..piece])?;
            offset += piece as u64;
            if offset >= size {
                break;
            }
            inside += begun.elapsed();
            piece = (size - offset).min(MIB) as usize;
            self.pattern()
                .fill(&mut buffer[..piece], id, generation, offset);
            begun = Instant::now();
        }
        file.close()?;
        record.add_time(inside + begun.elapsed(), size);
        Ok(())
    }

    /// Reads a whole file and checks it; as [`Self::write_file`].
    fn read_file(
        &self,
        record: &mut Record,
        path: &str,
        (id, generation): (u64, u64),
        size: u64,
    ) -> Outcome<()> {
        let mut buffer = self.buffer.borrow_mut();
        let mut begun = Instant::now();
        let file = self.target.open(path, How::Read)?;
        let (mut inside, mut offset) = (Duration::ZERO, 0);
        while offset < size {
            let piece = (size - offset).min(MIB) as usize;
            file.read_at(offset, &mut buffer[..piece])?;
            inside += begun.elapsed();
            self.pattern()
                .check(&buffer[..piece], id, generation, offset, path)?;
            begun = Instant::now();
            offset += piece as u64;
        }
        file.close()?;
        record.add_time(inside + begun.elapsed(), size);
        Ok(())
    }
}
