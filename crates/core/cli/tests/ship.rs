//! `varve ship` and `varve replay`: a standby copy of a real mount, and of images.
//!
//! Without /dev/fuse the tests of mounts are skipped loudly, but fail in CI.

mod support;

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::mounted::{Mount, no_fuse};
use support::{Scratch, VARVE, shell, varve};

fn position(image: &str) -> String {
    let said = varve(["replay", image, "--position", "--json"])
        .expect(0, "")
        .json();
    said["mark"].as_str().unwrap().to_owned()
}

/// A mount, and an earlier copy of its image.
fn pair() -> (Mount, String) {
    let mount = Mount::new("64M");
    mount.umount();
    let copy = mount.scratch.text("copy");
    fs::copy(&mount.image, &copy).unwrap();
    mount.mount();
    (mount, copy)
}

/// Asserts that the copy has the same tree as the directory.
fn same_trees(mount: &Mount, copy: &str) {
    varve(["fsck", "--data", copy]).expect(0, ": clean");
    let dir = mount.scratch.text("copied");
    fs::create_dir_all(&dir).unwrap();
    varve(["mount", copy, &dir, "-o", "ro"]).expect(0, "");
    let list = "find . -printf '%p %i %n %m %s %T@ %l\\n' | sort; { getfattr -Rdm - . 2>/dev/null || true; }; \
                find . -type f -print0 | sort -z | xargs -0r sha256sum";
    let told = |dir: &str| shell(&format!("cd {dir} && {{ {list}; }}"));
    let (original, copied) = (told(&mount.dir), told(&dir));
    support::umount(&dir);
    assert_eq!(original, copied);
}

/// Makes all earlier writes durable, as an fsync does.
fn sync(mount: &Mount) {
    shell(&format!("sync {}", mount.dir));
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < until, "{what} takes too long");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_copy_is_brought_up_to_a_mount_again_and_again() {
    if no_fuse() {
        return;
    }
    let (mount, copy) = pair();
    let stream = mount.scratch.text("stream");
    for round in 0..3 {
        let since = position(&copy);
        shell(&format!(
            "cd {dir}; mkdir -p d{round}/e; echo {round} > d{round}/f; ln d{round}/f d{round}/g; \
             head -c 300000 /dev/urandom > big; truncate -s 1M hole; fallocate -l 200K kept; \
             mv d{round}/e moved{round}; ln -s big link{round}; rm -f d0/f; chmod 640 big",
            dir = mount.dir
        ));
        // Nothing was synced: shipping does that.
        varve(["ship", &mount.dir, "--since", &since, "--to", &stream]).expect(0, "groups");
        varve(["replay", &copy, "--from", &stream]).expect(0, "stands at");
        let stands = position(&copy);
        let again = varve(["replay", &copy, "--from", &stream, "--json"]).expect(0, "");
        assert_eq!(again.json()["groups"], 0);
        assert_eq!(position(&copy), stands);
        same_trees(&mount, &copy);
    }
    // From the image, as after the server's death.
    let since = position(&copy);
    fs::write(mount.path("last"), "words").unwrap();
    sync(&mount);
    shell(&format!(
        "kill -9 {}; umount -l {}",
        mount.server(),
        mount.dir
    ));
    wait_for("the server's end", || {
        varve(["ship", &mount.image, "--since", &since, "--to", &stream]).code == 0
    });
    varve(["replay", &copy, "--from", &stream]).expect(0, "stands at");
    mount.mount();
    same_trees(&mount, &copy);
    mount.finish();
}

#[test]
fn what_cannot_follow_is_told_why() {
    let s = Scratch::new();
    let image = s.volume("image", "32M");
    let copy = s.text("copy");
    fs::copy(&image, &copy).unwrap();
    let (stream, since) = (s.text("stream"), position(&image));
    varve(["ship", &image, "--since", &since, "--to", &stream]).expect(0, "");
    let before = fs::read(&copy).unwrap();
    varve(["replay", &copy, "--from", &stream]).expect(0, "0 groups");
    assert!(fs::read(&copy).unwrap() == before, "there was nothing");
    let wrong = "7-00000000";
    varve(["ship", &image, "--since", wrong, "--to", &stream]).expect(1, "make a new base");
    varve(["ship", &image, "--since", "seven", "--to", &stream]).expect(2, "is no mark");
    varve(["ship", &image]).expect(2, "--since");
    let other = s.volume("other", "32M");
    varve(["ship", &image, "--since", &since, "--to", &stream]).expect(0, "");
    varve(["replay", &other, "--from", &stream]).expect(1, "the stream is of volume");
    let vlfs = s.text("vlfs");
    varve(["mkfs", &vlfs, "--size", "32M", "--layout", "vlfs"]).expect(0, "");
    varve(["replay", &vlfs, "--from", &stream]).expect(1, "VLFS");
    varve(["replay", &vlfs, "--position"]).expect(1, "VLFS");
    varve(["ship", &vlfs, "--since", &since, "--to", &stream]).expect(1, "vlfs");
    fs::write(&stream, "words").unwrap();
    varve(["replay", &copy, "--from", &stream]).expect(1, "no stream of `varve ship`");
    varve(["replay", &copy, "--from", &s.text("none")]).expect(1, "cannot read");
}

