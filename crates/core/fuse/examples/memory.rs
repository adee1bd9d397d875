//! Mounts a file system that lives in memory: `memory DIR [OPTION...]`.
//! Ends with Ctrl-C or umount, and prints the requests by kind.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use varve_device::HostClock;
use varve_fs::{FileSystem, MemoryLayout, MemoryOptions, Options};
use varve_fuse::{MountOptions, Session, signals};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let directory = PathBuf::from(words.next().ok_or("usage: memory DIR [OPTION...]")?);
    let mut options = MountOptions::default();
    for word in words {
        if !options.apply(&word) {
            return Err(format!("{word}: unknown option").into());
        }
    }
    let clock = Arc::new(HostClock::default());
    let layout = MemoryLayout::new(MemoryOptions {
        capacity_bytes: 8 << 30,
        ..MemoryOptions::default()
    });
    FileSystem::format(&layout, &*clock, (0, 0))?;
    let fs = FileSystem::mount(
        Arc::new(layout),
        clock,
        Options {
            cache_bytes: 1 << 30,
            strict_order: options.strict_order,
            ..Options::default()
        },
    )?;
    let session = Session::new(Arc::new(fs), &directory, options)?;
    let adapter = session.adapter();
    let _watch = signals::unmount_on_termination(session.unmounter(), Duration::from_secs(5))?;
    let end = session.run()?;
    println!("{end:?}: {}", adapter.statistics_text());
    Ok(())
}
