//! W5: response times at 90 % (Wang & Hu 2002, §4.2): the simulator of W1 to
//! W4, whose transfers are served by the drives that the paper names.
//!
//! A request is a run of at most 16 blocks of one kind. A write whose blocks
//! fill the buffers waits until they are written, and for the cleaning that
//! makes room; all other writes are answered at once. A read of what is neither
//! buffered nor cached waits for the disk, behind whatever that is doing.
//! A request comes when the one before was answered and the workload's pause is
//! over: at this load no disk would keep up with fixed times. The volume is some
//! 110 MB at the edge of the drive; the read cache, 64 MB beside 9.1 GB in the
//! paper, is as large a share of it. Beside the paper's drives stand two of
//! today's kind, at the end of the list.

use crate::experiments::wolf::write_cost::{SYNTHETIC, System, synthetic};
use crate::experiments::{Context, Experiment, LabError, Point, Row};
use crate::report::{Curve, Picture, Verdict, mean};
use crate::simulator::{Motion, Simulator, Transfer};
use crate::workload::{Op, gather};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use varve_disk::{Access, FlashModel, FlashParameters, Mechanism, Request, drives};

pub const W5: Experiment = Experiment::new("W5", points, verdicts, picture).taking(27.0);

const UTILISATION: f64 = 0.9;
const BLOCK_SECTORS: u64 = 8;
const SECTOR: u64 = 512;
/// Blocks of a request at most.
const RUN: u32 = 16;
/// A share of the volume that the read cache holds: 64 MB of 9.1 GB.
const CACHED: f64 = 64.0 / 9100.0;

/// The paper's drives, and those of today.
const PAPER: [&str; 2] = ["Atlas 10K", "HP 2247A"];
const TODAY: [&str; 2] = ["7200 rpm", "NVMe-like"];

/// What serves the transfers.
enum Disk {
    Arm(Box<Mechanism>),
    Flash(Box<FlashModel>),
}

impl Disk {
    fn named(name: &str, seed: u64) -> Self {
        let arm = |drive| Disk::Arm(Box::new(Mechanism::new(Arc::new(drive), seed)));
        match name {
            "Atlas 10K" => arm(drives::atlas10k()),
            "HP 2247A" => arm(drives::hp2247a()),
            "7200 rpm" => arm(drives::nearline()),
            _ => Disk::Flash(Box::new(FlashModel::new(FlashParameters::nvme()))),
        }
    }

    /// When it is done.
    fn serve(&mut self, now_ns: u64, access: Access, sector: u64, sectors: u64) -> u64 {
        match self {
            Disk::Arm(arm) => {
                let request = Request {
                    access,
                    sector,
                    sectors,
                    inside: false,
                };
                arm.serve(now_ns, request).end_ns
            }
            Disk::Flash(flash) => {
                let bytes = |sectors| sectors * SECTOR;
                flash
                    .serve(now_ns, access, bytes(sector), bytes(sectors))
                    .end_ns
            }
        }
    }
}

fn points(context: &Context) -> Vec<Point> {
    let mut points = Vec::new();
    for name in PAPER.into_iter().chain(TODAY) {
        for (nth, load) in SYNTHETIC.into_iter().enumerate() {
            for (who, system) in [("LFS", System::LFS), ("WOLF", System::wolf(2))] {
                let series = format!("{who}, {name}");
                points.push(Point::new(
                    format!("{series}, {load}"),
                    move |context: &Context| {
                        let row = |seed| {
                            let row = Row::new(&series, nth as f64 + 1.0, seed);
                            let disk = Disk::named(name, seed);
                            Ok(measure(context, row, disk, load, system))
                        };
                        context.seeds().map(row).collect::<Result<_, LabError>>()
                    },
                ));
            }
        }
    }
    // The tiny size takes one drive.
    points.truncate(context.size(points.len(), 4));
    points
}

/// Blocks read lately, the oldest forgotten first.
#[derive(Debug, Default)]
struct Cache {
    capacity: usize,
    clock: u64,
    used: HashMap<u32, u64>,
    order: BTreeMap<u64, u32>,
}

impl Cache {
    /// True if it was there; it is now.
    fn touch(&mut self, block: u32) -> bool {
        self.clock += 1;
        let before = self.used.insert(block, self.clock);
        if let Some(before) = before {
            self.order.remove(&before);
        }
        self.order.insert(self.clock, block);
        if self.used.len() > self.capacity
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.used.remove(&oldest);
        }
        before.is_some()
    }
}

/// Requests of one kind: how many, and what they waited.
#[derive(Debug, Clone, Copy, Default)]
struct Waited {
    requests: u64,
    ns: u64,
}

