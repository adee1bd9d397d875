//! Programs that do not know of transactions, each in one: the files that it installs,
//! merges or unpacks are there as a whole, or not at all.
//!
//! Without /dev/fuse, or the program, they are skipped loudly, but fail in CI.

mod support;

use std::process::Command;
use support::mounted::{Mount, lacks, no_fuse};
use support::{Answer, VARVE, has, shell};

fn missing(programs: &[&str]) -> bool {
    no_fuse() || programs.iter().any(|program| lacks(program, has(program)))
}

/// Runs a script in a transaction, in the root of the mount. It finds the scratch
/// directory, which is not on the mount, as `$OUT`, and no user's configuration.
fn run(mount: &Mount, script: &str) -> Answer {
    let mut command = Command::new(VARVE);
    command.args(["txn", "run", &mount.dir]);
    command.args(["--", "bash", "-e", "-u", "-c", script]);
    let out = mount.scratch.dir.path();
    command.env_remove("VARVE_LOG").current_dir(&mount.dir);
    command.env("OUT", out).env("HOME", out);
    Answer::from(command.output().unwrap())
}

/// Names, modes, sizes and contents of all files on the mount.
fn everything(mount: &Mount) -> String {
    shell(&format!(
        "cd {}; find . -printf '%p %M %s %l\\n' | sort; find . -type f | sort | xargs -r cksum",
        mount.dir
    ))
}

const MAKEFILE: &str = r#"
all: tool manual
tool manual: %: %.in
	sed 's/@VERSION@/$(VERSION)/' $< > $@
install: all
	install -d $(DESTDIR)/bin $(DESTDIR)/share/man
	install -m 755 tool $(DESTDIR)/bin/tool
	ln -sf tool $(DESTDIR)/bin/t
	install -m 644 manual $(DESTDIR)/share/man/tool.1
	test -z "$(BREAK)"
	mv $(DESTDIR)/share/man/tool.1 $(DESTDIR)/share/man/tool-$(VERSION).1
"#;

#[test]
fn make_install_installs_all_or_nothing() {
    if missing(&["make"]) {
        return;
    }
    let mount = Mount::new("64M");
    let source = mount.scratch.text("source");
    shell(&format!(
        "mkdir {source}; cd {source}; echo 'echo @VERSION@' > tool.in; echo @VERSION@ > manual.in"
    ));
    std::fs::write(format!("{source}/Makefile"), MAKEFILE).unwrap();
    let install = |version: &str, more: &str| {
        let variables = format!("DESTDIR=\"$PWD\" VERSION={version} {more}");
        run(
            &mount,
            &format!("make -s -B -C \"$OUT/source\" install {variables} 2>/dev/null"),
        )
    };
    install("1", "").expect(0, "");
    assert_eq!(shell(&format!("sh {}/bin/t", mount.dir)), "1\n");
    let before = everything(&mount);
    // It ends in the middle: the tool is the new one by then, the manual is not.
    install("2", "BREAK=yes").expect(2, "");
    assert_eq!(everything(&mount), before);
    install("2", "").expect(0, "");
    mount.remount_checked();
    assert_eq!(shell(&format!("sh {}/bin/t", mount.dir)), "2\n");
    let manuals = shell(&format!("cd {}/share/man; ls; cat tool-2.1", mount.dir));
    assert_eq!(manuals, "tool-1.1\ntool-2.1\n2\n");
    mount.finish();
}

/// Two branches that can be merged, and one that cannot.
const BRANCHES: &str = "
    git init -q -b main
    git config user.name nobody; git config user.email nobody@example.org
    seq 20 > numbers; echo one > text; git add .; git commit -q -m first
    git checkout -q -b goes; sed -i 's/^3$/three/' numbers; echo new > new
    git add .; git commit -q -m goes
    git checkout -q -b not main; echo two > text; echo lost > lost
    git add .; git commit -q -m not
    git checkout -q main; sed -i 's/^18$/eighteen/' numbers; echo three > text
    git commit -q -a -m main";

#[test]
fn a_git_merge_that_conflicts_was_never_begun() {
    if missing(&["git"]) {
        return;
    }
    let mount = Mount::new("64M");
    run(&mount, BRANCHES).expect(0, "");
    let before = everything(&mount);
    let conflicts =
        "git merge -q not 2>/dev/null || { test -e lost -a -e .git/MERGE_HEAD; exit 1; }";
    run(&mount, conflicts).expect(1, "CONFLICT");
    assert_eq!(everything(&mount), before);
    run(&mount, "git merge -q -m merged goes").expect(0, "");
    mount.remount_checked();
    let git = format!("export HOME={}; cd {}", mount.scratch.text(""), mount.dir);
    let state = "git status --porcelain; git log -1 --format='%s %p' | wc -w; git fsck --strict";
    assert_eq!(shell(&format!("{git}; {state} 2>/dev/null")), "3\n");
    let merged = shell(&format!("{git}; sed -n '3p;18p' numbers; cat new text"));
    assert_eq!(merged, "three\neighteen\nnew\nthree\n");
    mount.finish();
}

/// Packages without scripts: `dpkg` writes below its root only, and has an option for its
/// log.
const PACKAGES: &str = r#"
    package() {
        mkdir -p $1/DEBIAN
        printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: %s\n' \
            ${1%%_*} ${1##*_} test > $1/DEBIAN/control
        dpkg-deb --root-owner-group --build $1 $1.deb > /dev/null
    }
    for version in 1 2; do
        mkdir -p greeter_$version/usr/bin greeter_$version/usr/share/doc/greeter
        echo "echo version $version" > greeter_$version/usr/bin/greeter
        echo only > greeter_$version/usr/share/doc/greeter/of-$version
        package greeter_$version
    done
    # One that has a file of the other's, behind some of its own.
    mkdir -p intruder_1/usr/bin intruder_1/usr/lib/intruder
    echo mine > intruder_1/usr/bin/a-file; echo mine > intruder_1/usr/bin/greeter
    echo mine > intruder_1/usr/lib/intruder/file
    package intruder_1"#;

#[test]
fn dpkg_unpacks_a_package_or_leaves_nothing_of_it() {
    if missing(&["dpkg", "dpkg-deb"]) {
        return;
    }
    let mount = Mount::new("64M");
    shell(&format!("cd {}; {PACKAGES}", mount.scratch.text("")));
    shell(&format!(
        "cd {}; mkdir -p var/lib/dpkg/info var/lib/dpkg/updates; touch var/lib/dpkg/status",
        mount.dir
    ));
    let install = |package: &str| {
        let dpkg = "PATH=$PATH:/usr/sbin:/sbin dpkg --root=\"$PWD\" --log=\"$PWD/log\" \
                    --force-not-root --force-unsafe-io";
        run(
            &mount,
            &format!("{dpkg} -i \"$OUT/{package}.deb\" 2>/dev/null"),
        )
    };
    install("greeter_1").expect(0, "");
    let before = everything(&mount);
    install("intruder_1").expect(1, "");
    assert_eq!(everything(&mount), before);
    install("greeter_2").expect(0, "");
    mount.remount_checked();
    assert_eq!(
        shell(&format!("sh {}/usr/bin/greeter", mount.dir)),
        "version 2\n"
    );
    let installed = shell(&format!(
        "cd {}; ls usr/share/doc/greeter; dpkg --root=. -s greeter | grep -E '^(Status|Version)'",
        mount.dir
    ));
    assert_eq!(
        installed,
        "of-2\nStatus: install ok installed\nVersion: 2\n"
    );
    mount.finish();
}
