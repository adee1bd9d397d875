//! Opening and ending the window of an atomic write. All of this makes the kernel
//! wait for requests of its own, and runs on a thread that others can do without.

use super::atomic::{Act, Stage, What, Window};
use super::{Adapter, Outcome, convert};
use crate::aside::Files;
use crate::askers::{self, Process};
use crate::errno::Errno;
use crate::protocol::IoctlOut;
use crate::reply::Reply;
use crate::transport::{Transport, invalidate_pages};
use parking_lot::{Mutex, RwLock};
use std::fs::File;
use std::io;
use std::mem;
use std::sync::{Arc, OnceLock};
use varve_fs::{Attr, InodeNo, Isolation, Layout, TransactionOptions};

impl<L: Layout> Adapter<L> {
    /// Finishes what is left to do about a window. Never call it on a thread that
    /// serves requests.
    pub(super) fn finish_window(
        &self,
        nodeid: u64,
        act: &Act,
        transport: &dyn Transport,
        reply: &mut Reply,
    ) -> Outcome {
        let ino = convert::inode(nodeid);
        let done = match act.what {
            What::Start => self.start(ino, act.thread, transport),
            What::Commit => self.commit_window(ino, act.thread, transport),
            What::Abort => {
                self.windows.hears(ino);
                self.abandon_window(ino, act.thread, transport);
                Ok(())
            }
            What::Closed => {
                if let Some(window) = self.abandon_window(ino, act.thread, transport) {
                    self.windows.broke(&window);
                }
                Ok(())
            }
        };
        match done {
            Ok(()) => {
                if act.what != What::Closed {
                    reply.put(&IoctlOut::default());
                }
                Outcome::Reply
            }
            Err(errno) => Outcome::Error(errno),
        }
    }

    fn start(&self, ino: InodeNo, thread: u32, transport: &dyn Transport) -> Result<(), Errno> {
        let owner = Process::of_thread(thread).ok_or(Errno::NOT_SUPPORTED)?;
        let window = Arc::new(Window {
            ino,
            owner,
            modified: OnceLock::new(),
            turn: Mutex::new(()),
            stage: RwLock::new(Stage::Over),
            lost: Mutex::new(None),
        });
        let _turn = window.turn.lock();
        while let Some(other) = self.claim(&window)? {
            let _turn = other.turn.lock();
            if !other.owner.has_ended() {
                // A second start, if the first has not ended meanwhile.
                match &*other.stage.read() {
                    Stage::Open(_) => return Ok(()),
                    _ => continue,
                }
            }
            // Its owner has ended, and nobody heard of it.
            self.abandon(&other, thread, transport);
        }
        self.windows.hears(ino);
        let opened = match self.fs.file_flags(ino).map(|flags| flags.protected) {
            // It is locked for transactions, and would be by the window against all.
            Ok(true) => Err(Errno::INVALID),
            Ok(false) => self.open_window(&window, thread),
            Err(error) => Err(error.into()),
        };
        if opened.is_err() {
            self.windows.leave(&window);
        }
        opened
    }

    /// Enters a window, if the file has none. Answers the one it has if that is of the
    /// same owner, or has lost its own.
    ///
    /// # Errors
    /// EBUSY if somebody else's is open.
    fn claim(&self, window: &Arc<Window<L>>) -> Result<Option<Arc<Window<L>>>, Errno> {
        let mut table = self.windows.table.lock();
        let (own, present) = (&window.owner, table.open.get(&window.ino));
        match present.map(|other| (other, &other.owner)) {
            Some((other, owner)) if owner.has_ended() || owner.number == own.number => {
                Ok(Some(Arc::clone(other)))
            }
            None if table.merging == 0 => {
                self.windows.enter(&mut table, window);
                Ok(None)
            }
            _ => Err(Errno(libc::EBUSY)),
        }
    }

    /// What the kernel holds of the file comes into the mounted tree, what it gets
    /// from now on into the window's.
    fn open_window(&self, window: &Window<L>, thread: u32) -> Result<(), Errno> {
        let (ino, device) = (window.ino.0, self.device());
        let modified = self.aside(move |files| {
            let file = askers::open_anew(thread, ino, device)?;
            crate::sys::write_back(&file)?;
            let modified = file.metadata()?.modified()?;
            files.insert(ino, file);
            Ok(modified)
        })?;
        window.modified.get_or_init(|| modified);
        let begun = self.fs.begin_transaction(&TransactionOptions {
            isolation: Isolation::Locking,
            ..TransactionOptions::default()
        });
        match begun {
            Ok(transaction) => {
                *window.stage.write() = Stage::Open(transaction);
                Ok(())
            }
            Err(error) => {
                self.close(window.ino);
                Err(error.into())
            }
        }
    }

    fn commit_window(
        &self,
        ino: InodeNo,
        thread: u32,
        transport: &dyn Transport,
    ) -> Result<(), Errno> {
        let Some(window) = self.windows.of(ino) else {
            return self.commit_none(ino, thread);
        };
        let turn = window.turn.lock();
        if !matches!(&*window.stage.read(), Stage::Open(_)) {
            drop(turn);
            return self.commit_none(ino, thread); // somebody else has just ended it
        }
        let sectors = |attr: varve_fs::Result<Attr>| attr.map_or(0, |attr| attr.sectors);
        let before = sectors(self.fs.getattr(ino));
        let merged = self.merge_window(&window);
        let ticket = match merged {
            Ok(ticket) => ticket,
            Err(errno) => {
                self.abandon(&window, thread, transport);
                return Err(errno);
            }
        };
        self.windows.leave(&window);
        drop(turn);
        if sectors(self.fs.getattr(ino)) != before {
            // Whoever asks for the ioctl holds the inode.
            self.outdate(convert::node(ino), transport);
        }
        Ok(ticket.wait()?)
    }

