//! Volumes with each policy: filled, examined, stored, refused.

use super::*;

/// The names of the policies.
const POLICIES: [&str; 6] = ["efs", "ffs-m8r2", "fixed", "extent", "buddy", "restricted"];

#[test]
fn every_policy_is_made_filled_emptied_and_mounted_again() {
    use crate::format::Metadata::{Asynchronous, Journal, Synchronous};
    let orders = [Journal, Synchronous, Asynchronous];
    for (name, metadata) in POLICIES.into_iter().flat_map(|p| orders.map(|m| (p, m))) {
        eprintln!("{name}, {}", metadata.name());
        let options = FfsFormatOptions {
            metadata,
            ..FfsFormatOptions::named(name).unwrap()
        };
        let device = memory(16 << 20, 4096);
        let system = made_with(&device, &options);
        assert_eq!(*system.layout().policy(), options.policy);
        let root = Caller::root();
        let empty = system.statfs().free;
        for round in 0..2u8 {
            let (mut names, mut bytes, mut full) = (Vec::new(), 0, false);
            while !full {
                let name = format!("file{}", names.len());
                let ino = create(&system, &name);
                names.push(name);
                for block in 0..64 {
                    full |= write(&system, ino, block * 4096, &[round; 4096]).is_err();
                    bytes += if full { 0 } else { 4096 };
                }
            }
            assert!(
                bytes > 12 << 20,
                "{name}, round {round}: only {bytes} bytes fit"
            );
            system.sync().unwrap();
            for name in names {
                system
                    .unlink(&root, InodeNo::ROOT, name.as_bytes())
                    .unwrap();
            }
            while system.write_back().unwrap() {}
            system.maintain().unwrap();
        }
        assert!(system.statfs().free * 10 > empty * 9);
        let file = create(&system, "last");
        write(&system, file, 0, &[9; 100_000]).unwrap();
        system.sync().unwrap();
        drop(system);
        sound(&device);
        let system = again(&device);
        assert_eq!(read(&system, file, 0, 200_000), [9; 100_000]);
    }
}

/// Two files that grow alternately: the places of their blocks depend on the policy.
#[test]
fn files_that_grow_in_turns_lie_as_the_policy_has_it() {
    let runs = |name: &str| {
        let options = FfsFormatOptions::named(name).unwrap();
        let device = memory(64 << 20, 4096);
        let system = made_with(&device, &options);
        let files = [create(&system, "a"), create(&system, "b")];
        for block in 0..64 {
            for file in files {
                write(&system, file, block * 4096, &[1; 4096]).unwrap();
                system.fsync(file, false).unwrap();
            }
        }
        let found = system
            .layout()
            .map(varve_fs::View::Live, files[0], 0, 64)
            .unwrap();
        let follows = |two: &[varve_fs::Mapping<crate::format::Place>]| {
            two[0].pointer.sector + 8 == two[1].pointer.sector
        };
        1 + found.windows(2).filter(|two| !follows(two)).count()
    };
    // Single blocks alternate; extents have 16 blocks; buddies double; restricted
    // blocks have 4 KiB up to 64 KiB, then 64 KiB.
    assert!(runs("fixed") > 60 && runs("efs") > 60);
    let (extents, buddies, restricted) = (runs("extent"), runs("buddy"), runs("restricted"));
    assert!((4..7).contains(&extents), "{extents}");
    assert!((3..8).contains(&buddies), "{buddies}");
    assert!((12..24).contains(&restricted), "{restricted}");
}

/// The superblock has the policy with its parameters, and refuses invalid ones.
#[test]
fn policies_are_stored_with_their_parameters() {
    use crate::allocate::{Fit, Policy};
    use crate::format::Superblock;
    use zerocopy::IntoBytes;
    let policies = [
        Policy::named("FFS-m1r2").unwrap(),
        Policy::Fixed { shuffled: Some(7) },
        Policy::Extents {
            fit: Fit::Best,
            sizes: vec![1, 2, 3, 4, 5, 6, 7, 256],
        },
        Policy::Buddy,
        Policy::Restricted {
            sizes: vec![1, 8],
            grow: 2,
            region: None,
        },
        // No file will ever reach this size.
        Policy::Restricted {
            sizes: vec![1, u32::MAX / 3, u32::MAX],
            grow: u32::MAX,
            region: None,
        },
    ];
    for policy in policies {
        let options = FfsFormatOptions {
            policy: policy.clone(),
            ..FfsFormatOptions::default()
        };
        let made = plan(&*memory(16 << 20, 512), &options, 0).unwrap();
        let read = Superblock::parse(made.sealed().as_bytes()).unwrap();
        assert_eq!(read.policy(), Ok(policy));
    }
    let nonsense = [
        Policy::Extents {
            fit: Fit::First,
            sizes: vec![],
        },
        Policy::Extents {
            fit: Fit::First,
            sizes: vec![4, 0],
        },
        // There are more sizes than the superblock has fields for, and then more than
        // a byte can count.
        Policy::Extents {
            fit: Fit::First,
            sizes: vec![1; 9],
        },
        Policy::Extents {
            fit: Fit::First,
            sizes: vec![1; 257],
        },
        Policy::Restricted {
            sizes: vec![2, 8],
            grow: 1,
            region: None,
        },
        Policy::Restricted {
            sizes: vec![1, 8, 12],
            grow: 1,
            region: None,
        },
        Policy::Restricted {
            sizes: vec![1, 8],
            grow: 0,
            region: None,
        },
        Policy::Restricted {
            sizes: vec![1, 8],
            grow: 1,
            region: Some(12),
        },
    ];
    let device = memory(16 << 20, 512);
    for policy in nonsense {
        let options = FfsFormatOptions {
            policy,
            ..FfsFormatOptions::default()
        };
        let refused = plan(&*device, &options, 0);
        assert!(matches!(refused, Err(Error::Format(_))), "{refused:?}");
    }
    let with_fragments = FfsFormatOptions {
        fragment_bytes: 1024,
        ..FfsFormatOptions::named("buddy").unwrap()
    };
    assert!(plan(&*device, &with_fragments, 0).is_err());
    // A policy that this program does not have, and more sizes than there are fields
    // for.
    let full = Policy::Extents {
        fit: Fit::First,
        sizes: vec![1; 8],
    };
    for (policy, at) in [(Policy::default(), 0), (full, 2)] {
        let options = FfsFormatOptions {
            policy,
            ..FfsFormatOptions::default()
        };
        let mut unknown = plan(&*device, &options, 0).unwrap();
        let at = unknown.as_bytes().len() - 64 + at;
        unknown.as_mut_bytes()[at] = 9;
        assert!(Superblock::parse(unknown.sealed().as_bytes()).is_err());
    }
}
