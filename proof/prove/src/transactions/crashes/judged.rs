//! Cuts the power at every write of a story and judges what a mount finds.

use super::{CLOSELY_ONE_IN, Done, Plan, Story, system};
use crate::failure::{Failure, Promise};
use crate::mounted::Subject;
use crate::random::Random;
use crate::subjects::Log;
use crate::transactions::Fs;
use crate::transactions::mix::Tree;
use std::ops::ControlFlow;
use std::sync::Arc;
use varve_device::{CrashExplorer, Event, MemoryDevice, MemoryImage};
use varve_fs::{Error, Isolation, TransactionOptions};

impl Story {
    pub(super) fn cut_everywhere(
        &self,
        log: &Log,
        plan: &Plan,
        base: &MemoryImage,
        trace: &[Event],
        done: &mut Done,
    ) -> Result<(), Failure> {
        let as_is = self.home.walk(&self.fs);
        let as_is = as_is.map_err(|text| Failure::new(Promise::Reference, text))?;
        let newest = &self.states[self.newest()];
        if as_is != *newest {
            let text = newest.difference(&as_is);
            return Err(Failure::new(Promise::Reference, text));
        }
        for &unit in &plan.units {
            let mut crashes = CrashExplorer::new(base, trace, unit, plan.limits);
            for stop in crashes.stops().collect::<Vec<_>>() {
                let mark = crashes.marks(stop).last().unwrap_or(0);
                let bounds = self.marks[mark as usize];
                done.counts.stops += 1;
                let flow = crashes.for_each(stop, plan.seed, |image, description| {
                    done.counts.states += 1;
                    match self.judge(log, &image, bounds, done) {
                        Ok(()) => ControlFlow::Continue(()),
                        Err(failure) => ControlFlow::Break(failure.context(format!(
                            "{description}, atomic unit {unit}, commits {bounds:?}"
                        ))),
                    }
                });
                if let ControlFlow::Break(failure) = flow {
                    return Err(failure);
                }
            }
            done.counts.duplicates += crashes.counts().duplicates;
        }
        Ok(())
    }

    /// Judges one image.
    fn judge(
        &self,
        log: &Log,
        image: &MemoryImage,
        (least, most): (usize, usize),
        done: &mut Done,
    ) -> Result<(), Failure> {
        let broken = |promise| move |text: String| Failure::new(promise, text);
        let device = Arc::new(MemoryDevice::from_image(image));
        let fs = system(log, device.clone(), 99).map_err(broken(Promise::Mount))?;
        if let Some(damage) = fs.layout().recovery_report().damage.first() {
            return Err(Failure::new(Promise::Mount, format!("damage: {damage}")));
        }
        let tree = self.home.walk(&fs).map_err(broken(Promise::Contract))?;
        let mut found = least..=most.min(self.newest());
        if !found.any(|commit| self.states[commit] == tree) {
            return Err(self.wrong(&tree, (least, most)));
        }
        if !done.counts.states.is_multiple_of(CLOSELY_ONE_IN) {
            return Ok(());
        }
        done.counts.afterwards += 1;
        let raw = Arc::new(MemoryDevice::from_image(image));
        if let Some(error) = log.check(raw).first() {
            return Err(Failure::new(Promise::Check, error.clone()));
        }
        if let Some(older) = log.without_newest_checkpoint(image) {
            let older = system(log, Arc::new(MemoryDevice::from_image(&older)), 98);
            let seen = older.and_then(|older| self.home.walk(&older));
            let seen = seen.map_err(broken(Promise::Again))?;
            if seen != tree {
                let text = format!("from the older checkpoint: {}", tree.difference(&seen));
                return Err(Failure::new(Promise::Again, text));
            }
        }
        self.use_further(log, &fs, &device, tree)
            .map_err(broken(Promise::Afterwards))
    }

    /// Describes the wrong finding: the tree is at no commit, or at the wrong commit.
    fn wrong(&self, tree: &Tree, (least, most): (usize, usize)) -> Failure {
        let at = self.states.iter().position(|state| state == tree);
        let text = match at {
            Some(at) => format!("the tree behind commit {at}, not one of {least} to {most}"),
            None => {
                let last = most.min(self.newest());
                let difference = self.states[last].difference(tree);
                format!("a tree that never was; beside commit {last}: {difference}")
            }
        };
        Failure::new(Promise::Contract, text)
    }

    /// Checks that the recovered volume accepts transactions, and that another mount sees
    /// them.
    fn use_further(
        &self,
        log: &Log,
        fs: &Arc<Fs>,
        device: &Arc<MemoryDevice>,
        mut tree: Tree,
    ) -> Result<(), String> {
        let told = |error: Error| error.to_string();
        let mut random = Random::new(self.salt);
        for isolation in [Isolation::Snapshot, Isolation::Locking] {
            let options = TransactionOptions {
                isolation,
                ..TransactionOptions::default()
            };
            let txn = fs.begin_transaction(&options).map_err(told)?;
            for salt in 0..3 {
                let change = tree.draw(&mut random, 0, 9000, self.salt + salt);
                self.home.change(&txn, &change).map_err(told)?;
                tree.change(&change);
            }
            txn.commit().map_err(told)?;
        }
        let again = system(
            log,
            Arc::new(MemoryDevice::from_image(&device.snapshot())),
            97,
        )?;
        let seen = self.home.walk(&again)?;
        match seen == tree {
            true => Ok(()),
            false => Err(format!("used further: {}", tree.difference(&seen))),
        }
    }
}
