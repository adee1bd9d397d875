//! The phase of names: every directory is read once, then contradictions are removed.
//!
//! - A name that leads nowhere, or to a file of another kind, is removed.
//! - A directory keeps one name: the one in the directory that its inode names as
//!   parent, if there is one, otherwise the first.
//! - A directory whose structure is damaged is rebuilt from the names in it.
//! - A file without a name is entered in `/lost+found` as `inode-N`, or in the root if
//!   that directory cannot be made; an empty one is freed. A file with a link count of
//!   zero is left to the file system, which frees it.
//! - Link counts and parents are set accordingly.
//!
//! Memory: a count for each file, the parents of each directory, the names of one
//! directory.

use super::directory::{Draft, Name};
use super::{Found, Report, Scan};
use crate::Ffs;
use crate::error::Result;
use crate::format::{GroupMap, Metadata, Slot};
use crate::store::Sectors;
use std::collections::{BTreeMap, HashMap, HashSet};
use varve_fs::{Cause, FileKind, Group, Inode, InodeNo, Item, Timestamp, Usage, Version};

/// Number of inodes that one group changes.
const IMAGES_AT_ONCE: usize = 128;
/// Name of the directory for files without names.
const LOST_AND_FOUND: &[u8] = b"lost+found";
const ROOT: u64 = InodeNo::ROOT.0;

/// The changes to a directory.
#[derive(Default)]
struct Edit {
    gone: Vec<Vec<u8>>,
    /// True if the structure is damaged, so that the directory is rebuilt.
    anew: bool,
}

/// The name of a directory.
#[derive(Clone)]
struct Place {
    parent: u64,
    name: Vec<u8>,
}

pub(super) struct Names<'a> {
    volume: &'a Ffs,
    report: &'a mut Report,
    inodes: HashMap<u64, Found>,
    /// Files that are already reported as lost.
    gone: HashSet<u64>,
    /// Number of names of each file that is not a directory.
    links: HashMap<u64, u32>,
    /// The names of each directory: at first all of them, later one.
    places: BTreeMap<u64, Vec<Place>>,
    edits: BTreeMap<u64, Edit>,
    usage: Usage,
    now: Timestamp,
}

impl Ffs {
    /// Repairs inodes and names after a scan. The changes are appended.
    ///
    /// # Errors
    /// `Full`, or errors of the device.
    pub(crate) fn mend(&self, scan: Scan, report: &mut Report) -> Result<()> {
        let said = std::mem::replace(&mut self.writer.lock().usage, scan.usage);
        // A head that is written in place has the counts of the moment when it was
        // written.
        if said != scan.usage && !self.recovery.unclean {
            report.repair(format!(
                "the volume says it holds {said:?}, counted {:?}",
                scan.usage
            ));
        }
        self.free_spoilt(&scan.spoilt)?;
        for &ino in &scan.broken {
            self.lead_anew(ino, &scan)?;
        }
        let usage = self.writer.lock().usage;
        let names = Names {
            volume: self,
            report,
            inodes: scan.inodes,
            gone: scan.gone,
            links: HashMap::new(),
            places: BTreeMap::new(),
            edits: BTreeMap::new(),
            usage,
            now: Timestamp::from_ns(self.clock.now_ns()),
        };
        names.run()
    }

    /// Writes free inodes to sectors without a valid inode. The version of the former
    /// file is unknown; the present time is one that it did not have.
    fn free_spoilt(&self, spoilt: &[u64]) -> Result<()> {
        let version = (self.clock.now_ns() / 1_000_000_000) as Version | 1;
        // The maps are written first, independently of other repairs.
        self.append_own((0, 0), |_, usage| Ok(usage))?;
        // All inodes of a unit are written at once, because an unreadable one would
        // prevent the write of its neighbour.
        let unit = |ino: &u64| self.store.unit(self.store.geometry.inode_sector(*ino));
        for some in spoilt.chunk_by(|one, next| unit(one) == unit(next)) {
            self.append_own((0, 0), |planner, usage| {
                for &ino in some {
                    let geometry = planner.stage.geometry();
                    let sector = geometry.inode_sector(ino);
                    let bytes = Slot::free(geometry, InodeNo(ino), version);
                    planner.stage.put(sector, bytes);
                }
                Ok(usage)
            })?;
        }
        Ok(())
    }
}

