//! Lives of a volume: all short ones, and long ones drawn at random.

use super::machine::{Machine, Step};
use super::rules::Missing;
use crate::random::Random;
use std::collections::HashSet;

/// Lives to draw.
#[derive(Clone, Copy, Debug)]
pub struct Walks {
    /// The first life's seed; each further life has the next number.
    pub seed: u64,
    /// Lives.
    pub lives: u64,
    /// Steps of each.
    pub steps: usize,
}

/// Draws lives and returns the first that went wrong: its seed, its steps, and what was
/// found.
pub fn walk(walks: Walks, missing: Option<Missing>) -> Option<String> {
    (walks.seed..walks.seed + walks.lives).find_map(|seed| {
        let mut random = Random::new(seed);
        let mut machine = Machine::new(missing);
        let mut story = Vec::new();
        for _ in 0..walks.steps {
            let step = draw(&mut random, machine.steps());
            machine.step(step);
            story.push(step);
            if let Some(problem) = machine.wrong() {
                return Some(format!("seed {seed}: {story:?}: {problem}"));
            }
        }
        None
    })
}

/// Crashes and the end of the file are rarer than what leads to something.
fn draw(random: &mut Random, mut steps: Vec<Step>) -> Step {
    if random.below(4) != 0 {
        steps.retain(|step| !matches!(step, Step::Crash | Step::FallBack | Step::Free));
    }
    steps[random.below(steps.len() as u64) as usize]
}

/// Takes every sequence of at most so many steps. Returns the states that were met, or
/// what was found wrong.
///
/// # Errors
/// The steps, and what was wrong behind them.
pub fn every(steps: usize) -> Result<usize, String> {
    let start = Machine::new(None);
    let mut met = HashSet::new();
    met.insert(start.clone());
    let mut last = vec![(start, Vec::new())];
    for _ in 0..steps {
        let mut next = Vec::new();
        for (machine, story) in &last {
            for step in machine.steps() {
                let mut machine = machine.clone();
                machine.step(step);
                if !met.insert(machine.clone()) {
                    continue;
                }
                let mut story: Vec<Step> = story.clone();
                story.push(step);
                if let Some(problem) = machine.wrong() {
                    return Err(format!("{story:?}: {problem}"));
                }
                next.push((machine, story));
            }
        }
        last = next;
    }
    Ok(met.len())
}
