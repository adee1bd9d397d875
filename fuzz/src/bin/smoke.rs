//! Runs every target on mutated seeds: the fuzzer's minute in CI, without a
//! fuzzer. `smoke [--seconds N] [--seed S] [--from I] [--count N] [TARGET ...]`
//!
//! A run is its seed: input `i` of a target depends on the two alone. The first
//! input that panics at some line of the source is told by number and in
//! hexadecimal and kept in `artifacts/`; the run goes on, to find other lines,
//! and fails in the end. One that takes too long ends it.

use std::collections::HashSet;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
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
    targets: Vec<Target>,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments {
        seconds: 6.0,
        seed: 1,
        from: 0,
        count: u64::MAX,
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

/// Ends the process if an announced input is not followed by another in time.
fn watch(announced: Receiver<Option<(&'static str, u64, Vec<u8>)>>) {
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

/// Where and why the last panic was.
static PANICKED: Mutex<(String, String)> = Mutex::new((String::new(), String::new()));

fn note_panic(info: &std::panic::PanicHookInfo<'_>) {
    let place = info
        .location()
        .map(|at| format!("{}:{}", at.file(), at.line()));
    let trace = std::backtrace::Backtrace::force_capture().to_string();
    let ours = trace.lines().filter(|line| line.contains("crates/varve-"));
    let callers: Vec<&str> = ours.map(str::trim).take(8).collect();
    let text = format!("{info}\n  {}", callers.join("\n  "));
    *PANICKED.lock().expect("no panic while it is held") = (place.unwrap_or_default(), text);
}

fn main() {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("{problem}");
            std::process::exit(2);
        }
    };
    let (announce, announced) = channel();
    std::thread::spawn(move || watch(announced));
    std::panic::set_hook(Box::new(note_panic));
    let mut places = HashSet::new();
    let span = Duration::from_secs_f64(arguments.seconds);
    for target in &arguments.targets {
        let (name, seed) = (target.name, arguments.seed);
        println!("reproduce: smoke --seed {seed} {name}");
        let seeds = (target.seeds)();
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
                let (place, text) = PANICKED.lock().expect("never poisoned").clone();
                if places.insert(place) {
                    found(name, nth, &input, &text);
                }
            }
            nth += 1;
        }
        let _ = announce.send(None);
        let done = nth - arguments.from;
        let rate = done as f64 / start.elapsed().as_secs_f64();
        println!("  {done} inputs, {rate:.0} a second, {panics} panics");
        let _ = std::io::stdout().flush();
    }
    if !places.is_empty() {
        std::process::exit(101);
    }
}
