//! The offline check: every checksum; blocks compared with the maps and with each
//! other; inodes with their content; names with link counts. It writes nothing.
//!
//! A repair is rehearsed in memory ([`crate::repair`]), and each of its changes is a
//! problem unless a crash explains it: the next mount of a volume without a journal
//! that was not unmounted makes the same changes. The result of the repair is then
//! checked by independent rules.

use crate::allocate::Policy;
use crate::bits::Bits;
use crate::error::Result;
use crate::ffs::FfsRecovery;
use crate::format::{Geometry, GroupMap, Image, Slot};
use crate::options::{Examine, FfsMountOptions};
use crate::repair::superblocks;
use crate::replay::heads;
use crate::store::{Newest, Sectors};
use crate::tree::{indirects, visit};
use crate::{Error, Ffs, FreeSpace};
use std::collections::HashMap;
use std::sync::Arc;
use varve_device::{Clock, Device};
use varve_fs::{
    FileKind, FileSystem, Inode, InodeNo, Layout, Mapping, Options, Usage, View, attributes_flaw,
    check_names,
};

/// Maximum number of problems that are listed one by one.
const PROBLEMS_MAX: usize = 1000;

/// The result of a check.
#[derive(Debug)]
pub struct Checked {
    /// The problems; empty for a sound volume.
    pub problems: Vec<String>,
    /// Number of problems beyond those listed.
    pub untold: u64,
    /// The result of the mount, including the replay of the journal.
    pub recovery: FfsRecovery,
    /// Number of inodes, blocks and sectors counted.
    pub usage: Usage,
    /// Number of fragments in use, without the metadata of cylinder groups.
    pub fragments_used: u64,
    /// Number of bytes of files that were read.
    pub bytes_read: u64,
    /// The volume's allocation policy.
    pub policy: Policy,
    /// The distribution of free space according to the maps.
    pub free_space: FreeSpace,
}

impl Checked {
    fn tell(&mut self, problem: String) {
        match self.problems.len() < PROBLEMS_MAX {
            true => self.problems.push(problem),
            false => self.untold += 1,
        }
    }
}

/// Checks the volume on `device`, without writing. With `data` it also checks that the
/// content of files can be read.
///
/// # Errors
/// If there is no volume, or a map or the journal cannot be read at all.
pub fn check(device: Arc<dyn Device>, clock: Arc<dyn Clock>, data: bool) -> Result<Checked> {
    let options = FfsMountOptions {
        read_only: true,
        examine: Examine::Always,
        ..FfsMountOptions::default()
    };
    let volume = Arc::new(Ffs::mount(device, Arc::clone(&clock), options)?);
    let mut recovery = volume.recovery.clone();
    let mut problems = passed_over(&volume);
    problems.append(&mut recovery.losses);
    if !recovery.unclean {
        problems.append(&mut recovery.repairs);
    }
    let mut checked = Checked {
        problems,
        untold: recovery.untold,
        recovery,
        usage: Usage::default(),
        fragments_used: 0,
        bytes_read: 0,
        policy: volume.policy.clone(),
        free_space: volume.free_space(),
    };
    let mut seen = Bits::new(volume.store.geometry.fragments());
    let mut inodes = HashMap::new();
    let numbers: Vec<u64> = {
        let numbers = volume.numbers.lock();
        numbers.map(GroupMap::Used).ones().skip(2).collect()
    };
    for ino in numbers {
        match inode(&volume, InodeNo(ino), data, (&mut seen, &mut checked)) {
            Ok(found) => drop(inodes.insert(ino, found)),
            Err(error) => checked.tell(format!("inode {ino}: {error}")),
        }
    }
    maps(&volume, &inodes, &seen, &mut checked);
    let said = volume.writer.lock().usage;
    if said != checked.usage {
        let counted = checked.usage;
        checked.tell(format!(
            "the volume says it holds {said:?}, counted {counted:?}"
        ));
    }
    if !inodes.contains_key(&InodeNo::ROOT.0) {
        checked.tell("there is no root directory".into());
        return Ok(checked);
    }
    match FileSystem::mount(Arc::clone(&volume), clock, Options::default()) {
        Ok(system) => {
            let inodes = inodes.iter().map(|(&ino, inode)| (ino, inode)).collect();
            check_names(&system, &inodes, &mut |problem| checked.tell(problem));
        }
        Err(error) => checked.tell(format!("the tree of names cannot be read: {error}")),
    }
    Ok(checked)
}

/// Returns damaged copies of structures of which the volume has two; a mount relies on
/// the other copy.
pub fn passed_over(volume: &Ffs) -> Vec<String> {
    let device = &*volume.store.device;
    let copies = superblocks::differing(device, &volume.superblock).into_iter();
    let mut problems: Vec<String> = copies
        .map(|(at, problem)| format!("superblock copy at byte {at}: {problem}"))
        .collect();
    // Both heads were durable before the volume was released. Until then a crash may
    // tear one of them.
    let owner = Ffs::read_owner(device, &volume.superblock);
    if owner.is_ok_and(|owner| owner.is_some_and(|owner| owner.is_released())) {
        let heads = heads(device, &volume.store.geometry);
        let damaged = heads.into_iter().filter_map(std::result::Result::err);
        problems.extend(damaged.map(|problem| format!("{problem}: the other one serves")));
    }
    problems
}

