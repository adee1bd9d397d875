//! The offline check: every checksum, the tree compared with the bits of used units,
//! inodes with their content, names with link counts. It writes nothing.

use crate::error::Result;
use crate::format::{Fork, Image, Place, Superblock};
use crate::lookup::Tables;
use crate::options::VlfsMountOptions;
use crate::recovery::walk;
use crate::walk::{Tree, attributes};
use crate::{Vlfs, VlfsRecovery};
use std::collections::HashMap;
use std::sync::Arc;
use varve_device::Clock;
use varve_format::index::Index;
use varve_fs::{FileSystem, InodeNo, Layout, Options, Usage, View, attributes_flaw, check_names};
use varve_vlog::Medium;
use zerocopy::IntoBytes;

/// Maximum number of problems that are listed one by one.
const PROBLEMS_MAX: usize = 1000;

/// The result of a check.
#[derive(Debug)]
pub struct Checked {
    /// The problems; empty for a sound volume.
    pub problems: Vec<String>,
    /// Number of problems beyond those listed.
    pub untold: u64,
    /// The report of the recovery.
    pub recovery: VlfsRecovery,
    /// Number of inodes, blocks and sectors counted.
    pub usage: Usage,
    /// Number of units of the tree.
    pub units_used: u64,
    /// Number of bytes whose checksums were compared.
    pub bytes_read: u64,
}

impl Checked {
    fn tell(&mut self, problem: String) {
        match self.problems.len() < PROBLEMS_MAX {
            true => self.problems.push(problem),
            false => self.untold += 1,
        }
    }
}

/// Checks the volume on `medium`, without writing. With `data` it also checks the
/// content of files.
///
/// # Errors
/// If there is no volume, or it cannot be recovered at all.
pub fn check(medium: Arc<dyn Medium>, clock: Arc<dyn Clock>, data: bool) -> Result<Checked> {
    let options = VlfsMountOptions {
        read_only: true,
        ..VlfsMountOptions::default()
    };
    let volume = Arc::new(Vlfs::mount(medium, Arc::clone(&clock), options)?);
    let mut checked = Checked {
        problems: passed_over(&volume),
        untold: 0,
        recovery: volume.recovery.clone(),
        usage: Usage::default(),
        units_used: 0,
        bytes_read: 0,
    };
    let tables = volume.tables.read().clone();
    match walk(&volume.store, &tables) {
        Ok((bits, long_xattrs)) => {
            checked.units_used = bits.count();
            let writer = volume.writer.lock();
            if bits != writer.space.tree {
                let said = writer.space.tree.count();
                let counted = checked.units_used;
                checked.tell(format!(
                    "the tree uses {counted} units, {said} are said to be used, or others"
                ));
            }
            let said = writer.long_xattrs;
            if said != long_xattrs {
                checked.tell(format!(
                    "{long_xattrs} blocks of extended attributes are longer than a unit, {said} are \
                     said to be"
                ));
            }
        }
        Err(error) => checked.tell(format!("the tree cannot be walked: {error}")),
    }
    let mut inodes = HashMap::new();
    for ino in (0..tables.end()).filter(|&ino| tables.has(ino)) {
        let entry = tables.entry(ino);
        match tables.image(&volume.store, ino) {
            Ok(image) => {
                // An inode that has changed since the last fold has no entry of its own
                // yet.
                let folded = !tables.images.contains_key(&ino);
                if folded && image.inode.is_unfinished() != entry.unfinished() {
                    checked.tell(format!(
                        "inode {ino}: the inode map says unfinished: {}, the inode {}",
                        entry.unfinished(),
                        image.inode.is_unfinished()
                    ));
                }
                if let Err(error) = content(&volume, &tables, &image, data, &mut checked) {
                    checked.tell(format!("inode {ino}: {error}"));
                }
                inodes.insert(ino, image);
            }
            Err(error) => checked.tell(format!("inode {ino}: {error}")),
        }
    }
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
            let inodes = inodes
                .iter()
                .map(|(&ino, image)| (ino, &image.inode))
                .collect();
            check_names(&system, &inodes, &mut |problem| checked.tell(problem));
        }
        Err(error) => checked.tell(format!("the tree of names cannot be read: {error}")),
    }
    Ok(checked)
}

