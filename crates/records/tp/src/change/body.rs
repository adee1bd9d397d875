//! Changes as bytes.

use super::{Allocation, Chain, Change, kinds};
use crate::page::{Cell, Image};

const OVERFLOW: u32 = 1 << 31;

/// Appends fields.
struct Writer<'a>(&'a mut Vec<u8>);

impl Writer<'_> {
    fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u16(bytes.len() as u16);
        self.0.extend_from_slice(bytes);
        self
    }

    fn cell(&mut self, cell: Cell<'_>) -> &mut Self {
        self.u32(cell.length_field());
        self.0.extend_from_slice(cell.bytes);
        self
    }

    fn image(&mut self, image: Image<'_>) -> &mut Self {
        self.bytes(image.front).bytes(image.back)
    }

    fn meta(&mut self, meta: Allocation) -> &mut Self {
        self.u32(meta.count).u32(meta.free)
    }
}

/// Parses fields from the beginning; `None` if there are too few bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (now, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(now)
    }

    fn u16(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_le_bytes(bytes.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        let bytes = self.take(4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(length.into())
    }

    fn cell(&mut self) -> Option<Cell<'a>> {
        let length = self.u32()?;
        Some(Cell {
            overflow: length & OVERFLOW != 0,
            bytes: self.take((length & !OVERFLOW) as usize)?,
        })
    }

    fn image(&mut self) -> Option<Image<'a>> {
        Some(Image {
            front: self.bytes()?,
            back: self.bytes()?,
        })
    }

    fn meta(&mut self) -> Option<Allocation> {
        Some(Allocation {
            count: self.u32()?,
            free: self.u32()?,
        })
    }
}

