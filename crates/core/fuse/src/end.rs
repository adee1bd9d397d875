//! How serving ends.

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By an unmount: the kernel held nothing back.
    Unmounted,
    /// The connection was cut: what the kernel still held is lost.
    Aborted,
    /// By an unmount, after the volume had been shut down: it is as a crash
    /// would leave it, and nothing is to be written to it.
    ShutDown,
}
