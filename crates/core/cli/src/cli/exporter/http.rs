//! The part of HTTP/1.1 that `GET /metrics` needs. The client is not trusted: requests
//! are bounded, and only the method, the path, the version and the presence of a host are
//! used.

/// Most bytes of a request's head; a body is never read.
pub const LIMIT: usize = 8 << 10;

/// A parsed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The head is incomplete.
    Unfinished,
    /// A request for the metrics; for HEAD without the body.
    Metrics { body: bool },
    /// A request that is refused.
    Refused(Status),
}

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    BadRequest,
    NotFound,
    WrongMethod,
    TooSlow,
    TooLarge,
    Busy,
    WrongVersion,
}

impl Status {
    /// The end of the status line, and an explanation.
    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Status::BadRequest => ("400 Bad Request", "this is no request of HTTP/1.1"),
            Status::NotFound => ("404 Not Found", "the metrics are at /metrics"),
            Status::WrongMethod => ("405 Method Not Allowed", "metrics can only be read"),
            Status::TooSlow => ("408 Request Timeout", "the request did not come in time"),
            Status::TooLarge => (
                "431 Request Header Fields Too Large",
                "the request is too large",
            ),
            Status::Busy => ("503 Service Unavailable", "too many ask at once"),
            Status::WrongVersion => (
                "505 HTTP Version Not Supported",
                "only HTTP/1.0 and HTTP/1.1 are spoken here",
            ),
        }
    }
}

/// Parses a request, as far as it has arrived.
pub fn parse(bytes: &[u8]) -> Request {
    let Some(end) = end_of_head(bytes) else {
        return match bytes.len() > LIMIT {
            true => Request::Refused(Status::TooLarge),
            false => Request::Unfinished,
        };
    };
    if end > LIMIT {
        return Request::Refused(Status::TooLarge);
    }
    let Ok(head) = std::str::from_utf8(&bytes[..end]) else {
        return Request::Refused(Status::BadRequest);
    };
    let mut lines = head.split('\n').map(|line| line.trim_end_matches('\r'));
    let words: Vec<&str> = lines.next().unwrap_or("").split(' ').collect();
    let [method, target, version] = words[..] else {
        return Request::Refused(Status::BadRequest);
    };
    let is_token = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
    if method.is_empty() || !method.bytes().all(is_token) {
        return Request::Refused(Status::BadRequest);
    }
    let names_host = || {
        let name = |line: &str| {
            line.split_once(':')
                .map(|(name, _)| name.to_ascii_lowercase())
        };
        lines.any(|line| name(line).as_deref() == Some("host"))
    };
    let refused = match version {
        "HTTP/1.0" => None,
        "HTTP/1.1" if { names_host }() => None,
        "HTTP/1.1" => Some(Status::BadRequest),
        other if other.starts_with("HTTP/") => Some(Status::WrongVersion),
        _ => Some(Status::BadRequest),
    };
    match (refused, path(target), method) {
        (Some(status), _, _) => Request::Refused(status),
        (None, "/metrics", "GET") => Request::Metrics { body: true },
        (None, "/metrics", "HEAD") => Request::Metrics { body: false },
        (None, "/metrics", _) => Request::Refused(Status::WrongMethod),
        (None, _, _) => Request::Refused(Status::NotFound),
    }
}

/// Offset after the empty line that ends the head.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let ends = (0..bytes.len()).filter(|&at| bytes[at] == b'\n');
    let mut ends = ends.map(|at| at + 1);
    ends.find(|&end| {
        let rest = &bytes[end..];
        rest.starts_with(b"\n") || rest.starts_with(b"\r\n")
    })
}

/// The path of a target, which may be a whole address, as for a proxy.
fn path(target: &str) -> &str {
    let without_query = target.split(['?', '#']).next().unwrap_or("");
    match without_query.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => without_query,
    }
}

/// The response with the metrics in `text`.
pub fn metrics(text: &str, body: bool) -> Vec<u8> {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    answer("200 OK", kind, "", text, body)
}

/// The response of a refusal.
pub fn refusal(status: Status) -> Vec<u8> {
    let (line, text) = status.texts();
    let allow = match status {
        Status::WrongMethod => "Allow: GET, HEAD\r\n",
        _ => "",
    };
    let text = format!("{text}\n");
    answer(line, "text/plain; charset=utf-8", allow, &text, true)
}

