//! Crashes between groups: the explorer for [`MemoryLayout`], which has no device but
//! knows its groups.
//!
//! After every operation, every prefix of the groups between the committed and the
//! appended one is mounted and compared with the contract. The layout's own assertions
//! check the rules of items and groups meanwhile.

use crate::contract::{History, Step};
use crate::failure::{Failure, Promise, shrink};
use crate::model::Model;
use crate::mounted::Mounted;
use crate::operation::Operation;
use crate::panics;
use crate::runner::{Runner, new_clock};
use crate::subjects::{MemoryVolume, mount_layout};
use crate::tree::{self, Bounds};
use std::sync::Arc;
use std::time::Duration;
use varve_fs::{MemoryLayout, MemoryOptions, Position};

/// Explores `operations`. Returns the number of crash states checked.
///
/// # Errors
/// The shortest failing story found.
pub fn explore_groups(
    operations: &[Operation],
    memory: &MemoryOptions,
    patience: Duration,
) -> Result<u64, Failure> {
    let attempt = |story: &[Operation]| {
        panics::catch(|| explore_once(story, memory))
            .unwrap_or_else(|text| Err(Failure::new(Promise::Panic, text)))
            .map_err(|failure| failure.during(story))
    };
    attempt(operations).map_err(|failure| shrink(failure, patience, |story| attempt(story).err()))
}

fn explore_once(operations: &[Operation], memory: &MemoryOptions) -> Result<u64, Failure> {
    let clock = new_clock();
    let text = |error: varve_fs::Error| Failure::new(Promise::Mount, error.to_string());
    let mut volume = MemoryVolume::new(clock.clone(), memory.clone()).map_err(text)?;
    let model = Model::new(u64::from(memory.block_bytes));
    let mut history = History::new(model.clone());
    let mut runner = Runner::new(volume.mount().map_err(text)?, clock, model);
    let mut states = 0;
    let mut checked = Position(0);
    for (index, operation) in operations.iter().enumerate() {
        if matches!(operation, Operation::Kill | Operation::Remount) {
            history.push(operation, runner.model.clone(), false);
            continue;
        }
        let outcome = runner.step(operation);
        let outcome = outcome.map_err(|error| {
            Failure::new(Promise::Reference, error).context(format!("at operation {index}"))
        })?;
        history.push(operation, runner.model.clone(), outcome.is_ok());
        let layout = volume.layout();
        let first = layout.committed();
        for survived in (first.0..=layout.appended().0).map(Position) {
            // States that were checked before are checked again only if a new promise was
            // made.
            if survived < checked && !operation.promises_durability() {
                continue;
            }
            states += 1;
            let at = |failure: Failure| {
                failure.context(format!("after operation {index}, crash with {survived:?}"))
            };
            check(
                layout.crash_after(survived),
                &history,
                Step::returned(index),
            )
            .map_err(at)?;
        }
        checked = layout.appended();
    }
    let verified = runner.verify();
    verified.map_err(|error| Failure::new(Promise::Reference, error))?;
    Ok(states)
}

fn check(crashed: MemoryLayout, history: &History, step: Step) -> Result<(), Failure> {
    let fail = |promise| move |text: String| Failure::new(promise, text);
    let mounted = mount_layout(Arc::new(crashed), new_clock());
    let mounted: Box<dyn Mounted> =
        mounted.map_err(|error| Failure::new(Promise::Mount, error.to_string()))?;
    let tree = tree::walk(&*mounted, Bounds::default()).map_err(fail(Promise::Mount))?;
    history
        .check(&tree, step)
        .map_err(fail(Promise::Contract))?;
    let used = mounted.usage().inodes;
    if used != tree.inodes {
        let text = format!("{used} inodes in use, {} reached by names", tree.inodes);
        return Err(Failure::new(Promise::Leak, text));
    }
    Ok(())
}
