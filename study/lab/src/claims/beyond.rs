//! What no paper claims, and what Varve wants to know.

use super::Claim;
use super::Paper::Beyond;

/// Goals of Varve's own.
pub(super) const CLAIMS: &[Claim] = &[
    Claim::new(
        "N1",
        Beyond,
        "recorded traces",
        "write amplification of every policy on every trace, and the oracle's",
        [
            "Varve's placement lowest on every trace, beside greedy, cost-benefit, WOLF and SepBIT",
            "lowest, or within 2 % of the best",
        ],
    ),
    Claim::new(
        "N2",
        Beyond,
        "zones and flash",
        "the policies on zones, and on a translation layer beneath: a log on a log",
        ["told, with the amplification of both", "told"],
    ),
    Claim::new(
        "N3",
        Beyond,
        "the summaries",
        "reading a file in the order of its segments after random updates",
        [
            "much faster than in the order of its blocks",
            "at least half of the rate before any update, which no order exceeds",
        ],
    )
    .because(
        "Reading by place has 20 to 40 % of the rate of a file that was never updated: each \
         stretch of one or two blocks is a request of its own, and loses a rotation.",
    ),
    Claim::new(
        "N4",
        Beyond,
        "the real log",
        "amplification on the real log, with one head and with several",
        [
            "greedy at the bound for uniform updates; life-classes 35 % below greedy where nine \
             in ten writes go to a tenth of the blocks",
            "within 10 % of the bound; at least 35 % below",
        ],
    ),
    Claim::new(
        "N5",
        Beyond,
        "recorded traces on the real log",
        "what a mounted log writes on every trace, beside the oracle",
        [
            "a mount by default writes hardly more than one that knows the future",
            "at least 0.85 of the oracle at 80, 90 and 95 %",
        ],
    )
    .because(
        "a volume of a thousand segments refuses to be filled to 95 %, as room is kept for what \
         waits in memory and for the next fold; on android-twitter at 90 % it is 0.84",
    ),
    Claim::new(
        "N6",
        Beyond,
        "what no paper says",
        "what the assumptions of the B, L and X series change",
        [
            "no claim that one is ahead hangs on them",
            "who is ahead by a tenth is not behind by one, whatever is changed",
        ],
    ),
    Claim::new(
        "S1",
        Beyond,
        "docs/design/snapshots.md",
        "what ten snapshots cost the cleaner: pinned segments, an address table, a history",
        [
            "with the history, hardly more than without snapshots",
            "at most 1.15 times the blocks written without, and less than with the others",
        ],
    ),
    Claim::new(
        "S2",
        Beyond,
        "thesis, ch. 8; N3 for one file",
        "reading a tree in the order of the log after random updates",
        [
            "much faster than file after file",
            "at least twice as fast on the drive of the papers",
        ],
    ),
    Claim::new(
        "S3",
        Beyond,
        "thesis, ch. 8",
        "what a backup by the cleaner reads in addition to the cleaner",
        [
            "the cleaner reads most of an image if its segments are freed once they are stored",
            "within a tenth of the image of the curve for uniform updates; if the image is \
             withheld, within a twentieth of the share that clean space allows",
        ],
    ),
];
