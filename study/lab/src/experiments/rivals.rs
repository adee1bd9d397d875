//! File systems beside each other, on the machines of the papers that compared them:
//! what each was made with, and the benchmarks that more than one paper ran.
//!
//! A phase ends when all of it is on the medium, and the next begins with empty
//! caches. All have one platform: commands of at most 64 KB, host and drive at work at
//! the same time, and systems that write behind ([`Machine::with`]).

use super::{Context, LabError, Point, Row};
use crate::platform::ffs::{Ffs, GROUP_CYLINDERS};
use crate::platform::files::{Files, Phase};
use crate::platform::host::Host;
use crate::platform::{Cleaning, Disk, Layout, Overlap, Platform, System};
use crate::report::{Curve, Verdict, mean};
use varve_disk::{Drive, drives};
use varve_prove::random::Random;

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;

/// A file system, by the name that it has in its paper.
pub(super) type Rival = (&'static str, Layout);

/// A machine.
#[derive(Clone, Copy)]
pub(super) struct Machine {
    host: Host,
    drive: fn() -> Drive,
    /// Cylinders of the drive; 0 for all.
    cylinders: u32,
    /// Its heads; 0 for all.
    heads: u32,
    /// Bytes that may be dirty: a quarter of what is cached.
    dirty_bytes: u64,
    /// Cycles of an instruction. Only the HP's are known; one is assumed of others.
    instruction_cycles: f64,
    /// An NVMe-like device in the place of the drive, with as many bytes.
    flash: bool,
    /// How a log makes room on it.
    cleaning: Cleaning,
}

pub(super) const fn ffs(block_bytes: u32, maxcontig: u32, rotdelay: u32) -> Layout {
    Layout::Ffs(Ffs {
        block_bytes,
        fragment_bytes: 1024,
        maxcontig,
        rotdelay,
        group_cylinders: GROUP_CYLINDERS,
    })
}

const fn host(name: &'static str, mhz: u64) -> Host {
    Host {
        name,
        hz: mhz * 1_000_000,
        effort: 1.0,
    }
}

/// Rosenblum & Ousterhout 1992, §5.1: a Sun-4/260 of 25 MHz (Seltzer et al. 1995,
/// table 1) and 32 MB with a Wren IV. How much of the memory was cache is not said:
/// it varied, on Sprite. The SPARCstation II does 2.5 times as much a second (table 2 of
/// the same), at 1.6 times the clock rate.
pub(super) const SUN_4: Machine = Machine {
    host: Host {
        effort: SCALE_CPU * 25.0 / 40.0,
        ..host("Sun-4/260", 25)
    },
    drive: drives::wren_iv,
    cylinders: 0,
    heads: 0,
    dirty_bytes: 2 * MIB,
    instruction_cycles: 1.0,
    flash: false,
    cleaning: Cleaning::HOLES,
};
/// How many times as fast a SPARCstation II with a DSP 3105 is as a Sun-4/260 with a Wren
/// IV: processor, bandwidth of the drive, accesses a second (Seltzer et al. 1995, table 2).
pub(super) const SCALE_CPU: f64 = 2.5;
pub(super) const SCALE_BANDWIDTH: f64 = 1.8;
pub(super) const SCALE_ACCESS: f64 = 1.2;
pub(super) const SPRITE_LFS: Rival = ("Sprite LFS", Layout::Lfs);
/// Its rotdelay is deduced by Seltzer et al. 1995, §2.
pub(super) const SUN_FFS: Rival = ("SunOS FFS", ffs(8192, 1, 1));

/// Seltzer et al. 1995, §2 and 3: a SPARCstation II of 40 MHz with a DSP 3105. A tenth
/// of 32 MB is 4.4BSD's buffer cache.
pub(super) const SPARC_2: Machine = Machine {
    host: host("SPARCstation-2", 40),
    drive: drives::dsp3105,
    cylinders: 0,
    heads: 0,
    dirty_bytes: 800 * KIB,
    instruction_cycles: 1.0,
    flash: false,
    cleaning: Cleaning::HOLES,
};
pub(super) const BSD_LFS: Rival = ("LFS", Layout::Lfs);
pub(super) const M1R2: Rival = ("FFS-m1r2", ffs(8192, 1, 2));
pub(super) const M8R0: Rival = ("FFS-m8r0", ffs(8192, 8, 0));
pub(super) const M8R2: Rival = ("FFS-m8r2", ffs(8192, 8, 2));

/// Seltzer 1992, §7.2: an HP 9000/380 of 25 MHz with an SD97560, which begins to write
/// at 800 KB (§7.3.1). It executes 10 to 12 million instructions a second (table 7-1), of
/// which 10 are taken. FFS leaves 4 ms between two blocks, of which nine are a track.
pub(super) const HP_380: Machine = Machine {
    host: host("HP 9000/380", 25),
    drive: drives::sd97560,
    cylinders: 0,
    heads: 0,
    dirty_bytes: 800 * KIB,
    instruction_cycles: 2.5,
    flash: false,
    cleaning: Cleaning::HOLES,
};
pub(super) const FFS: Rival = ("FFS", ffs(4096, 1, 3));
pub(super) const EFS: Rival = ("EFS", ffs(4096, 16, 0));
pub(super) const LFS: Rival = ("LFS", Layout::Lfs);
/// None of these papers has it (Wang et al. 1999, §3.3).
pub(super) const VLFS: Rival = ("VLFS", Layout::Vlfs);

/// Dirty bytes beyond which a system has what is dirty written, while the writer
/// continues: an FFS a block or a cluster as soon as it is full (Seltzer 1992, §7.3.1 and
/// §7.7), so with one byte less. A log gathers as much as may be dirty.
pub(super) fn write_behind(layout: Layout) -> Option<u64> {
    match layout {
        Layout::Ffs(ffs) => Some(u64::from(ffs.maxcontig) * u64::from(ffs.block_bytes) - 1),
        Layout::Lfs | Layout::Vlfs => None,
    }
}

/// The most that a controller transfers by one command (Seltzer 1992, §7.1).
pub(super) const COMMAND_BYTES: usize = 64 << 10;
/// 4.4BSD's.
const QUANTUM_NS: u64 = 100_000_000;

/// Seltzer 1992, §5.3: a DECstation 5000/200 of 25 MHz with an RZ55, under Sprite.
pub(super) const RZ55: Machine = Machine {
    host: host("DECstation 5000/200", 25),
    drive: drives::rz55,
    cylinders: 0,
    heads: 0,
    dirty_bytes: 800 * KIB,
    instruction_cycles: 1.0,
    flash: false,
    cleaning: Cleaning::HOLES,
};

/// A drive of today behind the fastest host of the papers.
pub(super) const NEARLINE: Machine = Machine {
    host: Host::ULTRASPARC_170,
    drive: drives::nearline,
    cylinders: 40,
    heads: 0,
    dirty_bytes: 800 * KIB,
    instruction_cycles: 1.0,
    flash: false,
    cleaning: Cleaning::HOLES,
};

/// A host of today: the cycles of the table, three thousand million a second.
const TODAY: Host = host("3 GHz", 3000);
/// What the names of curves on today's devices begin with.
pub(super) const NVME: &str = "NVMe-like, ";
pub(super) const TODAYS: [&str; 2] = ["7200 rpm, ", NVME];

impl Machine {
    /// An NVMe-like device behind a host of today. As much of it is used as of the
    /// drive here, and as much may wait in memory.
    pub fn on_flash(self) -> Self {
        Machine {
            host: TODAY,
            instruction_cycles: 1.0,
            flash: true,
            ..self
        }
    }

    /// This machine, and those of today, on which as much may wait in memory; each with
    /// what the names of curves begin with.
    pub fn and_todays(self) -> [(&'static str, Machine); 3] {
        let nearline = NEARLINE.with_dirty_bytes(self.dirty_bytes);
        let [nearline_name, flash_name] = TODAYS;
        [
            ("", self),
            (nearline_name, nearline),
            (flash_name, self.on_flash()),
        ]
    }

    /// Its log makes room in another way.
    pub fn cleaning(self, cleaning: Cleaning) -> Self {
        Machine { cleaning, ..self }
    }

    /// Cycles a second.
    pub fn hz(self) -> u64 {
        self.host.hz
    }

    /// Cycles of an instruction.
    pub fn instruction_cycles(self) -> f64 {
        self.instruction_cycles
    }

    /// Bytes that may wait in memory.
    pub fn dirty_bytes(self) -> u64 {
        self.dirty_bytes
    }

    /// Cycles in which it executes so many instructions.
    pub fn cycles_of(self, instructions: u64) -> u64 {
        (instructions as f64 * self.instruction_cycles) as u64
    }

    /// With a part of its drive: the outermost cylinders that hold so many bytes, and
    /// `share` of the surfaces. So it is smaller, and the arm has as far to go.
    pub fn part(self, bytes: u64, share: f64) -> Self {
        let geometry = (self.drive)().geometry;
        let cylinder = geometry.bytes() / u64::from(geometry.cylinders());
        let heads = (f64::from(geometry.heads()) * share).round().max(1.0);
        Machine {
            cylinders: bytes
                .div_ceil(cylinder)
                .clamp(1, geometry.cylinders().into()) as u32,
            heads: heads as u32,
            ..self
        }
    }

    /// Bytes of what is used of its drive.
    pub fn drive_bytes(self) -> u64 {
        self.drive().geometry.bytes()
    }

    /// Whose processor takes so many times the cycles, or instructions so many.
    pub fn of_processor(self, effort: f64, instruction_cycles: f64) -> Self {
        Machine {
            host: self.host.with_effort(effort),
            instruction_cycles,
            ..self
        }
    }

    /// Where so many bytes may wait.
    pub fn with_dirty_bytes(self, dirty_bytes: u64) -> Self {
        Machine {
            dirty_bytes,
            ..self
        }
    }

    /// What is used of its drive.
    pub fn drive(self) -> Drive {
        let drive = match self.cylinders {
            0 => (self.drive)(),
            some => (self.drive)().with_cylinders(some),
        };
        match self.heads {
            0 => drive,
            some => drive.with_heads(some),
        }
    }

    /// With so many cylinders of its drive.
    pub fn of_cylinders(self, cylinders: u32) -> Self {
        Machine { cylinders, ..self }
    }

    /// With this file system on it, empty. Segments are of 1 MB, as in all three
    /// papers. Processor and drive work at the same time, and the system writes behind.
    pub fn with(self, layout: Layout) -> Platform {
        self.writing_behind(layout, write_behind(layout))
    }

    /// The same, with what is dirty written beyond other bytes than that system has it.
    /// What waits for the drive is a part of what may be dirty.
    ///
    /// Two do not overlap: an NVMe-like device, which answers within microseconds, and
    /// the file system on the virtual log, whose firmware is the host's.
    pub fn writing_behind(self, layout: Layout, write_back_bytes: Option<u64>) -> Platform {
        let disk = match self.flash {
            true => Disk::Flash,
            false => Disk::Regular,
        };
        let overlap = Overlap {
            queue_bytes: self.dirty_bytes,
            command_bytes: COMMAND_BYTES,
            quantum_ns: QUANTUM_NS,
            write_back_bytes,
            read_ahead_threads: 1,
        };
        Platform {
            nvram_bytes: self.dirty_bytes,
            segment_bytes: MIB as u32,
            cleaning: self.cleaning,
            overlap: (!self.flash && layout != Layout::Vlfs).then_some(overlap),
            ..Platform::new(layout, disk).on(self.drive(), self.host)
        }
    }

    /// A point for each of `rivals`, with what `run` finds for each seed.
    pub fn points(
        self,
        rivals: &'static [Rival],
        what: &'static str,
        run: impl Fn(&Context, &str, &mut dyn System, u64) -> Result<Vec<Row>, LabError>
        + Copy
        + Send
        + Sync
        + 'static,
    ) -> impl Iterator<Item = Point> {
        rivals.iter().map(move |&(name, layout)| {
            Point::new(format!("{what}{name}"), move |context: &Context| {
                let seeds = context.seeds().take(seeds_of(what));
                let rows = seeds.map(|seed| {
                    let mut system = context.platform(self.with(layout)).build(seed)?;
                    run(context, name, &mut *system, seed)
                });
                Ok(rows.collect::<Result<Vec<_>, LabError>>()?.concat())
            })
        })
    }
}

/// Has `work` done, and what it wrote on the medium. Returns seconds.
pub(super) fn timed(
    system: &mut dyn System,
    work: impl FnOnce(&mut dyn System) -> Result<(), LabError>,
) -> Result<f64, LabError> {
    let before = system.now_ns();
    work(system)?;
    system.sync()?;
    system.forget();
    Ok((system.now_ns() - before) as f64 / 1e9)
}

/// The phases, as curves have them.
pub(super) const CREATE: f64 = 1.0;
pub(super) const READ: f64 = 2.0;
pub(super) const OVERWRITE: f64 = 3.0;
pub(super) const DELETE: f64 = 4.0;

fn number(phase: Phase) -> f64 {
    match phase {
        Phase::Create => CREATE,
        Phase::Read => READ,
        Phase::Overwrite => OVERWRITE,
        Phase::Delete => DELETE,
    }
}

/// Bytes of the papers' large file.
pub(super) fn large_bytes(context: &Context) -> u64 {
    context.size(100 * MIB, 4 * MIB)
}

/// So many bytes in each of the 10,000 files of the papers, 100 to a directory.
pub(super) fn many_files(context: &Context, bytes: u64) -> Files {
    Files {
        count: context.size(10_000, 200),
        bytes,
        in_directory: 100,
    }
}

fn requests(system: &dyn System) -> u64 {
    let drive = system.store().drive();
    drive.map_or(0, |drive| drive.statistics().requests.writes)
}

/// Has these phases run: a row for each, with files and bytes a second, and how busy
/// the processor is.
pub(super) fn rates(
    files: Files,
    phases: &[Phase],
    system: &mut dyn System,
    series: &str,
    seed: u64,
) -> Result<Vec<Row>, LabError> {
    let row = |phase: &Phase| {
        let (before, requests) = (system.store().spent(), requests(system));
        files.run(*phase, system, false)?;
        let spent = system.store().spent() - before;
        let writes = self::requests(system) - requests;
        let seconds = spent.total_ns as f64 / 1e9;
        let count = f64::from(files.count);
        Ok(Row::new(series, number(*phase), seed)
            .with("files_per_s", count / seconds)
            .with("kb_per_s", count * files.bytes as f64 / 1e3 / seconds)
            .with("processor_percent", spent.host_ns as f64 / 1e7 / seconds)
            .with("writes", writes as f64))
    };
    phases.iter().map(row).collect()
}

/// The passes through a large file (Rosenblum & Ousterhout 1992, §5.1).
pub(super) const PASSES: [&str; 5] = [
    "sequential write",
    "sequential read",
    "random write",
    "random read",
    "sequential read again",
];
pub(super) const WRITE: usize = 0;
pub(super) const READ_ONCE: usize = 1;
pub(super) const RANDOM_WRITE: usize = 2;
pub(super) const RANDOM_READ: usize = 3;
pub(super) const READ_AGAIN: usize = 4;

/// Five passes through a file of so many bytes, in pieces of 8 KB: written and read in
/// order, as many pieces written and read at random, and read in order again.
pub(super) fn large_file(
    system: &mut dyn System,
    series: &str,
    bytes: u64,
    seed: u64,
) -> Result<Vec<Row>, LabError> {
    const PIECE: u64 = 8 * KIB;
    let mut random = Random::new(seed);
    let pieces = bytes / PIECE;
    system.create(0)?;
    let mut rows = Vec::new();
    for pass in 0..PASSES.len() {
        let seconds = timed(system, |system| {
            (0..pieces).try_for_each(|nth| {
                let (at, anywhere) = (nth * PIECE, random.below(pieces) * PIECE);
                match pass {
                    WRITE => system.write(0, at, PIECE as u32, false),
                    RANDOM_WRITE => system.write(0, anywhere, PIECE as u32, false),
                    RANDOM_READ => system.read(0, anywhere, PIECE as u32),
                    _ => system.read(0, at, PIECE as u32),
                }
            })
        })?;
        let rate = bytes as f64 / 1e3 / seconds;
        rows.push(Row::new(series, pass as f64, seed).with("kb_per_s", rate));
    }
    Ok(rows)
}

fn is_todays(curve: &str) -> bool {
    TODAYS.iter().any(|on| curve.starts_with(on))
}

/// Seeds at most of a curve: on today's devices, which stand beside the claims, two.
pub(super) fn seeds_of(curve: &str) -> usize {
    if is_todays(curve) { 2 } else { usize::MAX }
}

/// Curves without those on today's devices, which would leave nothing to be seen of the
/// paper's.
pub(super) fn curves_of_the_paper(rows: &[Row], what: &str) -> Vec<Curve> {
    let mut curves = Curve::all(rows, what);
    curves.retain(|curve| !is_todays(&curve.name));
    curves
}

/// What is told of the paper's machine, and then of each of today's.
pub(super) fn and_todays(tell: impl Fn(&str) -> Vec<Verdict>) -> Vec<Verdict> {
    let todays = TODAYS.into_iter().flat_map(&tell);
    let todays: Vec<_> = todays.map(Verdict::on_todays_devices).collect();
    [tell(""), todays].concat()
}

/// How many times the rate of `other` that of `one` is.
pub(super) fn ratio(rows: &[Row], one: &str, other: &str, x: f64, what: &str) -> f64 {
    mean(rows, one, x, what) / mean(rows, other, x, what)
}

/// An order of magnitude: nearer to ten times than to once or a hundred times.
pub(super) const ORDER_OF_MAGNITUDE: std::ops::Range<f64> = 3.162..31.62;

#[cfg(test)]
mod tests;
