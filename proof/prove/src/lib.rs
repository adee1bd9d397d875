//! How Varve is put to the proof.
//!
//! | module | its part |
//! |---|---|
//! | [`operation`] | what workloads are made of, and stories as text |
//! | [`generator`] | random workloads |
//! | [`model`] | the tree as it should be, and what a crash may leave of it |
//! | [`contract`] | which trees a crash may leave, and the check |
//! | [`runner`], [`reference`](mod@reference) | operations on the real thing and the model, side by side |
//! | [`explorer`] | the power cut at every write, in every way |
//! | [`between`] | flushes between the partials of a group |
//! | [`bounded`] | all short workloads over a small tree |
//! | [`groups`] | crashes between groups, without a device |
//! | [`faults`] | devices that fail, lie and decay |
//! | [`applications`] | real programs on a recorded mount, and their own checkers |
//! | [`variants`] | the logs that it explores |
//! | [`in_place`] | FFS as a subject |
//! | [`virtual_log`] | VLFS as a subject |
//! | [`full`] | volumes filled and emptied again |
//! | [`space`] | volumes of any layout filled with anything, and emptied in any order |
//! | [`resized`] | another size and another name, cut short everywhere |
//! | [`traces`] | stories that catch a missing rule |
//! | [`transactions`] | histories that are judged, commits that are cut short, full volumes |
//! | [`leftover`] | what one life left torn and the next completes |
//! | [`lost`] | a durable partial that is lost, each in turn |
//! | [`crafted`] | partial segments that describe more than they hold |
//! | [`abstract_log`] | what small abstract models of the log share: a device, the search through stories |
//! | [`heads`] | the log with several heads, as such a model |
//! | [`holes`] | blocks written into holes of used segments, likewise |
//! | [`room`] | the accounts of room, likewise |
//! | [`images`], [`repair`] | damaged and crafted images, with checksums repaired |
//! | [`told`] | what a repair would change, or a mount refuse or pass over: a check reports it |
//! | [`toy`] | a layout simple enough to be right, and with bugs to be caught |
//! | [`mounted`], [`subjects`], [`strangers`] | what is tested, behind one interface, and cleaners of other processes beside it |
//! | [`tree`] | a whole tree as seen from outside |
//! | [`rows`] | all of this by name, for as long as there is time |
//! | [`failure`] | failures as stories, made short |
//!
//! Every run is decided by one seed, which it prints first. `VARVE_SEED` sets
//! it, `VARVE_PROVE_SCALE` multiplies the work.

pub mod abstract_log;
pub mod applications;
pub mod between;
pub mod bounded;
pub mod contract;
pub mod crafted;
pub mod explorer;
pub mod failure;
pub mod faults;
pub mod full;
pub mod generator;
pub mod groups;
pub mod heads;
pub mod holes;
pub mod images;
pub mod in_place;
pub mod kept;
pub mod leftover;
pub mod lost;
pub mod model;
pub mod mounted;
pub mod operation;
pub mod overwritten;
pub mod panics;
pub mod random;
pub mod reference;
pub mod repair;
pub mod resized;
pub mod room;
pub mod rows;
pub mod runner;
pub mod shipped;
pub mod slow_holes;
pub mod snapshots;
pub mod space;
pub mod spilled;
pub mod strangers;
pub mod subjects;
pub mod switch;
pub mod told;
pub mod toy;
pub mod traces;
pub mod transactions;
pub mod tree;
pub mod variants;
pub mod virtual_log;