impl Names<'_> {
    fn run(mut self) -> Result<()> {
        self.make_root()?;
        let mut directories: Vec<u64> = self
            .inodes
            .iter()
            .filter(|(_, found)| found.kind == FileKind::Directory)
            .map(|(ino, _)| *ino)
            .collect();
        directories.sort_unstable();
        for &ino in &directories {
            self.read(ino)?;
        }
        self.choose_places();
        let orphans = self.orphans(&directories);
        self.free_or_keep(orphans)?;
        for (ino, edit) in std::mem::take(&mut self.edits) {
            self.edit(ino, &edit)?;
        }
        self.count()
    }

    fn append(&mut self, items: Vec<Item>) -> Result<()> {
        let group = Group {
            items,
            usage: self.usage,
            cause: Cause::WriteBack,
        };
        self.volume.append_group(group).map(drop)
    }

    /// Gives a volume without a root a new one; orphaned files are entered in
    /// `/lost+found`.
    fn make_root(&mut self) -> Result<()> {
        let found = self.inodes.get(&ROOT).copied();
        if found.is_some_and(|found| found.kind == FileKind::Directory) {
            return Ok(());
        }
        self.report
            .loss("there is no root directory: it is made anew, empty".into());
        let mut items = Vec::new();
        if found.is_some() {
            let inode = self.volume.image(ROOT)?.inode;
            self.free(&inode, &mut items);
            self.append(std::mem::take(&mut items))?;
        }
        let version = (self.volume.clock.now_ns() / 1_000_000_000) as Version | 1;
        self.usage.inodes += 1;
        let inode = self.new_directory(InodeNo::ROOT, version);
        self.append(vec![Item::Inode(Box::new(inode))])
    }

    fn new_directory(&mut self, ino: InodeNo, version: Version) -> Inode {
        let mode = FileKind::Directory.mode_bits() | if ino.0 == ROOT { 0o755 } else { 0o700 };
        let mut inode = Inode::new(ino, version, mode, self.now);
        (inode.nlink, inode.parent) = (2, InodeNo::ROOT);
        let found = Found {
            kind: FileKind::Directory,
            nlink: 2,
            parent: ROOT,
            is_blank: true,
        };
        self.inodes.insert(ino.0, found);
        inode
    }

    fn free(&mut self, inode: &Inode, items: &mut Vec<Item>) {
        let attributes = u64::from(inode.xattr_bytes).div_ceil(512);
        let usage = &mut self.usage;
        usage.inodes = usage.inodes.saturating_sub(1);
        usage.blocks = usage.blocks.saturating_sub(inode.blocks);
        usage.sectors = usage.sectors.saturating_sub(inode.sectors + attributes);
        self.inodes.remove(&inode.ino.0);
        items.push(Item::Freed {
            ino: inode.ino,
            next_version: inode.version.wrapping_add(1),
        });
    }

    /// Reads the names of a directory and counts them.
    fn read(&mut self, ino: u64) -> Result<()> {
        let mut draft = Draft::of(self.volume, ino)?;
        let (mut names, sound) = draft.names()?;
        if !sound {
            for (name, _, _) in draft.make_anew(&mut names) {
                let shown = name.escape_ascii().to_string();
                let text = format!("directory {ino}: \"{shown}\" cannot be kept");
                self.report.loss(text);
                self.edits.entry(ino).or_default().gone.push(name);
            }
            let kept = names.len();
            self.report.loss(format!(
                "directory {ino} is damaged: it is made anew of the {kept} names in it"
            ));
            self.edits.entry(ino).or_default().anew = true;
        }
        for (name, target, kind) in names {
            let found = self.inodes.get(&target.0);
            let fits = found.is_some_and(|found| found.kind == kind)
                && target.0 != ROOT
                && target.0 != ino;
            if !fits {
                let shown = name.escape_ascii().to_string();
                let text = format!("directory {ino}: \"{shown}\" leads nowhere");
                // A file is durable before its names, unless metadata is not ordered
                // (I1, I4).
                let explained = self.volume.metadata() == Metadata::Asynchronous;
                match explained || self.gone.contains(&target.0) {
                    true => self.report.repair(text),
                    false => self.report.loss(text),
                }
                self.edits.entry(ino).or_default().gone.push(name);
            } else if kind == FileKind::Directory {
                let place = Place { parent: ino, name };
                self.places.entry(target.0).or_default().push(place);
            } else {
                *self.links.entry(target.0).or_default() += 1;
            }
        }
        Ok(())
    }

    /// Chooses the one name of each directory.
    fn choose_places(&mut self) {
        for (ino, places) in &mut self.places {
            if places.len() < 2 {
                continue;
            }
            let parent = self.inodes.get(ino).map_or(0, |found| found.parent);
            let best = places.iter().position(|place| place.parent == parent);
            let kept = places.swap_remove(best.unwrap_or(0));
            for place in std::mem::replace(places, vec![kept]) {
                let Place { parent, name } = place;
                let shown = name.escape_ascii().to_string();
                self.report.repair(format!(
                    "directory {parent}: \"{shown}\" is another name of directory {ino}"
                ));
                self.edits.entry(parent).or_default().gone.push(name);
            }
        }
    }

    /// Returns the directories that are not reachable from the root: those without a
    /// name, and one of each cycle.
    fn orphans(&mut self, directories: &[u64]) -> Vec<u64> {
        let mut reached = HashSet::from([ROOT]);
        let mut orphans = Vec::new();
        for &ino in directories {
            let mut way = Vec::new();
            let mut on_way = HashSet::new();
            let mut at = ino;
            while !reached.contains(&at) {
                if !on_way.insert(at) {
                    // This is a cycle, and it is broken here.
                    if let Some(place) = self.places.remove(&at).and_then(|mut p| p.pop()) {
                        let edit = self.edits.entry(place.parent).or_default();
                        edit.gone.push(place.name);
                    }
                    orphans.push(at);
                    break;
                }
                way.push(at);
                match self.places.get(&at).and_then(|places| places.first()) {
                    Some(place) => at = place.parent,
                    None => {
                        orphans.push(at);
                        break;
                    }
                }
            }
            reached.extend(way);
        }
        orphans
    }

    /// Handles files without names: an empty one is freed, another one gets a name.
    fn free_or_keep(&mut self, directories: Vec<u64>) -> Result<()> {
        let mut nameless: Vec<u64> = self
            .inodes
            .iter()
            .filter(|(ino, found)| {
                found.kind != FileKind::Directory && !self.links.contains_key(ino)
            })
            .map(|(ino, _)| *ino)
            .collect();
        nameless.extend(directories);
        nameless.sort_unstable();
        let mut kept: Vec<Name> = Vec::new();
        let mut items = Vec::new();
        for ino in nameless {
            let found = self.inodes[&ino];
            let holds = match found.kind {
                FileKind::Directory => self.has_names(ino)?,
                FileKind::Regular | FileKind::Symlink => !found.is_blank,
                _ => false,
            };
            if found.nlink == 0 && !(found.kind == FileKind::Directory && holds) {
                continue;
            }
            if holds {
                kept.push((
                    format!("inode-{ino}").into_bytes(),
                    InodeNo(ino),
                    found.kind,
                ));
                continue;
            }
            self.report.repair(format!(
                "inode {ino} has no name and holds nothing: it is free"
            ));
            let inode = self.volume.image(ino)?.inode;
            self.free(&inode, &mut items);
            if items.len() >= IMAGES_AT_ONCE {
                self.append(std::mem::take(&mut items))?;
            }
        }
        if !items.is_empty() {
            self.append(items)?;
        }
        match kept.is_empty() {
            true => Ok(()),
            false => self.keep(&kept),
        }
    }

    fn has_names(&self, ino: u64) -> Result<bool> {
        let gone = self.edits.get(&ino).map_or(&[][..], |edit| &edit.gone);
        let (names, _) = Draft::of(self.volume, ino)?.names()?;
        Ok(names.iter().any(|(name, _, _)| !gone.contains(name)))
    }

    /// Enters files in `/lost+found`, or in the root if no inode number is left for it.
    fn keep(&mut self, files: &[Name]) -> Result<()> {
        // The root and that directory are repaired before anything is entered.
        for ino in [Some(ROOT), self.lost_and_found()?].into_iter().flatten() {
            if let Some(edit) = self.edits.remove(&ino) {
                self.edit(ino, &edit)?;
            }
        }
        let ino = match self.lost_and_found()? {
            Some(ino) => ino,
            None => self.make_lost_and_found()?.unwrap_or(ROOT),
        };
        let shown = if ino == ROOT { "/" } else { "/lost+found" };
        let mut draft = Draft::of(self.volume, ino)?;
        for (name, target, kind) in files {
            self.report.repair(format!(
                "inode {target} has no name: it gets one in {shown}"
            ));
            let mut name = name.clone();
            while draft.find(&name)?.is_some() {
                name.push(b'~');
            }
            draft.insert(&name, *target, *kind)?;
            match kind {
                FileKind::Directory => {
                    let place = Place { parent: ino, name };
                    self.places.insert(target.0, vec![place]);
                }
                _ => *self.links.entry(target.0).or_default() += 1,
            }
        }
        let (items, count) = draft.items(self.now);
        self.usage = count(self.usage);
        self.append(items)
    }

    fn lost_and_found(&self) -> Result<Option<u64>> {
        let mut root = Draft::of(self.volume, ROOT)?;
        if !root.names()?.1 {
            return Ok(None);
        }
        let found = root.find(LOST_AND_FOUND)?;
        let is_kept = |ino: &u64| {
            let places = self.places.get(ino).and_then(|places| places.first());
            places.is_some_and(|place| place.parent == ROOT)
        };
        let found = found.filter(|(_, kind)| *kind == FileKind::Directory);
        Ok(found.map(|(ino, _)| ino.0).filter(is_kept))
    }

    /// Creates `/lost+found`. Returns `None` if every number has a file.
    fn make_lost_and_found(&mut self) -> Result<Option<u64>> {
        let found = self.volume.new_number(InodeNo::ROOT, true);
        let (ino, version) = match found {
            Err(crate::Error::Full) => return Ok(None),
            found => found?,
        };
        let inode = self.new_directory(ino, version);
        self.usage.inodes += 1;
        let mut root = Draft::of(self.volume, ROOT)?;
        let mut name = LOST_AND_FOUND.to_vec();
        while root.find(&name)?.is_some() {
            name.push(b'~');
        }
        root.insert(&name, ino, FileKind::Directory)?;
        root.inode.nlink += 1;
        if let Some(found) = self.inodes.get_mut(&ROOT) {
            found.nlink = root.inode.nlink;
        }
        let (rest, count) = root.items(self.now);
        let mut items = vec![Item::Inode(Box::new(inode))];
        items.extend(rest);
        self.usage = count(self.usage);
        self.append(items)?;
        let place = Place { parent: ROOT, name };
        self.places.insert(ino.0, vec![place]);
        Ok(Some(ino.0))
    }

    /// Removes names from a directory.
    fn edit(&mut self, ino: u64, edit: &Edit) -> Result<()> {
        if !self.inodes.contains_key(&ino) {
            return Ok(());
        }
        let mut draft = Draft::of(self.volume, ino)?;
        if edit.anew {
            let (mut names, _) = draft.names()?;
            names.retain(|(name, _, _)| !edit.gone.contains(name));
            draft.make_anew(&mut names);
        } else {
            for name in &edit.gone {
                draft.remove(name)?;
            }
        }
        let (items, count) = draft.items(self.now);
        self.usage = count(self.usage);
        self.append(items)
    }

    /// Sets link counts and parents.
    fn count(&mut self) -> Result<()> {
        let mut below: HashMap<u64, u32> = HashMap::new();
        for place in self.places.values().flatten() {
            *below.entry(place.parent).or_default() += 1;
        }
        let mut numbers: Vec<u64> = self.inodes.keys().copied().collect();
        numbers.sort_unstable();
        let mut items = Vec::new();
        for ino in numbers {
            let found = self.inodes[&ino];
            let place = self.places.get(&ino).and_then(|places| places.first());
            let (links, parent) = match found.kind {
                FileKind::Directory if ino == ROOT => (2 + below.get(&ino).unwrap_or(&0), ROOT),
                FileKind::Directory => match place {
                    Some(place) => (2 + below.get(&ino).unwrap_or(&0), place.parent),
                    None => (0, found.parent),
                },
                _ => (self.links.get(&ino).copied().unwrap_or(0), found.parent),
            };
            if (links, parent) == (found.nlink, found.parent) {
                continue;
            }
            let mut inode = self.volume.image(ino)?.inode;
            if (links, parent) == (inode.nlink, inode.parent.0) {
                continue;
            }
            let mut says = |is: u64, what: &str, said: u64| {
                if is != said {
                    let text = format!("inode {ino}: {is} {what}, it says {said}");
                    self.report.repair(text);
                }
            };
            says(links.into(), "names lead to it", inode.nlink.into());
            says(parent, "is its parent", inode.parent.0);
            (inode.nlink, inode.parent) = (links, InodeNo(parent));
            items.push(Item::Inode(Box::new(inode)));
            if items.len() >= IMAGES_AT_ONCE {
                self.append(std::mem::take(&mut items))?;
            }
        }
        match items.is_empty() {
            true => Ok(()),
            false => self.append(items),
        }
    }
}

impl Ffs {
    /// Returns the files whose removal or truncation the file system must finish.
    pub(crate) fn list_unfinished(&self) -> Vec<u64> {
        let numbers = self.numbers.lock();
        numbers.map(GroupMap::Unfinished).ones().collect()
    }
}
