//! Requests and answers as bytes.
//!
//! A frame is its length (4 bytes, little-endian) and that many bytes: of a client, one or
//! more requests, done in order until one fails; of the holder, one answer, to the last
//! request or to the one that failed. A request is its kind (1) and its fields; numbers
//! are little-endian, byte strings begin with their length (4).

use crate::error::{Error, Result};
use std::io::{self, Read, Write};
use std::ops::Bound;

/// Longest frame: a value of 1 GiB, and what is around it.
pub(super) const LONGEST_FRAME: u32 = (1 << 30) + (1 << 20);

/// Said first by both sides.
pub(super) const HELLO: &[u8; 8] = b"varvetp1";

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request<'a> {
    /// Begins a transaction.
    Begin {
        writes: bool,
    },
    /// A table of this transaction and later ones of the connection. Answer: its number.
    Open {
        name: &'a str,
        types: &'a str,
        make: bool,
    },
    /// Answer: the value.
    Get {
        table: u32,
        key: &'a [u8],
        update: bool,
    },
    /// Answer: whether it had one.
    Put {
        table: u32,
        key: &'a [u8],
        value: &'a [u8],
    },
    /// Answer: whether it was there.
    Delete {
        table: u32,
        key: &'a [u8],
    },
    /// A record of a file of records. Answer: its number.
    Append {
        table: u32,
        value: &'a [u8],
    },
    /// Answer: the first records of a range, or the last ones, backward.
    Range {
        table: u32,
        from: Bound<&'a [u8]>,
        to: Bound<&'a [u8]>,
        backward: bool,
    },
    /// Answer: its number.
    Savepoint,
    RollbackTo {
        savepoint: u32,
    },
    /// `durable`: whether to wait, where the transaction says so.
    Commit {
        durable: Option<bool>,
    },
    Abort,
    /// A hot backup into a directory of the host. Answer: the LSN up to which it goes.
    Backup {
        directory: &'a str,
    },
}

/// What it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    Value(Option<Vec<u8>>),
    Flag(bool),
    Number(u64),
    /// Records, and whether there are more behind them.
    Rows(Vec<(Vec<u8>, Vec<u8>)>, bool),
}

fn bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    to.extend_from_slice(bytes);
}

fn bound(to: &mut Vec<u8>, bound: Bound<&[u8]>) {
    let (kind, key) = match bound {
        Bound::Unbounded => (0, &[][..]),
        Bound::Included(key) => (1, key),
        Bound::Excluded(key) => (2, key),
    };
    to.push(kind);
    bytes(to, key);
}

/// Reads fields off the front of bytes.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (now, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(now)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn u32(&mut self) -> Option<u32> {
        let bytes = self.take(4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        let bytes = self.take(8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()?;
        self.take(count as usize)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    fn bound(&mut self) -> Option<Bound<&'a [u8]>> {
        let (kind, key) = (self.u8()?, self.bytes()?);
        match (kind, key) {
            (0, []) => Some(Bound::Unbounded),
            (1, key) => Some(Bound::Included(key)),
            (2, key) => Some(Bound::Excluded(key)),
            _ => None,
        }
    }
}

