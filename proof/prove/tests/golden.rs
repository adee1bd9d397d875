//! Golden volumes. An image that an earlier version left on a device must mount, contain
//! its old data, accept changes, and be sound.
//!
//! `tests/golden` has for each volume its image (`NAME.img.zst`) and the operations that
//! made it (`NAME.story`); `tests/golden/README.md` explains how to add one. The test
//! runs the story on the model alone, so the expected content of an image is a readable
//! text.
//!
//! | volume | content |
//! |---|---|
//! | `log-closed` | every kind of file, names on two levels, attributes, a sparse index of height 2, one of height 3 whose file was truncated, reservations, cleaned segments; unmounted |
//! | `log-crashed` | the same, with groups after the newest record, and open files without a name |
//! | `log-holes` | two heads, blocks written into holes, segments reused ahead of checkpoints; crashed |
//! | `log-transaction` | a transaction written before its commit, and one that was open; crashed |
//! | `vlfs-closed`, `vlfs-crashed` | VLFS: with records of changes since its checkpoint, and compacted |
//! | `vlfs-sectors` | VLFS in units of a sector; crashed |
//! | `ffs-closed`, `ffs-crashed` | FFS with fragments and a journal |
//! | `ffs-ordered` | FFS with metadata in place; crashed |

use std::io::{IoSlice, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use varve_device::{Device, MemoryDevice};
use varve_fs::{Caller, FileKind, FileSystem, InodeNo, Layout, TransactionOptions};
use varve_lfs::{FormatOptions, Lfs, Tune};
use varve_prove::generator::{Generator, Kind, Profile};
use varve_prove::in_place::InPlace;
use varve_prove::model::{Model, Refusal};
use varve_prove::mounted::{Mounted, Subject};
use varve_prove::operation::{File, Operation, Range, pattern_bytes, story, tell};
use varve_prove::random::Random;
use varve_prove::runner::{Runner, new_clock};
use varve_prove::subjects::Log;
use varve_prove::tree::{self, Bounds};
use varve_prove::variants::Variant;
use varve_prove::virtual_log::VirtualLog;

const BLOCK: u64 = 4096;
const XATTR_BYTES: u64 = 1000;

/// Returns the golden volumes whose stories have only one kind of life, each with its
/// mount options.
fn plain_subjects() -> Vec<(&'static str, Box<dyn Subject>)> {
    vec![
        ("log-closed", Box::new(Log::default())),
        ("log-crashed", Box::new(Log::default())),
        ("vlfs-closed", Box::new(VirtualLog::default())),
        ("vlfs-crashed", Box::new(VirtualLog::default())),
        ("vlfs-sectors", Box::new(VirtualLog::with_small_units())),
        ("ffs-closed", Box::new(InPlace::with_fragments())),
        ("ffs-crashed", Box::new(InPlace::with_fragments())),
        ("ffs-ordered", Box::new(InPlace::with_fragments().ordered())),
    ]
}

/// Returns a nearly full log with two heads, which writes blocks into holes.
fn plugged() -> Log {
    let mut log = Variant::with_heads_under_cleaning(1).subject;
    log.mount.heads = 2;
    log.format = FormatOptions {
        segment_bytes: 128 << 10,
        aligned: true,
        ..log.format
    };
    log
}

fn subject_of(name: &str) -> Box<dyn Subject> {
    match name {
        "log-holes" => Box::new(plugged()),
        "log-transaction" => Box::new(Log::default()),
        _ => {
            let mut all = plain_subjects().into_iter();
            let found = all.find(|(known, _)| *known == name);
            found.unwrap_or_else(|| panic!("{name}: no such volume")).1
        }
    }
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn decompressed(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut stream = ruzstd::decoding::StreamingDecoder::new(packed).unwrap();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

fn device_of(bytes: &[u8]) -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(bytes.len() as u64));
    device.write(0, &[IoSlice::new(bytes)]).unwrap();
    device
}

/// Returns the model after a story. Operations between `begin` and `commit` belong to a
/// transaction; those between `begin` and `abort` were never committed.
fn told(text: &str) -> Model {
    let mut model = Model::new(BLOCK);
    let (mut pending, mut is_open) = (Vec::new(), false);
    for line in text.lines().filter(|line| !line.starts_with("//")) {
        match line {
            "begin" => is_open = true,
            "commit" => {
                is_open = false;
                apply(&mut model, &std::mem::take(&mut pending));
            }
            "abort" => {
                is_open = false;
                pending.clear();
            }
            _ if is_open => pending.extend(story(line)),
            _ => apply(&mut model, &story(line)),
        }
    }
    model.close_all();
    model
}

fn apply(model: &mut Model, operations: &[Operation]) {
    for operation in operations {
        let outcome = model.apply(operation);
        assert!(outcome != Err(Refusal::Skip), "{operation}: skipped");
    }
}

/// Checks that the image of `name` mounts without a write, contains what its story says,
/// accepts changes and a remount, and is sound before and after.
fn is_kept(path: &Path, name: &str) {
    let subject = subject_of(name);
    let packed = std::fs::read(path).unwrap();
    let text = std::fs::read_to_string(path.with_extension("").with_extension("story")).unwrap();
    let device = device_of(&decompressed(&packed));
    let model = told(&text);
    let nothing: Vec<String> = Vec::new();
    assert_eq!(
        subject.check(device.clone()),
        nothing,
        "{name}: as it was left"
    );

    let before = bytes_of(&device);
    let seen = subject.mount_read_only(device.clone(), new_clock());
    let seen = seen.expect("it can be mounted read-only").unwrap();
    shows(&*seen, &model).unwrap_or_else(|wrong| panic!("{name}, read-only: {wrong}"));
    drop(seen);
    assert!(
        before == bytes_of(&device),
        "{name}: a mount that reads has written"
    );

    let clock = new_clock();
    let mount = |seed| subject.mount(device.clone(), clock.clone(), seed).unwrap();
    let mut runner = Runner::new(mount(11), clock.clone(), model);
    runner
        .verify()
        .unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    runner.may_be_full = true;
    let mut generator = Generator::on(changes(), Random::new(5), runner.model.clone());
    for operation in generator.take(120) {
        let step = runner.step(&operation);
        let _ = step.unwrap_or_else(|wrong| panic!("{name}, then {operation}: {wrong}"));
    }
    runner.step(&Operation::Checkpoint).unwrap().unwrap();
    runner
        .verify()
        .unwrap_or_else(|wrong| panic!("{name}, changed: {wrong}"));
    runner.model.apply(&Operation::Remount).unwrap();
    runner.model.close_all();
    runner.mounted().unmount().unwrap();
    assert_eq!(
        subject.check(device.clone()),
        nothing,
        "{name}: changed and closed"
    );
    runner.replace(mount(12));
    runner
        .verify()
        .unwrap_or_else(|wrong| panic!("{name}, opened again: {wrong}"));
    runner.mounted().unmount().unwrap();
}

/// Checks that the names and contents are those of the model. A read-only mount frees
/// nothing, so deleted files may still be counted.
fn shows(mounted: &dyn Mounted, model: &Model) -> Result<(), String> {
    let seen = tree::walk(mounted, Bounds::default())?;
    let (lines, ids) = tree::model_lines(model);
    if lines != seen.lines {
        return Err(tree::differences(&lines, &seen.lines));
    }
    for file in &seen.files {
        let content = &model.node(ids[file.line]).content;
        let all = Range {
            offset: 0,
            length: content.size(),
        };
        if content.read(all) != file.bytes {
            return Err(format!("{}: other bytes", lines[file.line]));
        }
    }
    Ok(())
}

/// Returns all bytes of a device.
fn bytes_of(device: &MemoryDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.geometry().size as usize];
    device.read(0, &mut bytes).unwrap();
    bytes
}

