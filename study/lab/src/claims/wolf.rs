//! Claims of Wang & Hu 2002.

use super::Claim;
use super::Paper::Wolf;

/// The reordering write buffer.
pub(super) const CLAIMS: &[Claim] = &[
    Claim::new(
        "W1",
        Wolf,
        "§4.1, figures 4 and 5",
        "overall write cost against utilisation, LFS and WOLF with one adaptive cleaner",
        [
            "WOLF cheaper by up to 53 %, most when full; TPC-D worst for LFS",
            "on recorded traces: cheaper everywhere above 70 %; best gain at least 35 %",
        ],
    )
    .because(
        "WOLF gains on hot-and-cold files and on the virtual machine's disk, by 15 % at \
         most. Equal parts of a flush leave hot blocks in the inactive part, survivors \
         join it, and files that die within minutes have no history to be sorted by; the \
         paper does not say how it does better.",
    ),
    Claim::new(
        "W2",
        Wolf,
        "§4.1, figures 4 and 5",
        "two to four reordering buffers, LFS buffers of 256 to 1024 KB",
        ["little effect; larger buffers do not help LFS", "holds"],
    ),
    Claim::new(
        "W3",
        Wolf,
        "§4.1, figure 6",
        "segments of 64 KB to 4 MB at 95 %",
        [
            "256 to 1024 KB best",
            "the lowest point lies there, on recorded traces",
        ],
    )
    .because(
        "The adaptive cleaner plugs holes in small segments, which the formula counts as \
         a share of a segment and a disk would count as an access each.",
    ),
    Claim::new(
        "W4",
        Wolf,
        "§4.1, figure 7",
        "how full segments are at 80 %, LFS and WOLF",
        [
            "two modes with WOLF, not with LFS",
            "a higher coefficient of bimodality with WOLF, on recorded traces",
        ],
    )
    .because(
        "WOLF makes segments more bimodal on the virtual machine's disk alone, for the \
         reasons of W1.",
    ),
    Claim::new(
        "W5",
        Wolf,
        "§4.2, figures 8 and 9",
        "write and read response times at 90 % on two drives",
        [
            "writes 27 to 35.5 % better, reads about equal",
            "writes at least 20 % better, reads within 10 %",
        ],
    )
    .because(
        "The reason is not established: the write cost is lower with WOLF (W1), but a \
         flush of two buffers is two accesses, and what plugs holes is written in \
         requests of its own.",
    ),
    Claim::new(
        "W6",
        Wolf,
        "§2.3",
        "power cuts between the writes of a virtual segment",
        [
            "all of it is recovered or none, in order of arrival",
            "holds at every crash point",
        ],
    ),
    Claim::new(
        "W7",
        Wolf,
        "§2.2, figure 3",
        "lifetimes of bytes in four recorded workloads",
        [
            "of the data, more than 70 % of INS and Sitar and about 35 % of RES and Harp live \
             less than 10 minutes",
            "each trace within 5 points",
        ],
    )
    .underdetermined(
        "W145-150",
        "the four traces (INS, RES, Sitar, Harp), which cannot be had",
    ),
    Claim::new(
        "W8",
        Wolf,
        "§2.5",
        "cleaning while the file system is idle for five minutes",
        [
            "the cleaner runs when idle or above 80 %, at most 20 MB at a time",
            "as W1, with idle periods",
        ],
    )
    .underdetermined(
        "W173",
        "the idle periods of its workloads; no recorded trace at hand pauses for five minutes",
    ),
];
