//! The end of a mount: processes that prevent it, durability, a server that does not
//! answer, names that are not text.

mod support;

use rustix::fs::FlockOperation;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::mounted::{Mount, no_fuse};
use support::{Scratch, VARVE, shell, varve};
use varve::Volume;

const LAYOUTS: [&str; 3] = ["log", "vlfs", "ffs"];

fn mounted(layout: &str, options: &str) -> Mount {
    let scratch = Scratch::new();
    let image = scratch.text("image");
    varve(["mkfs", "--layout", layout, "--size", "32M", &image]).expect(0, "");
    Mount::with_options(scratch, image, options)
}

/// A process that ends when its standard input does.
fn helper(script: &str) -> Child {
    let mut command = Command::new("bash");
    let streams = command.args(["-c", script]).stdin(Stdio::piped());
    streams
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[track_caller]
fn wait_for(what: &str, most: Duration, is_so: impl Fn() -> bool) {
    let end = Instant::now() + most;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within {most:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// True if the file would survive a crash at this moment.
fn would_survive(m: &Mount, name: &str) -> bool {
    let copy = m.scratch.path("copy");
    fs::copy(&m.image, &copy).unwrap();
    let Ok(volume) = Volume::open(&copy) else {
        return false;
    };
    let is_there = volume.exists(name).unwrap_or(false);
    volume.abandon();
    is_there
}

#[test]
fn names_that_are_no_text_hide_no_mount() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("32M");
    m.umount();
    let odd = m.scratch.dir.path().join(OsStr::from_bytes(b"odd\xff"));
    let image = m.scratch.dir.path().join(OsStr::from_bytes(b"image\xfe"));
    fs::create_dir(&odd).unwrap();
    fs::rename(&m.image, &image).unwrap();
    let mount = [OsStr::new("mount"), image.as_ref(), odd.as_ref()];
    varve(mount).expect(0, "");
    varve([OsStr::new("info"), odd.as_ref()]).expect(0, "state      mounted");
    // A second volume, mounted as well.
    let other = m.scratch.volume("other", "32M");
    varve(["mount", &other, &m.dir]).expect(0, "");
    varve(["umount", &m.dir]).expect(0, "");
    varve([OsStr::new("umount"), odd.as_ref()]).expect(0, "");
    varve([OsStr::new("fsck"), image.as_ref()]).expect(0, ": clean");
}

#[test]
fn what_came_before_a_read_only_remount_is_durable() {
    if no_fuse() {
        return;
    }
    for layout in LAYOUTS {
        let m = mounted(layout, "cache=16M");
        fs::write(m.path("f"), b"content").unwrap();
        varve(["mount", &m.image, &m.dir, "-o", "remount,ro"]).expect(0, "");
        shell(&format!("kill -KILL {}", m.server()));
        m.umount();
        m.mount();
        assert_eq!(fs::read(m.path("f")).unwrap(), b"content", "{layout}");
        // After mount(2) the server sees it in the mount table, a moment later; otherwise
        // it would be durable only after half a minute.
        fs::write(m.path("g"), b"content").unwrap();
        shell(&format!("mount -i -o remount,ro {}", m.dir));
        wait_for("durable", Duration::from_secs(15), || {
            would_survive(&m, "/g")
        });
        shell(&format!("mount -i -o remount,rw {}", m.dir));
        // A directory that is unmounted while the file system is still in use.
        fs::write(m.path("h"), b"content").unwrap();
        let open = File::open(m.path("f")).unwrap();
        shell(&format!("umount -l {}", m.dir));
        wait_for("durable", Duration::from_secs(15), || {
            would_survive(&m, "/h")
        });
        drop(open);
        varve(["fsck", &m.image]).expect(0, "clean");
    }
}

#[test]
fn changes_of_synchronous_mounts_survive_the_servers_death() {
    if no_fuse() {
        return;
    }
    for layout in LAYOUTS {
        for options in ["dirsync", "sync"] {
            let m = mounted(layout, options);
            fs::create_dir(m.path("d")).unwrap();
            fs::write(m.path("d/f"), b"content").unwrap();
            fs::rename(m.path("d/f"), m.path("g")).unwrap();
            if options == "sync" {
                fs::write(m.path("g"), b"another").unwrap();
                let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
                fs::set_permissions(m.path("d"), mode).unwrap();
            }
            shell(&format!("kill -KILL {}", m.server()));
            m.umount();
            m.mount();
            let found = fs::read(m.path("g")).unwrap();
            let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(m.path("d")).unwrap());
            if options == "sync" {
                assert_eq!((found.as_slice(), mode & 0o777), (&b"another"[..], 0o600));
            }
            m.finish();
        }
    }
}

#[test]
fn a_mount_in_use_is_tried_until_the_time_is_over() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("32M");
    let mut user = helper(&format!("cd {} && read -r line", m.dir));
    let directory = format!("/proc/{}/cwd", user.id());
    wait_for("there", Duration::from_secs(60), || {
        fs::read_link(&directory).is_ok_and(|cwd| cwd == m.path("").join(""))
    });
    let named = format!("process {} (bash, working directory", user.id());
    varve(["umount", "--timeout", "0", &m.dir]).expect(32, &named);
    let mut umount = Command::new(VARVE)
        .args(["umount", &m.dir])
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(umount.try_wait().unwrap().is_none(), "it gave up");
    drop(user.stdin.take());
    assert!(umount.wait().unwrap().success());
    user.wait().unwrap();
    m.mount();
    m.finish();
}

