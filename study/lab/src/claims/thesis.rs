//! Claims of Seltzer's thesis, 1992.

use super::Claim;
use super::Paper::Thesis;

/// Chapters 3, 4, 5 and 7.
pub(super) const CLAIMS: &[Claim] = &[
    Claim::new(
        "A1",
        Thesis,
        "§3.3.1, table 3-4",
        "binary buddy allocation: fragmentation and throughput under three workloads",
        [
            "internal / external / application / sequential, in %: SC 43.1 / 13.4 / 88.0 / 94.4, \
             TP 15.2 / 9.0 / 27.7 / 93.9, TS 18.4 / 2.3 / 8.4 / 12.0",
            "each within 25 % or 5 points",
        ],
    )
    .because(
        "27.7 % of TP cannot be had from the drives of table 3-1 in order of arrival, and \
         with the workload of the text no reading of it has half of SC's room held and \
         unused; what the thesis counted or left out is not known.",
    ),
    Claim::new(
        "A2",
        Thesis,
        "§3.3.2, figures 3-2 and 3-3",
        "restricted buddy allocation: block sizes, grow factor, clustering",
        [
            "fragmentation at most 6 %; grow factor 2 takes a third off the internal one; five \
             sizes gain 25 % on SC and 20 % on TP; clustering up to 20 % on TS",
            "each direction and bound holds",
        ],
    )
    .because(
        "A file of 96 KB in blocks of 64 KB wastes more than the bound by itself. On a new \
         volume small blocks are contiguous, so sizes have little to gain; with files in the \
         region of their directory clustering loses 10 % on TS.",
    ),
    Claim::new(
        "A3",
        Thesis,
        "§3.3.3, figure 3-5, table 3-7",
        "extents: first fit and best fit with one to five ranges of sizes",
        [
            "fragmentation below 4 %; best fit fragments less, first fit is faster",
            "directions hold; extents for each file within 40 % of table 3-7",
        ],
    )
    .because(
        "Extents for each file are met in 14 of 15 cells; a TS file with one range has \
         9.3 of them, and 5.0 if requests are counted. Best fit fragments less on TS \
         alone.",
    ),
    Claim::new(
        "A4",
        Thesis,
        "§3.4, figures 3-6 and 3-7",
        "binary and restricted buddies, extents and fixed blocks compared",
        [
            "policies of many blocks near the maximum on SC and TP in sequence, all at most 20 % \
             on TS; up to 250 % over fixed blocks on large files; about 10 % on TP",
            "directions and bounds hold",
        ],
    )
    .because(
        "Fixed blocks that are placed as FFS does are contiguous on a new volume, so others \
         are hardly ahead; from a shuffled list they are 250 to 580 % behind. The thesis \
         gives neither clusters nor age.",
    ),
    Claim::new(
        "M1",
        Thesis,
        "§4.5.1, figure 4-4",
        "five transaction models, bound by the processor",
        [
            "saturation at 4.1 (USER-LFS), 3.6 (USER-RO), 3.3 (LFS-NOLOG), 3.0 (OS-RO) \
             transactions a second; user and OS 17 to 20 % apart",
            "rates within 15 %, gaps within 5 points",
        ],
    ),
    Claim::new(
        "M2",
        Thesis,
        "§4.5.1, figure 4-5",
        "what a system call costs, swept",
        [
            "12 % apart at 0.25 ms",
            "within 4 points; linear as 1 + 0.4 S",
        ],
    )
    .because(
        "With the costs of table 4-1 and 112 locks in a transaction the thesis's own formula \
         gives 9.9 % at 0.25 ms; measured are 10.1 % for LFS and 8.4 for RO. RO is lower as its \
         processor is busy for 85 % of the time only: reads wait while a checkpoint writes. \
         Without checkpoints, or with reads that go before such writes, it is busy for 99.8 % and \
         more, and RO has 9.9 %, too.",
    ),
    Claim::new(
        "M3",
        Thesis,
        "§4.5.2, figure 4-6",
        "five transaction models, bound by the disk",
        [
            "9.4 (USER-LFS) and 7.2 (USER-RO) transactions a second; user and OS equal; the log \
             below 1.2 % and random reads above 73 % of the time of I/O",
            "rates within 15 %, overlap within 3 %",
        ],
    ),
    Claim::new(
        "M4",
        Thesis,
        "§4.5.2, figure 4-7",
        "processors of 1, 2, 3 MIPS and more",
        [
            "the file system makes 10 to 12, 19 to 21, 22 % of the difference, the place of \
             transactions 19 to 20, 15 to 17, 0 %",
            "within 6 points",
        ],
    ),
    Claim::new(
        "M5",
        Thesis,
        "§4.5.3, figures 4-8 and 4-9",
        "skewed access with locks on pages",
        [
            "the OS models part at 70/30, OS-LFS falls from 80/20, USER-LFS has peaked at 90/10, \
             all but USER-RO collapse at 95/5; aborts rise with that",
            "turning points within one step",
        ],
    )
    .because(
        "Locks are waited for too seldom, so that OS-LFS rises until 90/10 and falls a step \
         or two later than in the thesis. What else its simulator waited for is not known.",
    ),
    Claim::new(
        "M6",
        Thesis,
        "§4.5.3, figures 4-10 to 4-14",
        "locks on parts of pages, pages of other sizes, modified locks on parts",
        [
            "with locks on parts at most 6 % apart on RO, less than 12 % on LFS; modified ones \
             cut aborts tenfold, beyond 90/10 to a tenth of the data managers', and pass those \
             at 99/1",
            "directions hold beyond chance (95 %), gaps within 5 points",
        ],
    )
    .because(
        "With tables 4-1 and 4-2 a transaction asks for 601 locks on subpages, for which 10 \
         MIPS give 9.6 transactions a second at most, below what the data managers reach. \
         And those do not collapse at 95/5 (M5), so they abort as little there as modified \
         subpages do.",
    ),
    Claim::new(
        "M7",
        Thesis,
        "§4.5",
        "the simulator against analytic bounds",
        [
            "every point was computed analytically, too, and the limits are approached; the 95 % \
             interval is about 2 % of the mean",
            "M7's own points by users lie between them, with intervals of 2 % (median) and at \
             most 3 %; those of M1 to M6 stand beside their claims",
        ],
    ),
    Claim::new(
        "X1",
        Thesis,
        "§5.3.1, figure 5-6",
        "TPC-B: at user level in place and on LFS, and embedded in LFS",
        [
            "12.3 and 13.6 transactions a second (10 % more); embedded as fast once \
             synchronisation costs the same",
            "5 to 30 % more; embedded within 10 %",
        ],
    )
    .because(
        "Before any cleaning the log and the update in place are even (12.1 and 12.2 \
         transactions a second): writes of update in place, too, wait in memory and are \
         written in the order of the drive.",
    ),
    Claim::new(
        "X2",
        Thesis,
        "§5.3.2, figure 5-7",
        "what transactions cost programs that use none",
        [
            "a difference of 1 to 2 %",
            "at most 2 % of charged processor plus simulated disk",
        ],
    )
    .because(
        "Andrew takes 3.0 % longer: on a volume that has had transactions a call about a name \
         takes 3443 instructions more, because create and removal search the directory again. \
         The other two programs take at most 0.3 % longer.",
    ),
    Claim::new(
        "X3",
        Thesis,
        "§5.3.3, figures 5-8 and 5-9",
        "SCAN: reading in order of key after 100,000 transactions",
        [
            "in place about 50 % faster than LFS; they are even at about 134,300 transactions",
            "1044 s lost, within 40 %; even between 60,000 and 300,000; and at most 10 % with the \
             coalescing cleaner",
        ],
    )
    .because(
        "The scan loses 1143 s (1044 in the paper), but the log wins no time by a transaction \
         (X1), so that both are never even. How long the scan in place takes depends on what \
         the processor does for a record.",
    ),
    Claim::new(
        "X4",
        Thesis,
        "§5.3.1",
        "what transactions and reads feel of the cleaner",
        [
            "the cleaner of the time stopped everything for 30 to 60 s",
            "no stop of more than an access at worst beyond the writing of one segment",
        ],
    )
    .because(
        "Six of nine parts hold. At 7200 rpm the longest stall is 36 to 52 ms, where an \
         access takes 24: two requests of another thread, or a revolution more, are before \
         it.",
    ),
    Claim::new(
        "X5",
        Thesis,
        "§5.3.1, figure 5-6",
        "user level and kernel on LFS where every semaphore is a system call",
        [
            "two calls for each semaphore at user level, one in the kernel: that accounts for the \
             whole difference",
            "within 10 % of figure 5-6",
        ],
    )
    .underdetermined(
        "T1480",
        "the number of semaphore calls of a transaction, nor the cost of one on the DECstation",
    ),
    Claim::new(
        "B1",
        Thesis,
        "§7.3, figures 7-1 to 7-4",
        "raw bandwidth against the size of transfers: FFS, EFS, LFS",
        [
            "writes: EFS at the drive's own or above, FFS about 31 %, LFS below both under 1 MB; \
             reads: EFS and LFS within 3 %, FFS about 25 %",
            "within 7 points",
        ],
    )
    .because(
        "Below a cluster LFS is ahead of EFS: it writes data and inode by one request, EFS by \
         two. Its fsync of 64 KB takes 89 % of the write by EFS, where 90 are asked.",
    ),
    Claim::new(
        "B2",
        Thesis,
        "§7.4, figure 7-5",
        "10,000 files of 1 KB in 100 directories",
        [
            "LFS clearly ahead in create and delete; without fragments it reads about 30 % slower",
            "at least 4 x; the penalty is there without tails and gone with them",
        ],
    ),
    Claim::new(
        "B3",
        Thesis,
        "§7.5.1, table 7-3",
        "Andrew, one user, five phases",
        [
            "FFS 70.1, EFS 70.2, LFS 63.8, LFS with cleaner 63.6 s",
            "LFS 5 to 15 % better in total, phase 1 at least 4 x, the cleaner at most 2 %",
        ],
    )
    .because(
        "Totals and directories are as published. Compiling gains 0.6 to 0.8 s (1.5 to 1.9), \
         as the file system waits for less of it; copying against EFS 4.2 s (2.9).",
    ),
    Claim::new(
        "B4",
        Thesis,
        "§7.5.2, figures 7-6 and 7-7",
        "Andrew, one to eight users",
        ["EFS and LFS alike beyond four", "within 10 %"],
    )
    .because(
        "The log keeps the processor busy for 100 % with eight users, where the thesis has \
         80.",
    ),
    Claim::new(
        "B5",
        Thesis,
        "§7.6, tables 7-4 and 7-5",
        "OO1: lookup, insert, traverse forth and back",
        ["all equal", "within 5 %"],
    )
    .because(
        "Following connections is within 5 %. All three read the same pages; in the others the \
         log's windows of 16 KB bring some along, and what leads to them, which lies apart in \
         place. FFS spreads the file over four times the cylinders.",
    ),
    Claim::new(
        "B6",
        Thesis,
        "§7.7, tables 7-6 to 7-8",
        "Wisconsin, 32 queries",
        [
            "equal but for 3, 15 to 17 and 30 to 32, where LFS is 20 to 50 % faster",
            "each within 15 points of table 7-8; reading ahead without limit shown to be ruinous",
        ],
    )
    .because(
        "A query waits for the pages that it writes on FFS and EFS, where the thesis \
         continued. Looking at a few tuples the log is ahead, because it reads inode and map \
         from one place. Table 7-8 has a query (23) that takes six times as long on the log, \
         which the thesis does not explain.",
    ),
    Claim::new(
        "B7",
        Thesis,
        "§7.8, table 7-9",
        "TPC-B at 80 % utilisation",
        [
            "FFS 14.2, EFS 16.8, LFS 19.3 without cleaner, 11.6 with segments of 1 MB, 12.4 with \
             256 KB; cleaned segments 71 % full",
            "each within 20 % with the paper's cleaner; and Varve's best at least EFS, or 0.9 x a \
             bound that takes what a transaction writes to the log as given",
        ],
    )
    .because(
        "With a log on a drive of its own, on which nothing waits, each of the five is 16 to \
         26 ms a transaction too fast, about a rotation of that drive. The segments that are cleaned are as \
         published: 76 % full, one segment for 43 transactions, 80 % of the writes.",
    ),
    Claim::new(
        "B8",
        Thesis,
        "§7.9, tables 7-10 and 7-11",
        "supercomputers: bvi, ccm, les, venus",
        [
            "table 7-11; LFS writes 35 to 100 % better where transfers are small",
            "the direction of each row, throughput within 30 %",
        ],
    )
    .because(
        "All three are faster here than a machine of 1992 was, because a write counts when it \
         is queued: venus writes more than the bus carries.",
    ),
];
