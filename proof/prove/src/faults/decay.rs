//! Bits that change at rest.

use super::run::{Branch, Run};
use super::{Attack, Tally};
use crate::contract::History;
use crate::explorer::mix;
use crate::failure::{Failure, Promise};
use crate::model::Model;
use crate::mounted::Subject;
use crate::operation::Operation;
use crate::panics;
use crate::random::Random;
use crate::runner::{Runner, new_clock};
use std::sync::Arc;
use varve_device::MemoryImage;

/// Decay: the image of an unmounted or a crashed volume with one wrong bit.
pub struct Decay<'a, S: Subject + ?Sized> {
    attack: Attack<'a, S>,
    image: MemoryImage,
    history: History,
    /// Used sectors.
    sectors: Vec<u64>,
}

impl<'a, S: Subject + ?Sized> Decay<'a, S> {
    /// Runs the workload and keeps the image; it is that of a crash unless `unmounted`.
    ///
    /// # Errors
    /// If the workload fails.
    pub fn new(
        attack: Attack<'a, S>,
        operations: &[Operation],
        unmounted: bool,
    ) -> Result<Self, Failure> {
        let device = Arc::new(attack.formatted()?);
        let mut model = Model::new(attack.block_bytes);
        model.distrustful = true;
        let mut history = History::new(model.clone());
        let clock = new_clock();
        let fail = |text: String| Failure::new(Promise::Reference, text).during(operations);
        let mounted = attack
            .subject
            .mount(device.clone(), clock.clone(), mix(attack.seed, 1));
        let mounted = mounted.map_err(|error| fail(format!("mount: {error}")))?;
        let mut runner = Runner::new(mounted, clock, model);
        for operation in operations {
            if matches!(operation, Operation::Kill | Operation::Remount) {
                continue;
            }
            let done = runner.step(operation).map_err(fail)?.is_ok();
            history.push(operation, runner.model.clone(), done);
        }
        if unmounted {
            runner
                .mounted()
                .unmount()
                .map_err(|error| fail(error.to_string()))?;
            let mut model = runner.model.clone();
            model.close_all();
            history.push(&Operation::Remount, model, true);
        }
        let image = device.snapshot();
        let mut sectors = Vec::new();
        let mut sector = [0; 512];
        for offset in (0..image.geometry().size).step_by(sector.len()) {
            image.read(offset, &mut sector);
            if sector.iter().any(|&byte| byte != 0) {
                sectors.push(offset);
            }
        }
        Ok(Decay {
            attack,
            image,
            history,
            sectors,
        })
    }

    /// Returns the used sectors.
    pub fn sectors(&self) -> &[u64] {
        &self.sectors
    }

    /// Mounts and reads the image with one random bit wrong.
    ///
    /// # Errors
    /// If wrong bytes are returned as data, or anything panics.
    pub fn flip(&self, random: &mut Random, tally: &mut Tally) -> Result<(), Failure> {
        let at = random.pick(&self.sectors) + random.below(512);
        let bit = random.below(8);
        let mut image = self.image.clone();
        let mut byte = [0];
        image.read(at, &mut byte);
        image.write(at, &[byte[0] ^ (1 << bit)]);
        let told = format!("bit {bit} of the byte at {at} flipped");
        let looked = panics::catch(|| self.look(&image, tally));
        let looked = looked.unwrap_or_else(|text| Err(Failure::new(Promise::Panic, text)));
        looked.map_err(|failure| failure.context(told))
    }

    fn look(&self, image: &MemoryImage, tally: &mut Tally) -> Result<(), Failure> {
        let mut run = Run {
            branches: vec![Branch {
                model: self.history.newest().clone(),
                history: self.history.clone(),
            }],
            tally: Tally {
                runs: 1,
                struck: 1,
                ..Tally::default()
            },
            operations: &[],
            done: self.history.len(),
            silent: true,
        };
        self.attack.look_at_mended(image, &mut run, "decayed")?;
        tally.add(&run.tally);
        Ok(())
    }
}
