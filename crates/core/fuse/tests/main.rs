//! Real system calls against a file system in memory.

mod attributes;
mod content;
mod direct;
mod exerciser;
mod full;
mod handles;
mod idmap;
mod lifecycle;
mod malformed;
mod names;
mod support;
mod told;

/// Not a test of its own: the server that others start, signal and kill.
#[test]
fn server_process() {
    support::server::serve_if_asked();
}
