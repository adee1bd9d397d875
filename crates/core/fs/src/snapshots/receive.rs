//! Receiving a stream of `send.rs`: a tree onto an empty volume, or differences onto one
//! that has the older snapshot and was not changed since.
//!
//! Items are applied in transactions of bounded size. Each also stores the number of the
//! next item in an attribute of the root, and the places of files in a map, so that a
//! receiver that was interrupted continues with exactly that item. Files are made, and
//! names that are gone are kept, in a directory of the root until the end. It is removed,
//! and then the attributes of the root and the mark of the snapshot are set at once.
//!
//! On a layout without transactions items are applied as they arrive, and a reception
//! that was interrupted must be begun anew on an empty volume.

use super::apply::{set_attributes, write_all};
use super::stream::{Items, Result, SendHeader, item_kind, refused};
use super::time::show_time;
use crate::attr::Caller;
use crate::error::Error;
use crate::file_system::FileSystem;
use crate::layout::{Layout, VolumeSnapshot};
use crate::transactions::{Transaction, TransactionOptions};
use crate::types::{FileKind, InodeNo, Timestamp};
use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Directory of the root for files that are being received.
const STAGING: &[u8] = b".varve-receiving";
/// Name of the map in it.
const MAP: &[u8] = b"map";
const ATTRIBUTE: &[u8] = b"trusted.varve.received";
/// Upper bounds of a transaction.
const BATCH_ITEMS: usize = 1000;
const BATCH_BYTES: usize = 8 << 20;

/// What a volume has received, or is receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedMark {
    /// Tag of the sender's volume.
    pub origin: u64,
    /// Number of the snapshot there.
    pub number: u32,
    taken: i64,
    base: u32,
    base_taken: i64,
    /// Number of the item with which the stream must continue; none once all were
    /// received.
    pub next: Option<u64>,
}

impl ReceivedMark {
    fn of(header: &SendHeader) -> Self {
        ReceivedMark {
            origin: header.origin.get(),
            number: header.number.get(),
            taken: header.taken.get(),
            base: header.base.get(),
            base_taken: header.base_taken.get(),
            next: Some(0),
        }
    }

    fn to_text(self) -> String {
        let next = self.next.map_or("-".to_owned(), |next| next.to_string());
        let ReceivedMark { number, taken, .. } = self;
        let (base, base_taken) = (self.base, self.base_taken);
        format!(
            "{:016x} {number} {taken} {base} {base_taken} {next}",
            self.origin
        )
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(text).ok()?.split(' ');
        let mark = ReceivedMark {
            origin: u64::from_str_radix(words.next()?, 16).ok()?,
            number: words.next()?.parse().ok()?,
            taken: words.next()?.parse().ok()?,
            base: words.next()?.parse().ok()?,
            base_taken: words.next()?.parse().ok()?,
            next: match words.next()? {
                "-" => None,
                next => Some(next.parse().ok()?),
            },
        };
        words.next().is_none().then_some(mark)
    }

    /// True if the volume is in the state of the snapshot on which the other builds.
    fn is_base_of(&self, other: &Self) -> bool {
        (self.origin, self.number, self.taken) == (other.origin, other.base, other.base_taken)
    }

    fn is_same(&self, other: &Self) -> bool {
        let next = None;
        ReceivedMark { next, ..*self } == ReceivedMark { next, ..*other }
    }
}

/// What a reception did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The snapshot that was taken; none on a layout without snapshots.
    pub snapshot: Option<VolumeSnapshot>,
    /// Number of items applied.
    pub items: u64,
    /// Bytes of content in them.
    pub bytes: u64,
}

