//! Examines log-structured volumes independently of a mount. It reads the format, and
//! writes only through ordinary groups of the log.
//!
//! | module | task |
//! |---|---|
//! | [`mod@check`] | checks every structure of a volume that is not being written |
//! | [`mod@repair`] | repairs the findings of a check, without guessing |
//! | [`salvage`] | builds a new volume from the readable parts of a damaged one |
//! | [`verify`] | verifies the tree and the data of a volume in use |
//! | [`inspect`] | shows the structures of a volume, for people and programs |
//!
//! Source: Seltzer 1992, chapter 6 (relations between the structures of a log).

pub mod check;
pub mod inspect;
pub mod repair;
pub mod salvage;
pub mod verify;