/// Returns the profile of changes to a mounted volume: every operation that needs no
/// second mount.
fn changes() -> Profile {
    let mut profile = Profile::everything().without(&[Kind::Remount, Kind::Kill]);
    profile.xattr_bytes = XATTR_BYTES;
    profile
}

/// Checks every golden volume of a layout, and that there are at least `least` of them.
fn are_kept(layout: &str, least: usize) {
    let mut volumes = 0;
    for entry in std::fs::read_dir(directory()).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap();
        let name = file
            .strip_suffix(".img.zst")
            .and_then(|name| name.split_once('-'));
        if let Some((_, name)) = name.filter(|(_, name)| name.starts_with(layout)) {
            is_kept(&path, name);
            volumes += 1;
        }
    }
    assert!(volumes >= least, "only {volumes} volumes");
}

#[test]
fn logs_of_earlier_versions_are_opened_walked_changed_and_checked() {
    are_kept("log-", 4);
}

#[test]
fn virtual_logs_of_earlier_versions_are_opened_walked_changed_and_checked() {
    are_kept("vlfs-", 3);
}

#[test]
fn volumes_in_place_of_earlier_versions_are_opened_walked_changed_and_checked() {
    are_kept("ffs-", 3);
}

/// Kind, attributes and content of every path below a directory.
fn walked(fs: &FileSystem<Lfs>, directory: InodeNo, path: &str, all: &mut Vec<(String, Vec<u8>)>) {
    let mut entries = Vec::new();
    fs.readdir(directory, 0, &mut |entry| {
        entries.push((entry.name.to_vec(), entry.ino));
        true
    })
    .unwrap();
    for (name, ino) in entries
        .into_iter()
        .filter(|(name, _)| !name.starts_with(b"."))
    {
        let attr = fs.getattr(ino).unwrap();
        let path = format!("{path}/{}", name.escape_ascii());
        let mut content = Vec::new();
        match attr.kind {
            FileKind::Directory => walked(fs, ino, &path, all),
            FileKind::Regular => {
                content = vec![0; attr.size as usize];
                assert_eq!(fs.read(ino, 0, &mut content).unwrap(), content.len());
            }
            _ => {}
        }
        let text = format!("{path} {:o} {} {:?}", attr.mode, attr.nlink, attr.mtime);
        all.push((text, content));
    }
}

