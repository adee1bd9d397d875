//! Every short story of a model, and every crash in it.

use super::medium::{Medium, Storage};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// States that steps led to.
    pub states: u64,
    /// Media that a power cut left, each recovered.
    pub images: u64,
    /// The story of the first state that breaks a promise.
    pub broken: Option<String>,
}

/// A log, its steps and its promises.
pub trait Model {
    /// What its device keeps.
    type Storage: Storage;
    /// One moment of one story.
    type Moment: Clone + Hash;
    /// A step.
    type Step;
    /// What recovery found.
    type Recovered;

    /// The device.
    fn medium(moment: &Self::Moment) -> &Medium<Self::Storage>;

    /// See [`Model::medium`].
    fn medium_mut(moment: &mut Self::Moment) -> &mut Medium<Self::Storage>;

    /// The steps that may come next.
    fn steps(&self, moment: &Self::Moment) -> Vec<Self::Step>;

    /// Takes a step. False if it is impossible.
    fn take(&self, moment: &mut Self::Moment, step: &Self::Step) -> bool;

    /// How many of the steps that are left it costs to have taken `step`, which
    /// led to `next`: none or one.
    fn cost(&self, step: &Self::Step, next: &Self::Moment) -> u32;

    /// A step in a story.
    fn told(&self, step: &Self::Step) -> String;

    /// Recovers from what a power cut in `moment` left.
    ///
    /// # Errors
    /// The promise that is broken.
    fn judge(
        &self,
        moment: &Self::Moment,
        medium: &Medium<Self::Storage>,
    ) -> Result<Self::Recovered, String>;

    /// What else must hold of what is left, unless it is a mount that was cut.
    ///
    /// # Errors
    /// The promise that is broken.
    fn examine(&self, moment: &Self::Moment, medium: &Medium<Self::Storage>) -> Result<(), String>;

    /// The life after `moment`, as it begins; what it changes is not flushed.
    fn mount(
        &self,
        moment: &Self::Moment,
        found: Self::Recovered,
        medium: Medium<Self::Storage>,
    ) -> Self::Moment;
}

struct Explorer<'m, M> {
    model: &'m M,
    /// Steps and crashes left when a moment was met before.
    met: HashMap<u64, (u32, u32)>,
    out: Explored,
    story: Vec<String>,
}

/// A number for what is equal.
pub fn fingerprint(of: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::new().hash_one(of)
}

/// Explores from `first`, this many steps and crashes far, until a promise is
/// broken or there is nothing left.
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
    /// What was found, if no promise is broken.
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

    /// The power is cut now, and everything that may be left is recovered.
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

    /// What a mount changed may be torn as well; then it is flushed, and life
    /// goes on.
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