/// Counts the blocks of an inode, and marks its fragments.
fn inode(
    volume: &Ffs,
    ino: InodeNo,
    data: bool,
    (seen, checked): (&mut Bits, &mut Checked),
) -> Result<Inode> {
    let geometry = &volume.store.geometry;
    let tables = volume.tables.read();
    let newest = Newest {
        store: &volume.store,
        tables: &tables,
    };
    let image = match newest.slot(ino)? {
        Slot::Used(image) => image,
        Slot::Free(_) => return Err(Error::NoInode(ino)),
    };
    let mut claims = vec![];
    let (mut blocks, mut sectors) = (0, 0);
    let mut mapped = Vec::new();
    let walked = visit(&newest, &image, 0, u64::MAX, &mut |block, place| {
        (blocks, sectors) = (blocks + 1, sectors + u64::from(place.sectors));
        if blocks > geometry.fragments() {
            return false;
        }
        claims.push((place.sector, u64::from(place.sectors)));
        if !place.is_unwritten() {
            let pointer = place;
            mapped.push(Mapping { block, pointer });
        }
        true
    });
    let mut indirect_blocks = 0;
    let indirect = indirects(&newest, &image, &mut |_, place| {
        claims.push((place.sector, u64::from(place.sectors)));
        indirect_blocks += 1;
        indirect_blocks <= geometry.fragments()
    });
    if !image.xattrs.is_none() {
        claims.push((image.xattrs.sector(), image.xattrs.sectors().into()));
    }
    drop(tables);
    for (sector, sectors) in claims {
        claim(geometry, (ino, sector, sectors), (seen, checked));
    }
    walked.and(indirect)?;
    let attributes = u64::from(image.xattrs.sectors());
    checked.usage.inodes += 1;
    checked.usage.blocks += blocks;
    // The volume's count includes the attributes, the inode's does not.
    checked.usage.sectors += sectors + attributes;
    if (blocks, sectors) != (image.inode.blocks, image.inode.sectors) {
        checked.tell(format!(
            "inode {ino}: says {} blocks of {} sectors, has {blocks} of {sectors}",
            image.inode.blocks, image.inode.sectors
        ));
    }
    content(volume, &image, &mapped, data, checked);
    Ok(image.inode)
}

/// Reads the blocks that have checksums, and with `data` the other blocks.
fn content(
    volume: &Ffs,
    image: &Image,
    mapped: &[Mapping<crate::format::Place>],
    data: bool,
    checked: &mut Checked,
) {
    let ino = image.inode.ino;
    let directory = image.inode.kind() == FileKind::Directory;
    if mapped.iter().any(|m| m.pointer.is_checked() != directory) {
        checked.tell(format!(
            "inode {ino}: blocks are checked as those of {} are",
            if directory { "a file" } else { "a directory" }
        ));
    }
    if data || directory {
        for some in mapped.chunks(256) {
            match volume.read(ino, some) {
                Ok(blocks) => {
                    checked.bytes_read += blocks.iter().map(|b| b.len() as u64).sum::<u64>();
                }
                Err(error) => checked.tell(format!("inode {ino}: {error}")),
            }
        }
    }
    let flaw = match volume.read_xattrs(View::Live, ino) {
        Ok(blob) => attributes_flaw(&blob),
        Err(error) => Some(error.to_string()),
    };
    if let Some(flaw) = flaw {
        checked.tell(format!("inode {ino}: {flaw}"));
    }
}

/// Marks sectors as belonging to a file.
fn claim(
    geometry: &Geometry,
    (ino, sector, sectors): (InodeNo, u64, u64),
    (seen, checked): (&mut Bits, &mut Checked),
) {
    let first = geometry.fragment_of(sector);
    for fragment in first..first + geometry.fragments_for(sectors) {
        if seen.get(fragment) {
            checked.tell(format!(
                "inode {ino}: sector {} is somebody else's, too",
                geometry.fragment_sector(fragment)
            ));
        }
        seen.set(fragment, true);
        checked.fragments_used += 1;
    }
}

/// Compares the maps with the inodes and blocks found.
fn maps(volume: &Ffs, inodes: &HashMap<u64, Inode>, seen: &Bits, checked: &mut Checked) {
    let geometry = &volume.store.geometry;
    {
        let writer = volume.writer.lock();
        for group in 0..geometry.groups() {
            for at in geometry.data_fragments(group) {
                let said = writer.room.used().get(at);
                if said != seen.get(at) {
                    let sector = geometry.fragment_sector(at);
                    checked.tell(match said {
                        true => format!("sector {sector} is nobody's, its map says it is in use"),
                        false => format!("sector {sector} is in use, its map says it is free"),
                    });
                }
            }
        }
    }
    let numbers = volume.numbers.lock();
    for ino in 2..geometry.inodes() {
        let inode = inodes.get(&ino);
        // An inode that cannot be read is reported elsewhere.
        let Some(inode) = inode else {
            for map in [GroupMap::Unfinished, GroupMap::Directories] {
                if numbers.map(map).get(ino) && !numbers.map(GroupMap::Used).get(ino) {
                    checked.tell(format!("inode {ino}: free, and in the map of {map:?}"));
                }
            }
            continue;
        };
        let says = [
            (GroupMap::Touched, true),
            (GroupMap::Unfinished, inode.is_unfinished()),
            (GroupMap::Directories, inode.kind() == FileKind::Directory),
        ];
        for (map, expected) in says {
            if numbers.map(map).get(ino) != expected {
                checked.tell(format!(
                    "inode {ino}: the map of {map:?} says {}, the inode {expected}",
                    !expected
                ));
            }
        }
    }
}
