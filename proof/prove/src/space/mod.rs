//! A volume can always be emptied, with any content.
//!
//! A [`Case`] draws a volume, fillings until nothing more fits, and an order of removals
//! with checkpoints, cleaning, kills and remounts in between; [`run`] executes it on a
//! layout. No removal may be refused. At the end the volume must be empty and undamaged,
//! and have the free space of a new one.
//!
//! The layout is behind [`Volumes`], so that all layouts run the same cases, in this
//! process or through the kernel. With one thread a case follows from its seed; with
//! several the scheduler has an influence.

mod ballast;
mod case;
mod cycle;
mod emptying;
mod filling;
mod hands;
mod in_memory;
mod listing;
mod served;
mod volumes;

pub use case::{Case, Shape};
pub use cycle::{Ballast, Cycle, Filling, Order};
pub use served::{Served, Service, Volume, Volumes};
pub use volumes::{InPlaces, Logs, VirtualLogs};

use crate::explorer::mix;
use crate::failure::{Failure, Promise};
use crate::mounted::Tree;
use crate::panics;
use crate::random::Random;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use varve_fs::{InodeNo, StatFs};

/// Counts of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Fillings until nothing fitted, each emptied again.
    pub cycles: u64,
    /// Names, bytes and attributes created.
    pub made: u64,
    /// Requests that were refused because the volume was full.
    pub refused: u64,
    /// Removals, all of which succeeded.
    pub removed: u64,
    /// Mounts after a kill.
    pub kills: u64,
    /// Mounts after an unmount.
    pub remounts: u64,
}

/// The same counts while several threads run.
#[derive(Debug, Default)]
struct Counts {
    made: AtomicU64,
    refused: AtomicU64,
    removed: AtomicU64,
    kills: AtomicU64,
    remounts: AtomicU64,
}

/// A volume in one of its lives.
struct Life<'a> {
    case: &'a Case,
    volume: &'a dyn Volume,
    /// `None` while it is not mounted.
    served: Option<Box<dyn Served>>,
    /// Space of an empty volume, for each service.
    new: Vec<StatFs>,
    /// Number of the next name, so that names show the order of their creation.
    next: AtomicU64,
    /// The file that takes most of the space, while there is one.
    ballast: Option<InodeNo>,
    mounts: u64,
    counts: Counts,
}

/// A failure as text.
pub type Wrong = String;

/// Runs `work` on this number of threads, each with its number; a single one runs on the
/// calling thread.
fn side_by_side(threads: u64, work: impl Fn(u64) -> Result<(), Wrong> + Sync) -> Result<(), Wrong> {
    if threads == 1 {
        return work(0);
    }
    std::thread::scope(|scope| {
        let work = &work;
        let start = |thread| scope.spawn(move || panics::catch(|| work(thread)));
        let all: Vec<_> = (0..threads).map(start).collect();
        let ended = all.into_iter().map(|one| one.join());
        let ended: Vec<_> = ended.collect();
        ended.into_iter().try_for_each(|one| match one {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => Err(panic),
            Err(_) => Err("a thread panicked".to_owned()),
        })
    })
}

impl Life<'_> {
    fn served(&self) -> &dyn Served {
        &**self.served.as_ref().expect("a mounted volume")
    }

    fn tree(&self) -> &dyn Tree {
        self.served().tree()
    }

    /// Returns the number of the service for which the volume is or will be mounted.
    fn service(&self) -> usize {
        let mounts = self.mounts.saturating_sub(1);
        mounts as usize % self.case.services.len()
    }

    fn mount(&mut self) -> Result<(), Wrong> {
        self.mounts += 1;
        let service = self.case.services[self.service()];
        self.served = Some(self.volume.serve(service, self.mounts)?);
        Ok(())
    }

    /// Kills the server and mounts again.
    fn kill(&mut self) -> Result<(), Wrong> {
        self.counts.kills.fetch_add(1, Relaxed);
        self.served = None;
        self.mount()
    }

    fn unmount(&mut self) -> Result<(), Wrong> {
        self.served.take().expect("a mounted volume").unmount()
    }

    fn remount(&mut self) -> Result<(), Wrong> {
        self.counts.remounts.fetch_add(1, Relaxed);
        self.unmount()?;
        self.mount()
    }

    /// Remounts or kills the volume at random between removals; nothing may fail.
    fn turn(&mut self, random: &mut Random) -> Result<(), Wrong> {
        match random.below(4) {
            0 => self.remount(),
            _ => self.kill(),
        }
    }

    fn is_empty(&self) -> Result<(), Wrong> {
        let names = self.tree().readdir(InodeNo::ROOT, 0, 9);
        let names = names.map_err(|error| format!("the root: {error}"))?;
        match names.len() {
            2 => Ok(()),
            _ => Err(format!("there are still {names:?}")),
        }
    }
}

