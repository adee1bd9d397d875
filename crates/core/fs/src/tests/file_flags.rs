//! File flags: the changes that they forbid, for which callers, and their effect on
//! durability.

use super::harness::*;
use crate::{
    Access, Caller, Error, FileFlags, HeldTimes, InodeNo, Layout, Rename, Result, SetAttr, SetTime,
    Timestamp, flags,
};

const IMMUTABLE: FileFlags = FileFlags {
    immutable: true,
    ..NONE
};
const APPEND_ONLY: FileFlags = FileFlags {
    append_only: true,
    ..NONE
};
const NONE: FileFlags = FileFlags {
    immutable: false,
    append_only: false,
    no_atime: false,
    no_dump: false,
    sync: false,
    dir_sync: false,
    project_inherit: false,
    protected: false,
};

fn set(fs: &Fs, caller: &Caller, ino: InodeNo, flags: FileFlags) -> Result<()> {
    fs.set_file_flags(caller, ino, flags, None)
}

fn kernel() -> Caller {
    Caller {
        checked: true,
        ..Caller::root()
    }
}

/// A directory `d` with a file `f` of a thousand bytes and a directory `s`, and another
/// file `o`; made anew for each test.
struct Tree {
    d: InodeNo,
    f: InodeNo,
    o: InodeNo,
}

fn tree(fs: &Fs) -> Tree {
    let d = fs.t_mkdir(ROOT, "d");
    let f = fs.t_create(d, "f").ino;
    fs.t_write(f, 0, &pattern(1000, 1));
    fs.t_mkdir(d, "s");
    let o = fs.t_create(ROOT, "o").ino;
    Tree { d, f, o }
}

type Attempt = fn(&Fs, &Caller, &Tree) -> Result<()>;

fn setting(fs: &Fs, c: &Caller, ino: InodeNo, set: SetAttr) -> Result<()> {
    fs.setattr(c, ino, &set).map(drop)
}

const AT: Option<SetTime> = Some(SetTime::At(Timestamp {
    seconds: 9,
    nanos: 0,
}));

fn rename(fs: &Fs, c: &Caller, from: (InodeNo, &str), to: (InodeNo, &str), x: bool) -> Result<()> {
    let how = Rename {
        exchange: x,
        ..Rename::default()
    };
    let (old, new) = (from.1.as_bytes(), to.1.as_bytes());
    fs.rename(c, from.0, old, to.0, new, how)
}

/// Changes of the file, and whether an append-only file allows them.
const OF_FILE: [(&str, bool, Attempt); 23] = [
    ("write", false, |fs, c, t| {
        fs.write(c, t.f, 5, b"x").map(drop)
    }),
    ("write at the end", true, |fs, c, t| {
        fs.write(c, t.f, 1000, b"x").map(drop)
    }),
    ("append", true, |fs, c, t| fs.append(c, t.f, b"x").map(drop)),
    ("held write", true, |fs, c, t| {
        fs.write_held(c, t.f, 0, b"x", HeldTimes::Arrival).map(drop)
    }),
    ("write through an open file", true, |fs, c, t| {
        fs.write_opened(c, t.f, 0, b"x").map(drop)
    }),
    ("copy into", false, |fs, c, t| {
        fs.t_write(t.o, 0, b"abc");
        fs.copy_range(c, t.o, 0, t.f, 0, 3).map(drop)
    }),
    ("reserve", true, |fs, c, t| fs.fallocate(c, t.f, 0, 0, 9000)),
    ("keep size", true, |fs, c, t| {
        fs.fallocate(c, t.f, 1, 0, 9000)
    }),
    ("punch", false, |fs, c, t| fs.fallocate(c, t.f, 3, 0, 4096)),
    ("zero", false, |fs, c, t| fs.fallocate(c, t.f, 16, 0, 4096)),
    ("truncate", false, |fs, c, t| {
        let size = Some(0);
        setting(
            fs,
            c,
            t.f,
            SetAttr {
                size,
                ..SetAttr::default()
            },
        )
    }),
    ("extend", false, |fs, c, t| {
        let size = Some(5000);
        setting(
            fs,
            c,
            t.f,
            SetAttr {
                size,
                ..SetAttr::default()
            },
        )
    }),
    ("chmod", false, |fs, c, t| {
        let mode = Some(0o600);
        setting(
            fs,
            c,
            t.f,
            SetAttr {
                mode,
                ..SetAttr::default()
            },
        )
    }),
    ("chown", false, |fs, c, t| {
        let uid = Some(7);
        setting(
            fs,
            c,
            t.f,
            SetAttr {
                uid,
                ..SetAttr::default()
            },
        )
    }),
    ("touch", true, |fs, c, t| {
        let mtime = Some(SetTime::Now);
        setting(
            fs,
            c,
            t.f,
            SetAttr {
                mtime,
                ..SetAttr::default()
            },
        )
    }),
    ("a cache's times", true, |fs, c, t| {
        let ctime = Some(Timestamp::default());
        setting(
            fs,
            c,
            t.f,
            SetAttr {
                mtime: AT,
                ctime,
                ..SetAttr::default()
            },
        )
    }),
    ("times", false, |fs, c, t| {
        setting(
            fs,
            c,
            t.f,
            SetAttr {
                mtime: AT,
                atime: AT,
                ..SetAttr::default()
            },
        )
    }),
    ("set attribute", false, |fs, c, t| {
        fs.setxattr(c, t.f, b"user.a", b"1", false, false)
    }),
    ("link", false, |fs, c, t| {
        fs.link(c, t.f, ROOT, b"l").map(drop)
    }),
    ("unlink", false, |fs, c, t| fs.unlink(c, t.d, b"f")),
    ("rename", false, |fs, c, t| {
        rename(fs, c, (t.d, "f"), (ROOT, "n"), false)
    }),
    ("rename over", false, |fs, c, t| {
        rename(fs, c, (ROOT, "o"), (t.d, "f"), false)
    }),
    ("exchange", false, |fs, c, t| {
        rename(fs, c, (ROOT, "o"), (t.d, "f"), true)
    }),
];

