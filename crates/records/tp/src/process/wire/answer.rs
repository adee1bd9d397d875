//! Answers as bytes: a code, and its fields. Codes from 100 on are errors; an error
//! without its own code is sent as text.

use super::fields::{Fields, bytes};
use crate::error::{Error, Result};

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::process) enum Answer {
    Done,
    Value(Option<Vec<u8>>),
    Flag(bool),
    Number(u64),
    /// Records, and true if more follow.
    Rows(Vec<(Vec<u8>, Vec<u8>)>, bool),
}

/// Encodes an answer or an error.
pub(in crate::process) fn encode(result: &Result<Answer>, to: &mut Vec<u8>) {
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
        Error::SnapshotTooOld { limit } => numbers(108, *limit as u64, 0),
        Error::TableDropped => numbers(109, 0, 0),
        Error::NoNumber => numbers(110, 0, 0),
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
        Error::IndexNotGiven { table, index } => {
            to.push(125);
            for text in [table, index] {
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

/// Parses an answer. `None` if the bytes are invalid.
pub(in crate::process) fn decode(from: &[u8]) -> Option<Result<Answer>> {
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
        100..=110 => {
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
                107 => Error::ValueTooLong {
                    bytes: first as usize,
                },
                108 => Error::SnapshotTooOld {
                    limit: first as usize,
                },
                109 => Error::TableDropped,
                _ => Error::NoNumber,
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
        125 => Err(Error::IndexNotGiven {
            table: fields.text().map(owned)?,
            index: fields.text().map(owned)?,
        }),
        _ => return None,
    };
    fields.0.is_empty().then_some(decoded)
}
