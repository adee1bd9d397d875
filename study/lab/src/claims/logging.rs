//! Claims of Rosenblum & Ousterhout 1992, and of Seltzer et al. 1995.

use super::Claim;
use super::Paper::{Clustering, Lfs};

/// Cleaning and the log.
pub(super) const ROSENBLUM: &[Claim] = &[
    Claim::new(
        "R1",
        Lfs,
        "§5.1, figure 8",
        "small files: create, read and delete 10,000 of 1 KB, LFS against FFS",
        [
            "create and delete about ten times as fast on LFS, read as fast or faster",
            "create and delete 3.2 to 31.6 x, read at least 0.9 x",
        ],
    ),
    Claim::new(
        "R2",
        Lfs,
        "§5.1, figure 9",
        "a large file in five phases on 100 MB",
        [
            "LFS wins random writes by far and loses reading in sequence what was written at random",
            "random writes at least 4 x; reading again below 1 x",
        ],
    )
    .because(
        "FFS writes what waits in memory in the order of the disk, and so does better at random \
         than an arm that goes to each block in turn.",
    ),
    Claim::new(
        "R3a",
        Lfs,
        "§3.5, figure 4",
        "greedy cleaning: write cost against utilisation, uniform and hot-and-cold",
        [
            "with greedy cleaning, hot-and-cold costs more than uniform",
            "the order holds at every utilisation from 20 to 90 %",
        ],
    ),
    Claim::new(
        "R3b",
        Lfs,
        "§3.6, figure 7",
        "cost-benefit against greedy on hot-and-cold files, sorted by age",
        [
            "cheaper than greedy when full; below 4, FFS at its best, until some 80 %; the age is \
             that of the youngest block in the formula, of the segment in the usage table",
            "at least 25 % cheaper at 75 %, 35 % at 80 to 90 %; at most 4 at 75 %, by either age",
        ],
    ),
    Claim::new(
        "R3c",
        Lfs,
        "§3.6, figure 6",
        "how full segments are when cost-benefit cleans them",
        [
            "two modes: cold segments are cleaned at about 75 %, hot ones at about 15 %",
            "two modes; segments of survivors at 0.65 to 0.85 in the mean, those of users at 0.05 \
             to 0.30, by either age",
        ],
    ),
    Claim::new(
        "R4",
        Lfs,
        "§5.2, table 2",
        "long-term use: recorded traces, and months of home directories that are drawn",
        [
            "write cost 1.2 to 1.6; more than half of the cleaned segments are empty, the others \
             0.12 to 0.54 full",
            "write cost at most 1.6, at least half empty, on each recorded trace, by either age",
        ],
    )
    .because(
        "It holds on the file operations of an office and on the disk of a virtual machine. It does \
         not on two phones, whose databases of a few megabytes are synchronised at each transaction.",
    ),
    Claim::new(
        "R5",
        Lfs,
        "§5.3, table 3",
        "recovery time by size and number of files written since the checkpoint",
        [
            "grows with the number of files and with the amount of data",
            "monotone in both; a linear fit has R² of at least 0.95; 50 MB of 1 KB files in less \
             than 2 s",
        ],
    ),
    Claim::new(
        "R6",
        Lfs,
        "§5.4, table 4",
        "bytes by type of block, live and as bandwidth of the log",
        [
            "data are 98 % of what lives and 85.2 % of the log; inode map 7.8 %, summaries 0.5 %",
            "data at least 95 % of what lives; each type of metadata within 2 x of the table",
        ],
    )
    .because(
        "Data and metadata that live are as in the paper. A checkpoint every 30 seconds \
         follows on each 27 KB at the mean rate of /user6, and writes whole blocks of \
         maps; the paper's traffic came in bursts that nobody has recorded.",
    ),
];

/// Logging against clustering.
pub(super) const CLUSTERING: &[Claim] = &[
    Claim::new(
        "L1",
        Clustering,
        "§3, figures 3 to 6",
        "create, read, overwrite and delete 32 MB in files of 1 KB to 32 MB, LFS and two FFS",
        [
            "create 10 x at 1 KB, 4 x at 2 KB, 2 x at 32 KB, equal from 512 KB; read equal below \
             64 KB; overwrite ahead up to 256 KB; delete 10 x small, 3 to 4 x large",
            "each turning point within one step of size, factors within 40 %",
        ],
    )
    .because(
        "Processor time for a small file on the log is less than the 4.4BSD one had, so that \
         it is ahead by 30 x at 1 KB. The log removes large files faster, and overwrites \
         small ones as fast as FFS and not faster.",
    ),
    Claim::new(
        "L2",
        Clustering,
        "§4, figure 7",
        "TPC-B against utilisation, 48 to 90 %",
        [
            "LFS without cleaner 41 to 42.6 transactions a second, FFS about 28; the cleaner costs \
             34 % at 48 %, 41 % when fuller",
            "rates within 15 %, losses within 8 points; and Varve's best cleaner within 10 % of \
             the bound for uniform updates",
        ],
    )
    .because(
        "Without cleaner the log is a quarter faster: it seeks within the bank only, and writes no \
         indirect block with every second page. At 48 % segments are cleaned much emptier than the \
         paper reckons with. From 60 % on they are fuller than the bound has them, for which the \
         reserve is a part of the reason, and at 90 % there is no room. Smaller segments are \
         cleaned emptier; holes cost the arm more than they save; parting hot from cold gains 2 %.",
    ),
    Claim::new(
        "L3",
        Clustering,
        "§5, figure 8, table 5",
        "an aged FFS against an empty one",
        [
            "85 to 95 % of the empty one's speed, a news spool down to 71 %; files of 64 KB \
             suffer most",
            "the ranges hold",
        ],
    )
    .because(
        "the profiles of use are our own, fixed before anything was measured: news and accounts \
         come and go more than the paper's seem to have, whose numbers of files it does not give",
    ),
    Claim::new(
        "L4",
        Clustering,
        "§2, figures 1 and 2, table 2",
        "the micro-benchmarks of LFS against Sprite's figures, scaled",
        [
            "the shape of figures 1 and 2; rates of Sprite's machine, scaled by table 2, are those of \
             4.4BSD's; the processor is busy for 64 and 73 % on LFS, 5 to 6 % on FFS",
            "directions and orders of magnitude hold, scaled rates within 40 %, shares within 20 %",
        ],
    )
    .because(
        "The log continues while a segment is written, so that its processor is busy for 92 % \
         when files are made (64). FFS removes files and writes at random 1.5 and 1.8 times \
         as fast as the scaled figures; making is 1.26 times.",
    ),
    Claim::new(
        "L5",
        Clustering,
        "§5.3, §5.4, figure 8",
        "six file servers' volumes at four dates, against empty ones",
        [
            "most at 85 to 90 % of an empty file system, following utilisation and not age",
            "each volume within 5 points of figure 8",
        ],
    )
    .underdetermined(
        "C295-343",
        "the free-space bitmaps of the six volumes, nor the values drawn in the lost figure",
    ),
];
