//! `varve txn` and the rest of the host: other users.
//!
//! Without /dev/fuse everything is skipped loudly, but fails in CI.

mod support;

use std::fs;
use std::io::Read;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use support::mounted::{Mount, lacks, no_fuse};
use support::varve;

/// Connections of an ordinary user: more than threads and places that a server has.
const MANY: usize = 600;

/// The abstract socket of the server's part that the question names.
fn socket(mount: &Mount, part: &str) -> String {
    let question = serde_json::json!({ part: {"socket": true} }).to_string();
    let answer = varve_fuse::ask(Path::new(&mount.dir), &question).unwrap();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    answer["socket"].as_str().unwrap().to_owned()
}

fn threads_of(server: &str) -> usize {
    fs::read_dir(format!("/proc/{server}/task"))
        .unwrap()
        .count()
}

/// Connects many times as another user, and keeps the connections until the sender is
/// dropped. Answers how many the server has closed without a word.
fn crowd(name: &str) -> (usize, Sender<()>) {
    let (counted, count) = channel();
    let (leave, stay) = channel::<()>();
    let address = SocketAddr::from_abstract_name(name).unwrap();
    std::thread::spawn(move || {
        // The user of this thread only.
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534)).unwrap();
        let connect = || UnixStream::connect_addr(&address).unwrap();
        let connections: Vec<UnixStream> = std::iter::repeat_with(connect).take(MANY).collect();
        let closed = connections.iter().filter(|connection| {
            let patience = Some(Duration::from_secs(5));
            connection.set_read_timeout(patience).unwrap();
            (&mut &**connection)
                .read_to_end(&mut Vec::new())
                .is_ok_and(|bytes| bytes == 0)
        });
        counted.send(closed.count()).unwrap();
        let _ = stay.recv();
    });
    (count.recv().unwrap(), leave)
}

#[test]
fn an_ordinary_user_keeps_nobody_from_transactions_and_streams() {
    let is_root = rustix::process::geteuid().is_root();
    if no_fuse() || lacks("root, to be another user", is_root) {
        return;
    }
    let mount = Mount::new("64M");
    mount.umount();
    let position = varve(["replay", &mount.image, "--position", "--json"]);
    let position = position.expect(0, "").json();
    let since = position["mark"].as_str().unwrap();
    mount.mount();
    let names = ["transactions", "ship"].map(|part| socket(&mount, part));
    let server = mount.server();
    let before = threads_of(&server);
    let crowds = names.map(|name| crowd(&name));
    for (closed, _) in &crowds {
        assert_eq!(*closed, MANY);
    }
    let now = threads_of(&server);
    assert!(now < before + 8, "{before} threads before, {now} now");
    varve([
        "txn",
        "run",
        &mount.dir,
        "--",
        "touch",
        &mount.path("new").to_string_lossy(),
    ])
    .expect(0, "");
    assert!(mount.path("new").exists());
    let stream = mount.scratch.text("stream");
    varve(["ship", &mount.dir, "--since", since, "--to", &stream]).expect(0, "groups");
    drop(crowds);
    mount.finish();
}
