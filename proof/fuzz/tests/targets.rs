//! The targets themselves: each takes its seeds, and the image sample is what
//! it is meant to be.

use std::time::{Duration, Instant};
use varve_fuzz::{TARGETS, image, sample};
use varve_lfs::format::node::{NodeHeader, node_form};

#[test]
fn every_target_has_a_file_and_takes_its_seeds() {
    for target in TARGETS {
        let path = format!(
            "{}/fuzz_targets/{}.rs",
            env!("CARGO_MANIFEST_DIR"),
            target.name
        );
        let text = std::fs::read_to_string(&path).expect("a file for each target");
        assert!(text.contains(&format!("\"{}\"", target.name)), "{path}");
        (target.run)(&[]);
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{}", target.name);
        // Whole images take long: the smoke goes on with those that are left.
        let begun = Instant::now();
        for seed in &seeds {
            (target.run)(seed);
            if begun.elapsed() > Duration::from_secs(1) {
                break;
            }
        }
    }
}

#[test]
fn packed_index_nodes_are_among_the_seeds_and_in_the_sample() {
    let form = std::mem::offset_of!(NodeHeader, form);
    let is_packed = |node: &&Vec<u8>| node[form] == node_form::PACKED;
    let seeds = sample::index_node_seeds();
    assert!(seeds.iter().any(|node| node[form] == node_form::PLAIN));
    let packed: Vec<&Vec<u8>> = seeds.iter().filter(is_packed).collect();
    assert!(packed.len() > 1, "one of them from the sample");
}

#[test]
fn the_sample_is_sound_and_reaches_beyond_its_checkpoint() {
    let [dead, clean] = sample::images();
    for (sample, replays) in [(dead, true), (clean, false)] {
        let device = varve_device::MemoryDevice::from_image(&sample.image);
        let (lfs, system) = sample::mount(device.into(), false).expect("a sound volume");
        let report = lfs.recovery_report();
        assert_eq!(report.damage, Vec::<String>::new());
        assert_eq!(report.groups > 0, replays, "{report:?}");
        varve_fuzz::walk::all(&lfs, &system);
    }
}

#[test]
fn repair_leaves_a_sound_image_alone() {
    for sample in sample::images() {
        let mut bytes = sample.bytes.clone();
        image::repair(sample, &mut bytes);
        assert!(bytes == sample.bytes);
    }
}

#[test]
fn a_repaired_change_of_an_inode_is_seen_by_mount() {
    let sample = &sample::images()[0];
    let mut bytes = sample.bytes.clone();
    // The size of every root directory image.
    let payloads = sample
        .partials
        .iter()
        .flat_map(|(_, partial)| &partial.payload);
    for payload in payloads.filter(|payload| payload.ino == 2) {
        let at = payload.range.start;
        if bytes[at..].starts_with(b"VINO") {
            bytes[at + 32..at + 40].copy_from_slice(&12345u64.to_le_bytes());
        }
    }
    image::repair(sample, &mut bytes);
    let device = varve_device::MemoryDevice::from_image(&image::assemble(sample, &bytes));
    let (_, system) = sample::mount(device.into(), true).expect("checksums are right");
    let root = system.getattr(varve_fs::InodeNo::ROOT);
    assert_eq!(root.expect("the root").size, 12345);
}
