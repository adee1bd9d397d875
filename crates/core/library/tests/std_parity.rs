//! Runs the same random operations through `std::fs` on a directory of the host and on a
//! volume. Results, kinds of errors and the final trees must agree.
//!
//! Excluded are properties that legitimately differ: the order of listings, the size of
//! directories, and a file copied onto itself, which `std` truncates.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use varve::{FileTimes, Layout, Volume, VolumeOptions};
use varve_prove::random::{Random, scaled};

const STEPS: u64 = 3000;
const SLOTS: usize = 4;

/// Result of an operation, as text.
type Answer = Result<String, ErrorKind>;

/// An operation by path.
#[derive(Clone, Debug)]
enum Op {
    Read(String),
    Write(String, Vec<u8>),
    CreateDir(String),
    CreateDirAll(String),
    RemoveFile(String),
    RemoveDir(String),
    RemoveDirAll(String),
    Rename(String, String),
    HardLink(String, String),
    Symlink(String, String),
    ReadLink(String),
    Metadata(String),
    SymlinkMetadata(String),
    ReadDir(String),
    Exists(String),
    Copy(String, String),
    SetPermissions(String, u32),
    SetModified(String, i64),
    /// Opens a file into a slot, with the options in the bits of the second field.
    Open(usize, u32, String),
    /// Operates on the file in a slot.
    File(usize, FileOp),
}

/// An operation on an open file.
#[derive(Clone, Debug)]
enum FileOp {
    Read(usize),
    Write(Vec<u8>),
    Seek(SeekFrom),
    ReadAt(usize, u64),
    WriteAt(Vec<u8>, u64),
    SetLen(u64),
    SetPermissions(u32),
    Metadata,
    Sync,
    CloneInto(usize),
}

fn name(random: &mut Random) -> &'static str {
    ["a", "b", "c"][random.below(3) as usize]
}

/// Returns a path of one to three names, at times with dots, doubled slashes and a slash
/// at the end. It never leads above the root, because the host's tree continues there.
fn path(random: &mut Random) -> String {
    let mut path = plain(random);
    if random.once_in(12) {
        let dots = *random.pick(&["..", "."][..]);
        let rest = name(random);
        path = match random.once_in(2) {
            true => format!("{}/{dots}/{rest}", name(random)),
            false => format!("{}/{dots}", name(random)),
        };
    }
    if random.once_in(10) {
        path.push('/');
    }
    path
}

fn plain(random: &mut Random) -> String {
    let mut path = name(random).to_owned();
    for _ in 0..random.below(3) {
        path += *random.pick(&["/", "/", "//"][..]);
        path += name(random);
    }
    path
}

fn bytes(random: &mut Random) -> Vec<u8> {
    let longest = *random.pick(&[1, 100, 10_000][..]);
    let length = random.below(longest + 1) as usize;
    vec![b'0' + random.below(10) as u8; length]
}

fn mode(random: &mut Random) -> u32 {
    0o600 | random.below(0o200) as u32
}

fn draw(random: &mut Random) -> Op {
    match random.below(30) {
        0 => Op::Read(path(random)),
        1 | 2 => Op::Write(path(random), bytes(random)),
        3..=5 => Op::CreateDir(path(random)),
        6 => Op::CreateDirAll(path(random)),
        7 => Op::RemoveFile(path(random)),
        8 => Op::RemoveDir(path(random)),
        9 if random.once_in(3) => Op::RemoveDirAll(plain(random)),
        9 => Op::Exists(path(random)),
        10 | 11 => Op::Rename(path(random), path(random)),
        12 => Op::HardLink(path(random), path(random)),
        13 => Op::Symlink(plain(random), path(random)),
        14 => Op::ReadLink(path(random)),
        15 => Op::Metadata(path(random)),
        16 => Op::SymlinkMetadata(path(random)),
        17 => Op::ReadDir(path(random)),
        18 => Op::Copy(path(random), path(random)),
        19 => Op::SetPermissions(path(random), 0o700 | mode(random)),
        20 => Op::SetModified(path(random), random.below(2000) as i64 - 1000),
        21..=23 => Op::Open(slot(random), random.below(64) as u32, path(random)),
        _ => Op::File(slot(random), draw_file_op(random)),
    }
}

fn slot(random: &mut Random) -> usize {
    random.below(SLOTS as u64) as usize
}

