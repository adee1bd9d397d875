//! A thread that uses files of the server's own mount.
//!
//! What it calls makes the kernel ask the server, so it must not be a thread that
//! serves, and it has left the process's descriptors: see `apart.rs`. Descriptors that
//! it opens are its own and mean nothing to other threads, so they stay with it, under
//! the numbers of their inodes.

use crate::sys;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

/// The files that the thread has open, by inode.
pub(crate) type Files = HashMap<u64, File>;

type Job = Box<dyn FnOnce(&mut Files) + Send>;

/// A thread for calls on the own mount, started by the first job. It ends after this
/// value has been dropped.
#[derive(Default)]
pub(crate) struct Aside {
    jobs: OnceLock<Sender<Job>>,
}

impl Aside {
    /// Has the thread do `job`, after all that were handed in before, and waits.
    ///
    /// # Errors
    /// Those of the job, and if there is no such thread.
    pub fn run<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Files) -> io::Result<R> + Send + 'static,
    ) -> io::Result<R> {
        let (say, said) = channel();
        let job: Job = Box::new(move |files| {
            let _ = say.send(job(files));
        });
        let ended = |_| io::Error::other("the thread for the own mount has ended");
        self.jobs()?.send(job).map_err(ended)?;
        said.recv().map_err(io::Error::other)?
    }

    fn jobs(&self) -> io::Result<&Sender<Job>> {
        if let Some(jobs) = self.jobs.get() {
            return Ok(jobs);
        }
        let (jobs, queue) = channel::<Job>();
        let (say, said) = channel();
        Builder::new().name("varve-aside".into()).spawn(move || {
            let left = sys::leave_descriptors().and_then(|()| leave_streams());
            let serves = left.is_ok();
            let _ = say.send(left);
            if serves {
                let mut files = Files::new();
                queue.into_iter().for_each(|job| job(&mut files));
            }
        })?;
        said.recv().map_err(io::Error::other)??;
        // Of two that start one at once, one keeps it; the other's ends.
        Ok(self.jobs.get_or_init(|| jobs))
    }
}

/// The streams are copies, too: whoever waits for a server in the background to close
/// them would wait for ever. Nothing else gets their numbers.
fn leave_streams() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(rustix::stdio::dup2_stderr(&null)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn files_stay_with_the_thread_until_they_are_closed() {
        let aside = Aside::default();
        let own = std::env::current_exe().unwrap();
        aside
            .run(move |files| Ok(files.insert(7, File::open(own)?)))
            .unwrap();
        let first = aside.run(|files| {
            let mut bytes = [0; 4];
            files
                .get_mut(&7)
                .ok_or_else(|| io::Error::other("it is closed"))?
                .read_exact(&mut bytes)?;
            Ok(bytes)
        });
        assert_eq!(&first.unwrap(), b"\x7fELF");
        let failed = aside.run(|_| Err::<(), _>(io::Error::other("no")));
        assert_eq!(failed.unwrap_err().to_string(), "no");
        assert_eq!(aside.run(|files| Ok(files.len())).unwrap(), 1);
    }
}
