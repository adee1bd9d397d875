//! A trace as a stream: read from its file once a pass, line by line, so that
//! its length does not matter.

use super::file_set::FileSet;
use super::format::{Format, Reader};
use super::lines::Line;
use super::records::{Event, Parsed};
use super::sample::Sample;
use super::zstd::{Frames, is_zstd};
use super::{TraceError, block_trace, mobigen};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Bytes by which a format is recognised.
const BEGINNING: u64 = 256 << 10;
/// Bytes of a line.
const LONGEST_LINE: u64 = 1 << 20;
/// Bytes of a trace whose lines must be sorted, which is read whole.
const LARGEST_SORTED: u64 = 64 << 20;

/// See the module's head. A file that zstd has compressed is read as it is.
#[derive(Debug, Clone)]
pub struct Source {
    path: PathBuf,
    name: String,
    format: Format,
    /// The text of the beginning, for readers that depend on it.
    beginning: String,
}

/// What a record is.
pub(super) enum Item<'a> {
    /// Of a block trace.
    Event(Event),
    /// Of a file trace: the files, after it was done.
    Files(&'a mut FileSet),
}

/// Takes records. False ends the reading.
pub(super) type Take<'a> = &'a mut dyn FnMut(Item<'_>) -> bool;

impl Source {
    /// Looks at a trace. Without a format it is recognised.
    ///
    /// # Errors
    /// It cannot be read, or is of no known format.
    pub fn open(path: &Path, format: Option<Format>) -> Result<Self, TraceError> {
        let name = path.file_name().unwrap_or(path.as_os_str());
        let mut source = Source {
            path: path.to_owned(),
            name: name.to_string_lossy().into_owned(),
            format: format.unwrap_or(Format::Strace),
            beginning: String::new(),
        };
        let mut bytes = Vec::new();
        let read = source.reader()?.take(BEGINNING).read_to_end(&mut bytes);
        read.map_err(|error| source.failed(error))?;
        if format.is_none() {
            let unknown = || TraceError::Format {
                name: source.name.clone(),
            };
            source.format = Format::of(&bytes).ok_or_else(unknown)?;
        }
        source.beginning = String::from_utf8_lossy(&bytes).into_owned();
        Ok(source)
    }

    /// The format it is read as.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The file's name, without its directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn failed(&self, source: std::io::Error) -> TraceError {
        TraceError::Io {
            path: self.path.clone(),
            source,
        }
    }

    fn wrong(&self, record: usize, what: &'static str) -> TraceError {
        TraceError::Record {
            name: self.name.clone(),
            record,
            what,
        }
    }

    fn reader(&self) -> Result<Box<dyn BufRead>, TraceError> {
        let file = File::open(&self.path).map_err(|error| self.failed(error))?;
        let mut reader = BufReader::with_capacity(128 << 10, file);
        let begins = reader.fill_buf().map_err(|error| self.failed(error))?;
        Ok(match is_zstd(begins) {
            true => Box::new(BufReader::with_capacity(128 << 10, Frames::of(reader))),
            false => Box::new(reader),
        })
    }

    /// Reads the trace from its beginning; the files of a sample, of file traces.
    pub(super) fn read(&self, sample: Sample, take: Take<'_>) -> Result<(), TraceError> {
        match self.format.reader(&self.beginning) {
            Some(Reader::Block(mut read)) => self.lines(&mut |line| {
                Ok(match read(line)? {
                    Some(event) => take(Item::Event(event)),
                    None => true,
                })
            }),
            Some(Reader::File(mut read)) => {
                let mut files = FileSet::of(sample);
                self.lines(&mut |line| {
                    read(&mut files, line)?;
                    Ok(take(Item::Files(&mut files)))
                })
            }
            None if self.format == Format::Vscsi => self.records(take),
            None => Ok(()),
        }
    }

    /// Reads a trace whose lines must be sorted first; nothing of another.
    pub(super) fn sorted(&self, sample: Sample) -> Result<Option<Parsed>, TraceError> {
        if self.format != Format::Mobigen {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let reader = self.reader()?.take(LARGEST_SORTED + 1);
        let read = { reader }.read_to_end(&mut bytes);
        read.map_err(|error| self.failed(error))?;
        if bytes.len() as u64 > LARGEST_SORTED {
            return Err(self.wrong(0, "its lines must be sorted, and it is too long for that"));
        }
        mobigen::read(&self.name, &bytes, FileSet::of(sample)).map(Some)
    }

    fn lines(
        &self,
        take: &mut dyn FnMut(&Line<'_>) -> Result<bool, TraceError>,
    ) -> Result<(), TraceError> {
        let mut reader = self.reader()?;
        let mut bytes = Vec::new();
        for record in 1.. {
            bytes.clear();
            let mut limited = (&mut reader).take(LONGEST_LINE);
            let length = limited.read_until(b'\n', &mut bytes);
            let length = length.map_err(|error| self.failed(error))?;
            if length == 0 {
                break;
            }
            if length as u64 == LONGEST_LINE {
                return Err(self.wrong(record, "the line is longer than a mebibyte"));
            }
            let text = std::str::from_utf8(&bytes);
            let text = text.map_err(|_| self.wrong(record, "it is not text"))?;
            let line = Line {
                name: &self.name,
                record,
                text: text.trim_end_matches(['\n', '\r']),
            };
            if !line.text.trim().is_empty() && !take(&line)? {
                break;
            }
        }
        Ok(())
    }

    fn records(&self, take: Take<'_>) -> Result<(), TraceError> {
        let mut reader = self.reader()?;
        let mut bytes = Vec::new();
        for record in 1.. {
            bytes.clear();
            let limited = (&mut reader).take(block_trace::VSCSI_BYTES as u64);
            let read = { limited }.read_to_end(&mut bytes);
            if read.map_err(|error| self.failed(error))? == 0 {
                break;
            }
            let request = block_trace::vscsi_record(&bytes);
            let request = request.map_err(|what| self.wrong(record, what))?;
            if !take(Item::Event(Event::Request(request))) {
                break;
            }
        }
        Ok(())
    }
}
