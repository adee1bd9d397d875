//! `varve mount -o snapshot=NAME` of a volume that is mounted: the command mounts a
//! device, and the server of the volume serves it from the snapshot.
//!
//! The ioctl question is `{"snapshots": {"mounts": true}}`. At that socket the client sends
//! the descriptor of the mounted `/dev/fuse` and a line, `{"mount": NAME, "device":
//! "0:52"}`; the answer is `{"mounted": NAME}` or `{"refused": "..."}`. The mount ends with
//! that of the volume.

use crate::cli::mount_table::{self, Entry};
use crate::cli::txn_server::{hear, refuse, say};
use serde_json::{Value, json};
use std::io::{self, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use varve_fs::{FileSystem, SnapshotTree};
use varve_fuse::{IoctlRequest, MountOptions, Session};
use varve_lfs::Lfs;

/// What commands that ask for more than files hear of such a mount.
const NO_ANSWERS: &str = "this mount shows a snapshot; ask the mount of the volume itself";

/// Serves one mount until it is unmounted.
pub(super) fn serve(fs: &Arc<FileSystem<Lfs>>, mut connection: UnixStream) -> io::Result<()> {
    let device = varve_fuse::handover::receive(&connection)?;
    let asked = hear(&mut BufReader::new(connection.try_clone()?))?;
    let (Some(device), Some(asked)) = (device, asked) else {
        return Ok(());
    };
    let name = asked["mount"].as_str().unwrap_or_default();
    let number = asked["device"].as_str().unwrap_or_default();
    let is_number = number.bytes().all(|c| c.is_ascii_digit() || c == b':');
    let opened = match is_number {
        true => open(fs, name),
        false => Err("no device number".to_owned()),
    };
    let begun = opened.and_then(|snapshot| {
        let tree = Arc::clone(snapshot.tree());
        let session = Session::on(tree, device, number, options_of_snapshot());
        let session = session.map_err(|error| format!("it cannot be served: {error}"))?;
        Ok((snapshot, session))
    });
    match begun {
        Err(why) => say(&mut connection, &json!({ "refused": why })),
        Ok((snapshot, session)) => {
            say(&mut connection, &json!({ "mounted": name }))?;
            drop(connection);
            let served = session.serve().map(drop);
            drop(snapshot);
            served
        }
    }
}

/// The snapshot with this name.
///
/// # Errors
/// Says why it cannot be read.
pub fn open(fs: &Arc<FileSystem<Lfs>>, name: &str) -> Result<SnapshotTree<Lfs>, String> {
    let found = fs.snapshot_named(name);
    let found = found.map_err(|error| format!("`{name}`: {error}"))?;
    fs.at(found.number).map_err(|error| error.to_string())
}

/// How a snapshot is served.
fn options_of_snapshot() -> MountOptions {
    answering_nothing(MountOptions {
        read_only: true,
        ..MountOptions::default()
    })
}

/// These options for a mount whose root answers no command and has no snapshots.
pub fn answering_nothing(options: MountOptions) -> MountOptions {
    MountOptions {
        snapshot_directory: false,
        ioctl: Some(Arc::new(|request: &IoctlRequest<'_>| {
            refuse(request, NO_ANSWERS)
        })),
        ..options
    }
}

/// Mounts a snapshot of a mounted volume on `directory`.
///
/// # Errors
/// Says why not; then nothing is mounted.
pub fn mount(
    volume: &Entry,
    directory: &Path,
    name: &str,
    options: &MountOptions,
) -> Result<(), String> {
    let mut connection = super::place::connect(&volume.directory, "mounts")?;
    let options = MountOptions {
        source: volume.source.clone().into(),
        read_only: true,
        ..options.clone()
    };
    let device = varve_fuse::mount_device(directory, &options).map_err(|error| {
        format!("the snapshot of a mounted volume is mounted by mount(2), as root: {error}")
    })?;
    let answer = || -> io::Result<Value> {
        let entry = mount_table::mount_at(directory);
        let number = entry.map(|entry| format!("{}:{}", entry.major, entry.minor));
        varve_fuse::handover::send(&connection, &device)?;
        drop(device);
        say(&mut connection, &json!({"mount": name, "device": number}))?;
        let answer = hear(&mut BufReader::new(&connection))?;
        answer.ok_or_else(|| io::Error::other("it ended"))
    };
    let refused = match { answer }() {
        Ok(answer) => match answer["refused"].as_str() {
            Some(why) => why.to_owned(),
            None => return Ok(()),
        },
        Err(error) => format!("the connection to the server: {error}"),
    };
    let flags = rustix::mount::UnmountFlags::DETACH | rustix::mount::UnmountFlags::NOFOLLOW;
    let unmounted = rustix::mount::unmount(directory, flags);
    match unmounted {
        Ok(()) => Err(refused),
        Err(error) => Err(format!(
            "{refused}; {} could not be unmounted: {error}",
            directory.display()
        )),
    }
}
