//! Tests, models and explorers that show that Varve keeps its promises.
//!
//! | module | content |
//! |---|---|
//! | [`operation`] | operations of workloads, and stories as text |
//! | [`generator`] | random workloads |
//! | [`model`] | the correct tree, and the contents that a crash may leave |
//! | [`contract`] | the trees that a crash may leave, and the check |
//! | [`runner`], [`reference`](mod@reference) | operations on the subject and the model in parallel |
//! | [`explorer`] | the power cut at every write, in every manner |
//! | [`between`] | flushes between the partials of a group |
//! | [`bounded`] | all short workloads over a small tree |
//! | [`groups`] | crashes between groups, without a device |
//! | [`faults`] | devices that fail, lie and decay |
//! | [`applications`] | real programs on a recorded mount, and their own checkers |
//! | [`variants`] | the variants of the log that are explored |
//! | [`in_place`] | FFS as a subject |
//! | [`virtual_log`] | VLFS as a subject |
//! | [`full`] | volumes filled and emptied again |
//! | [`space`] | volumes of any layout filled with anything, and emptied in any order |
//! | [`resized`] | changes of size and label, interrupted everywhere |
//! | [`traces`] | stories that detect a missing rule |
//! | [`transactions`] | histories and their judgement, interrupted commits, full volumes |
//! | [`leftover`] | partials that one life left torn and the next completes |
//! | [`lost`] | a durable partial that is lost, each in turn |
//! | [`crafted`] | partial segments that describe more than they contain |
//! | [`abstract_log`] | common parts of the abstract models: a device, the search through stories |
//! | [`heads`] | an abstract model of the log with several heads |
//! | [`holes`] | an abstract model of blocks written into holes of used segments |
//! | [`room`] | an abstract model of the accounts of free space |
//! | [`images`], [`repair`] | damaged and crafted images, with checksums repaired |
//! | [`told`] | a check reports everything that a repair would change, or a mount refuse or skip |
//! | [`toy`] | a layout simple enough to be right, and with bugs to be found |
//! | [`mounted`], [`subjects`], [`strangers`] | subjects behind one interface, and cleaners of other processes |
//! | [`tree`] | a whole tree as seen through the file system |
//! | [`rows`] | all of this by name, for a given time |
//! | [`failure`] | failures as short stories |
//!
//! Every run follows from one seed, which is printed first. `VARVE_SEED` sets it,
//! `VARVE_PROVE_SCALE` multiplies the work.

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
