//! What a partial on its way serves and covers.

use super::*;
use varve_device::Block;

const BLOCK: usize = 4096;

/// A partial of two sectors and four blocks, padding of two sectors and a plug, and what
/// each of its sectors has.
fn partial() -> (InFlight, Vec<(u64, u8)>) {
    let mut buffer = AlignedBuffer::zeroed(4 * 512);
    for (nth, sector) in buffer.chunks_mut(512).enumerate() {
        sector.fill(1 + nth as u8);
    }
    let mut bytes = PartialBytes::new(buffer, 1024);
    let blocks = [
        Block::from(&vec![11; BLOCK][..]),
        Block::from(vec![12; 100]),
        Block::from(vec![13; BLOCK]),
        Block::from(&vec![14; BLOCK][..]),
    ];
    for block in blocks {
        bytes.push(&block.into(), BLOCK);
    }
    let mut plug = AlignedBuffer::default();
    plug.extend_from_slice(&[21; BLOCK]);
    let mut sectors: Vec<u8> = vec![1, 2];
    for block in [11, 0, 13, 14] {
        sectors.extend([block; 8]);
    }
    sectors.extend([3, 4]);
    let own = (100..).zip(sectors);
    let all = own.chain((300..308).map(|sector| (sector, 21)));
    let partial = InFlight {
        serial: 1,
        sector: 100,
        bytes,
        plugs: vec![(300, plug)],
    };
    (partial, all.collect())
}

#[test]
fn a_partial_on_its_way_serves_what_it_has_from_wherever_that_lies() {
    let (partial, sectors) = partial();
    assert_eq!(partial.total_bytes(), sectors.len() * 512);
    let gathered: Vec<u8> = partial.bytes.slices().flatten().copied().collect();
    assert_eq!(gathered.len(), partial.bytes.bytes());
    // The second block had a hundred bytes.
    assert_eq!(
        (gathered[1024 + BLOCK + 99], gathered[1024 + BLOCK + 100]),
        (12, 0)
    );
    let find = |sector| sectors.iter().find(|(at, _)| *at == sector);
    for first in (95..140).chain(295..312) {
        for count in 1..20 {
            let mut read = vec![99; count * 512];
            partial.overlay(first, &mut read);
            let mut all = true;
            for (sector, read) in (first..).zip(read.chunks(512)) {
                let want = find(sector).map(|(_, byte)| *byte);
                all &= want.is_some();
                // Where the second block begins are its hundred bytes.
                assert_eq!(read[511], want.unwrap_or(99), "sector {sector}");
            }
            assert_eq!(partial.covers(first, count * 512), all);
            let any = (first..first + count as u64).any(|sector| find(sector).is_some());
            assert_eq!(partial.overlaps(&(first..first + count as u64)), any);
        }
    }
}
