//! Lists of numbers in a file system, each in a different part of it.
//!
//! | stored in | read by | appended to by |
//! |---|---|---|
//! | a page of a file | reading the page | writing the page |
//! | a quarter of a page | reading those bytes | writing those bytes |
//! | a file | reading the whole file | appending |
//! | the target of a symbolic link | looking up the name, then reading the link | creating another link under the name |
//! | an attribute of a file | reading the attribute | setting it |
//! | a row of names | looking up names until one is missing | creating a link under the next name |

use super::Fs;
use super::history::Object;
use varve_fs::{Caller, Error, FileFlags, InodeNo, Result};

const PAGE: u64 = 4096;
/// Length of a list in a page, in bytes: the count and 127 numbers.
const SPAN: usize = 1024;
const NUMBERS_MAX: usize = SPAN / 8 - 1;

/// Location of an object.
#[derive(Clone, Debug)]
enum Place {
    /// Bytes of a file: inode, offset and length.
    Bytes(InodeNo, u64, usize),
    File(InodeNo),
    Link(InodeNo, String),
    Attribute(InodeNo),
    /// A row of names. A reader must find that the next name is free to know that a name
    /// is the last.
    Row(InodeNo, String),
}

/// The objects of a volume.
#[derive(Clone, Debug)]
pub struct Objects {
    places: Vec<Place>,
}

impl Objects {
    /// Creates the objects, empty. If `protected`, operations outside of transactions
    /// wait for locks on their files.
    ///
    /// # Errors
    ///
    /// The same as those of the file system.
    pub fn make(fs: &Fs, protected: bool) -> Result<Objects> {
        let root = Caller::root();
        let home = fs.mkdir(&root, InodeNo::ROOT, b"home", 0o755)?.ino;
        if protected {
            let flags = FileFlags {
                protected: true,
                ..FileFlags::default()
            };
            fs.set_file_flags(&root, home, flags, None)?;
        }
        let file =
            |name: &str| Ok::<_, Error>(fs.mknod(&root, home, name.as_bytes(), 0o644, 0)?.ino);
        let mut places = Vec::new();
        for name in ["pages", "more"] {
            let ino = file(name)?;
            for page in 0..3 {
                fs.write(&root, ino, page * PAGE, &[0; PAGE as usize])?;
            }
            places.push(Place::Bytes(ino, 0, SPAN));
            let within = |quarter: u64| Place::Bytes(ino, PAGE + quarter * SPAN as u64, SPAN);
            places.extend((0..2).map(within));
        }
        for name in ["one", "other"] {
            places.push(Place::File(file(name)?));
            places.push(Place::Link(home, format!("link-{name}")));
            places.push(Place::Attribute(file(&format!("named-{name}"))?));
            places.push(Place::Row(home, format!("row-{name}")));
        }
        Ok(Objects { places })
    }

    /// Returns the number of objects.
    pub fn count(&self) -> u64 {
        self.places.len() as u64
    }

    /// Returns the list of an object.
    ///
    /// # Errors
    ///
    /// The same as those of the file system.
    pub fn read(&self, fs: &Fs, object: Object) -> Result<Vec<u64>> {
        let root = Caller::root();
        match &self.places[object as usize] {
            Place::Bytes(ino, at, bytes) => {
                let mut buffer = vec![0; *bytes];
                let read = fs.read(*ino, *at, &mut buffer)?;
                let mut numbers = words(&buffer[..read]);
                numbers.rotate_left(1);
                let count = numbers.pop().unwrap_or(0);
                numbers.truncate(usize::try_from(count).unwrap_or(usize::MAX));
                Ok(numbers)
            }
            Place::File(ino) => {
                let mut buffer = vec![0; 16 * PAGE as usize];
                let read = fs.read(*ino, 0, &mut buffer)?;
                Ok(words(&buffer[..read]))
            }
            Place::Link(home, name) => match fs.lookup(&root, *home, name.as_bytes()) {
                Ok(found) => Ok(from_text(&fs.readlink(found.ino)?)),
                Err(Error::NotFound) => Ok(Vec::new()),
                Err(error) => Err(error),
            },
            Place::Row(home, row) => {
                let mut numbers = Vec::new();
                loop {
                    let name = format!("{row}-{}", numbers.len());
                    match fs.lookup(&root, *home, name.as_bytes()) {
                        Ok(found) => numbers.extend(from_text(&fs.readlink(found.ino)?)),
                        Err(Error::NotFound) => return Ok(numbers),
                        Err(error) => return Err(error),
                    }
                }
            }
            Place::Attribute(ino) => match fs.getxattr(&root, *ino, b"user.list") {
                Ok(value) => Ok(words(&value)),
                Err(Error::NoAttribute) => Ok(Vec::new()),
                Err(error) => Err(error),
            },
        }
    }

    /// Returns true if appending to the object requires its previous content.
    pub fn reads_first(&self, object: Object) -> bool {
        !matches!(self.places[object as usize], Place::File(_))
    }

    /// Returns true if a read of the object outside of transactions is atomic.
    pub fn is_read_at_once(&self, object: Object) -> bool {
        !matches!(
            self.places[object as usize],
            Place::Link(..) | Place::Row(..)
        )
    }

    /// Appends a number. `before` is the list as it was read, for objects that require
    /// it. Returns false if the list is full.
    ///
    /// # Errors
    ///
    /// The same as those of the file system.
    pub fn append(&self, fs: &Fs, object: Object, before: &[u64], value: u64) -> Result<bool> {
        let root = Caller::root();
        if before.len() >= NUMBERS_MAX {
            return Ok(false);
        }
        let list = [before, &[value]].concat();
        match &self.places[object as usize] {
            Place::Bytes(ino, at, bytes) => {
                let mut buffer = to_bytes(&[&[list.len() as u64], &list[..]].concat());
                buffer.resize(*bytes, 0);
                fs.write(&root, *ino, *at, &buffer)?;
            }
            Place::File(ino) => {
                // One of the two calls locks the size of the file, and the other does
                // not.
                match value % 3 {
                    0 => drop(fs.append(&root, *ino, &value.to_le_bytes())?),
                    _ => drop(fs.append_in_turn(&root, *ino, &value.to_le_bytes())?),
                }
            }
            Place::Link(home, name) => {
                if !before.is_empty() {
                    fs.unlink(&root, *home, name.as_bytes())?;
                }
                fs.symlink(&root, *home, name.as_bytes(), &to_text(&list))?;
            }
            Place::Row(home, row) => {
                let name = format!("{row}-{}", before.len());
                fs.symlink(&root, *home, name.as_bytes(), &to_text(&[value]))?;
            }
            Place::Attribute(ino) => {
                fs.setxattr(&root, *ino, b"user.list", &to_bytes(&list), false, false)?;
            }
        }
        Ok(true)
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks_exact(8);
    let word = |word: &[u8]| u64::from_le_bytes(word.try_into().expect("8 bytes"));
    words.map(word).collect()
}

fn to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn to_text(list: &[u64]) -> Vec<u8> {
    let text: Vec<String> = list.iter().map(ToString::to_string).collect();
    text.join(",").into_bytes()
}

fn from_text(text: &[u8]) -> Vec<u64> {
    let text = String::from_utf8_lossy(text);
    // A word that is not a number becomes a number that no transaction writes.
    let number = |word: &str| word.parse().unwrap_or(u64::MAX);
    text.split(',').map(number).collect()
}