/// A volume of a version without snapshots has them once `tune` allows it.
#[test]
fn logs_of_earlier_versions_can_have_snapshots() {
    let caller = Caller::root();
    for name in ["log-closed", "log-crashed", "log-transaction"] {
        let packed = std::fs::read(directory().join(format!("v1-{name}.img.zst"))).unwrap();
        let device = device_of(&decompressed(&packed));
        let mount = || {
            let options = varve_lfs::MountOptions::default();
            let lfs = Lfs::mount(device.clone(), new_clock(), options).unwrap();
            let options = varve_fs::Options::default();
            Arc::new(FileSystem::mount(Arc::new(lfs), new_clock(), options).unwrap())
        };
        let fs = mount();
        let refused = fs.create_snapshot("monday").unwrap_err();
        assert!(
            refused.to_string().contains("varve tune --snapshots"),
            "{refused}"
        );
        fs.unmount().unwrap();
        let tune = Tune {
            snapshots: true,
            ..Tune::default()
        };
        varve_lfs::tune(&*device, &tune).unwrap();
        let fs = mount();
        let (mut before, mut now, mut past) = (Vec::new(), Vec::new(), Vec::new());
        walked(&fs, InodeNo::ROOT, "", &mut before);
        let number = fs.create_snapshot("monday").unwrap().number;
        for round in 0..2 {
            let mut names = Vec::new();
            fs.readdir(InodeNo::ROOT, 0, &mut |entry| {
                names.push((entry.name.to_vec(), entry.ino));
                true
            })
            .unwrap();
            for (at, (name, ino)) in names.into_iter().enumerate() {
                match at % 2 == round {
                    true => fs.unlink(&caller, InodeNo::ROOT, &name).map(drop),
                    false => fs.write(&caller, ino, 100, &[9; 5000]).map(drop),
                }
                .unwrap_or_default();
            }
            fs.sync().unwrap();
            fs.layout().checkpoint().unwrap();
        }
        walked(&fs, InodeNo::ROOT, "", &mut now);
        assert!(now != before, "{name}: nothing was changed");
        walked(&fs.at(number).unwrap(), InodeNo::ROOT, "", &mut past);
        assert!(past == before, "{name}: the snapshot shows other files");
        fs.unmount().unwrap();
        let problems = subject_of(name).check(device.clone());
        assert_eq!(problems, Vec::<String>::new(), "{name}");
    }
}

/// Makes the volumes of this version, if `VARVE_GOLDEN` names it (see `README.md`).
#[test]
fn volumes_of_this_version_are_made_where_they_are_asked_for() {
    let Ok(version) = std::env::var("VARVE_GOLDEN") else {
        eprintln!("VARVE_GOLDEN names no version: nothing to make");
        return;
    };
    for (seed, (name, subject)) in (1..).zip(plain_subjects()) {
        let (image, text) = live(&*subject, name, seed);
        save(&version, name, &image, &text);
    }
    let (image, text) = holes();
    save(&version, "log-holes", &image, &text);
    let (image, text) = transactions();
    save(&version, "log-transaction", &image, &text);
}

