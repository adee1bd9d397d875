//! Descriptors of `/dev/fuse` that another process mounted, to be served by this
//! one: see [`crate::Session::on`].

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

/// Sends a descriptor over a Unix socket, with one byte of zero.
///
/// # Errors
/// What sendmsg(2) says.
pub fn send(socket: impl AsFd, descriptor: impl AsFd) -> io::Result<()> {
    let descriptors = [descriptor.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(rustix::io::Errno::NOBUFS.into());
    }
    let byte = [IoSlice::new(&[0])];
    rustix::net::sendmsg(socket, &byte, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives what [`send`] sent; nothing if there was no descriptor.
///
/// # Errors
/// What recvmsg(2) says.
pub fn receive(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    crate::device::receive_fd(socket)
}

/// Who is at the other end of a Unix socket: user and process.
///
/// # Errors
/// What getsockopt(2) says.
pub fn peer(socket: impl AsFd) -> io::Result<(u32, i32)> {
    let peer = rustix::net::sockopt::socket_peercred(socket)?;
    Ok((peer.uid.as_raw(), peer.pid.as_raw_nonzero().get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_descriptor_comes_over_with_nothing_else() {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        send(&a, &writer).unwrap();
        drop(writer);
        a.write_all(b"line").unwrap();
        let received = receive(&b).unwrap().expect("it was sent");
        io::PipeWriter::from(received).write_all(b"x").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        drop(a);
        b.read_to_string(&mut text).unwrap();
        assert_eq!(text, "xline");
        assert!(receive(&b).unwrap().is_none());
        assert_eq!(peer(&b).unwrap().0, rustix::process::geteuid().as_raw());
    }
}
