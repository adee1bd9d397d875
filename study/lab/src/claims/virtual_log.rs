//! Claims of Wang, Anderson & Patterson 1999.

use super::Claim;
use super::Paper::VirtualLog;

/// Models, and the virtual log disk.
pub(super) const CLAIMS: &[Claim] = &[
    Claim::new(
        "V1",
        VirtualLog,
        "§2.2, figure 1",
        "eager writing in one cylinder: the model (4) against simulation",
        [
            "the curves agree; equation (1): 4 sectors at 80 %",
            "mean error at most 10 %",
        ],
    ),
    Claim::new(
        "V2",
        VirtualLog,
        "§2.3, figure 2",
        "filling empty tracks to a threshold: the model (10) against simulation",
        [
            "the curves agree and have a lowest point inside",
            "mean error at most 15 %",
        ],
    ),
    Claim::new(
        "V3",
        VirtualLog,
        "§4.2, equation (11)",
        "the size of a physical block against a logical one of 4 KiB",
        ["lowest where they are equal", "holds"],
    ),
    Claim::new(
        "V4",
        VirtualLog,
        "§5.1, figure 6",
        "1,500 files of 1 KB: update in place and LFS, on a disk and a virtual log disk",
        [
            "UFS several times as fast in create and delete on the virtual log disk, a little \
             slower in read; LFS alike on both",
            "directions hold; create at least 2 x",
        ],
    )
    .because(
        "Creating holds. With fragments of 1 KB the virtual log disk reads a block before it \
         writes a part of it, so removing gains 1.8 x, and four files share a block, so \
         reading is faster and not slower. With fragments of a block all parts hold; the \
         paper does not say how its disk writes a part of a block.",
    ),
    Claim::new(
        "V5",
        VirtualLog,
        "§5.2, figure 7",
        "a file of 10 MB in six phases",
        [
            "synchronous random writes far better on the virtual log disk; reading in sequence \
             after them poor",
            "directions hold",
        ],
    ),
    Claim::new(
        "V6",
        VirtualLog,
        "§5.3, figure 8",
        "random synchronous updates of 4 KB against utilisation",
        [
            "UFS on a disk slow and level; LFS with NVRAM falls once the file outgrows it, level \
             at 60 to 85 %; the virtual log disk low and nearly level",
            "the shapes hold",
        ],
    )
    .because(
        "The log takes 3.1 to 4.1 ms from 60 to 80 % and 5.2 ms at 85 %, so that the plateau \
         of the paper ends earlier here. All other parts are met.",
    ),
    Claim::new(
        "V7",
        VirtualLog,
        "§5.4, figures 9 and 10",
        "updates at 80 % on three generations of host and disk, by cause",
        [
            "less than 3 x as fast on HP and SPARCstation, about 10 x on Seagate and UltraSPARC",
            "2 to 3.5 x, and at least 7 x",
        ],
    )
    .because(
        "The third platform reaches 6.1 x with the placement of the paper: of 0.68 ms the \
         host, SCSI and the transfer take 0.52.",
    ),
    Claim::new(
        "V8",
        VirtualLog,
        "§5.5, figures 11 and 12",
        "bursts and idle intervals at 80 % (LFS: of what its reserve leaves)",
        [
            "LFS needs long idle intervals; the virtual log disk gains from each bit of them",
            "the shapes hold",
        ],
    ),
    Claim::new(
        "V9",
        VirtualLog,
        "§3.3, designed there and not built",
        "the file system on the virtual log beside UFS and LFS",
        [
            "at least UFS on a virtual log disk for small synchronous writes, at least LFS for \
             buffered ones",
            "both hold",
        ],
    ),
    Claim::new(
        "V10",
        VirtualLog,
        "§3.2",
        "recovery of the map: from the tail, from a checkpoint, and by scanning",
        ["all three give the same map", "equal byte for byte"],
    ),
];
