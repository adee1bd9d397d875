//! File handles of what is removed.

use crate::support::Mounted;
use crate::support::handles::Handle;
use crate::support::kernel::ask;
use std::fs::{self, File};
use std::io::Read;
use varve_fuse::{Adapter, Errno, MountOptions, Outcome};

/// The kernel forgets a removed file a moment after it was removed, and by
/// another way than requests come: until then the file is still there.
#[test]
fn a_file_without_names_has_no_handle_even_before_it_is_forgotten() {
    let fs = crate::support::file_system(Default::default(), Default::default());
    let adapter = Adapter::new(fs, &MountOptions::default());
    let mut init = [7u32, 45, 131_072, 1 << 30].map(u32::to_ne_bytes).concat();
    init.extend([0; 48]);
    ask(&adapter, 26, 0, &init);
    let mut create = [0u32, 0o644, 0, 0].map(u32::to_ne_bytes).concat();
    create.extend(b"f\0");
    let (_, reply) = ask(&adapter, 35, 1, &create);
    let file = u64::from_ne_bytes(reply.body()[..8].try_into().unwrap());
    // LOOKUP of `.` in it is what a handle leads to.
    assert!(matches!(ask(&adapter, 1, file, b".\0").0, Outcome::Reply));
    let link = [&file.to_ne_bytes()[..], b"g\0"].concat();
    assert!(matches!(ask(&adapter, 13, 1, &link).0, Outcome::Reply));
    assert!(matches!(ask(&adapter, 10, 1, b"f\0").0, Outcome::Reply));
    assert!(matches!(ask(&adapter, 1, file, b".\0").0, Outcome::Reply));
    assert!(matches!(ask(&adapter, 10, 1, b"g\0").0, Outcome::Reply));
    for _ in 0..2 {
        let gone = ask(&adapter, 1, file, b".\0").0;
        assert!(
            matches!(gone, Outcome::Error(Errno(libc::ESTALE))),
            "{gone:?}"
        );
    }
}

/// The kernel makes the root's inode itself, and complains in its log of an answer that
/// has another generation.
#[test]
fn the_root_is_of_generation_0() {
    let fs = crate::support::file_system(Default::default(), Default::default());
    let adapter = Adapter::new(fs, &MountOptions::default());
    let mut init = [7u32, 45, 131_072, 1 << 30].map(u32::to_ne_bytes).concat();
    init.extend([0; 48]);
    ask(&adapter, 26, 0, &init);
    let mkdir = [&[0o755u32, 0].map(u32::to_ne_bytes).concat()[..], b"d\0"].concat();
    let word = |reply: &varve_fuse::Reply, at: usize| {
        u64::from_ne_bytes(reply.body()[at..at + 8].try_into().unwrap())
    };
    let made = ask(&adapter, 9, 1, &mkdir).1;
    let (directory, generation) = (word(&made, 0), word(&made, 8));
    assert!(directory > 1 && generation > 0);
    for (node, name) in [(directory, &b"..\0"[..]), (1, b".\0")] {
        let (outcome, reply) = ask(&adapter, 1, node, name);
        assert!(matches!(outcome, Outcome::Reply), "{outcome:?}");
        assert_eq!((word(&reply, 0), word(&reply, 8)), (1, 0));
    }
}

/// xfstests generic/426 and generic/467.
#[test]
fn handles_of_removed_files_are_stale() {
    let Some(m) = Mounted::new() else { return };
    let root = File::open(m.root()).unwrap();
    // Before the first OPEN the kernel does not know that files are closed
    // without a RELEASE, and holds each until that is answered.
    fs::write(m.path("first"), b"x").unwrap();
    fs::read(m.path("first")).unwrap();
    for round in 0..100 {
        let (path, kept) = (m.path("f"), m.path("kept"));
        fs::write(&path, format!("{round}")).unwrap();
        fs::write(&kept, format!("kept {round}")).unwrap();
        let (handle, open) = (Handle::of(&path), Handle::of(&kept));
        let mut content = String::new();
        handle
            .open(&root)
            .unwrap()
            .read_to_string(&mut content)
            .unwrap();
        assert_eq!(content, format!("{round}"));
        let holder = File::open(&kept).unwrap();
        fs::remove_file(&kept).unwrap();
        fs::remove_file(&path).unwrap();
        let answer = handle.open(&root).map_err(|e| e.raw_os_error());
        assert_eq!(answer.err(), Some(Some(libc::ESTALE)), "round {round}");
        // Nor does it lead to what has its number next.
        fs::write(&path, "another").unwrap();
        let answer = handle.open(&root).map_err(|e| e.raw_os_error());
        assert_eq!(answer.err(), Some(Some(libc::ESTALE)), "round {round}");
        // One that is open is there for those who have its handle.
        content.clear();
        open.open(&root)
            .unwrap()
            .read_to_string(&mut content)
            .unwrap();
        assert_eq!(content, format!("kept {round}"));
        drop(holder);
    }
    // Directories alike.
    fs::create_dir(m.path("d")).unwrap();
    let handle = Handle::of(&m.path("d"));
    assert!(handle.open(&root).is_ok());
    fs::remove_dir(m.path("d")).unwrap();
    assert!(handle.open(&root).is_err());
}
