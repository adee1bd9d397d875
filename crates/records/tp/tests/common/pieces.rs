//! A storage in which half of a write to the file `pages` is visible to other threads.

use std::io;
use std::sync::Arc;
use varve_tp::storage::{Storage, StoredFile};

#[derive(Debug)]
pub struct InPieces<T>(pub T);

impl<T: Storage> Storage for InPieces<T> {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn StoredFile>> {
        let file = self.0.open(name, create)?;
        match name {
            "pages" => Ok(Arc::new(InPiecesFile(file))),
            _ => Ok(file),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn lock(&self) -> io::Result<()> {
        self.0.lock()
    }
}

#[derive(Debug)]
struct InPiecesFile(Arc<dyn StoredFile>);

impl StoredFile for InPiecesFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        for (number, piece) in (0..).zip(bytes.chunks(2048)) {
            self.0.write_at(offset + number * 2048, piece)?;
            std::thread::yield_now();
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.0.truncate(bytes)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
}
