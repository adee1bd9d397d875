//! The contract of `Store` against a directory and against a real server.
//!
//! `scripts/bucket-server.sh start DIR` starts the server and prints the variable that
//! this reads. If it is not set, what needs the server is skipped, loudly.

use std::sync::{Arc, Barrier};
use std::thread;
use varve_object::{Cause, FolderStore, Store, StoreResult};

fn cause<T>(result: StoreResult<T>) -> Option<Cause> {
    result.err().map(|error| error.cause)
}

fn names(store: &dyn Store, prefix: &str, after: &str) -> Vec<String> {
    let listed = store.list(prefix, after).unwrap();
    listed.into_iter().map(|object| object.name).collect()
}

/// Checks every promise of the trait.
fn check(store: Arc<dyn Store>) {
    // Bodies of several parts, and an empty one.
    store.create("log/0001", &[b"one", b"", b"more"]).unwrap();
    store.create("log/0003", &[]).unwrap();
    assert_eq!(store.get("log/0001").unwrap(), b"onemore");
    assert_eq!(store.get("log/0003").unwrap(), b"");
    assert_eq!(
        cause(store.create("log/0001", &[b"x"])),
        Some(Cause::Exists)
    );
    assert_eq!(store.get("log/0001").unwrap(), b"onemore");

    let mut part = [0; 4];
    store.get_range("log/0001", 3, &mut part).unwrap();
    assert_eq!(&part, b"more");
    for offset in [4, 7, 100] {
        let read = store.get_range("log/0001", offset, &mut part);
        assert_eq!(cause(read), Some(Cause::Malformed), "range at {offset}");
    }
    assert_eq!(cause(store.get("log/0002")), Some(Cause::Missing));
    let read = store.get_range("log/0002", 0, &mut part);
    assert_eq!(cause(read), Some(Cause::Missing));

    // One of eight racing creates has its content stored; no other succeeds.
    for round in 0..5 {
        let name = format!("log/race-{round}");
        let barrier = Arc::new(Barrier::new(8));
        let racers = (0..8u8).map(|racer| {
            let (store, barrier, name) = (store.clone(), barrier.clone(), name.clone());
            thread::spawn(move || {
                barrier.wait();
                store.create(&name, &[&[racer; 100]])
            })
        });
        let racers: Vec<_> = racers.collect();
        let created = racers.into_iter().map(|racer| racer.join().unwrap());
        let created: Vec<_> = created.collect();
        let won: Vec<_> = (0..8u8)
            .filter(|&r| created[usize::from(r)].is_ok())
            .collect();
        let stored = store.get(&name).unwrap();
        assert!(won.len() <= 1, "{won:?} won in round {round}");
        assert!(
            won.iter().all(|&racer| stored == [racer; 100]),
            "round {round}"
        );
        store.delete(&name).unwrap();
    }

    // Names are listed in order, below a prefix that may end within a name.
    store.create("seg/a", &[&[7; 100_000]]).unwrap();
    store.create("logs", &[b"x"]).unwrap();
    assert_eq!(
        names(&*store, "", ""),
        ["log/0001", "log/0003", "logs", "seg/a"]
    );
    assert_eq!(names(&*store, "log/", ""), ["log/0001", "log/0003"]);
    assert_eq!(names(&*store, "log/000", "log/0001"), ["log/0003"]);
    assert_eq!(names(&*store, "log/", "log/0002"), ["log/0003"]);
    assert_eq!(names(&*store, "none/", ""), [""; 0]);
    assert_eq!(store.list("seg/", "").unwrap()[0].bytes, 100_000);

    store.delete("log/0001").unwrap();
    store.delete("log/0001").unwrap();
    assert_eq!(cause(store.get("log/0001")), Some(Cause::Missing));
    for name in ["log/0003", "logs", "seg/a"] {
        store.delete(name).unwrap();
    }
    assert_eq!(names(&*store, "", ""), [""; 0]);
}

#[test]
fn a_directory_keeps_the_contract() {
    let host = tempfile::tempdir().unwrap();
    check(Arc::new(FolderStore::open(host.path()).unwrap()));
}

#[cfg(feature = "cloud")]
mod server {
    use super::*;
    use std::env;
    use std::process::{Command, Output};
    use varve_object::StoreUrl;

    const KEYS: (&str, &str) = ("varve-tests", "varve-tests-secret");

    fn endpoint() -> Option<String> {
        let endpoint = env::var("VARVE_TEST_S3").ok();
        if endpoint.is_none() {
            let missing = "no S3 server: run eval \"$(scripts/bucket-server.sh start DIR)\", which \
                           installs and starts SeaweedFS";
            assert!(env::var_os("CI").is_none(), "{missing}");
            eprintln!("SKIPPED: {missing}");
        }
        endpoint
    }

