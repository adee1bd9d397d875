//! Fills a volume until nothing more fits.

use super::ballast;
use super::hands::{Attempt, Hands};
use super::listing::list;
use super::{Cycle, Filling, Life, Wrong, side_by_side};
use crate::explorer::mix;
use crate::random::Random;
use std::sync::atomic::Ordering::Relaxed;
use varve_fs::{Error, FileKind, InodeNo, SetAttr, SetTime};

/// Number of passes over all fillings, because one may leave space that another takes.
const LAPS: usize = 3;
/// Number of changes by a filling that is never refused.
const CHANGES: u64 = 1500;
/// Bytes of each of few large writes.
const LARGE: usize = 256 << 10;

/// Fills the volume according to `cycle`.
pub fn fill(life: &mut Life<'_>, cycle: &Cycle, seed: u64) -> Result<(), Wrong> {
    ballast::load(life, cycle)?;
    for (nth, &filling) in cycle.fillings.iter().enumerate() {
        let nth = nth as u64;
        by_all(life, &[filling], mix(seed, nth))
            .map_err(|wrong| format!("{filling:?}: {wrong}"))?;
        if cycle.thin_one_in > 0 {
            thin_out(life, cycle.thin_one_in, mix(seed, 100 + nth))
                .map_err(|wrong| format!("thinned out after {filling:?}: {wrong}"))?;
        }
    }
    for lap in 0..LAPS as u64 {
        by_all(life, &cycle.fillings, mix(seed, 200 + lap))
            .map_err(|wrong| format!("lap {lap}: {wrong}"))?;
        let synced = life.tree().sync();
        synced.map_err(|error| format!("sync of a full volume: {error}"))?;
    }
    Ok(())
}

/// Fills with every thread independently.
fn by_all(life: &Life<'_>, fillings: &[Filling], seed: u64) -> Result<(), Wrong> {
    let work = |thread: u64| {
        let mut hands = Hands::new(life, Random::new(mix(seed, thread)));
        take_up(&mut hands)?;
        fillings.iter().try_for_each(|&filling| hands.fill(filling))
    };
    side_by_side(life.case.threads, work)
}