impl<'a> Change<'a> {
    /// Appends the body, and returns the kind.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) -> u8 {
        self.write(&mut Writer(to));
        self.kind()
    }

    fn kind(&self) -> u8 {
        match self {
            Change::Insert { .. } => kinds::INSERT,
            Change::Delete { .. } => kinds::DELETE,
            Change::Patch { .. } => kinds::PATCH,
            Change::Replace { .. } => kinds::REPLACE,
            Change::Split { .. } => kinds::SPLIT,
            Change::Grow { .. } => kinds::GROW,
            Change::Post { .. } => kinds::POST,
            Change::Merge { .. } => kinds::MERGE,
            Change::Collapse { .. } => kinds::COLLAPSE,
            Change::Overflow { .. } => kinds::OVERFLOW,
            Change::Tree { .. } => kinds::TREE,
            Change::Free { .. } => kinds::FREE,
            Change::Commit { .. } => kinds::COMMIT,
            Change::Chains { .. } => kinds::CHAINS,
            Change::End => kinds::END,
            Change::Image { .. } => kinds::IMAGE,
        }
    }

    fn write(&self, to: &mut Writer<'_>) {
        match *self {
            Change::Insert { page, at, key, .. }
            | Change::Delete { page, at, key, .. }
            | Change::Patch { page, at, key, .. }
            | Change::Replace { page, at, key, .. } => {
                to.u32(page).u16(at).bytes(key);
                self.write_values(to);
            }
            Change::Split { .. }
            | Change::Grow { .. }
            | Change::Post { .. }
            | Change::Merge { .. }
            | Change::Collapse { .. } => self.write_structure(to),
            Change::Overflow {
                page,
                meta,
                next,
                bytes,
            } => _ = to.u32(page).meta(meta).u32(next).bytes(bytes),
            Change::Tree { root, table, meta } => _ = to.u32(root).u32(table).meta(meta),
            Change::Free { chain, free } => _ = to.u32(chain.first).u32(chain.last).u32(free),
            Change::Commit { chains } | Change::Chains { chains } => to.0.extend(chains),
            Change::End => {}
            Change::Image { page, image } => _ = to.u32(page).image(image),
        }
    }

    /// Appends the values of a change of a record; for other changes nothing.
    fn write_values(&self, to: &mut Writer<'_>) {
        match *self {
            Change::Insert { value, .. } => _ = to.cell(value),
            Change::Delete { old, .. } => _ = to.cell(old),
            Change::Patch {
                offset, old, new, ..
            } => _ = to.u32(offset).bytes(old).bytes(new),
            Change::Replace { old, new, .. } => _ = to.cell(old).cell(new),
            _ => {}
        }
    }

    /// Appends the fields of a change of the tree's structure; for other changes nothing.
    fn write_structure(&self, to: &mut Writer<'_>) {
        match *self {
            Change::Split {
                left,
                right,
                at,
                meta,
                fence,
                image,
            } => {
                to.u32(left).u32(right).u16(at);
                to.meta(meta).bytes(fence).image(image);
            }
            Change::Grow {
                root,
                child,
                meta,
                image,
            } => _ = to.u32(root).u32(child).meta(meta).image(image),
            Change::Post {
                page,
                at,
                key,
                child,
            } => _ = to.u32(page).u16(at).u32(child).bytes(key),
            Change::Merge {
                parent,
                at,
                left,
                right,
                free,
                image,
            } => {
                to.u32(parent).u16(at).u32(left).u32(right);
                to.u32(free).image(image);
            }
            Change::Collapse {
                root,
                child,
                free,
                image,
            } => _ = to.u32(root).u32(child).u32(free).image(image),
            _ => {}
        }
    }

    /// Parses the body of a record. `None` if the bytes are invalid.
    pub(crate) fn parse(kind: u8, body: &'a [u8]) -> Option<Self> {
        let mut from = Reader(body);
        let change = match kind {
            kinds::COMMIT | kinds::CHAINS => {
                let chains = from.take(body.len())?;
                match (kind, chains.len().is_multiple_of(8)) {
                    (kinds::COMMIT, true) => Change::Commit { chains },
                    (_, true) => Change::Chains { chains },
                    (_, false) => return None,
                }
            }
            kinds::END => Change::End,
            kinds::INSERT..=kinds::REPLACE => Self::parse_record(kind, &mut from)?,
            kinds::SPLIT..=kinds::COLLAPSE => Self::parse_structure(kind, &mut from)?,
            kinds::OVERFLOW => Change::Overflow {
                page: from.u32()?,
                meta: from.meta()?,
                next: from.u32()?,
                bytes: from.bytes()?,
            },
            kinds::IMAGE => Change::Image {
                page: from.u32()?,
                image: from.image()?,
            },
            kinds::TREE => Change::Tree {
                root: from.u32()?,
                table: from.u32()?,
                meta: from.meta()?,
            },
            kinds::FREE => Change::Free {
                chain: Chain {
                    first: from.u32()?,
                    last: from.u32()?,
                },
                free: from.u32()?,
            },
            _ => return None,
        };
        from.0.is_empty().then_some(change)
    }

    fn parse_record(kind: u8, from: &mut Reader<'a>) -> Option<Self> {
        let (page, at, key) = (from.u32()?, from.u16()?, from.bytes()?);
        Some(match kind {
            kinds::INSERT => Change::Insert {
                page,
                at,
                key,
                value: from.cell()?,
            },
            kinds::DELETE => Change::Delete {
                page,
                at,
                key,
                old: from.cell()?,
            },
            kinds::PATCH => Change::Patch {
                page,
                at,
                key,
                offset: from.u32()?,
                old: from.bytes()?,
                new: from.bytes()?,
            },
            _ => Change::Replace {
                page,
                at,
                key,
                old: from.cell()?,
                new: from.cell()?,
            },
        })
    }

    fn parse_structure(kind: u8, from: &mut Reader<'a>) -> Option<Self> {
        Some(match kind {
            kinds::SPLIT => Change::Split {
                left: from.u32()?,
                right: from.u32()?,
                at: from.u16()?,
                meta: from.meta()?,
                fence: from.bytes()?,
                image: from.image()?,
            },
            kinds::GROW => Change::Grow {
                root: from.u32()?,
                child: from.u32()?,
                meta: from.meta()?,
                image: from.image()?,
            },
            kinds::POST => Change::Post {
                page: from.u32()?,
                at: from.u16()?,
                child: from.u32()?,
                key: from.bytes()?,
            },
            kinds::MERGE => Change::Merge {
                parent: from.u32()?,
                at: from.u16()?,
                left: from.u32()?,
                right: from.u32()?,
                free: from.u32()?,
                image: from.image()?,
            },
            _ => Change::Collapse {
                root: from.u32()?,
                child: from.u32()?,
                free: from.u32()?,
                image: from.image()?,
            },
        })
    }
}
