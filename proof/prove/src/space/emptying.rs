//! Removes everything; no removal may be refused.

use super::listing::{Listed, list};
use super::{Cycle, Life, Order, Wrong, side_by_side};
use crate::explorer::mix;
use crate::mounted::Tree;
use crate::random::Random;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use varve_fs::{Error, FileKind, InodeNo, Rename, SetAttr};

/// Removes everything, with the cycle's number of kills and remounts in between.
pub fn empty(life: &mut Life<'_>, cycle: &Cycle, seed: u64) -> Result<(), Wrong> {
    let mut random = Random::new(mix(seed, 300));
    for turn in (0..=cycle.turns).rev() {
        let all = list(life.tree())?;
        // A share is removed before each of them, and the rest at the end.
        let share = match turn {
            0 => all.len(),
            turns => random.below(1 + all.len() as u64 / turns) as usize,
        };
        let seed = random.word();
        let gone = match life.case.threads {
            1 => alone(life, cycle, all, share, seed),
            threads => together(life, cycle, all, (share, threads), seed),
        };
        gone.map_err(|wrong| {
            let room = life.tree().statfs();
            format!("removing, {turn} turns before the end: {wrong}; {room:?}")
        })?;
        if turn > 0 {
            life.turn(&mut random)?;
        }
    }
    Ok(())
}

/// Returns the names in the order of removal, as far as possible; that of the ballast is
/// last, so that there is no space before, unless the order is that of the listing.
fn ordered(
    mut all: Vec<Listed>,
    order: Order,
    ballast: Option<InodeNo>,
    random: &mut Random,
) -> Vec<Listed> {
    match order {
        Order::Listing => {}
        Order::Creation => all.sort_by_key(|listed| listed.number),
        Order::Reverse => all.sort_by_key(|listed| std::cmp::Reverse(listed.number)),
        Order::Random => {
            for index in (1..all.len()).rev() {
                all.swap(index, random.below(index as u64 + 1) as usize);
            }
        }
    }
    if order != Order::Listing {
        all.sort_by_key(|listed| Some(listed.ino) == ballast);
    }
    all
}

/// Removes `share` names, or one or two more: a directory whose removal is due is removed
/// as soon as it is empty.
fn alone(
    life: &Life<'_>,
    cycle: &Cycle,
    all: Vec<Listed>,
    share: usize,
    seed: u64,
) -> Result<(), Wrong> {
    let mut random = Random::new(seed);
    let mut within: HashMap<InodeNo, u64> = HashMap::new();
    for listed in &all {
        *within.entry(listed.parent).or_default() += 1;
    }
    let mut due: HashMap<InodeNo, &Listed> = HashMap::new();
    let mut remover = Remover::new(life, cycle, random.word());
    let mut gone = 0;
    let all = ordered(all, cycle.order, life.ballast, &mut random);
    for (at, listed) in all.iter().enumerate() {
        if gone >= share {
            break;
        }
        let mut next = Some(listed);
        while let Some(listed) = next.take() {
            if listed.is_directory() && within.get(&listed.ino).is_some_and(|&names| names > 0) {
                due.insert(listed.ino, listed);
                break;
            }
            remover.remove(listed, all.get(at + 1))?;
            gone += 1;
            let left = within.get_mut(&listed.parent).expect("it was counted");
            *left -= 1;
            if *left == 0 {
                next = due.remove(&listed.parent);
            }
        }
    }
    remover.let_go();
    Ok(())
}

/// Removes with several threads: first everything except for directories, then
/// directories by depth.
fn together(
    life: &Life<'_>,
    cycle: &Cycle,
    all: Vec<Listed>,
    (share, threads): (usize, u64),
    seed: u64,
) -> Result<(), Wrong> {
    let mut random = Random::new(seed);
    let whole = share == all.len();
    let (directories, files): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|listed| listed.is_directory());
    let mut files = ordered(files, cycle.order, life.ballast, &mut random);
    files.truncate(share);
    let mut waves = vec![files];
    if whole {
        // The list has the deepest first.
        let levels = directories.chunk_by(|one, next| one.depth == next.depth);
        waves.extend(levels.map(<[Listed]>::to_vec));
    }
    for wave in waves {
        let remove = |thread: u64, seed: u64| {
            let mut remover = Remover::new(life, cycle, seed);
            let own = wave.iter().skip(thread as usize).step_by(threads as usize);
            let own: Vec<_> = own.collect();
            let fellows = own.iter().skip(1).map(|fellow| Some(*fellow)).chain([None]);
            let mut each = own.iter().zip(fellows);
            let outcome = each.try_for_each(|(listed, fellow)| remover.remove(listed, fellow));
            remover.let_go();
            outcome
        };
        let seed = random.word();
        side_by_side(threads, |thread| remove(thread, mix(seed, thread)))?;
    }
    Ok(())
}

