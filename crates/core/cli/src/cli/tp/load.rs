//! `varve tp load`: loads tables from text.

use super::place::{Opened, Place};
use super::text::{Header, Reader, TYPES};
use crate::cli::output::{self, Failure, Outcome};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use varve_tp::{Durability, Options, WriteTransaction};

/// Records, and their bytes, after which a transaction is committed.
const TOGETHER: (u64, usize) = (4096, 4 << 20);

/// Load tables from text, in the format of Berkeley DB's db_dump.
///
/// Existing records get the new value, missing tables are made: with the types in a text
/// of `varve tp dump`, or as bytes, or with those of --types. Databases of Berkeley DB
/// with several values for a key are refused. Indices are skipped: a program that opens
/// their tables for writing makes them.
///
/// Records are committed a few thousand at a time, in the order of the text. If loading
/// fails, the message states how many were loaded; the same text may be loaded again, but
/// records without keys (of the types recno and queue) are then appended again.
#[derive(clap::Args)]
pub struct Load {
    #[command(flatten)]
    place: Place,
    /// Source; `-` is the standard input.
    #[arg(long, value_name = "FILE", default_value = "-")]
    from: PathBuf,
    /// The table, where the text does not name one.
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Types of tables that are made, where the text does not state them, such as `str ->
    /// u64`. Keys and values must be as these types are stored.
    #[arg(long, value_name = "TYPES")]
    types: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Records of a table, written a few at a time.
struct Filling<'o> {
    opened: &'o Opened,
    types: String,
    open: Option<WriteTransaction<'o>>,
    waiting: (u64, usize),
    done: &'o mut u64,
}

type Stopped = String;

impl<'o> Filling<'o> {
    fn put(&mut self, table: &str, key: Option<&[u8]>, value: &[u8]) -> Result<(), Stopped> {
        let environment = &self.opened.environment;
        let transaction = self.open.get_or_insert_with(|| environment.begin_write());
        let put = match key {
            Some(key) => transaction
                .open_raw(table, &self.types)
                .and_then(|open| open.insert(key, value).map(|_| ())),
            None => transaction
                .open_raw_records(table, &self.types)
                .and_then(|open| open.append(value).map(|_| ())),
        };
        put.map_err(|error| error.to_string())?;
        self.waiting.0 += 1;
        self.waiting.1 += key.map_or(0, <[u8]>::len) + value.len();
        match self.waiting.0 >= TOGETHER.0 || self.waiting.1 >= TOGETHER.1 {
            true => self.commit(),
            false => Ok(()),
        }
    }

    fn commit(&mut self) -> Result<(), Stopped> {
        if let Some(transaction) = self.open.take() {
            let committed = transaction.commit_with(Durability::Buffered);
            committed.map_err(|error| error.to_string())?;
            *self.done += self.waiting.0;
            self.waiting = (0, 0);
        }
        Ok(())
    }
}

impl Load {
    pub fn run(self) -> Outcome {
        let from: Box<dyn BufRead> = match self.from.as_os_str() == "-" {
            true => Box::new(BufReader::with_capacity(1 << 18, io::stdin())),
            false => {
                let shown = self.from.display();
                let file = File::open(&self.from).map_err(|error| {
                    Failure::new(1, format_args!("cannot read {shown}: {error}"))
                })?;
                Box::new(BufReader::with_capacity(1 << 18, file))
            }
        };
        let opened = self.place.open(false, &mut Options::new())?;
        let (mut done, mut tables) = (0, 0);
        if let Err(what) = self.load(&opened, Reader::new(from), &mut done, &mut tables) {
            // Records committed before are kept.
            opened.close()?;
            let text = format_args!("{what}; {done} records were loaded");
            return Err(self.place.failed(text));
        }
        opened.close()?;
        match self.json {
            true => output::json(&json!({"tables": tables, "records": done})),
            false => output::line(format_args!(
                "{}: {done} records of {tables} tables",
                self.place.shown()
            )),
        }
        Ok(0)
    }

    fn load(
        &self,
        opened: &Opened,
        mut reader: Reader<impl BufRead>,
        done: &mut u64,
        tables: &mut u64,
    ) -> Result<(), Stopped> {
        let mut types = BTreeMap::new();
        while let Some(header) = reader.header()? {
            if header.table.as_deref() == Some(TYPES) {
                while let Some((name, of)) = reader.record()? {
                    let text =
                        |bytes| String::from_utf8(bytes).map_err(|_| "types that are no text");
                    types.insert(text(name)?, text(of)?);
                }
                continue;
            }
            let table = header.table.as_ref().or(self.table.as_ref());
            let table = table.ok_or("the text names no table; give it with --table")?;
            let is_index = |types: &str| varve_tp::indexed_table(types).is_some();
            if types.get(table).is_some_and(|of| is_index(of)) {
                while reader.item()?.is_some() {}
                continue;
            }
            let types = self.types_of(opened, table, &header, &types);
            if is_index(&types) {
                return Err(format!("{table:?} is an index, and made from its table"));
            }
            let mut into = Filling {
                opened,
                types,
                open: None,
                waiting: (0, 0),
                done: &mut *done,
            };
            *tables += 1;
            into.make(table)?;
            match header.numbered {
                true => {
                    while let Some(value) = reader.item()? {
                        into.put(table, None, &value)?;
                    }
                }
                false => {
                    while let Some((key, value)) = reader.record()? {
                        into.put(table, Some(&key), &value)?;
                    }
                }
            }
            into.commit()?;
        }
        Ok(())
    }

    /// The types of the table, existing or new.
    fn types_of(
        &self,
        opened: &Opened,
        table: &str,
        header: &Header,
        told: &BTreeMap<String, String>,
    ) -> String {
        let told = told.get(table).or(self.types.as_ref()).cloned();
        let found = || opened.environment.table_types(table);
        told.or_else(found).unwrap_or_else(|| {
            match header.numbered {
                true => "records of [u8]",
                false => "[u8] -> [u8]",
            }
            .to_owned()
        })
    }
}

impl Filling<'_> {
    /// Makes the table, even if it gets no records.
    fn make(&mut self, table: &str) -> Result<(), Stopped> {
        let transaction = self.opened.environment.begin_write();
        let made = transaction.open_raw(table, &self.types).map(|_| ());
        let made = made.and_then(|()| transaction.commit_with(Durability::Buffered));
        made.map_err(|error| error.to_string())
    }
}