/// Changes of the directory, likewise.
const OF_DIRECTORY: [(&str, bool, Attempt); 13] = [
    ("create", true, |fs, c, t| {
        fs.mknod(c, t.d, b"n", 0o644, 0).map(drop)
    }),
    ("mkdir", true, |fs, c, t| {
        fs.mkdir(c, t.d, b"n", 0o755).map(drop)
    }),
    ("symlink", true, |fs, c, t| {
        fs.symlink(c, t.d, b"n", b"x").map(drop)
    }),
    ("tmpfile", true, |fs, c, t| {
        fs.tmpfile(c, t.d, 0o644).map(drop)
    }),
    ("link into", true, |fs, c, t| {
        fs.link(c, t.o, t.d, b"n").map(drop)
    }),
    ("rename into", true, |fs, c, t| {
        rename(fs, c, (ROOT, "o"), (t.d, "n"), false)
    }),
    ("unlink from", false, |fs, c, t| fs.unlink(c, t.d, b"f")),
    ("rmdir from", false, |fs, c, t| fs.rmdir(c, t.d, b"s")),
    ("rename out", false, |fs, c, t| {
        rename(fs, c, (t.d, "f"), (ROOT, "n"), false)
    }),
    ("rename within", false, |fs, c, t| {
        rename(fs, c, (t.d, "f"), (t.d, "n"), false)
    }),
    ("rename over", false, |fs, c, t| {
        rename(fs, c, (ROOT, "o"), (t.d, "f"), false)
    }),
    ("rename itself", false, |fs, c, _| {
        rename(fs, c, (ROOT, "d"), (ROOT, "e"), false)
    }),
    ("chmod", false, |fs, c, t| {
        let mode = Some(0o700);
        setting(
            fs,
            c,
            t.d,
            SetAttr {
                mode,
                ..SetAttr::default()
            },
        )
    }),
];

fn expect(attempts: &[(&str, bool, Attempt)], directory: bool) {
    for caller in [Caller::root(), kernel()] {
        for &(what, takes, attempt) in attempts {
            for (flags, allowed) in [(IMMUTABLE, false), (APPEND_ONLY, takes), (NONE, true)] {
                let fs = fresh();
                let t = tree(&fs);
                let guarded = if directory { t.d } else { t.f };
                set(&fs, &caller, guarded, flags).unwrap();
                let before = (fs.t_read(t.f), fs.getattr(guarded).unwrap());
                let got = attempt(&fs, &caller, &t);
                if allowed {
                    got.unwrap_or_else(|error| panic!("{what}, {flags:?}: {error}"));
                    continue;
                }
                let refused = matches!(got, Err(Error::NotPermitted));
                assert!(refused, "{what}, {flags:?}: {got:?}");
                if !directory {
                    let after = (fs.t_read(t.f), fs.getattr(guarded).unwrap());
                    assert_eq!(before, after, "{what} changed something");
                }
            }
        }
    }
}

#[test]
fn flags_of_a_file_bind_everybody() {
    expect(&OF_FILE, false);
}

#[test]
fn flags_of_a_directory_bind_everybody() {
    expect(&OF_DIRECTORY, true);
    // The directory's flag does not bind the files in it.
    let fs = fresh();
    let t = tree(&fs);
    set(&fs, &Caller::root(), t.d, IMMUTABLE).unwrap();
    fs.t_write(t.f, 0, b"x");
}