/// Writes `files` files, each in a group of its own.
fn write(image: &str, files: u32) {
    let volume = varve::Volume::open(image).unwrap();
    for number in 0..files {
        volume
            .write(format!("{image}{number}").replace('/', "_"), "words")
            .unwrap();
        volume.sync().unwrap();
    }
    volume.close().unwrap();
}

#[test]
fn a_copy_that_was_written_to_is_refused_wherever_it_stands() {
    let s = Scratch::new();
    let image = s.volume("image", "32M");
    let [base, stream] = ["base", "stream"].map(|name| s.text(name));
    fs::copy(&image, &base).unwrap();
    write(&image, 3);
    let since = position(&base);
    varve(["ship", &image, "--since", &since, "--to", &stream]).expect(0, "");
    let followed = s.text("followed");
    fs::copy(&base, &followed).unwrap();
    varve(["replay", &followed, "--from", &stream]).expect(0, "3 groups");
    let copy = s.text("copy");
    for (from, files) in [(&base, 1), (&base, 30), (&followed, 1), (&followed, 30)] {
        fs::copy(from, &copy).unwrap();
        write(&copy, files);
        let before = fs::read(&copy).unwrap();
        let answer = varve(["replay", &copy, "--from", &stream]);
        answer.expect(1, "written to");
        assert!(
            fs::read(&copy).unwrap() == before,
            "{from}, {files}: it was changed"
        );
    }
    // A copy that is later than the stream and of the same history has nothing to do.
    write(&image, 5);
    fs::copy(&image, &copy).unwrap();
    varve(["replay", &copy, "--from", &stream]).expect(0, "behind the end of the stream");
    let (later, now) = (s.text("later"), position(&followed));
    varve(["ship", &image, "--since", &now, "--to", &later]).expect(0, "");
    varve(["replay", &followed, "--from", &later]).expect(0, "groups");
    varve(["replay", &followed, "--from", &stream]).expect(0, "behind the end of the stream");
}

/// `varve ship --follow | varve replay`, in a process group of its own.
fn following(mount: &Mount, copy: &str) -> (Child, Child) {
    let since = position(copy);
    let mut ship = Command::new(VARVE)
        .args(["ship", &mount.dir, "--follow", "--since", &since])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let replay = Command::new(VARVE)
        .args(["replay", copy])
        .stdin(ship.stdout.take().unwrap())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    (ship, replay)
}

#[test]
fn a_standby_follows_whoever_is_killed() {
    if no_fuse() {
        return;
    }
    let (mount, copy) = pair();
    for killed in ["ship", "replay"] {
        let (mut ship, mut replay) = following(&mount, &copy);
        for file in 0..40 {
            fs::write(mount.path(&format!("{killed}{file}")), vec![file; 20_000]).unwrap();
            sync(&mount);
        }
        match killed {
            "ship" => ship.kill().unwrap(),
            _ => replay.kill().unwrap(),
        }
        // The other one ends, too, because its stream is cut.
        fs::write(mount.path("after"), killed).unwrap();
        sync(&mount);
        ship.wait().unwrap();
        let ended = replay.wait_with_output().unwrap();
        if killed == "ship" {
            let text = String::from_utf8_lossy(&ended.stderr);
            assert!(
                !ended.status.success() && text.contains("it is cut off"),
                "{text}"
            );
        }
        varve(["fsck", "--data", &copy]).expect(0, "0 errors");
    }
    let (mut ship, mut replay) = following(&mount, &copy);
    shell(&format!(
        "cd {}; rm -r ship*; mkdir d; echo words > d/f; sync .",
        mount.dir
    ));
    // It ends with the mount, without an error.
    mount.umount();
    assert!(ship.wait().unwrap().success());
    assert!(replay.wait().unwrap().success());
    mount.mount();
    same_trees(&mount, &copy);
    mount.finish();
}