impl<'a> Request<'a> {
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        let table = |to: &mut Vec<u8>, table: &u32| to.extend_from_slice(&table.to_le_bytes());
        match self {
            Request::Begin { writes } => to.extend_from_slice(&[1, u8::from(*writes)]),
            Request::Open { name, types, make } => {
                to.extend_from_slice(&[2, u8::from(*make)]);
                bytes(to, name.as_bytes());
                bytes(to, types.as_bytes());
            }
            Request::Get {
                table: number,
                key,
                update,
            } => {
                to.extend_from_slice(&[3, u8::from(*update)]);
                table(to, number);
                bytes(to, key);
            }
            Request::Put {
                table: number,
                key,
                value,
            } => {
                to.push(4);
                table(to, number);
                bytes(to, key);
                bytes(to, value);
            }
            Request::Delete { table: number, key } => {
                to.push(5);
                table(to, number);
                bytes(to, key);
            }
            Request::Append {
                table: number,
                value,
            } => {
                to.push(6);
                table(to, number);
                bytes(to, value);
            }
            Request::Range {
                table: number,
                from,
                to: until,
                backward,
            } => {
                to.extend_from_slice(&[7, u8::from(*backward)]);
                table(to, number);
                bound(to, *from);
                bound(to, *until);
            }
            Request::Savepoint => to.push(8),
            Request::RollbackTo { savepoint } => {
                to.push(9);
                table(to, savepoint);
            }
            Request::Commit { durable } => {
                let durable = durable.map_or(2, u8::from);
                to.extend_from_slice(&[10, durable]);
            }
            Request::Abort => to.push(11),
            Request::Backup { directory } => {
                to.push(12);
                bytes(to, directory.as_bytes());
            }
        }
    }

    /// The request at the beginning of these bytes, which are left behind it. `None` if
    /// there is none.
    pub(super) fn parse(from: &mut &'a [u8]) -> Option<Self> {
        let mut fields = Fields(from);
        let request = match fields.u8()? {
            1 => Request::Begin {
                writes: fields.flag()?,
            },
            2 => {
                let make = fields.flag()?;
                Request::Open {
                    name: fields.text()?,
                    types: fields.text()?,
                    make,
                }
            }
            3 => {
                let update = fields.flag()?;
                Request::Get {
                    table: fields.u32()?,
                    key: fields.bytes()?,
                    update,
                }
            }
            4 => Request::Put {
                table: fields.u32()?,
                key: fields.bytes()?,
                value: fields.bytes()?,
            },
            5 => Request::Delete {
                table: fields.u32()?,
                key: fields.bytes()?,
            },
            6 => Request::Append {
                table: fields.u32()?,
                value: fields.bytes()?,
            },
            7 => {
                let backward = fields.flag()?;
                Request::Range {
                    table: fields.u32()?,
                    from: fields.bound()?,
                    to: fields.bound()?,
                    backward,
                }
            }
            8 => Request::Savepoint,
            9 => Request::RollbackTo {
                savepoint: fields.u32()?,
            },
            10 => Request::Commit {
                durable: match fields.u8()? {
                    2 => None,
                    durable @ (0 | 1) => Some(durable == 1),
                    _ => return None,
                },
            },
            11 => Request::Abort,
            12 => Request::Backup {
                directory: fields.text()?,
            },
            _ => return None,
        };
        *from = fields.0;
        Some(request)
    }
}

/// An answer, or why there is none.
pub(super) fn encode(result: &Result<Answer>, to: &mut Vec<u8>) {
    let error = match result {
        Ok(answer) => return encode_answer(answer, to),
        Err(error) => error,
    };
    let mut numbers = |code: u8, first: u64, second: u64| {
        to.push(code);
        to.extend_from_slice(&first.to_le_bytes());
        to.extend_from_slice(&second.to_le_bytes());
    };
    match error {
        Error::Deadlock => numbers(100, 0, 0),
        Error::LockTimeout => numbers(101, 0, 0),
        Error::Ended => numbers(102, 0, 0),
        Error::ReadOnly => numbers(103, 0, 0),
        Error::NoRecord(number) => numbers(104, *number, 0),
        Error::LogFull { needed } => numbers(105, *needed, 0),
        Error::KeyTooLong { bytes, limit } => numbers(106, *bytes as u64, *limit as u64),
        Error::ValueTooLong { bytes } => numbers(107, *bytes as u64, 0),
        Error::NoTable(name) => {
            to.push(120);
            bytes(to, name.as_bytes());
        }
        Error::WrongType {
            table,
            found,
            wanted,
        } => {
            to.push(121);
            for text in [table, found, wanted] {
                bytes(to, text.as_bytes());
            }
        }
        Error::Poisoned(why) => {
            to.push(122);
            bytes(to, why.as_bytes());
        }
        Error::Damaged { file, offset, what } => {
            to.push(123);
            to.extend_from_slice(&offset.to_le_bytes());
            for text in [file, what] {
                bytes(to, text.as_bytes());
            }
        }
        other => {
            to.push(124);
            bytes(to, other.to_string().as_bytes());
        }
    }
}

fn encode_answer(answer: &Answer, to: &mut Vec<u8>) {
    match answer {
        Answer::Done => to.push(1),
        Answer::Value(None) => to.push(2),
        Answer::Value(Some(value)) => {
            to.push(3);
            bytes(to, value);
        }
        Answer::Flag(flag) => to.extend_from_slice(&[4, u8::from(*flag)]),
        Answer::Number(number) => {
            to.push(5);
            to.extend_from_slice(&number.to_le_bytes());
        }
        Answer::Rows(rows, more) => {
            to.extend_from_slice(&[6, u8::from(*more)]);
            to.extend_from_slice(&(rows.len() as u32).to_le_bytes());
            for (key, value) in rows {
                bytes(to, key);
                bytes(to, value);
            }
        }
    }
}