#[test]
fn a_server_that_is_stopped_is_waited_for_no_longer_than_asked() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("32M");
    fs::write(m.path("f"), b"content").unwrap();
    let open = File::open(m.path("f")).unwrap();
    open.sync_all().unwrap();
    let server = m.server();
    shell(&format!("kill -STOP {server}"));
    let told = format!("process {server}, which is stopped");
    varve(["umount", "--timeout", "1", &m.dir]).expect(32, &told);
    let mut readers: Vec<Child> = (0..4)
        .map(|n| helper(&format!("exec cat {}/absent{n}", m.dir)))
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    varve(["umount", "--force", "--timeout", "5", &m.dir]).expect(0, "");
    for reader in &mut readers {
        assert!(!reader.wait().unwrap().success());
    }
    drop(open);
    m.mount();
    assert_eq!(fs::read(m.path("f")).unwrap(), b"content");
    m.finish();
}

#[test]
fn a_mount_in_another_namespace_is_named() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("32M");
    let mut other =
        helper("exec unshare --mount --propagation private bash -c 'read -r line; exit'");
    let own = fs::read_link("/proc/self/ns/mnt").unwrap();
    let namespace = format!("/proc/{}/ns/mnt", other.id());
    wait_for("apart", Duration::from_secs(60), || {
        fs::read_link(&namespace).is_ok_and(|there| there != own)
    });
    let named = format!("in another mount namespace: of process {} (", other.id());
    varve(["umount", "--timeout", "1", &m.dir]).expect(32, &named);
    drop(other.stdin.take());
    other.wait().unwrap();
    m.mount();
    m.finish();
}

#[test]
fn an_image_is_found_by_its_mount_after_it_was_renamed() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("32M");
    let renamed = m.scratch.text("renamed");
    fs::rename(&m.image, &renamed).unwrap();
    varve(["mkfs", "--size", "32M", "--label", "another", &m.image]).expect(0, "");
    for target in [&m.dir, &renamed] {
        let info = varve(["info", "--json", target]).expect(0, "").json();
        assert_eq!(info["volume"], renamed.as_str());
        assert_eq!(info["mounted_on"], m.dir.as_str());
        assert_eq!(info["state"], "mounted");
    }
    let other = varve(["info", "--json", &m.image]).expect(0, "").json();
    assert_eq!(
        (&other["state"], other["mounted_on"].is_null()),
        (&"clean".into(), true)
    );
    // Unmounting waits for the volume that is mounted.
    m.umount();
    varve(["fsck", &renamed]).expect(0, ": clean");
    fs::rename(&renamed, &m.image).unwrap();
}

#[test]
fn fsck_waits_for_a_server_that_is_closing() {
    let s = Scratch::new();
    for layout in LAYOUTS {
        let image = s.text(layout);
        varve(["mkfs", "--layout", layout, "--size", "32M", &image]).expect(0, "");
        let closing = File::open(&image).unwrap();
        rustix::fs::flock(&closing, FlockOperation::LockExclusive).unwrap();
        let end = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(800));
            drop(closing);
        });
        varve(["fsck", &image]).expect(0, "clean");
        end.join().unwrap();
    }
}

#[test]
fn commands_for_whole_volumes_say_what_they_were_given_instead() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("64M");
    fs::create_dir(m.path("inside")).unwrap();
    let inside = m.path("inside").display().to_string();
    let elsewhere = m.scratch.text("");
    let with = |command: &[&str], directory: &str| {
        let mut words = vec![command[0].to_owned(), directory.to_owned()];
        words.extend(command[1..].iter().map(|word| (*word).to_owned()));
        words
    };
    for (command, code) in [
        (&["scrub"][..], 8),
        (&["resize", "128M"], 1),
        (&["stats"], 1),
        (&["top", "--once"], 1),
        (&["cleaner"], 1),
        (&["cleaner", "--policy", "greedy", "--once"], 1),
        (&["info"], 1),
        (&["umount"], 32),
    ] {
        let of = |directory: &str| with(command, directory);
        varve(of(&elsewhere)).expect(code, "nothing is mounted on");
        varve(of("/proc")).expect(code, "is a mount of type proc");
        varve(of(&inside)).expect(code, &format!("mounted on, {}", m.dir));
    }
    for command in [
        &["ship", "--since", "1052-9f3a11c2"][..],
        &["coalesce"],
        &["txn", "list"],
    ] {
        let words = [command, &[&elsewhere]].concat();
        varve(words).expect(1, "is not on a mounted Varve volume");
    }
    for (command, code) in [(&["scrub"][..], 8), (&["resize", "128M"], 1)] {
        let of = |directory: &str| with(command, directory);
        let run = [
            &["txn", "run", &m.dir, "--", VARVE].map(String::from)[..],
            &of(&m.dir),
        ];
        varve(run.concat()).expect(code, "is seen through a transaction here");
    }
    m.finish();
}
