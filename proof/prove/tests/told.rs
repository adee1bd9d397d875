//! A check reports every damage that a repair would change, or that a mount would refuse
//! or skip. The tests use mutants of the three layouts, and each kind of damage that the
//! check once missed.

use varve_device::MemoryImage;
use varve_prove::images::{images_of, workload};
use varve_prove::in_place::InPlace;
use varve_prove::operation::story;
use varve_prove::random::{announce_seed, scaled};
use varve_prove::subjects::Log;
use varve_prove::told::{Original, Repaired, judge, mutants};
use varve_prove::virtual_log::VirtualLog;

fn of(subject: &impl Repaired, test: &str, count: u64) {
    let seed = announce_seed(test, 1);
    match mutants(subject, &workload(seed), seed, scaled(count)) {
        Ok(outcomes) => {
            eprintln!("{outcomes:?}");
            assert!(outcomes.reported * 10 > outcomes.mutants, "{outcomes:?}");
        }
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn damage_of_the_log_is_told() {
    of(&Log::default(), "damage_of_the_log_is_told", 150);
}

#[test]
fn damage_of_a_volume_in_place_is_told() {
    let subject = InPlace::default();
    of(&subject, "damage_of_a_volume_in_place_is_told", 150);
}

#[test]
fn damage_of_every_policy_and_of_metadata_in_place_is_told() {
    let test = "damage_of_every_policy_and_of_metadata_in_place_is_told";
    for subject in InPlace::of_every_policy() {
        of(&subject, test, 20);
    }
    of(&InPlace::default().ordered(), test, 40);
    of(&InPlace::default().unordered(), test, 40);
}

#[test]
fn damage_of_a_virtual_log_is_told() {
    let subject = VirtualLog::default();
    of(&subject, "damage_of_a_virtual_log_is_told", 150);
}

const STORY: &str = "mkdir d; create d/needle-1; write d/needle-1 0+3000 #1; create d/needle-2; \
                     setxattr d/needle-1 x 8 #2; setxattr d/needle-1 y 300 #3; sync";

/// Returns the image of an unmounted volume, with attributes and names that can be found
/// in its bytes.
fn unmounted(subject: &impl Repaired) -> Original {
    match images_of(subject, &story(STORY), 4096) {
        Ok([_, image]) => Original::new(image),
        Err(failure) => panic!("{failure}"),
    }
}

fn told(subject: &impl Repaired, image: &MemoryImage, what: &str) -> Vec<String> {
    match judge(subject, image) {
        Ok(problems) => {
            assert!(!problems.is_empty(), "{what}: nobody was told");
            problems
        }
        Err(text) => panic!("{what}: {text}"),
    }
}

/// Calls `test` for each layout, with a function that checks an image and with the
/// original image.
fn everywhere(test: impl Fn(&dyn Fn(&MemoryImage, &str) -> Vec<String>, &Original)) {
    let log = Log::default();
    test(&|image, what| told(&log, image, what), &unmounted(&log));
    let mut in_place = InPlace::of_every_policy();
    in_place.truncate(3);
    in_place.push(InPlace::default());
    for subject in &in_place {
        test(
            &|image, what| told(subject, image, what),
            &unmounted(subject),
        );
    }
    let vlfs = VirtualLog::default();
    test(&|image, what| told(&vlfs, image, what), &unmounted(&vlfs));
}

#[test]
fn names_that_no_look_up_finds_or_that_are_there_twice_are_told() {
    everywhere(|told, original| {
        for (name, what) in [
            (b"needle-2", "a name twice"),
            (b"noodle-1", "a name under another's hash"),
        ] {
            let (image, places) = original.replaced(b"needle-1", name);
            assert!(places > 0, "{what}");
            told(&image, what);
        }
    });
}

#[test]
fn attributes_that_cannot_be_listed_or_asked_for_are_told() {
    everywhere(|told, original| {
        for (to, what) in [
            (b"user.\0", "an attribute's name with a zero byte"),
            (b"mine.x", "an attribute's name that nobody can ask for"),
        ] {
            let (image, places) = original.replaced(b"user.x", to);
            assert!(places > 0, "{what}");
            told(&image, what);
        }
        // The fields are the length of the name, the length of the value, and the name.
        let (image, places) = original.replaced(b"\x06\x08\0\0\0user.x", b"\0\x0e\0\0\0user.x");
        assert!(places > 0);
        told(&image, "an attribute's empty name");
    });
}

#[test]
fn a_superblock_that_is_destroyed_or_of_another_volume_is_told() {
    everywhere(|told, original| {
        let mut image = original.image.clone();
        image.write(0, &[0; 512]);
        told(&image, "a destroyed superblock");
    });
}

/// Returns the image with another hash seed. Every copy of the superblock has the same
/// seed and is whole.
fn with_another_hash_seed(original: &Original, seed: u64) -> MemoryImage {
    let (from, to) = (seed.to_le_bytes(), (!seed).to_le_bytes());
    let (image, places) = original.replaced(&from, &to);
    assert!(places > 1, "{places} superblocks");
    image
}

#[test]
fn another_seed_of_the_hashes_is_told() {
    use varve_device::MemoryDevice;
    let of = |original: &Original| MemoryDevice::from_image(&original.image);
    let log = Log::default();
    let original = unmounted(&log);
    let found = varve_lfs::Lfs::find_superblock(&of(&original)).unwrap();
    told(
        &log,
        &with_another_hash_seed(&original, found.hash_seed.get()),
        "log",
    );
    let in_place = InPlace::default();
    let original = unmounted(&in_place);
    let found = varve_ffs::Ffs::find_superblock(&of(&original)).unwrap();
    told(
        &in_place,
        &with_another_hash_seed(&original, found.hash_seed.get()),
        "FFS",
    );
    let vlfs = VirtualLog::default();
    let original = unmounted(&vlfs);
    let found = varve_vlfs::Vlfs::find_superblock(&of(&original)).unwrap();
    told(
        &vlfs,
        &with_another_hash_seed(&original, found.hash_seed.get()),
        "VLFS",
    );
}
