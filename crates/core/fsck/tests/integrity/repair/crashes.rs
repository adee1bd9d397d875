//! The power fails during repair: the remaining volume can be repaired with the same
//! result.

use super::sweep::{mend, patient};
use crate::tree::Tree;
use crate::volume::{Image, checked};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::ops::ControlFlow;
use std::sync::Arc;
use varve_device::{CrashExplorer, Device, Limits, MemoryDevice, RecordingDevice, VirtualClock};
use varve_fsck::repair::{RepairOptions, repair};

#[test]
fn power_cut_during_repair() {
    let limits = Limits {
        exhaustive_writes: 2,
        random_subsets: 2,
        each_shape: 2,
        torn_writes: 1,
        torn_variants: 2,
        scattered: 1,
    };
    let (device, _) = patient(128 << 10);
    let first: u64 = std::env::var("VARVE_SEED").map_or(0, |seed| seed.parse().unwrap());
    let seeds: u64 = std::env::var("VARVE_SEEDS").map_or(4, |seeds| seeds.parse().unwrap());
    let mut states = 0;
    for seed in first..first + seeds {
        eprintln!("reproduce: VARVE_SEED={seed} cargo test -p varve-fsck power_cut_during_repair");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let damaged = MemoryDevice::from_image(&device.snapshot());
        for _ in 0..rng.random_range(1..4) {
            let unit = rng.random_range(0..400u64);
            damaged.apply_write(unit * 4096, &[0; 4096]).unwrap();
        }
        let base = damaged.snapshot();
        let recorder = Arc::new(RecordingDevice::new(MemoryDevice::from_image(&base)));
        let clock = Arc::new(VirtualClock::new(3_000_000_000_000, 1000));
        let options = RepairOptions {
            seed: Some(seed),
            ..RepairOptions::default()
        };
        let whole: Arc<dyn Device> = recorder.clone();
        let Ok(report) = repair(whole, clock, &options) else {
            continue; // Both records were hit.
        };
        assert!(report.is_whole(), "seed {seed}: {report}");
        let after = Arc::new(MemoryDevice::from_image(&recorder.inner().snapshot()));
        let after = Tree::of(&after);
        let trace = recorder.take_trace();
        let mut explorer = CrashExplorer::new(&base, &trace, 4096, limits);
        let stops: Vec<usize> = explorer.stops().collect();
        for stop in stops {
            let outcome = explorer.for_each(stop, seed, |image, description| {
                states += 1;
                let device = Arc::new(MemoryDevice::from_image(&image));
                let again = mend(&device, true);
                let check = checked(&Image::from(device.snapshot()), true);
                let now = Tree::of(&device);
                let same = after.differences(&now);
                // Numbers and names in lost+found may differ; content may not.
                let wrong = same.iter().find(|d| !d.path.starts_with("/lost+found"));
                match wrong {
                    None if again.is_whole() && check.is_spotless() => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(format!(
                        "{description}\n{report}\n--- again\n{again}\n--- then {check}\n{same:#?}"
                    )),
                }
            });
            if let ControlFlow::Break(problem) = outcome {
                panic!("seed {seed}: {problem}");
            }
        }
    }
    eprintln!("{states} states");
    assert!(states > 40);
}
