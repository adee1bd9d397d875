//! Table 3-3: types of files, and what is done to them.
//!
//! Rows that the scan of the table lost are taken from the text of §3.1.2: the
//! time-sharing deletes and extends, the transaction files' extends and
//! truncates. The logs' extends are what is left of a hundred percent.

use super::Assumptions;

const KB: u64 = 1 << 10;
const MB: u64 = 1 << 20;

/// Where in a file a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// All of it.
    Whole,
    /// On from where the last one ended, around.
    Sequential,
    /// Anywhere, at multiples of the request's mean size.
    Random,
}

/// A type of files.
#[derive(Debug, Clone, Copy)]
pub struct FileType {
    /// Files.
    pub files: u32,
    /// Users, of the least whole numbers that have the table's shares of the
    /// requests.
    pub users: u32,
    /// Mean initial size (`i_size`).
    pub bytes: u64,
    /// Mean size of reads, writes, extends and truncates (`rw_size`, `t_size`).
    pub request_bytes: u64,
    /// Where they go.
    pub pattern: Pattern,
    /// Percent of the requests to this type that read.
    pub reads: u32,
    /// Write.
    pub writes: u32,
    /// Extend.
    pub extends: u32,
    /// Truncate.
    pub truncates: u32,
    /// Delete. What is left of a hundred percent.
    pub deletes: u32,
}

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Load {
    /// Supercomputer.
    Sc,
    /// Transaction processing.
    Tp,
    /// Time-sharing.
    Ts,
}

impl Load {
    /// In the order of table 3-4.
    pub const ALL: [Load; 3] = [Load::Sc, Load::Tp, Load::Ts];

    /// As the thesis abbreviates it.
    pub fn name(self) -> &'static str {
        match self {
            Load::Sc => "SC",
            Load::Tp => "TP",
            Load::Ts => "TS",
        }
    }

    /// Its types of files. A smaller scale has fewer small files, or smaller
    /// large ones.
    pub fn types(self, assumed: &Assumptions) -> Vec<FileType> {
        let mut types = match self {
            Load::Ts => TS.to_vec(),
            Load::Tp => TP.to_vec(),
            Load::Sc => SC.to_vec(),
        };
        if self == Load::Sc && assumed.text_deletes {
            let medium = &mut types[2];
            (medium.extends, medium.truncates, medium.deletes) = (5, 0, 5);
        }
        for kind in &mut types {
            match self {
                Load::Ts => kind.files /= assumed.scale as u32,
                Load::Tp | Load::Sc => kind.bytes /= assumed.scale,
            }
        }
        types
    }
}

const WHOLE: FileType = FileType {
    files: 0,
    users: 0,
    bytes: 0,
    request_bytes: 0,
    pattern: Pattern::Whole,
    reads: 0,
    writes: 0,
    extends: 0,
    truncates: 0,
    deletes: 0,
};

/// 87 and 13 % of the requests: 20 and 3 users.
const TS: [FileType; 2] = [
    FileType {
        files: 25_000,
        users: 20,
        bytes: 8 * KB,
        request_bytes: 8 * KB,
        reads: 50,
        deletes: 50,
        ..WHOLE
    },
    FileType {
        files: 12_000,
        users: 3,
        bytes: 96 * KB,
        request_bytes: 96 * KB,
        reads: 60,
        writes: 15,
        extends: 15,
        truncates: 5,
        deletes: 5,
        ..WHOLE
    },
];

/// 62.5, 12.5 and 25 %: 5, 1 and 2 users.
const TP: [FileType; 3] = [
    FileType {
        files: 8,
        users: 5,
        bytes: 210 * MB,
        request_bytes: 4 * KB,
        pattern: Pattern::Random,
        reads: 60,
        writes: 30,
        extends: 7,
        truncates: 3,
        deletes: 0,
    },
    FileType {
        files: 5,
        users: 1,
        bytes: 5 * MB,
        request_bytes: 256,
        pattern: Pattern::Random,
        reads: 2,
        extends: 98,
        ..WHOLE
    },
    FileType {
        files: 1,
        users: 2,
        bytes: 10 * MB,
        request_bytes: 128,
        pattern: Pattern::Random,
        reads: 5,
        extends: 95,
        ..WHOLE
    },
];

/// 4, 30, 33 and 33 %: 1, 7, 8 and 8 users.
const SC: [FileType; 4] = [
    FileType {
        files: 1,
        users: 1,
        bytes: 500 * MB,
        request_bytes: MB / 2,
        pattern: Pattern::Sequential,
        reads: 60,
        writes: 30,
        extends: 8,
        truncates: 2,
        deletes: 0,
    },
    FileType {
        files: 7,
        users: 7,
        bytes: 100 * MB,
        request_bytes: MB / 2,
        pattern: Pattern::Sequential,
        reads: 60,
        writes: 30,
        extends: 8,
        truncates: 2,
        deletes: 0,
    },
    FileType {
        files: 8,
        users: 8,
        bytes: 100 * MB,
        request_bytes: 8 * KB,
        pattern: Pattern::Random,
        reads: 60,
        writes: 30,
        extends: 8,
        truncates: 2,
        deletes: 0,
    },
    FileType {
        files: 10,
        users: 8,
        bytes: 10 * MB,
        request_bytes: 8 * KB,
        pattern: Pattern::Random,
        reads: 60,
        writes: 30,
        extends: 5,
        truncates: 0,
        deletes: 5,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_all_of_some_kind_and_users_have_the_table_s_shares() {
        let shares: [&[f64]; 3] = [&[4.0, 30.0, 33.0, 33.0], &[62.5, 12.5, 25.0], &[87.0, 13.0]];
        for (load, shares) in Load::ALL.into_iter().zip(shares) {
            for text_deletes in [false, true] {
                let types = load.types(&Assumptions {
                    text_deletes,
                    ..Assumptions::default()
                });
                let users: u32 = types.iter().map(|kind| kind.users).sum();
                assert_eq!(types.len(), shares.len());
                for (kind, share) in types.iter().zip(shares) {
                    let all = kind.reads + kind.writes + kind.extends;
                    assert_eq!(all + kind.truncates + kind.deletes, 100);
                    let percent = 100.0 * f64::from(kind.users) / f64::from(users);
                    assert!((percent - share).abs() < 1.0, "{percent} for {share}");
                }
            }
        }
    }
}