impl<L: Layout> FileSystem<L> {
    /// What this volume has received, or is receiving.
    ///
    /// # Errors
    /// `Damaged` if the mark cannot be parsed; as [`Self::getxattr`].
    pub fn received(&self) -> Result<Option<ReceivedMark>> {
        match self.getxattr(&Caller::root(), InodeNo::ROOT, ATTRIBUTE) {
            Ok(text) => match ReceivedMark::parse(&text) {
                Some(mark) => Ok(Some(mark)),
                None => refused("the mark of the received snapshot is malformed"),
            },
            Err(Error::NoAttribute) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Applies a stream of [`Self::send`] and takes its snapshot. A volume that was
    /// changed since it received the base is rolled back if `force` is set, and refused
    /// otherwise. Calls `progress` with the bytes of content that are left.
    ///
    /// # Errors
    /// `Refused` for a damaged stream or one that does not belong here. Items that were
    /// applied before an error stay, and [`Self::received`] has the item to continue with.
    pub fn receive(
        self: &Arc<Self>,
        from: &mut dyn Read,
        force: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Received> {
        let items = Items::open(from)?;
        let mut receiver = Receiver {
            fs: self,
            caller: Caller::root(),
            mark: ReceivedMark::of(&items.header),
            name: items.name.clone(),
            staging: InodeNo::ROOT,
            places: HashMap::new(),
            map_bytes: 0,
            done: Received {
                snapshot: None,
                items: 0,
                bytes: 0,
            },
        };
        if receiver.name.is_empty() {
            let taken = Timestamp::from_ns(receiver.mark.taken);
            receiver.name = show_time(taken)[1..].to_owned();
        }
        receiver.begin(items.header.first.get(), force)?;
        if receiver.mark.next.is_some() {
            receiver.run(items, progress)?;
        }
        Ok(receiver.done)
    }
}

/// A file of the sender on this volume.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub ino: InodeNo,
    /// Its name in the staging directory.
    pub staged: Option<u64>,
}

/// A row of the map.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Row {
    pub ino: U64,
    pub version: U32,
    pub spare: U32,
    pub here: U64,
    /// One more than the name in the staging directory; 0 if it has none.
    pub staged: U64,
}

pub(super) struct Receiver<'a, L: Layout> {
    fs: &'a Arc<FileSystem<L>>,
    pub caller: Caller,
    mark: ReceivedMark,
    name: String,
    pub staging: InodeNo,
    pub places: HashMap<(u64, u32), Place>,
    map_bytes: u64,
    done: Received,
}

