//! The crash states of a recording: each is mounted, walked, written to a directory in
//! memory, and passed to the application's checker.
//!
//! Stops are drawn over the whole recording, with a few states each: the subsets and
//! tears of the crash explorer. States with the same files under the same obligations are
//! passed to the checker once.

use super::stage::{Recorded, allowed};
use super::{Application, Extent};
use crate::explorer::{Explorer, Plan, mix};
use crate::failure::{Failure, Promise};
use crate::panics;
use crate::random::Random;
use crate::subjects::Log;
use crate::tree::Tree;
use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve_device::{CrashExplorer, Event, Limits, MemoryDevice, MemoryImage};
use varve_fs::FileKind;

/// One in this number of states is also checked offline.
const OFFLINE_ONE_IN: u64 = 16;

/// Counts of an exploration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Crash images mounted and walked.
    pub states: u64,
    /// Crash images with new files, which the application's checker examined.
    pub checked: u64,
    /// Power cuts.
    pub stops: u64,
    /// Events of the recording.
    pub events: u64,
}

/// Result of an exploration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// Counts of the exploration.
    pub counts: Counts,
    /// Number of broken promises. The search continues after the first one only if
    /// flushes lie.
    pub broken: u64,
}

/// Explores the recording.
pub(super) fn explore(
    application: &dyn Application,
    recorded: &Recorded,
    extent: &Extent,
) -> Result<Explored, Failure> {
    let lying = extent.lie_one_in > 0;
    let trace = match lying {
        true => with_lies(&recorded.trace, extent.lie_one_in),
        false => recorded.trace.clone(),
    };
    let mut states = States::new(application, recorded, extent)?;
    let limits = Limits {
        exhaustive_writes: 2,
        random_subsets: 2,
        each_shape: 2,
        torn_writes: 2,
        torn_variants: 1,
        scattered: 1,
    };
    let unit = [512, 4096][(extent.seed % 2) as usize];
    let mut crashes = CrashExplorer::new(&recorded.base, &trace, unit, limits);
    for stop in drawn(&crashes, recorded.states.len(), extent) {
        let steps = allowed(crashes.marks(stop), recorded.states.len());
        let steps = steps.expect("only such stops are drawn");
        states.explored.counts.stops += 1;
        let flow = crashes.for_each(stop, extent.seed, |image, description| {
            match states.check(&image, steps) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) if lying => {
                    states.explored.broken += 1;
                    ControlFlow::Continue(())
                }
                Err(failure) => {
                    let kept = keep(&image);
                    let place = format!("{description}, atomic unit {unit}");
                    ControlFlow::Break(failure.context(place).context(kept))
                }
            }
        });
        if let ControlFlow::Break(failure) = flow {
            return Err(failure);
        }
    }
    states.explored.counts.events = trace.len() as u64;
    Ok(states.explored)
}

/// Draws stops after the preparation from the whole recording.
fn drawn(crashes: &CrashExplorer<'_>, states: usize, extent: &Extent) -> Vec<usize> {
    let mut random = Random::new(mix(extent.seed, 6));
    let prepared = |stop: &usize| allowed(crashes.marks(*stop), states).is_some();
    let mut stops: Vec<usize> = crashes.stops().filter(prepared).collect();
    while stops.len() > extent.cuts {
        stops.swap_remove(random.below(stops.len() as u64) as usize);
    }
    stops.sort_unstable();
    stops
}

/// Returns the recording of a device of which one in this number of flushes lies.
fn with_lies(trace: &[Event], one_in: u64) -> Vec<Event> {
    let mut flushes = 0;
    let lie = |event: &Event| match event {
        Event::Flush { .. } => {
            flushes += 1;
            match flushes % one_in {
                0 => event.clone(),
                _ => Event::Flush { covers: 0 },
            }
        }
        _ => event.clone(),
    };
    trace.iter().map(lie).collect()
}

/// Stores the image of a failure in a file, and returns its path.
fn keep(image: &MemoryImage) -> String {
    let mut bytes = vec![0; image.geometry().size as usize];
    image.read(0, &mut bytes);
    let kept = tempfile::Builder::new()
        .prefix("varve-prove-")
        .suffix(".img")
        .tempfile()
        .and_then(|file| Ok((file.keep()?.1, bytes)))
        .and_then(|(path, bytes)| fs::write(&path, bytes).map(|()| path));
    match kept {
        Ok(path) => format!("the crash image is kept in {}", path.display()),
        Err(error) => format!("the crash image could not be kept: {error}"),
    }
}

