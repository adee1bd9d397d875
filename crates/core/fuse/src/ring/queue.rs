//! One thread's end of a CPU's queue: a ring that carries a single entry.
#![allow(unsafe_code)]

use super::Hops;
use super::command::{COMMIT_AND_FETCH, Headers, REGISTER, Submission};
use super::rings::Rings;
use crate::errno::Errno;
use crate::protocol::{InHeader, MAX_PAYLOAD_BYTES, OutHeader};
use crate::transport::{DevFuse, Received, Transport};
use rustix::io::Errno as Os;
use std::cell::{Cell, UnsafeCell};
use std::io;
use std::sync::Arc;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// What the kernel reads and writes while the entry is its own.
struct Shared {
    headers: Headers,
    payload: Box<[u8]>,
    vectors: [libc::iovec; 2],
}

/// Carries one request at a time, from the kernel to the thread that
/// registered it and back. Only that thread may use it: the kernel delivers a
/// request through whoever submitted the entry last.
///
/// Invariant: the entry's memory belongs to the kernel from a submission until
/// its completion has been seen, and to us from there until the next
/// submission. It is ours exactly while `held` is `Some`.
pub(crate) struct Queue {
    rings: Rings,
    device: Arc<DevFuse>,
    cpu: u16,
    shared: Box<UnsafeCell<Shared>>,
    /// The request that we hold.
    held: Cell<Option<Held>>,
    /// An answer was queued that the next wait submits.
    answered: Cell<bool>,
    hops: Arc<Hops>,
    /// The client whose answer this CPU is to be held after.
    holds: Cell<Option<u32>>,
}

/// A request, and what names it when it is answered.
#[derive(Clone, Copy, Debug)]
struct Held {
    unique: u64,
    commit_id: u64,
}

// SAFETY: nothing here belongs to a thread before the entry is registered: the
// vectors point into `shared`, which moves with the rest without changing its
// place. Afterwards it stays with the thread that registered it, since it is
// not `Sync` and that thread owns it.
unsafe impl Send for Queue {}

impl Queue {
    /// A ring for an entry of the queue of `cpu`, not yet registered.
    ///
    /// # Errors
    /// If the host has no rings, or none of this kind, for us.
    pub(crate) fn new(device: &Arc<DevFuse>, hops: &Arc<Hops>, cpu: u16) -> io::Result<Self> {
        let rings = Rings::new()?;
        let empty = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        let mut shared = Box::new(UnsafeCell::new(Shared {
            headers: Headers::new_zeroed(),
            payload: vec![0; MAX_PAYLOAD_BYTES].into_boxed_slice(),
            vectors: [empty; 2],
        }));
        let inner = shared.get_mut();
        inner.vectors = [
            libc::iovec {
                iov_base: (&raw mut inner.headers).cast(),
                iov_len: size_of::<Headers>(),
            },
            libc::iovec {
                iov_base: inner.payload.as_mut_ptr().cast(),
                iov_len: inner.payload.len(),
            },
        ];
        Ok(Queue {
            rings,
            device: Arc::clone(device),
            cpu,
            shared,
            held: Cell::new(None),
            answered: Cell::new(false),
            hops: Arc::clone(hops),
            holds: Cell::new(None),
        })
    }

    /// Offers the entry to the kernel. The calling thread, which must be bound
    /// to the CPU, is the one that receives from here on.
    ///
    /// # Errors
    /// If the kernel does not take it.
    pub(crate) fn register(&self) -> io::Result<()> {
        // SAFETY: the entry was never submitted, so the memory is ours.
        let vectors = unsafe { (*self.shared.get()).vectors.as_ptr() };
        self.push(REGISTER, vectors as u64, 0);
        self.rings.enter(1, 0)
    }

