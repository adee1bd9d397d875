//! Every possible state after a power cut is sound.

use crate::volume::{Image, Volume, checked, formatted, step};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::ops::ControlFlow;
use std::sync::Arc;
use varve_device::{CrashExplorer, Limits, MemoryDevice, RecordingDevice};
use varve_fsck::check::FindingKind;
use varve_lfs::FormatOptions;

#[test]
fn states_after_a_power_cut() {
    let limits = Limits {
        exhaustive_writes: 3,
        random_subsets: 4,
        each_shape: 4,
        torn_writes: 1,
        torn_variants: 3,
        scattered: 1,
    };
    let mut checks = 0;
    for seed in 0..3 {
        eprintln!("seed {seed}");
        let options = FormatOptions {
            segment_bytes: 64 << 10,
            ..FormatOptions::default()
        };
        let (device, clock) = formatted(6 << 20, options);
        let base = device.snapshot();
        let recorder = Arc::new(RecordingDevice::new(MemoryDevice::from_image(&base)));
        let volume = Volume::mount(recorder.clone(), clock, seed);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        for _ in 0..150 {
            step(&volume, &mut rng);
        }
        volume.unmount();
        let trace = recorder.take_trace();
        let mut explorer = CrashExplorer::new(&base, &trace, 4096, limits);
        let stops: Vec<usize> = explorer.stops().collect();
        for stop in stops {
            let outcome = explorer.for_each(stop, seed, |image, description| {
                checks += 1;
                let report = checked(&Image::from(image), false);
                let odd = report
                    .warnings
                    .iter()
                    .any(|warning| warning.kind != FindingKind::CheckpointSlot);
                if report.errors.is_empty() && !odd {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(format!("{description}\n{report}"))
                }
            });
            if let ControlFlow::Break(problem) = outcome {
                panic!("seed {seed}: {problem}");
            }
        }
    }
    eprintln!("{checks} states");
    assert!(checks > 500);
}
