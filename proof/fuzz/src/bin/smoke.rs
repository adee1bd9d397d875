//! Runs every target on mutated seeds: the fuzzer's minute in CI, without a
//! fuzzer. `smoke [--seconds N] [--seed S] [--from I] [--count N] [--jobs N] [TARGET ...]`
//!
//! As many targets run side by side as there are processors, or `--jobs`.
//! A run is its seed: input `i` of a target depends on the two alone. The first
//! input that panics at some line of the source is told by number and in
//! hexadecimal and kept in `artifacts/`; the run goes on, to find other lines,
//! and fails in the end. One that takes too long ends it.

use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use varve_fuzz::mutate::{Random, mutant};
use varve_fuzz::{TARGETS, Target};

/// An input must be done within this.
const PATIENCE: Duration = Duration::from_secs(20);

struct Arguments {
    seconds: f64,
    seed: u64,
    from: u64,
    count: u64,
    jobs: usize,
    targets: Vec<Target>,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments {
        seconds: 6.0,
        seed: 1,
        from: 0,
        count: u64::MAX,
        jobs: thread::available_parallelism().map_or(1, usize::from),
        targets: Vec::new(),
    };
    let mut rest = std::env::args().skip(1);
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{argument} needs a number"));
        let bad = |error: std::num::ParseIntError| error.to_string();
        match argument.as_str() {
            "--seconds" => parsed.seconds = value()?.parse().map_err(|_| "bad --seconds")?,
            "--seed" => parsed.seed = value()?.parse().map_err(bad)?,
            "--from" => parsed.from = value()?.parse().map_err(bad)?,
            "--count" => parsed.count = value()?.parse().map_err(bad)?,
            "--jobs" => parsed.jobs = value()?.parse().map_err(bad)?,
            name => {
                let target = TARGETS.iter().find(|target| target.name == name);
                parsed
                    .targets
                    .push(*target.ok_or(format!("no target {name}"))?);
            }
        }
    }
    if parsed.targets.is_empty() {
        parsed.targets = TARGETS.to_vec();
    }
    Ok(parsed)
}

/// An input that is about to be tried: its target, its number, its bytes.
/// Nothing, if no other follows at once.
type Announcement = Option<(&'static str, u64, Vec<u8>)>;

/// Ends the process if an announced input is not followed by another in time.
fn watch(announced: Receiver<Announcement>) {
    let mut current = None;
    loop {
        match announced.recv_timeout(PATIENCE) {
            Ok(next) => current = next,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                if let Some((name, nth, input)) = &current {
                    found(name, *nth, input, "takes too long");
                    std::process::exit(101);
                }
            }
        }
    }
}

/// Tells what was found and keeps the input.
fn found(name: &str, nth: u64, input: &[u8], what: &str) {
    let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = format!("{}/artifacts/{name}", env!("CARGO_MANIFEST_DIR"));
    let path = format!("{folder}/smoke-{nth}");
    let kept = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, input));
    eprintln!("{name}, input {nth}: {what}\ninput: {hex}");
    match kept {
        Ok(()) => eprintln!("kept as {path}"),
        Err(error) => eprintln!("{path}: {error}"),
    }
}

thread_local! {
    /// Where and why this thread's last panic was.
    static PANICKED: RefCell<(String, String)> = RefCell::default();
}

fn note_panic(info: &std::panic::PanicHookInfo<'_>) {
    let place = info
        .location()
        .map(|at| format!("{}:{}", at.file(), at.line()));
    let trace = std::backtrace::Backtrace::force_capture().to_string();
    let ours = trace.lines().filter(|line| {
        ["crates/", "study/", "proof/"]
            .iter()
            .any(|folder| line.contains(folder))
    });
    let callers: Vec<&str> = ours.map(str::trim).take(8).collect();
    let text = format!("{info}\n  {}", callers.join("\n  "));
    PANICKED.set((place.unwrap_or_default(), text));
}

/// Runs one target for its time, and adds to `places` where it panics.
fn attack(
    target: &Target,
    arguments: &Arguments,
    announce: &Sender<Announcement>,
    places: &Mutex<HashSet<String>>,
) {
    let (name, seed) = (target.name, arguments.seed);
    println!("reproduce: smoke --seed {seed} {name}");
    let Ok(seeds) = catch_unwind(target.seeds) else {
        found(name, 0, &[], &PANICKED.take().1);
        std::process::exit(101);
    };
    let span = Duration::from_secs_f64(arguments.seconds);
    let start = Instant::now();
    let (mut nth, mut panics) = (arguments.from, 0u64);
    while start.elapsed() < span && nth - arguments.from < arguments.count {
        // The seeds themselves, from a place that differs by run, and
        // mutants of them in turn.
        let input = if nth % 2 == 0 && nth / 2 < seeds.len() as u64 {
            let at = nth / 2 + seed.wrapping_mul(7919);
            seeds[(at % seeds.len() as u64) as usize].clone()
        } else {
            mutant(&seeds, &mut Random::new(seed, nth))
        };
        let _ = announce.send(Some((name, nth, input.clone())));
        let run = AssertUnwindSafe(|| (target.run)(&input));
        if catch_unwind(run).is_err() {
            panics += 1;
            let (place, text) = PANICKED.take();
            if places.lock().expect("never poisoned").insert(place) {
                found(name, nth, &input, &text);
            }
        }
        nth += 1;
    }
    let _ = announce.send(None);
    let done = nth - arguments.from;
    let rate = done as f64 / start.elapsed().as_secs_f64();
    println!("  {name}: {done} inputs, {rate:.0} a second, {panics} panics");
}

fn main() {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("{problem}");
            std::process::exit(2);
        }
    };
    std::panic::set_hook(Box::new(note_panic));
    let (places, next) = (Mutex::new(HashSet::new()), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..arguments.jobs.max(1) {
            let (announce, announced) = channel();
            thread::spawn(move || watch(announced));
            scope.spawn(|| {
                let announce = announce;
                let taken = || next.fetch_add(1, Ordering::Relaxed);
                while let Some(target) = arguments.targets.get(taken()) {
                    attack(target, &arguments, &announce, &places);
                }
            });
        }
    });
    if !places.lock().expect("never poisoned").is_empty() {
        std::process::exit(101);
    }
}
