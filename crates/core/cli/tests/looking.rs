//! Read-only commands never write: each works where nothing can be written, and changes
//! nothing where it could.
//!
//! The commands are those that the program lists. A new one has to be entered here.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use support::mounted::{lacks, no_fuse, no_programs};
use support::{Answer, Scratch, VARVE, varve};
use varve::{Volume, VolumeStorage};
use varve_tp::storage::Storage;
use varve_tp::{Options, TableDefinition};

/// The effect of a command on its arguments.
enum Does {
    /// It reads: so it is run, with these arguments after its name, in the directory of
    /// volumes and record stores that [`Fixture`] makes.
    Look(&'static [&'static [&'static str]]),
    /// It reads a mount.
    LookAtMount(&'static [&'static [&'static str]]),
    /// It changes its arguments, or makes something: so it may be refused.
    Change,
}

use Does::{Change, Look, LookAtMount};

const VOLUMES: &[&[&str]] = &[&["log"], &["killed"], &["full"], &["vlfs"], &["ffs"]];

const COMMANDS: &[(&str, Does)] = &[
    ("mkfs", Change),
    ("mount", Change),
    ("umount", Change),
    ("info", Look(VOLUMES)),
    ("dump superblock", Look(VOLUMES)),
    ("dump checkpoints", Look(VOLUMES)),
    ("dump segments", Look(&[&["log"], &["killed"], &["full"]])),
    (
        "dump summary",
        Look(&[&["log", "2"], &["full", "2", "--data"]]),
    ),
    (
        "dump inode",
        Look(&[&["log", "/file"], &["killed", "1"], &["full", "/file"]]),
    ),
    ("dump ifile", Look(VOLUMES)),
    ("dump history", Look(&[&["log"], &["killed"], &["full"]])),
    (
        "fsck",
        Look(&[
            &["log", "--data"],
            &["killed"],
            &["full", "--json"],
            &["vlfs"],
            &["ffs"],
        ]),
    ),
    ("salvage", Look(&[&["log", "OUT/salvaged"]])),
    ("tune", Look(VOLUMES)),
    ("resize", Change),
    ("ship", Look(&[&["log", "--since", "MARK"]])),
    // With --position; otherwise the copy is changed.
    (
        "replay",
        Look(&[&["log", "--position"], &["killed", "--position"]]),
    ),
    ("scrub", LookAtMount(&[&["MOUNT"], &["MOUNT", "--status"]])),
    ("cleaner", LookAtMount(&[&["MOUNT"]])),
    ("stats", Look(VOLUMES)),
    ("top", LookAtMount(&[&["MOUNT", "--once"]])),
    ("coalesce", Change),
    ("protect", LookAtMount(&[&["MOUNT/file", "--show"]])),
    ("rename", Change),
    ("snapshot create", Change),
    ("snapshot list", Look(&[&["log"], &["killed"]])),
    ("snapshot show", Look(&[&["log", "monday"]])),
    ("snapshot delete", Change),
    ("snapshot rename", Change),
    // Without an interval it prints the schedule.
    ("snapshot keep", Look(&[&["log"]])),
    ("diff", Look(&[&["log", "monday"]])),
    // Without a path it lists names.
    ("undelete", LookAtMount(&[&["MOUNT"]])),
    ("versions", LookAtMount(&[&["MOUNT/file"]])),
    ("rollback", Change),
    ("send", Look(&[&["log", "monday"]])),
    ("receive", Change),
    ("tar", Look(&[&["log"], &["killed"], &["full"]])),
    // It reads the volume, and makes its destination.
    ("cp", Change),
    ("archive restore", Change),
    ("txn run", Change),
    ("txn shell", Change),
    ("txn begin", Change),
    ("txn commit", Change),
    ("txn list", LookAtMount(&[&["MOUNT"]])),
    ("txn abort", Change),
    ("bench", Change),
    ("lab list", Look(&[&[]])),
    ("lab run", Change),
    (
        "lab replay",
        Look(&[&["trace", "--utilisation", "60", "--policy", "greedy"]]),
    ),
    ("lab report", Change),
    ("lab age", Change),
    ("tp init", Change),
    ("tp load", Change),
    ("tp dump", Look(STORES)),
    ("tp verify", Look(STORES)),
    ("tp recover", Change),
    ("tp stats", Look(STORES)),
    ("tp bench", Change),
    // It takes a checkpoint of its source, and gives it an identity.
    ("tp backup", Change),
    ("tp follow", Change),
    ("tp restore", Change),
    ("vld create", Change),
    ("vld serve", Change),
    ("vld info", Look(&[&["disk"]])),
    ("manual", Change),
    ("completions", Look(&[&["bash"]])),
    ("prove", Look(&[&["--list"]])),
];

const STORES: &[&[&str]] = &[
    &["store"],
    &["/records", "--volume", "full"],
    &["/records", "--volume", "killed"],
];

#[test]
fn every_command_is_known_to_look_or_to_change() {
    if no_programs() {
        return;
    }
    let found: BTreeSet<String> = support::commands().into_iter().collect();
    let known: BTreeSet<String> = COMMANDS.iter().map(|(name, _)| (*name).into()).collect();
    assert_eq!(
        found, known,
        "enter each into COMMANDS, and say what it does"
    );
}

const TABLE: TableDefinition<u32, &[u8]> = TableDefinition::new("table");

/// Records, some after the last checkpoint, as a killed process leaves them.
fn records(storage: Arc<dyn Storage>) {
    let mut options = Options::new();
    options.segment(64 << 10).background(false);
    let environment = options.open_storage(storage).unwrap();
    for number in 0..20 {
        let transaction = environment.begin_write();
        let table = transaction.open_table(TABLE).unwrap();
        table.insert(number, &[7; 3000]).unwrap();
        drop(table);
        transaction.commit().unwrap();
    }
    std::mem::forget(environment);
}

/// Volumes, record stores and other inputs, in a directory.
struct Fixture {
    scratch: Scratch,
    mark: String,
}

impl Fixture {
    fn new() -> Self {
        let scratch = Scratch::new();
        let readable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(scratch.dir.path(), readable).unwrap();
        for name in ["in", "out", "run"] {
            fs::create_dir(scratch.path(name)).unwrap();
        }
        let inside = |name: &str| scratch.text(&format!("in/{name}"));
        for layout in ["log", "vlfs", "ffs"] {
            let made = ["mkfs", &inside(layout), "--size", "32M", "--layout", layout];
            varve(made).expect(0, "");
            let volume = Volume::open(inside(layout)).unwrap();
            volume.write("file", "words").unwrap();
            if layout == "log" {
                volume.snapshot("monday").unwrap();
                volume.write("file", "other words").unwrap();
            }
            volume.close().unwrap();
        }
        let position = ["replay", &inside("log"), "--position"];
        let mark = varve(position).expect(0, "").out.trim().to_owned();
        for name in ["full", "killed"] {
            let made = scratch.volume(&format!("run/{name}"), "32M");
            let volume = Volume::open(&made).unwrap();
            volume.write("file", "words").unwrap();
            records(Arc::new(VolumeStorage::new(&volume, "/records").unwrap()));
            volume.sync().unwrap();
            if name == "killed" {
                fs::copy(&made, inside(name)).unwrap();
                continue;
            }
            let mut piece = 1 << 20;
            let mut number = 0;
            while piece >= 512 {
                number += 1;
                if volume
                    .write(format!("piece{number}"), vec![1; piece])
                    .is_err()
                {
                    piece /= 2;
                }
            }
            volume.sync().unwrap();
            fs::copy(&made, inside(name)).unwrap();
        }
        let store = scratch.path("run/store");
        records(Arc::new(
            varve_tp::storage::HostStorage::new(&store).unwrap(),
        ));
        fs::create_dir(inside("store")).unwrap();
        for file in fs::read_dir(&store).unwrap().map(Result::unwrap) {
            let to = Path::new(&inside("store")).join(file.file_name());
            fs::copy(file.path(), to).unwrap();
        }
        varve(["vld", "create", &inside("disk"), "--size", "16M"]).expect(0, "");
        let mut calls = String::from("openat(AT_FDCWD, \"/a\", O_RDWR|O_CREAT, 0644) = 3\n");
        for at in 0..300 {
            calls += &format!(
                "pwrite64(3, \"\"..., 4096, {}) = 4096\n",
                at * 7 % 100 * 4096
            );
        }
        fs::write(inside("trace"), calls).unwrap();
        for program in ["varve", "varve-lab", "varve-prove"] {
            let built = Path::new(VARVE).with_file_name(program);
            if built.exists() {
                fs::copy(built, scratch.path(program)).unwrap();
            }
        }
        Fixture { scratch, mark }
    }

    /// Makes all files readable, and not writable.
    fn protect(&self) {
        for name in self.bytes().into_keys() {
            fs::set_permissions(name, fs::Permissions::from_mode(0o444)).unwrap();
        }
    }

    /// All bytes in the directory, by name.
    fn bytes(&self) -> BTreeMap<String, Vec<u8>> {
        fn add(directory: &Path, all: &mut BTreeMap<String, Vec<u8>>) {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                let path = entry.path();
                let name = path.to_str().unwrap().to_owned();
                match path.is_dir() {
                    true => add(&path, all),
                    false => drop(all.insert(name, fs::read(path).unwrap())),
                }
            }
        }
        let mut all = BTreeMap::new();
        add(&self.scratch.path("in"), &mut all);
        all
    }

    /// Runs every command that reads files, as `prepare` arranges it.
    fn look(&self, how: &str, prepare: impl Fn(&mut Vec<String>) -> Command) {
        for (name, does) in COMMANDS {
            let Look(runs) = does else { continue };
            for run in *runs {
                let out = self.scratch.text("out");
                let mut arguments: Vec<String> = name.split(' ').map(str::to_owned).collect();
                let mut run = run.iter();
                if arguments[0] == "dump" {
                    // The volume precedes the name of the part.
                    arguments.extend(run.next().map(|volume| (*volume).to_owned()));
                    arguments.swap(1, 2);
                }
                let given = run.map(|argument| argument.replace("MARK", &self.mark));
                arguments.extend(given.map(|argument| argument.replace("OUT", &out)));
                let shown = arguments.join(" ");
                let output = prepare(&mut arguments)
                    .args(&arguments)
                    .current_dir(self.scratch.path("in"))
                    .env_remove("VARVE_LOG")
                    .env_remove("RUST_LOG")
                    .output()
                    .unwrap();
                let answer = Answer::from(output);
                assert!(answer.code == 0, "{how}: varve {shown}: {answer:#?}");
                let made = self.scratch.path("out/salvaged");
                let _ = fs::remove_file(made);
            }
        }
    }
}

#[test]
fn looking_at_files_never_writes() {
    if no_programs() {
        return;
    }
    let fixture = Fixture::new();
    let program = fixture.scratch.path("varve");
    let before = fixture.bytes();
    fixture.look("where it could write", |_| Command::new(&program));
    assert!(fixture.bytes() == before, "something was written");
    if lacks("root's rights", rustix::process::getuid().is_root()) {
        return;
    }
    fixture.protect();
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(fixture.scratch.path("out"), open).unwrap();
    fixture.look("as another user, with read permission", |_| {
        let mut command = Command::new(&program);
        command.uid(65_534).gid(65_534);
        command
    });
    let inside = fixture.scratch.text("in");
    fixture.look("on a read-only mount", |arguments| {
        arguments.insert(0, program.to_str().unwrap().into());
        let script = format!(
            "mount --bind {inside} {inside} && mount -o remount,bind,ro {inside} && \
             cd {inside} && ! touch new 2>&1 && exec \"$@\""
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script, "sh"]);
        command
    });
    assert!(fixture.bytes() == before, "something was written");
}

#[test]
fn looking_at_a_mount_never_writes() {
    if no_fuse() {
        return;
    }
    let fixture = Fixture::new();
    let before = fixture.bytes();
    let dir = fixture.scratch.text("out");
    varve(["mount", &fixture.scratch.text("in/log"), &dir, "-o", "ro"]).expect(0, "");
    for (name, does) in COMMANDS {
        let LookAtMount(runs) = does else { continue };
        for run in *runs {
            let mut arguments: Vec<String> = name.split(' ').map(str::to_owned).collect();
            arguments.extend(run.iter().map(|argument| argument.replace("MOUNT", &dir)));
            let answer = varve(&arguments);
            assert!(
                answer.code == 0,
                "varve {}: {answer:#?}",
                arguments.join(" ")
            );
        }
    }
    support::umount(&dir);
    assert!(fixture.bytes() == before, "something was written");
}
