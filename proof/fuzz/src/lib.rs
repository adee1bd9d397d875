//! Attacks every parser of bytes from the device, of those that cleaners of other
//! processes and clients on the network send, and of the files that age a volume.
//!
//! Each target takes any bytes and must return: no panic, no endless loop, no
//! memory beyond the size of what it was given. A target tries the bytes as
//! they are and once more with signature and checksums made right, because a
//! mutation seldom gets past a checksum by itself. Where a parser has an
//! encoder, what was parsed must survive encoding and parsing again.
//!
//! `fuzz_targets/` hands the targets to libFuzzer (nightly toolchain);
//! `src/bin/smoke.rs` runs them on mutated seeds with the stable one.

pub mod ageing;
pub mod cleaner;
pub mod directory;
pub mod ffs;
pub mod image;
pub mod input;
pub mod mutate;
pub mod nbd;
pub mod sample;
pub mod stream;
pub mod structures;
pub mod vld;
pub mod vlfs;
pub mod walk;

/// One parser under attack.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, also that of its file in `fuzz_targets/`.
    pub name: &'static str,
    /// Its body.
    pub run: fn(&[u8]),
    /// Inputs worth mutating.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "superblock",
        run: structures::superblock,
        seeds: sample::superblock_seeds,
    },
    Target {
        name: "owner",
        run: structures::owner,
        seeds: sample::owner_seeds,
    },
    Target {
        name: "checkpoint",
        run: structures::checkpoint,
        seeds: sample::checkpoint_seeds,
    },
    Target {
        name: "summary",
        run: structures::summary,
        seeds: sample::summary_seeds,
    },
    Target {
        name: "inode",
        run: structures::inode,
        seeds: sample::inode_seeds,
    },
    Target {
        name: "map",
        run: structures::map,
        seeds: sample::map_seeds,
    },
    Target {
        name: "history",
        run: structures::history,
        seeds: structures::history_seeds,
    },
    Target {
        name: "index_node",
        run: structures::index_node,
        seeds: sample::index_node_seeds,
    },
    Target {
        name: "ifile",
        run: structures::ifile,
        seeds: sample::ifile_seeds,
    },
    Target {
        name: "directory",
        run: directory::directory,
        seeds: directory::seeds,
    },
    Target {
        name: "xattrs",
        run: structures::xattrs,
        seeds: structures::xattr_seeds,
    },
    Target {
        name: "mount_image",
        run: image::mount_image,
        seeds: image::seeds,
    },
    Target {
        name: "mend_image",
        run: image::mend_image,
        seeds: image::seeds,
    },
    Target {
        name: "resize_image",
        run: image::resize_image,
        seeds: image::seeds,
    },
    Target {
        name: "vld_structures",
        run: vld::structures,
        seeds: vld::structure_seeds,
    },
    Target {
        name: "vld_medium",
        run: vld::medium,
        seeds: vld::medium_seeds,
    },
    Target {
        name: "ffs_image",
        run: ffs::image,
        seeds: ffs::seeds,
    },
    Target {
        name: "free_map",
        run: ffs::free_map,
        seeds: ffs::free_map_seeds,
    },
    Target {
        name: "ageing_list",
        run: ageing::list,
        seeds: ageing::seeds,
    },
    Target {
        name: "vlfs_image",
        run: vlfs::image,
        seeds: vlfs::seeds,
    },
    Target {
        name: "cleaner",
        run: cleaner::cleaner,
        seeds: cleaner::seeds,
    },
    Target {
        name: "stream",
        run: stream::stream,
        seeds: stream::seeds,
    },
    Target {
        name: "tp_structures",
        run: varve_tp::fuzzing::structures,
        seeds: varve_tp::fuzzing::structure_seeds,
    },
    Target {
        name: "tp_device",
        run: varve_tp::fuzzing::device_table,
        seeds: varve_tp::fuzzing::device_table_seeds,
    },
    Target {
        name: "tp_environment",
        run: varve_tp::fuzzing::environment,
        seeds: varve_tp::fuzzing::environment_seeds,
    },
    Target {
        name: "nbd",
        run: nbd::conversation,
        seeds: nbd::seeds,
    },
];

/// Runs the target called `name` on `data`.
///
/// # Panics
/// If there is no such target, or the target found a bug.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a target of that name").run)(data);
}
