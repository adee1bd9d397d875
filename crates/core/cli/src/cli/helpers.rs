//! The names by which mount(8), fsck(8), mkfs(8) and umount(8) call this program, and
//! their arguments: `mount.varve img dir -o ro` is `varve mount -o ro -- img dir`.
//!
//! Their conventions differ from those of `varve`: for mount(8), `-f` means that nothing
//! is mounted; mkfs(8) gives a size in blocks of 1024 bytes after the device; fsck(8)
//! gives `-C` the number of a descriptor.

use super::fsck::Fsck;
use super::mkfs::Mkfs;
use super::{Cli, Command, size};
use clap::{CommandFactory, Parser};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Mount a Varve volume, for mount(8) and fstab(5).
///
/// mount(8) calls this for `mount -t varve VOLUME DIRECTORY` and for lines of /etc/fstab
/// with the type varve. The volume is a block device or an image file. The mount has the
/// type fuse.varve.
#[derive(Parser)]
#[command(name = "mount.varve", version)]
pub struct MountHelper {
    /// The image file or block device.
    volume: PathBuf,
    /// The directory on which to mount it.
    directory: PathBuf,
    /// Options, as in varve-mount(1), separated by commas.
    #[arg(short, value_name = "OPTIONS")]
    options: Vec<OsString>,
    /// Fake: check the options and the directory, and mount nothing.
    #[arg(short)]
    fake: bool,
    /// Sloppy: ignore unknown options.
    #[arg(short)]
    sloppy: bool,
    /// Accepted without effect, as there is no table of mounts to update.
    #[arg(short)]
    no_table: bool,
    /// Accepted without effect.
    #[arg(short)]
    verbose: bool,
    /// Mount in this mount namespace: the number of a process in it, or a file that names
    /// it. The volume is opened in the caller's.
    #[arg(short = 'N', value_name = "NAMESPACE")]
    namespace: Option<OsString>,
    /// The type, which is varve.
    #[arg(short = 't', value_name = "TYPE")]
    kind: Option<String>,
}

/// Check a Varve volume that is not mounted, for fsck(8) and the boot.
///
/// fsck(8) calls this for `fsck -t varve VOLUME` and for lines of /etc/fstab
/// whose sixth field is not 0. A log needs no check after a crash: mounting
/// recovers it.
#[derive(Parser)]
#[command(name = "fsck.varve", version)]
pub struct FsckHelper {
    #[command(flatten)]
    fsck: Fsck,
    /// Accepted: progress is shown only on terminals.
    #[arg(short = 'C', value_name = "DESCRIPTOR", num_args = 0..=1, require_equals = true)]
    progress: Option<Option<i32>>,
    /// Accepted without effect.
    #[arg(short, hide = true)]
    verbose: bool,
}

/// Make a Varve volume, for mkfs(8).
///
/// mkfs(8) calls this for `mkfs -t varve VOLUME [BLOCKS]`.
#[derive(Parser)]
#[command(name = "mkfs.varve", version)]
pub struct MkfsHelper {
    #[command(flatten)]
    mkfs: Mkfs,
    /// The size of a new image file: a number of blocks of 1024 bytes, or with a unit,
    /// such as 64M.
    #[arg(value_name = "BLOCKS", conflicts_with = "size", value_parser = blocks)]
    blocks: Option<u64>,
    /// Accepted without effect.
    #[arg(short, hide = true)]
    verbose: bool,
}

/// The helpers' command lines, for manual pages.
pub fn commands() -> [clap::Command; 3] {
    [
        MountHelper::command(),
        FsckHelper::command(),
        MkfsHelper::command(),
    ]
}

/// Parses the command line under any of the program's names: returns the command, and the
/// equivalent words of `varve`.
///
/// An existing mount has the type `fuse.varve`, so for a remount mount(8) searches for
/// `mount.fuse.varve`, then for `mount.fuse`, which calls `varve VOLUME DIR -o ...`, with
/// absolute paths.
///
/// # Errors
/// Those of the parser, with the exit code for wrong usage.
pub fn parse(words: Vec<OsString>) -> Result<(Command, Vec<OsString>), (clap::Error, u8)> {
    let called = words.first().map(Path::new).and_then(Path::file_name);
    let helper = called
        .and_then(OsStr::to_str)
        .and_then(|name| name.strip_suffix(".varve"))
        .map(|name| name.strip_suffix(".fuse").unwrap_or(name));
    let is_path = |word: &OsString| Path::new(word).is_absolute();
    match helper {
        Some("mount") => own(mount(&words).map_err(|error| (error, 1))?),
        Some("fsck") => {
            let helper = FsckHelper::try_parse_from(joined(&words));
            let helper = helper.map_err(|error| (error, 16))?;
            Ok((Command::Fsck(helper.fsck), words))
        }
        Some("mkfs") => {
            let helper = MkfsHelper::try_parse_from(&words).map_err(|error| (error, 2))?;
            Ok((Command::Mkfs(helper.mkfs.sized(helper.blocks)), words))
        }
        Some(other) => {
            let own_words: &[&str] = match other {
                "umount" => &["umount", "--helper"],
                _ => &[other],
            };
            let mut words = words.clone();
            words.splice(1..1, own_words.iter().map(OsString::from));
            own(words)
        }
        None if words.get(1).is_some_and(is_path) => {
            own(mount(&words).map_err(|error| (error, 1))?)
        }
        None => own(words),
    }
}

