//! Volumes in object stores, on real mounts: a folder, and the S3 server of
//! `scripts/bucket-server.sh`.

mod support;

use support::mounted::{lacks, no_fuse};
use support::{Scratch, VARVE, has, shell};

/// Runs a script with functions for a volume at `url`. It ends at the first failure.
fn run(scratch: &Scratch, url: &str, environment: &str, script: &str) -> String {
    let home = scratch.text("");
    shell(&format!(
        r#"set -eu
        {environment}
        cd '{home}'; mkdir -p one two
        url='{url}'
        varve() {{ '{VARVE}' "$@"; }}
        fails() {{ local text=$1 said; shift
          if said=$("$@" 2>&1); then echo "it did not fail: $*"; exit 1; fi
          case $said in *"$text"*) ;; *) echo "not '$text': $said"; exit 1;; esac; }}
        trap 'umount -l one two 2>/dev/null || true' EXIT
        {script}"#
    ))
}

/// Each store that this machine has: its URL, and the environment that it needs.
fn stores(scratch: &Scratch, name: &str) -> Vec<(String, String)> {
    let mut stores = vec![(format!("file://{}", scratch.text("store")), String::new())];
    match std::env::var("VARVE_TEST_S3") {
        Ok(endpoint) => stores.push((
            format!(
                "s3://varve-tests/{name}-{}?endpoint={endpoint}",
                std::process::id()
            ),
            "export AWS_ACCESS_KEY_ID=varve-tests AWS_SECRET_ACCESS_KEY=varve-tests-secret".into(),
        )),
        Err(_) => {
            let missing = "no S3 server (scripts/bucket-server.sh): only a folder is tried";
            assert!(std::env::var_os("CI").is_none(), "{missing}");
            eprintln!("SKIPPED: {missing}");
        }
    }
    stores
}

/// One volume through the life of a writer: refusals, a reader next to it, its death, a
/// takeover, a check.
#[test]
fn a_volume_in_a_store_has_one_writer_and_loses_nothing() {
    if no_fuse() || lacks("git", has("git")) || lacks("sqlite3", has("sqlite3")) {
        return;
    }
    let scratch = Scratch::new();
    for (url, environment) in stores(&scratch, "writer") {
        run(
            &scratch,
            &url,
            &environment,
            r#"
            fails "has no volume" varve info "$url"
            varve mkfs "$url" --size 1G
            fails "has a volume already" varve mkfs "$url" --size 1G
            varve mount "$url" one
            pid=$(pgrep -f "background-server.*${url%%\?*}")
            git init -q one/work; git -C one/work config user.email a@b; git -C one/work config user.name a
            echo text >one/work/file; git -C one/work add file; git -C one/work commit -qm first
            sqlite3 one/base 'pragma journal_mode=wal; create table t(x); insert into t values(1),(2);' >/dev/null
            sync one/work/file one/base
            varve snapshot create one monday

            # Another writer is refused by name; a reader is not.
            fails "is written by process $pid" varve mount "$url" two
            varve mount -o ro "$url" two
            cmp one/work/file two/work/file
            fails "Read-only" touch two/new
            varve umount two

            # A killed writer is no obstacle on its host.
            echo later >one/later; sync one/later
            kill -9 "$pid"
            umount -l one
            varve mount "$url" one
            [ "$(cat one/later)" = later ]
            git -C one/work fsck --no-progress
            [ "$(sqlite3 one/base 'select sum(x) from t')" = 3 ]

            # A writer that was taken over acknowledges nothing.
            echo kept >one/kept; sync one/kept
            varve mount -o takeover "$url" two
            [ "$(cat two/kept)" = kept ]
            (echo lost >one/lost && sync one/lost) 2>/dev/null && { echo "it was acknowledged"; exit 1; }
            echo new >two/new; sync two/new
            varve umount two
            umount -l one
            varve fsck --data "$url"
            varve mount "$url" one
            [ ! -e one/lost ] && [ "$(cat one/new)" = new ]
            varve diff one monday | grep -q new

            # An archive in the same store, restored to an image.
            archives=${url/\/writer/\/archives}; archives=${archives/store/archives}
            varve archive one --to "$archives"
            varve archive restore --from "$archives" --to image
            varve umount one
            varve fsck --data image
            varve mount image one
            [ "$(cat one/new)" = new ]
            varve umount one
            rm image
            "#,
        );
    }
}

/// Removes and writes more than the volume has, so that objects die, and checks it.
#[test]
fn a_volume_in_a_store_is_filled_and_emptied() {
    if no_fuse() {
        return;
    }
    let scratch = Scratch::new();
    for (url, environment) in stores(&scratch, "full") {
        run(
            &scratch,
            &url,
            &environment,
            r#"
            varve mkfs "$url" --size 64M --force
            varve mount "$url" one
            for round in 1 2 3 4; do
              dd if=/dev/urandom of=one/data bs=1M count=200 2>/dev/null && { echo "it fits"; exit 1; }
              rm one/data
              dd if=/dev/urandom of=one/data bs=1M count=24 conv=fsync 2>/dev/null
              sum=$(cksum <one/data)
            done
            varve umount one
            varve fsck --data "$url"
            varve mount "$url" one
            [ "$(cksum <one/data)" = "$sum" ]
            varve umount one
            "#,
        );
    }
}
