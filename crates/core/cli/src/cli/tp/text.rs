//! Tables as lines of text: the format of Berkeley DB's `db_dump` and `db_load`.
//!
//! A section for each table: `VERSION=3`, lines `name=value`, `HEADER=END`; then, each
//! after a space, a line for a key and a line for its value; `DATA=END`. Bytes are hex
//! digits (`format=bytevalue`), or themselves where they are printable (`format=print`),
//! else `\` and two hex digits; `\\` is a backslash.
//!
//! The header cannot have the types of tables, as `db_load` refuses unknown words. They
//! are a section of their own, [`TYPES`], before all others: names of tables and names of
//! their types.

use std::io::{self, BufRead, Write};

/// Name of the section with the types of the others.
pub const TYPES: &str = "varve.types";

/// Bytes of the longest line: a value of 1 GiB without a printable byte, and its
/// surroundings.
const LONGEST: u64 = (3 << 30) + 64;

/// Notation of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Hex digits.
    Hex,
    /// Printable characters as they are, other bytes escaped.
    Print,
}

fn hex(bytes: &[u8], to: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        let digits = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
        to.extend_from_slice(&digits);
    }
}

impl Form {
    /// Appends bytes as text.
    pub fn encode(self, bytes: &[u8], to: &mut Vec<u8>) {
        if self == Form::Hex {
            return hex(bytes, to);
        }
        for byte in bytes {
            match byte {
                b'\\' => to.extend_from_slice(b"\\\\"),
                b' '..=b'~' => to.push(*byte),
                _ => {
                    to.push(b'\\');
                    hex(&[*byte], to);
                }
            }
        }
    }

    /// Bytes from text; `None` if the text is not of this form.
    pub fn decode(self, text: &[u8]) -> Option<Vec<u8>> {
        let digit = |digit: u8| (digit as char).to_digit(16).map(|digit| digit as u8);
        let pair = |pair: &[u8]| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        };
        if self == Form::Hex {
            return text.chunks(2).map(pair).collect();
        }
        let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
        while let [byte, behind @ ..] = rest {
            rest = behind;
            match (byte, behind) {
                (b'\\', [b'\\', behind @ ..]) => {
                    bytes.push(b'\\');
                    rest = behind;
                }
                (b'\\', _) => {
                    let (digits, behind) = behind.split_at_checked(2)?;
                    bytes.push(pair(digits)?);
                    rest = behind;
                }
                _ => bytes.push(*byte),
            }
        }
        Some(bytes)
    }
}

/// Writes sections.
pub struct Writer<W> {
    to: W,
    form: Form,
    line: Vec<u8>,
}

impl<W: Write> Writer<W> {
    pub fn new(to: W, form: Form) -> Self {
        Writer {
            to,
            form,
            line: Vec::new(),
        }
    }

    /// Writes the first lines of a table's section.
    pub fn begin(&mut self, table: &str) -> io::Result<()> {
        let form = match self.form {
            Form::Hex => "bytevalue",
            Form::Print => "print",
        };
        self.line.clear();
        Form::Print.encode(table.as_bytes(), &mut self.line);
        writeln!(self.to, "VERSION=3\nformat={form}")?;
        self.to.write_all(b"database=")?;
        self.to.write_all(&self.line)?;
        self.to.write_all(b"\ntype=btree\nHEADER=END\n")
    }

    /// Writes a record.
    pub fn record(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.line.clear();
        for bytes in [key, value] {
            self.line.push(b' ');
            self.form.encode(bytes, &mut self.line);
            self.line.push(b'\n');
        }
        self.to.write_all(&self.line)
    }

    /// Writes the last line of a section.
    pub fn end(&mut self) -> io::Result<()> {
        self.to.write_all(b"DATA=END\n")
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The header of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub table: Option<String>,
    /// Values without keys, to be numbered: of the types recno and queue.
    pub numbered: bool,
    form: Form,
}

/// Reads sections.
pub struct Reader<R> {
    from: R,
    line: Vec<u8>,
    number: u64,
    form: Form,
}

/// Description of an error in the text, with its line.
pub type Wrong = String;
/// A key and its value.
pub type Record = (Vec<u8>, Vec<u8>);

impl<R: BufRead> Reader<R> {
    pub fn new(from: R) -> Self {
        Reader {
            from,
            line: Vec::new(),
            number: 0,
            form: Form::Hex,
        }
    }

    /// Reads the next line, without its end. Returns false at the end of the text.
    fn next(&mut self) -> Result<bool, Wrong> {
        self.line.clear();
        self.number += 1;
        let read = io::Read::take(&mut self.from, LONGEST).read_until(b'\n', &mut self.line);
        let bytes = read.map_err(|error| error.to_string())?;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if bytes as u64 == LONGEST {
            return Err(self.wrong("it is too long"));
        }
        Ok(bytes > 0)
    }

    fn wrong(&self, what: &str) -> Wrong {
        format!("line {}: {what}", self.number)
    }