#[test]
fn how_a_flagged_file_may_be_opened() {
    let fs = fresh();
    let t = tree(&fs);
    let asks = |write, append, truncate| {
        let access = Access {
            write,
            append,
            truncate,
        };
        fs.may_open(t.f, access).is_ok()
    };
    for (flags, [read, write, append, emptied]) in [
        (NONE, [true, true, true, true]),
        (IMMUTABLE, [true, false, false, false]),
        (APPEND_ONLY, [true, false, true, false]),
    ] {
        set(&fs, &Caller::root(), t.f, flags).unwrap();
        assert_eq!(asks(false, false, false), read, "{flags:?}");
        assert_eq!(asks(true, false, false), write, "{flags:?}");
        assert_eq!(asks(true, true, false), append, "{flags:?}");
        assert_eq!(asks(true, true, true), emptied, "{flags:?}");
    }
}

#[test]
fn who_may_change_which_flags() {
    let fs = fresh();
    let f = fs.t_create(ROOT, "f").ino;
    let give = SetAttr {
        uid: Some(1),
        ..SetAttr::default()
    };
    setting(&fs, &Caller::root(), f, give).unwrap();
    let quiet = FileFlags {
        no_atime: true,
        no_dump: true,
        ..NONE
    };
    set(&fs, &user(1), f, quiet).unwrap();
    assert_eq!(fs.file_flags(f).unwrap(), quiet);
    let refused = |caller: Caller, flags| {
        let got = set(&fs, &caller, f, flags);
        assert!(
            matches!(got, Err(Error::NotPermitted)),
            "{flags:?}: {got:?}"
        );
    };
    refused(user(2), NONE);
    refused(user(1), IMMUTABLE);
    refused(user(1), APPEND_ONLY);
    assert!(!fs.is_guarded().unwrap(), "a refusal left something");
    set(&fs, &Caller::root(), f, IMMUTABLE).unwrap();
    refused(user(1), NONE);
    // While the file stays immutable, no other flag changes.
    refused(
        Caller::root(),
        FileFlags {
            no_dump: true,
            ..IMMUTABLE
        },
    );
    set(&fs, &Caller::root(), f, NONE).unwrap();
    let names = FileFlags {
        dir_sync: true,
        ..NONE
    };
    let got = set(&fs, &Caller::root(), f, names);
    assert!(matches!(got, Err(Error::NotSupported)), "{got:?}");
}

#[test]
fn flags_survive_a_crash_and_so_does_the_guard() {
    let fs = fresh();
    let t = tree(&fs);
    set(&fs, &Caller::root(), t.d, APPEND_ONLY).unwrap();
    assert!(!fs.is_guarded().unwrap(), "directories are not opened");
    set(&fs, &Caller::root(), t.f, APPEND_ONLY).unwrap();
    fs.t_fsync(t.f);
    let fs = crash(&fs, None);
    assert!(fs.is_guarded().unwrap());
    assert_eq!(fs.file_flags(t.f).unwrap(), APPEND_ONLY);
    assert_eq!(fs.file_flags(t.d).unwrap(), APPEND_ONLY);
}

#[test]
fn new_files_have_flags_of_their_directory() {
    let fs = fresh();
    let all = FileFlags {
        immutable: false,
        append_only: true,
        no_atime: true,
        no_dump: true,
        sync: true,
        dir_sync: true,
        project_inherit: true,
        protected: true,
    };
    let d = fs.t_mkdir(ROOT, "d");
    fs.set_file_flags(&Caller::root(), d, all, Some(42))
        .unwrap();
    let below = FileFlags {
        append_only: false,
        ..all
    };
    let inherited = FileFlags {
        dir_sync: false,
        project_inherit: false,
        protected: true,
        ..below
    };
    let (f, s) = (fs.t_create(d, "f").ino, fs.t_mkdir(d, "s"));
    assert_eq!(fs.flags_and_project(f).unwrap(), (inherited, 42));
    assert_eq!(fs.flags_and_project(s).unwrap(), (below, 42));
    // The new synchronous file was made without a call that sets flags.
    assert!(fs.is_guarded().unwrap());
    let plain = fs.t_create(ROOT, "plain").ino;
    assert_eq!(fs.flags_and_project(plain).unwrap(), (NONE, 0));
}

