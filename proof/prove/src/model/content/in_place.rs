//! What a crash may leave of a file whose blocks are overwritten in place.
//!
//! Data that is written over goes to its place before anything says so: a block may
//! be a mixture of its versions, those of operations behind the moment included, sector
//! by sector: where units are larger, too, as a tail's place says how many sectors of
//! its last unit are the file's. It is nothing else, unless the medium tore the unit
//! that it was at.

use super::{Content, Version, describe};

/// What belongs to one file only.
const SECTOR: usize = 512;

/// The versions that a block may be a mixture of.
struct Mixture {
    own: Vec<Version>,
    /// Those of later operations alone; zeros follow where one cuts the file.
    later: Vec<Version>,
    /// Something was written over.
    changed: bool,
}

impl Mixture {
    /// Whether the file may hold `part`, `start` bytes into the block.
    fn has(&self, start: usize, part: &[u8]) -> bool {
        let end = start + part.len();
        let bytes = |version: &'_ Version| version.clone().unwrap_or_default();
        // A size never survives without its data.
        let reaches = |version: &Version| bytes(version).get(start..end) == Some(part);
        let cut = |version: &Version| {
            let bytes = bytes(version);
            let known = bytes.get(start..).unwrap_or_default();
            let (same, behind) = part.split_at(known.len().min(part.len()));
            known.starts_with(same) && behind.iter().all(|&byte| byte == 0)
        };
        self.own.iter().any(reaches) || self.later.iter().any(cut)
    }
}

impl Content {
    /// Whether a crash may leave `bytes` as the whole file, if blocks are overwritten in
    /// place: the length of each is that of a version here, and each of its sectors is a
    /// version's, of those in `later`, too. If a write was `torn`, a sector of a block
    /// that was written over may be anything that `is_known` does not know to be some
    /// file's.
    ///
    /// # Errors
    /// Says which block is in no possible version.
    pub fn explains_in_place(
        &self,
        bytes: &[u8],
        later: &[&Content],
        torn: bool,
        is_known: &dyn Fn(&[u8]) -> bool,
    ) -> Result<(), String> {
        let Err(error) = self.explains(bytes) else {
            return Ok(());
        };
        let size = bytes.len() as u64;
        let blocks = (self.blocks.len() as u64).max(size.div_ceil(self.block_bytes));
        for block in 0..blocks {
            let start = (block * self.block_bytes).min(size) as usize;
            let found = &bytes[start..start + self.length_in(size, block)];
            let mixture = self.mixture(block, later);
            let length = |version: &Version| version.as_deref().map_or(0, <[u8]>::len);
            if !mixture.own.iter().any(|own| length(own) == found.len()) {
                return Err(error);
            }
            for (nth, part) in found.chunks(SECTOR).enumerate() {
                let at = nth * SECTOR;
                if mixture.has(at, part) {
                    continue;
                }
                let known = is_known(part);
                if !torn || !mixture.changed || known {
                    let whose = if known { "some file's" } else { "nobody's" };
                    return Err(format!(
                        "{error}\nbyte {at} of block {block}: {whose} {}",
                        describe(part)
                    ));
                }
            }
        }
        Ok(())
    }

    fn versions(&self, block: u64) -> &[Version] {
        const NONE: &[Version] = &[None];
        self.blocks.get(block as usize).map_or(NONE, Vec::as_slice)
    }

    fn mixture(&self, block: u64, later: &[&Content]) -> Mixture {
        let own = self.versions(block).to_vec();
        let all = later.iter().flat_map(|content| content.versions(block));
        let later_alone = all.filter(|version| version.is_some() && !own.contains(version));
        let later_alone: Vec<Version> = later_alone.cloned().collect();
        let again = |content: &Content| content.again.contains(&block);
        let changed = again(self)
            || later.iter().any(|content| again(content))
            || own.iter().flatten().count() + later_alone.len() > 1;
        Mixture {
            own,
            later: later_alone,
            changed,
        }
    }

    /// True if a block has a sector of `bytes` in some version.
    pub fn has_sector_of(&self, bytes: &[u8]) -> bool {
        let sectors = || bytes.as_chunks::<SECTOR>().0.iter();
        let versions = self.blocks.iter().flatten().flatten();
        let mut known = versions.flat_map(|version| version.as_chunks::<SECTOR>().0);
        known.any(|known| *known != [0; SECTOR] && sectors().any(|sector| sector == known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const B: usize = 4096;

    fn settled(byte: u8, length: usize) -> Content {
        let mut content = Content::new(B as u64);
        content.write(0, &vec![byte; length]);
        content.settle();
        content
    }

    fn left(content: &Content, later: &[&Content], bytes: &[u8], torn: bool) -> bool {
        let other = settled(9, B);
        let known = |part: &[u8]| other.has_sector_of(part);
        let explained = content.explains_in_place(bytes, later, torn, &known);
        explained.is_ok()
    }

    #[test]
    fn overwritten_blocks_are_a_mixture_of_versions() {
        let before = settled(1, B);
        let mut after = before.clone();
        after.write(0, &[2; B]);
        let mut mixed = vec![1; B];
        mixed[512..1024].fill(2);
        assert!(left(&before, &[&after], &mixed, false));
        assert!(left(&after, &[], &mixed, false));
        assert!(!left(&before, &[], &mixed, true), "nothing was overwritten");
        mixed[600] = 3;
        assert!(!left(&after, &[], &mixed, false), "garbage, and no tear");
        assert!(left(&after, &[], &mixed, true));
        mixed[512..1024].fill(9);
        assert!(!left(&after, &[], &mixed, false));
        assert!(!left(&after, &[], &mixed, true), "another file's old data");
    }

    #[test]
    fn a_lengthened_tail_has_its_data() {
        let mut tail = settled(1, 600);
        tail.write(600, &[2; 1000]);
        let whole = tail.read(crate::operation::Range {
            offset: 0,
            length: 1600,
        });
        assert!(left(&tail, &[], &whole, false));
        let mut stale = whole.clone();
        stale[1024..1536].fill(9);
        assert!(!left(&tail, &[], &stale, false));
        assert!(!left(&tail, &[], &stale, true));
        let mut zeros = whole;
        zeros[600..].fill(0);
        assert!(!left(&tail, &[], &zeros, false), "a size without its data");
    }

    #[test]
    fn a_cut_that_nobody_acknowledged_leaves_zeros() {
        let before = settled(1, B);
        let mut cut = before.clone();
        cut.truncate(700);
        let mut bytes = vec![1; B];
        bytes[700..1024].fill(0);
        assert!(left(&before, &[&cut], &bytes, false));
        assert!(!left(&before, &[], &bytes, false));
    }
}
