//! Every short story of a model, and every crash in it.

use super::medium::{Medium, Storage};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

/// Result of an exploration.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// Number of states after steps.
    pub states: u64,
    /// Number of media that a power cut left, each recovered.
    pub images: u64,
    /// The story of the first state that breaks a promise.
    pub broken: Option<String>,
}

/// A log, its steps and its promises.
pub trait Model {
    /// The content of its device.
    type Storage: Storage;
    /// One moment of one story.
    type Moment: Clone + Hash;
    /// A step.
    type Step;
    /// Result of a recovery.
    type Recovered;

    /// Returns the device.
    fn medium(moment: &Self::Moment) -> &Medium<Self::Storage>;

    /// Returns the device for changes.
    fn medium_mut(moment: &mut Self::Moment) -> &mut Medium<Self::Storage>;

    /// Returns the possible next steps.
    fn steps(&self, moment: &Self::Moment) -> Vec<Self::Step>;

    /// Takes a step. Returns false if it is impossible.
    fn take(&self, moment: &mut Self::Moment, step: &Self::Step) -> bool;

    /// Returns by how much `step`, which led to `next`, reduces the number of remaining
    /// steps: zero or one.
    fn cost(&self, step: &Self::Step, next: &Self::Moment) -> u32;

    /// Formats a step for a story.
    fn told(&self, step: &Self::Step) -> String;

    /// Recovers from a medium that a power cut in `moment` left.
    ///
    /// # Errors
    /// The promise that is broken.
    fn judge(
        &self,
        moment: &Self::Moment,
        medium: &Medium<Self::Storage>,
    ) -> Result<Self::Recovered, String>;

    /// Checks further promises on a medium, unless the power cut interrupted a mount.
    ///
    /// # Errors
    /// The promise that is broken.
    fn examine(&self, moment: &Self::Moment, medium: &Medium<Self::Storage>) -> Result<(), String>;

    /// Returns the beginning of the life after `moment`; its changes are not flushed.
    fn mount(
        &self,
        moment: &Self::Moment,
        found: Self::Recovered,
        medium: Medium<Self::Storage>,
    ) -> Self::Moment;
}

struct Explorer<'m, M> {
    model: &'m M,
    /// Remaining steps and crashes when a moment was visited before, by its fingerprint.
    met: HashMap<u64, (u32, u32)>,
    out: Explored,
    story: Vec<String>,
}

/// Returns a hash that equal values share.
pub fn fingerprint(of: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::new().hash_one(of)
}

/// Explores from `first`, with this many steps and crashes, until a promise is broken or
/// everything was visited.
pub fn explore<M: Model>(model: &M, first: &M::Moment, steps: u32, crashes: u32) -> Explored {
    let mut explorer = Explorer {
        model,
        met: HashMap::new(),
        out: Explored::default(),
        story: Vec::new(),
    };
    explorer.go_on(first, steps, crashes);
    explorer.out
}

impl<M: Model> Explorer<'_, M> {
    /// Returns the result if no promise is broken.
    fn kept<T>(&mut self, judged: Result<T, String>) -> Option<T> {
        match judged {
            Ok(found) => Some(found),
            Err(what) => {
                let story = self.story.join(", ");
                let story = format!("{story}: {what}");
                self.out.broken.get_or_insert(story);
                None
            }
        }
    }

    fn go_on(&mut self, moment: &M::Moment, steps: u32, crashes: u32) {
        let met = self.met.entry(fingerprint(moment)).or_insert((0, 0));
        if self.out.broken.is_some() || (met.0 > steps && met.1 >= crashes) {
            return;
        }
        *met = (met.0.max(steps + 1), met.1.max(crashes));
        self.out.states += 1;
        self.crash(moment, steps, crashes);
        if steps == 0 {
            return;
        }
        for step in self.model.steps(moment) {
            let mut next = moment.clone();
            if self.model.take(&mut next, &step) {
                self.story.push(self.model.told(&step));
                let cost = self.model.cost(&step, &next);
                self.go_on(&next, steps - cost, crashes);
                self.story.pop();
            }
        }
    }

    /// Cuts the power, and recovers from every medium that may be left.
    fn crash(&mut self, moment: &M::Moment, steps: u32, crashes: u32) {
        let left = M::medium(moment).after_power_cut();
        for (way, medium) in left.into_iter().enumerate() {
            self.out.images += 1;
            self.story.push(format!("Mount({way})"));
            let found = self.kept(self.model.judge(moment, &medium));
            self.kept(self.model.examine(moment, &medium));
            if let Some(found) = found.filter(|_| crashes > 0 && steps > 0) {
                let next = self.model.mount(moment, found, medium);
                self.mount(next, steps - 1, crashes - 1);
            }
            self.story.pop();
            if self.out.broken.is_some() {
                return;
            }
        }
    }

    /// Mounts a medium. The mount's changes may be torn as well; then they are flushed,
    /// and the next life begins.
    fn mount(&mut self, mut moment: M::Moment, steps: u32, crashes: u32) {
        if !M::medium(&moment).pending.is_empty() {
            for medium in M::medium(&moment).after_power_cut() {
                self.out.images += 1;
                self.kept(self.model.judge(&moment, &medium));
            }
        }
        M::medium_mut(&mut moment).flush();
        self.go_on(&moment, steps, crashes);
    }
}
