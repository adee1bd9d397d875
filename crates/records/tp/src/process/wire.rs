//! Requests and answers as bytes.
//!
//! A frame is its length (4 bytes, little-endian) and that many bytes. A frame from a
//! client has one or more requests, run in order until one fails; a frame from the holder
//! has one answer, to the last request or to the one that failed. A request is its kind
//! (1 byte) and its fields; numbers are little-endian, byte strings begin with their
//! length (4 bytes).
//!
//! While a client waits, for its greeting or for an answer, the holder sends it four
//! zeros, an empty frame, four times a second. So silence means that the holder is
//! stopped.

mod answer;
mod fields;
#[cfg(test)]
mod tests;

pub(super) use answer::{Answer, decode, encode};

use fields::{Fields, bound, bytes};
use std::io::{self, Read, Write};
use std::ops::Bound;
use std::time::Duration;

/// Bytes of the longest frame: a key and a value of 1 GiB each, with their headers.
pub(super) const LONGEST_FRAME: u32 = (2 << 30) + (1 << 20);

/// Greeting of both sides. `varvetp1` sent no empty frames.
pub(super) const HELLO: &[u8; 8] = b"varvetp2";

/// The empty frame that the holder sends to a waiting client.
pub(super) const STILL_HERE: [u8; 4] = [0; 4];
/// Interval of empty frames.
pub(super) const BEAT: Duration = Duration::from_millis(250);

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request<'a> {
    /// Begins a transaction.
    Begin {
        writes: bool,
    },
    /// Opens a table for this transaction and later ones of the connection; it is created
    /// if the transaction may write. Answer: its number.
    Open {
        name: &'a str,
        types: &'a str,
    },
    /// Answer: the value.
    Get {
        table: u32,
        key: &'a [u8],
        update: bool,
    },
    /// Answer: true if the key had a value.
    Put {
        table: u32,
        key: &'a [u8],
        value: &'a [u8],
    },
    /// Answer: true if the key existed.
    Delete {
        table: u32,
        key: &'a [u8],
    },
    /// Appends to a table of records. Answer: the number of the record.
    Append {
        table: u32,
        value: &'a [u8],
    },
    /// Answer: the first records of a range, or the last ones in descending order.
    Range {
        table: u32,
        from: Bound<&'a [u8]>,
        to: Bound<&'a [u8]>,
        backward: bool,
    },
    /// Answer: the number of the savepoint.
    Savepoint,
    RollbackTo {
        savepoint: u32,
    },
    /// `durable`: whether to wait, if the transaction states it.
    Commit {
        durable: Option<bool>,
    },
    Abort,
    /// Makes a hot backup into a directory of the host. Answer: the LSN of its end.
    Backup {
        directory: &'a str,
    },
}

impl<'a> Request<'a> {
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        let table = |to: &mut Vec<u8>, table: &u32| to.extend_from_slice(&table.to_le_bytes());
        match self {
            Request::Begin { writes } => to.extend_from_slice(&[1, u8::from(*writes)]),
            Request::Open { name, types } => {
                to.push(2);
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

    /// Parses the request at the beginning of `from` and advances behind it. `None` if
    /// there is none.
    pub(super) fn parse(from: &mut &'a [u8]) -> Option<Self> {
        let mut fields = Fields(from);
        let request = match fields.u8()? {
            1 => Request::Begin {
                writes: fields.flag()?,
            },
            2 => Request::Open {
                name: fields.text()?,
                types: fields.text()?,
            },
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

/// Sends a frame, which begins with space for its length.
pub(super) fn send(mut to: impl Write, frame: &mut [u8]) -> io::Result<()> {
    let length = (frame.len() - 4) as u32;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    to.write_all(frame)
}

/// Receives the bytes of a frame. Returns false if the other end was closed before the
/// frame.
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
    // Memory grows with the bytes received, not with the length announced.
    let read = from.take(length.into()).read_to_end(frame)?;
    match read as u32 == length {
        true => Ok(true),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Entry point of the fuzzer: parses bytes as requests and as an answer.
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
