//! Allocation of block numbers for new nodes. The root keeps the list.

use super::node::{BLOCKS_END, FREE_NUMBERS, RootHeader};
use super::{DirectoryBlocks, Key};
use crate::error::{Error, Result};
use zerocopy::FromZeros;

/// The unused block numbers of a directory.
pub(super) struct Numbers {
    pub next_block: u64,
    pub free: Vec<u64>,
}

impl Numbers {
    pub fn of(key: &Key, header: &RootHeader) -> Result<Numbers> {
        let next_block = header.next_block.get();
        let listed = header.free.get(..usize::from(header.free_count.get()));
        let listed = listed.unwrap_or(&[]);
        let mut free: Vec<u64> = Vec::with_capacity(FREE_NUMBERS);
        for number in listed.iter().map(|number| number.get()) {
            if !(1..next_block).contains(&number) || free.contains(&number) {
                return Err(Self::damaged(key, number));
            }
            free.push(number);
        }
        if free.len() != usize::from(header.free_count.get()) {
            return Err(key.damaged("directory block 0: too many free numbers".to_owned()));
        }
        Ok(Numbers { next_block, free })
    }

    pub fn damaged(key: &Key, number: u64) -> Error {
        key.damaged(format!(
            "directory block 0: block {number} is both in use and free, or neither"
        ))
    }

    pub fn header(&self) -> RootHeader {
        let mut header = RootHeader::new_zeroed();
        header.next_block = self.next_block.into();
        header.free_count = (self.free.len() as u16).into();
        for (to, from) in header.free.iter_mut().zip(&self.free) {
            *to = (*from).into();
        }
        header
    }

    /// Allocates a number for a new node. The file is asked whether the number is indeed
    /// unused, because a damaged root could otherwise destroy a sound node.
    pub fn allocate(
        &mut self,
        key: &Key,
        blocks: &mut (impl DirectoryBlocks + ?Sized),
    ) -> Result<u64> {
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.next_block < BLOCKS_END => {
                self.next_block += 1;
                self.next_block - 1
            }
            None => return Err(Error::NoSpace),
        };
        if blocks.exists(number)? {
            return Err(Self::damaged(key, number));
        }
        Ok(number)
    }

    /// Frees a node's number. The highest number is freed by lowering `next_block`; of
    /// lower ones, as many are listed as fit.
    pub fn release(&mut self, key: &Key, number: u64) -> Result<()> {
        if !(1..self.next_block).contains(&number) || self.free.contains(&number) {
            return Err(Self::damaged(key, number));
        }
        if number + 1 < self.next_block {
            if self.free.len() < FREE_NUMBERS {
                self.free.push(number);
            }
            return Ok(());
        }
        self.next_block = number;
        while let Some(at) = self.free.iter().position(|n| n + 1 == self.next_block) {
            self.free.swap_remove(at);
            self.next_block -= 1;
        }
        Ok(())
    }
}
