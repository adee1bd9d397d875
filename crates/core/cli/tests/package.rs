//! The files installed with the program: the list of the package's files, units,
//! completions, and the rules for file(1). That the package itself can be built and works
//! is tried by hand (docs/testing.md).

mod support;

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use support::{Scratch, VARVE, has, shell, varve};

const OWN: &str = env!("CARGO_MANIFEST_DIR");

/// The description of the package in crates/core/cli/Cargo.toml.
fn package() -> Value {
    let told = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(OWN)
        .output()
        .unwrap();
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let mut packages = told["packages"].as_array().unwrap().iter();
    let own = packages.find(|package| package["name"] == "varve-cli");
    own.unwrap()["metadata"]["deb"].clone()
}

#[test]
fn every_file_of_the_package_exists_or_is_generated() {
    let s = Scratch::new();
    let stage = s.text("package");
    shell(&format!(
        "{OWN}/../../../scripts/package.sh stage {VARVE} {stage}"
    ));
    let (mut used, mut installed) = (BTreeSet::new(), BTreeSet::new());
    let mut links = Vec::new();
    let deb = package();
    for asset in deb["assets"].as_array().unwrap() {
        if let Some(to) = asset["link_name"].as_str() {
            let from = Path::new(asset["dest"].as_str().unwrap());
            links.push(from.parent().unwrap().join(to));
            continue;
        }
        let part = |at: usize| asset[at].as_str().unwrap().to_owned();
        let (source, dest, mode) = (part(0), part(1), part(2));
        assert_eq!(
            mode,
            if dest == "usr/bin/" { "755" } else { "644" },
            "{source}"
        );
        let source = match source.strip_prefix("target/release/package/") {
            Some(generated) => format!("{stage}/{generated}"),
            None if source == "target/release/varve" => VARVE.to_owned(),
            None => format!("{OWN}/{source}"),
        };
        for file in shell(&format!("ls -d {source}")).lines() {
            let path = Path::new(file);
            assert!(fs::metadata(path).unwrap().len() > 0, "{file} is empty");
            let name = path.file_name().unwrap();
            let whole = match dest.ends_with('/') {
                true => Path::new(&dest).join(name),
                false => dest.clone().into(),
            };
            assert!(installed.insert(whole), "{file}: two files for one place");
            used.insert(path.to_owned());
        }
    }
    for generated in shell(&format!("find {stage} -type f")).lines() {
        assert!(
            used.contains(Path::new(generated)),
            "{generated} is not installed"
        );
    }
    for link in links {
        let target = link.to_str().unwrap().replace("sbin/../", "");
        assert!(installed.contains(Path::new(&target)), "{target}");
    }
    for text in [&deb["license-file"][0], &deb["changelog"]] {
        let path = Path::new(OWN).join(text.as_str().unwrap());
        assert!(fs::metadata(&path).unwrap().len() > 0, "{path:?}");
    }
    assert!(installed.contains(Path::new("usr/bin/varve")));
    assert!(installed.contains(Path::new("usr/share/man/man8/fsck.varve.8.gz")));
    for document in shell(&format!("cd {OWN}/../../../docs && find * -type f")).lines() {
        let place = Path::new("usr/share/doc/varve/docs").join(document);
        assert!(installed.contains(&place), "{document}");
    }
    shell(&format!("bash -n {stage}/varve.bash"));
    let said = shell(&format!(
        "source {stage}/varve.bash; COMP_WORDS=(varve mk); COMP_CWORD=1
         _varve varve mk varve; echo ${{COMPREPLY[*]}}"
    ));
    assert_eq!(said.trim(), "mkfs");
}

#[test]
fn manual_pages_and_completions_come_from_the_commands() {
    let s = Scratch::new();
    let directory = s.text("man");
    varve(["manual", "/dev/null/man"]).expect(1, "cannot write manual pages to");
    varve(["manual", &directory]).expect(0, "");
    let page = fs::read_to_string(s.path("man/man1/varve-mkfs.1")).unwrap();
    assert!(page.contains("preallocate"));
    let again = s.text("again");
    let dated = format!("SOURCE_DATE_EPOCH=86400 {} manual {again}", VARVE);
    shell(&dated);
    let page = fs::read_to_string(s.path("again/man8/mount.varve.8")).unwrap();
    assert!(
        page.starts_with(".TH \"MOUNT.VARVE\" \"8\" \"1970-01-02\" \"varve "),
        "{page}"
    );
    // The programs that render them have no warnings, where they are installed.
    let pages = shell(&format!("ls {directory}/man*/*"));
    for page in pages.lines() {
        if has("mandoc") {
            shell(&format!("mandoc -T lint -W warning {page}"));
        }
        if has("man") {
            let said = shell(&format!(
                "LC_ALL=C man --warnings -l {page} 2>&1 >/dev/null"
            ));
            assert_eq!(said, "", "{page}");
        }
    }
    assert!(
        pages.contains("varve.1") && pages.contains("fsck.varve.8"),
        "{pages}"
    );
    for shell in ["bash", "zsh", "fish"] {
        varve(["completions", shell]).expect(0, "preallocate");
    }
}

#[test]
fn systemd_understands_the_units() {
    let s = Scratch::new();
    let units = Path::new(OWN).join("assets/systemd");
    for unit in fs::read_dir(units).unwrap() {
        let unit = unit.unwrap();
        let text = fs::read_to_string(unit.path()).unwrap();
        // The paths are those of an installed package, so they are replaced here.
        let text = text.replace("/usr/bin/varve", VARVE);
        let name = unit.file_name().into_string().unwrap();
        let name = name.replace('@', "@srv-archive");
        fs::write(s.path(&name), text).unwrap();
    }
    if !has("systemd-analyze") {
        return eprintln!("SKIPPED: no systemd-analyze");
    }
    let said = shell(&format!(
        "cd {}; systemd-analyze verify --man=no ./* 2>&1 | grep -E 'varve|archive' || true",
        s.text("")
    ));
    assert_eq!(said, "");
}

#[test]
fn file_names_volumes() {
    if !has("file") {
        return eprintln!("SKIPPED: no file(1)");
    }
    let s = Scratch::new();
    let (log, vlfs, disk) = (s.text("log"), s.text("vlfs"), s.text("disk"));
    let mkfs = ["mkfs", "--json", "--size", "64M", "-L", "some label"];
    let made = [
        varve(mkfs.iter().chain(&[log.as_str()]))
            .expect(0, "")
            .json(),
        varve(mkfs.iter().chain(&["--layout", "vlfs", &vlfs]))
            .expect(0, "")
            .json(),
    ];
    varve(["vld", "create", &disk, "--size", "16M"]).expect(0, "");
    let file = |path: &str| shell(&format!("file -b -m {OWN}/assets/magic {path}"));
    for (path, made, said) in [
        (
            &log,
            &made[0],
            "Varve log-structured file system, version 1, 67108864 bytes",
        ),
        (
            &vlfs,
            &made[1],
            "Varve file system on the virtual log, version 1, ",
        ),
    ] {
        let told = file(path);
        assert!(told.starts_with(said), "{told}");
        assert!(told.contains("label \"some label\""), "{told}");
        let uuid = made["uuid"].as_str().unwrap();
        assert!(told.contains(&format!("UUID {uuid}")), "{told}");
    }
    assert!(file(&disk).starts_with("Varve virtual log disk, version 1, "));
    let nothing = s.text("nothing");
    fs::write(&nothing, vec![0; 4096]).unwrap();
    assert_eq!(file(&nothing).trim(), "data");
}
