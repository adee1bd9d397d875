//! Room: what is counted and what is kept. Who is admitted, and when a checkpoint or
//! the cleaner must run for that, is `admission.rs`, above the cleaner, which asks
//! here. `docs/design/space.md` has the argument.
//!
//! **The invariant.** *From every reachable state, any sequence of removals, in any
//! order, with checkpoints and cleaning between them, ends with an empty volume.*
//! Four rules keep it:
//!
//! - **R1, a checkpoint always fits.** Nothing is admitted, appended or moved unless
//!   the log's room then holds what waits in memory, what folding all of it may
//!   write, and the usage table of one checkpoint more ([`room`]). What a fold may
//!   write is counted from the delta alone (`counts.rs`).
//! - **R2, what grows leaves room** for the inode map and the index nodes to be
//!   written twice and for the cleaner to move a batch: the floor ([`room`]).
//! - **R3, what lives fits**, metadata and twice that once more included, into what
//!   the reserve leaves ([`fit`]).
//! - **R4, removals are admitted under R1 alone.** Where that does not hold, what
//!   waits is appended, a checkpoint is taken, the cleaner works; while room is
//!   short, they wait for it (`admission.rs`).
//!
//! Source of the two forms of accounting: Seltzer's thesis, §6.2.2.

mod fit;
mod history;
mod marks;
mod room;
mod stock;

pub(crate) use fit::Fit;
pub(crate) use stock::Stock;