/// Returns damaged copies of structures of which the volume has two; a mount relies on
/// the other copy.
pub fn passed_over(volume: &Vlfs) -> Vec<String> {
    let (medium, measures) = (&volume.store.medium, volume.measures());
    let mut problems = Vec::new();
    for at in [0, measures.block_byte(measures.last_block())] {
        let mut bytes = vec![0; measures.unit_bytes as usize];
        let problem = match medium
            .read(at, &mut bytes)
            .map(|()| Superblock::parse(&bytes))
        {
            Ok(Ok(copy)) if copy.as_bytes() == volume.superblock.as_bytes() => continue,
            Ok(Ok(_)) => "it differs from the one in use".to_owned(),
            Ok(Err(problem)) => problem.to_string(),
            Err(error) => error.to_string(),
        };
        problems.push(format!("superblock copy at byte {at}: {problem}"));
    }
    // Both were durable before the volume was released; until then a crash may tear one
    // of them.
    let owner = Vlfs::read_owner(&**medium, &volume.superblock);
    let released = owner.is_ok_and(|owner| owner.is_some_and(|owner| owner.is_released()));
    let damaged = volume.recovery.checkpoints_damaged;
    if released && damaged > 0 {
        problems.push(format!("{damaged} of the two checkpoints cannot be read"));
    }
    problems
}

/// Counts the blocks of an inode, and compares their checksums.
fn content(
    volume: &Vlfs,
    tables: &Tables,
    image: &Image,
    data: bool,
    checked: &mut Checked,
) -> Result<()> {
    let ino = image.inode.ino;
    let (mut blocks, mut sectors) = (0, 0);
    let mut failed = Vec::new();
    let mut bytes_read = 0;
    let mut read = |place: &Place, block: u64| {
        if data && place.is_stored() {
            bytes_read += u64::from(place.sectors) * 512;
            if let Err(error) = volume.store.block(place, ino, block) {
                failed.push(error.to_string());
            }
        }
    };
    let fetch = |id, place: &Place| tables.node(&volume.store, id, place);
    // The content is examined, too, whatever is wrong with the attributes.
    let attributes = attributes(volume.measures(), image, &fetch);
    let mut attribute_sectors = 0;
    for (block, place) in attributes.iter().flatten() {
        attribute_sectors += u64::from(place.sectors);
        read(place, *block);
    }
    let tree = Tree {
        measures: volume.measures(),
        image,
        fork: Fork::Content,
        fetch: &fetch,
    };
    let walked = tree.blocks(0, u64::MAX, &mut |block, place| {
        (blocks, sectors) = (blocks + 1, sectors + u64::from(place.sectors));
        read(&place, block);
        true
    });
    failed.into_iter().for_each(|problem| checked.tell(problem));
    checked.bytes_read += bytes_read;
    checked.usage.inodes += 1;
    checked.usage.blocks += blocks;
    // The volume's count includes the attributes, the inode's does not.
    checked.usage.sectors += sectors + attribute_sectors;
    if (blocks, sectors) != (image.inode.blocks, image.inode.sectors) {
        checked.tell(format!(
            "inode {ino}: says {} blocks of {} sectors, has {blocks} of {sectors}",
            image.inode.blocks, image.inode.sectors
        ));
    }
    walked.and(attributes.map(drop))?;
    let flaw = match volume.read_xattrs(View::Live, ino) {
        Ok(blob) => attributes_flaw(&blob),
        Err(error) => Some(error.to_string()),
    };
    if let Some(flaw) = flaw {
        checked.tell(format!("inode {ino}: {flaw}"));
    }
    Ok(())
}
