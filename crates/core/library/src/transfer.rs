//! Sending snapshots to other volumes, and receiving them (`docs/spec/stream.md`).

use crate::tree::on;
use crate::volume::Volume;
use std::io::{self, Read, Write};
use varve_fs::{Error, Received, ReceivedMark, Sent, TransferError};

type Result<T> = std::result::Result<T, TransferError>;

impl Volume {
    /// Writes a snapshot, named as for [`Volume::snapshot_named`], as a stream for
    /// [`Volume::receive`]: as a tree, or with `since` as the differences from that
    /// snapshot. It begins with the item `first`, which is 0 unless a reception is
    /// resumed. `progress` is called with the bytes of content that are left.
    ///
    /// ```
    /// let volume = varve::Volume::in_memory(16 << 20)?;
    /// volume.write("/letter", b"Hello,")?;
    /// volume.snapshot("monday")?;
    /// let mut stream = Vec::new();
    /// volume.send("monday", None, 0, &mut stream, &mut |_| {})?;
    ///
    /// let copy = varve::Volume::in_memory(16 << 20)?;
    /// copy.receive(&mut &stream[..], false, &mut |_| {})?;
    /// assert_eq!(copy.read("/letter")?, b"Hello,");
    /// assert_eq!(copy.snapshots()?[0].name(), "monday");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If a snapshot does not exist, or `since` is not the older one; on a volume of
    /// another layout than the log; errors of reading and of the writer.
    pub fn send(
        &self,
        snapshot: &str,
        since: Option<&str>,
        first: u64,
        into: &mut dyn Write,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Sent> {
        let _open = self.opened()?;
        let fs = self.mounted().tree().log().ok_or(Error::NoSnapshots)?;
        let origin = fs.layout().volume_tag();
        fs.send(origin, snapshot, since, first, into, progress)
    }

    /// Applies a stream of [`Volume::send`] and takes the snapshot, with the same name:
    /// onto an empty volume, or onto one that received the snapshot on which the stream
    /// builds and was not changed since. `force` rolls back a volume that was changed. A
    /// volume of another layout than the log receives whole trees only, and takes no
    /// snapshot.
    ///
    /// # Errors
    /// If the stream is damaged, cut, or does not belong on this volume; errors of the
    /// volume. Items that were applied before stay; [`Volume::received`] has the item with
    /// which to resume.
    pub fn receive(
        &self,
        from: &mut dyn Read,
        force: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Received> {
        let _open = self.opened()?;
        on!(self.mounted().tree(), fs => fs.receive(from, force, progress))
    }

    /// The snapshot that this volume received last, or is receiving.
    ///
    /// # Errors
    /// If the mark cannot be read.
    pub fn received(&self) -> Result<Option<ReceivedMark>> {
        let _open = self.opened()?;
        on!(self.mounted().tree(), fs => fs.received())
    }

    fn opened(&self) -> Result<impl Drop> {
        let open = self.mounted().admit();
        open.map_err(|_| TransferError::Io(io::Error::other("the volume was closed")))
    }
}
