//! Random operations without crashes: the subject is compared with the model.

use crate::failure::{Failure, Promise, shrink};
use crate::generator::{Generator, Profile};
use crate::model::Model;
use crate::mounted::{Mounted, Subject};
use crate::operation::Operation;
use crate::panics;
use crate::random::Random;
use crate::runner::{Runner, new_clock};
use std::sync::Arc;
use std::time::Duration;
use varve_device::{Clock, MemoryDevice};
use varve_fs::Result as FsResult;

/// Mounts a volume again, after the last mount was unmounted.
pub type Mount<'a> = Box<dyn FnMut() -> FsResult<Box<dyn Mounted>> + 'a>;

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Course {
    /// Profile from which operations are drawn.
    pub profile: Profile,
    /// Number of operations.
    pub operations: u64,
    /// Number of operations after which the whole tree is compared.
    pub verify_every: usize,
    /// True if the volume may refuse growth.
    pub may_be_full: bool,
    /// Time for shrinking a failure.
    pub patience: Duration,
}

impl Course {
    /// Returns a course of `operations` operations of `profile`.
    pub fn new(profile: Profile, operations: u64) -> Self {
        Course {
            profile,
            operations,
            verify_every: 200,
            may_be_full: false,
            patience: Duration::from_secs(60),
        }
    }

    /// Runs the course drawn from `seed` on an empty volume.
    ///
    /// # Errors
    /// The shortest failing story found.
    pub fn run<'a>(
        &self,
        seed: u64,
        volume: impl Fn(Arc<dyn Clock>) -> FsResult<Mount<'a>>,
    ) -> Result<(), Failure> {
        let random = Random::new(seed);
        let story = Generator::new(self.profile.clone(), random).take(self.operations);
        let Err(failure) = self.attempt(&story, self.verify_every, &volume) else {
            return Ok(());
        };
        // A comparison after every operation ends the story at the first difference.
        let failure = match self.attempt(&failure.story, 1, &volume) {
            Err(earlier) => earlier,
            Ok(()) => failure,
        };
        let attempt = |story: &[Operation]| {
            let every = if story.len() < 200 {
                1
            } else {
                self.verify_every
            };
            self.attempt(story, every, &volume).err()
        };
        Err(shrink(failure, self.patience, attempt))
    }

    /// Runs the course drawn from `seed` on a fresh volume of `subject`.
    ///
    /// # Errors
    /// The same as [`Course::run`].
    pub fn run_on(&self, seed: u64, subject: &impl Subject) -> Result<(), Failure> {
        self.run(seed, |clock: Arc<dyn Clock>| {
            let device = Arc::new(MemoryDevice::new(subject.device_bytes()));
            subject.format(device.clone(), clock.clone())?;
            let mut mounts = 0;
            Ok(Box::new(move || {
                mounts += 1;
                subject.mount(device.clone(), clock.clone(), mounts)
            }) as Mount<'_>)
        })
    }

    /// Runs a given story.
    ///
    /// # Errors
    /// The failure; the story ends there.
    pub fn attempt<'a>(
        &self,
        story: &[Operation],
        verify_every: usize,
        volume: &impl Fn(Arc<dyn Clock>) -> FsResult<Mount<'a>>,
    ) -> Result<(), Failure> {
        let mut done = 0;
        let result = panics::catch(|| self.run_story(story, verify_every, volume, &mut done));
        let failure = match result {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(text)) => Failure::new(Promise::Reference, text),
            Err(text) => Failure::new(Promise::Panic, text),
        };
        Err(failure.during(&story[..done.min(story.len())]))
    }

    fn run_story<'a>(
        &self,
        story: &[Operation],
        verify_every: usize,
        volume: &impl Fn(Arc<dyn Clock>) -> FsResult<Mount<'a>>,
        done: &mut usize,
    ) -> Result<(), String> {
        let clock = new_clock();
        let text = |what: &'static str| move |error| format!("{what}: {error}");
        let mut mount = volume(clock.clone()).map_err(text("format"))?;
        let mounted = mount().map_err(text("mount"))?;
        let mut runner = Runner::new(mounted, clock, Model::new(self.profile.block_bytes));
        runner.may_be_full = self.may_be_full;
        for operation in story {
            *done += 1;
            if *operation == Operation::Kill {
                continue;
            }
            if *operation == Operation::Remount {
                runner.mounted().unmount().map_err(text("unmount"))?;
            }
            let _ = runner.step(operation)?;
            if *operation == Operation::Remount {
                runner.replace(mount().map_err(text("mount"))?);
            }
            runner.model.settle();
            if done.is_multiple_of(verify_every) || *operation == Operation::Remount {
                runner.verify()?;
            }
        }
        runner.verify()
    }
}