    /// The kernel's pages and times come in, and all of it becomes part of the mounted
    /// tree.
    fn merge_window(&self, window: &Window<L>) -> Result<varve_fs::Ticket<L>, Errno> {
        let ino = window.ino.0;
        self.aside(move |files| {
            let file = files.remove(&ino).ok_or(io::ErrorKind::NotFound)?;
            crate::sys::write_back(&file)?;
            // Closing writes back times, too.
            drop(file);
            Ok(())
        })?;
        let mut stage = window.stage.write();
        if let Some(errno) = *window.lost.lock() {
            return Err(errno);
        }
        match mem::replace(&mut *stage, Stage::Over) {
            Stage::Open(transaction) => {
                // Rights that changed meanwhile are the file's: whoever has it open may
                // go on to write. To look at them is to take them over.
                let _ = transaction.tree().getattr(window.ino);
                transaction.commit_async().map_err(|error| {
                    *stage = Stage::Discarding;
                    error.into()
                })
            }
            other => {
                *stage = other;
                Err(Errno(libc::ECANCELED))
            }
        }
    }

    /// Ends the window of a file, if it has one that is open.
    fn abandon_window(
        &self,
        ino: InodeNo,
        thread: u32,
        transport: &dyn Transport,
    ) -> Option<Arc<Window<L>>> {
        let window = self.windows.of(ino)?;
        let _turn = window.turn.lock();
        let was_open = matches!(&*window.stage.read(), Stage::Open(_));
        self.abandon(&window, thread, transport);
        was_open.then(|| Arc::clone(&window))
    }

    /// Ends a window so that nothing of it remains, in the kernel neither. Its turn is
    /// held. Does nothing if it has ended.
    fn abandon(&self, window: &Window<L>, thread: u32, transport: &dyn Transport) {
        {
            let mut stage = window.stage.write();
            if matches!(*stage, Stage::Over) {
                return;
            }
            *stage = Stage::Discarding;
        }
        let ino = window.ino;
        self.writers.forget(ino);
        // ENOENT: the kernel holds no pages of it.
        let _ = invalidate_pages(transport, convert::node(ino), 0, 0);
        // A file that has ended meanwhile has nothing to restore.
        let restored = self.fs.getattr(ino).map(|attr| {
            let device = self.device();
            self.aside(move |files| restore_size(files, &attr, thread, device))
        });
        if let Ok(Err(errno)) = restored {
            let ino = ino.0;
            tracing::warn!(ino, ?errno, "the kernel keeps the size of an aborted write");
        }
        *window.stage.write() = Stage::Over;
        // The kernel had not told us the time, maybe: now it does.
        if let Some(&modified) = window.modified.get() {
            let set = self.aside(move |files| match files.get(&ino.0) {
                Some(file) => file.set_modified(modified),
                None => Ok(()),
            });
            if let Err(errno) = set {
                tracing::debug!(ino = ino.0, ?errno, "it keeps the time, too");
            }
        }
        self.close(ino);
        // Last: the next window's descriptor is opened after this one's is closed.
        self.windows.leave(window);
    }

    /// A commit without a start.
    ///
    /// # Errors
    /// ECANCELED if there was one, and the asker has closed the file since.
    fn commit_none(&self, ino: InodeNo, thread: u32) -> Result<(), Errno> {
        if let Some(owner) = self.windows.hears(ino)
            && askers::process_of(thread) == Some(owner)
        {
            return Err(Errno(libc::ECANCELED));
        }
        let device = self.device();
        self.aside(move |_| askers::open_anew(thread, ino.0, device)?.sync_all())
    }

    /// Closes the window's descriptor, without waiting for it.
    fn close(&self, ino: InodeNo) {
        // Without the thread there is none.
        let _ = self.windows.aside.begin(move |files| {
            files.remove(&ino.0);
        });
    }

    fn aside<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Files) -> io::Result<R> + Send + 'static,
    ) -> Result<R, Errno> {
        self.windows.aside.run(job).map_err(|error| {
            tracing::debug!(%error, "an atomic write");
            error.raw_os_error().map_or(Errno::NOT_SUPPORTED, Errno)
        })
    }

    fn device(&self) -> (u32, u32) {
        self.windows.device.get().copied().unwrap_or_default()
    }
}

/// Gives the kernel the size that the file has, and keeps a descriptor.
fn restore_size(files: &mut Files, attr: &Attr, thread: u32, device: (u32, u32)) -> io::Result<()> {
    // A commit that failed has closed it, and its asker has not.
    let file: File = match files.remove(&attr.ino.0) {
        Some(file) => file,
        None => askers::open_anew(thread, attr.ino.0, device)?,
    };
    if file.metadata()?.len() != attr.size {
        file.set_len(attr.size)?;
    }
    files.insert(attr.ino.0, file);
    Ok(())
}
