//! Metrics: the numbers of `varve stats` for Prometheus, and that no client on the
//! network can end the responder or keep other clients from being answered.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::mounted::{Mount, no_fuse};
use support::{Scratch, VARVE, has, varve};

/// A responder, ended with the test.
struct Responder {
    process: Child,
    address: SocketAddr,
}

impl Responder {
    fn new(directories: &[&str]) -> Self {
        let mut process = Command::new(VARVE)
            .args(["stats", "--listen", "127.0.0.1:0"])
            .args(directories)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = process.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("metrics at http://").unwrap();
        let address = address.strip_suffix("/metrics").unwrap().parse().unwrap();
        Responder { process, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream
    }

    /// The response to a request.
    fn ask(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        // The request may be refused before it was sent whole.
        let _ = stream.write_all(request);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    fn metrics(&self) -> String {
        let answer = self.ask(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        let length = format!("Content-Length: {}", body.len());
        assert!(head.contains(&length), "{head}");
        body.to_owned()
    }

    fn threads(&self) -> usize {
        let tasks = format!("/proc/{}/task", self.process.id());
        fs::read_dir(tasks).unwrap().count()
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Checks the text by the format's own tool, where it is installed.
fn checked_by_promtool(text: &str) {
    if !has("promtool") {
        return eprintln!("SKIPPED: no promtool; the parser of the unit tests has looked");
    }
    let mut tool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = tool.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    let said = tool.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success() && text.is_empty(), "{text}");
}

#[test]
fn a_volume_and_a_textfile() {
    let s = Scratch::new();
    let (image, vlfs) = (s.volume("image", "16M"), s.text("vlfs"));
    varve(["mkfs", "--layout", "vlfs", "--size", "16M", &vlfs]).expect(0, "");
    let both = varve(["stats", "--prometheus", &image, &vlfs]).expect(0, "# HELP varve_up");
    let up = format!("varve_up{{target=\"{vlfs}\"}} 1\n");
    assert!(both.out.contains(&up) && both.out.contains("varve_virtual_log_"));
    checked_by_promtool(&both.out);
    varve(["stats", &image, &vlfs]).expect(2, "one target");
    varve(["stats", "--json", &image]).expect(0, "bytes_free");

    let file = s.text("varve.prom");
    varve(["stats", "--textfile", &file, &image]).expect(0, "");
    let whole = fs::read_to_string(&file).unwrap();
    assert!(whole.contains("varve_up") && whole.ends_with('\n'));
    let missing = s.text("missing");
    // The targets that answer are in the file all the same.
    varve(["stats", "--textfile", &file, &missing, &image]).expect(1, "No such file");
    let some = fs::read_to_string(&file).unwrap();
    assert!(some.contains(&format!("varve_up{{target=\"{missing}\"}} 0\n")));
    assert!(some.contains(&format!("varve_up{{target=\"{image}\"}} 1\n")));
    varve(["stats", "--textfile", &s.text("no/x.prom"), &image]).expect(1, "cannot write");
    varve(["stats", "--textfile", &s.text(""), &image]).expect(1, "cannot write");
    let mut names: Vec<_> = fs::read_dir(s.dir.path()).unwrap().collect();
    names.retain(|e| e.as_ref().unwrap().file_name().as_encoded_bytes()[0] == b'.');
    assert!(names.is_empty(), "left behind: {names:?}");
}

#[test]
fn statistics_are_told_for_people_and_scripts() {
    let s = Scratch::new();
    let image = s.volume("volume", "32M");
    varve(["stats", &image]).expect(0, "layout.device_reads ");
    let json = varve(["stats", &image, "--json"]).expect(0, "").json();
    assert!(json["space"]["free"].as_u64().unwrap() > 1000);
    assert_eq!(json["layout"]["device_writes"], 0);
    let gauge = "# TYPE varve_space_free_bytes gauge\nvarve_space_free_bytes{target=";
    varve(["stats", &image, "--prometheus"]).expect(0, gauge);
    let clean = json["segments"]["clean"].as_u64().unwrap();
    assert!(clean > 100, "{}", json["segments"]);
    assert_eq!(json["written_by_cause"]["data"], 0);
    varve(["stats", &image]).expect(0, "cleaned_by_utilisation.0.5 0");
    let labelled = ",cause=\"summaries\"} 0";
    varve(["stats", &image, "--prometheus"]).expect(0, labelled);
    varve(["stats", &image, "--prometheus", "--json"]).expect(2, "cannot be used with");
}

#[test]
fn addresses_that_cannot_be_are_refused() {
    let s = Scratch::new();
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = busy.local_addr().unwrap().to_string();
    for (address, said) in [
        (busy.as_str(), "in use"),
        ("127.0.0.1", "ADDRESS:PORT"),
        ("127.0.0.1:x", "ADDRESS:PORT"),
        ("", "ADDRESS:PORT"),
    ] {
        varve(["stats", "--listen", address, &s.text("")]).expect(1, said);
    }
    varve(["stats", "--listen", "127.0.0.1:0"]).expect(2, "Usage");
    varve(["stats", "--listen", "127.0.0.1:0", "--json", "/"]).expect(2, "Usage");
}

/// True if no thread of a process runs any more, as stopping takes a moment.
fn is_stopped(process: &str) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let mut states = threads.map(|thread| {
        let stat = thread.unwrap().path().join("stat");
        fs::read_to_string(stat).unwrap_or_default()
    });
    states.all(|stat| stat.contains(") T "))
}

#[test]
fn a_mount_is_scraped_while_it_works() {
    if no_fuse() {
        return;
    }
    let m = Mount::new("64M");
    fs::write(m.path("f"), vec![1; 1 << 20]).unwrap();
    let elsewhere = m.scratch.text("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let responder = Responder::new(&[&m.dir, &elsewhere]);
    let text = responder.metrics();
    for line in [
        format!("varve_up{{target=\"{}\"}} 1", m.dir),
        format!("varve_up{{target=\"{elsewhere}\"}} 0"),
        format!("varve_read_only{{target=\"{}\"}} 0", m.dir),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(text.contains("varve_request_duration_seconds_bucket{"));
    assert!(text.contains("kind=\"create\"}"), "{text}");
    checked_by_promtool(&text);

    // A server that does not answer is reported as down, and later as up again.
    let server = m.server();
    let signal = |name: &str| {
        let status = Command::new("kill").args([name, &server]).status();
        assert!(status.unwrap().success());
    };
    signal("-STOP");
    while !is_stopped(&server) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let begun = Instant::now();
    let text = responder.metrics();
    signal("-CONT");
    assert!(begun.elapsed() < Duration::from_secs(10));
    let down = format!("varve_up{{target=\"{}\"}} 0\n", m.dir);
    assert!(text.contains(&down), "{text}");
    let up = format!("varve_up{{target=\"{}\"}} 1\n", m.dir);
    let until = Instant::now() + Duration::from_secs(20);
    while !responder.metrics().contains(&up) {
        assert!(Instant::now() < until, "it did not come back");
    }
    // A scrape keeps nothing open.
    m.umount();
    assert!(responder.metrics().contains(&down));
    m.mount();
    assert!(responder.metrics().contains(&up));
    m.finish();
}

#[test]
fn nobody_on_the_network_ends_it_or_keeps_others_out() {
    let s = Scratch::new();
    let responder = Responder::new(&[&s.text("")]);
    let quick = || {
        let begun = Instant::now();
        assert!(responder.metrics().contains("varve_up"));
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "{:?}",
            begun.elapsed()
        );
    };
    quick();
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), "404"),
        (
            "DELETE /metrics HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
            "405",
        ),
        ("GET /metrics HTTP/1.1\r\n\r\n".to_owned(), "400"),
        ("nonsense\r\n\r\n".to_owned(), "400"),
        (
            format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(9 << 10)),
            "431",
        ),
        // More than the limit, and without an end.
        ("x".repeat(1 << 20), "431"),
    ] {
        let answer = responder.ask(request.as_bytes());
        let begin = &request[..request.len().min(40)];
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{begin}: {answer}"
        );
    }
    let head = responder.ask(b"HEAD /metrics HTTP/1.0\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"),
        "{head}"
    );

    // Garbage of any kind, from one seed.
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..200 {
        let mut bytes = Vec::new();
        for _ in 0..(state % 300) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.push(state as u8);
        }
        state = state.wrapping_add(0x1234_5678_9abc_def1);
        let mut stream = responder.connect();
        let _ = stream.write_all(&bytes);
        if state & 1 == 0 {
            let _ = stream.shutdown(Shutdown::Write);
        }
    }
    quick();

    // More connections than allowed that send nothing, or half a request.
    let mut slow: Vec<TcpStream> = (0..150).map(|_| responder.connect()).collect();
    for (number, stream) in slow.iter_mut().enumerate() {
        let half = &b"GET /metrics HTTP/1.1\r\nHost: a"[..number % 30];
        let _ = stream.write_all(half);
    }
    quick();
    assert!(responder.threads() < 50, "{} threads", responder.threads());
    // Sending one byte after the other does not extend the time.
    let mut dripping = responder.connect();
    let begun = Instant::now();
    while dripping.write_all(b"a").is_ok() && begun.elapsed() < Duration::from_secs(15) {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    // Reading nothing of the answer does not, either.
    let mut deaf: Vec<TcpStream> = (0..20).map(|_| responder.connect()).collect();
    for stream in &mut deaf {
        let _ = stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n");
    }
    quick();
    // All ended connections are closed.
    let until = Instant::now() + Duration::from_secs(15);
    while responder.threads() > 2 {
        assert!(Instant::now() < until, "{} threads", responder.threads());
        std::thread::sleep(Duration::from_millis(100));
    }
    quick();
}
