//! Crafted partial segments: states that only an attacker produces, with right checksums.
//!
//! The last partial of a log that ends behind its checkpoint is forged: a summary
//! describes more than its partial contains, in each entry in turn. Nothing behind it
//! refers to it, so only its own checksum must be made right. Recovery must end the log
//! before it: the tree is that of the previous group, and no byte beyond the partial is
//! read.

use crate::explorer::same_tree;
use crate::failure::{Failure, Promise};
use crate::model::Model;
use crate::mounted::Subject;
use crate::operation::story;
use crate::panics;
use crate::runner::{Runner, new_clock};
use crate::subjects::Log;
use crate::tree::{Bounds, Tree, walk};
use std::sync::Arc;
use varve_device::{Device, MemoryDevice, MemoryImage};
use varve_lfs::Lfs;
use varve_lfs::format::summary::{
    BlockEntry, Entries, Entry, FileEntry, HEADER_BYTES, InodeEntry, RecordEntry,
};
use varve_lfs::format::{SECTOR, SummaryHeader};
use zerocopy::IntoBytes;

/// A summary and its place.
struct Partial {
    /// Byte address.
    at: u64,
    header: SummaryHeader,
    entries: Vec<Entry<'static>>,
}

impl Partial {
    /// Returns the last partial of the log in `image`.
    fn last(image: &MemoryImage) -> Partial {
        let superblock = Lfs::find_superblock(&MemoryDevice::from_image(image)).expect("a volume");
        let unit = u64::from(superblock.write_unit.get());
        let tag = superblock.volume_tag();
        let summaries = (0..image.geometry().size / unit).filter_map(|number| {
            let (at, mut bytes) = (number * unit, vec![0; unit as usize]);
            image.read(at, &mut bytes);
            let header = SummaryHeader::parse(&bytes, tag, at / SECTOR).ok()?;
            let end = HEADER_BYTES + header.entry_bytes.get() as usize;
            let entries = bytes.get(HEADER_BYTES..end)?;
            header.verify_entries(entries).ok()?;
            let entries = Entries::new(entries).map(|entry| kept(entry.ok()?));
            let entries = entries.collect::<Option<_>>()?;
            Some(Partial {
                at,
                header,
                entries,
            })
        });
        summaries
            .max_by_key(|partial| partial.header.serial.get())
            .expect("a log")
    }

    /// Returns `image` with these entries and a right checksum.
    fn forged(&self, image: &MemoryImage, entries: &[Entry<'_>]) -> MemoryImage {
        let mut bytes = Vec::new();
        for entry in entries {
            bytes.extend_from_slice(match entry {
                Entry::File(entry) => FileEntry::as_bytes(entry),
                Entry::Block(entry) => BlockEntry::as_bytes(entry),
                Entry::Inode(entry) => InodeEntry::as_bytes(entry),
                Entry::Record(entry) => RecordEntry::as_bytes(entry),
                Entry::Placed(placed) => placed.bytes,
            });
        }
        let mut header = self.header;
        header.entry_bytes = (bytes.len() as u32).into();
        header.entry_count = (entries.len() as u32).into();
        header.crc = header.computed_crc(&bytes).into();
        let mut image = image.clone();
        image.write(self.at, header.as_bytes());
        image.write(self.at + HEADER_BYTES as u64, &bytes);
        image
    }

    /// Returns entries that describe more than the partial contains.
    fn too_long(&self) -> Vec<Vec<Entry<'static>>> {
        let mut forgeries = Vec::new();
        // A write unit is more than the padding behind the inodes.
        let unit = (4096 / SECTOR) as u8;
        for (index, entry) in self.entries.iter().enumerate() {
            match entry {
                Entry::Block(block) => {
                    let longer =
                        [unit, 2 * unit, u8::MAX].map(|by| block.sectors.saturating_add(by));
                    for sectors in longer {
                        let mut entries = self.entries.clone();
                        entries[index] = Entry::Block(BlockEntry { sectors, ..*block });
                        forgeries.push(entries);
                    }
                }
                // There are more inodes than fit.
                Entry::Inode(_) => {
                    let mut entries = self.entries.clone();
                    entries.extend([*entry; 32]);
                    forgeries.push(entries);
                }
                Entry::File(_) | Entry::Record(_) | Entry::Placed(_) => {}
            }
        }
        forgeries
    }
}

/// Returns an owned entry. These volumes have no transactions.
fn kept(entry: Entry<'_>) -> Option<Entry<'static>> {
    match entry {
        Entry::File(entry) => Some(Entry::File(entry)),
        Entry::Block(entry) => Some(Entry::Block(entry)),
        Entry::Inode(entry) => Some(Entry::Inode(entry)),
        Entry::Record(entry) => Some(Entry::Record(entry)),
        Entry::Placed(_) => None,
    }
}

fn tree_of(subject: &Log, image: &MemoryImage) -> Result<Tree, Failure> {
    let device = Arc::new(MemoryDevice::from_image(image));
    let fail = |text: String| Failure::new(Promise::Mount, text);
    let mounted = subject.mount(device, new_clock(), 9);
    let mounted = mounted.map_err(|error| fail(error.to_string()))?;
    walk(&*mounted, Bounds::default()).map_err(fail)
}

/// Returns a volume that crashed behind two groups, and its tree between them.
fn died(subject: &Log) -> Result<(Tree, MemoryImage), Failure> {
    let fail = |text: String| Failure::new(Promise::Reference, text);
    let device = Arc::new(MemoryDevice::new(subject.device_bytes));
    let formatted = subject.format(device.clone(), new_clock());
    formatted.map_err(|error| fail(error.to_string()))?;
    let clock = new_clock();
    let mounted = subject.mount(device.clone(), clock.clone(), 1);
    let mounted = mounted.map_err(|error| fail(error.to_string()))?;
    let mut runner = Runner::new(mounted, clock, Model::new(4096));
    let mut tree = None;
    for text in [
        "create a; write a 0+20000 #1; fsync a",
        "create b; write b 0+5000 #2; write a 8192+9000 #3; setxattr b user.x 3 #4; fsync b",
    ] {
        for operation in story(text) {
            let _ = runner.step(&operation).map_err(fail)?;
        }
        if tree.is_none() {
            tree = Some(tree_of(subject, &device.snapshot())?);
        }
    }
    let image = device.snapshot();
    Ok((tree.expect("two groups"), image))
}

/// Tries every forgery of the last partial of a log. Returns their number.
///
/// # Errors
/// If one was accepted, or made recovery or the check fail.
pub fn too_long(subject: &Log) -> Result<u64, Failure> {
    let (before, image) = died(subject)?;
    let last = Partial::last(&image);
    let mut tried = 0;
    // The unchanged partial must be accepted, so that the forgeries are refused for their
    // changes.
    let whole = tree_of(subject, &last.forged(&image, &last.entries))?;
    if same_tree(&before, &whole, "the last group").is_ok() {
        let text = "the last partial does not count when it is whole".to_owned();
        return Err(Failure::new(Promise::Reference, text));
    }
    for entries in last.too_long() {
        let forged = last.forged(&image, &entries);
        let looked = panics::catch(|| {
            let found = tree_of(subject, &forged)?;
            same_tree(&before, &found, "before a crafted partial")?;
            let device: Arc<dyn Device> = Arc::new(MemoryDevice::from_image(&forged));
            subject.check(device);
            Ok(())
        });
        let looked = looked.unwrap_or_else(|text| Err(Failure::new(Promise::Panic, text)));
        looked.map_err(|failure| failure.context(format!("forgery {tried}: {entries:?}")))?;
        tried += 1;
    }
    Ok(tried)
}