/// The states of one recording.
struct States<'a> {
    application: &'a dyn Application,
    recorded: &'a Recorded,
    explorer: Explorer<'a, Log>,
    plan: Plan,
    scratch: tempfile::TempDir,
    seen: HashSet<(u64, usize, usize)>,
    explored: Explored,
}

impl<'a> States<'a> {
    fn new(
        application: &'a dyn Application,
        recorded: &'a Recorded,
        extent: &Extent,
    ) -> Result<Self, Failure> {
        let memory = Path::new("/dev/shm");
        let scratch = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        };
        let scratch = scratch.map_err(|error| {
            Failure::new(Promise::Reference, format!("make a directory: {error}"))
        })?;
        Ok(States {
            application,
            recorded,
            explorer: Explorer::new(&recorded.subject),
            plan: Plan::quick(extent.seed),
            scratch,
            seen: HashSet::new(),
            explored: Explored::default(),
        })
    }

    /// Checks that one crash image is in the state after one of `steps` (first, last).
    fn check(&mut self, image: &MemoryImage, steps: (usize, usize)) -> Result<(), Failure> {
        let counts = &mut self.explored.counts;
        counts.states += 1;
        let offline = counts.states.is_multiple_of(OFFLINE_ONE_IN);
        let mounted = panics::catch(|| {
            let device = Arc::new(MemoryDevice::from_image(image));
            if offline {
                self.explorer.check_offline(&device, "of the crash image")?;
            }
            let (mounted, tree) = self.explorer.mount_and_walk(device, &self.plan)?;
            drop(mounted);
            Ok(tree)
        });
        let tree = mounted.unwrap_or_else(|text| Err(Failure::new(Promise::Panic, text)))?;
        if !self.seen.insert((fingerprint(&tree), steps.0, steps.1)) {
            return Ok(());
        }
        self.explored.counts.checked += 1;
        let dir = self.scratch.path().join("files");
        let failed = |text: String| {
            let (durable, last) = steps;
            let owed = format!("{durable} steps durable, {last} begun");
            Failure::new(Promise::Contract, text).context(owed)
        };
        lay_out(&tree, self.scratch.path()).map_err(failed)?;
        let found = self.application.check(&dir).map_err(failed)?;
        let states = &self.recorded.states;
        if states[steps.0..=steps.1].contains(&found) {
            return Ok(());
        }
        Err(failed(
            match states.iter().position(|state| *state == found) {
                Some(step) => format!("it is as it was after step {step}: {found}"),
                None => format!("it is as it never was: {found}"),
            },
        ))
    }
}

/// Returns a hash of names, attributes and contents.
fn fingerprint(tree: &Tree) -> u64 {
    let mut hasher = DefaultHasher::new();
    tree.lines.hash(&mut hasher);
    for file in &tree.files {
        (file.line, &file.bytes).hash(&mut hasher);
    }
    hasher.finish()
}

/// Gives `top` the content of `tree`.
fn lay_out(tree: &Tree, top: &Path) -> Result<(), String> {
    let path_of = |path: &[u8]| -> PathBuf { top.join(std::ffi::OsStr::from_bytes(path)) };
    for entry in fs::read_dir(top).map_err(super::at("list", top))? {
        let path = entry.map_err(super::at("list", top))?.path();
        fs::remove_dir_all(&path).map_err(super::at("remove", &path))?;
    }
    let mut files = tree.files.iter().peekable();
    for (index, line) in tree.lines.iter().enumerate().skip(1) {
        let path = path_of(&line.path);
        let bytes = files.next_if(|file| file.line == index).map(|f| &f.bytes);
        let made = match (&line.same_as, FileKind::from_mode(line.kind)) {
            (Some(first), _) => fs::hard_link(path_of(first), &path),
            (None, Some(FileKind::Directory)) => fs::create_dir(&path),
            (None, Some(FileKind::Symlink)) => {
                symlink(std::ffi::OsStr::from_bytes(&line.target), &path)
            }
            (None, Some(FileKind::Regular)) => fs::write(&path, bytes.map_or(&[][..], |b| b)),
            _ => continue, // sockets and other files without content
        };
        made.map_err(super::at("make", &path))?;
        if bytes.is_some() {
            let mode = fs::Permissions::from_mode(line.mode);
            fs::set_permissions(&path, mode).map_err(super::at("set the mode of", &path))?;
        }
    }
    Ok(())
}
