//! The conventions of mount(8), fsck(8) and mkfs(8), by links of their names and by those
//! programs themselves.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;
use support::mounted::no_fuse;
use support::{Answer, Scratch, VARVE, shell, varve};

/// Links of all names in a folder of their own.
struct Helpers {
    scratch: Scratch,
    folder: String,
}

impl Helpers {
    fn new() -> Self {
        let scratch = Scratch::new();
        let folder = scratch.text("sbin");
        fs::create_dir(&folder).unwrap();
        for name in [
            "mount.varve",
            "mount.fuse.varve",
            "umount.fuse.varve",
            "fsck.varve",
            "mkfs.varve",
        ] {
            std::os::unix::fs::symlink(VARVE, Path::new(&folder).join(name)).unwrap();
        }
        Helpers { scratch, folder }
    }

    /// Runs `fsck.varve -a x` for `["fsck.varve", "-a", "x"]`.
    fn run(&self, words: &[&str]) -> Answer {
        let program = Path::new(&self.folder).join(words[0]);
        Answer::from(Command::new(program).args(&words[1..]).output().unwrap())
    }

    /// Runs a script in a mount namespace in which the links are where helpers are
    /// searched for.
    fn with_helpers_in_place(&self, script: &str) -> String {
        let folder = &self.folder;
        let inside = self.scratch.text("script");
        let whole = format!(
            "set -eu
             upper=$(mktemp -d {folder}.XXXX)
             mount -t tmpfs none $upper && mkdir $upper/up $upper/work
             mount -t overlay -o lowerdir=/usr/sbin,upperdir=$upper/up,workdir=$upper/work overlay /usr/sbin
             cp -P {folder}/* /usr/sbin/
             {script}"
        );
        fs::write(&inside, whole).unwrap();
        shell(&format!(
            "unshare --mount --propagation private bash {inside} 2>&1"
        ))
    }
}

#[test]
fn fsck_has_the_flags_and_exit_codes_of_fsck() {
    let h = Helpers::new();
    let image = h.scratch.volume("image", "32M");
    let fsck = |flags: &[&str]| h.run(&[&["fsck.varve"], flags, &[&image]].concat());
    for flags in [
        &["-a"][..],
        &["-p"],
        &["-n"],
        &["-y"],
        &["-f", "-a"],
        &["-a", "-f", "-C0"],
        &["-p", "-C", "7"],
        &["-C"],
        &["-v", "-y", "-C-1"],
    ] {
        fsck(flags).expect(0, ": clean");
    }
    fsck(&["-a", "-y"]).expect(16, "Usage");
    fsck(&["-z"]).expect(16, "Usage");
    h.run(&["fsck.varve"]).expect(16, "Usage");
    h.run(&["fsck.varve", "-a", "/no/such/volume"])
        .expect(8, "No such file");
    let volume = varve::Volume::open(&image).unwrap();
    fsck(&["-a"]).expect(8, "held by process");
    volume.write("/f", vec![7; 100_000]).unwrap();
    volume.sync().unwrap();
    volume.abandon();
    // After a crash there is nothing to correct.
    fsck(&["-n"]).expect(0, "not unmounted cleanly");
    fsck(&["-a"]).expect(0, "");
    // The first superblock is lost: a copy is used, and preening rewrites it.
    let mut bytes = fs::read(&image).unwrap();
    bytes[..512].fill(0);
    fs::write(&image, &bytes).unwrap();
    fsck(&["-n"]).expect(4, "superblock copy");
    fsck(&["-p", "-f"]).expect(1, "REPAIRED");
    fsck(&["-p", "-f"]).expect(0, "0 errors");
    // Before the last checkpoint; at the log's end it would be taken for a torn write.
    varve::Volume::open(&image).unwrap().close().unwrap();
    let mut bytes = fs::read(&image).unwrap();
    let data = bytes.windows(64).position(|window| window == [7; 64]);
    bytes[data.unwrap()] ^= 1;
    fs::write(&image, &bytes).unwrap();
    fsck(&["-n", "--data"]).expect(4, "DAMAGED");
}

#[test]
fn mkfs_has_the_size_of_mkfs() {
    let h = Helpers::new();
    let image = h.scratch.text("image");
    let mkfs = |words: &[&str]| h.run(&[&["mkfs.varve"], words].concat());
    mkfs(&["-L", "label", &image, "16384"]).expect(0, "16 MiB");
    mkfs(&["-v", &image]).expect(1, "--force");
    mkfs(&["--force", &image]).expect(0, "16 MiB");
    mkfs(&[&h.scratch.text("other"), "16M"]).expect(0, "16 MiB");
    mkfs(&[&h.scratch.text("third"), "many"]).expect(2, "is no size");
}

#[test]
fn mount_fakes_and_passes_over_what_it_is_told_to() {
    if no_fuse() {
        return;
    }
    let h = Helpers::new();
    let (image, dir) = (h.scratch.volume("image", "32M"), h.scratch.text("mnt"));
    fs::create_dir(&dir).unwrap();
    let mount = |words: &[&str]| h.run(&[&["mount.varve", &image, &dir], words].concat());
    let mounted = || {
        fs::read_to_string("/proc/self/mountinfo")
            .unwrap()
            .contains(&dir)
    };
    // For mount(8), -f does not mean the foreground, in which it would wait for ever.
    mount(&["-f", "-o", "ro"]).expect(0, "");
    mount(&["-sfnv", "-t", "fuse.varve"]).expect(0, "");
    mount(&["-f", "-o", "blue"]).expect(1, "`blue` is no option");
    mount(&["-f", "-s", "-o", "blue,ro"]).expect(0, "");
    mount(&["-z"]).expect(1, "Usage");
    h.run(&["mount.varve", &image]).expect(1, "Usage");
    h.run(&["mount.varve", &image, "/no/such/dir"])
        .expect(32, "cannot mount on");
    mount(&["-N", "/dev/null"]).expect(32, "mount namespace /dev/null");
    assert!(!mounted());
    mount(&["-n", "-s", "-o", "rw,blue,user=me"]).expect(0, "");
    assert!(mounted());
    varve(["umount", &dir]).expect(0, "");

    // In another namespace, which a process keeps; the volume is opened in this one.
    let held = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sleep", "60"])
        .spawn();
    let mut held = held.unwrap();
    let pid = held.id().to_string();
    // The namespace is ready once the program in it runs.
    while fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() != "sleep\n" {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    mount(&["-N", &pid]).expect(0, "");
    assert!(!mounted());
    shell(&format!(
        "nsenter --mount=/proc/{pid}/ns/mnt sh -c 'echo x >{dir}/f'"
    ));
    assert!(fs::read_dir(&dir).unwrap().next().is_none());
    shell(&format!("nsenter --mount=/proc/{pid}/ns/mnt umount {dir}"));
    held.kill().unwrap();
    held.wait().unwrap();
    mount(&[]).expect(0, "");
    assert_eq!(fs::read_to_string(format!("{dir}/f")).unwrap(), "x\n");
    varve(["umount", &dir]).expect(0, "");
    varve(["fsck", &image]).expect(0, ": clean");
}

/// mount(8), fstab(5), fsck(8) and mkfs(8) find the helpers by their names.
#[test]
fn the_programs_of_util_linux_find_the_helpers() {
    if no_fuse() {
        return;
    }
    let h = Helpers::new();
    let (image, dir) = (h.scratch.text("image"), h.scratch.text("mnt"));
    fs::create_dir(&dir).unwrap();
    let said = h.with_helpers_in_place(&format!(
        "truncate -s 32M {image}
         mkfs -t varve -L label {image}
         fsck -t varve {image} -a | grep ': clean'
         fsck -t varve -C0 {image} -f -y | grep ': clean'
         mount -f -t varve {image} {dir}
         mount -t varve -o nosuid,noatime {image} {dir}
         echo one >{dir}/f
         mount -o remount,ro {dir}
         ! touch {dir}/g 2>/dev/null
         umount {dir}
         mount -t varve -r {image} {dir}
         grep -q one {dir}/f
         umount {dir}
         echo '{image} {dir} varve nodev,noauto,nofail,user,x-systemd.automount,cache=32M 0 2' >{image}.tab
         mount -T {image}.tab {dir}
         echo two >{dir}/f
         grep -q 'nosuid.*nodev.*fuse.varve' /proc/self/mountinfo
         umount {dir}
         fsck -t varve {image} -a
         FSTAB_FILE={image}.tab fsck -A -T
         echo fsck $?"
    ));
    assert!(said.contains("fsck 0"), "{said}");
    varve(["fsck", &image]).expect(0, ": clean");
}

/// umount(8) hands `-l`, `-N` and the like to the helper, and expects what it does itself.
/// Without `-c` (systemd has it) it takes the type from statfs(2), which is `fuse`, and
/// does without the helper.
#[test]
fn umount_of_util_linux_finds_its_helper() {
    if no_fuse() {
        return;
    }
    let h = Helpers::new();
    let (image, dir) = (h.scratch.volume("image", "32M"), h.scratch.text("mnt"));
    let bind = h.scratch.text("bind");
    fs::create_dir(&dir).unwrap();
    fs::create_dir(&bind).unwrap();
    let said = h.with_helpers_in_place(&format!(
        "mount -t varve {image} {dir}
         ( cd {dir}; ! timeout 20 umount -c {dir}; timeout 20 umount -l {dir} )
         ! mountpoint -q {dir}
         until fsck -t varve {image} -a; do sleep 0.05; done
         mount -t varve {image} {dir}
         mkdir {dir}/d && mount --bind {dir}/d {bind}
         timeout 20 umount -c {bind}
         ! mountpoint -q {bind}
         umount -c -n -v -r {dir}
         fsck -t varve {image} -a
         mount -t varve {image} {dir}
         unshare --mount --propagation private sleep 600 & other=$!
         until [ \"$(cat /proc/$other/comm)\" = sleep ]; do sleep 0.01; done
         timeout 20 umount -c {dir}
         umount -c -N $other {dir}
         kill $other
         fsck -t varve {image} -a
         echo all"
    ));
    assert!(said.contains("is in use: files are open"), "{said}");
    assert!(said.contains(", working directory "), "{said}");
    assert!(said.ends_with("all\n"), "{said}");
}