fn save(version: &str, name: &str, image: &[u8], text: &str) {
    let image_path = directory().join(format!("{version}-{name}.img"));
    let story_path = directory().join(format!("{version}-{name}.story"));
    for path in [
        &image_path,
        &story_path,
        &image_path.with_extension("img.zst"),
    ] {
        assert!(!path.exists(), "{}: never made anew", path.display());
    }
    std::fs::write(image_path, image).unwrap();
    std::fs::write(story_path, text).unwrap();
}

/// Returns the beginning of every plain story.
fn beginning() -> String {
    let mut text = String::from(
        "create sparse\nwrite sparse 0+100 #1\nwrite sparse 1638400+300 #2\n\
         write sparse 5120000+50 #3\nwrite sparse 10240000+700 #4\n\
         create tall\nwrite tall 0+900 #5\nwrite tall 209715200+40 #6\nsync\n\
         layout-checkpoint\ntruncate tall 1000000\n\
         create reserved\nreserve reserved 0+600000\nwrite reserved 40960+200 #7\n\
         create attributes\nsetxattr attributes one 900 #8\nsetxattr attributes two 40 #9\n\
         symlink short 40\nsymlink long 1500\nfifo queue\nmkdir names\n",
    );
    for number in 0..300 {
        let length = 1 + number % 40;
        text += &format!("create names/n{number}^{length}\n");
    }
    for number in (0..300).step_by(3) {
        let length = 1 + number % 40;
        text += &match number % 9 {
            0 => format!("link names/n{number}^{length} l{number}\n"),
            3 => format!("unlink names/n{number}^{length}\n"),
            _ => format!(
                "write names/n{number}^{length} 0+{} #{number}\n",
                20 * length
            ),
        };
    }
    text + "chmod sparse 600\nchown tall 7 8\nsync\nclean\nlayout-checkpoint\n"
}

/// Returns the operations after the newest record, for a volume that is killed.
fn ending() -> &'static str {
    "open l0 @1\nunlink names/n0^1\nunlink l0\ncreate orphan\nwrite orphan 0+9000 #71\n\
     open orphan @2\nunlink orphan\nmkdir late\ncreate late/file\n\
     write late/file 500000+100 #72\npunch sparse 1638400+4096\ntruncate reserved 300000\n\
     rename late/file late/renamed\nsync\n"
}

/// Runs one volume. Returns the bytes of the device at the end and the story of what was
/// done.
fn live(subject: &dyn Subject, name: &str, seed: u64) -> (Vec<u8>, String) {
    let device = Arc::new(MemoryDevice::new(subject.device_bytes()));
    subject.format(device.clone(), new_clock()).unwrap();
    let clock = new_clock();
    let mounted = subject.mount(device.clone(), clock.clone(), seed).unwrap();
    let mut runner = Runner::new(mounted, clock, Model::new(BLOCK));
    let mut happened = Vec::new();
    let mut step = |runner: &mut Runner, operation: Operation| {
        if runner
            .step(&operation)
            .unwrap_or_else(|wrong| panic!("{wrong}"))
            .is_ok()
        {
            happened.push(operation);
        }
    };
    story(&beginning())
        .into_iter()
        .for_each(|operation| step(&mut runner, operation));
    let mut profile = changes();
    profile.file_blocks = 8;
    let mut generator = Generator::on(profile, Random::new(seed), runner.model.clone());
    generator
        .take(90)
        .into_iter()
        .for_each(|operation| step(&mut runner, operation));
    step(&mut runner, Operation::Checkpoint);
    story(ending())
        .into_iter()
        .for_each(|operation| step(&mut runner, operation));
    runner
        .verify()
        .unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    if name.ends_with("closed") {
        step(&mut runner, Operation::Close { slot: 1 });
        step(&mut runner, Operation::Close { slot: 2 });
        runner.mounted().unmount().unwrap();
        happened.push(Operation::Remount);
    } else {
        happened.push(Operation::Kill);
    }
    (bytes_of(&device), tell(&happened))
}

/// A file system on a log, and the story of its operations.
struct Life {
    device: Arc<MemoryDevice>,
    system: Arc<FileSystem<Lfs>>,
    text: String,
}