    /// Runs a test of this file in a process whose environment has only the given
    /// variables, because credentials are read from it.
    fn run(test: &str, url: &str, variables: &[(&str, &str)]) -> Output {
        Command::new(env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env_clear()
            .env("VARVE_TEST_URL", url)
            // Without instance metadata, which is looked for at once.
            .env("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
            .envs(variables.iter().copied())
            .output()
            .unwrap()
    }

    fn opened() -> Result<Arc<dyn Store>, String> {
        let url: StoreUrl = env::var("VARVE_TEST_URL").unwrap().parse().unwrap();
        url.open().map_err(|error| error.to_string())
    }

    #[test]
    #[ignore = "run by the tests below in a process of its own"]
    fn within_contract() {
        let store = opened().unwrap();
        assert!(!format!("{store:?}").contains(KEYS.1));
        check(store);
    }

    #[test]
    #[ignore = "run by the tests below in a process of its own"]
    fn within_refusal() {
        println!("{}", opened().err().unwrap_or_else(|| "opened".to_owned()));
    }

    #[test]
    fn a_server_keeps_the_contract() {
        let Some(endpoint) = endpoint() else { return };
        let prefix = format!("contract-{}", std::process::id());
        let url = format!("s3://varve-tests/{prefix}/x?endpoint={endpoint}");
        let keys = [
            ("AWS_ACCESS_KEY_ID", KEYS.0),
            ("AWS_SECRET_ACCESS_KEY", KEYS.1),
        ];
        let output = run("server::within_contract", &url, &keys);
        assert!(output.status.success(), "{output:?}");
    }

    #[test]
    fn a_profile_file_gives_credentials_and_endpoint() {
        let Some(endpoint) = endpoint() else { return };
        let host = tempfile::tempdir().unwrap();
        let file = |name: &str, text: String| {
            let path = host.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let keys = format!(
            "aws_access_key_id = {}\naws_secret_access_key = {}\n",
            KEYS.0, KEYS.1
        );
        let credentials = file("credentials", format!("[work]\n{keys}"));
        let config = file(
            "config",
            format!("[profile work]\nendpoint_url = {endpoint}\n"),
        );
        let files = [
            ("AWS_SHARED_CREDENTIALS_FILE", credentials.as_str()),
            ("AWS_CONFIG_FILE", config.as_str()),
            ("AWS_PROFILE", "work"),
        ];
        let output = run("server::within_refusal", "s3://varve-tests/profile", &files);
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("opened"),
            "{output:?}"
        );
        let other = [files[0], files[1], ("AWS_PROFILE", "play")];
        let output = run("server::within_refusal", "s3://varve-tests/profile", &other);
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("no profile play"),
            "{output:?}"
        );
    }

    #[test]
    #[ignore = "run by the tests below in a process of its own"]
    fn within_reader() {
        let store = opened().unwrap();
        let error = store.create("x", &[b"x"]).unwrap_err();
        assert_eq!(error.cause, Cause::Rejected, "{error}");
        assert!(error.to_string().contains("allow listing"), "{error}");
        assert_eq!(cause(store.get("x")), Some(Cause::Missing));
        assert_eq!(names(&*store, "", ""), [""; 0]);
    }

    #[test]
    fn a_reader_is_not_allowed_to_create() {
        let Some(endpoint) = endpoint() else { return };
        let url = format!("s3://varve-tests/reader?endpoint={endpoint}");
        let (key, secret) = ("varve-reader", "varve-reader-secret");
        let keys = [
            ("AWS_ACCESS_KEY_ID", key),
            ("AWS_SECRET_ACCESS_KEY", secret),
        ];
        let output = run("server::within_reader", &url, &keys);
        assert!(output.status.success(), "{output:?}");
    }

    #[test]
    fn each_mistake_has_an_error_of_its_own_without_the_secret() {
        let Some(endpoint) = endpoint() else { return };
        let good = format!("s3://varve-tests/p?endpoint={endpoint}");
        let absent = format!("s3://varve-absent/p?endpoint={endpoint}");
        let tls = format!(
            "s3://varve-tests/p?endpoint={}",
            endpoint.replace("http:", "https:")
        );
        let key = |key: &'static str, secret: &'static str| {
            vec![
                ("AWS_ACCESS_KEY_ID", key),
                ("AWS_SECRET_ACCESS_KEY", secret),
            ]
        };
        let cases = [
            (good.as_str(), vec![], "AWS_PROFILE"),
            (
                &good,
                key("unknown", "secret-of-unknown"),
                "AWS_ACCESS_KEY_ID",
            ),
            (&good, key(KEYS.0, "secret-of-another"), "AWS_ACCESS_KEY_ID"),
            (&absent, key(KEYS.0, KEYS.1), "bucket"),
            (
                "s3://varve-tests/p?endpoint=http://127.0.0.1:1",
                key(KEYS.0, KEYS.1),
                "reaches",
            ),
            (&tls, key(KEYS.0, KEYS.1), "endpoint"),
        ];
        for (url, keys, expected) in cases {
            let output = run("server::within_refusal", url, &keys);
            let said = String::from_utf8_lossy(&output.stdout);
            let said = said
                .lines()
                .find(|line| line.contains("s3://"))
                .unwrap_or(&said);
            println!("{said}");
            assert!(said.contains(expected), "{url}: {said}");
            assert!(!said.contains("secret"), "{url}: {said}");
        }
    }
}
