//! System calls without a safe wrapper.
#![allow(unsafe_code)]

use crate::calls::{EXCHANGE_BYTES, VARVE_IOC_EXCHANGE};
use crate::calls::{QUESTION_BYTES, VARVE_IOC_ASK};
use crate::calls::{STATISTICS_BYTES, VARVE_IOC_STATS};
use rustix::ioctl::{Updater, ioctl};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Fetches the statistics of the mount whose root `directory` is open on.
pub(crate) fn statistics_ioctl(directory: impl AsFd) -> io::Result<Box<[u8; STATISTICS_BYTES]>> {
    let mut buffer = Box::new([0u8; STATISTICS_BYTES]);
    // SAFETY: the opcode is an `_IOR` whose size field is STATISTICS_BYTES,
    // the size of the buffer. A FUSE server cannot make the kernel copy more
    // than that field says, and any other driver that knows this number was
    // given the size with it. The buffer is initialised before the call, so
    // an answer that is shorter leaves zeros behind it.
    unsafe {
        let request = Updater::<'_, { VARVE_IOC_STATS as _ }, _>::new(&mut *buffer);
        ioctl(directory, request)?;
    }
    Ok(buffer)
}

/// Sends a question to the mount whose root `directory` is open on; the answer
/// takes its place.
pub(crate) fn ask_ioctl(directory: impl AsFd, buffer: &mut [u8; QUESTION_BYTES]) -> io::Result<()> {
    // SAFETY: as above; the opcode is an `_IOWR` of QUESTION_BYTES, and the
    // buffer, initialised and that long, is read before it is written.
    unsafe {
        let request = Updater::<'_, { VARVE_IOC_ASK as _ }, _>::new(buffer);
        ioctl(directory, request)?;
    }
    Ok(())
}

/// Sends a message to the mount whose root `directory` is open on; the answer
/// takes its place.
pub(crate) fn exchange_ioctl(
    directory: impl AsFd,
    buffer: &mut [u8; EXCHANGE_BYTES],
) -> io::Result<()> {
    // SAFETY: as above; the opcode is an `_IOWR` of EXCHANGE_BYTES.
    unsafe {
        let request = Updater::<'_, { VARVE_IOC_EXCHANGE as _ }, _>::new(buffer);
        ioctl(directory, request)?;
    }
    Ok(())
}

/// Opens a file of the mount that `root` is on by its node and generation, as the
/// kernel's FUSE makes handles of them (`FILEID_INO64_GEN`). Needs CAP_DAC_READ_SEARCH.
pub(crate) fn open_node(
    root: impl AsFd,
    node: u64,
    generation: u32,
    flags: rustix::fs::OFlags,
) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        words: [u32; 3],
    }
    let mut handle = Handle {
        bytes: 12,
        kind: 0x81,
        words: [(node >> 32) as u32, node as u32, generation],
    };
    let root = root.as_fd().as_raw_fd();
    let flags = flags.bits() as libc::c_int;
    // SAFETY: the handle begins as `struct file_handle` does, its length says how many
    // bytes follow, and it outlives the call, which keeps no reference to it.
    let opened = unsafe { libc::open_by_handle_at(root, (&raw mut handle).cast(), flags) };
    match opened {
        0.. => {
            // SAFETY: the call has just made it, and it has no other owner.
            Ok(unsafe { OwnedFd::from_raw_fd(opened) })
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets (`F_OFD_SETLK`) or tests (`F_OFD_GETLK`) a lock of an open file description.
/// The lock that conflicts takes the place of the one that is tested.
pub(crate) fn lock_range(
    file: impl AsFd,
    command: libc::c_int,
    lock: &mut libc::flock,
) -> io::Result<()> {
    debug_assert!([libc::F_OFD_SETLK, libc::F_OFD_GETLK].contains(&command));
    // SAFETY: both commands take a pointer to a `struct flock`, which is initialised and
    // outlives the call.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, &raw mut *lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Gives this thread descriptors of its own: the standard streams, and no
/// others. The other threads keep theirs.
pub(crate) fn leave_descriptors() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    let flags = libc::CLOSE_RANGE_UNSHARE;
    // SAFETY: three integers; no memory is passed. With this flag the kernel
    // copies the table before it closes anything, so no descriptor that another
    // thread owns is closed. On this thread, what is owned elsewhere becomes an
    // invalid number, or that of what the thread opens from now on; only
    // `apart::run` calls this, on a thread it just made, for work that uses
    // paths and nothing that was open before.
    let done = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, flags) };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Moves this thread to a mount namespace: its root and working directory, which
/// it shares with the other threads, become its own first.
pub(crate) fn enter_mounts(namespace: impl AsFd) -> io::Result<()> {
    // SAFETY: this gives the thread a root, a working directory and a umask of
    // its own. No descriptors are touched, so none that is owned becomes invalid.
    unsafe { unshare_unsafe(UnshareFlags::FS)? };
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?;
    Ok(())
}

/// Moves this process, which has one thread, to a user namespace, if one is given,
/// and to a mount namespace.
pub(crate) fn join_namespaces(user: Option<impl AsFd>, mounts: impl AsFd) -> io::Result<()> {
    if let Some(user) = user {
        move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
    }
    enter_mounts(mounts)
}

/// Gives this process a mount namespace of its own, with `user` in a new user
/// namespace.
pub(crate) fn leave_namespaces(user: bool) -> io::Result<()> {
    let flags = match user {
        true => UnshareFlags::NEWUSER | UnshareFlags::NEWNS,
        false => UnshareFlags::NEWNS,
    };
    // SAFETY: as above; the descriptors stay as they are.
    unsafe { unshare_unsafe(flags)? };
    Ok(())
}

/// Marks every descriptor but the standard streams, so that programs started
/// from now on get none of them. This process keeps them.
pub(crate) fn pass_on_no_descriptors() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    let flags = libc::CLOSE_RANGE_CLOEXEC;
    // SAFETY: three integers; no memory is passed. With this flag nothing is
    // closed here: only exec(2) looks at the marks.
    let done = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, flags) };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Unblocks all signals for this thread, and for those that it starts.
pub(crate) fn unblock_signals() -> io::Result<()> {
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is made by the first call, which cannot fail, and only
    // read by the second, which may be told not to report the former one.
    let failed = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
    };
    match failed {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}
