//! A persistent map from chunk numbers to chunks, with three levels of shared nodes.
//!
//! Invariants:
//! - Cloning copies one pointer per 16 MiB of address space in use, and no bytes.
//! - A node that another map also has is copied before it is changed.

use std::sync::Arc;

/// Size of a chunk, in bytes.
pub(crate) const CHUNK_BYTES: usize = 4096;
const FANOUT: usize = 64;
const LEAF_BITS: u32 = FANOUT.trailing_zeros();

/// The bytes of one chunk.
pub(crate) type Chunk = [u8; CHUNK_BYTES];

/// One level of the map: children, indexed by the next bits of the chunk number.
struct Node<T>([Option<Arc<T>>; FANOUT]);
type Leaf = Node<Chunk>;
type Middle = Node<Leaf>;

impl<T> Default for Node<T> {
    fn default() -> Self {
        Node([const { None }; FANOUT])
    }
}

impl<T> Clone for Node<T> {
    fn clone(&self) -> Self {
        Node(self.0.clone())
    }
}

/// The chunks by number; a chunk that is absent is all zeros.
#[derive(Clone, Default)]
pub(crate) struct ChunkMap {
    top: Vec<Option<Arc<Middle>>>,
}

fn path(number: u64) -> (usize, usize, usize) {
    let low = |value: u64| (value % FANOUT as u64) as usize;
    let top = usize::try_from(number >> (2 * LEAF_BITS)).expect("an address this machine can map");
    (top, low(number >> LEAF_BITS), low(number))
}

impl ChunkMap {
    pub(crate) fn get(&self, number: u64) -> Option<&Arc<Chunk>> {
        let (top, middle, leaf) = path(number);
        let middle = self.top.get(top)?.as_ref()?.0[middle].as_ref()?;
        middle.0[leaf].as_ref()
    }

    /// Returns the slot of a chunk, in nodes that belong to this map alone.
    pub(crate) fn slot(&mut self, number: u64) -> &mut Option<Arc<Chunk>> {
        let (top, middle, leaf) = path(number);
        if self.top.len() <= top {
            self.top.resize(top + 1, None);
        }
        let node = Arc::make_mut(self.top[top].get_or_insert_default());
        let node = Arc::make_mut(node.0[middle].get_or_insert_default());
        &mut node.0[leaf]
    }

    /// Returns one past the last chunk number that the map can contain without growing.
    pub(crate) fn bound(&self) -> u64 {
        (self.top.len() as u64) << (2 * LEAF_BITS)
    }

    /// Returns the chunks present, in ascending order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Arc<Chunk>)> {
        fn children<T>(node: &Node<T>) -> impl Iterator<Item = (u64, &Arc<T>)> {
            let present = |(index, child): (usize, _)| Some((index as u64, Option::as_ref(child)?));
            node.0.iter().enumerate().filter_map(present)
        }
        let middles = self.top.iter().enumerate();
        middles
            .filter_map(|(index, middle)| Some((index as u64, middle.as_ref()?)))
            .flat_map(|(top, node)| {
                children(node).map(move |(index, leaf)| ((top << LEAF_BITS) | index, leaf))
            })
            .flat_map(|(high, node)| {
                children(node).map(move |(index, chunk)| ((high << LEAF_BITS) | index, chunk))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_every_level_come_back_in_order() {
        let mut map = ChunkMap::default();
        let numbers = [0, 1, 63, 64, 4095, 4096, 1 << 20, (1 << 24) + 7];
        for &number in numbers.iter().rev() {
            *map.slot(number) = Some(Arc::new([number as u8; CHUNK_BYTES]));
        }
        let found: Vec<u64> = map.iter().map(|(number, _)| number).collect();
        assert_eq!(found, numbers);
        for number in numbers {
            assert_eq!(map.get(number).unwrap()[9], number as u8);
        }
        assert!(map.get(2).is_none());
        assert!(map.get(u64::MAX >> 12).is_none());
        assert!(map.bound() > *numbers.last().unwrap());
    }

    #[test]
    fn changing_a_clone_copies_one_path() {
        let mut map = ChunkMap::default();
        *map.slot(1) = Some(Arc::new([1; CHUNK_BYTES]));
        *map.slot(70) = Some(Arc::new([2; CHUNK_BYTES]));
        let mut fork = map.clone();
        *fork.slot(1) = None;
        assert!(map.get(1).is_some() && fork.get(1).is_none());
        assert!(Arc::ptr_eq(map.get(70).unwrap(), fork.get(70).unwrap()));
    }
}
