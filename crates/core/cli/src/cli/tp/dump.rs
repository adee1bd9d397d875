//! `varve tp dump`: tables as text.

use super::place::Place;
use super::text::{Form, TYPES, Writer};
use crate::cli::output::{Failure, Outcome};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use varve_tp::{Environment, Error};

/// Write tables as text, in the format of Berkeley DB's db_dump.
///
/// `varve tp load` and db_load read it. All tables are of one moment. The environment is
/// not changed; the recovery after a crash is done in memory. Indices are left out: a
/// program that opens their tables for writing makes them anew.
#[derive(clap::Args)]
pub struct Dump {
    #[command(flatten)]
    place: Place,
    /// Only this table; may be given several times.
    #[arg(long, value_name = "NAME")]
    table: Vec<String>,
    /// Destination; `-` is the standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    to: PathBuf,
    /// Write printable characters as they are, other bytes as hex digits.
    #[arg(short, long)]
    print: bool,
}

/// The reason why a dump ends early.
enum Stopped {
    Store(Error),
    Text(io::Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Stopped::Store(error)
    }
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Stopped::Text(error)
    }
}

impl Dump {
    pub fn run(self) -> Outcome {
        let opened = self.place.read()?;
        let mut names = match self.table.is_empty() {
            true => opened.environment.tables(),
            false => self.table.clone(),
        };
        let is_index = |name: &String| {
            let types = opened.environment.table_types(name);
            types.is_some_and(|types| varve_tp::indexed_table(&types).is_some())
        };
        if let Some(index) = self.table.iter().find(|name| is_index(name)) {
            let what = format!("{index:?} is an index, and made anew from its table");
            return Err(self.place.failed(what));
        }
        names.retain(|name| !is_index(name));
        if names.iter().any(|name| name == TYPES) {
            let what = format!("a table is called {TYPES}, which is what dumps call types");
            return Err(self.place.failed(what));
        }
        let form = match self.print {
            true => Form::Print,
            false => Form::Hex,
        };
        let shown = self.to.display();
        let unwritten = |error: io::Error| {
            let text = format_args!("cannot write the dump to {shown}: {error}");
            Failure::new(1, text)
        };
        let to: Box<dyn Write> = match self.to.as_os_str() == "-" {
            true => Box::new(io::stdout().lock()),
            false => Box::new(File::create(&self.to).map_err(unwritten)?),
        };
        let mut writer = Writer::new(BufWriter::with_capacity(1 << 18, to), form);
        match write(&opened.environment, &names, &mut writer) {
            Ok(()) => {}
            Err(Stopped::Store(error)) => return Err(self.place.failed(error)),
            // As in `| head`.
            Err(Stopped::Text(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
            Err(Stopped::Text(error)) => return Err(unwritten(error)),
        }
        opened.close()?;
        Ok(0)
    }
}

fn write(
    environment: &Environment,
    names: &[String],
    writer: &mut Writer<impl Write>,
) -> Result<(), Stopped> {
    let transaction = environment.begin_read();
    writer.begin(TYPES)?;
    for name in names {
        let types = environment.table_types(name);
        let types = types.ok_or_else(|| Error::NoTable(name.clone()))?;
        writer.record(name.as_bytes(), types.as_bytes())?;
    }
    writer.end()?;
    for name in names {
        writer.begin(name)?;
        for row in transaction.open_raw(name)?.iter()? {
            let (key, value) = row?;
            writer.record(&key, &value)?;
        }
        writer.end()?;
    }
    Ok(writer.flush()?)
}
