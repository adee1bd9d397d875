//! What looks at log-structured volumes from outside: it reads the format and
//! writes, where it does, through ordinary groups of the log.
//!
//! | module | its part |
//! |---|---|
//! | [`mod@check`] | every structure of a volume that nobody writes to |
//! | [`mod@repair`] | mends what check found, as far as that takes no guess |
//! | [`salvage`] | builds a volume from whatever can still be found |
//! | [`verify`] | the tree and the data of a volume in use |
//! | [`inspect`] | what stands where, for people and programs |
//!
//! Source: Seltzer 1992, chapter 6 (what the log's structures say of each other).

pub mod check;
pub mod inspect;
pub mod repair;
pub mod salvage;
pub mod verify;