fn draw_file_op(random: &mut Random) -> FileOp {
    let offset = random.below(50_000);
    let by = offset as i64 - 25_000;
    match random.below(12) {
        0 | 1 => FileOp::Read(random.below(20_000) as usize),
        2 | 3 => FileOp::Write(bytes(random)),
        4 => FileOp::Seek(match random.below(3) {
            0 => SeekFrom::Start(offset),
            1 => SeekFrom::Current(by),
            _ => SeekFrom::End(by),
        }),
        5 => FileOp::ReadAt(random.below(20_000) as usize, offset),
        6 => FileOp::WriteAt(bytes(random), offset),
        7 => FileOp::SetLen(offset),
        8 => FileOp::SetPermissions(mode(random)),
        9 => FileOp::Metadata,
        10 => FileOp::Sync,
        _ => FileOp::CloneInto(slot(random)),
    }
}

fn told<T>(result: Result<T, impl Into<io::Error>>, tell: impl FnOnce(T) -> String) -> Answer {
    result.map(tell).map_err(|error| error.into().kind())
}

fn done<T>(result: Result<T, impl Into<io::Error>>) -> Answer {
    told(result, |_| String::new())
}

fn describe(metadata: &impl MetadataExt) -> String {
    let is_dir = metadata.mode() & 0o170000 == 0o040000;
    let size = if is_dir { 0 } else { metadata.size() };
    format!(
        "{:o} {} links, {size} bytes",
        metadata.mode(),
        metadata.nlink()
    )
}

/// An open file of the host or of the volume.
trait Opened: FileExt + Sized {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;
    fn write(&self, data: &[u8]) -> io::Result<usize>;
    fn seek(&self, to: SeekFrom) -> io::Result<u64>;
    fn set_len(&self, size: u64) -> io::Result<()>;
    fn set_mode(&self, mode: u32) -> io::Result<()>;
    fn describe(&self) -> io::Result<String>;
    fn sync_all(&self) -> io::Result<()>;
    fn try_clone(&self) -> io::Result<Self>;
}

/// Implements [`Opened`] for both types of files.
macro_rules! opened {
    ($file:ty) => {
        impl Opened for $file {
            fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
                Read::read(&mut { self }, buffer)
            }
            fn write(&self, data: &[u8]) -> io::Result<usize> {
                Write::write(&mut { self }, data)
            }
            fn seek(&self, to: SeekFrom) -> io::Result<u64> {
                Seek::seek(&mut { self }, to)
            }
            fn set_len(&self, size: u64) -> io::Result<()> {
                self.set_len(size).map_err(Into::into)
            }
            fn set_mode(&self, mode: u32) -> io::Result<()> {
                let permissions = Permissions::from_mode(mode);
                self.set_permissions(permissions).map_err(Into::into)
            }
            fn describe(&self) -> io::Result<String> {
                Ok(describe(&self.metadata()?))
            }
            fn sync_all(&self) -> io::Result<()> {
                self.sync_all().map_err(Into::into)
            }
            fn try_clone(&self) -> io::Result<Self> {
                self.try_clone().map_err(Into::into)
            }
        }
    };
}
opened!(fs::File);
opened!(varve::File);

/// Runs an operation on the file in a slot. `None` if there is nothing to compare.
fn on_file<F: Opened>(slots: &mut [Option<F>], slot: usize, op: &FileOp) -> Option<Answer> {
    let file = slots[slot].as_ref()?;
    let text = |buffer: &[u8], read: usize| format!("{:?}", &buffer[..read]);
    Some(match op {
        FileOp::Read(length) => {
            let mut buffer = vec![0; *length];
            let read = file.read(&mut buffer);
            told(read, |read| text(&buffer, read))
        }
        FileOp::ReadAt(length, offset) => {
            let mut buffer = vec![0; *length];
            let read = file.read_at(&mut buffer, *offset);
            told(read, |read| text(&buffer, read))
        }
        FileOp::Write(data) => told(file.write(data), |n| n.to_string()),
        FileOp::WriteAt(data, offset) => told(file.write_at(data, *offset), |n| n.to_string()),
        // Hosts differ in the valid positions of a directory.
        FileOp::Seek(_) if file.describe().is_ok_and(|told| told.starts_with("40")) => return None,
        FileOp::Seek(to) => told(file.seek(*to), |at| at.to_string()),
        FileOp::SetLen(size) => done(file.set_len(*size)),
        FileOp::SetPermissions(mode) => done(file.set_mode(*mode)),
        FileOp::Metadata => told(file.describe(), |told| told),
        FileOp::Sync => done(file.sync_all()),
        FileOp::CloneInto(other) => {
            let cloned = file.try_clone();
            let answer = done(cloned.as_ref().map_err(|error| error.kind()));
            slots[*other] = cloned.ok();
            answer
        }
    })
}