    /// Puts a command into the submission queue.
    fn push(&self, command: u32, address: u64, commit_id: u64) {
        let descriptor = self.device.descriptor();
        let submission = Submission::new(descriptor, command, self.cpu, address, commit_id);
        // SAFETY: the vectors, the headers and the payload live as long as the
        // rings, which are dropped first, and belong to the kernel from here.
        unsafe { self.rings.push(submission) };
    }

    /// Waits until the entry is ours again: with a request, or with the reason
    /// why there will be none.
    fn wait(&self) -> io::Result<io::Result<()>> {
        let mut submit = u32::from(self.answered.take());
        if let Some(client) = self.holds.take()
            && submit > 0
        {
            self.rings.enter(submit, 0)?;
            submit = 0;
            self.hops.hold(client);
        }
        loop {
            match self.rings.enter(submit, 1) {
                // A signal ends the wait early.
                Ok(()) => submit = 0,
                // Nothing was submitted, or the call would have said so.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if let Some(result) = self.rings.completion() {
                return Ok(match result {
                    code if code < 0 => Err(io::Error::from_raw_os_error(-code)),
                    _ => Ok(()),
                });
            }
        }
    }
}

impl Transport for Queue {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        if let Some(held) = self.held.get() {
            // Nobody expects an answer, but the entry goes back with one.
            self.reply(held.unique, Ok(&[]))?;
        }
        if let Err(error) = self.wait()? {
            return match error.raw_os_error() {
                Some(libc::ENOTCONN | libc::ECANCELED | libc::ENODEV) => Ok(Received::Unmounted),
                Some(libc::ECONNABORTED) => Ok(Received::Aborted),
                _ => Err(error),
            };
        }
        // SAFETY: the completion has been seen and nothing submitted since, so
        // the memory is ours, and nothing else refers to it.
        let shared = unsafe { &*self.shared.get() };
        let headers = &shared.headers;
        let (header, _) = InHeader::read_from_prefix(&headers.in_out).expect("it fits");
        self.held.set(Some(Held {
            unique: header.unique,
            commit_id: headers.commit_id,
        }));
        if self.hops.note(header.pid, self.cpu) {
            self.holds.set(Some(header.pid));
        }
        let payload = headers.payload_bytes as usize;
        let fixed = (header.len as usize).checked_sub(size_of::<InHeader>() + payload);
        let parts = fixed.and_then(|fixed| {
            Some([
                &headers.in_out[..size_of::<InHeader>()],
                headers.operation.get(..fixed)?,
                shared.payload.get(..payload)?,
            ])
        });
        let parts = parts.ok_or_else(|| io::Error::other("a request of impossible lengths"))?;
        let mut end = 0;
        for part in parts {
            buffer[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        }
        Ok(Received::Request(end))
    }

    fn reply(&self, unique: u64, answer: Result<&[u8], Errno>) -> io::Result<()> {
        let (error, body) = match answer {
            Ok(body) => (0, body),
            Err(errno) => (-errno.0, &[][..]),
        };
        let held = self.held.get().filter(|held| held.unique == unique);
        let Some(Held { commit_id, .. }) = held else {
            return Err(Os::NOENT.into());
        };
        self.held.set(None);
        // SAFETY: a request was held, so the memory is ours, and nothing else
        // refers to it.
        let shared = unsafe { &mut *self.shared.get() };
        let header = OutHeader {
            len: (size_of::<OutHeader>() + body.len()) as u32,
            error,
            unique,
        };
        shared.headers.in_out[..size_of::<OutHeader>()].copy_from_slice(header.as_bytes());
        shared.headers.payload_bytes = body.len() as u32;
        shared.payload[..body.len()].copy_from_slice(body);
        self.push(COMMIT_AND_FETCH, 0, commit_id);
        // One call sends the answer and waits for the next request.
        self.answered.set(true);
        Ok(())
    }

    fn notify(&self, code: i32, parts: [&[u8]; 2]) -> io::Result<()> {
        self.device.notify(code, parts)
    }
}
