//! Real system calls against a file system in memory.

mod attributes;
mod content;
mod direct;
mod exerciser;
mod full;
mod handles;
mod idmap;
mod invalidation;
mod lifecycle;
mod malformed;
mod names;
mod support;

/// Not a test of its own: the server that others start, signal and kill.
#[test]
fn server_process() {
    support::server::serve_if_asked();
}