impl Waited {
    fn add(&mut self, ns: u64) {
        self.requests += 1;
        self.ns += ns;
    }

    fn ms(self) -> f64 {
        self.ns as f64 / 1e6 / self.requests.max(1) as f64
    }
}

struct Timed<'a> {
    simulator: Simulator<'a>,
    disk: Disk,
    /// What was read or written lately, which needs no disk.
    cache: Cache,
    now_ns: u64,
    transfers: Vec<Transfer>,
    writes: Waited,
    reads: Waited,
}

impl Timed<'_> {
    /// When it is done; nothing is done where a segment has become clean.
    fn serve(&mut self, transfer: Transfer) -> Option<u64> {
        let access = match transfer.motion {
            Motion::Write { .. } => Access::Write,
            Motion::Read => Access::Read,
            Motion::Clean | Motion::Death => return None,
        };
        Some(self.move_blocks(access, (transfer.slot, transfer.blocks)))
    }

    fn move_blocks(&mut self, access: Access, (slot, blocks): (u32, u32)) -> u64 {
        let sector = u64::from(slot) * BLOCK_SECTORS;
        let sectors = u64::from(blocks) * BLOCK_SECTORS;
        self.disk.serve(self.now_ns, access, sector, sectors)
    }

    /// Serves what the simulator did; when that is done, or now.
    fn serve_all(&mut self) -> u64 {
        let mut end_ns = self.now_ns;
        let mut transfers = std::mem::take(&mut self.transfers);
        self.simulator.take_transfers(&mut transfers);
        for transfer in transfers.drain(..) {
            end_ns = self.serve(transfer).unwrap_or(end_ns);
        }
        self.transfers = transfers;
        end_ns
    }

    fn write(&mut self, ops: &[Op]) {
        self.simulator.run(ops);
        for op in ops {
            if let Op::Write { block } = op {
                self.cache.touch(*block);
            }
        }
        let end_ns = self.serve_all();
        self.writes.add(end_ns - self.now_ns);
        self.now_ns = end_ns;
    }

    fn read(&mut self, ops: &[Op]) {
        self.simulator.run(ops);
        let mut end_ns = self.now_ns;
        let mut run: Option<(u32, u32)> = None;
        for op in ops {
            let Op::Read { block } = op else { continue };
            let slot = self.simulator.volume().block(*block).slot;
            // What waits in a buffer has its slot when that is written.
            if self.cache.touch(*block) || slot == u32::MAX {
                continue;
            }
            match &mut run {
                Some((first, blocks)) if *first + *blocks == slot => *blocks += 1,
                _ => {
                    if let Some(run) = run {
                        end_ns = self.move_blocks(Access::Read, run);
                    }
                    run = Some((slot, 1));
                }
            }
        }
        if let Some(run) = run {
            end_ns = self.move_blocks(Access::Read, run);
        }
        self.reads.add(end_ns - self.now_ns);
        self.now_ns = end_ns;
    }

    fn run(&mut self, ops: &[Op]) {
        let mut at = 0;
        while at < ops.len() {
            let end = at + request(&ops[at..]);
            match ops[at] {
                Op::Write { .. } => self.write(&ops[at..end]),
                Op::Read { .. } => self.read(&ops[at..end]),
                Op::Wait { ns } => {
                    self.now_ns += ns;
                    self.simulator.run(&ops[at..end]);
                    // Nobody waits for what is written for its age.
                    self.serve_all();
                }
                Op::Trim { .. } | Op::Sync => {
                    self.simulator.run(&ops[at..end]);
                    self.serve_all();
                }
            }
            at = end;
        }
    }
}

/// How many operations are one request: blocks in order, of one kind.
fn request(ops: &[Op]) -> usize {
    let block = |op: &Op| match *op {
        Op::Write { block } => Some((true, block)),
        Op::Read { block } => Some((false, block)),
        _ => None,
    };
    let Some((write, first)) = block(&ops[0]) else {
        return 1;
    };
    let follows = |&(nth, op): &(u32, &Op)| block(op) == Some((write, first + nth));
    (0..RUN).zip(ops).take_while(follows).count()
}

