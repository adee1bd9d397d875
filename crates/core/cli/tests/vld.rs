//! Virtual log disks served to real clients: their commands, their bytes, and an ext4
//! that survives its server.

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use support::nbd::{Serving, lack};
use support::{Scratch, shell, varve};

fn disk(scratch: &Scratch, size: &str) -> String {
    let image = scratch.text("image");
    varve(["vld", "create", &image, "--size", size]).expect(0, "a virtual log disk of");
    image
}

#[test]
fn a_disk_is_made_once_and_described() {
    let s = Scratch::new();
    let image = disk(&s, "32M");
    varve(["vld", "create", &image]).expect(1, "holds a virtual log disk; to overwrite it");
    varve(["mkfs", &image]).expect(1, "holds a virtual log disk");
    varve(["vld", "create", &image, "--size", "64M", "--force"]).expect(1, "exists already");
    let made = varve([
        "vld",
        "create",
        &image,
        "--force",
        "--json",
        "--logical-size",
        "20M",
    ]);
    assert_eq!(made.expect(0, "").json()["bytes"], 20 << 20);
    let info = varve(["vld", "info", &image, "--json"])
        .expect(0, "")
        .json();
    assert_eq!(
        (&info["bytes"], &info["block_bytes"]),
        (&(20 << 20).into(), &4096.into())
    );
    assert_eq!(info["statistics"]["blocks_mapped"], 0);
    varve(["vld", "info", &image]).expect(0, "in use");

    let new = s.text("new");
    varve(["vld", "create", &new]).expect(1, "give a size");
    varve(["vld", "create", &new, "--size", "8K"]).expect(1, "");
    varve([
        "vld",
        "create",
        &new,
        "--size",
        "1M",
        "--block-size",
        "3000",
    ])
    .expect(1, "");
    assert!(!fs::exists(&new).unwrap(), "what failed is not left behind");
    let create = ["vld", "create", &new, "--size", "1M", "--anywhere"];
    let smallest = info["unit_bytes"].to_string();
    varve([&create[..], &["--block-size", &smallest]].concat()).expect(1, "larger blocks");
    varve(["vld", "create", &new, "--disk", "floppy"]).expect(2, "st19101");
    varve(["vld", "info", &new]).expect(1, "No such file");
    fs::write(&new, vec![b'x'; 1 << 20]).unwrap();
    varve(["vld", "info", &new]).expect(1, "no virtual log disk");
    varve(["vld", "serve", &new]).expect(1, "no virtual log disk");
    varve(["vld", "serve"]).expect(2, "IMAGE");
    varve(["vld", "serve", &image, "--real-time"]).expect(2, "--disk");
    varve(["vld", "serve", "--memory", "1M", "--anywhere"]).expect(2, "--disk");
    varve(["vld", "serve", &image, "--listen", "nowhere"]).expect(2, "an address or a port");
    let giant = ["vld", "serve", "--memory", "16000000T", "--listen", "0"];
    varve(giant).expect(1, "cannot have");
    let file = s.text("file");
    fs::write(&file, "mine").unwrap();
    varve(["vld", "serve", &image, "--unix", &file]).expect(1, "cannot listen at");
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

#[test]
fn a_server_holds_its_image_and_parks_it() {
    let s = Scratch::new();
    let (image, socket) = (disk(&s, "16M"), s.text("nbd"));
    let serving = Serving::new(&[&image, "--unix", &socket]);
    varve(["vld", "serve", &image]).expect(1, "is in use");
    varve(["vld", "create", &image, "--force"]).expect(1, "is in use");
    serving.kill();
    // The dead server's socket is no obstacle.
    let serving = Serving::new(&[&image, "--unix", &socket]);
    let other = s.text("other");
    varve(["vld", "create", &other, "--size", "16M"]).expect(0, "");
    varve(["vld", "serve", &other, "--unix", &socket]).expect(1, "cannot listen at");
    let answer = serving.end().expect(0, "");
    assert_eq!(answer.json()["nbd"]["requests"]["read"], 0);
    assert!(!fs::exists(&socket).unwrap());
    varve(["vld", "info", &image]).expect(0, "parked");
}

/// Even a client that the network has lost.
#[test]
fn a_client_that_breaks_off_is_named_in_the_log() {
    let serving = Serving::new(&["--memory", "1M", "--listen", "0", "--connections", "1"]);
    let uri = serving.uri(0);
    let greeted = || {
        let mut stream = TcpStream::connect(uri.trim_start_matches("nbd://")).unwrap();
        stream.read_exact(&mut [0; 18]).map(|()| stream)
    };
    let mut client = greeted().unwrap();
    let name = client.local_addr().unwrap().to_string();
    client.write_all(&[0, 0]).unwrap();
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    // Another connection is accepted when the first has been closed.
    let begun = Instant::now();
    while greeted().is_err() {
        assert!(begun.elapsed() < Duration::from_secs(100));
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = serving.end().expect(0, "").err;
    assert!(
        said.contains(&format!("{name} cannot be received")),
        "{said}"
    );
}

#[test]
fn qemu_and_libnbd_find_what_they_wrote() {
    if lack(&["qemu-img", "qemu-io", "nbdinfo", "nbdcopy"]) {
        return;
    }
    let s = Scratch::new();
    // A name with characters that are special in a URI.
    let (image, socket, bytes) = (disk(&s, "64M"), s.text("a+b %26&c"), s.text("bytes"));
    // Data, a hole, data; not compressible, and not aligned to large units.
    shell(&format!(
        "head -c 9000448 /dev/urandom >'{bytes}'; truncate -s 24M '{bytes}'; \
         head -c 3M /dev/urandom >>'{bytes}'"
    ));
    let serving = Serving::new(&[&image, "--unix", &socket, "--listen", "0", "--name", "disk"]);
    let (tcp, unix) = (serving.uri(0), serving.uri(1));
    assert!(tcp.starts_with("nbd://127.0.0.1:"), "{tcp}");
    let size = serving.said["bytes"].as_u64().unwrap();
    for uri in [&tcp, &unix] {
        let info = shell(&format!("timeout 60 nbdinfo --json '{uri}'"));
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        assert_eq!(info["protocol"], "newstyle-fixed");
        let export = &info["exports"][0];
        assert_eq!(export["export-size"], size);
        for able in [
            "can_multi_conn",
            "can_flush",
            "can_fua",
            "can_trim",
            "can_zero",
            "can_fast_zero",
            "can_df",
        ] {
            assert_eq!(export[able], true, "{able}");
        }
        assert_eq!(export["is_read_only"], false);
        assert_eq!(export["block_size_minimum"], 512);
        assert_eq!(export["block_size_preferred"], 4096);
    }
    let listed = shell(&format!("timeout 60 nbdinfo --list '{tcp}'"));
    assert!(listed.contains("export=\"disk\""), "{listed}");
    let map = shell(&format!("timeout 60 nbdinfo --map '{unix}'"));
    assert!(
        map.contains("hole,zero") && map.lines().count() == 1,
        "{map}"
    );

    // Written over four connections, read over the network; holes remain holes.
    shell(&format!(
        "timeout 100 nbdcopy --connections=4 --flush '{bytes}' '{unix}'"
    ));
    let map = shell(&format!("timeout 60 nbdinfo --map '{unix}'"));
    assert!(map.contains("hole,zero") && map.contains("data"), "{map}");
    let back = s.text("back");
    shell(&format!(
        "timeout 100 nbdcopy '{tcp}' '{back}'; cmp -n \"$(stat -c %s '{bytes}')\" '{bytes}' '{back}'"
    ));
    // qemu: compares, converts, and writes with each of its methods.
    shell(&format!(
        "timeout 100 qemu-img convert -f raw -O qcow2 '{unix}' '{back}.qcow2'; \
         timeout 100 qemu-img compare -f raw -F qcow2 '{unix}' '{back}.qcow2'; \
         timeout 100 qemu-img convert -n -f raw -O raw '{bytes}' '{tcp}'; \
         timeout 100 qemu-img compare -f raw -F raw '{bytes}' '{tcp}'"
    ));
    let written = shell(&format!(
        "timeout 100 qemu-io -f raw -c 'write -P 1 30M 1M' -c 'write -f -P 2 30720k 512' \
         -c 'write -z -u 31000k 64k' -c 'write -z 31200k 512' -c 'discard 31232k 128k' \
         -c 'flush' -c 'aio_write -P 3 32M 2M' -c 'aio_flush' -c 'read -P 2 30720k 512' \
         -c 'read -P 0 31000k 64k' -c 'read -P 0 31200k 512' -c 'read -P 3 32M 2M' '{tcp}' 2>&1"
    ));
    let broken = ["failed", "rror", "verification"];
    assert!(
        !broken.iter().any(|word| written.contains(word)),
        "{written}"
    );
    let answer = serving.end().expect(0, "");
    assert_eq!(answer.err, "", "nothing to complain about");
    let counters = answer.json();
    assert!(counters["nbd"]["requests"]["block_status"].as_u64() > Some(0));
    assert_eq!(counters["nbd"]["connections_broken"], 0);

    // After a restart all data is as before; a reader may not change it.
    let serving = Serving::new(&[&image, "--unix", &socket, "--read-only"]);
    shell(&format!(
        "cmp -n 31457280 <(timeout 100 nbdcopy '{unix}' -) <(cat '{bytes}' /dev/zero); \
         timeout 60 qemu-io -r -f raw -c 'read -P 3 32M 2M' '{unix}'; \
         ! timeout 60 qemu-io -f raw -c 'write 0 4k' '{unix}' 2>/dev/null"
    ));
    serving.end().expect(0, "");
}

#[test]
fn fio_verifies_what_four_jobs_write() {
    if lack(&["fio"]) {
        return;
    }
    let engine = shell("fio --enghelp | grep -cw nbd || true");
    if support::mounted::lacks("fio with its nbd engine", engine.trim() == "1") {
        return;
    }
    let s = Scratch::new();
    let (image, socket) = (disk(&s, "64M"), s.text("nbd"));
    let fio = |arguments: &[&str], sizes: &str| {
        let serving = Serving::new(&[&["--unix", &socket], arguments].concat());
        let uri = serving.uri(0);
        let said = shell(&format!(
            "cd '{}'; timeout 150 fio --name=v --ioengine=nbd --uri='{uri}' --rw=randwrite \
             --bs={sizes} --iodepth=8 --numjobs=4 --size=8M --offset_increment=10M --fsync=64 \
             --verify=crc32c --do_verify=1 --verify_fatal=1 --group_reporting 2>&1",
            s.text("")
        ));
        assert!(said.contains("err= 0"), "{said}");
        serving.end().expect(0, "").json()
    };
    let counters = fio(&[&image], "4k-64k");
    assert!(
        counters["nbd"]["device_flushes"].as_u64() > Some(0),
        "{counters}"
    );
    // In a drive, where blocks that are overwritten may begin at any sector.
    let anywhere = s.text("anywhere");
    let create = ["vld", "create", &anywhere, "--size", "64M", "--anywhere"];
    let blocks = [&create[..], &["--block-size", "32K"]].concat();
    varve(blocks).expect(0, "a virtual log disk of");
    for sizes in ["4k-64k", "32k", "32k"] {
        fio(&[&anywhere, "--disk", "ST19101", "--synchronous"], sizes);
    }
    let info = varve(["vld", "info", &anywhere, "--json"]);
    let info = info.expect(0, "").json();
    assert_eq!(info["anywhere"], true);
    assert!(info["statistics"]["blocks_astride"].as_u64() > Some(0));
    varve(["vld", "info", &anywhere]).expect(0, "at every");
}

#[test]
fn a_simulated_drive_is_served_at_either_speed() {
    if lack(&["qemu-io"]) {
        return;
    }
    let s = Scratch::new();
    let socket = s.text("nbd");
    let write = |arguments: &[&str]| {
        let all = [&["--unix", &socket, "--disk", "HP97560"], arguments].concat();
        let serving = Serving::new(&all);
        let begun = std::time::Instant::now();
        shell(&format!(
            "timeout 100 qemu-io -f raw -c 'write -f -P 5 1M 4k' -c 'write -f -P 6 9M 4k' \
             -c 'read -P 5 1M 4k' '{}'",
            serving.uri(0)
        ));
        (begun.elapsed(), serving.end().expect(0, "").json())
    };
    // A seek and the rotation of the platter, in the drive's time.
    let (_, plain) = write(&["--memory", "64M", "--plain"]);
    assert!(plain.get("vld").is_none());
    let (_, log) = write(&["--memory", "64M"]);
    assert!(log["drive_time_ns"].as_u64() > Some(1_000_000), "{log}");
    let (took, real) = write(&["--memory", "64M", "--real-time", "--compact"]);
    assert!(real["vld"]["commits"].as_u64() >= Some(2), "{real}");
    assert!(
        took.as_millis() >= 5,
        "two writes and their records take a drive longer"
    );

    let image = s.text("drive");
    varve(["vld", "create", &image, "--disk", "hp97560"]).expect(0, "on 1.");
    write(&[&image]);
    varve(["vld", "info", &image]).expect(0, "parked");
}

/// An unmodified ext4, made and mounted over nbdfuse and a loop device. Its server is
/// killed while it writes; after a restart the journal is replayed, fsck finds nothing,
/// and all synced data exists.
#[test]
fn an_ext4_outlives_its_server() {
    let programs = [
        "nbdfuse",
        "losetup",
        "mkfs.ext4",
        "fsck.ext4",
        "mount",
        "fusermount3",
    ];
    let missing = lack(&programs) || support::mounted::no_fuse();
    let root = support::mounted::lacks("root", rustix::process::geteuid().is_root());
    let loops = support::mounted::lacks("loop devices", fs::exists("/dev/loop-control").unwrap());
    if missing || root || loops {
        return;
    }
    let s = Scratch::new();
    let (image, socket) = (disk(&s, "128M"), s.text("nbd"));
    let script = include_str!("support/ext4.sh");
    let run = |phase: &str, pid: u32| {
        let output = std::process::Command::new("timeout")
            .args(["-s", "KILL", "150", "bash", "-c", script, "ext4", phase])
            .args([&s.text(""), &socket, &pid.to_string()])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{phase}: {said}");
        said
    };
    for round in 0..2 {
        let serving = Serving::new(&[&image, "--unix", &socket]);
        let pid = serving.pid().as_raw_nonzero().get() as u32;
        if round == 0 {
            run("make", pid);
        }
        run("write-and-kill", pid);
        drop(serving);
        let serving = Serving::new(&[&image, "--unix", &socket]);
        let said = run("check", pid);
        assert!(said.contains("verified"), "{said}");
        serving.end().expect(0, "");
    }
}