/// What an answer's bytes say. `None` if they are none.
pub(super) fn decode(from: &[u8]) -> Option<Result<Answer>> {
    let mut fields = Fields(from);
    let owned = |text: &str| text.to_owned();
    let code = fields.u8()?;
    let decoded = match code {
        1 => Ok(Answer::Done),
        2 => Ok(Answer::Value(None)),
        3 => Ok(Answer::Value(Some(fields.bytes()?.to_vec()))),
        4 => Ok(Answer::Flag(fields.flag()?)),
        5 => Ok(Answer::Number(fields.u64()?)),
        6 => {
            let (more, count) = (fields.flag()?, fields.u32()?);
            let row = |_| Some((fields.bytes()?.to_vec(), fields.bytes()?.to_vec()));
            Ok(Answer::Rows(
                (0..count).map(row).collect::<Option<_>>()?,
                more,
            ))
        }
        100..=107 => {
            let (first, second) = (fields.u64()?, fields.u64()?);
            Err(match code {
                100 => Error::Deadlock,
                101 => Error::LockTimeout,
                102 => Error::Ended,
                103 => Error::ReadOnly,
                104 => Error::NoRecord(first),
                105 => Error::LogFull { needed: first },
                106 => Error::KeyTooLong {
                    bytes: first as usize,
                    limit: second as usize,
                },
                _ => Error::ValueTooLong {
                    bytes: first as usize,
                },
            })
        }
        120 => Err(Error::NoTable(fields.text().map(owned)?)),
        121 => Err(Error::WrongType {
            table: fields.text().map(owned)?,
            found: fields.text().map(owned)?,
            wanted: fields.text().map(owned)?,
        }),
        122 => Err(Error::Poisoned(fields.text().map(owned)?)),
        123 => Err(Error::Damaged {
            offset: fields.u64()?,
            file: fields.text().map(owned)?,
            what: fields.text().map(owned)?,
        }),
        124 => Err(Error::Holder(fields.text().map(owned)?)),
        _ => return None,
    };
    fields.0.is_empty().then_some(decoded)
}

/// Sends the bytes of a frame, which has room for its length in front.
pub(super) fn send(mut to: impl Write, frame: &mut [u8]) -> io::Result<()> {
    let length = (frame.len() - 4) as u32;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    to.write_all(frame)
}

/// Receives a frame's bytes. False if the other end is gone before one begins.
pub(super) fn receive(mut from: impl Read, frame: &mut Vec<u8>) -> io::Result<bool> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        Err(error) => return Err(error),
    }
    let length = u32::from_le_bytes(length);
    if length > LONGEST_FRAME {
        return Err(io::ErrorKind::InvalidData.into());
    }
    frame.clear();
    // Memory grows with what comes, not with what is promised.
    let read = from.take(length.into()).read_to_end(frame)?;
    match read as u32 == length {
        true => Ok(true),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// For the fuzzer: bytes as requests and as an answer.
pub fn look(data: &[u8]) {
    let mut rest = data;
    while let Some(request) = Request::parse(&mut rest) {
        let mut again = Vec::new();
        request.encode(&mut again);
        assert_eq!(Request::parse(&mut &again[..]), Some(request));
    }
    if let Some(decoded) = decode(data) {
        let mut again = Vec::new();
        encode(&decoded, &mut again);
        assert!(decode(&again).is_some(), "an answer survives being written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_survive_and_parts_of_them_are_refused() {
        let requests = [
            Request::Begin { writes: true },
            Request::Open {
                name: "a",
                types: "str -> u8",
                make: false,
            },
            Request::Get {
                table: 7,
                key: b"key",
                update: true,
            },
            Request::Put {
                table: 1,
                key: b"",
                value: b"value",
            },
            Request::Range {
                table: 2,
                from: Bound::Excluded(b"a"),
                to: Bound::Unbounded,
                backward: true,
            },
            Request::Commit { durable: None },
            Request::Backup { directory: "/b" },
        ];
        let mut text = Vec::new();
        requests
            .iter()
            .for_each(|request| request.encode(&mut text));
        let mut rest = &text[..];
        let parsed: Vec<_> = std::iter::from_fn(|| Request::parse(&mut rest)).collect();
        assert_eq!(parsed, requests);
        let answers = [
            Ok(Answer::Rows(
                vec![(vec![1], vec![]), (vec![], vec![2])],
                true,
            )),
            Ok(Answer::Value(Some(vec![3]))),
            Err(Error::Deadlock),
            Err(Error::damaged("pages", 9, "what")),
            Err(Error::BufferFull { frames: 1 }),
        ];
        for answer in answers {
            let mut text = Vec::new();
            encode(&answer, &mut text);
            let decoded = decode(&text).unwrap();
            match (&decoded, &answer) {
                (Ok(a), Ok(b)) => assert_eq!(a, b),
                (Err(a), Err(b)) => assert!(a.to_string().ends_with(&b.to_string())),
                _ => panic!("{decoded:?} for {answer:?}"),
            }
            for cut in 0..text.len() {
                assert!(decode(&text[..cut]).is_none(), "{cut}");
            }
            look(&text);
        }
    }
}
