//! Andrew: directories are made, files copied into them, all looked at, all read, and some
//! compiled (Seltzer 1992, §7.5, table 7-3); by one user (B3), or by several at once (B4).
//!
//! The data are synthetic: 20 directories and 70 files of 2 to 20 KB, 770 KB in all, as
//! the paper counts 100 synchronous writes for the directories, five each, and 750 KB
//! copied. A compilation reads every file that is compiled and makes an object; at the
//! end the objects are linked.

use super::NumberedFiles;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const DIRECTORIES: u32 = 20;
const FILES: u32 = 70;
const OBJECTS: u32 = 17;
const OBJECT_BYTES: u32 = 8 << 10;
const LINKED_BYTES: u32 = 100 << 10;

/// What the phases are called.
pub const PHASES: [&str; 5] = ["mkdir", "copy", "stat", "grep", "compile"];
/// Seconds of each where the file system has nothing to do: what the log took in table 7-3.
pub const CHARGED_S: [f64; 5] = [0.33, 5.0, 6.5, 9.07, 42.9];
/// Of those, what the processor computes (§7.5): phases three and four do no I/O, and in
/// the fifth it is busy for 59 % of the time. With a user alone on the log it is busy for
/// 60 % of all phases, which leaves nothing of the second.
pub const COMPUTED_S: [f64; 5] = [0.33, 0.0, 6.5, 9.07, 0.59 * 42.9];

/// What a step takes beside the file system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Charge {
    /// Seconds that the processor computes.
    pub computed_s: f64,
    /// Seconds that the program waits for what is not in the file system: compiler,
    /// sources and temporary files are elsewhere.
    pub waited_s: f64,
}

impl Charge {
    /// A share of a phase.
    fn of(phase: usize, share: f64) -> Self {
        Charge {
            computed_s: share * COMPUTED_S[phase],
            waited_s: share * (CHARGED_S[phase] - COMPUTED_S[phase]),
        }
    }

    /// All of it.
    pub fn total_s(self) -> f64 {
        self.computed_s + self.waited_s
    }
}
/// Steps of each.
const STEPS: [u32; 5] = [DIRECTORIES, FILES, FILES, FILES, OBJECTS + 1];

/// When the processor is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After each step, so that one user computes while a drive works for another.
    EachStep,
    /// At the end of a phase.
    AtTheEnd,
}

fn file_bytes(file: u32) -> u32 {
    (2 + 2 * (file % 10)) << 10
}

/// One pass, the `nth` of these files: seconds of each phase. What it makes is removed
/// afterwards, but for its directories. `charge` is told what a step takes
/// beside them.
///
/// # Errors
/// As the files.
pub fn pass<F: NumberedFiles + ?Sized>(
    files: &mut F,
    nth: u32,
    when: When,
    mut charge: impl FnMut(&mut F, Charge),
) -> Result<[f64; 5], F::Error> {
    let mut seconds = [0.0; 5];
    for (at, seconds) in seconds.iter_mut().enumerate() {
        let before = files.now_ns();
        phase(files, nth, at, when, &mut charge)?;
        *seconds = (files.now_ns() - before) as f64 / 1e9;
    }
    remove(files)?;
    Ok(seconds)
}

/// One phase of a pass, by its place in [`PHASES`].
///
/// # Errors
/// As the files.
///
/// # Panics
/// If there is no such phase.
pub fn phase<F: NumberedFiles + ?Sized>(
    files: &mut F,
    nth: u32,
    phase: usize,
    when: When,
    mut charge: impl FnMut(&mut F, Charge),
) -> Result<(), F::Error> {
    for at in 0..STEPS[phase] {
        step(files, nth, phase, at)?;
        if when == When::EachStep {
            charge(files, Charge::of(phase, 1.0 / f64::from(STEPS[phase])));
        }
    }
    if when == When::AtTheEnd {
        charge(files, Charge::of(phase, 1.0));
    }
    Ok(())
}

/// Removes what a pass has made.
///
/// # Errors
/// As the files.
pub fn remove<F: NumberedFiles + ?Sized>(files: &mut F) -> Result<(), F::Error> {
    (0..=FILES + OBJECTS).try_for_each(|file| files.delete(file))
}

fn step<F: NumberedFiles + ?Sized>(
    files: &mut F,
    pass: u32,
    phase: usize,
    at: u32,
) -> Result<(), F::Error> {
    let directory = |file: u32| 1 + pass * DIRECTORIES + file % DIRECTORIES;
    match phase {
        0 => files.enter(directory(at)),
        1 => {
            files.enter(directory(at))?;
            files.create(at)?;
            files.write(at, 0, file_bytes(at), false)
        }
        2 => files.look_again(at),
        3 => files.read(at, 0, file_bytes(at)),
        _ => {
            files.enter(directory(0))?;
            compile(files, at)
        }
    }
}

/// A file is compiled, or, at the end, all objects are linked.
fn compile<F: NumberedFiles + ?Sized>(files: &mut F, nth: u32) -> Result<(), F::Error> {
    if nth < OBJECTS {
        files.read(nth, 0, file_bytes(nth))?;
    }
    let bytes = if nth < OBJECTS {
        OBJECT_BYTES
    } else {
        LINKED_BYTES
    };
    files.create(FILES + nth)?;
    files.write(FILES + nth, 0, bytes, false)
}

/// What a user does among others: so many passes, the first of which is not measured, and
/// then more, until all have done theirs, so that there are always as many users. `left`
/// counts those who have not. Answers what `pass` did for those that are measured.
///
/// # Errors
/// As `pass`.
pub fn in_company<T, E>(
    passes: u32,
    left: &AtomicU32,
    mut pass: impl FnMut(u32) -> Result<T, E>,
) -> Result<Vec<T>, E> {
    let measured = (0..passes).try_fold(Vec::new(), |mut measured, nth| {
        let done = pass(nth)?;
        if nth > 0 {
            measured.push(done);
        }
        Ok(measured)
    });
    left.fetch_sub(1, Relaxed);
    let mut nth = passes;
    while measured.is_ok() && left.load(Relaxed) > 0 {
        pass(nth)?;
        nth += 1;
    }
    measured
}