fn own(words: Vec<OsString>) -> Result<(Command, Vec<OsString>), (clap::Error, u8)> {
    let usage = match words.get(1).and_then(|name| name.to_str()) {
        Some("fsck" | "scrub") => 16,
        Some("mount" | "umount") => 1,
        _ => 2,
    };
    let cli = Cli::try_parse_from(&words).map_err(|error| (error, usage))?;
    Ok((cli.command, words))
}

/// The words for `varve mount`, with which its server is started.
fn mount(words: &[OsString]) -> Result<Vec<OsString>, clap::Error> {
    let helper = MountHelper::try_parse_from(words)?;
    let mut own: Vec<OsString> = vec![words[0].clone(), "mount".into()];
    for list in helper.options {
        own.extend(["-o".into(), list]);
    }
    let flags = [(helper.fake, "--fake"), (helper.sloppy, "--sloppy")];
    let flags = flags.iter().filter(|(on, _)| *on);
    own.extend(flags.map(|(_, flag)| flag.into()));
    if let Some(namespace) = helper.namespace {
        own.extend(["--namespace".into(), namespace]);
    }
    own.extend(["--".into(), helper.volume.into(), helper.directory.into()]);
    Ok(own)
}

/// Joins the number of `-C` to the option, with an equals sign.
fn joined(words: &[OsString]) -> Vec<OsString> {
    let number = |word: &OsString| word.to_str()?.parse::<i32>().ok();
    let mut joined = Vec::new();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let behind = word.to_str().and_then(|word| word.strip_prefix("-C"));
        let descriptor = match behind {
            Some("") => rest.next_if(|next| number(next).is_some()).and_then(number),
            Some(behind) => number(&behind.into()),
            None => None,
        };
        joined.push(match descriptor {
            Some(descriptor) => format!("-C={descriptor}").into(),
            None => word.clone(),
        });
    }
    joined
}

/// A size in the notation of mkfs(8).
fn blocks(text: &str) -> Result<u64, String> {
    match text.bytes().all(|c| c.is_ascii_digit()) {
        true => size::parse(&format!("{text}K")),
        false => size::parse(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn helpers_are_called_by_the_conventions_of_their_callers() {
        for (line, wanted) in [
            ("mount.varve i d", "mount -- i d"),
            ("/sbin/mount.varve i d -o ro,x", "mount -o ro,x -- i d"),
            (
                "mount.varve i d -s -f -n -v",
                "mount --fake --sloppy -- i d",
            ),
            ("mount.varve i d -sfnv", "mount --fake --sloppy -- i d"),
            (
                "mount.varve i d -N 7 -t fuse.varve",
                "mount --namespace 7 -- i d",
            ),
            (
                "mount.fuse.varve i d -o remount,ro",
                "mount -o remount,ro -- i d",
            ),
            ("varve /i /d -o ro -n", "mount -o ro -- /i /d"),
            ("umount.varve d -n", "umount --helper d -n"),
            (
                "umount.fuse.varve d -l -N 7 -t fuse.varve",
                "umount --helper d -l -N 7 -t fuse.varve",
            ),
        ] {
            let (_, own) = parse(words(line)).unwrap_or_else(|(error, _)| panic!("{error}"));
            assert_eq!(own[1..], words(wanted), "{line}");
        }
        for (line, code) in [
            ("mount.varve i", 1),
            ("mount.varve i d -z", 1),
            ("varve /i /d -z", 1),
            ("fsck.varve", 16),
            ("fsck.varve -z i", 16),
            ("fsck.varve -a -y i", 16),
            ("fsck.varve -n -y i", 16),
            ("mkfs.varve", 2),
            ("mkfs.varve i 10Q", 2),
            ("mkfs.varve --size 1M i 10", 2),
            ("varve frobnicate", 2),
        ] {
            let refused = parse(words(line)).map(|_| ()).unwrap_err().1;
            assert_eq!(refused, code, "{line}");
        }
        for line in [
            "fsck.varve -a -C0 i",
            "fsck.varve -C 5 -f -a i",
            "fsck.varve -C i",
            "fsck.varve -p -v i",
            "fsck.varve -y -C-1 i",
            "fsck.varve -n i",
            "mkfs.varve -v i",
            "mkfs.varve i 65536",
            "mkfs.varve -L label i 64M",
        ] {
            let known = parse(words(line));
            assert!(known.is_ok(), "{line}");
        }
        assert_eq!(blocks("65536"), Ok(64 << 20));
        assert_eq!(blocks("64M"), Ok(64 << 20));
    }
}