/// Makes existing files available for overwriting and linking.
fn take_up(hands: &mut Hands<'_>) -> Result<(), Wrong> {
    let (tree, threads) = (hands.tree(), hands.life.case.threads);
    if threads > 1 {
        return Ok(()); // other threads remove and rename meanwhile
    }
    for listed in list(tree)? {
        match listed.kind {
            FileKind::Directory => hands.directories.push(listed.ino),
            FileKind::Regular => {
                let size = match tree.getattr(listed.ino) {
                    Ok(attr) => attr.size,
                    Err(error) => return Err(format!("a file's attributes: {error}")),
                };
                hands.files.push((listed.ino, size));
                hands.names.push((listed.parent, listed.name));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes one name in this number; the volume is full, so none may be refused.
fn thin_out(life: &Life<'_>, one_in: u64, seed: u64) -> Result<(), Wrong> {
    let mut random = Random::new(seed);
    for listed in list(life.tree())? {
        if !random.once_in(one_in) || Some(listed.ino) == life.ballast {
            continue;
        }
        let gone = match listed.is_directory() {
            true => life.tree().rmdir(listed.parent, &listed.name),
            false => life.tree().unlink(listed.parent, &listed.name),
        };
        match gone {
            Ok(()) => life.counts.removed.fetch_add(1, Relaxed),
            Err(Error::NotEmpty) => continue,
            Err(error) => return Err(format!("number {}: {error}", listed.number)),
        };
    }
    Ok(())
}

type Filled = Result<Attempt<()>, Wrong>;

/// Continues if the attempt was successful, and ends the filling if not.
macro_rules! or_full {
    ($attempt:expr) => {
        match $attempt? {
            Attempt::Done(done) => done,
            Attempt::Refused => return Ok(Attempt::Refused),
        }
    };
}

impl Hands<'_> {
    /// Fills until a refusal, or for a number of changes.
    fn fill(&mut self, filling: Filling) -> Result<(), Wrong> {
        let mut changes = 0;
        while self.step(filling)?.is_done() {
            changes += 1;
            if !filling.grows() && changes >= CHANGES {
                break;
            }
        }
        Ok(())
    }

    fn step(&mut self, filling: Filling) -> Filled {
        match filling {
            Filling::Directories => {
                let last = *self.directories.last().expect("the root at least");
                let deep = self.directories.len() % 500 < 100;
                let parent = if deep { last } else { self.any_directory() };
                or_full!(self.directory(parent));
            }
            Filling::TinyFiles => {
                let ino = or_full!(self.file());
                let bytes = *self.random.pick(&[0, 0, 1, 90]);
                if bytes > 0 {
                    or_full!(self.write(ino, 0, bytes));
                }
            }
            Filling::SmallFiles => {
                let ino = or_full!(self.file());
                let bytes = 100 + self.random.below(9000) as usize;
                or_full!(self.write(ino, 0, bytes));
            }
            Filling::Attributes => {
                let ino = or_full!(self.file());
                or_full!(self.attribute(ino, "user.a", 1500));
            }
            Filling::ManyAttributes => return self.many_attributes(),
            Filling::Symlinks => {
                let bytes = *self.random.pick(&[10, 100, 1000, 4000]);
                or_full!(self.symlink(bytes));
            }
            Filling::HardLinks => return self.hard_link(),
            Filling::Sparse => return self.sparse(),
            Filling::Overwrites => return self.overwrite(),
            Filling::Renames => return self.rename(),
            Filling::OneBigFile => return self.big_file(),
            Filling::Reserved => return self.reserve(),
            Filling::Modes => return self.change_mode(),
        }
        Ok(Attempt::Done(()))
    }

    fn many_attributes(&mut self) -> Filled {
        let known = self.any_file().filter(|_| !self.random.once_in(3));
        let ino = match known {
            Some(index) => self.files[index].0,
            None => or_full!(self.file()),
        };
        let name = format!("user.{}", self.random.below(5));
        // All attributes of a file are stored together; too many are refused on an empty
        // volume as well.
        let most = match name == "user.0" && self.random.once_in(3) {
            true => self.longest_value(),
            false => 700,
        };
        let bytes = self.random.below(most) as usize;
        self.attribute(ino, &name, bytes)
    }

    /// Returns the length of the longest value of one attribute in addition to the
    /// others.
    fn longest_value(&mut self) -> u64 {
        let most = self.life.served().attribute_bytes() as u64;
        let others = 5 * 800;
        match most > others + 700 {
            true => (most - others).min(65_536) + 1,
            false => 700,
        }
    }

    fn hard_link(&mut self) -> Filled {
        if self.directories.len() < 40 && self.random.once_in(50) {
            let parent = self.any_directory();
            or_full!(self.directory(parent));
        }
        let known = self.any_file().filter(|_| !self.random.once_in(30));
        let ino = match known {
            Some(index) => self.files[index].0,
            None => or_full!(self.file()),
        };
        or_full!(self.link(ino));
        Ok(Attempt::Done(()))
    }

    fn sparse(&mut self) -> Filled {
        let known = self.any_file().filter(|_| !self.random.once_in(20));
        let ino = match known {
            Some(index) => self.files[index].0,
            None => or_full!(self.file()),
        };
        let stride = 1 << (13 + self.random.below(40));
        let at = self.random.below((1 << 59) / stride) * stride;
        let bytes = *self.random.pick(&[1, 700, 4096]);
        self.write(ino, at, bytes)
    }

    fn overwrite(&mut self) -> Filled {
        let Some(index) = self.any_file() else {
            return Ok(Attempt::Refused);
        };
        let (ino, size) = self.files[index];
        let bytes = *self.random.pick(&[1, 100, 512, 4096]);
        if size >= bytes {
            let at = self.random.below(size - bytes + 1);
            // Some of this is growth, where the file was reserved or has a hole.
            self.write(ino, at, bytes as usize)?;
        }
        if self.random.once_in(10) {
            let data_only = self.random.once_in(2);
            let synced = self.tree().fsync(ino, data_only);
            synced.map_err(|error| format!("fsync: {error}"))?;
        }
        Ok(Attempt::Done(()))
    }

    fn rename(&mut self) -> Filled {
        if self.directories.len() < 60 {
            let parent = self.any_directory();
            let made = self.directory(parent)?;
            if made == Attempt::Refused && self.directories.len() < 2 {
                return Ok(Attempt::Refused);
            }
        }
        if self.names.is_empty() {
            or_full!(self.file());
        }
        let index = self.random.below(self.names.len() as u64) as usize;
        let (from, to) = (
            self.names[index].clone(),
            (self.any_directory(), self.new_name()),
        );
        let moved = self.tree().rename(
            (from.0, &from.1),
            (to.0, &to.1),
            varve_fs::Rename::default(),
        );
        if self.judge("a rename", moved)?.is_done() {
            self.names[index] = to;
        }
        Ok(Attempt::Done(()))
    }

    fn big_file(&mut self) -> Filled {
        let known = self.any_file().filter(|_| !self.random.once_in(200));
        let index = match known {
            Some(index) => index,
            None => {
                or_full!(self.file());
                self.files.len() - 1
            }
        };
        let (ino, size) = self.files[index];
        if size >= 1 << 50 {
            return Ok(Attempt::Done(())); // the file is sparse
        }
        let mut bytes = LARGE;
        while !self.write(ino, size, bytes)?.is_done() {
            if bytes <= 512 {
                return Ok(Attempt::Refused);
            }
            bytes /= 8;
        }
        self.files[index].1 = size + bytes as u64;
        Ok(Attempt::Done(()))
    }

    fn reserve(&mut self) -> Filled {
        let ino = or_full!(self.file());
        let mut bytes = 4096 << self.random.below(9);
        let at = self.random.below(1 << 40);
        loop {
            let reserved = self.tree().fallocate(ino, 1, at, bytes);
            if self.judge("a reservation", reserved)?.is_done() {
                return Ok(Attempt::Done(()));
            }
            if bytes <= 4096 {
                return Ok(Attempt::Refused);
            }
            bytes /= 2;
        }
    }

    fn change_mode(&mut self) -> Filled {
        let ino = match self.any_file() {
            Some(index) => self.files[index].0,
            None => InodeNo::ROOT,
        };
        let set = SetAttr {
            mode: Some(0o600 + self.random.below(64) as u32),
            mtime: Some(SetTime::Now),
            ..SetAttr::default()
        };
        let changed = self.tree().setattr(ino, &set);
        self.judge("a mode", changed)?;
        Ok(Attempt::Done(()))
    }
}