/// One thread that removes.
struct Remover<'a> {
    life: &'a Life<'a>,
    cycle: &'a Cycle,
    random: Random,
    /// Open files without names.
    held: Vec<InodeNo>,
}

/// Largest number of open files.
const HELD: usize = 20;

impl<'a> Remover<'a> {
    fn new(life: &'a Life<'a>, cycle: &'a Cycle, seed: u64) -> Self {
        Remover {
            life,
            cycle,
            random: Random::new(seed),
            held: Vec::new(),
        }
    }

    fn tree(&self) -> &'a dyn Tree {
        self.life.tree()
    }

    fn let_go(&mut self) {
        let tree = self.tree();
        self.held.drain(..).for_each(|ino| tree.release(ino));
    }

    fn remove(&mut self, listed: &Listed, fellow: Option<&Listed>) -> Result<(), Wrong> {
        let tree = self.tree();
        let (parent, name) = (listed.parent, &listed.name);
        let told = |what: &str, error| {
            let (number, kind) = (listed.number, listed.kind);
            format!("{what} number {number}, a {kind:?}: {error}")
        };
        let detours = self.cycle.detour_one_in;
        if listed.is_directory() {
            let gone = tree.rmdir(parent, name);
            gone.map_err(|error| told("removing", error))?;
        } else if detours > 0 && self.random.once_in(detours) {
            let fellow = fellow.filter(|fellow| !fellow.is_directory());
            let gone = self.detour(listed, fellow);
            if !gone.map_err(|error| told("a detour before removing", error))? {
                let gone = tree.unlink(parent, name);
                gone.map_err(|error| told("removing, after a detour,", error))?;
            }
        } else {
            let gone = tree.unlink(parent, name);
            gone.map_err(|error| told("removing", error))?;
        }
        self.life.counts.removed.fetch_add(1, Relaxed);
        if self.random.once_in(self.cycle.pause_one_in) {
            self.pause()?;
        }
        Ok(())
    }

    /// Makes a file smaller before its removal. Returns true if it was removed by that:
    /// it has replaced `fellow`.
    fn detour(&mut self, listed: &Listed, fellow: Option<&Listed>) -> varve_fs::Result<bool> {
        let tree = self.tree();
        let choice = self.random.below(5);
        if let (4, Some(fellow)) = (choice, fellow) {
            return self.replace(listed, fellow);
        }
        // Another file may have replaced it since it was listed.
        let found = tree.lookup(listed.parent, &listed.name)?;
        let ino = found.ino;
        if found.kind != FileKind::Regular {
            return Ok(false);
        }
        match choice {
            0 => self.cut(ino)?,
            1 => {
                for name in tree.listxattr(ino)? {
                    tree.removexattr(ino, &name)?;
                }
            }
            2 => {
                tree.retain(ino)?;
                self.held.push(ino);
                if self.held.len() > HELD {
                    self.let_go();
                }
            }
            _ => {
                let size = tree.getattr(ino)?.size;
                let from = self.random.below(size + 1);
                let punch_hole_and_keep_size = 3;
                tree.fallocate(ino, punch_hole_and_keep_size, from, (size - from).max(1))?;
            }
        }
        Ok(false)
    }

    fn cut(&mut self, ino: InodeNo) -> varve_fs::Result<()> {
        let tree = self.tree();
        let size = tree.getattr(ino)?.size;
        let set = SetAttr {
            size: Some(*self.random.pick(&[0, size / 2, size.saturating_sub(1)])),
            ..SetAttr::default()
        };
        tree.setattr(ino, &set).map(drop)
    }

    /// Gives the file the name of `fellow`, which is removed in its place; unless both
    /// are names of one file, which changes nothing.
    fn replace(&mut self, listed: &Listed, fellow: &Listed) -> varve_fs::Result<bool> {
        let tree = self.tree();
        let from = (listed.parent, &listed.name[..]);
        let to = (fellow.parent, &fellow.name[..]);
        tree.rename(from, to, Rename::default())?;
        match tree.lookup(from.0, from.1) {
            Ok(_) => Ok(false),
            Err(Error::NotFound) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Takes a step between removals.
    fn pause(&mut self) -> Result<(), Wrong> {
        let (what, outcome) = self.life.served().pause(self.random.word());
        outcome.map_err(|error| format!("{what} between removals: {error}"))
    }
}
