//! Verification with several windows of inodes, which are small in tests.

use super::*;
use std::sync::Arc;
use varve_device::{Clock, MemoryDevice, VirtualClock};
use varve_fs::{Caller, FileSystem, InodeNo, Options};

/// Inodes beyond one window, in directories on both sides of its edges.
#[test]
fn several_windows_agree_with_one() {
    let device = Arc::new(MemoryDevice::new(16 << 20));
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(1_000_000_000_000, 1000));
    varve_lfs::format_volume(&*device, &*clock, &varve_lfs::FormatOptions::default()).unwrap();
    let mount = varve_lfs::MountOptions::default();
    let lfs = Arc::new(Lfs::mount(device, Arc::clone(&clock), mount).unwrap());
    FileSystem::format(&*lfs, &*clock, (0, 0)).unwrap();
    let system = FileSystem::mount(Arc::clone(&lfs), clock, Options::default()).unwrap();
    let (caller, root) = (Caller::root(), InodeNo::ROOT);
    let mut parent = root;
    for n in 0..300u32 {
        let name = format!("n{n}");
        let name = name.as_bytes();
        match n % 40 {
            0 => parent = system.mkdir(&caller, root, name, 0o755).unwrap().ino,
            1 => drop(system.mkdir(&caller, parent, name, 0o755).unwrap()),
            2 => {
                let file = system.mknod(&caller, root, name, 0o644, 0).unwrap();
                system.link(&caller, file.ino, parent, b"hard").unwrap();
            }
            _ => drop(system.mknod(&caller, parent, name, 0o644, 0).unwrap()),
        }
    }
    system.sync().unwrap();
    let control = Arc::new(Control::new(0));
    let report = verify(&lfs, &control, &VerifyOptions::default()).unwrap();
    assert_eq!(report.outcome, Outcome::Complete);
    assert!(
        report.is_sound() && report.warnings.is_empty(),
        "{report:#?}"
    );
    assert!(lfs.base().next_ino > 4 * known::WINDOW);
    assert_eq!(control.progress().directories, 17);
}