struct Host {
    root: PathBuf,
    slots: [Option<fs::File>; SLOTS],
}

impl Host {
    fn at(&self, path: &str) -> PathBuf {
        // `Path::join` would normalise the path.
        PathBuf::from(format!("{}/{path}", self.root.display()))
    }

    fn run(&mut self, op: &Op) -> Option<Answer> {
        let at = |path: &str| self.at(path);
        Some(match op {
            Op::Read(path) => told(fs::read(at(path)), |text| format!("{text:?}")),
            Op::Write(path, data) => done(fs::write(at(path), data)),
            Op::CreateDir(path) => done(fs::create_dir(at(path))),
            Op::CreateDirAll(path) => done(fs::create_dir_all(at(path))),
            Op::RemoveFile(path) => done(fs::remove_file(at(path))),
            Op::RemoveDir(path) => done(fs::remove_dir(at(path))),
            Op::RemoveDirAll(path) => done(fs::remove_dir_all(at(path))),
            Op::Rename(from, to) => done(fs::rename(at(from), at(to))),
            Op::HardLink(from, to) => done(fs::hard_link(at(from), at(to))),
            Op::Symlink(target, link) => done(std::os::unix::fs::symlink(target, at(link))),
            Op::ReadLink(path) => told(fs::read_link(at(path)), |to| to.display().to_string()),
            Op::Metadata(path) => told(fs::metadata(at(path)), |m| describe(&m)),
            Op::SymlinkMetadata(path) => told(fs::symlink_metadata(at(path)), |m| describe(&m)),
            Op::ReadDir(path) => told(fs::read_dir(at(path)), |list| {
                let one = |entry: io::Result<fs::DirEntry>| {
                    let entry = entry.unwrap();
                    (entry.file_name(), describe(&entry.metadata().unwrap()))
                };
                listed(list.map(one))
            }),
            Op::Exists(path) => told(fs::exists(at(path)), |yes| yes.to_string()),
            Op::Copy(from, to) => told(fs::copy(at(from), at(to)), |n| n.to_string()),
            Op::SetPermissions(path, mode) => {
                done(fs::set_permissions(at(path), Permissions::from_mode(*mode)))
            }
            Op::SetModified(path, seconds) => {
                let path = at(path);
                let set = fs::File::open(&path).and_then(|file| file.set_modified(when(*seconds)));
                told(set, |()| {
                    format!("{:?}", fs::metadata(&path).unwrap().modified())
                })
            }
            Op::Open(slot, bits, path) => {
                let mut options = fs::OpenOptions::new();
                let bit = |n: u32| bits >> n & 1 == 1;
                options
                    .read(bit(0))
                    .write(bit(1))
                    .append(bit(2))
                    .mode(0o640);
                options.truncate(bit(3)).create(bit(4)).create_new(bit(5));
                let opened = options.open(at(path));
                let answer = done(opened.as_ref().map_err(|error| error.kind()));
                self.slots[*slot] = opened.ok();
                answer
            }
            Op::File(slot, op) => return on_file(&mut self.slots, *slot, op),
        })
    }

    /// Returns the identity of the file to which a path leads.
    fn identity(&self, path: &str) -> Option<(u64, u64)> {
        let metadata = fs::metadata(self.at(path)).ok()?;
        Some((metadata.dev(), metadata.ino()))
    }
}

struct Ours {
    volume: Volume,
    slots: [Option<varve::File>; SLOTS],
}