impl<L: Layout> Receiver<'_, L> {
    /// Checks that the stream belongs on this volume, and prepares it.
    fn begin(&mut self, first: u64, force: bool) -> Result<()> {
        self.fs.check_writable()?;
        let stored = self.fs.received()?;
        if let Some(stored) = stored.filter(|stored| stored.is_same(&self.mark)) {
            self.mark = stored;
            return match stored.next {
                None => {
                    self.done.snapshot = match self.own_snapshot(&stored)? {
                        Some(taken) => Some(taken),
                        None => self.take_snapshot()?,
                    };
                    Ok(())
                }
                Some(next) if first > next => refused(format!(
                    "the stream begins at item {first}, behind item {next} of this volume; send \
                     with --resume {next}"
                )),
                Some(_) if self.fs.snapshots().is_err() => refused(
                    "a reception that was interrupted can only be resumed on the layout log; make \
                     the volume anew",
                ),
                Some(_) => self.resume(),
            };
        }
        match (stored, self.mark.base) {
            (Some(stored), _) if stored.next.is_some() && !force => {
                return refused(
                    "another snapshot was received in part; send that one again, or roll back to \
                     the base of the stream with --force",
                );
            }
            (_, 0) if stored.is_some() || !self.fs.names_in(InodeNo::ROOT)?.is_empty() => {
                return refused("the stream is a whole tree, and the volume is not empty");
            }
            (_, 0) => {}
            (None, _) => {
                return refused(
                    "the volume has not received the base of the stream; send without --since",
                );
            }
            (Some(stored), _) => self.check_base(&stored, force)?,
        }
        if first > 0 {
            return refused("the stream continues a reception that was not begun here");
        }
        let exists = |all: Vec<VolumeSnapshot>| all.iter().any(|one| one.name == self.name);
        if self.fs.snapshots().is_ok_and(exists) {
            return refused(format!(
                "the volume has another snapshot with the name {}; rename it",
                self.name
            ));
        }
        let (fs, caller) = (self.fs, self.caller.clone());
        self.commit_with(|receiver, tree| {
            let made = tree.mkdir(&caller, InodeNo::ROOT, STAGING, 0o700)?;
            tree.allow_changes(&caller, made.ino)?;
            tree.mknod(&caller, made.ino, MAP, 0o100_600, 0)?;
            receiver.set_mark(tree)
        })?;
        self.staging = fs.lookup(&self.caller, InodeNo::ROOT, STAGING)?.ino;
        Ok(())
    }

    /// The base must be what the volume has.
    fn check_base(&self, stored: &ReceivedMark, force: bool) -> Result<()> {
        let base = ReceivedMark {
            number: self.mark.base,
            taken: self.mark.base_taken,
            ..self.mark
        };
        let is_at_base = stored.next.is_none() && stored.is_base_of(&self.mark);
        let Some(own) = self.own_snapshot(&base)? else {
            return refused(match stored.origin == self.mark.origin {
                true => "the volume does not have the snapshot on which the stream builds",
                false => "the volume was received from another volume than the stream",
            });
        };
        if is_at_base && self.fs.diff(own.number, None)?.is_empty() {
            return Ok(());
        }
        if !force {
            return refused(format!(
                "the volume was changed since it received {}; roll back with --force",
                own.name
            ));
        }
        let transaction = self.fs.begin_transaction(&TransactionOptions::default())?;
        transaction.restore(&self.caller, &self.fs.at(own.number)?, b"/")?;
        transaction.commit()?;
        Ok(())
    }

    /// The oldest snapshot with the mark that this one was received.
    fn own_snapshot(&self, mark: &ReceivedMark) -> Result<Option<VolumeSnapshot>> {
        for snapshot in self.fs.snapshots().unwrap_or_default() {
            let of = self.fs.at(snapshot.number)?.received()?;
            let is_of = |of: ReceivedMark| {
                (of.origin, of.number, of.taken, of.next)
                    == (mark.origin, mark.number, mark.taken, None)
            };
            if of.is_some_and(is_of) {
                return Ok(Some(snapshot));
            }
        }
        Ok(None)
    }

    fn take_snapshot(&self) -> Result<Option<VolumeSnapshot>> {
        match self.fs.create_snapshot(&self.name) {
            Ok(taken) => Ok(Some(taken)),
            Err(Error::NoSnapshots) => {
                self.fs.sync()?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the map of a reception that was interrupted.
    fn resume(&mut self) -> Result<()> {
        let lookup = |parent, name| self.fs.lookup(&self.caller, parent, name);
        self.staging = match lookup(InodeNo::ROOT, STAGING) {
            Ok(staging) => staging.ino,
            Err(Error::NotFound) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let map = lookup(self.staging, MAP)?;
        let mut row = [0; size_of::<Row>()];
        while self.map_bytes < map.size {
            self.fs.read(map.ino, self.map_bytes, &mut row)?;
            self.map_bytes += row.len() as u64;
            if let Ok(row) = Row::read_from_bytes(&row) {
                let place = Place {
                    ino: InodeNo(row.here.get()),
                    staged: row.staged.get().checked_sub(1),
                };
                let file = (row.ino.get(), row.version.get());
                self.places.insert(file, place);
            }
        }
        Ok(())
    }

    /// Runs `work` in a transaction, or on the volume if its layout has none.
    fn commit_with(
        &mut self,
        work: impl FnOnce(&mut Self, &FileSystem<L>) -> Result<()>,
    ) -> Result<()> {
        match self.fs.begin_transaction(&TransactionOptions::default()) {
            Ok(transaction) => {
                work(self, transaction.tree())?;
                Ok(Transaction::commit(transaction)?)
            }
            Err(Error::NotSupported) => work(self, &Arc::clone(self.fs)),
            Err(error) => Err(error.into()),
        }
    }

    fn set_mark(&self, tree: &FileSystem<L>) -> Result<()> {
        let (root, value) = (InodeNo::ROOT, self.mark.to_text());
        let value = value.as_bytes();
        Ok(tree.setxattr(&self.caller, root, ATTRIBUTE, value, false, false)?)
    }

    fn run(&mut self, mut items: Items<'_>, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let mut left = items.header.bytes_left.get();
        progress(left);
        let (mut payload, mut pending) = (Vec::new(), None);
        loop {
            // Items that were whole when the stream ended are applied.
            let mut end = Ok(false);
            self.commit_with(|receiver, tree| {
                let (mut rows, mut bytes, mut count) = (Vec::new(), 0, 0);
                let mut in_attributes = false;
                while count < BATCH_ITEMS && bytes < BATCH_BYTES {
                    let next = match pending.take() {
                        Some(item) => Ok(item),
                        None => items.next(&mut payload),
                    };
                    let item = match next {
                        Ok(item) if item.kind == item_kind::END => {
                            end = Ok(true);
                            break;
                        }
                        Ok(item) => item,
                        Err(error) => {
                            end = Err(error);
                            break;
                        }
                    };
                    // A transaction that changes names or content and sets the former time
                    // does not keep that time.
                    let is_last = item.kind == item_kind::ATTRIBUTES;
                    if is_last && !in_attributes && count > 0 {
                        pending = Some(item);
                        break;
                    }
                    in_attributes = is_last;
                    if item.kind == item_kind::DATA {
                        left = left.saturating_sub(payload.len() as u64);
                    }
                    let number = item.number.get();
                    if receiver.mark.next.is_some_and(|next| number >= next) {
                        receiver.apply(tree, &item, &payload, &mut rows)?;
                        receiver.mark.next = Some(number.saturating_add(1));
                        (bytes, count) = (bytes + payload.len(), count + 1);
                        if item.kind == item_kind::DATA {
                            receiver.done.bytes += payload.len() as u64;
                        }
                    }
                }
                receiver.done.items += count as u64;
                if count > 0 {
                    receiver.note(tree, &rows)?;
                    receiver.set_mark(tree)?;
                }
                Ok(())
            })?;
            progress(left);
            if end? {
                return self.finish(&payload);
            }
        }
    }

    /// Appends rows to the map.
    fn note(&mut self, tree: &FileSystem<L>, rows: &[u8]) -> Result<()> {
        if !rows.is_empty() {
            let map = tree.lookup(&self.caller, self.staging, MAP)?.ino;
            write_all(tree, &self.caller, map, self.map_bytes, rows)?;
            self.map_bytes += rows.len() as u64;
        }
        Ok(())
    }

    /// Removes files that the sender has no more, and the directory for them.
    fn remove_staging(&mut self) -> Result<()> {
        let mut rest: Vec<(InodeNo, Vec<u8>)> = Vec::new();
        let mut directories = vec![self.staging];
        while let Some(directory) = directories.pop() {
            for (name, ino, kind) in self.fs.names_in(directory)? {
                let is_directory = kind == FileKind::Directory;
                if is_directory {
                    directories.push(ino);
                }
                if directory != self.staging || name != MAP {
                    rest.push((directory, name));
                }
            }
        }
        // A directory was found before the names in it.
        rest.reverse();
        let caller = self.caller.clone();
        for some in rest.chunks(BATCH_ITEMS) {
            self.commit_with(|_, tree| {
                for (directory, name) in some {
                    tree.allow_changes(&caller, *directory)?;
                    let found = tree.lookup(&caller, *directory, name)?;
                    tree.allow_changes(&caller, found.ino)?;
                    match found.kind {
                        FileKind::Directory => tree.rmdir(&caller, *directory, name)?,
                        _ => tree.unlink(&caller, *directory, name)?,
                    }
                }
                Ok(())
            })?;
        }
        self.commit_with(|receiver, tree| {
            tree.unlink(&caller, receiver.staging, MAP)?;
            Ok(tree.rmdir(&caller, InodeNo::ROOT, STAGING)?)
        })
    }

    /// Marks the snapshot as received, and takes it. A reception that was interrupted here
    /// has no directory any more.
    fn finish(&mut self, root: &[u8]) -> Result<()> {
        if self.staging != InodeNo::ROOT {
            self.remove_staging()?;
        }
        let caller = self.caller.clone();
        self.mark.next = None;
        self.commit_with(|receiver, tree| {
            receiver.set_mark(tree)?;
            set_attributes(tree, &caller, InodeNo::ROOT, root)
        })?;
        self.done.snapshot = self.take_snapshot()?;
        Ok(())
    }
}