fn answer(status: &str, kind: &str, more: &str, text: &str, body: bool) -> Vec<u8> {
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         {more}Connection: close\r\n\r\n"
    );
    let body = if body { text } else { "" };
    [head.as_bytes(), body.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    #[test]
    fn requests_are_told_apart() {
        use Request::{Metrics, Refused, Unfinished};
        let cases: [(&str, Request); 24] = [
            ("", Unfinished),
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n", Unfinished),
            ("GET /metrics HTTP/1.0\r\n\r\n", Metrics { body: true }),
            ("GET /metrics HTTP/1.0\n\n", Metrics { body: true }),
            ("HEAD /metrics HTTP/1.0\r\n\r\n", Metrics { body: false }),
            (
                "GET /metrics HTTP/1.1\r\nhOST: a\r\n\r\n",
                Metrics { body: true },
            ),
            ("GET /metrics?x=/y HTTP/1.0\r\n\r\n", Metrics { body: true }),
            (
                "GET http://a:1/metrics HTTP/1.0\r\n\r\n",
                Metrics { body: true },
            ),
            (
                "GET /metrics HTTP/1.0\r\n\r\nbehind it",
                Metrics { body: true },
            ),
            ("GET /metrics HTTP/1.1\r\n\r\n", Refused(Status::BadRequest)),
            ("GET / HTTP/1.0\r\n\r\n", Refused(Status::NotFound)),
            ("GET http://a HTTP/1.0\r\n\r\n", Refused(Status::NotFound)),
            ("GET /metrics/ HTTP/1.0\r\n\r\n", Refused(Status::NotFound)),
            (
                "GET /../metrics HTTP/1.0\r\n\r\n",
                Refused(Status::NotFound),
            ),
            (
                "POST /metrics HTTP/1.0\r\n\r\n",
                Refused(Status::WrongMethod),
            ),
            (
                "get /metrics HTTP/1.0\r\n\r\n",
                Refused(Status::WrongMethod),
            ),
            (
                "GET  /metrics HTTP/1.0\r\n\r\n",
                Refused(Status::BadRequest),
            ),
            ("GET /metrics\r\n\r\n", Refused(Status::BadRequest)),
            ("G(T /metrics HTTP/1.0\r\n\r\n", Refused(Status::BadRequest)),
            (
                "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                Refused(Status::WrongVersion),
            ),
            (
                "GET /metrics HTTP/1.10\r\n\r\n",
                Refused(Status::WrongVersion),
            ),
            ("\r\n\r\n", Refused(Status::BadRequest)),
            ("\n\n", Refused(Status::BadRequest)),
            ("é /metrics HTTP/1.0\r\n\r\n", Refused(Status::BadRequest)),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse(text.as_bytes()), wanted, "{text:?}");
        }
        assert_eq!(parse(b"\xff\xfe\r\n\r\n"), Refused(Status::BadRequest));
        let mut long = b"GET /metrics HTTP/1.1\r\nHost: a\r\nX: ".to_vec();
        long.resize(LIMIT, b'a');
        assert_eq!(parse(&long), Unfinished);
        long.push(b'a');
        assert_eq!(parse(&long), Refused(Status::TooLarge));
        long.extend(b"\r\n\r\n");
        assert_eq!(parse(&long), Refused(Status::TooLarge));
    }

    /// Requests with bytes changed, lost and doubled: the answer does not depend on how
    /// they are split, and no byte causes a panic.
    #[test]
    fn no_bytes_are_too_odd() {
        const SEED: u64 = 7;
        let mut random = StdRng::seed_from_u64(SEED);
        let whole = b"GET http://host/metrics?q HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";
        let odd = b"\0\r\n \t:/?#%\xc3\xff";
        for round in 0..20_000 {
            let mut bytes = whole.to_vec();
            for _ in 0..random.random_range(0..6) {
                let at = random.random_range(0..bytes.len());
                match random.random_range(0..4) {
                    0 => bytes[at] = random.random(),
                    1 => bytes[at] = odd[random.random_range(0..odd.len())],
                    2 => bytes.truncate(at.max(1)),
                    _ => bytes.extend_from_within(at..),
                }
            }
            let parsed = parse(&bytes);
            // A request that ends earlier was answered the same earlier.
            for end in 0..bytes.len() {
                let early = parse(&bytes[..end]);
                let same = early == Request::Unfinished || early == parsed;
                assert!(
                    same,
                    "seed {SEED}, round {round}, {end}: {early:?}, {parsed:?}"
                );
            }
        }
    }

    #[test]
    fn answers_tell_their_length() {
        let text = "varve_up 1\n";
        let whole = String::from_utf8(metrics(text, true)).unwrap();
        let (head, body) = whole.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("version=0.0.4"));
        assert!(head.contains("Content-Length: 11") && body == text);
        let head_only = String::from_utf8(metrics(text, false)).unwrap();
        assert_eq!(head_only, format!("{head}\r\n\r\n"));
        let refused = String::from_utf8(refusal(Status::WrongMethod)).unwrap();
        assert!(refused.contains("405 ") && refused.contains("Allow: GET, HEAD\r\n"));
    }
}
