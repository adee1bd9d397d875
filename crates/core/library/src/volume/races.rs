//! Threads that create and remove the same names: no operation reaches another file than
//! the one at its path.

use super::*;
use crate::file::OpenOptions;
use crate::metadata::FileTimes;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};
use varve_fsck::verify::{Control, VerifyOptions, verify};
use varve_prove::random::Random;

const THREADS: u64 = 6;

/// Duration of each test: `VARVE_STRESS_SECONDS`, or 1.5 seconds.
fn duration() -> Duration {
    let seconds = std::env::var("VARVE_STRESS_SECONDS").ok();
    seconds.map_or(Duration::from_millis(1500), |seconds| {
        Duration::from_secs(seconds.parse().expect("VARVE_STRESS_SECONDS is a number"))
    })
}

/// Options for a file that is read and written, and created if it is missing.
fn made() -> OpenOptions {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .clone()
}

/// Some threads create, write and remove a file by name while another thread has files of
/// its own. If a number is reused for one of these, no other thread may write to it.
#[test]
fn who_opens_a_file_that_is_being_removed_meets_no_other() {
    let volume = Volume::in_memory(32 << 20).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (volume, stop) = (&volume, &stop);
        for _ in 0..2 {
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    if let Ok(file) = made().open(volume, "/shared") {
                        file.write_all_at(&[7; 4096], 8192).unwrap();
                    }
                    let _ = volume.remove_file("/shared");
                }
            });
        }
        let deadline = Instant::now() + duration();
        let met_another = (0..).take_while(|_| Instant::now() < deadline).find(|n| {
            let name = format!("/own{}", n % 3);
            // The other threads write to the hole.
            let file = made().open(volume, &name).unwrap();
            file.write_all_at(b"own", 0).unwrap();
            file.write_all_at(b"own", 20_000).unwrap();
            if n % 4 == 0 {
                volume.sync().unwrap();
            }
            let content = volume.read(&name).unwrap();
            drop(file);
            volume.remove_file(&name).unwrap();
            content[3..20_000].iter().any(|byte| *byte != 0)
        });
        stop.store(true, Relaxed);
        assert_eq!(met_another, None, "a round in which they wrote to our file");
    });
}

/// The mode bits of a class's files and directories, in addition to those with which they
/// were created.
fn bits(class: u8) -> u32 {
    0o700 | u32::from(class - b'a' + 1) << 3
}

/// Works on names of two letters. The first is a name's *class*: content, mode,
/// attributes, targets and directory content show it, and every rename or link stays
/// within it. A thread that finds another class has reached the wrong file.
fn work(volume: &Volume, random: &mut Random) -> Result<()> {
    let class = b'a' + random.below(2) as u8;
    let mut name = || {
        format!(
            "/{}{}",
            char::from(class),
            ["a", "b"][random.below(2) as usize]
        )
    };
    let (path, other) = (name(), name());
    let own = |content: &[u8]| content.iter().all(|byte| *byte == 0 || *byte == class);
    match random.below(16) {
        0..=2 => {
            let file = made().create_new(random.once_in(2)).open(volume, &path)?;
            let at = random.below(3) * 6000;
            file.write_all_at(&[class; 3000], at).unwrap();
            let mut content = vec![0; 20_000];
            let length = file.read_at(&mut content, 0).unwrap();
            assert!(own(&content[..length]), "{path}: written to");
        }
        3 => assert!(own(&volume.read(&path)?), "{path}: content of another"),
        4 => volume.set_permissions(&path, Permissions::from_mode(bits(class)))?,
        5 => volume.set_xattr(&path, "user.class", &[class])?,
        6 => {
            let class = volume
                .xattr(&path, "user.class")?
                .map_or(class, |value| value[0]);
            assert!(path.as_bytes()[1] == class, "{path}: attribute of another");
        }
        7 => {
            let mode = volume.metadata(&path)?.mode() & 0o7777;
            let foreign = bits(b'a' + b'b' - class);
            assert!(mode != foreign, "{path}: mode {mode:o}");
        }
        8 => volume.symlink(&other[1..], &path)?,
        9 => {
            let target = volume.read_link(&path)?;
            assert_eq!(
                target.as_os_str().as_bytes()[0],
                class,
                "{path}: target of another"
            );
        }
        10 => volume.create_dir(&path)?,
        11 => {
            let inner = format!("{path}/{}", char::from(class));
            volume.write(&inner, [class])?;
            let up = format!("{path}/../{}", &other[1..]);
            assert!(own(&volume.read(up)?), "{path}: above another");
        }
        12 => {
            for entry in volume.read_dir(&path)? {
                let entry = entry?;
                assert_eq!(
                    entry.file_name().as_bytes(),
                    [class],
                    "{path}: name of another"
                );
                assert!(entry.file_type()?.is_file());
            }
        }
        13 => match random.below(4) {
            0 => volume.exchange(&path, &other)?,
            1 => volume.hard_link(&path, &other)?,
            2 => drop(volume.copy(&path, &other)?),
            _ => volume.rename(&path, &other)?,
        },
        14 => {
            let times = FileTimes::new().set_accessed(SystemTime::now());
            volume.set_times(&path, times)?;
        }
        _ => match random.below(3) {
            0 => volume.remove_dir_all(&path)?,
            _ => volume.remove_file(&path)?,
        },
    }
    Ok(())
}

#[test]
fn no_path_leads_to_another_file() {
    let seed = std::env::var("VARVE_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    eprintln!("reproduce: VARVE_SEED={seed} cargo test -p varve no_path_leads");
    let volume = Volume::in_memory(64 << 20).unwrap();
    let deadline = Instant::now() + duration();
    // The file was removed, created or replaced meanwhile.
    let expected = [
        rustix::io::Errno::NOENT,
        rustix::io::Errno::EXIST,
        rustix::io::Errno::NOTDIR,
        rustix::io::Errno::ISDIR,
        rustix::io::Errno::NOTEMPTY,
        rustix::io::Errno::INVAL,
        rustix::io::Errno::LOOP,
        rustix::io::Errno::PERM,
        rustix::io::Errno::OPNOTSUPP,
    ]
    .map(|errno| errno.raw_os_error());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (volume, expected) = (&volume, &expected);
            scope.spawn(move || {
                let mut random = Random::new(seed * THREADS + thread);
                for step in 0u64.. {
                    if step.is_multiple_of(64) && Instant::now() > deadline {
                        return;
                    }
                    if let Err(error) = work(volume, &mut random) {
                        assert!(expected.contains(&error.errno()), "{error}");
                    }
                    // Logged files take other code paths than files that are only in
                    // memory.
                    match (thread, step % 1000) {
                        (0, 0) => volume.sync().unwrap(),
                        (1, 0) => volume.tree().drop_caches(),
                        _ => {}
                    }
                }
            });
        }
    });
    let fs = volume.tree().log().expect("the default");
    let options = VerifyOptions {
        data: true,
        strict: true,
    };
    let report = verify(fs.layout(), &Arc::new(Control::new(0)), &options);
    assert!(report.expect("nobody else scrubs").is_sound());
}
