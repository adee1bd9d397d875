//! The possible contents after a crash of a file whose blocks are overwritten in place.
//!
//! Overwritten data is written to its place before anything records it. So a block may be
//! a mixture of its versions, including those of operations behind the moment, sector by
//! sector; also if units are larger, because a tail's place states how many sectors of
//! its last unit belong to the file. Other contents are possible only if the medium tore
//! the unit during a write.

use super::{Content, Version, describe};

/// Bytes of the smallest piece that belongs to one file.
const SECTOR: usize = 512;

/// The versions of which a block may be a mixture.
struct Mixture {
    own: Vec<Version>,
    /// Versions of later operations alone; zeros follow if one truncates the file.
    later: Vec<Version>,
    /// True if something was overwritten.
    changed: bool,
}

impl Mixture {
    /// Returns true if the file may contain `part`, `start` bytes into the block.
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
    /// Checks that a crash may leave `bytes` as the whole file, if blocks are overwritten
    /// in place: the length of each block is that of a version here, and each of its
    /// sectors is one of a version, including those in `later`. If a write was `torn`, a
    /// sector of an overwritten block may have any content, unless `is_known` returns
    /// true because it is a sector of some file.
    ///
    /// # Errors
    /// The block that is in no possible version.
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

    /// Returns true if a block has a sector of `bytes` in some version.
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