    /// The header of the next section; `None` after the last one.
    pub fn header(&mut self) -> Result<Option<Header>, Wrong> {
        if !self.next()? {
            return Ok(None);
        }
        if !matches!(self.line.as_slice(), b"VERSION=2" | b"VERSION=3") {
            return Err(self.wrong("it is not VERSION=3, with which a dump begins"));
        }
        let mut header = Header {
            table: None,
            numbered: false,
            form: Form::Hex,
        };
        loop {
            if !self.next()? {
                return Err(self.wrong("the dump ends within a header"));
            }
            let Some(at) = self.line.iter().position(|byte| *byte == b'=') else {
                return Err(self.wrong("it is not `name=value`"));
            };
            let (name, value) = (&self.line[..at], &self.line[at + 1..]);
            match (name, value) {
                (b"HEADER", b"END") => break,
                (b"format", b"bytevalue") => header.form = Form::Hex,
                (b"format", b"print") => header.form = Form::Print,
                (b"format", _) => return Err(self.wrong("an unknown format")),
                (b"database" | b"subdatabase", name) => {
                    let name = Form::Print.decode(name);
                    let name = name.and_then(|name| String::from_utf8(name).ok());
                    header.table = Some(name.ok_or_else(|| self.wrong("a name that is no text"))?);
                }
                (b"type", b"btree" | b"hash") => header.numbered = false,
                (b"type", b"recno" | b"queue") => header.numbered = true,
                (b"type", _) => return Err(self.wrong("an unknown type of database")),
                (b"duplicates" | b"dupsort", b"1") => {
                    let what = "a table has one value for a key; load it where keys are unique";
                    return Err(self.wrong(what));
                }
                (b"keys", b"1") if header.numbered => {
                    return Err(self.wrong("dump records by number without their keys"));
                }
                // Details of Berkeley DB's storage.
                _ => {}
            }
        }
        self.form = header.form;
        Ok(Some(header))
    }

    /// The next line of data; `None` after the last one of the section.
    pub fn item(&mut self) -> Result<Option<Vec<u8>>, Wrong> {
        if !self.next()? {
            return Err(self.wrong("the dump ends within a table; it is cut off"));
        }
        let Some(text) = self.line.strip_prefix(b" ") else {
            return match self.line.as_slice() == b"DATA=END" {
                true => Ok(None),
                false => Err(self.wrong("it begins neither with a space nor is it DATA=END")),
            };
        };
        match self.form.decode(text) {
            Some(bytes) => Ok(Some(bytes)),
            None => Err(self.wrong("these are not bytes in the format of its header")),
        }
    }

    /// The next record of a section with keys.
    pub fn record(&mut self) -> Result<Option<Record>, Wrong> {
        let Some(key) = self.item()? else {
            return Ok(None);
        };
        match self.item()? {
            Some(value) => Ok(Some((key, value))),
            None => Err(self.wrong("the last key has no value")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_either_form() {
        let all: Vec<u8> = (0..=255).chain(*b"\\5c\\\\\n").collect();
        for form in [Form::Hex, Form::Print] {
            let mut text = Vec::new();
            form.encode(&all, &mut text);
            assert!(!text.contains(&b'\n'));
            assert_eq!(form.decode(&text).as_ref(), Some(&all));
        }
        for wrong in ["0", "0g", "é"] {
            assert_eq!(Form::Hex.decode(wrong.as_bytes()), None, "{wrong}");
        }
        for wrong in ["\\", "\\4", "\\xy"] {
            assert_eq!(Form::Print.decode(wrong.as_bytes()), None, "{wrong}");
        }
    }

    type Section = (Header, Vec<Vec<u8>>);

    fn all(text: &[u8]) -> Result<Vec<Section>, Wrong> {
        let mut reader = Reader::new(text);
        let mut sections = Vec::new();
        while let Some(header) = reader.header()? {
            let mut items = Vec::new();
            match header.numbered {
                true => std::iter::from_fn(|| reader.item().transpose())
                    .try_for_each(|item| item.map(|item| items.push(item)))?,
                false => {
                    while let Some((key, value)) = reader.record()? {
                        items.extend([key, value]);
                    }
                }
            }
            sections.push((header, items));
        }
        Ok(sections)
    }

    #[test]
    fn what_is_written_is_read() {
        let mut text = Vec::new();
        let mut writer = Writer::new(&mut text, Form::Print);
        writer.begin("a\nb").unwrap();
        writer.record(b"", b"\0 ").unwrap();
        writer.end().unwrap();
        let read = all(&text).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].0.table.as_deref(), Some("a\nb"));
        assert_eq!(read[0].1, [b"".to_vec(), b"\0 ".to_vec()]);
        // Each proper part of it is refused, and no byte removed or changed causes a
        // panic.
        for cut in 1..text.len() - 1 {
            assert!(all(&text[..cut]).is_err(), "{cut}");
            let mut changed = text.clone();
            changed[cut] ^= 0x41;
            let _ = all(&changed);
            changed.remove(cut);
            let _ = all(&changed);
        }
    }

    #[test]
    fn dumps_of_berkeley_db_are_read() {
        let recno = "VERSION=3\nformat=print\ntype=recno\nre_len=4\ndb_pagesize=4096\n\
                     HEADER=END\n one\n t\\00o\nDATA=END\n";
        let read = all(recno.as_bytes()).unwrap();
        assert!(read[0].0.numbered && read[0].0.table.is_none());
        assert_eq!(read[0].1, [b"one".to_vec(), b"t\0o".to_vec()]);
        let twice = "VERSION=3\ntype=btree\nduplicates=1\nHEADER=END\nDATA=END\n";
        assert!(all(twice.as_bytes()).unwrap_err().contains("line 3"));
    }
}