/// Runs `case` on a volume of the layout.
///
/// # Errors
/// A refusal, a loss of data or space, or a panic.
pub fn run(case: &Case, volumes: &dyn Volumes) -> Result<Report, Failure> {
    let told = |wrong: Wrong| {
        let what = format!("{} on {}", case, volumes.name());
        Failure::new(Promise::Space, wrong).context(what)
    };
    match panics::catch(|| live(case, volumes)) {
        Ok(done) => done.map_err(told),
        Err(panic) => Err(told(panic)),
    }
}

fn live(case: &Case, volumes: &dyn Volumes) -> Result<Report, Wrong> {
    let volume = volumes.make(case)?;
    let mut life = Life {
        case,
        volume: &*volume,
        served: None,
        new: Vec::new(),
        next: AtomicU64::new(0),
        ballast: None,
        mounts: 0,
        counts: Counts::default(),
    };
    life.mount()?;
    life.new.push(life.tree().statfs());
    for _ in 1..case.services.len() {
        life.unmount()?;
        life.mount()?;
        life.new.push(life.tree().statfs());
    }
    for (nth, cycle) in (0..).zip(&case.cycles) {
        let seed = mix(case.seed, nth);
        let during = |wrong| format!("cycle {nth}: {wrong}");
        filling::fill(&mut life, cycle, seed).map_err(during)?;
        emptying::empty(&mut life, cycle, seed).map_err(during)?;
        ended(&mut life).map_err(during)?;
    }
    life.unmount()?;
    let found = volume.check();
    if !found.is_empty() {
        return Err(format!("the check: {found:?}"));
    }
    let count = |counter: &AtomicU64| counter.load(Relaxed);
    Ok(Report {
        cycles: case.cycles.len() as u64,
        made: count(&life.counts.made),
        refused: count(&life.counts.refused),
        removed: count(&life.counts.removed),
        kills: count(&life.counts.kills),
        remounts: count(&life.counts.remounts),
    })
}

/// Returns the space that may be missing on an emptied volume: a hundredth, and the
/// root's own blocks and nodes.
fn slack(new: StatFs) -> u64 {
    new.blocks / 100 + 8
}

/// Checks that the volume is empty and as good as new, also after a remount.
fn ended(life: &mut Life<'_>) -> Result<(), Wrong> {
    for again in [false, true] {
        if again {
            life.remount()?;
        }
        let exact = life.served().settle()? || again;
        life.is_empty()?;
        let (now, new) = (life.tree().statfs(), life.new[life.service()]);
        if now.files != new.files || exact && now.free + slack(new) < new.free {
            return Err(format!("{now:?} on an empty volume, {new:?} on a new"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_cases_are_done_on_all_layouts() {
        for volumes in [&VirtualLogs as &dyn Volumes, &Logs, &InPlaces] {
            let case = Case {
                seed: 3,
                shape: Shape {
                    device_bytes: 16 << 20,
                    block_bytes: 4096,
                    unit_bytes: 4096,
                    in_drive: false,
                    variety: 6,
                },
                services: vec![Service::default()],
                name_bytes: 0,
                threads: 1,
                cycles: vec![Cycle {
                    fillings: vec![Filling::SmallFiles],
                    thin_one_in: 3,
                    ballast: Ballast::Reserved,
                    left_bytes: 3 << 20,
                    order: Order::Random,
                    pause_one_in: 20,
                    turns: 2,
                    detour_one_in: 5,
                }],
            };
            let report = run(&case, volumes).unwrap_or_else(|failure| panic!("{failure}"));
            assert!(report.removed > 100 && report.refused > 0, "{report:?}");
            assert_eq!(report.kills + report.remounts, 2 + 1);
        }
    }
}
