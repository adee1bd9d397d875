//! Verification in parallel with random operations, checkpoints and cleaning: an
//! undamaged volume gives no findings.

use crate::volume::{Volume, step};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use varve_fs::InodeNo;
use varve_fsck::verify::{Control, Outcome, VerifyOptions, verify};
use varve_lfs::FormatOptions;

#[test]
fn thousands_of_random_steps_give_no_false_alarm() {
    let seed = std::env::var("VARVE_SEED").map_or(1, |text| text.parse().unwrap());
    let rounds = std::env::var("VARVE_ROUNDS").map_or(1, |text| text.parse().unwrap());
    eprintln!(
        "reproduce: VARVE_SEED={seed} cargo test -p varve-fsck --test integrity thousands_of"
    );
    for round in 0..rounds {
        one_round(seed + round);
    }
}

/// Least number of steps of one round, and of verifications of each kind.
const STEPS: u32 = 4000;
const VERIFICATIONS: u32 = 10;

fn one_round(seed: u64) {
    let options = FormatOptions {
        segment_bytes: 128 << 10,
        ..FormatOptions::default()
    };
    let volume = &Volume::with(256 << 20, options);
    for name in ["d0", "d1", "d2"] {
        volume.directory(InodeNo::ROOT, name);
    }
    volume.system.sync().unwrap();
    let done = &AtomicBool::new(false);
    let control = &std::sync::Mutex::new(Arc::new(Control::new(0)));
    let counted = &[AtomicU32::new(0), AtomicU32::new(0)];
    std::thread::scope(|scope| {
        let verifier = scope.spawn(move || {
            let mut data = false;
            while !done.load(Relaxed) {
                data = !data;
                let own = Arc::new(Control::new(if data { 0 } else { 40 << 20 }));
                *control.lock().unwrap() = Arc::clone(&own);
                let options = VerifyOptions { data, strict: true };
                let report = verify(&volume.lfs, &own, &options).unwrap();
                if !report.is_sound() || !report.warnings.is_empty() {
                    done.store(true, Relaxed);
                    panic!("{report:#?}");
                }
                let complete = u32::from(report.outcome == Outcome::Complete);
                counted[usize::from(data)].fetch_add(complete, Relaxed);
            }
        });
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut steps = 0;
        let few = |count: &AtomicU32| count.load(Relaxed) < VERIFICATIONS;
        while !done.load(Relaxed) && (steps < STEPS || counted.iter().any(few)) {
            step(volume, &mut rng);
            steps += 1;
            if steps % 64 == 0 {
                // If this is omitted, the log wraps before anything can be verified.
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            assert!(steps < 2_000_000, "{counted:?} verifications");
        }
        done.store(true, Relaxed);
        control.lock().unwrap().stop();
        verifier.join().unwrap();
        eprintln!("seed {seed}: {counted:?} verifications beside {steps} steps");
    });
    assert_eq!(volume.lfs.stopped(), None);
    volume.unmount();
    assert!(volume.check().is_spotless());
}

/// The image is pinned while its segments are cleaned, and the pin is broken when space
/// is needed.
#[test]
fn a_full_volume_is_served_before_it_is_verified() {
    let options = FormatOptions {
        segment_bytes: 128 << 10,
        ..FormatOptions::default()
    };
    let volume = &Volume::with(16 << 20, options);
    let file = volume.file(InodeNo::ROOT, "file");
    let data = crate::volume::pattern(4, 9 << 20);
    volume.write(file, 0, &data);
    volume.system.checkpoint().unwrap();
    let control = &Arc::new(Control::new(2000)); // far slower than the writer
    std::thread::scope(|scope| {
        let verifier = scope.spawn(move || verify(&volume.lfs, control, &VerifyOptions::default()));
        while control.progress().read_bytes == 0 && control.progress().inodes == 0 {
            std::thread::yield_now();
        }
        // The same file is written four times, twice the volume in all.
        for round in 0..4 {
            volume.write(file, 0, &data[..(8 << 20) + round]);
            volume.system.sync().unwrap();
        }
        assert_eq!(volume.lfs.stopped(), None);
        control.stop();
        let report = verifier.join().unwrap().unwrap();
        assert!(report.is_sound(), "{report:#?}");
    });
    volume.unmount();
    assert!(volume.check().is_spotless());
}
