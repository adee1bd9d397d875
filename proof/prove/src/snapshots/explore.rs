//! Lives of a volume: all short ones, and random long ones.

use super::machine::{Machine, Step};
use super::rules::Missing;
use crate::random::Random;
use std::collections::HashSet;

/// Random lives.
#[derive(Clone, Copy, Debug)]
pub struct Walks {
    /// Seed of the first life; each further life has the next number.
    pub seed: u64,
    /// Number of lives.
    pub lives: u64,
    /// Steps per life.
    pub steps: usize,
}

/// Draws lives and returns the first that broke a rule: its seed, its steps, and the
/// fault.
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

/// Draws a step. Crashes and removals of the file are rarer than other steps.
fn draw(random: &mut Random, mut steps: Vec<Step>) -> Step {
    if random.below(4) != 0 {
        steps.retain(|step| !matches!(step, Step::Crash | Step::FallBack | Step::Free));
    }
    steps[random.below(steps.len() as u64) as usize]
}

/// Takes every sequence of at most `steps` steps. Returns the number of states visited.
///
/// # Errors
/// The steps, and the fault after them.
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
