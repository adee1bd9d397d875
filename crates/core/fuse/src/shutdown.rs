//! The state of a volume that was shut down by `FS_IOC_SHUTDOWN`.
//!
//! Every request is then answered with EIO, except those that release resources and those that
//! unmounting needs. The volume is left as after a crash at that moment; data that the kernel
//! sends afterwards is lost.
//!
//! Invariant: `is_down` is never reset.

use crate::protocol::{Opcode, ROOT_NODE};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Whether the volume was shut down.
#[derive(Default)]
pub(crate) struct Shutdown {
    is_down: AtomicBool,
}

impl Shutdown {
    /// Refuses requests from now on.
    pub(crate) fn begin(&self) {
        self.is_down.store(true, Relaxed);
    }

    /// True after [`Shutdown::begin`].
    pub(crate) fn is_down(&self) -> bool {
        self.is_down.load(Relaxed)
    }

    /// True if such a request for a node is answered with EIO.
    pub(crate) fn refuses(&self, opcode: Opcode, nodeid: u64) -> bool {
        self.is_down()
            && match opcode {
                Opcode::Init
                | Opcode::Destroy
                | Opcode::Forget
                | Opcode::BatchForget
                | Opcode::NotifyReply
                | Opcode::Interrupt
                | Opcode::Release
                | Opcode::Releasedir
                | Opcode::Ioctl
                | Opcode::Statfs => false,
                Opcode::Getattr | Opcode::Statx => nodeid != ROOT_NODE,
                _ => true,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_that_is_down_still_releases_and_unmounts() {
        let shutdown = Shutdown::default();
        assert!(!shutdown.refuses(Opcode::Write, 5));
        shutdown.begin();
        assert!(shutdown.is_down() && shutdown.refuses(Opcode::Write, 5));
        assert!(
            shutdown.refuses(Opcode::Getattr, 5) && !shutdown.refuses(Opcode::Getattr, ROOT_NODE)
        );
        assert!(!shutdown.refuses(Opcode::Forget, 5) && !shutdown.refuses(Opcode::Release, 5));
    }
}