fn measure(context: &Context, row: Row, disk: Disk, load: &str, system: System) -> Row {
    let seed = row.seed;
    let live = context.size(24_000, 6000);
    let mut workload = synthetic(load, live, seed);
    let locality = workload.locality();
    let study = system.study(workload.live_max(), UTILISATION, (0, 0));
    let setup = study.setup(workload.blocks(), workload.live_max());
    let mut timed = Timed {
        simulator: Simulator::new(setup, &*locality),
        disk,
        cache: Cache {
            capacity: (f64::from(live) * CACHED) as usize,
            ..Cache::default()
        },
        now_ns: 0,
        transfers: Vec::new(),
        writes: Waited::default(),
        reads: Waited::default(),
    };
    let mut ops = Vec::new();
    workload.prefill(&mut ops);
    timed.simulator.run(&ops);
    let (warm, measured) = context.size((3, 2), (2, 1));
    let mut turn = |timed: &mut Timed<'_>, writes: u32, with_disk: bool| {
        ops.clear();
        gather(&mut *workload, writes as usize, &mut ops);
        match with_disk {
            true => timed.run(&ops),
            false => timed.simulator.run(&ops),
        }
    };
    // Those queries read hundreds of blocks for each that is written.
    let share = if load == "tpc-d" { 16 } else { 1 };
    for _ in 0..warm {
        turn(&mut timed, live, false);
    }
    timed.simulator.note_transfers(false);
    for _ in 0..measured {
        turn(&mut timed, live / share, true);
    }
    row.with("write_ms", timed.writes.ms())
        .with("read_ms", timed.reads.ms())
        .with("writes", timed.writes.requests as f64)
        .with("reads", timed.reads.requests as f64)
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for name in PAPER {
        for nth in 0..SYNTHETIC.len() {
            verdicts.extend(compared(rows, name, nth));
        }
    }
    for name in TODAY {
        for nth in 0..SYNTHETIC.len() {
            let compared = compared(rows, name, nth).into_iter();
            verdicts.extend(compared.map(Verdict::on_todays_devices));
        }
    }
    verdicts
}

/// Writes and reads of the nth load on a drive.
fn compared(rows: &[Row], name: &str, nth: usize) -> [Verdict; 2] {
    let load = SYNTHETIC[nth];
    let ms = |who: &str, what: &str| mean(rows, &format!("{who}, {name}"), nth as f64 + 1.0, what);
    let (before, after) = (ms("LFS", "write_ms"), ms("WOLF", "write_ms"));
    let gain = 1.0 - after / before;
    let writes = Verdict::of(
        format!("{name}, {load}: write response"),
        "at least 20 % better; the paper 27 to 35.5 %",
        format!("{before:.3} to {after:.3} ms, {:.1} %", 100.0 * gain),
        gain >= 0.2,
    );
    let (before, after) = (ms("LFS", "read_ms"), ms("WOLF", "read_ms"));
    let change = after / before - 1.0;
    let reads = Verdict::of(
        format!("{name}, {load}: read response"),
        "within 10 %",
        format!("{before:.3} to {after:.3} ms, {:+.1} %", 100.0 * change),
        change.abs() <= 0.1,
    );
    [writes, reads]
}

fn picture(rows: &[Row]) -> Picture {
    let paper = |series: &str, gain: f64| {
        let points = (1..=4).map(|nth| nth as f64);
        let points = points.map(|nth| (nth, mean(rows, series, nth, "write_ms") * (1.0 - gain)));
        Curve::named(
            format!("paper: {series} less {:.1} %", 100.0 * gain),
            points.collect(),
        )
    };
    Picture {
        title: format!("Write response at 90 %: {}", SYNTHETIC.join(", ")),
        x: "load".into(),
        y: "ms for each request".into(),
        y_max: None,
        curves: Curve::all(rows, "write_ms"),
        references: vec![
            paper("LFS, Atlas 10K", 0.27),
            paper("LFS, Atlas 10K", 0.355),
        ],
    }
    .with_room_for_names()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LFS on a drive whose arm is eight times as slow.
    #[test]
    fn a_wrong_drive_is_told_from_a_gain() {
        let measured = |who: &str, system, arm: f64| {
            let mut drive = drives::atlas10k();
            drive.seek.short_base_ms *= arm;
            drive.seek.short_root_ms *= arm;
            drive.seek.long_base_ms *= arm;
            drive.seek.long_slope_ms *= arm;
            let disk = Disk::Arm(Box::new(Mechanism::new(Arc::new(drive), 1)));
            let row = Row::new(format!("{who}, Atlas 10K"), 1.0, 1);
            measure(&Context::tiny(), row, disk, SYNTHETIC[0], system)
        };
        let wolf = measured("WOLF", System::wolf(2), 1.0);
        let writes = |arm| {
            let lfs = measured("LFS", System::LFS, arm);
            let [writes, _] = compared(&[lfs, wolf.clone()], "Atlas 10K", 0);
            writes
        };
        let (right, wrong) = (writes(1.0), writes(8.0));
        assert!(!right.pass && wrong.pass, "{right}; {wrong}");
    }
}
