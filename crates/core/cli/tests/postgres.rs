//! PostgreSQL with its files on a mount, killed in the middle of its work, and with the
//! file system's server killed beneath it. Every commit that a client saw acknowledged
//! exists afterwards, and PostgreSQL's own checks find nothing.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;
use support::mounted::{Mount, lacks, no_fuse};
use support::shell;

/// Clients that keep a ledger while pgbench runs.
const CLIENTS: usize = 3;
/// Least time that the database works before it is killed.
const LOAD: Duration = Duration::from_secs(2);
/// Least number of transactions acknowledged by then.
const TRANSACTIONS_MIN: usize = 50;

/// The newest installed PostgreSQL's programs.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let bins = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    bins.filter(|bin| bin.join("initdb").exists() && bin.join("pg_amcheck").exists())
        .max()
}

struct Postgres {
    mount: Mount,
    bin: PathBuf,
    /// Directory for the socket and the log, outside the mount.
    beside: PathBuf,
    /// The acknowledged commits of each client.
    ledger: Mutex<Vec<(usize, u64)>>,
}

impl Postgres {
    fn new(bin: PathBuf) -> Self {
        let mount = Mount::new("512M");
        let beside = mount.scratch.path("beside");
        fs::create_dir(&beside).unwrap();
        let postgres = Postgres {
            bin,
            beside,
            ledger: Mutex::default(),
            mount,
        };
        shell(&format!(
            "chmod 755 {}; mkdir {data}; chmod 700 {data}; chown postgres {data} {}",
            postgres.mount.scratch.dir.path().display(),
            postgres.beside.display(),
            data = postgres.data().display(),
        ));
        postgres.run("initdb --data-checksums --auth trust --username postgres -D DATA");
        postgres
    }

    fn data(&self) -> PathBuf {
        self.mount.path("data")
    }

    /// A command of PostgreSQL, run as its user: as root it refuses to run.
    fn line(&self, command: &str) -> String {
        let data = self.data().display().to_string();
        let beside = self.beside.display();
        let command = command.replace("DATA", &data);
        let bin = self.bin.display();
        format!(
            "cd {beside}; export PGHOST={beside} PGUSER=postgres; exec runuser -u postgres -- {bin}/{command}"
        )
    }

    #[track_caller]
    fn run(&self, command: &str) -> String {
        shell(&self.line(command))
    }

    fn start(&self) {
        let beside = self.beside.display();
        self.run(&format!(
            "pg_ctl -D DATA -l {beside}/log -w -t 60 -s -o \
             \"-k {beside} -c listen_addresses='' -c shared_buffers=16MB\" start"
        ));
    }

    fn ask(&self, question: &str) -> String {
        let said = self.run(&format!(
            "psql -X -q -A -t -v ON_ERROR_STOP=1 -c \"{question}\""
        ));
        said.trim().to_owned()
    }

    fn postmaster(&self) -> String {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        file.lines().next().unwrap().to_owned()
    }

    /// Kills all its processes, and waits until they have ended.
    fn kill(&self, postmaster: &str) {
        shell(&format!(
            "all=\"{postmaster} $(pgrep -P {postmaster} | tr '\\n' ' ' || true)\"
             kill -KILL $all || true
             for i in $(seq 1200); do
               left=; for p in $all; do test -d /proc/$p && left=$p; done
               test -z \"$left\" && exit 0; sleep 0.05
             done; echo \"process $left does not end\" >&2; exit 1"
        ));
    }

    /// One client: inserts, and records acknowledged commits, until the database has
    /// ended.
    fn keep_ledger(&self, client: usize, round: u64) {
        let mut session = Session::start(&self.line("psql -X -q -A -t"));
        for n in round * 1_000_000.. {
            let insert = format!("INSERT INTO ledger VALUES ({client}, {n}) RETURNING n;");
            match session.ask(&insert) {
                Some(said) if said == n.to_string() => {
                    self.ledger.lock().unwrap().push((client, n));
                }
                _ => return,
            }
        }
    }

    /// Runs the load for a while, and then `end`, which ends the database.
    fn under_load(&self, round: u64, end: impl FnOnce()) {
        let before = self.ledger.lock().unwrap().len();
        let mut pgbench = Command::new("bash");
        let load = self.line("pgbench -n -c 2 -j 2 -T 60 postgres");
        let pgbench = pgbench.args(["-c", &load]).stdout(Stdio::null());
        let mut pgbench = pgbench.stderr(Stdio::null()).spawn().unwrap();
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                scope.spawn(move || self.keep_ledger(client, round));
            }
            std::thread::sleep(LOAD);
            // A busy host may take longer; pgbench works for a minute.
            let told = || self.ledger.lock().unwrap().len() - before;
            for _ in 0..300 {
                if told() > TRANSACTIONS_MIN {
                    break;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            end();
        });
        let _ = pgbench.wait();
        let told = self.ledger.lock().unwrap().len() - before;
        assert!(
            told > TRANSACTIONS_MIN,
            "the load did too little: {told} transactions"
        );
    }

    /// Checks that all acknowledged commits exist, and the database is sound.
    fn check(&self) {
        let found = self.ask("SELECT client, n FROM ledger");
        let found: std::collections::HashSet<&str> = found.lines().collect();
        for (client, n) in self.ledger.lock().unwrap().iter() {
            let row = format!("{client}|{n}");
            assert!(
                found.contains(row.as_str()),
                "lost {row}, which was committed"
            );
        }
        let sums = self.ask(
            "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = sum(delta) \
                AND (SELECT sum(tbalance) FROM pgbench_tellers) = sum(delta) \
                AND (SELECT sum(bbalance) FROM pgbench_branches) = sum(delta) \
             FROM pgbench_history",
        );
        assert_eq!(sums, "t", "pgbench's sums differ");
        self.run("pg_amcheck --all --install-missing --heapallindexed");
    }
}

/// A psql that answers line by line.
struct Session {
    process: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Session {
    fn start(line: &str) -> Self {
        let mut process = Command::new("bash")
            .args(["-c", line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Session { process, answers }
    }

    fn ask(&mut self, question: &str) -> Option<String> {
        writeln!(self.process.stdin.as_mut()?, "{question}").ok()?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).ok()?;
        Some(answer.trim().to_owned())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn postgres_keeps_what_it_acknowledged() {
    let root = shell("id -u").trim() == "0";
    if no_fuse() || lacks("root", root) {
        return;
    }
    let programs = programs();
    if lacks("PostgreSQL", programs.is_some()) {
        return;
    }
    let postgres = Postgres::new(programs.unwrap());
    postgres.start();
    postgres.ask("CREATE TABLE ledger (client int, n bigint, PRIMARY KEY (client, n))");
    postgres.run("pgbench -i -q -s 2 postgres 2>/dev/null");

    // The database is killed, and recovers on the same mount.
    let postmaster = postgres.postmaster();
    postgres.under_load(1, || postgres.kill(&postmaster));
    postgres.start();
    postgres.check();

    // The file system's server is killed, and the database with it.
    let postmaster = postgres.postmaster();
    postgres.under_load(2, || {
        shell(&format!("kill -KILL {}", postgres.mount.server()));
        postgres.kill(&postmaster);
    });
    postgres.mount.umount();
    support::varve(["fsck", "--data", &postgres.mount.image]).expect(0, "0 errors");
    postgres.mount.mount();
    postgres.start();
    postgres.check();

    postgres.run("pg_ctl -D DATA -w -s -m fast stop");
    postgres.mount.remount_checked();
    postgres.run("pg_checksums --check -D DATA");
    postgres.mount.finish();
}