#[test]
fn a_directory_that_passes_its_project_on_takes_no_other() {
    let fs = fresh();
    let d = fs.t_mkdir(ROOT, "d");
    let inherit = FileFlags {
        project_inherit: true,
        protected: true,
        ..NONE
    };
    fs.set_file_flags(&Caller::root(), d, inherit, Some(42))
        .unwrap();
    let (own, foreign) = (fs.t_create(d, "own").ino, fs.t_create(ROOT, "foreign").ino);
    let root = Caller::root();
    let crosses = |got: Result<()>| {
        assert!(matches!(got, Err(Error::CrossesProjects)), "{got:?}");
        assert_eq!(got.unwrap_err().errno(), 18);
    };
    crosses(fs.link(&root, foreign, d, b"l").map(drop));
    crosses(rename(&fs, &root, (ROOT, "foreign"), (d, "n"), false));
    crosses(rename(&fs, &root, (ROOT, "foreign"), (d, "own"), true));
    crosses(rename(&fs, &root, (d, "own"), (ROOT, "foreign"), true));
    fs.link(&root, own, d, b"l").unwrap();
    // A move out of the directory is allowed.
    rename(&fs, &root, (d, "l"), (ROOT, "out"), false).unwrap();
}

#[test]
fn a_synchronous_file_is_durable_when_it_is_answered() {
    let fs = fresh();
    let sync = FileFlags { sync: true, ..NONE };
    let f = fs.t_file("f", b"before");
    set(&fs, &Caller::root(), f, sync).unwrap();
    assert_eq!(crash(&fs, None).t_content("f"), b"before");
    fs.t_write(f, 0, b"during");
    assert_eq!(crash(&fs, None).t_content("f"), b"during");
    fs.append(&Caller::root(), f, b"!").unwrap();
    assert_eq!(crash(&fs, None).t_content("f"), b"during!");
    fs.t_truncate(f, 3);
    assert_eq!(crash(&fs, None).t_content("f"), b"dur");
    set(&fs, &Caller::root(), f, NONE).unwrap();
    fs.t_write(f, 0, b"lost");
    assert_eq!(crash(&fs, None).t_content("f"), b"dur");
}

#[test]
fn names_in_a_synchronous_directory_are_durable_when_they_are_answered() {
    let fs = fresh();
    let d = fs.t_mkdir(ROOT, "d");
    let names = FileFlags {
        dir_sync: true,
        ..NONE
    };
    set(&fs, &Caller::root(), d, names).unwrap();
    fs.sync().unwrap();
    let root = Caller::root();
    let there = |names: &[&str]| assert_eq!(crash(&fs, None).t_names(d), names);
    fs.t_create(d, "a");
    there(&["a"]);
    rename(&fs, &root, (d, "a"), (d, "b"), false).unwrap();
    there(&["b"]);
    fs.t_mkdir(d, "s");
    there(&["b", "s"]);
    fs.unlink(&root, d, b"b").unwrap();
    fs.rmdir(&root, d, b"s").unwrap();
    there(&[]);
    let f = fs.t_create(ROOT, "f").ino;
    assert!(crash(&fs, None).t_lookup("f").is_err());
    fs.link(&root, f, d, b"l").unwrap();
    there(&["l"]);
}

#[test]
fn reading_a_file_without_access_times_changes_nothing() {
    let fs = fresh();
    let f = fs.t_file("f", b"x");
    let quiet = FileFlags {
        no_atime: true,
        ..NONE
    };
    set(&fs, &Caller::root(), f, quiet).unwrap();
    let before = fs.getattr(f).unwrap().atime;
    fs.t_read(f);
    assert_eq!(fs.getattr(f).unwrap().atime, before);
    set(&fs, &Caller::root(), f, NONE).unwrap();
    fs.t_read(f);
    assert_ne!(fs.getattr(f).unwrap().atime, before);
}

#[test]
fn after_a_shutdown_nothing_reaches_the_layout() {
    let fs = fresh();
    let kept = fs.t_file("kept", b"kept");
    fs.t_fsync(kept);
    fs.t_file("lost", b"lost");
    let appended = fs.layout().memory().appended();
    fs.shut_down("the test said so");
    let refused = fs.mknod(&Caller::root(), ROOT, b"n", 0o644, 0);
    assert!(matches!(refused, Err(Error::ReadOnly(_))), "{refused:?}");
    assert!(fs.sync().is_err() && fs.unmount().is_err());
    assert_eq!(fs.layout().memory().appended(), appended);
    let fs = crash(&fs, None);
    assert_eq!(fs.t_content("kept"), b"kept");
    assert!(fs.t_lookup("lost").is_err());
}

#[test]
fn the_bits_are_those_of_the_format() {
    let fs = fresh();
    let d = fs.t_mkdir(ROOT, "d");
    set(&fs, &Caller::root(), d, IMMUTABLE).unwrap();
    fs.sync().unwrap();
    let image = fs.layout().read_inode(LIVE, d).unwrap();
    assert_eq!(image.flags, flags::IMMUTABLE);
}
