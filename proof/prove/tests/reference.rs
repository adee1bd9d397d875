//! Random operations compared with the model, without crashes.

use varve_fs::MemoryOptions;
use varve_prove::generator::Profile;
use varve_prove::mounted::Subject;
use varve_prove::random::{announce_seed, scaled};
use varve_prove::reference::{Course, Mount};
use varve_prove::subjects::{Log, MemoryVolume, Toy};

fn on_memory(course: &Course, seed: u64, memory: &MemoryOptions) {
    let volume = |clock| {
        let mut volume = MemoryVolume::new(clock, memory.clone())?;
        Ok(Box::new(move || volume.mount()) as Mount<'_>)
    };
    if let Err(failure) = course.run(seed, volume) {
        panic!("{failure}");
    }
}

fn on_device(course: &Course, seed: u64, subject: &impl Subject) {
    if let Err(failure) = course.run_on(seed, subject) {
        panic!("{failure}");
    }
}

#[test]
fn everything_on_memory() {
    let seed = announce_seed("everything_on_memory", 1);
    for round in 0..scaled(6) {
        let course = Course::new(Profile::everything(), 2500);
        on_memory(&course, seed + round, &MemoryOptions::default());
    }
}

#[test]
fn wide_directories_on_memory() {
    let seed = announce_seed("wide_directories_on_memory", 1);
    for round in 0..scaled(2) {
        let course = Course {
            verify_every: 1000,
            ..Course::new(Profile::wide(), 5000)
        };
        on_memory(&course, seed + round, &MemoryOptions::default());
    }
}

#[test]
fn a_small_volume_on_memory() {
    let seed = announce_seed("a_small_volume_on_memory", 1);
    for round in 0..scaled(3) {
        let course = Course {
            may_be_full: true,
            ..Course::new(Profile::everything(), 2000)
        };
        let memory = MemoryOptions {
            capacity_bytes: 200 << 10,
            ..MemoryOptions::default()
        };
        on_memory(&course, seed + round, &memory);
    }
}

#[test]
fn everything_on_the_toy() {
    let seed = announce_seed("everything_on_the_toy", 1);
    for round in 0..scaled(2) {
        let course = Course::new(Profile::everything(), 300);
        on_device(&course, seed + round, &Toy::default());
    }
}

#[test]
fn everything_on_the_log() {
    let seed = announce_seed("everything_on_the_log", 1);
    let subject = Log {
        device_bytes: 64 << 20,
        ..Log::default()
    };
    for round in 0..scaled(4) {
        let course = Course::new(Profile::everything(), 2500);
        on_device(&course, seed + round, &subject);
    }
}

#[test]
fn wide_directories_on_the_log() {
    let seed = announce_seed("wide_directories_on_the_log", 1);
    let subject = Log {
        device_bytes: 64 << 20,
        ..Log::default()
    };
    for round in 0..scaled(1) {
        let course = Course {
            verify_every: 1000,
            ..Course::new(Profile::wide(), 5000)
        };
        on_device(&course, seed + round, &subject);
    }
}

#[test]
fn a_small_log() {
    let seed = announce_seed("a_small_log", 1);
    let subject = Log {
        device_bytes: 4 << 20,
        ..Log::default()
    };
    for round in 0..scaled(3) {
        let course = Course {
            may_be_full: true,
            ..Course::new(Profile::everything(), 2000)
        };
        on_device(&course, seed + round, &subject);
    }
}

#[test]
fn deep_indexes_on_the_log() {
    let seed = announce_seed("deep_indexes_on_the_log", 1);
    let subject = Log {
        device_bytes: 64 << 20,
        ..Log::default()
    };
    let mut profile = Profile::everything();
    profile.file_blocks = 900;
    profile.kinds.extend(Profile::sparse().kinds);
    for round in 0..scaled(1) {
        on_device(&Course::new(profile.clone(), 600), seed + round, &subject);
    }
}