impl Life {
    fn new(log: &Log) -> Self {
        let device = Arc::new(MemoryDevice::new(log.device_bytes));
        log.format(device.clone(), new_clock()).unwrap();
        let system = log.system(device.clone(), new_clock(), 1).unwrap();
        Life {
            device,
            system: Arc::new(system),
            text: String::new(),
        }
    }

    /// Executes one line of a story, in the tree or in that of a transaction.
    fn line(&mut self, within: Option<&FileSystem<Lfs>>, line: &str) {
        let (fs, caller) = (within.unwrap_or(&self.system), Caller::root());
        let [operation] = &story(line)[..] else {
            panic!("one operation a line: {line}")
        };
        match operation {
            Operation::Create(path) => {
                let name = path.0.as_bytes();
                fs.mknod(&caller, InodeNo::ROOT, name, 0o100_644, 0)
                    .map(drop)
            }
            Operation::Write {
                file: File::At(path),
                range,
                pattern,
            } => fs
                .lookup(&caller, InodeNo::ROOT, path.0.as_bytes())
                .and_then(|found| {
                    let data = pattern_bytes(*pattern, *range);
                    fs.write(&caller, found.ino, range.offset, &data).map(drop)
                }),
            Operation::Reserve {
                file: File::At(path),
                range,
                ..
            } => fs
                .lookup(&caller, InodeNo::ROOT, path.0.as_bytes())
                .and_then(|found| fs.fallocate(&caller, found.ino, 0, range.offset, range.length)),
            Operation::Sync => fs.sync(),
            Operation::Checkpoint => fs.checkpoint(),
            Operation::Maintain => fs.maintain(),
            _ => panic!("not for these stories: {line}"),
        }
        .unwrap_or_else(|error| panic!("{line}: {error}"));
        self.text += &format!("{line}\n");
    }
}

/// Makes the volume with holes. Each block has few bytes that are not zero, so that the
/// image is short. Most writes go to other blocks than the last ones, so that the blocks
/// they replace leave holes.
fn holes() -> (Vec<u8>, String) {
    let mut life = Life::new(&plugged());
    // The zeros precede the data. After it they would be left out, and no block be whole.
    let tail = |block| block * BLOCK + BLOCK - 40;
    let free = life.system.statfs().free;
    let blocks = free * 8 / 10;
    life.line(None, "create churned");
    for block in 0..blocks {
        life.line(None, &format!("write churned {}+40 #1", tail(block)));
    }
    life.line(None, "checkpoint");
    let mut random = Random::new(3);
    let plugged = |life: &Life| life.system.layout().statistics().plugged_bytes;
    for pattern in 2.. {
        for _ in 0..24 {
            let block = random.below(blocks);
            life.line(
                None,
                &format!("write churned {}+40 #{pattern}", tail(block)),
            );
        }
        life.line(
            None,
            if pattern % 10 == 9 {
                "maintain"
            } else {
                "sync"
            },
        );
        if plugged(&life) > 200 * BLOCK {
            break;
        }
        assert!(pattern < 400, "{:?}", life.system.layout().statistics());
    }
    life.line(None, "sync");
    (bytes_of(&life.device), life.text + "kill\n")
}

fn transactions() -> (Vec<u8>, String) {
    let mut life = Life::new(&Log::default());
    life.line(None, "create old");
    for block in 0..300 {
        life.line(None, &format!("write old {}+40 #1", block * BLOCK));
    }
    life.line(None, "checkpoint");
    for (number, ends) in [(2, "commit"), (3, "abort")] {
        life.text += "begin\n";
        let options = TransactionOptions::default();
        let transaction = life.system.begin_transaction(&options).unwrap();
        life.line(Some(&transaction), &format!("create new{number}"));
        for block in 0..300 {
            life.line(
                Some(&transaction),
                &format!("write old {}+40 #{number}", block * BLOCK),
            );
            life.line(
                Some(&transaction),
                &format!("write new{number} {}+40 #9", block * BLOCK),
            );
        }
        life.text += &format!("{ends}\n");
        match ends {
            "commit" => transaction.commit().unwrap(),
            _ => {
                assert!(life.system.statistics().transaction_spilled_blocks > 600);
                life.line(None, "create beside");
                life.line(None, "sync");
                return (bytes_of(&life.device), life.text + "kill\n");
            }
        }
        life.line(None, "sync");
    }
    unreachable!("the last is not committed")
}