impl Ours {
    fn run(&mut self, op: &Op) -> Option<Answer> {
        let v = &self.volume;
        Some(match op {
            Op::Read(path) => told(v.read(path), |text| format!("{text:?}")),
            Op::Write(path, data) => done(v.write(path, data)),
            Op::CreateDir(path) => done(v.create_dir(path)),
            Op::CreateDirAll(path) => done(v.create_dir_all(path)),
            Op::RemoveFile(path) => done(v.remove_file(path)),
            Op::RemoveDir(path) => done(v.remove_dir(path)),
            Op::RemoveDirAll(path) => done(v.remove_dir_all(path)),
            Op::Rename(from, to) => done(v.rename(from, to)),
            Op::HardLink(from, to) => done(v.hard_link(from, to)),
            Op::Symlink(target, link) => done(v.symlink(target, link)),
            Op::ReadLink(path) => told(v.read_link(path), |to| to.display().to_string()),
            Op::Metadata(path) => told(v.metadata(path), |m| describe(&m)),
            Op::SymlinkMetadata(path) => told(v.symlink_metadata(path), |m| describe(&m)),
            Op::ReadDir(path) => told(v.read_dir(path), |list| {
                let one = |entry: varve::Result<varve::DirEntry>| {
                    let entry = entry.unwrap();
                    (entry.file_name(), describe(&entry.metadata().unwrap()))
                };
                listed(list.map(one))
            }),
            Op::Exists(path) => told(v.exists(path), |yes| yes.to_string()),
            Op::Copy(from, to) => told(v.copy(from, to), |n| n.to_string()),
            Op::SetPermissions(path, mode) => {
                done(v.set_permissions(path, Permissions::from_mode(*mode)))
            }
            Op::SetModified(path, seconds) => {
                let set = v.set_times(path, FileTimes::new().set_modified(when(*seconds)));
                told(set, |()| {
                    let modified = v.metadata(path).unwrap().modified();
                    format!("{:?}", modified.map_err(io::Error::from))
                })
            }
            Op::Open(slot, bits, path) => {
                let mut options = varve::OpenOptions::new();
                let bit = |n: u32| bits >> n & 1 == 1;
                options
                    .read(bit(0))
                    .write(bit(1))
                    .append(bit(2))
                    .mode(0o640);
                options.truncate(bit(3)).create(bit(4)).create_new(bit(5));
                let opened = options.open(v, path);
                let answer = done(opened.as_ref().map_err(|error| error.kind()));
                self.slots[*slot] = opened.ok();
                answer
            }
            Op::File(slot, op) => return on_file(&mut self.slots, *slot, op),
        })
    }
}

fn when(seconds: i64) -> SystemTime {
    let by = Duration::new(seconds.unsigned_abs(), 250_000_000);
    match seconds < 0 {
        true => SystemTime::UNIX_EPOCH - by,
        false => SystemTime::UNIX_EPOCH + by,
    }
}

fn listed(list: impl Iterator<Item = (std::ffi::OsString, String)>) -> String {
    let mut list: Vec<_> = list.collect();
    list.sort();
    format!("{list:?}")
}

/// Lists the tree of the host's directory in the form in which [`tree`] lists a volume.
fn host_tree(root: &Path, below: &Path, into: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        let path = below.join(entry.file_name());
        let content = metadata.is_file().then(|| fs::read(entry.path()).unwrap());
        into.push(format!("{path:?} {} {content:?}", describe(&metadata)));
        if metadata.is_dir() {
            host_tree(root, &path, into);
        }
    }
}

fn tree(volume: &Volume) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for entry in volume.walk("/").unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        let path = entry.path();
        let content = metadata.is_file().then(|| volume.read(&path).unwrap());
        let path = path.strip_prefix("/").unwrap();
        all.push(format!("{path:?} {} {content:?}", describe(&metadata)));
    }
    all.sort();
    all
}

fn run(seed: u64, layout: Layout) {
    let memory = Path::new("/dev/shm");
    let scratch = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    let scratch = scratch.unwrap();
    let root = scratch.path().join("root");
    fs::create_dir(&root).unwrap();
    let umask = 0o777 & !fs::metadata(&root).unwrap().mode();
    let image = scratch.path().join("image");
    let mut options = VolumeOptions::new();
    options.size(64 << 20).layout(layout).umask(umask);
    let mut ours = Ours {
        volume: options.background(false).create(&image).unwrap(),
        slots: Default::default(),
    };
    let mut host = Host {
        root: root.clone(),
        slots: Default::default(),
    };
    let mut random = Random::new(seed);
    for step in 0..scaled(STEPS) {
        let op = draw(&mut random);
        if let Op::Copy(from, to) = &op
            && host.identity(from).is_some()
            && host.identity(from) == host.identity(to)
        {
            continue;
        }
        let (theirs, mine) = (host.run(&op), ours.run(&op));
        assert_eq!(theirs, mine, "std, then varve; step {step}: {op:?}");
    }
    let mut theirs = Vec::new();
    host_tree(&root, Path::new(""), &mut theirs);
    theirs.sort();
    assert_eq!(theirs, tree(&ours.volume));
    ours.slots = Default::default();
    assert_eq!(ours.volume.close().unwrap(), 0);
    assert_eq!(theirs, tree(&Volume::open(&image).unwrap()));
}

#[test]
fn a_volume_answers_as_std_does() {
    let seed = std::env::var("VARVE_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    eprintln!("reproduce: VARVE_SEED={seed} cargo test -p varve --test std_parity");
    for round in 0..6 {
        run(seed + round, Layout::Log);
        run(seed + round, Layout::VirtualLog);
        run(seed + round, Layout::InPlace);
    }
}
